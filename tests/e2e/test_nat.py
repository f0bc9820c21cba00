#!/usr/bin/python3
"""`mode: nat`: destination and port translated, the answers translated back. The backends know nothing
of the VIP; their only way to anywhere is the load balancer, which stands on their own segment. A client
far away is behind a link that carries 1280 bytes."""

import os

import lib
from lib import LB4, LB6, VIP4, VIP6
from routers import FAR4, FAR6, ROUTER4, ROUTER6, add_router, download

WEIGHTS = {"b1": 1, "b2": 3}
VIPS = {"four": (VIP4, False), "six": (VIP6, True)}

# By 5353 for a VIP, by 5355 for whoever asks it itself.
ECHO = """
import selectors, socket, sys
selector = selectors.DefaultSelector()
for family, address in ((socket.AF_INET, "0.0.0.0"), (socket.AF_INET6, "::")):
    for port in (5353, 5355):
        s = socket.socket(family, socket.SOCK_DGRAM)
        if family == socket.AF_INET6:
            s.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        s.bind((address, port))
        selector.register(s, selectors.EVENT_READ)
while True:
    for key, _ in selector.select():
        data, client = key.fileobj.recvfrom(65536)
        key.fileobj.sendto(sys.argv[1].encode() + data[8:], client)
"""


def route_back(lab, b):
    """The load balancer is the backend's router."""
    lab.script(b, f"ip addr del {VIP4}/32 dev lo", f"ip addr del {VIP6}/128 dev lo",
               "sysctl -qw net.ipv4.conf.all.accept_redirects=0 net.ipv4.conf.eth0.accept_redirects=0 "
               "net.ipv6.conf.all.accept_redirects=0 net.ipv6.conf.eth0.accept_redirects=0",
               "ip route del 10.9.0.0/24 dev eth0", f"ip route add {LB4} dev eth0",
               f"ip route add default via {LB4}",
               "ip -6 route del fd09::/64 dev eth0", f"ip -6 route add {LB6} dev eth0",
               f"ip -6 route add default via {LB6}")


def put_dips(lab, vip, v6, weights, port):
    for b, w in weights.items():
        lab.api.put(f"/v1/vips/{vip}/dips/{b}",
                    {"address": lab.address(b, v6), "port": port, "weight": w})
    lab.wait_up(weights, vip)


def setup(lab):
    lab.script("lb", "sysctl -qw net.ipv4.ip_forward=1 net.ipv6.conf.all.forwarding=1 "
                     "net.ipv4.conf.all.send_redirects=0 net.ipv4.conf.eth0.send_redirects=0")
    add_router(lab)
    lab.script("lb", f"ip route add 10.8.0.0/24 via {ROUTER4}", f"ip route add fd08::/64 via {ROUTER6}")
    for b in lab.backends:
        route_back(lab, b)
    lab.start_backends(ports=(8080,))
    for b in lab.backends:
        # What a backend says of a closed port must not depend on how often it has said so while ECHO started.
        lab.run(b, "sysctl", "-qw", "net.ipv4.icmp_ratelimit=0", "net.ipv6.icmp.ratelimit=0")
        lab.spawn(b, ["python3", "-c", ECHO, b], lab.dir / f"{b}.echo")
    lab.start_daemon()
    for vip, (address, v6) in VIPS.items():
        lab.put_vip(vip, address, 80, mode="nat")
        put_dips(lab, vip, v6, WEIGHTS, 8080)
        lab.put_vip(f"{vip}-dns", address, 53, "udp", mode="nat")
        put_dips(lab, f"{vip}-dns", v6, {"b1": 1}, 5353)


def test_tcp(lab):
    for vip, (address, _) in VIPS.items():
        lib.assert_shares(lab.count_connections(400, address), WEIGHTS)
        assert sum(lab.count_curls(50, address).values()) == 50


def test_udp(lab):
    for address, _ in VIPS.values():
        def answers(address=address):
            try:
                return lib.Datagrams(lab, address, 53).ask() == "b1"
            except OSError:
                return False
        lib.wait_until("the echo server", answers)
        for _ in range(50):
            d = lib.Datagrams(lab, address, 53, lab.fresh_port())
            assert d.ask() == "b1"  # the socket is connected: an answer from elsewhere is none
            d.close()


def test_fragments(lab):
    """Datagrams of 8 KB, there and back: six fragments each way, of which only the first has ports."""
    for vip, (address, _) in VIPS.items():
        before = lab.dips(f"{vip}-dns")["b1"]
        d = lib.Datagrams(lab, address, 53)
        d.sock.settimeout(5)
        for _ in range(20):
            data = os.urandom(8192)
            d.sock.send(data)
            assert d.sock.recv(65536) == b"b1" + data[8:]
        d.close()
        now = lab.dips(f"{vip}-dns")["b1"]
        assert now["packets"] - before["packets"] == now["return_packets"] - before["return_packets"] == 120


def test_own_fragments(lab):
    """What a backend sends in fragments from another port is not the VIP's: the kernel forwards it, as ever."""
    for v6 in (False, True):
        d = lib.Datagrams(lab, lab.address("b1", v6), 5355)
        d.sock.settimeout(5)
        for _ in range(5):
            data = os.urandom(8192)
            d.sock.send(data)
            assert d.sock.recv(65536) == b"b1" + data[8:]
        d.close()


def test_no_such_port(lab):
    """A backend's \"port unreachable\" reaches the client's socket, as if the VIP had said so."""
    for vip, (address, v6) in VIPS.items():
        lab.put_vip(f"{vip}-closed", address, 54, "udp", mode="nat")
        put_dips(lab, f"{vip}-closed", v6, {"b1": 1}, 5454)
        d = lib.Datagrams(lab, address, 54)
        try:
            raise AssertionError(d.ask())
        except ConnectionRefusedError:
            pass
        d.close()
        assert lab.dips(f"{vip}-closed")["b1"]["return_packets"] == 1
        assert lab.api.call("DELETE", f"/v1/vips/{vip}-closed?force=true").status == 200


