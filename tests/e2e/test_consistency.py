#!/usr/bin/python3
"""The promise: whatever happens to weights and pool, open connections stay on their backends. Slow
downloads and keep-alive connections are open all the while; new connections follow the new weights."""

import time

import lib
from lib import CLIENT4, VIP4

RATE = 16 << 10  # bytes a second: 2 MiB would last two minutes, and are let go at the end
WEIGHTS = {"b1": 1, "b2": 1, "b3": 2, "b4": 4}


class Crowd:
    """Connections that must not move."""

    def __init__(self, lab, downloads, keep_alives):
        self.lab = lab
        self.downloads = [lib.Download(lab, VIP4, RATE) for _ in range(downloads)]
        self.keep = [lib.Connection(lab, VIP4) for _ in range(keep_alives)]
        self.home = [c.get("/name").backend for c in self.keep]

    def ask(self):
        """Every keep-alive connection still speaks with its backend."""
        for c, home in zip(self.keep, self.home):
            now = c.get("/name").backend
            assert now == home, f"port {c.sport} was on {home}, is on {now}"
        broken = [d.error for d in self.downloads if d.error]
        assert not broken, broken

    def on(self, backend):
        return sum(d.backend == backend for d in self.downloads) + self.home.count(backend)

    def leave(self, backend):
        """Close what is on a backend."""
        for c, home in zip(self.keep, self.home):
            if home == backend:
                c.close()
        stay = [(c, h) for c, h in zip(self.keep, self.home) if h != backend]
        self.keep, self.home = [c for c, _ in stay], [h for _, h in stay]


crowd = None


def setup(lab):
    lab.start_backends()
    lab.start_daemon()
    # A flow that ended stays pinned for so long only.
    lab.put_vip(closing_pin_s=1)
    lab.put_dips(WEIGHTS)


def changed(answer):
    assert answer["change"]["flows_moved"] == 0, answer["change"]
    return answer["change"]


def shares(lab, weights, n=1000):
    lib.assert_shares(lab.count_connections(n), weights)


def test_crowd_arrives(lab):
    global crowd
    crowd = Crowd(lab, downloads=40, keep_alives=80)
    crowd.ask()
    assert all(crowd.on(b) for b in WEIGHTS), {b: crowd.on(b) for b in WEIGHTS}
    assert lab.consistency()["flows_known"] >= 120


def test_weight_change(lab):
    change = changed(lab.api.patch("/v1/vips/web/dips/b1", {"weight": 8}))
    assert change["flows_known"] >= 120 and change["dcodes_moved"] > 0, change
    assert change["flows_pinned"] > 0, change  # half of the Dcodes went to b1
    crowd.ask()
    # explain says "pin" for those, and where they are.
    reasons = set()
    for c, home in zip(crowd.keep, crowd.home):
        e = lab.api.get(f"/v1/explain?vip=web&src={CLIENT4}&sport={c.sport}")
        assert e["dip"] == home and e["known"], (e, home)
        reasons.add(e["reason"])
    assert "pin" in reasons and "home" in reasons, reasons
    shares(lab, {"b1": 8, "b2": 1, "b3": 2, "b4": 4})
    crowd.ask()


def test_dip_added(lab):
    changed(lab.api.put("/v1/vips/web/dips/b5", {"address": lab.address("b5"), "weight": 15}))
    lab.wait_up(["b5"])
    crowd.ask()
    shares(lab, {"b1": 8, "b2": 1, "b3": 2, "b4": 4, "b5": 15})
    crowd.ask()


def test_weight_zero_drains(lab):
    on_b2 = crowd.on("b2")
    changed(lab.api.patch("/v1/vips/web/dips/b2", {"weight": 0}))
    dip = lab.dips()["b2"]
    assert dip["state"] == "draining" and dip["dcodes"] == 0 and dip["flows"] >= on_b2, dip
    shares(lab, {"b1": 8, "b2": 0, "b3": 2, "b4": 4, "b5": 15})
    crowd.ask()


