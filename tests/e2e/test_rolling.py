#!/usr/bin/python3
"""A rolling replacement of all backends, one at a time, under wrk and long downloads: nobody notices.
What operators watch meanwhile: the drain's progress, audits, metrics."""

import datetime
import re
import signal
import time

import lib
from lib import VIP4

OLD, NEW = ("b1", "b2", "b3"), ("b4", "b5", "b6")
RATE = 320 << 10  # bytes a second: 2 MiB last some 6 s
DRAIN_S = 60
wrk = None
metrics_before = None


def setup(lab):
    lab.start_backends()
    lab.start_daemon()
    # What has ended gives its DIP back soon, so that a drained one is soon empty.
    lab.put_vip(closing_pin_s=1, drain_timeout_s=DRAIN_S,
                idle_timeout_s={"established": 600, "half_open": 4, "closing": 2, "udp": 60})
    lab.put_dips({b: 1 for b in OLD})
    # wrk must not come back to a port while its last connection is still remembered, or a drained
    # backend keeps it; a kernel goes through its ports in two turns, the even and the odd ones. So
    # it pauses a little before each request: some 1,000 connections a second, however fast the machine.
    (lab.dir / "pause.lua").write_text("function delay() return 3 end\n")
    lab.run("client", "sysctl", "-qw", "net.ipv4.ip_local_port_range=4000 60999")


def metrics(lab):
    """GET /metrics as {series: value}."""
    a = lab.api.call("GET", "/metrics")
    assert a.status == 200, a
    assert a.headers["Content-Type"] == "text/plain; version=0.0.4; charset=utf-8", a.headers
    lines = [x for x in a.raw.decode().splitlines() if not x.startswith("#")]
    return {series: float(value) for series, value in (x.rsplit(" ", 1) for x in lines)}


def audit(lab):
    a = lab.api.call("POST", "/v1/audit")
    assert a.status == 200 and a.json["flows_misplaced"] == 0, a
    return a.json


def test_wrk_starts(lab):
    """Every request over a connection of its own: one that is kept alive would keep its backend."""
    global wrk, metrics_before
    wrk = lab.spawn("client", ["wrk", "-t1", "-c4", "-d120s", "--timeout", "10s", "-s",
                               str(lab.dir / "pause.lua"), "-H", "Connection: close",
                               f"http://{VIP4}/name"], lab.dir / "wrk.out")
    lib.wait_until("wrk's connections", lambda: lab.consistency()["flows_opened_total"] > 500)
    metrics_before = metrics(lab)


def start_downloads(lab, backend):
    """Downloads all over, some of them from this backend."""
    downloads = []
    while sum(d.backend == backend for d in downloads) < 3:
        assert len(downloads) < 60, [d.backend for d in downloads]
        downloads.append(lib.Download(lab, VIP4, RATE))
    return downloads


def watch_drain(lab, old, first, downloads):
    """Until it is gone; what GET tells of it is plausible all the while."""
    deadline = first["deadline"]
    start = time.monotonic()
    looks_in_time = 0
    while (dip := lab.dips().get(old)) and time.monotonic() - start < 30:
        drain = dip["drain"]
        assert dip["state"] == "draining" and drain["deadline"] == deadline, dip
        assert drain["then"] == "cut" and drain["flows_remaining"] >= dip["flows"] - 50, dip
        age = time.monotonic() - start
        assert drain["oldest_age_s"] <= age + 60, (drain, age)
        if any(d.backend == old and d.is_alive() for d in downloads):
            # They are the oldest, and opened before the drain began.
            assert drain["oldest_age_s"] >= age - 1, (drain, age)
            looks_in_time += 1
        audit(lab)
        time.sleep(0.2)
    assert not dip, dip
    assert looks_in_time > 3


def replace(lab, old, new):
    downloads = start_downloads(lab, old)
    lab.put_dips({new: 1})
    a = lab.api.call("DELETE", f"/v1/vips/web/dips/{old}")
    assert a.status == 202 and a.json["flows_remaining"] >= 3, a
    assert a.json["change"]["flows_moved"] == 0, a
    drain = a.json["drain"]
    assert drain["flows_remaining"] == a.json["flows_remaining"], a
    at = datetime.datetime.fromisoformat(drain["deadline"].replace("Z", "+00:00"))
    left = (at - datetime.datetime.now(datetime.timezone.utc)).total_seconds()
    assert DRAIN_S - 5 < left <= DRAIN_S + 1, (drain, left)
    watch_drain(lab, old, drain, downloads)
    for d in downloads:
        d.join(30)
        assert d.ok, d.error
    assert wrk.poll() is None, "wrk has ended"


def test_first_is_replaced(lab):
    replace(lab, "b1", "b4")


def test_second_is_replaced(lab):
    replace(lab, "b2", "b5")


def test_third_is_replaced(lab):
    replace(lab, "b3", "b6")


