#!/usr/bin/python3
"""Health checks of real backends: nginx that is stopped, made slow, made to answer 500, cut off by a firewall,
and flapping; a restart in between; and the flows beside all that."""
import os
import signal
import threading
import time

import lib
from lib import VIP4, wait_until

HEALTH = {"type": "http", "path": "/name", "interval_ms": 100, "timeout_ms": 150, "rise": 2, "fall": 2}


def setup(lab):
    lab.start_backends()
    lab.start_daemon()
    lab.put_vip(health=HEALTH)
    lab.put_dips({b: 1 for b in lab.backends})
    wait_until("all DIPs up", lambda: all(d["health"]["state"] == "up" for d in lab.dips().values()))


def nginx(lab, backend):
    """The processes of a backend's nginx: the master and its worker."""
    return [int(p) for p in lib.sh("ip", "netns", "pids", lab.ns(backend)).split()]


def start_nginx(lab, backend):
    d = lab.dir / backend
    lab.spawn(backend, ["nginx", "-p", str(d), "-e", str(d / "error.log"), "-c", str(d / "nginx.conf")],
              d / "nginx.out")


def stop_nginx(lab, backend):
    for pid in nginx(lab, backend):
        os.kill(pid, signal.SIGKILL)
    wait_until(f"nginx on {backend} gone", lambda: not nginx(lab, backend))


def freeze(lab, backend, frozen):
    for pid in nginx(lab, backend):
        os.kill(pid, signal.SIGSTOP if frozen else signal.SIGCONT)


def health(lab, backend):
    return lab.api.get(f"/v1/vips/web/dips/{backend}/health")


def wait_state(lab, backend, state, timeout=5.0):
    wait_until(f"{backend} {state}", lambda: lab.dips()[backend]["state"] == state, timeout, 0.02)


def firewall(lab, backend, on):
    if on:
        lab.run(backend, "nft", "-f", "-", stdin="""
            table inet cut {
                chain in {
                    type filter hook input priority 0
                    tcp dport 80 drop
                }
            }
            """)
    else:
        lab.run(backend, "nft", "delete", "table", "inet", "cut")


class Knocker(threading.Thread):
    """Opens connections one after the other, and notes when and where each one ended up."""

    def __init__(self, lab):
        super().__init__(daemon=True)
        self.lab, self.answers, self.failures, self.end = lab, [], [], False
        self.start()

    def run(self):
        while not self.end:
            at = time.time()
            try:
                r = self.lab.get(sport=self.lab.fresh_port(), timeout=1)
                self.answers.append((at, r.backend))
            except OSError:
                self.failures.append(at)
            time.sleep(0.005)

    def stop(self):
        self.end = True
        self.join()


def when(text):
    """Seconds since 1970 of a time that the API shows."""
    stamp, ms = text.removesuffix("Z").split(".")
    return time.mktime(time.strptime(stamp, "%Y-%m-%dT%H:%M:%S")) - time.timezone + int(ms) / 1000


def transitions(lab, backend, state):
    return [h for h in health(lab, backend)["history"] if h["state"] == state]


def test_a_stopped_nginx_gets_no_packet_after_the_decision(lab):
    knocker = Knocker(lab)
    try:
        wait_until("answers of b1", lambda: any(b == "b1" for _, b in knocker.answers))
        stop_nginx(lab, "b1")
        wait_state(lab, "b1", "down")
        time.sleep(0.5)
    finally:
        knocker.stop()
    decided = when(transitions(lab, "b1", "down")[0]["at"])
    # A connection that began this long after the decision must not have met the dead backend.
    late = [at - decided for at in knocker.failures if at > decided]
    print(f"  {len(knocker.answers)} answers, {len(knocker.failures)} failures, the last began "
          f"{1000 * (max(knocker.failures) - decided):+.0f} ms from the decision")
    assert not [x for x in late if x > 0.1], late
    d = lab.dips()["b1"]
    assert d["admin_state"] == "up" and d["dcodes"] == 0 and d["effective_weight"] == 0, d
    assert "refused" in d["health"]["last_error"], d
    metrics = lab.api.call("GET", "/metrics").raw.decode()
    assert 'concury_dip_health{vip="web",dip="b1"} 0' in metrics, "no metric"
    assert 'concury_dip_health{vip="web",dip="b2"} 1' in metrics, "no metric"
    start_nginx(lab, "b1")
    wait_state(lab, "b1", "up")
    assert set(lab.count_connections(30)) == {"b1", "b2", "b3"}


def test_a_slow_and_a_failing_nginx_are_taken_out(lab):
    freeze(lab, "b2", True)
    wait_state(lab, "b2", "down")
    assert "no answer within 150 ms" in health(lab, "b2")["last_error"]
    freeze(lab, "b2", False)
    wait_state(lab, "b2", "up")
    conf = lab.dir / "b3" / "nginx.conf"
    good = conf.read_text()
    conf.write_text(good.replace('location = /name { return 200', 'location = /name { return 500', 1))
    os.kill(min(nginx(lab, "b3")), signal.SIGHUP)
    wait_state(lab, "b3", "down")
    assert health(lab, "b3")["last_error"] == "status 500, expected 200-399", health(lab, "b3")
    conf.write_text(good)
    os.kill(min(nginx(lab, "b3")), signal.SIGHUP)
    wait_state(lab, "b3", "up")


