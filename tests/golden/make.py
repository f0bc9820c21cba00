#!/usr/bin/python3
"""Write the golden frames: in.pcap, out.pcap and cases.txt. Everything is made by scapy (Debian package
python3-scapy; packets.py), nothing by the code under test; running it again gives the same bytes, which
`make golden` holds the checked-in ones against. A directory may be named; else it is this one.

A line of cases.txt, of frame i of in.pcap: name, what is done to it (l2, ipip, gue, nat: on the way to a DIP;
nat-back: the answer; checksum: completed as a local stack left it; echo, too-big: answered), the DIP
(nat-back: the VIP), a port (gue: of the tunnel; nat: of the DIP or VIP, 0: that of the packet), MTU (too-big:
what to tell), headroom, flow hash, and what comes of it: `ok` (then it becomes the next frame of out.pcap) or
the reason why it is dropped, unchanged.
"""
import os
import struct
import sys

from packets import (
    CLIENT, CLIENT_MAC, DIP, EGRESS_MAC, ERRORS, IP_LEN, LB_MAC, NEXT_HOP_MAC, ROUTER, VIP, echo, echoed, error,
    ethernet, from_backend, from_client, hop_less, network, opaque, payload, rng, too_big, translated, transport,
    tunnelled, twice, whole)
from scapy.layers.inet import (
    IP, TCP, UDP, IPOption_LSRR, IPOption_NOP, IPOption_RR, IPOption_Timestamp)
from scapy.layers.inet6 import IPv6, IPv6ExtHdrFragment
from scapy.layers.l2 import ARP, Ether
from scapy.packet import Raw
from scapy.utils import RawPcapWriter, checksum

GUE_LEN = 12
HEADROOM = 64
# Mode, and the family of the outer header: 0 where there is none.
WAYS = [("l2", 0), ("ipip", 4), ("ipip", 6), ("gue", 4), ("gue", 6), ("nat", 0)]
cases = []


# --- cases ---------------------------------------------------------------------------------------

def add(name, action, came, left, address=DIP[4], port=0, mtu=1500, headroom=HEADROOM, flow_hash=0):
    """left: bytes, or why there are none."""
    assert name not in (c[0] for c in cases), name
    outcome = left if isinstance(left, str) else "ok"
    cases.append((name, action, address, port, mtu, headroom, flow_hash, outcome, bytes(came),
                  None if outcome != "ok" else bytes(left)))


def overhead(mode, outer_family):
    return IP_LEN[outer_family] + (GUE_LEN if mode == "gue" else 0) if outer_family else 0


def way_name(mode, outer_family):
    return mode + (str(outer_family) if outer_family else "")


def forward(way, inner, name, n_vlans=0, pad=0, tos=0, port=None, refused=None, spare=0, headroom=None,
            told=None):
    """inner on one of WAYS, with so many bytes to spare of what the egress carries. told: what mode nat is to
    make of it, where that is more than an address and a port."""
    mode, outer_family = way
    family = 6 if IPv6 in inner else 4
    flow_hash = rng.getrandbits(64)
    room = overhead(mode, outer_family)
    trailer = b"\xee" * pad
    port = port if port is not None else {"gue": 6080}.get(mode, 0)
    came = bytes(ethernet(n_vlans, LB_MAC, CLIENT_MAC) / inner) + trailer
    frame = ethernet(n_vlans, NEXT_HOP_MAC, EGRESS_MAC)
    if refused:
        left = refused
    elif mode == "l2":
        left = bytes(frame / inner) + trailer
    elif mode == "nat":
        left = bytes(frame / (hop_less(told) if told else translated(inner, "dst", DIP[family], port))) + trailer
    else:
        left = bytes(frame / tunnelled(mode, outer_family, inner, tos, flow_hash, port))
    add("%s-v%d-%s" % (way_name(mode, outer_family), family, name), mode, came, left,
        DIP[outer_family or family], port, len(inner) + room + spare, HEADROOM if headroom is None else headroom,
        flow_hash)


