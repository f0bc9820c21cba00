#!/usr/bin/python3
"""Two balancers of one VIP on a segment, one of them there with two interfaces. What the switch floods
reaches all of them, and l2 forwarding lowers no TTL: none may take what is not addressed to it. Its own
address may change."""

import atexit
import threading
import time

import frames as f
import lib
from lib import CLIENT4, CLIENT6, VIP4, VIP6

SECOND_MAC = "02:00:00:09:00:e1"  # of eth1
DEAD_MAC = "02:00:00:09:00:99"    # nobody's, so the switch floods it
OTHER = "b3"                      # the second balancer; its VIP is on lo, so it answers no ARP


def setup(lab):
    lab.start_backends()
    lib.sh("ip", "link", "add", "eth1", "netns", lab.ns("lb"), "address", SECOND_MAC, "type", "veth",
           "peer", "name", "p-lb2", "netns", lab.ns("sw"))
    lab.run("sw", "ip", "link", "set", "p-lb2", "master", "br0", "up")
    # The VIP is eth0's: no answer to ARP comes from eth1.
    lab.run("lb", "sysctl", "-qw", "net.ipv4.conf.all.arp_ignore=1")
    lab.run("lb", "ip", "link", "set", "eth1", "up")
    lab.start_daemon("--interface", "eth1")
    lab.other_api = start_other(lab)
    for api in (lab.api, lab.other_api):
        for vip, address, port, v6 in (("web", VIP4, 80, False), ("six", VIP6, 80, True)):
            api.put(f"/v1/vips/{vip}", {"address": address, "port": port, "protocol": "tcp"})
            for b in ("b1", "b2"):
                api.put(f"/v1/vips/{vip}/dips/{b}", {"address": lab.address(b, v6), "weight": 1})
        for vip, address, dead in (("dead", VIP4, "10.9.0.99"), ("dead6", VIP6, "fd09::99")):
            api.put(f"/v1/vips/{vip}", {"address": address, "port": 81, "protocol": "tcp"})
            api.put(f"/v1/vips/{vip}/dips/d", {"address": dead, "mac": DEAD_MAC})
    for vip in ("web", "six"):
        lab.wait_up(["b1", "b2"], vip)
    lab.wire = f.Wire(lab.ns("client"))


def start_other(lab):
    sock = lab.socket.with_name("concury-e2e-loop2.sock")
    sock.unlink(missing_ok=True)
    atexit.register(sock.unlink, missing_ok=True)
    log = lab.dir / "other.log"
    lab.spawn(OTHER, [lib.CONCURYD, "--interface", "eth0", "--database", lab.dir / "other.db",
                      "--state-dir", lab.dir / "other-state", "--listen", f"unix:{sock}",
                      "--flows", "10000"], log)
    lib.wait_until("the other concuryd", lambda: log.read_text().rstrip().endswith("ready"))
    return lib.Api(sock)


def traffic(lab):
    """(packets received, sent) by interface."""
    return [(i["rx_packets"], i["tx_packets"]) for api in (lab.api, lab.other_api)
            for i in api.get("/v1/counters")["interfaces"]]


def is_quiet(lab):
    before = traffic(lab)
    time.sleep(0.5)
    return traffic(lab) == before


def syn(lab, to, port, v6=False, sport=None):
    src, dst = (CLIENT6, VIP6) if v6 else (CLIENT4, VIP4)
    packet = (f.ipv6 if v6 else f.ipv4)(src, dst, f.tcp(src, dst, sport or lab.fresh_port(), port))
    return f.ethernet(to, lab.mac("client"), packet, f.ETH_IPV6 if v6 else f.ETH_IP)


def test_a_dip_that_the_switch_does_not_know(lab):
    """One SYN goes out once, whichever interface of the balancer it came by."""
    for v6 in (False, True):
        for to, iface in ((lab.mac("lb"), 0), (SECOND_MAC, 1)):
            before = traffic(lab)
            lab.wire.receive(0.1)
            lab.wire.send(syn(lab, to, 81, v6))
            flooded = lab.wire.receive(1, lambda frame: frame[:6] == f.mac(DEAD_MAC))
            assert len(flooded) == 1, f"{len(flooded)} packets of one SYN"
            grown = [(a[0] - b[0], a[1] - b[1]) for a, b in zip(traffic(lab), before)]
            # It leaves by eth0, where the route to the DIP is.
            assert grown == [(int(iface == 0), 1), (int(iface == 1), 0), (0, 0)], grown
    assert lab.resets_sent() == 0 and lab.resets_sent(OTHER) == 0