def test_delete_drains(lab):
    on_b3 = crowd.on("b3")
    a = lab.api.call("DELETE", "/v1/vips/web/dips/b3")
    assert a.status == 202 and a.json["flows_remaining"] >= on_b3, a
    assert a.json["change"]["flows_moved"] == 0, a
    shares(lab, {"b1": 8, "b3": 0, "b4": 4, "b5": 15})
    crowd.ask()
    assert lab.dips()["b3"]["state"] == "draining"
    # PUT cancels the drain.
    a = lab.api.call("PUT", "/v1/vips/web/dips/b3", {"address": lab.address("b3"), "weight": 4})
    assert a.status == 200 and a.json["state"] == "up" and a.json["change"]["flows_moved"] == 0, a
    shares(lab, {"b1": 8, "b3": 4, "b4": 4, "b5": 15})
    crowd.ask()


def test_cut_of_another_dip(lab):
    # b6 holds flows, but none of the crowd's.
    lab.put_dips({"b6": 8})
    changed(lab.api.patch("/v1/vips/web/dips/b5", {"weight": 4}))
    crowd.ask()
    shares(lab, {"b1": 8, "b3": 4, "b4": 4, "b5": 4, "b6": 8}, 600)
    lost = lab.consistency()["flows_lost_total"]
    a = lab.api.call("DELETE", "/v1/vips/web/dips/b6?force=true")
    assert a.status == 200 and "b6" not in lab.dips(), a
    crowd.ask()
    shares(lab, {"b1": 8, "b3": 4, "b4": 4, "b5": 4}, 600)
    crowd.ask()
    assert lab.consistency()["flows_lost_total"] >= lost


def test_many_changes(lab):
    """Changes as fast as they go, with connections opening all the while."""
    end = time.monotonic() + 6
    n = 0
    while time.monotonic() < end:
        for name, weight in (("b1", 1 + n % 7), ("b3", n % 3), ("b4", 9 - n % 5), ("b5", n % 4)):
            changed(lab.api.patch(f"/v1/vips/web/dips/{name}", {"weight": weight}))
            lab.get()
        n += 1
    assert n >= 5, n
    crowd.ask()
    late = [lib.Connection(lab, VIP4) for _ in range(20)]
    homes = [c.get("/name").backend for c in late]
    for name in ("b1", "b3", "b4", "b5"):
        changed(lab.api.patch(f"/v1/vips/web/dips/{name}", {"weight": 2}))
        assert [c.get("/name").backend for c in late] == homes
    for c in late:
        c.close()


def test_all_downloads_finish(lab):
    for d in crowd.downloads:
        d.finish()
    crowd.ask()
    assert {d.backend for d in crowd.downloads} == set(WEIGHTS)


def test_drained_dip_goes(lab):
    """A deleted DIP goes when its last flow has ended."""
    a = lab.api.call("DELETE", "/v1/vips/web/dips/b4")
    assert a.status == 202 and a.json["flows_remaining"] > 0, a
    crowd.ask()
    crowd.leave("b4")
    lib.wait_until("b4 gone", lambda: "b4" not in lab.dips(), 20)
    crowd.ask()


def test_nothing_was_violated(lab):
    c = lab.consistency()
    assert c["violations_total"] == 0 and c["flows_unlearned_total"] == 0, c
    assert c["publishes_total"] > 20 and c["max_pause_us"] > 0, c
    assert lab.resets_sent() == 0
    for k in ("malformed", "fragment_timeout", "tx_full", "no_dip", "no_neighbor"):
        assert lab.counters()["drops"][k] == 0, lab.counters()["drops"]


if __name__ == "__main__":
    lib.main("consistency", [
        test_crowd_arrives, test_weight_change, test_dip_added, test_weight_zero_drains,
        test_delete_drains, test_cut_of_another_dip, test_many_changes, test_all_downloads_finish,
        test_drained_dip_goes, test_nothing_was_violated,
    ], setup, backends=6)
