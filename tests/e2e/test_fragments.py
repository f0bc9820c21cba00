#!/usr/bin/python3
"""Datagrams of 8 KB, each of which comes in six fragments: from a client's kernel, and by hand in every
order, with parts lost, over changes of the pool, too many of them. What a backend answers says that it
got all parts, and that no other one did. Two workers; the client's kernel may give them to either."""

import hashlib
import os
import random
import struct
import time

import frames as f
import lib
from lib import CLIENT4, CLIENT6, VIP4, VIP6

WEIGHTS = {"b1": 1, "b2": 2}
VIPS = {"four": (VIP4, 9000, "l2"), "six": (VIP6, 9000, "l2"),
        "four-ipip": (VIP4, 9001, "ipip"), "six-ipip": (VIP6, 9001, "ipip")}
ALL = {**VIPS, "four-gue": (VIP4, 9003, "gue"), "six-gue": (VIP6, 9003, "gue")}
SIZE = 8192
PART = 1448  # as a kernel cuts to 1,500 bytes, over IPv6
rng = random.Random(8)
idents = iter(range(1000, 60000))

# Tells its name and what it got.
BACKEND = f"""
import hashlib, selectors, socket, sys
selector = selectors.DefaultSelector()
for family, address in ((socket.AF_INET, "{VIP4}"), (socket.AF_INET6, "{VIP6}")):
    for port in (9000, 9001, 9002, 9003):
        s = socket.socket(family, socket.SOCK_DGRAM)
        s.setsockopt(socket.SOL_SOCKET, 33, 4 << 20)  # SO_RCVBUFFORCE
        s.bind((address, port))
        selector.register(s, selectors.EVENT_READ)
while True:
    for key, _ in selector.select():
        data, client = key.fileobj.recvfrom(65536)
        key.fileobj.sendto((sys.argv[1] + " " + hashlib.sha256(data).hexdigest()).encode(), client)
"""


def setup(lab):
    for b in lab.backends:
        # Else a kernel gives up a datagram when 64 fragments of others from its source came in between.
        lab.run(b, "sysctl", "-qw", "net.ipv4.ipfrag_max_dist=0")
        lab.spawn(b, ["python3", "-c", BACKEND, b], lab.dir / f"{b}.out")
        lab.decapsulate(b)
    lab.start_daemon("--workers", "2")
    for vip, (address, port, mode) in ALL.items():
        lab.put_vip(vip, address, port, "udp", mode=mode)
        lab.put_dips(WEIGHTS, vip, v6=":" in address)
    lab.wire = f.Wire(lab.ns("client"))
    lib.wait_until("the backends", lambda: all(
        answered(lib.Datagrams(lab, a, p), b"x") for a, p, _ in ALL.values() for _ in range(6)), 10)


def answered(d, data, send=True):
    """The backend that got all of data, None if none answers soon."""
    d.sock.settimeout(5)
    try:
        if send:
            d.sock.send(data)
        name, digest = d.sock.recv(256).decode().split()
    except OSError:
        return None
    assert digest == hashlib.sha256(data).hexdigest(), "another datagram's parts"
    return name