def test_counters(lab):
    """What came back is counted with the DIP it came from."""
    for vip in VIPS:
        dips = lab.dips(vip)
        assert all(d["return_packets"] > 0 and d["return_bytes"] > d["return_packets"] * 54
                   for d in dips.values()), dips
        seen = lab.api.get(f"/v1/vips/{vip}")
        assert seen["return_packets"] == sum(d["return_packets"] for d in dips.values()), seen
    assert lab.dips("four")["b2"]["return_packets"] > lab.dips("four")["b1"]["return_packets"]


def test_path_mtu(lab):
    """What the router far away says to the VIP reaches the one backend that can do something about it."""
    def path_mtu(b, v6):
        words = lab.run(b, "ip", "-6" if v6 else "-4", "route", "get", FAR6 if v6 else FAR4).split()
        return int(words[words.index("mtu") + 1]) if "mtu" in words else 1500
    for address, v6 in VIPS.values():
        assert {path_mtu(b, v6) for b in lab.backends} == {1500}
        home = download(lab, address, 80)
        assert {b for b in lab.backends if path_mtu(b, v6) == 1280} == {home}


def test_connections_stay(lab):
    """Weights change, a backend comes, one drains: downloads and open connections stay."""
    downloads = [lib.Download(lab, a, 96 << 10) for a, _ in VIPS.values() for _ in range(8)]
    keep = [lib.Connection(lab, a) for a, _ in VIPS.values() for _ in range(15)]
    homes = [c.get("/name").backend for c in keep]
    for vip, (_, v6) in VIPS.items():
        for b, w in (("b1", 5), ("b2", 1)):
            assert lab.api.patch(f"/v1/vips/{vip}/dips/{b}", {"weight": w})["change"]["flows_moved"] == 0
        put_dips(lab, vip, v6, {"b3": 6}, 8080)
        a = lab.api.call("DELETE", f"/v1/vips/{vip}/dips/b2")
        assert a.status == 202 and a.json["change"]["flows_moved"] == 0, a
    lib.assert_shares(lab.count_connections(300), {"b1": 5, "b2": 0, "b3": 6})
    assert [c.get("/name").backend for c in keep] == homes
    for d in downloads:
        d.finish()
    for c in keep:
        c.close()


def test_upload(lab):
    for address, _ in VIPS.values():
        assert lab.upload(address, "2m")


def test_whose_end(lab):
    """A DIP's address, port and protocol are one VIP's of mode nat alone."""
    lab.put_vip("other", VIP4, 8080, mode="nat")
    body = {"address": lab.address("b1"), "port": 8080}
    a = lab.api.call("PUT", "/v1/vips/other/dips/x", body)
    assert a.status == 409 and a.json["errors"][0]["pointer"] == "/address", a
    assert '"four"' in a.json["errors"][0]["detail"], a.json
    assert lab.api.call("PUT", "/v1/vips/other/dips/x", {**body, "port": 81}).status == 201
    a = lab.api.call("PUT", "/v1/vips/other/dips/y", {"address": lab.address("b1", True)})
    assert a.status == 422, a
    assert lab.api.call("DELETE", "/v1/vips/other?force=true").status == 200


def test_restart(lab):
    """A killed process's successor goes on, both ways."""
    keep = [lib.Connection(lab, a) for a, _ in VIPS.values() for _ in range(5)]
    homes = [c.get("/name").backend for c in keep]
    lab.stop_daemon(9)
    lab.start_daemon()
    assert [c.get("/name").backend for c in keep] == homes
    for c in keep:
        c.close()


def test_host_asks_backends(lab):
    """What DIPs answer to the load balancer itself is no client's: health checks go to the DIPs' port."""
    out = lab.run("lb", "curl", "-sS", "-m", "5", f"http://{lab.address('b1')}:8080/name")
    assert out.strip() == "b1", out
    a = lab.api.patch("/v1/vips/four", {"health": {"type": "http", "path": "/name", "interval_ms": 200}})
    assert a["health"]["port"] is None

    def checked():
        return all(d["health"]["last_check"] and d["state"] == "up"
                   for n, d in lab.dips("four").items() if n != "b2")
    lib.wait_until("checks by the DIPs' port", checked)


def test_forwarding_is_looked_at(lab):
    """The kernel must forward on the DIPs' side; what keeps it from that is told, with the command."""
    def findings():
        return [f for f in lab.api.get("/v1/doctor")["items"] if "mode nat" in f["text"]]
    assert not findings(), findings()
    lab.run("lb", "sysctl", "-qw", "net.ipv4.conf.eth0.forwarding=0")
    assert [f["command"] for f in findings()] == ["sysctl -w net.ipv4.conf.eth0.forwarding=1"], findings()
    lab.run("lb", "sysctl", "-qw", "net.ipv4.conf.eth0.forwarding=1")


def test_kernel_never_answered(lab):
    lab.assert_consistent()
    assert lab.resets_sent() == 0
    drops = lab.counters()["drops"]
    assert not any(n for reason, n in drops.items() if reason != "back_unresolved"), drops


if __name__ == "__main__":
    lib.main("nat", [
        test_tcp, test_udp, test_fragments, test_own_fragments, test_no_such_port, test_counters, test_path_mtu,
        test_connections_stay, test_upload, test_whose_end,
        test_restart, test_host_asks_backends, test_forwarding_is_looked_at,
        test_kernel_never_answered,
    ], setup)
