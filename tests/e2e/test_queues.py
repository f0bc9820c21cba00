#!/usr/bin/python3
"""Two queues, two workers: each worker forwards, flows stay, and both are parked by every publish."""

import lib
from lib import VIP4

WEIGHTS = {"b1": 1, "b2": 2, "b3": 1}


def setup(lab):
    lab.start_backends()
    lab.start_daemon("--workers", "2")
    lab.put_vip(closing_pin_s=1)
    lab.put_dips(WEIGHTS)


def test_both_queues_are_served(lab):
    status = lab.api.get("/v1/status")
    queues = [sorted((q["interface"], q["queue"]) for q in w["queues"]) for w in status["workers"]]
    assert sorted(queues) == [[("eth0", 0)], [("eth0", 1)]], status
    lib.assert_shares(lab.count_connections(2000), WEIGHTS)
    # The kernel spread the connections over both.
    stats = lab.run("lb", "ethtool", "-S", "eth0")
    packets = {line.split(":")[0].strip(): int(line.split(":")[1]) for line in stats.splitlines()
               if "xdp_packets" in line and line.strip().startswith("rx_queue_")}
    assert len(packets) == 2 and min(packets.values()) > 1000, stats


def test_flows_stay(lab):
    downloads = [lib.Download(lab, VIP4, 48 << 10) for _ in range(30)]
    keep = [lib.Connection(lab, VIP4) for _ in range(60)]
    homes = [c.get("/name").backend for c in keep]
    for n in range(20):
        for b, w in (("b1", 1 + n % 5), ("b2", n % 3), ("b3", 4)):
            change = lab.api.patch(f"/v1/vips/web/dips/{b}", {"weight": w})["change"]
            assert change["flows_moved"] == 0, change
            lab.get()
        if n % 5 == 0:
            assert [c.get("/name").backend for c in keep] == homes
    for d in downloads:
        d.finish()
    assert [c.get("/name").backend for c in keep] == homes
    for c in keep:
        c.close()


def test_counters_add_up(lab):
    def same():
        seen.append(lab.counters())
        return len(seen) > 1 and seen[-1] == seen[-2]
    seen = []
    lib.wait_until("counters at rest", same, 10, 0.5)
    c = seen[-1]
    rx, tx = (sum(i[k] for i in c["interfaces"]) for k in ("rx_packets", "tx_packets"))
    assert rx == tx + sum(c["drops"].values()), c
    assert tx == sum(d["packets"] for v in c["vips"] for d in v["dips"]), c


def test_one_worker_for_both(lab):
    """After a restart with one worker, which then owns both queues, all flows are still known."""
    keep = [lib.Connection(lab, VIP4, timeout=30) for _ in range(60)]
    homes = [c.get("/name").backend for c in keep]
    assert lab.stop_daemon() == 0
    lab.start_daemon("--workers", "1")
    status = lab.api.get("/v1/status")
    assert [len(w["queues"]) for w in status["workers"]] == [2], status
    assert status["state_file"] == "kept", status
    for b, w in (("b1", 7), ("b2", 1), ("b3", 1)):
        change = lab.api.patch(f"/v1/vips/web/dips/{b}", {"weight": w})["change"]
        assert change["flows_moved"] == 0, change
    assert [c.get("/name").backend for c in keep] == homes
    lib.assert_shares(lab.count_connections(800), {"b1": 7, "b2": 1, "b3": 1})
    for c in keep:
        c.close()


def test_too_many_workers(lab):
    assert lab.stop_daemon() == 0
    code, out = lab.run_daemon(*lab.daemon_argv("--workers", "3")[1:])
    assert code == 1 and "worker" in out.splitlines()[-1], (code, out)
    lab.start_daemon("--workers", "2")
    assert lab.get().status == 200
    assert lab.resets_sent() == 0
    assert lab.consistency()["violations_total"] == 0


if __name__ == "__main__":
    lib.main("queues", [
        test_both_queues_are_served, test_flows_stay, test_counters_add_up,
        test_one_worker_for_both, test_too_many_workers,
    ], setup, backends=3, queues=2)
