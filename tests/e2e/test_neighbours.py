#!/usr/bin/python3
"""Next hops that change under a stream of datagrams: how long nothing arrives, by the sender's clock. DIPs
get other network cards, cannot be resolved for a while, or lie behind a router, by routes that change."""

import socket
import threading
import time

import lib
from lib import VIP4, VIP6

PORT, FAR = 5353, "10.8.0.3"
STEP_S = 0.01  # between two datagrams
BACKENDS = ("b1", "b2")
vips = {"four": VIP4, "six": VIP6}
sinks = {}  # (backend, vip) -> a socket


def family(address):
    return socket.AF_INET6 if ":" in address else socket.AF_INET


def setup(lab):
    lab.start_daemon()
    for vip, address in vips.items():
        lab.put_vip(vip, address, PORT, "udp")
        lab.put_dips({"b1": 1}, vip, address == VIP6)
    for b in BACKENDS:
        for vip, address in vips.items():
            with lib.inside(lab.ns(b)):
                s = socket.socket(family(address), socket.SOCK_DGRAM)
                s.bind((address, PORT))
            s.settimeout(0.05)
            sinks[b, vip] = s


class Stream:
    """Datagrams to a VIP until the end; what arrives at which backend."""

    def __init__(self, lab, vip="four"):
        self.address = vips[vip]
        with lib.inside(lab.ns("client")):
            self.socket = socket.socket(family(self.address), socket.SOCK_DGRAM)
        self.sent = []                                # when, by number
        self.got = {b: set() for b in BACKENDS}      # numbers
        self.ends = threading.Event()
        self.threads = [threading.Thread(target=self.send, daemon=True)]
        self.threads += [threading.Thread(target=self.receive, args=(b, sinks[b, vip]), daemon=True)
                         for b in BACKENDS]
        for t in self.threads:
            t.start()

    def send(self):
        while not self.ends.wait(STEP_S):
            self.sent.append(time.monotonic())
            self.socket.sendto(b"%d" % (len(self.sent) - 1), (self.address, PORT))

    def receive(self, backend, sink):
        while not self.ends.is_set():
            try:
                self.got[backend].add(int(sink.recv(64)))
            except TimeoutError:
                pass

    def wait(self, backend, timeout=5):
        """What is sent from now on arrives there."""
        first = len(self.sent)
        lib.wait_until(f"datagrams to {backend}",
                       lambda: any(n >= first for n in list(self.got[backend])), timeout, 0.01)

    def end(self):
        self.ends.set()
        for t in self.threads:
            t.join(5)
        self.socket.close()

    def gap(self, start, end):
        """The longest time within a span of which nothing that was sent has arrived."""
        arrived = sorted(n for got in self.got.values() for n in got)
        times = [start, *(t for n in arrived if start <= (t := self.sent[n]) <= end), end]
        return max(b - a for a, b in zip(times, times[1:]))


def announce_changes(lab, backend):
    lab.run(backend, "sysctl", "-qw", "net.ipv4.conf.eth0.arp_notify=1", "net.ipv6.conf.eth0.ndisc_notify=1")


def change_mac(lab, backend, mac, vip):
    """How long a backend gets nothing after another card has taken its place."""
    stream = Stream(lab, vip)
    stream.wait(backend)
    start = time.monotonic()
    lab.run(backend, "ip", "link", "set", "eth0", "address", mac)
    stream.wait(backend)
    time.sleep(0.3)
    stream.end()
    return stream.gap(start, stream.sent[-1])


def test_mac_is_followed(lab):
    """Within a second of the kernel's hearing of it."""
    announce_changes(lab, "b1")
    for vip in vips:
        for mac in ("02:00:00:09:05:0b", lab.mac("b1")):
            gap = change_mac(lab, "b1", mac, vip)
            assert gap < 1, f"{vip}: nothing arrived for {gap:.2f} s"
    lab.assert_consistent()


def test_unresolved(lab):
    """Nobody has the address; then somebody has."""
    for vip, address in (("four", "10.9.0.77"), ("six", "fd09::77")):
        lab.api.put(f"/v1/vips/{vip}/dips/new", {"address": address, "weight": 1})
        lab.api.patch(f"/v1/vips/{vip}/dips/b1", {"weight": 0})
        lib.wait_until("unresolved", lambda v=vip: lab.dips(v)["new"]["state"] == "unresolved", 5)
        assert lab.dips(vip)["b1"]["state"] == "draining"
    for vip, address in (("four", "10.9.0.77/24"), ("six", "fd09::77/64")):
        before = lab.counters()["drops"]["no_neighbor"]
        stream = Stream(lab, vip)  # a new flow: the other DIP takes none
        lib.wait_until("20 datagrams", lambda s=stream: len(s.sent) >= 20, 5)
        dropped = lab.counters()["drops"]["no_neighbor"] - before
        assert dropped >= 15 and not any(stream.got.values()), (dropped, stream.got)
        lab.run("b2", "ip", "addr", "add", address, "dev", "eth0", *(["nodad"] if vip == "six" else []))
        stream.wait("b2", 15)
        assert lab.dips(vip)["new"]["state"] == "up"
        before = lab.counters()["drops"]["no_neighbor"]
        stream.wait("b2")
        stream.end()
        assert lab.counters()["drops"]["no_neighbor"] == before
        lab.api.patch(f"/v1/vips/{vip}/dips/b1", {"weight": 1})
        lab.api.delete(f"/v1/vips/{vip}/dips/new?force=true")


def test_routes(lab):
    """A DIP behind a router gets frames to the router's MAC address, whichever that is."""
    route = ["ip", "route", "replace", f"{FAR}/32", "via"]
    lab.api.put("/v1/vips/four/dips/far", {"address": FAR, "weight": 1})
    lab.api.patch("/v1/vips/four/dips/b1", {"weight": 0})
    lib.wait_until("unresolved", lambda: lab.dips("four")["far"]["state"] == "unresolved", 5)
    stream = Stream(lab)
    lab.run("lb", *route, lab.address("b2"))
    stream.wait("b2", 15)
    assert lab.dips("four")["far"]["state"] == "up"
    gaps = {}
    for router in ("b1", "b2"):
        start = time.monotonic()
        lab.run("lb", *route, lab.address(router))
        stream.wait(router)
        gaps[f"route by {router}"] = start
        time.sleep(0.3)
    announce_changes(lab, "b2")
    gaps["the router's card"] = time.monotonic()
    lab.run("b2", "ip", "link", "set", "eth0", "address", "02:00:00:09:05:0c")
    stream.wait("b2")
    time.sleep(0.3)
    end = time.monotonic()
    # Without a way nothing is sent elsewhere; with one again it goes on.
    lab.run("lb", "ip", "route", "replace", "blackhole", f"{FAR}/32")
    lib.wait_until("unresolved", lambda: lab.dips("four")["far"]["state"] == "unresolved", 5)
    before = lab.counters()["drops"]["no_neighbor"]
    lib.wait_until("counted", lambda: lab.counters()["drops"]["no_neighbor"] > before + 10, 5)
    lab.run("lb", *route, lab.address("b2"))
    stream.wait("b2", 5)
    assert lab.dips("four")["far"]["state"] == "up"
    stream.end()
    starts = [*gaps.values(), end]
    for (what, start), until in zip(gaps.items(), starts[1:]):
        assert (gap := stream.gap(start, until)) < 1, f"{what}: nothing arrived for {gap:.2f} s"
    lab.assert_consistent()


if __name__ == "__main__":
    lib.main("neighbours", [test_mac_is_followed, test_unresolved, test_routes], setup, backends=2)