def every_shape(way, family, proto):
    for n_vlans in (0, 1, 2):
        for pad in (0, 13):
            forward(way, whole(network(family) / transport(proto, 20)),
                    "%s-%dvlan-pad%d" % (proto, n_vlans, pad), n_vlans, pad)
    forward(way, whole(network(family) / transport(proto, 1400)), proto + "-large", spare=3)
    forward(way, whole(network(family) / transport(proto, 0)), proto + "-empty", pad=6)
    for tos in (0x2e << 2, 0x03, 0xff):
        forward(way, whole(network(family, tos) / transport(proto, 21)), "%s-tos%02x" % (proto, tos),
                tos=tos)
    for ttl in (0, 1, 2, 255):
        refused = "ttl_expired" if ttl < 2 and way[0] != "l2" else None
        forward(way, whole(network(family, ttl=ttl) / transport(proto, 9)), "%s-ttl%d" % (proto, ttl),
                refused=refused)
    forward(way, whole(network(family) / transport(proto, 30)), proto + "-too-big", spare=-1,
            refused="frame_too_big")


CHAINS = [("hbh",), ("dst",), ("rth",), ("hbh", "dst", "rth", "dst"), ("ah",), ("hbh", "dst", "rth", "ah", "dst")]


def options(way):
    """IPv4 options, IPv6 extension headers. What an authentication header or a source route's final
    destination is part of, nobody may translate."""
    for chain in CHAINS:
        for proto in ("tcp", "udp"):
            refused = "untranslatable" if way[0] == "nat" and "ah" in chain else None
            forward(way, whole(network(6, exts=chain) / transport(proto, 20)),
                    "%s-1vlan-%s" % (proto, "+".join(chain)), 1, refused=refused)
    for name, some in (("nops", [IPOption_NOP()] * 4), ("timestamp", [IPOption_Timestamp(length=12)]),
                       ("record-route", [IPOption_RR(routers=["203.0.113.1"]), IPOption_NOP()])):
        for proto in ("tcp", "udp"):
            forward(way, whole(network(4, options=some) / transport(proto, 17)), proto + "-" + name)
    lsrr = IPOption_LSRR(routers=["203.0.113.9"]), IPOption_NOP()
    forward(way, whole(network(4, options=lsrr) / transport("tcp", 5)), "tcp-source-route",
            refused="untranslatable" if way[0] == "nat" else None)


def no_checksum(way):
    udp = transport("udp", 40)
    udp.chksum = 0
    forward(way, whole(network(4) / udp), "udp-no-checksum")


def other_ways():
    for family in (4, 6):
        for way in WAYS[1:5]:
            inner = whole(network(family) / transport("tcp", 40))
            forward(way, inner, "no-headroom", headroom=overhead(*way) - 1, refused="no_headroom")
            forward(way, inner, "just-headroom", headroom=overhead(*way))
        for way in WAYS[3:5]:
            for port in (1, 65535):
                forward(way, whole(network(family) / transport("udp", 8)), "port%d" % port, port=port)
        for proto in ("tcp", "udp"):
            for size in (0, 1, 2, 1000):
                forward(("nat", 0), whole(network(family) / transport(proto, size)),
                        "%s-size%d-port" % (proto, size), size % 3, port=8443)
    other = whole(network(4) / transport("tcp", 4))
    add("nat-v4-other-family", "nat", ethernet(0, LB_MAC, CLIENT_MAC) / other, "family_mismatch", DIP[6])


def back(family, proto, size, port, n_vlans=0, pad=0):
    """The way back of nat: the VIP instead of the DIP, towards the client."""
    ip = network(family)
    ip.src, ip.dst = DIP[family], CLIENT[family]
    l4 = transport(proto, size)
    l4.sport, l4.dport = 8080 if port else 80, 43210
    inner = whole(ip / l4)
    left = translated(inner, "src", VIP[family], port)
    restored = left[IPv6] if family == 6 else left[IP]  # nat_set_source alone takes no hop
    if family == 6:
        restored.hlim += 1
    else:
        restored.ttl += 1
    trailer = b"\xee" * pad
    head = ethernet(n_vlans, LB_MAC, CLIENT_MAC)
    add("nat-back-v%d-%s-size%d-port%d-%dvlan" % (family, proto, size, port, n_vlans), "nat-back",
        bytes(head / inner) + trailer, bytes(head / left) + trailer, VIP[family], port)


