#!/usr/bin/python3
"""Frames by hand: one and two VLAN tags (this kernel needs no VLAN devices for it), and everything
broken, cut off, fragmented or too big to the VIP, of which each is dropped under its own counter and
none is ever answered."""

import struct
import time

import frames as f
import lib
from lib import CLIENT4, CLIENT6, VIP4, VIP6

WEIGHTS = {"b1": 1, "b2": 2, "b3": 1}
C, V = (CLIENT4, VIP4), (CLIENT6, VIP6)


def setup(lab):
    lab.start_daemon()
    for vip, address, v6 in (("web", VIP4, False), ("six", VIP6, True)):
        lab.put_vip(vip, address)
        lab.put_dips(WEIGHTS, vip, v6)
    lab.put_vip("dns", VIP4, 53, "udp")
    lab.put_dips({"b1": 1}, "dns")
    # Frames may be larger than what the load balancer sends on; and tags are to be in the frames
    # that the XDP program sees, as on a NIC with `rxvlan off`.
    lab.run("client", "ip", "link", "set", "eth0", "mtu", "3000")
    lab.run("sw", "ip", "link", "set", "p-client", "mtu", "3000")
    lab.run("sw", "ethtool", "-K", "p-lb", "txvlan", "off", "tx-vlan-stag-hw-insert", "off")
    lab.client = f.Wire(lab.ns("client"))
    lab.wires = {b: f.Wire(lab.ns(b)) for b in lab.backends}


def to_lb(lab, payload, ethertype=f.ETH_IP, tags=()):
    return f.ethernet(lab.mac("lb"), lab.mac("client"), payload, ethertype, tags)


def at_backends(lab, sent, seconds=2.0):
    """The backend that got a frame, and the frame, once it is there; it must come once."""
    tail = sent[14:]

    def is_it(frame):
        return frame[12:].endswith(tail[-20:]) and frame[6:12] == f.mac(lab.mac("lb"))
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        got = [(b, frame) for b, w in lab.wires.items() for frame in w.receive(0.01, is_it)]
        if got:
            assert len(got) == 1, got
            return got[0]
    return None


TAGGINGS = {
    "one tag": [(f.ETH_VLAN, 0x6005)],              # priority 3, VLAN 5
    "a priority tag": [(f.ETH_VLAN, 0xe000)],       # priority 7, VLAN 0
    "two tags": [(f.ETH_QINQ, 0x0064), (f.ETH_VLAN, 0x2007)],
    "two C-tags": [(f.ETH_VLAN, 0x0064), (f.ETH_VLAN, 0x2007)],
}


def test_tagged_frames(lab):
    """They arrive at the right backend with their tags, else untouched but for the MAC addresses."""
    for name, tags in TAGGINGS.items():
        for (src, dst), ip, ethertype in ((C, f.ipv4, f.ETH_IP), (V, f.ipv6, f.ETH_IPV6)):
            vip = "six" if ethertype == f.ETH_IPV6 else "web"
            for _ in range(8):
                sport = lab.fresh_port()
                frame = to_lb(lab, ip(src, dst, f.tcp(src, dst, sport, 80)), ethertype, tags)
                lab.client.send(frame)
                got = at_backends(lab, frame)
                assert got, f"{name}: {vip} did not arrive; {lab.counters()['drops']}"
                backend, seen = got
                assert seen[:6] == f.mac(lab.mac(backend)), (name, seen[:14])
                assert seen[12:len(frame)] == frame[12:], (name, seen, frame)
                e = lab.api.get(f"/v1/explain?vip={vip}&src={src}&sport={sport}")
                assert e["dip"] == backend and e["known"], (name, e, backend)


def test_tagged_flows_stay(lab):
    """A tag is not a part of the flow, and tagged flows are kept like others."""
    tags = TAGGINGS["two tags"]
    flows = {}
    for _ in range(40):
        sport = lab.fresh_port()
        frame = to_lb(lab, f.ipv4(*C, f.tcp(*C, sport, 80)), tags=tags)
        lab.client.send(frame)
        flows[sport] = at_backends(lab, frame)[0]
    assert set(flows.values()) == set(WEIGHTS), flows
    for b, w in (("b1", 9), ("b2", 1), ("b3", 0)):
        assert lab.api.patch(f"/v1/vips/web/dips/{b}", {"weight": w})["change"]["flows_moved"] == 0
    for n, (sport, home) in enumerate(flows.items()):
        segment = f.tcp(*C, sport, 80, f.ACK | f.PSH, 2, 2, b"GET / %d" % sport)
        frame = to_lb(lab, f.ipv4(*C, segment), tags=tags if n % 2 else ())
        lab.client.send(frame)
        assert at_backends(lab, frame)[0] == home, (sport, home)
    assert lab.consistency()["violations_total"] == 0


def good_tcp(c=C, **kw):
    return f.tcp(*c, 1500, 80, **kw)


def v6_fragment(offset_and_more, inner=f.TCP):
    return struct.pack("!BBHI", inner, 0, offset_and_more, 99)