def test_a_firewall_for_two_seconds_costs_idle_connections_nothing(lab):
    for b in lab.backends:
        wait_state(lab, b, "up")
    held = [lib.Connection(lab, VIP4, 80, lab.fresh_port()) for _ in range(30)]
    homes = [c.get("/name").backend for c in held]
    assert set(homes) == {"b1", "b2", "b3"}, homes
    dcodes = {b: d["dcodes"] for b, d in lab.dips().items()}
    firewall(lab, "b1", True)
    try:
        wait_state(lab, "b1", "down")
        assert "no answer" in health(lab, "b1")["last_error"]
        time.sleep(2)
        assert set(lab.count_connections(20)) == {"b2", "b3"}
        for c, home in zip(held, homes):
            if home != "b1":
                assert c.get("/name").backend == home
    finally:
        firewall(lab, "b1", False)
    wait_state(lab, "b1", "up")
    for c, home in zip(held, homes):
        assert c.get("/name").backend == home
        c.close()
    assert {b: d["dcodes"] for b, d in lab.dips().items()} == dcodes
    lab.assert_consistent()


def test_a_restart_goes_on_with_what_was_known(lab):
    stop_nginx(lab, "b1")
    wait_state(lab, "b1", "down")
    lab.api.put("/v1/vips/web/dips/b2/health-override",
                {"state": "down", "reason": "new disk", "ttl_s": 600})
    assert lab.dips()["b2"]["state"] == "down"
    assert "api: uid:0: PUT /v1/vips/web/dips/b2/health-override" in lab.log.read_text()
    since = health(lab, "b1")["since"]
    for sig in (signal.SIGKILL, signal.SIGTERM):
        lab.stop_daemon(sig)
        lab.start_daemon()
        dips = lab.dips()  # before any check can have ended thrice
        assert dips["b1"]["state"] == "down" and dips["b2"]["state"] == "down", dips
        assert dips["b1"]["health"]["since"] == since, dips["b1"]
        assert dips["b2"]["health"]["override"]["reason"] == "new disk"
        assert set(lab.count_connections(10)) == {"b3"}
    start_nginx(lab, "b1")
    wait_state(lab, "b1", "up")
    assert lab.dips()["b2"]["state"] == "down" and health(lab, "b2")["state"] == "up"
    lab.api.delete("/v1/vips/web/dips/b2/health-override")
    assert lab.dips()["b2"]["state"] == "up"
    assert health(lab, "b2")["override"] is None


def test_an_override_ends_by_itself(lab):
    lab.api.put("/v1/vips/web/dips/b2/health-override", {"state": "down", "reason": "x", "ttl_s": 1})
    assert lab.dips()["b2"]["state"] == "down"
    wait_state(lab, "b2", "up", 3)
    causes = [h["cause"] for h in health(lab, "b2")["history"][:2]]
    assert causes == ["the override's time is over", "override: x"], causes


def test_a_flapping_nginx_is_kept_out(lab):
    for _ in range(3):
        freeze(lab, "b3", True)
        wait_state(lab, "b3", "down")
        freeze(lab, "b3", False)
        wait_until("b3 up or damped", lambda: lab.dips()["b3"]["state"] == "up"
                   or health(lab, "b3")["damped"])
    h = health(lab, "b3")
    assert h["damped"] and h["state"] == "down", h
    time.sleep(1)
    h = health(lab, "b3")
    assert h["state"] == "down" and h["last_result"] == "passed" and h["consecutive"] > 4, h
    # Damping off: it may come back at once. The check and its results are the same.
    lab.api.patch("/v1/vips/web", {"health": {"damping_half_life_s": 0}})
    wait_state(lab, "b3", "up")
    assert health(lab, "b3")["consecutive"] >= h["consecutive"]


def test_the_last_ones_are_not_taken_out_and_a_slow_start_ramps(lab):
    lab.api.patch("/v1/vips/web", {"health": {"slow_start_s": 3}})
    for b in lab.backends:
        firewall(lab, b, True)
    wait_until("min_up", lambda: all(d["health"]["ignored"] for d in lab.dips().values()))
    assert all(d["state"] == "up" and d["health"]["state"] == "down" for d in lab.dips().values())
    assert any("fewer than min_up" in w for w in lab.api.get("/v1/status")["warnings"])
    assert "fewer than min_up (1) DIPs are up" in lab.log.read_text()
    firewall(lab, "b2", False)
    wait_state(lab, "b1", "down")
    assert lab.dips()["b2"]["state"] == "up" and not lab.dips()["b2"]["health"]["ignored"]
    firewall(lab, "b1", False)
    firewall(lab, "b3", False)
    wait_state(lab, "b1", "up")
    seen = set()
    wait_until("b1 at full weight", lambda: seen.add(lab.dips()["b1"]["effective_weight"]) or 1 in seen)
    assert len(seen) >= 5 and min(seen) <= 0.3, seen
    lab.assert_consistent()


if __name__ == "__main__":
    lib.main("health", [f for n, f in list(globals().items()) if n.startswith("test_")], setup)
