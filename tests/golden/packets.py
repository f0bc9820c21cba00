"""Packets for the golden frames, and what is to become of them: by scapy alone, which computes every length
and every checksum."""
import random

from scapy.config import conf

conf.verb = 0
from scapy.layers.inet import ICMP, IP, TCP, UDP  # noqa: E402
from scapy.layers.inet6 import (  # noqa: E402
    ICMPv6DestUnreach, ICMPv6EchoReply, ICMPv6EchoRequest, ICMPv6PacketTooBig, ICMPv6ParamProblem,
    ICMPv6TimeExceeded, IPv6, IPv6ExtHdrDestOpt, IPv6ExtHdrHopByHop, IPv6ExtHdrRouting, PadN)
from scapy.layers.ipsec import AH  # noqa: E402
from scapy.layers.l2 import Dot1AD, Dot1Q, Ether  # noqa: E402
from scapy.packet import Raw  # noqa: E402

CLIENT_MAC, LB_MAC = "02:00:00:00:00:01", "02:00:00:00:00:02"  # as it comes in
EGRESS_MAC, NEXT_HOP_MAC = "02:00:00:00:01:00", "02:00:00:00:01:99"  # as it leaves
CLIENT = {4: "198.51.100.7", 6: "2001:db8:c::7"}
ROUTER = {4: "203.0.113.77", 6: "2001:db8:77::1"}
VIP = {4: "192.0.2.80", 6: "2001:db8:f::80"}
DIP = {4: "10.20.30.40", 6: "2001:db8:d::40"}
IP_LEN = {4: 20, 6: 40}
rng = random.Random(2003)


# --- packets -------------------------------------------------------------------------------------

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


def network(family, tos=0, options=(), exts=(), ttl=57, src=None):
    src = src or CLIENT[family]
    if family == 4:
        return IP(src=src, dst=VIP[4], tos=tos, id=rng.randrange(65536), ttl=ttl,
                  options=list(options))
    ip = IPv6(src=src, dst=VIP[6], tc=tos, fl=0x12345, hlim=ttl)
    for ext in extensions(exts):
        ip /= ext
    return ip


def transport(proto, n):
    if proto == "tcp":
        return TCP(sport=43210, dport=80, seq=1, ack=2, flags="PA" if n else "S",
                   options=[("MSS", 1460), ("SAckOK", b"")] if not n else []) / payload(n)
    return UDP(sport=43210, dport=53) / payload(n)


def whole(packet):
    """With lengths and checksums filled in."""
    if AH in packet:  # scapy fills in the others by itself
        packet[AH].nh = {TCP: 6, UDP: 17, IPv6ExtHdrDestOpt: 60}[type(packet[AH].payload)]
    return packet.__class__(bytes(packet))


def hop_less(packet):
    """What a router forwards."""
    packet = packet.copy()
    if IPv6 in packet:
        packet[IPv6].hlim -= 1
    else:
        packet[IP].ttl -= 1
        del packet[IP].chksum
    return packet


def outer(family, tos, flow_hash, proto):
    """The tunnel header as documented: hash bits from 24 up in source and flow label."""
    bits = flow_hash >> 24
    if family == 4:
        source = "172.16.%d.%d" % (bits >> 8 & 255, bits & 255)
        return IP(src=source, dst=DIP[4], tos=tos, id=0, flags="DF", ttl=64, proto=proto)
    source = "100::%x:%x" % (bits >> 16 & 0xff, bits & 0xffff)
    return IPv6(src=source, dst=DIP[6], tc=tos, fl=bits & 0xfffff, hlim=64, nh=proto)


def tunnelled(mode, outer_family, inner, tos, flow_hash, port):
    number = 41 if IPv6 in inner else 4
    inner = hop_less(inner)
    if mode == "ipip":
        return outer(outer_family, tos, flow_hash, number) / inner
    udp = UDP(sport=49152 + (flow_hash >> 24) % 16384, dport=port, chksum=0)
    return outer(outer_family, tos, flow_hash, 17) / udp / Raw(bytes([0, number, 0, 0])) / inner