def complete(family, proto, size, n_vlans=0, exts=(), pad=0):
    """In: the checksum as a local stack leaves it. Out: as scapy computes it."""
    packet = whole(network(family, exts=exts) / transport(proto, size))
    segment = bytes(packet[TCP if proto == "tcp" else UDP])
    number = {"tcp": 6, "udp": 17}[proto]
    addresses = bytes(packet)[12:20] if family == 4 else bytes(packet)[8:40]
    partial = ~checksum(addresses + struct.pack(">HH", number, len(segment))) & 0xffff
    left = bytes(ethernet(n_vlans, LB_MAC, CLIENT_MAC) / packet) + b"\xee" * pad
    start = len(left) - pad - len(segment) + (16 if proto == "tcp" else 6)
    came = left[:start] + struct.pack(">H", partial) + left[start + 2:]
    add("checksum-v%d-%s-%dvlan-size%d-pad%d%s" % (
        family, proto, n_vlans, size, pad, "-" + "+".join(exts) if exts else ""), "checksum", came, left)


def clamp(family, n_vlans, name, offers, most=None):
    """A SYN through a tunnel whose inside takes 1444 bytes of IP. most: what it offers then, if less."""
    def syn(value):
        l4 = TCP(sport=43210, dport=80, flags="S", seq=rng.getrandbits(32), window=64240,
                 options=[(o[0], value) if o[0] == "MSS" and value else o for o in offers])
        return l4

    state = rng.getstate()
    came = ethernet(n_vlans, LB_MAC, CLIENT_MAC) / whole(network(family) / syn(None))
    after = rng.getstate()
    rng.setstate(state)
    left = ethernet(n_vlans, LB_MAC, CLIENT_MAC) / whole(network(family) / syn(most))
    rng.setstate(after)
    add("mss-v%d-%dvlan-%s" % (family, n_vlans, name), "mss", came, bytes(left) if most else "kept", mtu=1444)


def clamps():
    linux = [("MSS", 1460), ("SAckOK", b""), ("Timestamp", (7, 0)), ("NOP", None), ("WScale", 7)]
    for family in (4, 6):
        most = 1444 - IP_LEN[family] - 20
        for n_vlans in (0, 1, 2):
            clamp(family, n_vlans, "linux", linux, most)
        clamp(family, 0, "odd", [("NOP", None), ("MSS", 8960), ("WScale", 2)], most)
        clamp(family, 0, "last", [("WScale", 7), ("NOP", None), ("SAckOK", b""), ("MSS", 65535)], most)
        clamp(family, 0, "one-more", [("MSS", most + 1)], most)
        clamp(family, 0, "fits", [("MSS", most)])
        clamp(family, 0, "small", [("MSS", 536)])
        clamp(family, 0, "without", [("WScale", 7), ("NOP", None)])
        clamp(family, 0, "behind-the-end", [("EOL", None), ("MSS", 1460)])


# --- ICMP ----------------------------------------------------------------------------------------

def about_flow(way, family, kind, proto, size=200, cut=None, name="", n_vlans=0, pad=0, port=None, refused=None,
               ttl=57, **quoted):
    """An error about what a DIP has sent goes to that DIP."""
    told, own = None, {}
    if way[0] == "nat" and not refused:  # as the DIP has sent it
        own = {"src": DIP[family], "port": port}
    quote, retold = twice(lambda **as_sent: from_backend(family, proto, size, cut=cut, **quoted, **as_sent))(**own)
    if own:
        told = error(family, kind, retold, ttl, DIP[family])
    forward(way, error(family, kind, quote, ttl), "error-%s-%s%s" % (kind, proto, name), n_vlans, pad, port=port,
            refused=refused, told=told)


