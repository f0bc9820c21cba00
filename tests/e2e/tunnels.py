"""What modes `ipip` and `gue` have in common. Each VIP, one of IPv4 and one of IPv6, has DIPs of both
families, so all four pairs of inner and outer header are on the wire. The backends take outer headers off
by a small XDP program; the hops between load balancer and backends carry more than the client's."""

import json
import socket
import struct

import frames
import lib
from lib import VIP4, VIP6

WEIGHTS = {"b1": 1, "b2": 2, "b3": 1}
VIPS = {"four": VIP4, "six": VIP6}
HOPS = 64  # that a client's packet begins with


def dip_is_v6(vip, backend):
    """b2's address is of the family that the VIP is not of."""
    return (vip == "six") != (backend == "b2")


def setup(lab, mode, **more):
    lab.start_backends()
    lab.start_daemon()
    for vip, address in VIPS.items():
        lab.put_vip(vip, address, mode=mode, **more)
        for b, w in WEIGHTS.items():
            lab.put_dips({b: w}, vip, v6=dip_is_v6(vip, b))


def unwrapped(lab, backend):
    """Packets that the backend's program has taken the outer header off."""
    link = json.loads(lab.run(backend, "ip", "-j", "link", "show", "dev", "eth0"))[0]
    maps = json.loads(lib.sh("bpftool", "-j", "prog", "show", "id", link["xdp"]["prog"]["id"]))["map_ids"]
    return json.loads(lib.sh("bpftool", "-j", "map", "dump", "id", maps[0]))[0]["formatted"]["value"]


def test_travels_encapsulated(lab):
    """Nobody takes the outer header off yet: no connection comes about."""
    for vip in VIPS.values():
        try:
            lab.get(address=vip, timeout=1)
            raise AssertionError("answered without decapsulation")
        except TimeoutError:
            pass
    for b in lab.backends:
        lab.decapsulate(b)


def test_shares(lab):
    """By weight, whichever families the DIPs are of."""
    for vip in VIPS.values():
        before = {b: unwrapped(lab, b) for b in lab.backends}
        counts = lab.count_connections(1000, vip)
        lib.assert_shares(counts, WEIGHTS)
        for b in lab.backends:
            assert unwrapped(lab, b) - before[b] >= 5 * counts[b], (b, counts)


def read_ip(packet):
    """(source, destination, next protocol, hops, what follows) of a packet without options."""
    v6 = packet[0] >> 4 == 6
    size, at = (16, 8) if v6 else (4, 12)
    family = socket.AF_INET6 if v6 else socket.AF_INET
    ends = [socket.inet_ntop(family, packet[i:i + size]) for i in (at, at + size)]
    return *ends, packet[6 if v6 else 9], packet[7 if v6 else 8], packet[at + 2 * size:]


def to_backends(lab, address, sport):
    """What the load balancer sends while a client asks from this port: (backend, frames)."""
    wire = frames.Wire(lab.ns("sw"), "p-lb")
    backend = lab.get(address=address, sport=sport).backend
    got = wire.receive(0.3, lambda f: f[:6] == frames.mac(lab.mac(backend)) and
                       struct.pack("!HH", sport, 80) in f)
    wire.close()
    assert len(got) >= 4, got
    return backend, got


def test_on_the_wire(lab, check_between):
    """The outer source of the documented prefix, the DIP as destination, the inner packet one hop older
    and else the client's. check_between(protocol, what follows the outer header) -> (inner protocol,
    inner packet)."""
    for vip, address in VIPS.items():
        seen = set()
        for _ in range(50):
            backend, got = to_backends(lab, address, sport := lab.fresh_port())
            v6 = dip_is_v6(vip, backend)
            seen.add(v6)
            for frame in got:
                assert frame[6:14] == frames.mac(lab.mac("lb")) + (b"\x86\xdd" if v6 else b"\x08\x00"), frame
                source, destination, proto, hops, rest = read_ip(frame[14:])
                assert source.startswith("100::" if v6 else "172.16."), source
                assert (destination, hops) == (lab.address(backend, v6), 64), (destination, hops)
                inner_proto, inner = check_between(proto, rest)
                assert inner_proto == (41 if vip == "six" else 4), inner_proto
                source, destination, proto, hops, rest = read_ip(inner)
                assert (source, destination, proto) == (lab.address("client", vip == "six"), address, 6)
                assert hops == HOPS - 1, hops
                assert vip == "six" or frames.checksum(inner[:20]) == 0
                assert rest[:4] == struct.pack("!HH", sport, 80)
            if len(seen) == 2:
                break
        assert len(seen) == 2, seen


def test_last_hop(lab):
    """A packet without a hop left ends here, and is counted."""
    for address, level, option in ((VIP4, socket.IPPROTO_IP, socket.IP_TTL),
                                   (VIP6, socket.IPPROTO_IPV6, socket.IPV6_UNICAST_HOPS)):
        before = lab.counters()["drops"]["ttl_expired"]
        with lib.inside(lab.ns("client")):
            s = socket.socket(socket.AF_INET6 if ":" in address else socket.AF_INET)
        s.setsockopt(level, option, 1)
        s.setblocking(False)
        assert s.connect_ex((address, 80)) != 0
        lib.wait_until("counted", lambda: lab.counters()["drops"]["ttl_expired"] > before)  # noqa: B023
        s.close()


def test_upload(lab):
    for vip in VIPS.values():
        assert lab.upload(vip)
    assert lab.counters()["drops"]["frame_too_big"] == 0


def test_connections_stay(lab):
    downloads = [lib.Download(lab, vip, 48 << 10) for vip in VIPS.values() for _ in range(12)]
    for vip in VIPS:
        for b, w in (("b1", 5), ("b2", 1), ("b3", 0)):
            change = lab.api.patch(f"/v1/vips/{vip}/dips/{b}", {"weight": w})["change"]
            assert change["flows_moved"] == 0, change
    for vip in VIPS.values():
        lib.assert_shares(lab.count_connections(400, vip), {"b1": 5, "b2": 1, "b3": 0})
    for d in downloads:
        d.finish()


def test_kernel_never_answered(lab):
    assert lab.resets_sent() == 0
    lab.assert_consistent()