def test_wrk_saw_nothing(lab):
    wrk.send_signal(signal.SIGINT)
    wrk.wait(20)
    out = (lab.dir / "wrk.out").read_text()
    requests = re.search(r"(\d+) requests in", out)
    assert requests and int(requests.group(1)) > 1000, out
    assert "Socket errors" not in out and "Non-2xx" not in out, out
    assert set(lab.dips()) == set(NEW), lab.dips()
    lib.assert_shares(lab.count_connections(300), {b: 1 for b in NEW})


def test_nothing_was_lost(lab):
    c = lab.assert_consistent()
    assert c["flows_lost_total"] == 0 and c["orphans_total"] == 0, c
    assert c["audits_total"] > 15, c
    assert c["publish_pause_us"]["count"] == c["publishes_total"], c
    assert c["flows_known"] == sum(c[f"flows_{k}"] for k in
                                   ("half_open", "established", "closing", "unproven")), c
    a = audit(lab)
    assert a["flows_checked"] > 0 and a["flows_of_down_dips"] == 0, a
    assert lab.resets_sent() == 0


def test_metrics_are_prometheus(lab):
    """promtool takes them, but for three names that GET /v1/consistency gives to gauges."""
    text = lab.api.call("GET", "/metrics").raw.decode()
    out = lib.sh("promtool", "check", "metrics", stdin=text, check=False)
    known = re.compile(r"concury_consistency_(last_build|last_pause|max_pause)_us "
                       r"metric names should not contain abbreviated units")
    bad = [x for x in out.splitlines() if x and not known.fullmatch(x)]
    assert not bad, bad
    # And it is no promtool that takes everything.
    for broken in ("concury_x 1\n", text.replace("} 1\n", "} one\n")):
        out = lib.sh("promtool", "check", "metrics", stdin=broken, check=False)
        assert [x for x in out.splitlines() if x and not known.fullmatch(x)], broken[:200]


def test_series_live_as_long_as_their_objects(lab):
    now = metrics(lab)
    consistency = lab.consistency()
    for name in ("violations_total", "orphans_total", "publishes_total", "flows_lost_total"):
        assert now[f"concury_consistency_{name}"] == consistency[name], name
    assert now['concury_publish_pause_seconds_bucket{le="+Inf"}'] == consistency["publishes_total"]
    for b in OLD:
        assert f'concury_dip_packets_total{{vip="web",dip="{b}"}}' in metrics_before
    gone = {s for s in now if any(f'dip="{b}"' in s for b in OLD)}
    assert not gone, gone
    fell = {s: (was, now[s]) for s, was in metrics_before.items()
            if s in now and re.search(r"_(total|count|sum|bucket)\b", s) and now[s] < was}
    assert not fell, fell
    counters = lab.counters()["vips"][0]
    assert now['concury_vip_packets_total{vip="web"}'] <= counters["packets"]
    lab.api.delete("/v1/vips/web?force=true")
    assert not [s for s in metrics(lab) if 'vip="web"' in s]


def test_a_vip_drains(lab):
    """A VIP that is deleted goes with its last connection, and tells how far it is."""
    lab.put_vip("late", closing_pin_s=1, drain_timeout_s=DRAIN_S,
                idle_timeout_s={"established": 600, "half_open": 4, "closing": 2, "udp": 60})
    lab.put_dips({b: 1 for b in NEW}, "late")
    keep = [lib.Connection(lab, VIP4) for _ in range(12)]
    homes = [c.get("/name").backend for c in keep]
    a = lab.api.call("DELETE", "/v1/vips/late")
    assert a.status == 202 and a.json["flows_remaining"] >= len(keep), a
    for drain in (a.json["drain"], lab.api.get("/v1/vips/late")["drain"]):
        assert drain["flows_remaining"] >= len(keep) and drain["then"] == "cut", drain
        at = datetime.datetime.fromisoformat(drain["deadline"].replace("Z", "+00:00"))
        left = (at - datetime.datetime.now(datetime.timezone.utc)).total_seconds()
        assert DRAIN_S - 5 < left <= DRAIN_S + 1, (drain, left)
    time.sleep(2)
    assert lab.api.get("/v1/vips/late")["drain"]["oldest_age_s"] >= 1
    assert [c.get("/name").backend for c in keep] == homes
    for c in keep[3:]:
        c.close()
    lib.wait_until("three to be left",
                   lambda: lab.api.get("/v1/vips/late")["drain"]["flows_remaining"] == 3)
    assert [c.get("/name").backend for c in keep[:3]] == homes[:3]
    for c in keep[:3]:
        c.close()
    lib.wait_until("the VIP to be gone", lambda: not lab.api.get("/v1/vips")["items"])
    assert lab.resets_sent() == 0
    lab.assert_consistent()


if __name__ == "__main__":
    lib.main("rolling", [
        test_wrk_starts, test_first_is_replaced, test_second_is_replaced, test_third_is_replaced,
        test_wrk_saw_nothing, test_nothing_was_lost, test_metrics_are_prometheus,
        test_series_live_as_long_as_their_objects, test_a_vip_drains,
    ], setup, backends=6)