def test_frames_for_others(lab):
    """Flooded unicast, broadcast, multicast to a VIP, even in promiscuous mode: nobody takes them and no
    kernel answers."""
    lab.run("lb", "ip", "link", "set", "eth0", "promisc", "on")
    before = traffic(lab)
    lab.wire.receive(0.1)
    for to in (DEAD_MAC, "ff:ff:ff:ff:ff:ff", "01:00:5e:00:00:01", "33:33:00:00:00:01"):
        for v6 in (False, True):
            frame = syn(lab, to, 80, v6)
            lab.wire.send(frame)
            lab.wire.send(frame[:14 + (40 if v6 else 20) + 6])
        lab.wire.send(f.ethernet(to, lab.mac("client"), f.ipv4(
            CLIENT4, VIP4, f.udp(CLIENT4, VIP4, 4000, 4000, b"is there anybody?"), f.UDP)))
    vips = (f.packed(VIP4), f.packed(VIP6))
    answers = lab.wire.receive(1, lambda frame: frame[26:30] in vips or frame[22:38] in vips or
                               (frame[12:14] == b"\x08\x00" and frame[23] == 1))
    assert not answers, answers
    assert traffic(lab) == before
    for name in ("lb", OTHER):
        assert lab.resets_sent(name) == 0
    lab.run("lb", "ip", "link", "set", "eth0", "promisc", "off")


class Talk(threading.Thread):
    """Connections that speak in turn until told to end; each must be answered by its backend."""

    def __init__(self, lab, n=10):
        super().__init__(daemon=True)
        self.keep = [lib.Connection(lab, a, timeout=20) for a in (VIP4, VIP6) for _ in range(n)]
        self.homes = [c.get("/name").backend for c in self.keep]
        self.stop, self.error, self.turns = False, None, 0
        self.start()

    def run(self):
        try:
            while not self.stop:
                assert [c.get("/name").backend for c in self.keep] == self.homes, "moved"
                self.turns += 1
        except Exception as e:
            self.error = e

    def go_on(self, turns=3):
        start = self.turns
        lib.wait_until("traffic", lambda: self.error or self.turns >= start + turns, 20)
        assert not self.error, self.error

    def end(self):
        self.stop = True
        self.join(30)
        assert not self.is_alive() and not self.error, self.error
        for c in self.keep:
            c.close()


def test_its_mac_address_changes(lab):
    """Under traffic: every connection goes on once the client has learned the new address, and none is
    reset by the balancer's kernel; frames for the old address are another's."""
    talk = Talk(lab)
    talk.go_on()
    for address in ("02:00:00:09:02:02", "02:00:00:09:02:03", lab.mac("lb")):
        start = lab.log.stat().st_size
        lab.run("lb", "ip", "link", "set", "eth0", "address", address)
        lib.wait_until("log", lambda: f"eth0: its MAC address is {address} now" in
                       lab.log.read_text()[start:], 1)
        for family in ("-4", "-6"):
            lab.run("client", "ip", family, "neigh", "flush", "dev", "eth0", check=False)
        talk.go_on()
        assert lab.resets_sent() == 0
        assert lab.get(sport=lab.fresh_port()).status == 200
    talk.end()
    lib.wait_until("quiet", lambda: is_quiet(lab), 10)  # what was open says its last
    before = traffic(lab)
    lab.wire.send(syn(lab, "02:00:00:09:02:02", 80))
    time.sleep(0.3)
    assert traffic(lab) == before
    assert lab.resets_sent() == 0 and lab.consistency()["violations_total"] == 0


if __name__ == "__main__":
    lib.main("loop", [
        test_a_dip_that_the_switch_does_not_know, test_frames_for_others, test_its_mac_address_changes,
    ], setup, backends=3)
