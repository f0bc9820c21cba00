#!/usr/bin/python3
"""Write the golden frames: in.pcap, out.pcap and cases.txt, line i of which says what is to be done to
frame i of in.pcap so that it becomes frame i of out.pcap. Everything is made by scapy (Debian package
python3-scapy), nothing by the code under test. Running it again gives the same bytes.

A line of cases.txt: name, rewrite (l2, ipip, checksum), DIP, MTU, flow hash.
"""
import os
import random

from scapy.config import conf

conf.verb = 0
from scapy.layers.inet import IP, TCP, UDP, IPOption_NOP, IPOption_Timestamp  # noqa: E402
from scapy.layers.inet6 import (  # noqa: E402
    IPv6, IPv6ExtHdrDestOpt, IPv6ExtHdrHopByHop, IPv6ExtHdrRouting, PadN)
from scapy.layers.ipsec import AH  # noqa: E402
from scapy.layers.l2 import Dot1AD, Dot1Q, Ether  # noqa: E402
from scapy.packet import Padding, Raw  # noqa: E402
from scapy.utils import checksum, wrpcap  # noqa: E402

HERE = os.path.dirname(os.path.abspath(__file__))
CLIENT_MAC, LB_MAC = "02:00:00:00:00:01", "02:00:00:00:00:02"  # as it comes in
EGRESS_MAC, NEXT_HOP_MAC = "02:00:00:00:01:00", "02:00:00:00:01:99"  # as it leaves
CLIENT = {4: "198.51.100.7", 6: "2001:db8:c::7"}
VIP = {4: "192.0.2.80", 6: "2001:db8:f::80"}
DIP = {4: "10.20.30.40", 6: "2001:db8:d::40"}
rng = random.Random(2003)
cases = []


def ethernet(n_vlans, dst, src):
    frame = Ether(dst=dst, src=src)
    if n_vlans == 2:
        frame /= Dot1AD(vlan=1000, prio=3)
    if n_vlans >= 1:
        frame /= Dot1Q(vlan=42, prio=5)
    return frame


def payload(n):
    return Raw(rng.randbytes(n)) if n else b""


def extensions(names):
    made = {
        "hbh": lambda: IPv6ExtHdrHopByHop(options=[PadN(optdata=b"\0" * 4)]),
        "dst": lambda: IPv6ExtHdrDestOpt(options=[PadN(optdata=b"\0" * 12)]),
        "rth": lambda: IPv6ExtHdrRouting(type=0, segleft=0, addresses=[CLIENT[6]]),
        "ah": lambda: AH(spi=7, seq=9, icv=b"\x11" * 12, payloadlen=4),
    }
    return [made[n]() for n in names]


def network(family, tos, options=(), exts=()):
    if family == 4:
        return IP(src=CLIENT[4], dst=VIP[4], tos=tos, id=rng.randrange(65536), ttl=57,
                  options=list(options))
    ip = IPv6(src=CLIENT[6], dst=VIP[6], tc=tos, fl=0x12345, hlim=57)
    for ext in extensions(exts):
        ip /= ext
    return ip


def transport(proto, n):
    if proto == "tcp":
        return TCP(sport=43210, dport=80, seq=1, ack=2, flags="PA" if n else "S",
                   options=[("MSS", 1460), ("SAckOK", b"")] if not n else []) / payload(n)
    return UDP(sport=43210, dport=53) / payload(n)


def set_ah_next_header(packet):
    """Scapy fills in the others by itself."""
    if AH in packet:
        packet[AH].nh = {TCP: 6, UDP: 17, IPv6ExtHdrDestOpt: 60}[type(packet[AH].payload)]


def outer(family, inner, tos, flow_hash):
    """The tunnel header as documented: hash bits from 24 up in source and flow label."""
    bits = flow_hash >> 24
    if family == 4:
        source = "172.16.%d.%d" % (bits >> 8 & 255, bits & 255)
        return IP(src=source, dst=DIP[4], tos=tos, id=0, flags="DF", ttl=64, proto=4) / inner
    source = "100::%x:%x" % (bits >> 16 & 0xff, bits & 0xffff)
    return IPv6(src=source, dst=DIP[6], tc=tos, fl=bits & 0xfffff, hlim=64, nh=41) / inner


def hop_less(packet):
    """What a router forwards."""
    packet = packet.copy()
    if IPv6 in packet:
        packet[IPv6].hlim -= 1
    else:
        packet[IP].ttl -= 1
        del packet[IP].chksum
    return packet


