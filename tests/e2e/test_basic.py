#!/usr/bin/python3
"""The main job with nothing special: shares, the life of resources, explain, counters, no RST."""

import lib
from lib import CLIENT4, VIP4

WEIGHTS = {"b1": 1, "b2": 1, "b3": 2, "b4": 4}


def setup(lab):
    lab.start_backends(ports=(80, 8080))
    lab.start_daemon()
    lab.put_vip()
    lab.put_dips(WEIGHTS)


def test_ready(lab):
    status = lab.api.get("/v1/status")
    assert status["ready"] is True and status["generation"] > 0, status
    queues = [q for w in status["workers"] for q in w["queues"]]
    assert [(q["interface"], q["queue"]) for q in queues] == [("eth0", 0)], status
    # veth has no zero-copy, and native XDP must not silently become generic.
    assert queues[0]["xdp_mode"] == "copy", status
    for url in ("/livez", "/readyz"):
        assert lab.api.call("GET", url).status == 200, url


def test_shares_follow_weights(lab):
    dips = lab.dips()
    total = sum(d["dcodes"] for d in dips.values())
    assert {n: d["dcodes"] * 8 for n, d in dips.items()} == \
        {n: w * total for n, w in WEIGHTS.items()}, dips
    lib.assert_shares(lab.count_curls(4000), WEIGHTS)
    lab.assert_consistent()


def test_shares_follow_new_weights(lab):
    for weights in ({"b1": 5, "b2": 1, "b3": 1, "b4": 1}, {"b1": 0, "b2": 3, "b3": 0, "b4": 1},
                    WEIGHTS):
        for name, weight in weights.items():
            change = lab.api.patch(f"/v1/vips/web/dips/{name}", {"weight": weight})["change"]
            assert change["flows_moved"] == 0, change
        lib.assert_shares(lab.count_connections(1000), weights)
    lab.assert_consistent()


def test_explain_agrees(lab):
    reasons = set()
    for _ in range(300):
        sport = lab.fresh_port()
        query = f"/v1/explain?vip=web&src={CLIENT4}&sport={sport}"
        before = lab.api.get(query)
        landed = lab.get(sport=sport).backend
        after = lab.api.get(query)
        assert before["dip"] == landed == after["dip"], (before, landed, after)
        assert not before["known"] and after["known"], (before, after)
        reasons.add(before["reason"])
    assert reasons <= {"home", "pin"} and "home" in reasons, reasons
    # curl says the same.
    for _ in range(20):
        sport = lab.fresh_port()
        landed = lab.run("client", "curl", "-sS", "--local-port", sport, f"http://{VIP4}/name").strip()
        assert lab.api.get(f"/v1/explain?vip=web&src={CLIENT4}&sport={sport}")["dip"] == landed


def settled_counters(lab):
    """Counters once no packet is under way."""
    seen = []

    def same():
        seen.append(lab.counters())
        return len(seen) > 1 and seen[-1] == seen[-2]
    lib.wait_until("counters at rest", same, 10, 0.5)
    return seen[-1]


def test_counters_add_up(lab):
    before = settled_counters(lab)
    lab.count_connections(500)
    after = settled_counters(lab)

    def grown(pick):
        return pick(after) - pick(before)
    rx = grown(lambda c: sum(i["rx_packets"] for i in c["interfaces"]))
    tx = grown(lambda c: sum(i["tx_packets"] for i in c["interfaces"]))
    drops = grown(lambda c: sum(c["drops"].values()))
    vip = grown(lambda c: c["vips"][0]["packets"])
    by_dip = grown(lambda c: sum(d["packets"] for d in c["vips"][0]["dips"]))
    # SYN, ACK, request, ACK of the answer and FIN, its ACK: five packets or six.
    assert 5 * 500 <= rx <= 8 * 500, rx
    assert rx == tx + drops, (rx, tx, drops)
    assert drops == 0, after["drops"]
    assert vip == by_dip == tx, (vip, by_dip, tx)
    bytes_rx = grown(lambda c: sum(i["rx_bytes"] for i in c["interfaces"]))
    bytes_tx = grown(lambda c: sum(i["tx_bytes"] for i in c["interfaces"]))
    assert bytes_rx == bytes_tx > 54 * rx, (bytes_rx, bytes_tx)
    assert grown(lambda c: sum(d["bytes"] for d in c["vips"][0]["dips"])) == bytes_tx
    for reason in ("malformed", "fragment_timeout", "no_dip", "no_neighbor", "frame_too_big", "tx_full",
                   "learn_overflow"):
        assert reason in after["drops"], after["drops"]


