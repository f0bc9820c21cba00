#!/usr/bin/python3
"""Backends that change their MAC address, vanish and return; DIPs behind a router."""

import time

import lib
from lib import VIP4, VIP6


def setup(lab):
    lab.start_backends(ports=(80, 8080))
    # The kernel is to notice sooner than in half a minute that a neighbour is gone.
    for family in ("ipv4", "ipv6"):
        lab.run("lb", "sysctl", "-qw", f"net.{family}.neigh.eth0.base_reachable_time_ms=1000",
                f"net.{family}.neigh.eth0.retrans_time_ms=200",
                f"net.{family}.neigh.eth0.delay_first_probe_time=1",
                f"net.{family}.neigh.eth0.interval_probe_time_ms=1000")
    lab.start_daemon()
    for vip, address, v6 in (("web", VIP4, False), ("six", VIP6, True)):
        lab.put_vip(vip, address)
        lab.put_dips({"b1": 1, "b2": 1}, vip, v6)


def connections(lab, n=20):
    keep = [lib.Connection(lab, a, timeout=30) for a in (VIP4, VIP6) for _ in range(n)]
    return keep, [c.get("/name").backend for c in keep]


def still(keep, homes):
    now = [c.get("/name").backend for c in keep]
    assert now == homes, (now, homes)


def test_mac_changes(lab):
    """A backend gets another network card: its connections go on."""
    keep, homes = connections(lab)
    lab.run("b1", "sysctl", "-qw", "net.ipv4.conf.eth0.arp_notify=1", "net.ipv6.conf.eth0.ndisc_notify=1")
    time.sleep(1.1)
    lab.run("b1", "ip", "link", "set", "eth0", "address", "02:00:00:09:01:0b")
    start = time.monotonic()
    still(keep, homes)
    assert time.monotonic() - start < 10
    lab.run("b1", "ip", "link", "set", "eth0", "address", lab.mac("b1"))
    still(keep, homes)
    for c in keep:
        c.close()


def test_flushed_neighbours(lab):
    """`ip neigh flush` and a cleared ARP table are no reason to lose a packet."""
    keep, homes = connections(lab)
    before = lab.counters()["drops"]["no_neighbor"]
    for _ in range(10):
        # ip complains that the entries come back faster than it removes them.
        for family in ("-4", "-6"):
            lab.run("lb", "ip", family, "neigh", "flush", "all", check=False)
        still(keep, homes)
    assert lab.counters()["drops"]["no_neighbor"] == before
    assert {d["state"] for d in lab.dips().values()} == {"up"}
    for c in keep:
        c.close()


def test_backend_vanishes_and_returns(lab):
    keep, homes = connections(lab)
    lab.run("sw", "ip", "link", "set", "p-b2", "down")

    def states(want):
        return lambda: all(lab.dips(v)["b2"]["state"] == want for v in ("web", "six"))
    lib.wait_until("b2 unresolved", states("unresolved"), 30)
    assert lab.dips()["b1"]["state"] == "up"
    still([c for c, h in zip(keep, homes) if h == "b1"], [h for h in homes if h == "b1"])
    lab.run("sw", "ip", "link", "set", "p-b2", "up")
    lib.wait_until("b2 up again", states("up"), 15)
    still(keep, homes)
    assert lab.resets_sent() == 0
    for c in keep:
        c.close()


def test_behind_a_router(lab):
    """b3 lives in a network behind b2, which routes; ipip takes packets there."""
    lab.run("sw", "ip", "link", "set", "p-b3", "nomaster")
    lab.run("sw", "ip", "link", "set", "p-b3", "netns", lab.ns("b2"), "name", "eth1")
    lab.run("b2", "ip", "addr", "add", "10.8.0.1/24", "dev", "eth1")
    lab.run("b2", "ip", "link", "set", "eth1", "up")
    # accept_local: answers pass b2 with the VIP, which is b2's own too, as their source.
    lab.run("b2", "sysctl", "-qw", "net.ipv4.ip_forward=1", "net.ipv4.conf.all.accept_local=1")
    lab.run("b3", "ip", "addr", "flush", "dev", "eth0", "scope", "global")
    lab.run("b3", "ip", "addr", "add", "10.8.0.3/24", "dev", "eth0")
    lab.run("b3", "ip", "route", "add", "default", "via", "10.8.0.1")
    for b in ("b2", "b3"):
        lab.run(b, "ip", "link", "set", "eth1" if b == "b2" else "eth0", "mtu", "1540")
    lab.decapsulate("b3")
    lab.api.put("/v1/vips/far", {"address": VIP4, "port": 8080, "protocol": "tcp", "mode": "ipip"})
    # No route yet: it waits.
    lab.api.put("/v1/vips/far/dips/b3", {"address": "10.8.0.3", "weight": 1})
    assert lab.dips("far")["b3"]["state"] == "unresolved"
    lab.run("lb", "ip", "route", "add", "10.8.0.0/24", "via", lab.address("b2"))
    lab.wait_up(["b3"], "far")
    assert lab.get(port=8080).backend == "b3"
    # The route's MTU counts: what does not fit is answered, and the client sends less at a time.
    before = lab.counters()
    assert lab.get("/name?" + "x" * 1000, port=8080).backend == "b3"
    lab.run("lb", "ip", "route", "replace", "10.8.0.0/24", "via", lab.address("b2"), "mtu", "600")
    time.sleep(1.2)
    assert lab.get("/name?" + "x" * 1000, port=8080, timeout=10).backend == "b3"
    after = lab.counters()
    assert after["drops"]["frame_too_big"] > before["drops"]["frame_too_big"]
    assert after["answers"]["too_big"] > before["answers"]["too_big"]


if __name__ == "__main__":
    lib.main("nexthop", [
        test_mac_changes, test_flushed_neighbours, test_backend_vanishes_and_returns,
        test_behind_a_router,
    ], setup, backends=3)