def add(name, rewrite, family, frame_in, frame_out, mtu, flow_hash):
    cases.append((name, rewrite, DIP[family], mtu, flow_hash, bytes(frame_in), bytes(frame_out)))


def forward(rewrite, family, proto, n_vlans=0, pad=0, size=20, tos=0, options=(), exts=(), tag=""):
    inner = network(family, tos, options, exts) / transport(proto, size)
    set_ah_next_header(inner)
    inner = inner.__class__(bytes(inner))  # with lengths and checksums filled in
    flow_hash = rng.getrandbits(64)
    came = bytes(ethernet(n_vlans, LB_MAC, CLIENT_MAC) / inner) + b"\xee" * pad
    if rewrite == "l2":
        left = bytes(ethernet(n_vlans, NEXT_HOP_MAC, EGRESS_MAC) / inner) + b"\xee" * pad
        mtu = len(inner)
    else:
        left = (ethernet(n_vlans, NEXT_HOP_MAC, EGRESS_MAC)
                / outer(family, hop_less(inner), tos, flow_hash))
        mtu = len(inner) + {4: 20, 6: 40}[family]
    name = "%s-v%d-%s-%dvlan-pad%d%s" % (rewrite, family, proto, n_vlans, pad, tag)
    add(name, rewrite, family, came, left, mtu, flow_hash)


def fold_uncomplemented(data):
    return ~checksum(data) & 0xffff


def complete(family, proto, size, n_vlans=0, exts=(), pad=0):
    """In: the checksum as a local stack leaves it. Out: as scapy computes it."""
    whole = network(family, 0, exts=exts) / transport(proto, size)
    whole = whole.__class__(bytes(whole))
    l4 = whole[TCP if proto == "tcp" else UDP]
    segment = bytes(l4)
    number = {"tcp": 6, "udp": 17}[proto]
    addresses = bytes(whole)[12:20] if family == 4 else bytes(whole)[8:40]
    partial = fold_uncomplemented(addresses + number.to_bytes(2, "big")
                                  + len(segment).to_bytes(2, "big"))
    at = 16 if proto == "tcp" else 6
    left = bytes(ethernet(n_vlans, LB_MAC, CLIENT_MAC) / whole) + b"\xee" * pad
    start = len(left) - pad - len(segment) + at
    came = left[:start] + partial.to_bytes(2, "big") + left[start + 2:]
    name = "checksum-v%d-%s-%dvlan-size%d-pad%d%s" % (
        family, proto, n_vlans, size, pad, "-" + "+".join(exts) if exts else "")
    add(name, "checksum", family, came, left, 1500, 0)


def main():
    chains = [("hbh",), ("dst",), ("rth",), ("ah",), ("hbh", "dst", "rth", "ah", "dst")]
    for rewrite in ("l2", "ipip"):
        for family in (4, 6):
            for proto in ("tcp", "udp"):
                for n_vlans in (0, 1, 2):
                    for pad in (0, 13):
                        forward(rewrite, family, proto, n_vlans, pad)
                forward(rewrite, family, proto, size=1400, tag="-large")
                forward(rewrite, family, proto, size=0, tag="-empty", pad=6)
            for tos in (0x2e << 2, 0x03, 0xff):
                forward(rewrite, family, "tcp", tos=tos, tag="-tos%02x" % tos)
        for chain in chains:
            for proto in ("tcp", "udp"):
                forward(rewrite, 6, proto, 1, exts=chain, tag="-" + "+".join(chain))
        forward(rewrite, 4, "tcp", 1, options=[IPOption_NOP()] * 4, tag="-nops")
        forward(rewrite, 4, "udp", options=[IPOption_Timestamp(length=12)], tag="-timestamp")
    for family in (4, 6):
        for proto in ("tcp", "udp"):
            for size in (0, 1, 2, 7, 8, 9, 63, 1401):
                complete(family, proto, size)
            complete(family, proto, 33, n_vlans=2, pad=5)
    for chain in chains[:3]:
        complete(6, "tcp", 21, exts=chain)

    for column, file in ((5, "in.pcap"), (6, "out.pcap")):
        frames = [Ether(c[column]) for c in cases]
        for i, frame in enumerate(frames):
            frame.time = i
            assert bytes(frame) == cases[i][column], cases[i][0]
        wrpcap(os.path.join(HERE, file), frames)
    with open(os.path.join(HERE, "cases.txt"), "w", encoding="ascii") as out:
        for name, rewrite, dip, mtu, flow_hash, _, _ in cases:
            out.write("%s %s %s %d 0x%016x\n" % (name, rewrite, dip, mtu, flow_hash))


if __name__ == "__main__":
    main()