def errors(way):
    nat = way[0] == "nat"
    for family in (4, 6):
        for n, kind in enumerate(ERRORS[family]):
            for proto in ("tcp", "udp"):
                about_flow(way, family, kind, proto, n_vlans=n % 3, pad=n % 2 * 9)
        kind = list(ERRORS[family])[1]
        # eight bytes of the transport header, as RFC 792 asks for; of UDP with its checksum, of TCP without
        for proto in ("tcp", "udp"):
            about_flow(way, family, kind, proto, cut=IP_LEN[family] + 8, name="-short")
            about_flow(way, family, kind, proto, cut=IP_LEN[family] + 4, name="-ports-alone")
        about_flow(way, family, kind, "tcp", size=0, name="-syn")
        if nat:
            about_flow(way, family, kind, "tcp", port=8443, name="-port", n_vlans=1)
            about_flow(way, family, kind, "udp", size=13, port=8443, name="-odd-port")
        about_flow(way, family, kind, "tcp", ttl=1, name="-ttl1", refused=None if way[0] == "l2" else "ttl_expired")
    about_flow(way, 4, "frag-needed", "tcp", options=[IPOption_NOP()] * 4, name="-nops")
    for chain in CHAINS:
        if not (nat and "ah" in chain):  # of which a DIP sends none that is translated
            about_flow(way, 6, "too-big", "tcp", exts=chain, name="-" + "+".join(chain))
    for family in (4, 6):
        kind = list(ERRORS[family])[1]
        quote = from_backend(family, "tcp", 40)
        forward(way, error(family, kind, quote[:IP_LEN[family] + 3]), "error-half-ports", refused="not_l4")
        forward(way, error(family, kind, quote[:IP_LEN[family] - 1]), "error-half-header", refused="not_l4")
        forward(way, error(family, kind, quote, dst=ROUTER[family]), "error-of-another", refused="not_l4")
        forward(way, error(family, kind, bytes(echo(family, 9, src=VIP[family]))), "error-about-icmp",
                refused="not_l4")
    later = bytearray(from_backend(4, "tcp", 40))
    later[7] = 9
    forward(way, error(4, "expired", later), "error-later-fragment", refused="not_l4")


def error_back(family, kind, proto, size=200, name="", port=0, n_vlans=0, pad=0, router=False, **quoted):
    """An error from the DIP, or a router on its side, about what a client has sent: as if the VIP had said so."""
    quote, retold = twice(lambda dst, port: from_client(family, proto, size, dst, port, **quoted))(
        DIP[family], 8080 if port else 0, dst=VIP[family], port=port)
    src = ROUTER[family] if router else DIP[family]
    came = error(family, kind, quote, dst=CLIENT[family], src=src)
    left = error(family, kind, retold, dst=CLIENT[family], src=src if router else VIP[family])
    head, trailer = ethernet(n_vlans, LB_MAC, CLIENT_MAC), b"\xee" * pad
    add("nat-back-v%d-error-%s-%s%s%s" % (family, kind, proto, "-router" if router else "", name), "nat-back",
        bytes(head / came) + trailer, bytes(head / left) + trailer, VIP[family], port)


def errors_back():
    for family in (4, 6):
        for n, kind in enumerate(ERRORS[family]):
            for proto in ("tcp", "udp"):
                error_back(family, kind, proto, port=80, n_vlans=n % 3, pad=n % 2 * 5)
                error_back(family, kind, proto, size=31, router=True, n_vlans=n % 2)
                for cut in (4, 8):
                    error_back(family, kind, proto, port=443, name="-%d" % cut, cut=IP_LEN[family] + cut)
        error_back(family, list(ERRORS[family])[1], "tcp", size=0, name="-syn", port=443)
    for chain in CHAINS[:4]:
        error_back(6, "too-big", "udp", name="-" + "+".join(chain), port=53, exts=chain)


def answered(name, family, request, n_vlans=0, pad=0, refused=None, src_mac=CLIENT_MAC):
    trailer = b"\xee" * pad
    came = bytes(ethernet(n_vlans, LB_MAC, src_mac) / request) + trailer
    left = refused or bytes(ethernet(n_vlans, src_mac, LB_MAC) / echoed(request)) + trailer
    add("echo-v%d-%s-%dvlan" % (family, name, n_vlans), "echo", came, left, DIP[family])