def parts(lab, d, address, port, data):
    """The frames of a datagram from the socket's address and port."""
    v6 = ":" in address
    own, ident = (CLIENT6 if v6 else CLIENT4), next(idents)
    datagram = f.udp(own, address, d.sport, port, data)
    made = []
    for at in range(0, len(datagram), PART):
        part, more = datagram[at:at + PART], at + PART < len(datagram)
        if v6:
            head = struct.pack("!BBHI", f.UDP, 0, at | more, ident)
            packet = f.ipv6(own, address, head + part, 44)
        else:
            packet = bytearray(f.ipv4(own, address, part, f.UDP, fragment=at // 8 | more << 13))
            packet[4:6] = struct.pack("!H", ident)
            packet[10:12] = b"\0\0"
            packet[10:12] = struct.pack("!H", f.checksum(bytes(packet[:20])))
        made.append(f.ethernet(lab.mac("lb"), lab.mac("client"), bytes(packet),
                               f.ETH_IPV6 if v6 else f.ETH_IP))
    return made


def send(lab, made):
    """Not faster than a busy machine takes them."""
    for n, frame in enumerate(made):
        lab.wire.send(frame)
        if n % 32 == 31:
            time.sleep(0.002)


def drops(lab):
    return {k: v for k, v in lab.counters()["drops"].items() if v}


def flow(lab, vip):
    """A client's socket, a datagram of it and the datagram's parts."""
    address, port, _ = ALL[vip]
    d = lib.Datagrams(lab, address, port)
    data = os.urandom(SIZE)
    return d, data, parts(lab, d, address, port, data)


def test_from_a_kernel(lab):
    before = drops(lab)
    for address, port, _ in ALL.values():
        names = set()
        for _ in range(30):
            d = lib.Datagrams(lab, address, port)
            names.add(answered(d, os.urandom(SIZE)))
            d.close()
        assert names == set(WEIGHTS), names
    assert drops(lab) == before


def orders(made):
    yield "in order", made
    yield "reversed", made[::-1]
    for _ in range(3):
        yield "any", rng.sample(made, len(made))


def test_every_order(lab):
    before = drops(lab)
    for vip in ALL:
        for what, _ in orders([0]):
            d, data, made = flow(lab, vip)
            send(lab, dict(orders(made))[what])
            home = answered(d, data, send=False)
            assert home, (vip, what)
            # Small ones go where the large ones go.
            assert answered(d, b"small") == home, (vip, what)
            d.close()
    assert drops(lab) == before


def test_interleaved(lab):
    """The parts of many datagrams of many flows, mixed up."""
    before = drops(lab)
    flows = [flow(lab, vip) for vip in VIPS for _ in range(8)]
    mixed = [frame for _, _, made in flows for frame in made]
    rng.shuffle(mixed)
    send(lab, mixed)
    for d, data, _ in flows:
        assert answered(d, data, send=False), drops(lab)
        d.close()
    assert drops(lab) == before


def test_over_changes(lab):
    """The first, a change of the pool that moves homes, and the others; then a change while the others wait
    for the first."""
    for vip, (address, port, _) in VIPS.items():
        flows = [flow(lab, vip) for _ in range(16)]
        homes = [answered(d, b"whole") for d, _, _ in flows]
        send(lab, [made[0] for _, _, made in flows])
        change = lab.api.patch(f"/v1/vips/{vip}/dips/b1", {"weight": 7})["change"]
        assert change["flows_pinned"] > 0 and change["flows_moved"] == 0, change
        send(lab, [frame for _, _, made in flows for frame in made[1:]])
        now = [answered(d, data, send=False) for d, data, _ in flows]
        assert now == homes, (vip, homes, now, drops(lab))
        again = [parts(lab, d, address, port, data) for d, data, _ in flows]
        send(lab, [frame for made in again for frame in made[:0:-1]])
        lab.api.patch(f"/v1/vips/{vip}/dips/b1", {"weight": 1})
        send(lab, [made[0] for made in again])
        now = [answered(d, data, send=False) for d, data, _ in flows]
        assert now == homes, (vip, homes, now, drops(lab))
        for d, _, _ in flows:
            d.close()
    assert lab.consistency()["violations_total"] == 0


def test_lost_ones(lab):
    """A datagram that lacks a part is nobody's; what lacks the first is dropped after its time."""
    for vip in VIPS:
        for missing in (0, 2):
            d, data, made = flow(lab, vip)
            before = lab.counters()["drops"]["fragment_timeout"]
            send(lab, made[:missing] + made[missing + 1:])
            if missing == 0:
                lib.wait_until("dropped", lambda: lab.counters()["drops"]["fragment_timeout"] == before + len(made) - 1, 3)
            assert answered(d, data), (vip, missing)  # the next one
            d.close()


def test_too_many(lab):
    """More than a worker holds: the oldest are dropped, under a reason of their own, and traffic goes on."""
    before = lab.counters()["drops"]
    n = 700
    d, _, made = flow(lab, "four")
    send(lab, [made[1][:18] + struct.pack("!H", next(idents)) + made[1][20:] for _ in range(n)])

    def gone():
        now = lab.counters()["drops"]
        return (now["fragment_overflow"] - before["fragment_overflow"],
                now["fragment_timeout"] - before["fragment_timeout"])
    lib.wait_until("all dropped", lambda: sum(gone()) == n, 5)
    assert gone()[0] >= n - 2 * 256, gone()
    assert answered(d, os.urandom(SIZE))
    d.close()


def test_by_client(lab):
    """`fragments: client`: no part needs another one, and all large datagrams of a client go to one DIP."""
    for vip, address in (("by-client", VIP4), ("by-client6", VIP6)):
        lab.put_vip(vip, address, 9002, "udp", fragments="client")
        lab.put_dips(WEIGHTS, vip, v6=":" in address)
        assert lab.api.get(f"/v1/vips/{vip}")["fragments"] == "client"
        large, small = set(), set()
        for _ in range(40):
            d, data = lib.Datagrams(lab, address, 9002), os.urandom(SIZE)
            send(lab, parts(lab, d, address, 9002, data)[::-1])
            large.add(answered(d, data, send=False))
            small.add(answered(d, b"small"))
            d.close()
        assert len(large) == 1 and large < set(WEIGHTS), large
        assert small == set(WEIGHTS), small
    answer = lab.api.call("PUT", "/v1/vips/t", {"address": VIP4, "port": 1, "protocol": "tcp", "fragments": "client"})
    assert answer.status == 422 and answer.json["errors"][0]["pointer"] == "/fragments", answer


def test_nobody_answers_for_the_vip(lab):
    assert lab.resets_sent() == 0
    time.sleep(0.1)
    left = drops(lab)
    assert set(left) <= {"fragment_timeout", "fragment_overflow"}, left


if __name__ == "__main__":
    lib.main("fragments", [
        test_from_a_kernel, test_every_order, test_interleaved, test_over_changes, test_lost_ones,
        test_too_many, test_by_client, test_nobody_answers_for_the_vip,
    ], setup, backends=2, queues=2, mtu=1560)