def test_life_of_resources(lab):
    api = lab.api
    vip = api.call("PUT", "/v1/vips/second", {"address": VIP4, "port": 8080, "protocol": "tcp"})
    assert vip.status == 201, vip
    assert vip.json["id"] == "second" and vip.json["mode"] == "l2" and \
        vip.json["closing_pin_s"] == 15 and vip.json["idle_timeout_s"]["established"] == 7200, vip
    assert set(vip.json["change"]) >= {"generation", "flows_known", "flows_pinned", "flows_moved",
                                       "dcodes_moved", "build_us", "pause_us"}, vip
    # What was read can be put back, and that changes nothing.
    read = api.get("/v1/vips/second")
    again = api.call("PUT", "/v1/vips/second", read)
    assert again.status == 200, again
    assert api.get("/v1/vips/second") == read
    assert api.patch("/v1/vips/second", {"closing_pin_s": 3})["closing_pin_s"] == 3
    assert api.patch("/v1/vips/second", {"closing_pin_s": None})["closing_pin_s"] == 15

    dip = api.call("PUT", "/v1/vips/second/dips/only", {"address": lab.address("b2"), "weight": 3})
    assert dip.status == 201 and dip.json["weight"] == 3 and dip.json["mac"] is None, dip
    lab.wait_up(["only"], "second")
    assert lab.get(port=8080).backend == "b2"
    lib.assert_shares(lab.count_connections(500), WEIGHTS)  # the other VIP goes on
    assert [v["id"] for v in api.get("/v1/vips")["items"]] == ["second", "web"]
    assert api.get("/v1/vips/second/dips/only")["flows"] >= 1

    assert api.call("DELETE", "/v1/vips/second/dips/only?force=true").status == 200
    assert api.call("GET", "/v1/vips/second/dips/only").status == 404
    before = lab.counters()["drops"]["no_dip"]
    try:
        lab.get(port=8080, timeout=2)
        raise AssertionError("answered without a DIP")
    except TimeoutError:
        pass  # and not ConnectionRefusedError: the kernel was not asked
    assert lab.counters()["drops"]["no_dip"] > before
    assert api.call("DELETE", "/v1/vips/second?force=true").status == 200
    assert api.call("GET", "/v1/vips/second").status == 404
    # Not ours any more: it is the kernel's, where nobody listens.
    try:
        lab.get(port=8080, timeout=2)
        raise AssertionError("answered without a VIP")
    except ConnectionRefusedError:
        pass


def test_upload(lab):
    before = settled_counters(lab)
    assert lab.upload()
    after = settled_counters(lab)
    assert after["drops"] == before["drops"], after["drops"]
    got = after["interfaces"][0]["rx_bytes"] - before["interfaces"][0]["rx_bytes"]
    assert got > 16 << 20, got


def test_static_mac(lab):
    """A MAC in the API goes before the neighbour table."""
    lab.api.patch("/v1/vips/web/dips/b1", {"mac": lab.mac("b2")})
    counts = lab.count_connections(800)
    assert "b1" not in counts and counts["b2"] > 120, counts
    assert lab.api.patch("/v1/vips/web/dips/b1", {"mac": None})["mac"] is None
    lib.assert_shares(lab.count_connections(800), WEIGHTS)


def test_kernel_never_answered(lab):
    # Only the one connection after the VIP was deleted.
    assert lab.resets_sent() == 1, lab.resets_sent()
    # Only flows of the VIP that lost its only DIP.
    assert lab.assert_consistent()["flows_lost_total"] <= 1


if __name__ == "__main__":
    lib.main("basic", [
        test_ready, test_shares_follow_weights, test_shares_follow_new_weights, test_explain_agrees,
        test_counters_add_up, test_life_of_resources, test_upload, test_static_mac,
        test_kernel_never_answered,
    ], setup, backends=4)