def broken_frames():
    """(what, IP packet, counter); IPv6 where the first nibble says so."""
    big = b"x" * 1481  # IPv4: 20 + 20 + 1481 = 1521 bytes
    yield "tcp cut behind 19 bytes", f.ipv4(*C, good_tcp()[:19]), "malformed"
    yield "tcp cut behind 4 bytes", f.ipv4(*C, good_tcp()[:4]), "malformed"
    yield "no tcp header at all", f.ipv4(*C, b""), "malformed"
    yield "total length behind the frame's end", f.ipv4(*C, good_tcp(), total=1400), "malformed"
    yield "total length inside the header", f.ipv4(*C, good_tcp(), total=19), "malformed"
    yield "total length 0", f.ipv4(*C, good_tcp(), total=0), "malformed"
    yield "total length cuts tcp", f.ipv4(*C, good_tcp(), total=39), "malformed"
    yield "header length 4 words", f.ipv4(*C, good_tcp(), ihl=4), "malformed"
    yield "header length 0 words", f.ipv4(*C, good_tcp(), ihl=0), "malformed"
    yield "header length behind the end", f.ipv4(*C, good_tcp()[:20], ihl=15), "malformed"
    yield "tcp offset 4 words", f.ipv4(*C, good_tcp(offset=4)), "malformed"
    yield "tcp offset 0 words", f.ipv4(*C, good_tcp(offset=0)), "malformed"
    yield "tcp offset behind the end", f.ipv4(*C, good_tcp(offset=15)), "malformed"
    yield "udp length 7", f.ipv4(*C, f.udp(*C, 9, 53, b"12345678", 7), f.UDP), "malformed"
    yield "udp length 0", f.ipv4(*C, f.udp(*C, 9, 53, b"12345678", 0), f.UDP), "malformed"
    yield "udp length behind the end", f.ipv4(*C, f.udp(*C, 9, 53, b"1234", 13), f.UDP), "malformed"
    yield "udp cut behind 7 bytes", f.ipv4(*C, f.udp(*C, 9, 53)[:7], f.UDP), "malformed"
    yield "first fragment without all of tcp", f.ipv4(*C, good_tcp()[:16], fragment=0x2000), "malformed"
    yield "first fragment without all of udp", f.ipv4(*C, f.udp(*C, 9, 53)[:4], f.UDP, fragment=0x2000), \
        "malformed"
    yield "fragment over tcp's flags", f.ipv4(*C, b"y" * 48, fragment=0x2001), "malformed"
    yield "middle fragment without a first", f.ipv4(*C, b"y" * 48, fragment=0x2006), "fragment_timeout"
    yield "1504 bytes", f.ipv4(*C, good_tcp(payload=big[:1464])), "frame_too_big"

    yield "v6: tcp cut", f.ipv6(*V, good_tcp(V)[:19]), "malformed"
    yield "v6: nothing behind the header", f.ipv6(*V, b""), "malformed"
    yield "v6: payload length behind the end", f.ipv6(*V, good_tcp(V), length=1400), "malformed"
    yield "v6: payload length cuts tcp", f.ipv6(*V, good_tcp(V), length=19), "malformed"
    yield "v6: payload length 0", f.ipv6(*V, good_tcp(V), length=0), "malformed"
    yield "v6: tcp offset 4", f.ipv6(*V, good_tcp(V, offset=4)), "malformed"
    yield "v6: extension header cut", f.ipv6(*V, bytes([f.TCP, 0, 0, 0]), 0), "malformed"
    yield "v6: extension header behind the end", \
        f.ipv6(*V, bytes([f.TCP, 200]) + bytes(6) + good_tcp(V), 60), "malformed"
    yield "v6: chain without end", f.ipv6(*V, bytes([60, 0, 1, 4, 0, 0, 0, 0]) * 12, 60), "malformed"
    yield "v6: chain of headers, then cut tcp", \
        f.ipv6(*V, bytes([f.TCP, 0, 1, 4, 0, 0, 0, 0]) + good_tcp(V)[:10], 60), "malformed"
    yield "v6: first fragment without all of tcp", f.ipv6(*V, v6_fragment(1) + good_tcp(V)[:16], 44), \
        "malformed"
    yield "v6: atomic fragment without all of tcp", f.ipv6(*V, v6_fragment(0) + good_tcp(V)[:16], 44), \
        "malformed"
    yield "v6: two fragment headers", f.ipv6(*V, v6_fragment(1, 44) + v6_fragment(1) + good_tcp(V), 44), \
        "malformed"
    yield "v6: last fragment without a first", f.ipv6(*V, v6_fragment(8 << 3) + b"y" * 40, 44), \
        "fragment_timeout"
    yield "v6: 1504 bytes", f.ipv6(*V, good_tcp(V, payload=big[:1444])), "frame_too_big"


