#!/usr/bin/python3
"""An IPv6 VIP, beside an IPv4 one on the same port."""

import lib
from lib import CLIENT6, VIP4, VIP6

WEIGHTS = {"b1": 1, "b2": 3}


def setup(lab):
    lab.start_backends()
    lab.start_daemon()
    lab.put_vip("six", VIP6)
    lab.put_dips(WEIGHTS, "six", v6=True)
    lab.put_vip("four", VIP4)
    lab.put_dips({"b3": 1}, "four")


def test_shares(lab):
    lib.assert_shares(lab.count_connections(1500, VIP6), WEIGHTS)
    assert lab.count_connections(100, VIP4) == {"b3": 100}
    assert lab.api.get("/v1/vips/six")["address"] == VIP6


def test_explain(lab):
    for _ in range(100):
        sport = lab.fresh_port()
        landed = lab.get(address=VIP6, sport=sport).backend
        e = lab.api.get(f"/v1/explain?vip=six&src={CLIENT6}&sport={sport}")
        assert e["dip"] == landed and e["known"], (e, landed)


def test_dip_of_the_other_family(lab):
    """By l2 only the MAC counts, so a DIP may be named by its IPv4 address."""
    lab.api.put("/v1/vips/six/dips/v4", {"address": lab.address("b3"), "weight": 4})
    lab.wait_up(["v4"], "six")
    counts = lab.count_connections(400, VIP6)
    lib.assert_shares(counts, {**WEIGHTS, "b3": 4})
    assert lab.api.call("DELETE", "/v1/vips/six/dips/v4?force=true").status == 200
    lib.assert_shares(lab.count_connections(400, VIP6), WEIGHTS)


def test_connections_stay(lab):
    downloads = [lib.Download(lab, VIP6, 48 << 10) for _ in range(20)]
    keep = [lib.Connection(lab, VIP6) for _ in range(30)]
    homes = [c.get("/name").backend for c in keep]
    for b, w in (("b1", 5), ("b2", 1)):
        assert lab.api.patch(f"/v1/vips/six/dips/{b}", {"weight": w})["change"]["flows_moved"] == 0
    lab.put_dips({"b4": 6}, "six", v6=True)
    a = lab.api.call("DELETE", "/v1/vips/six/dips/b2")
    assert a.status == 202 and a.json["change"]["flows_moved"] == 0, a
    lib.assert_shares(lab.count_connections(800, VIP6), {"b1": 5, "b2": 0, "b4": 6})
    assert [c.get("/name").backend for c in keep] == homes
    for d in downloads:
        d.finish()
    for c in keep:
        c.close()


def test_upload(lab):
    assert lab.upload(VIP6)


def test_kernel_never_answered(lab):
    assert lab.resets_sent() == 0
    lab.assert_consistent()
    assert not any(lab.counters()["drops"].values()), lab.counters()["drops"]


if __name__ == "__main__":
    lib.main("ipv6", [
        test_shares, test_explain, test_dip_of_the_other_family, test_connections_stay, test_upload,
        test_kernel_never_answered,
    ], setup, backends=4)