def echoes():
    nowhere = {4: ("0.1.2.3", "127.0.0.1", "224.0.0.1", "255.255.255.255"), 6: ("::", "::1", "ff02::1")}
    for family in (4, 6):
        for n_vlans in (0, 1, 2):
            for size in (0, 1, 56, 1400):
                answered("size%d" % size, family, echo(family, size), n_vlans, size % 2 * 5)
        answered("tos", family, echo(family, 24, 0xb9))
        for src in nowhere[family]:
            answered("from-" + src, family, echo(family, 8, src=src), refused="not_l4")
        answered("group-mac", family, echo(family, 8), refused="not_l4", src_mac="01:00:5e:00:00:01")
        forward(("l2", 0), opaque(echoed(echo(family, 8))), "echo-answer", refused="not_l4")
    answered("options", 4, echo(4, 8, options=[IPOption_NOP()] * 4), refused="not_l4")


def told_too_big(name, family, packet, mtu, n_vlans=0, headroom=HEADROOM, refused=None, pad=0):
    came = bytes(ethernet(n_vlans, LB_MAC, CLIENT_MAC) / packet) + b"\xee" * pad
    left = refused or bytes(ethernet(n_vlans, CLIENT_MAC, LB_MAC) / too_big(packet, mtu))
    add("too-big-v%d-%s-%dvlan" % (family, name, n_vlans), "too-big", came, left, DIP[family], 0, mtu, headroom)


def too_bigs():
    for family in (4, 6):
        for proto in ("tcp", "udp"):
            for n_vlans in (0, 1, 2):
                for size in (0, 1, 500, 1400):
                    told_too_big("%s-size%d" % (proto, size), family,
                                 whole(network(family) / transport(proto, size)), 1460 - 4 * n_vlans, n_vlans,
                                 pad=size % 2 * 7)
        packet = whole(network(family) / transport("tcp", 1400))
        for mtu in (68, 576, 1279, 1280, 1281, 65535):
            told_too_big("mtu%d" % mtu, family, packet, mtu)
        front = IP_LEN[family] + 8
        told_too_big("just-headroom", family, packet, 1400, headroom=front)
        told_too_big("no-headroom", family, packet, 1400, headroom=front - 1, refused="frame_too_big")
        kind = list(ERRORS[family])[0]
        told_too_big("error", family, error(family, kind, from_backend(family, "tcp", 400)), 100,
                     refused="frame_too_big")
    told_too_big("options", 4, whole(network(4, options=[IPOption_NOP()] * 4) / transport("tcp", 1000)), 900)
    told_too_big("extensions", 6, whole(network(6, exts=CHAINS[3]) / transport("tcp", 1300)), 1290)


# --- what is no packet of a flow -----------------------------------------------------------------

def patched(frame, at, *new):
    return frame[:at] + bytes(new) + frame[at + len(new):]


def malformed(way, first):
    """Frames that contradict themselves, with tags in turn; offsets from the IP header."""
    for n, (name, made) in enumerate(contradictions().items()):
        n_vlans = (first + n) % 3
        head = bytes(ethernet(n_vlans, LB_MAC, CLIENT_MAC))[:-2]
        add("%s-malformed-%s-%dvlan" % (way_name(*way), name, n_vlans), way[0], head + made, "malformed",
            DIP[way[1] or (6 if name.startswith("v6") else 4)])


def contradictions():
    """Behind the link header's addresses and tags."""
    head, head6 = b"\x08\x00", b"\x86\xdd"
    v4 = bytes(whole(network(4) / transport("tcp", 20)))
    udp = bytes(whole(network(4) / transport("udp", 20)))
    v6 = bytes(whole(network(6) / transport("tcp", 20)))
    exts = bytes(whole(network(6, exts=CHAINS[-1]) / transport("tcp", 20)))
    rest = v6[6:7] + v6[7:40]
    return {
        "no-ip": head, "half-ip": head + v4[:10], "half-tcp": head + v4[:30], "cut": head + v4[:-1],
        "version": head + patched(v4, 0, 0x65), "ihl0": head + patched(v4, 0, 0x40),
        "ihl4": head + patched(v4, 0, 0x44), "ihl15": head + patched(v4, 0, 0x4f),
        "total-huge": head + patched(v4, 2, 0xff, 0xff), "total0": head + patched(v4, 2, 0, 0),
        "total19": head + patched(v4, 2, 0, 19), "total-no-tcp": head + patched(v4, 2, 0, 39),
        "data-offset15": head + patched(v4, 32, 0xf0), "data-offset4": head + patched(v4, 32, 0x40),
        "udp7": head + patched(udp, 24, 0, 7), "udp-huge": head + patched(udp, 24, 0xff, 0xff),
        "v6-half": head6 + v6[:39], "v6-version": head6 + patched(v6, 0, 0x45), "v6-cut": head6 + v6[:-1],
        "v6-payload-huge": head6 + patched(v6, 4, 0xff, 0xff),
        "v6-jumbo": head6 + patched(exts, 4, 0, 0),
        "v6-ext-long": head6 + patched(exts, 41, 0xff),
        "v6-hbh-second": head6 + patched(exts, 40, 0),
        "v6-chain": head6 + v6[:4] + struct.pack(">H", 80) + b"\x3c" + rest[1:]
        + bytes([60, 0, 1, 4, 0, 0, 0, 0]) * 10,
    }


