#!/usr/bin/python3
"""Tunnels where every link carries 1500 bytes: full segments do not fit, clients are told so, and
uploads and downloads finish, with `clamp_mss` and without."""

import struct

import frames
import lib
from lib import VIP4, VIP6

WEIGHTS = {"b1": 1, "b2": 1}
VIPS = {"ipip-4": (VIP4, 20), "ipip-6": (VIP6, 40)}


def setup(lab):
    lab.start_backends()
    for b in lab.backends:
        lab.decapsulate(b)
    lab.start_daemon()
    for vip, (address, _) in VIPS.items():
        lab.put_vip(vip, address, mode="ipip")
        lab.put_dips(WEIGHTS, vip, v6=vip.endswith("6"))


def told(lab):
    return lab.counters()["answers"]["too_big"]


def too_big(lab):
    return lab.counters()["drops"]["frame_too_big"]


def forget_paths(lab):
    for family in ("-4", "-6"):
        lab.run("client", "ip", family, "route", "flush", "cache")


def test_uploads(lab):
    silent = too_big(lab) - told(lab)
    for vip, (address, overhead) in VIPS.items():
        forget_paths(lab)
        before = told(lab)
        assert lab.upload(address, timeout=20), vip
        assert told(lab) > before, vip
        family = "-6" if ":" in address else "-4"
        route = lab.run("client", "ip", family, "route", "get", address).split()
        assert int(route[route.index("mtu") + 1]) == 1500 - overhead, route
    assert too_big(lab) - told(lab) == silent


def test_downloads(lab):
    for address, _ in VIPS.values():
        forget_paths(lab)
        download = lib.Download(lab, address, 2 << 20)
        download.finish()


def test_the_answer(lab):
    """From the VIP, by the way that the packet came, and about that packet; not to what is no host, and
    not to an ICMP error."""
    wire = frames.Wire(lab.ns("client"))
    for vip, (address, overhead) in VIPS.items():
        v6 = ":" in address
        own = lib.CLIENT6 if v6 else lib.CLIENT4
        build, kind, offset = (frames.ipv6, frames.ETH_IPV6, 54) if v6 else (frames.ipv4, frames.ETH_IP, 34)
        full = b"x" * (1440 if v6 else 1460)
        packet = build(own, address, frames.tcp(own, address, 999, 80, frames.ACK, payload=full))
        wire.send(frames.ethernet(lab.mac("lb"), lab.mac("client"), packet, kind))
        ours = (2, 0) if v6 else (3, 4)
        got = wire.receive(2, lambda f, o=offset, t=ours, k=kind: struct.unpack("!H", f[12:14])[0] == k
                           and tuple(f[o:o + 2]) == t, 1)
        assert got, vip
        frame = got[0]
        assert frame[:12] == frames.mac(lab.mac("client")) + frames.mac(lab.mac("lb"))
        size = 16 if v6 else 4
        assert frame[offset - 2 * size:offset] == frames.packed(address) + frames.packed(own)
        assert struct.unpack("!I", frame[offset + 4:offset + 8])[0] == 1500 - overhead
        assert packet.startswith(frame[offset + 8:])
    before = told(lab)
    drops = too_big(lab)
    quote = frames.ipv4(VIP4, lib.CLIENT4, frames.tcp(VIP4, lib.CLIENT4, 80, 999, frames.ACK, payload=b"x" * 1430))
    error = bytes([3, 4, 0, 0, 0, 0, 5, 0]) + quote
    wire.send(frames.ethernet(lab.mac("lb"), lab.mac("client"), frames.ipv4(lib.CLIENT4, VIP4, error[:1480], 1)))
    loud = frames.ipv4("224.0.0.9", VIP4, frames.tcp("224.0.0.9", VIP4, 999, 80, frames.ACK, payload=b"x" * 1450))
    wire.send(frames.ethernet(lab.mac("lb"), lab.mac("client"), loud))
    lib.wait_until("both dropped", lambda: too_big(lab) == drops + 2)
    assert told(lab) == before
    wire.close()


def offered(lab, vip, address):
    """The maximum segment size in a SYN on its way to a backend, within the outer header."""
    wire = frames.Wire(lab.ns("sw"), "p-lb")
    sport = lab.fresh_port()
    lab.get(address=address, sport=sport)
    got = wire.receive(0.3, lambda f: f[6:12] == frames.mac(lab.mac("lb")) and struct.pack("!HH", sport, 80) in f)
    wire.close()
    header = 40 if ":" in address else 20
    tcp = got[0][14 + 2 * header:]
    assert tcp[13] == 2, tcp  # the SYN
    at = tcp.index(b"\x02\x04", 20)
    return struct.unpack("!H", tcp[at + 2:at + 4])[0]


def test_clamp_mss(lab):
    """A SYN offers no more than fits into the tunnel; backends send no larger segments."""
    for vip, (address, overhead) in VIPS.items():
        headers = 60 if ":" in address else 40
        assert offered(lab, vip, address) == 1500 - headers
        assert lab.api.patch(f"/v1/vips/{vip}", {"clamp_mss": True})["clamp_mss"] is True
        assert offered(lab, vip, address) == 1500 - overhead - headers
    test_uploads(lab)
    test_downloads(lab)
    for vip, (address, _) in VIPS.items():
        assert lab.api.patch(f"/v1/vips/{vip}", {"clamp_mss": None})["clamp_mss"] is False
        assert offered(lab, vip, address) == 1500 - (60 if ":" in address else 40)


if __name__ == "__main__":
    lib.main("oversize", [test_uploads, test_downloads, test_the_answer, test_clamp_mss], setup, backends=2)
