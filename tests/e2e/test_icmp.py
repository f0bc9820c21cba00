#!/usr/bin/python3
"""ICMP and ICMPv6 to a VIP: errors reach the backend of the flow that they are about, so that path MTU
discovery works, and echo is answered, by the kernel where it has the address and else by concuryd.

    far --(MTU 1280)-- router ---- sw ---- lb (two queues), client, backends
"""

import frames
import lib
from lib import VIP4, VIP6
from routers import FAR4, FAR6, ROUTER4, ROUTER6, add_router, download

# Of each mode and family: its VIP.
VIPS = {"l2-4": (VIP4, 80), "l2-6": (VIP6, 80), "ipip-4": (VIP4, 8080), "ipip-6": (VIP6, 8080)}


def setup(lab):
    add_router(lab)
    for b in lab.backends:
        lab.script(b, f"ip route add 10.8.0.0/24 via {ROUTER4}",
                   f"ip route add fd08::/64 via {ROUTER6}")
        lab.decapsulate(b)
    lab.start_backends(ports=(80, 8080))
    lab.start_daemon("--workers", "2")
    for vip, (address, port) in VIPS.items():
        lab.put_vip(vip, address, port, mode=vip.split("-")[0])
        lab.put_dips({"b1": 1, "b2": 1}, vip, v6=vip.endswith("6"))


def path_mtu(lab, backend, v6):
    family, to, vip = ("-6", FAR6, VIP6) if v6 else ("-4", FAR4, VIP4)
    words = lab.run(backend, "ip", family, "route", "get", to, "from", vip).split()
    return int(words[words.index("mtu") + 1]) if "mtu" in words else 1500


def forget_paths(lab):
    for b in lab.backends:
        lab.run(b, "ip", "-4", "route", "flush", "cache")
        lab.run(b, "ip", "-6", "route", "flush", "cache")


def test_path_mtu_discovery(lab):
    """Each download runs into the narrow link, and goes on because the router's error finds the one
    backend that can do something about it. Every backend learns it by its own connections alone."""
    for vip, (address, port) in VIPS.items():
        v6 = vip.endswith("6")
        forget_paths(lab)
        learned = {b: path_mtu(lab, b, v6) for b in lab.backends}
        assert set(learned.values()) == {1500}, learned
        backend = download(lab, address, port)
        other = {"b1": "b2", "b2": "b1"}[backend]
        assert path_mtu(lab, backend, v6) == 1280, (vip, backend)
        assert path_mtu(lab, other, v6) == 1500, (vip, other)
    lab.assert_consistent()


def test_any_queue(lab):
    """Errors come by another queue than their flow's packets, as their outer addresses are others;
    many flows, so that all four ways are taken."""
    for vip, (address, port) in VIPS.items():
        forget_paths(lab)
        seen = {download(lab, address, port) for _ in range(4)}
        assert seen <= set(lab.backends)
    assert lab.counters()["drops"]["not_l4"] == 0, lab.counters()


def icmp(src, dst, kind, code, rest, v6):
    body = bytes([kind, code, 0, 0]) + rest
    pseudo = frames.packed(src) + frames.packed(dst) + \
        frames.struct.pack("!II", len(body), 58) if v6 else b""
    body = body[:2] + frames.struct.pack("!H", frames.checksum(pseudo + body)) + body[4:]
    return frames.ipv6(src, dst, body, 58) if v6 else frames.ipv4(src, dst, body, 1)


def test_only_its_flows(lab):
    """All four kinds of error go to the flow's backend; one whose quote is of another source, or of no
    VIP's port, is the kernel's, and learns nothing."""
    flows = lab.consistency()["flows_known"]
    wire = frames.Wire(lab.ns("sw"), "p-lb")
    client = frames.Wire(lab.ns("client"))
    for v6 in (False, True):
        vip, own = (VIP6, lib.CLIENT6) if v6 else (VIP4, lib.CLIENT4)
        kinds = ((1, 0), (2, 0), (3, 0), (4, 1)) if v6 else ((3, 4), (3, 1), (11, 0), (12, 0))
        for kind, code in kinds:
            for source, port, ours in ((vip, 80, True), (own, 80, False), (vip, 99, False)):
                inner = frames.tcp(source, own, port, 5555, frames.ACK)
                inner = frames.ipv6(source, own, inner) if v6 else frames.ipv4(source, own, inner)
                packet = icmp(own, vip, kind, code, b"\0\0\5\0" + inner, v6)
                client.send(frames.ethernet(lab.mac("lb"), lab.mac("client"), packet,
                                            frames.ETH_IPV6 if v6 else frames.ETH_IP))
                got = wire.receive(2 if ours else 0.1, lambda f, p=packet: f[14:14 + len(p)] == p, 1)
                assert len(got) == ours, (vip, kind, source, port)
                if ours:
                    assert got[0][:6] in [frames.mac(lab.mac(b)) for b in lab.backends]
    wire.close()
    client.close()
    assert lab.consistency()["flows_known"] == flows


def ping(lab, address, n=5):
    return f"{n} received" in lab.run("client", "ping", "-n", "-c", n, "-i", "0.02", "-W", "1", address,
                                      check=False)


def test_echo_by_the_kernel(lab):
    for vip in (VIP4, VIP6):
        assert ping(lab, vip)
    assert lab.counters()["answers"]["echo"] == 0


def test_echo_by_us(lab):
    """Without the address, and so without ARP or ND for it: the client's entry is made by hand."""
    lab.script("client", *(f"ip neigh replace {a} lladdr {lab.mac('lb')} dev eth0 nud permanent"
                           for a in (VIP4, VIP6)))
    lab.script("lb", f"ip addr del {VIP4}/32 dev eth0", f"ip addr del {VIP6}/128 dev eth0")
    for n, vip in enumerate((VIP4, VIP6)):
        lib.wait_until("an answer", lambda vip=vip: ping(lab, vip, 1))
        before = lab.counters()["answers"]["echo"]
        assert ping(lab, vip)
        assert lab.counters()["answers"]["echo"] == before + 5
        assert lab.get(address=vip).status == 200


def test_echo_is_limited(lab):
    client = frames.Wire(lab.ns("client"))
    request = icmp(lib.CLIENT4, VIP4, 8, 0, b"\0\1\0\1" + b"x" * 20, False)
    for _ in range(3000):
        client.send(frames.ethernet(lab.mac("lb"), lab.mac("client"), request))
    client.close()
    lib.wait_until("some are not answered", lambda: lab.counters()["drops"]["answer_limit"] > 0)


def test_echo_by_the_kernel_again(lab):
    lab.script("lb", f"ip addr add {VIP4}/32 dev eth0", f"ip addr add {VIP6}/128 dev eth0 nodad")

    def kernel():
        before = lab.counters()["answers"]["echo"]
        return all(ping(lab, vip) for vip in (VIP4, VIP6)) and \
            lab.counters()["answers"]["echo"] == before
    lib.wait_until("the kernel answers", kernel)
    assert lab.resets_sent() == 0
    lab.assert_consistent()


if __name__ == "__main__":
    lib.main("icmp", [
        test_path_mtu_discovery, test_any_queue, test_only_its_flows, test_echo_by_the_kernel,
        test_echo_by_us, test_echo_is_limited, test_echo_by_the_kernel_again,
    ], setup, backends=2, queues=2, mtu=1540)