def part(family, number, l4, at, n, ident, exts=(), dst=None, more=None, src=None):
    """n bytes of l4, from `at` on, as a fragment."""
    more = at + n < len(l4) if more is None else more
    ip = network(family, exts=exts, src=src)
    ip.dst = dst or ip.dst
    if family == 4:
        ip.id, ip.frag, ip.flags, ip.proto = ident, at // 8, "MF" if more else 0, number
    else:
        ip = ip / IPv6ExtHdrFragment(nh=number, offset=at // 8, m=more, id=ident)
    return opaque(ip / Raw(l4[at:][:n]))


def fragments(way, size=200, port=0):
    """The first goes with its flow, the others after it. Of a translated packet the first bears the checksum,
    which is over all."""
    number = {"tcp": 6, "udp": 17}
    for family in (4, 6):
        for proto in ("tcp", "udp"):
            exts = ("hbh", "dst") if family == 6 and port else ()
            ident = 4000 + len(cases)
            packet = whole(network(family) / transport(proto, size))
            l4 = bytes(packet)[IP_LEN[family]:]
            new = bytes(translated(packet, "dst", DIP[family], port))[IP_LEN[family]:]
            ends = [0, 40, 48, 128, len(l4)]
            for n, (at, end) in enumerate(zip(ends, ends[1:])):
                state = rng.getstate()  # of what is random in the IP header
                cut = part(family, number[proto], l4, at, end - at, ident, exts)
                rng.setstate(state)
                told = part(family, number[proto], new, at, end - at, ident, exts, DIP[family])
                forward(way, cut, "%s-fragment-%d-of-%d%s" % (proto, at, size, "-port" if port else ""), n % 3,
                        pad=n % 2 * 3, told=told, port=port or None)
            if family == 6:
                ip = network(6) / IPv6ExtHdrFragment(nh=number[proto], id=99)
                told = ip.copy()
                told[IPv6].dst = DIP[6]
                forward(way, opaque(ip / Raw(l4)), "%s-fragment-atomic-%d" % (proto, port),
                        told=opaque(told / Raw(new)), port=port or None)


def fragments_back(family, proto, port):
    """Of an answer, the later ones after the first."""
    number, ident = {"tcp": 6, "udp": 17}[proto], 5000 + len(cases)
    ip = network(family)
    ip.src, ip.dst = DIP[family], CLIENT[family]
    l4 = transport(proto, 150)
    l4.sport, l4.dport = 8080, 43210
    packet = whole(ip / l4)
    made = [bytes(p)[IP_LEN[family]:] for p in (packet, translated(packet, "src", VIP[family], port))]
    ends = [0, 40, 104, len(made[0])]
    for n, (at, end) in enumerate(zip(ends, ends[1:])):
        came, left = twice(lambda l4, src: part(
            family, number, l4, at, end - at, ident, dst=CLIENT[family], src=src))(
                made[0], DIP[family], l4=made[1], src=VIP[family])
        head, trailer = ethernet(n % 3, LB_MAC, CLIENT_MAC), b"\xee" * (n % 2 * 3)
        add("nat-back-v%d-%s-fragment-%d-port%d" % (family, proto, at, port), "nat-back",
            bytes(head / came) + trailer, bytes(head / left) + trailer, VIP[family], port)


def bad_fragments(way):
    """What is too short to say where it goes, would write over what says so, or comes without that."""
    for family in (4, 6):
        l4 = bytes(whole(network(family) / transport("tcp", 100)))[IP_LEN[family]:]
        for n in (8, 16):
            forward(way, part(family, 6, l4, 0, n, 1), "tcp-fragment-first-%d" % n, refused="malformed")
        forward(way, part(family, 17, l4, 0, 4, 1), "udp-fragment-first-4", refused="malformed")
        forward(way, part(family, 6, l4, 8, 40, 1), "tcp-fragment-over-flags", refused="malformed")
        forward(way, part(family, 6, l4, 40, 40, 2), "tcp-fragment-alone", refused="fragment_timeout")
        forward(way, part(family, 47, l4, 0, 40, 3), "gre-fragment-first", refused="not_l4")
        forward(way, part(family, 47, l4, 40, 40, 3), "gre-fragment-later", refused="not_l4")


def no_flow(n_vlans):
    """Whole, but neither TCP nor UDP, or nothing of IP."""
    head = ethernet(n_vlans, LB_MAC, CLIENT_MAC)
    for number in (47, 50, 89, 132):
        for family in (4, 6):
            ip = network(family)
            setattr(ip, "proto" if family == 4 else "nh", number)
            add("not-l4-v%d-%d-%dvlan" % (family, number, n_vlans), "l2", head / whole(ip / payload(24)), "not_l4")
    add("arp-%dvlan" % n_vlans, "l2", head / ARP(pdst=VIP[4]), "no_vip")


def broken_links():
    v4 = bytes(Ether(dst=LB_MAC, src=CLIENT_MAC) / whole(network(4) / transport("tcp", 20)))
    add("malformed-13-bytes", "l2", v4[:13], "malformed")
    add("malformed-tag-cut", "l2", v4[:12] + b"\x88\xa8\0", "malformed")
    add("three-tags", "l2", v4[:12] + b"\x81\0\0\1" * 3 + v4[12:], "no_vip")
    add("llc", "l2", v4[:12] + b"\0\x26" + v4[14:], "no_vip")


def main():
    for way in WAYS:
        for family in (4, 6):
            for proto in ("tcp", "udp"):
                every_shape(way, family, proto)
        options(way)
        no_checksum(way)
    other_ways()
    for family in (4, 6):
        for proto in ("tcp", "udp"):
            for size in (0, 1, 2, 7, 8, 9, 63, 1401):
                complete(family, proto, size)
            complete(family, proto, 33, n_vlans=2, pad=5)
            for size, port in ((0, 0), (1, 80), (600, 443)):
                back(family, proto, size, port, size % 3, pad=size % 2 * 7)
    for chain in CHAINS[:3]:
        complete(6, "tcp", 21, exts=chain)
    for n_vlans in (0, 1, 2):
        no_flow(n_vlans)
    broken_links()
    for n, way in enumerate(WAYS):
        malformed(way, n)
        fragments(way)
        bad_fragments(way)
        errors(way)
    fragments(("nat", 0), 300, 8443)
    echoes()
    too_bigs()
    clamps()
    errors_back()
    for family in (4, 6):
        for proto in ("tcp", "udp"):
            for port in (0, 443):
                fragments_back(family, proto, port)
    write(sys.argv[1] if len(sys.argv) > 1 else os.path.dirname(os.path.abspath(__file__)))


def write(directory):
    for file, frames in (("in.pcap", [c[8] for c in cases]), ("out.pcap", [c[9] for c in cases if c[9]])):
        with RawPcapWriter(os.path.join(directory, file), linktype=1) as out:
            out.write_header(None)
            for i, frame in enumerate(frames):
                out.write_packet(frame, sec=i, usec=0, caplen=len(frame), wirelen=len(frame))
    with open(os.path.join(directory, "cases.txt"), "w", encoding="ascii") as out:
        for c in cases:
            out.write("%s %s %s %d %d %d 0x%016x %s\n" % c[:8])


if __name__ == "__main__":
    main()