def from_lb(lab):
    """What the load balancer's host answers for a VIP: RSTs, ICMP errors."""
    def answer(frame):
        ip = frame[14:]
        return frame[6:12] == f.mac(lab.mac("lb")) and (
            (frame[12:14] == b"\x08\x00" and (ip[12:16] == f.packed(VIP4) or ip[9] == 1)) or
            (frame[12:14] == b"\x86\xdd" and (ip[8:24] == f.packed(VIP6) or
                                              (ip[6] == 58 and ip[40] < 128))))
    return answer


def test_broken_frames(lab):
    lab.client.receive(0.2)
    for what, packet, counter in broken_frames():
        v6 = packet[0] >> 4 == 6
        for tags in ((), TAGGINGS["one tag"], TAGGINGS["two tags"]):
            if tags and counter == "frame_too_big":
                continue  # no segment carries them with a tag on top
            if tags and counter == "fragment_timeout":
                continue  # they take half a second
            before = lab.counters()
            frame = to_lb(lab, packet, f.ETH_IPV6 if v6 else f.ETH_IP, tags)
            for _ in range(3):
                lab.client.send(frame)

            def counted():
                now = lab.counters()
                grown = {k: v - before["drops"][k] for k, v in now["drops"].items()
                         if v != before["drops"][k]}
                return grown if sum(grown.values()) >= 3 else None
            try:
                grown = lib.wait_until("count", counted, 3, 0.01)
            except AssertionError:
                grown = "nothing"
            assert grown == {counter: 3}, f"{what}, {len(tags)} tags: counted {grown}, not {counter}"
            after = lab.counters()
            answers = after["answers"]["too_big"] - before["answers"]["too_big"]
            assert answers == (3 if counter == "frame_too_big" else 0), what
            assert after["interfaces"][0]["tx_packets"] == \
                before["interfaces"][0]["tx_packets"] + answers, what
            if answers:
                assert lab.client.receive(0.5, from_lb(lab)), what
                lab.client.receive(0.2)
    assert not lab.client.receive(1, from_lb(lab)), "the kernel answered"
    assert lab.resets_sent() == 0


def test_good_ones_still_pass(lab):
    """Options, extension headers, padding: unusual, not broken."""
    good = [
        f.ipv4(*C, f.tcp(*C, lab.fresh_port(), 80, payload=b"with options"), ihl=6, options=b"\1\1\1\0"),
        f.ipv4(*C, f.tcp(*C, lab.fresh_port(), 80, offset=6, options=b"\2\4\5\xb4") + b"tcp options!"),
        f.ipv4(*C, f.tcp(*C, lab.fresh_port(), 80, payload=b"exactly" + b"." * 1453)),
        f.ipv4(*C, f.udp(*C, 4000, 53, b"a datagram to the VIP"), f.UDP),
        f.ipv6(*V, bytes([f.TCP, 0, 1, 4, 0, 0, 0, 0]) + f.tcp(*V, lab.fresh_port(), 80, payload=b"behind it"),
               60),
        f.ipv6(*V, bytes([60, 0, 1, 4, 0, 0, 0, 0]) + bytes([f.TCP, 1, 1, 12]) + bytes(12) +
               f.tcp(*V, lab.fresh_port(), 80, payload=b"behind two"), 0),
        f.ipv4(*C, f.tcp(*C, lab.fresh_port(), 80, payload=b"a first fragment"), fragment=0x2000),
        f.ipv4(*C, b"and another one of it", fragment=6),
        f.ipv6(*V, v6_fragment(1) + f.tcp(*V, lab.fresh_port(), 80, payload=b"a first fragment"), 44),
        f.ipv6(*V, v6_fragment(6 << 3) + b"and another one of it", 44),
        f.ipv6(*V, bytes([44, 0, 1, 4, 0, 0, 0, 0]) + v6_fragment(0) +
               f.tcp(*V, lab.fresh_port(), 80, payload=b"all of it"), 60),
    ]
    for packet in good:
        frame = to_lb(lab, packet, f.ETH_IPV6 if packet[0] >> 4 == 6 else f.ETH_IP)
        lab.client.send(frame)
        got = at_backends(lab, frame)
        assert got and got[1][12:] == frame[12:], (packet[:60], got, lab.counters()["drops"])


def test_the_host_keeps_its_own(lab):
    """ping to the VIP, and whatever is not TCP or UDP, is the kernel's as before."""
    for address in (VIP4, VIP6, lab.address("lb"), lab.address("lb", True)):
        lab.run("client", "ping", "-c", "1", "-W", "2", address)
    assert lab.resets_sent() == 0
    before = lab.counters()["interfaces"][0]["rx_packets"]
    try:  # a port of the VIP's address that no VIP has
        lib.Connection(lab, VIP4, 81, timeout=3)
        raise AssertionError("connected")
    except ConnectionRefusedError:
        pass
    assert lab.counters()["interfaces"][0]["rx_packets"] == before


if __name__ == "__main__":
    lib.main("vlan", [
        test_tagged_frames, test_tagged_flows_stay, test_broken_frames, test_good_ones_still_pass,
        test_the_host_keeps_its_own,
    ], setup, backends=3)