def translated(packet, member, address, port):
    """With another address, and another port if one is named; its checksums made anew, but for a UDP
    checksum that was not there."""
    packet = hop_less(packet)
    ip = packet[IPv6] if IPv6 in packet else packet[IP]
    l4 = packet[TCP] if TCP in packet else packet[UDP]
    setattr(ip, member, address)
    if port:
        setattr(l4, {"dst": "dport", "src": "sport"}[member], port)
    if l4.chksum or TCP in packet:
        del l4.chksum
    return packet


# --- ICMP ----------------------------------------------------------------------------------------

ERRORS = {
    4: {"unreachable": ICMP(type=3, code=3), "frag-needed": ICMP(type=3, code=4, nexthopmtu=1400),
        "expired": ICMP(type=11, code=0), "parameter": ICMP(type=12, code=0, ptr=1)},
    6: {"unreachable": ICMPv6DestUnreach(code=4), "too-big": ICMPv6PacketTooBig(mtu=1400),
        "expired": ICMPv6TimeExceeded(code=0), "parameter": ICMPv6ParamProblem(code=0, ptr=6)},
}


def from_backend(family, proto, size, options=(), exts=(), src=None, port=0, cut=None):
    """What a DIP has sent to the client, in the VIP's name unless src is the DIP's own, and an error quotes."""
    ip = network(family, options=options, exts=exts, ttl=3)
    ip.src, ip.dst = src or VIP[family], CLIENT[family]
    l4 = transport(proto, size)
    l4.sport, l4.dport = port or l4.dport, l4.sport
    return bytes(whole(ip / l4))[:cut]


def from_client(family, proto, size, dst, port=0, exts=(), cut=None):
    """What a client has sent, and an error from the DIP's side quotes."""
    ip = network(family, exts=exts, ttl=3)
    ip.dst = dst
    l4 = transport(proto, size)
    l4.dport = port or l4.dport
    return bytes(whole(ip / l4))[:cut]


def twice(make):
    """Makes two of something that differ in what is named, and in nothing that is random."""
    def made(*args, **other):
        state = rng.getstate()
        first = make(*args)
        rng.setstate(state)
        return first, make(**other) if other else first
    return made


def opaque(packet):
    """Made, and never looked at again behind its first header."""
    made = bytes(packet)
    n = 40 if IPv6 in packet else (made[0] & 15) * 4
    return type(packet)(made[:n]) / Raw(made[n:])


def error(family, kind, quote, ttl=57, dst=None, src=None):
    ip = network(family, ttl=ttl, src=src or ROUTER[family])
    ip.dst = dst or VIP[family]
    if family == 4:  # so that two of the same error are the same
        ip.id = 1
    return opaque(ip / ERRORS[family][kind] / Raw(quote))


def echo(family, size, tos=0, src=None, options=()):
    ip = network(family, tos, src=src, options=options)
    if family == 4:
        return opaque(ip / ICMP(type=8, id=77, seq=3) / payload(size))
    return opaque(ip / ICMPv6EchoRequest(id=77, seq=3, data=rng.randbytes(size)))


def echoed(request):
    """The answer that a host gives."""
    said = request.copy()
    said.src, said.dst = request.dst, request.src
    message = bytes(request.payload)
    if IPv6 in request:
        said.hlim = 64
        said.remove_payload()
        del said.plen
        return said / ICMPv6EchoReply(id=77, seq=3, data=message[8:])
    said.ttl = 64
    said.remove_payload()
    del said.chksum
    return said / ICMP(type=0, id=77, seq=3) / Raw(message[8:])


def too_big(packet, mtu):
    """The answer to a packet of which only mtu bytes fit."""
    if IPv6 in packet:
        front = IPv6(src=VIP[6], dst=CLIENT[6], hlim=64) / ICMPv6PacketTooBig(mtu=max(mtu, 1280))
        return front / Raw(bytes(packet)[:1280 - 48])
    front = IP(src=VIP[4], dst=CLIENT[4], tos=0xc0, id=0, flags="DF", ttl=64)
    return front / ICMP(type=3, code=4, nexthopmtu=mtu) / Raw(bytes(packet)[:576 - 28])
