#!/usr/bin/python3
"""VIPs of a whole prefix, of a range of ports, of any protocol, and the longest match among them."""

import collections
import random
import signal
import threading

import lib
from lib import CLIENT4, CLIENT6, VIP4, VIP6

NET4, NET6 = "10.9.7.0/24", "fd09:7::/64"
WEIGHTS = {"b1": 1, "b2": 3}
RANGE = (8000, 8001, 8002, 8003)
random.seed(7)

# Bound to the addresses themselves, so that answers come from them.
ECHO = """
import selectors, socket, sys
selector = selectors.DefaultSelector()
for address in sys.argv[2:]:
    for port in (80, 5353):
        s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        s.bind((address, port))
        selector.register(s, selectors.EVENT_READ)
while True:
    for key, _ in selector.select():
        _, client = key.fileobj.recvfrom(2048)
        key.fileobj.sendto(sys.argv[1].encode(), client)
"""
DATAGRAMS_TO = [f"10.9.7.{i}" for i in range(64, 72)]


def host4(low=16, high=63):
    """Of the prefix, but of no longer one."""
    return f"10.9.7.{random.randint(low, high)}"


def host6():
    return f"fd09:7::{random.randint(1, 0xffff):x}:{random.randint(0, 0xffff):x}"


def setup(lab):
    lab.start_backends(ports=(80, *RANGE))
    for b in lab.backends:
        lab.script(b, f"ip route add local {NET4} dev lo", f"ip -6 route add local {NET6} dev lo")
        lab.spawn(b, ["python3", "-c", ECHO, b, *DATAGRAMS_TO], lab.dir / f"{b}.echo")
    lab.script("client", f"ip route add {NET4} via {lib.LB4}", f"ip -6 route add {NET6} via {lib.LB6}")
    lab.start_daemon()
    lab.put_vip("net", NET4)
    lab.put_dips(WEIGHTS, "net")
    lab.put_vip("net6", NET6, 0)
    lab.put_dips(WEIGHTS, "net6", v6=True)
    lab.put_vip("half", "10.9.7.128/25")
    lab.put_dips({"b3": 1}, "half")
    lab.put_vip("one", "10.9.7.7")
    lab.put_dips({"b4": 1}, "one")
    lab.put_vip("both", "10.9.7.64/29", 0, "any")
    lab.put_dips({"b3": 1, "b4": 1}, "both")
    lab.put_vip("ports", VIP4, RANGE[0], port_end=RANGE[-1])
    lab.put_dips(WEIGHTS, "ports")

    def answers():
        try:
            return all(lib.Datagrams(lab, a, 80).ask() for a in DATAGRAMS_TO for _ in range(5))
        except OSError:
            return False
    lib.wait_until("the echo servers", answers, 20)


def count(lab, hosts, port=80):
    return collections.Counter(lab.get(address=h, port=port, sport=lab.fresh_port()).backend
                               for h in hosts)


def test_shares_of_a_prefix(lab):
    lib.assert_shares(count(lab, [host4() for _ in range(600)]), WEIGHTS)
    lib.assert_shares(count(lab, [host6() for _ in range(600)]), WEIGHTS)


def test_the_longest_prefix_takes_it(lab):
    assert count(lab, [host4(128, 255) for _ in range(60)]) == {"b3": 60}
    assert count(lab, ["10.9.7.7"] * 60) == {"b4": 60}
    # Of a port that the longer ones do not take, there is none.
    for vip, dst in (("net", "10.9.7.20"), ("half", "10.9.7.128"), ("one", "10.9.7.7")):
        url = f"/v1/explain?src={CLIENT4}&sport=9&dst={dst}&vip="
        assert lab.api.get(url + vip)["reason"] == "home"
    assert lab.api.call("GET", f"/v1/explain?src={CLIENT4}&sport=9&dst=10.9.7.7&vip=net").status == 404
    a = lab.api.call("GET", f"/v1/explain?src={CLIENT4}&sport=9&vip=net")
    assert a.status == 400 and "dst" in a.raw.decode(), a


def test_a_range_of_ports(lab):
    for port in RANGE:
        lib.assert_shares(count(lab, [VIP4] * 150, port), WEIGHTS)
    for port in (RANGE[0] - 1, RANGE[-1] + 1):
        try:
            lab.get(port=port)
            raise AssertionError(f"port {port} is no VIP's")
        except ConnectionRefusedError:
            pass  # by the load balancer's kernel, whose address it is


def test_any_port_and_protocol(lab):
    tcp = sum((count(lab, [random.choice(DATAGRAMS_TO) for _ in range(75)], port)
               for port in (80, *RANGE[1:])), collections.Counter())
    udp = collections.Counter()
    for _ in range(300):
        d = lib.Datagrams(lab, random.choice(DATAGRAMS_TO), random.choice((80, 5353)), lab.fresh_port())
        udp[d.ask()] += 1
        d.close()
    lib.assert_shares(tcp, {"b3": 1, "b4": 1})
    lib.assert_shares(udp, {"b3": 1, "b4": 1})


def test_echo(lab):
    """No interface has these addresses, so the kernel does not answer for them."""
    before = lab.counters()["answers"]["echo"]
    for a in (host4(), host4(128, 255), host6()):
        out = lab.run("client", "ping", "-n", "-c", 3, "-i", "0.02", "-W", "1", a, check=False)
        assert "3 received" in out, out
    assert lab.counters()["answers"]["echo"] == before + 9


def test_the_destination_is_part_of_the_flow(lab):
    """One client port to many addresses: as many flows, each known where it landed, on both DIPs."""
    for vip, src, hosts in (("net", CLIENT4, [f"10.9.7.{i}" for i in range(16, 46)]),
                            ("net6", CLIENT6, [f"fd09:7::{i:x}" for i in range(1, 31)])):
        sport = lab.fresh_port()
        before = lab.api.get(f"/v1/vips/{vip}")["flows"]
        connections = [lib.Connection(lab, h, sport=sport) for h in hosts]
        homes = [c.get("/name").backend for c in connections]
        assert set(homes) == {"b1", "b2"}, homes
        for h, home in zip(hosts, homes):
            e = lab.api.get(f"/v1/explain?vip={vip}&src={src}&sport={sport}&dst={h}&dport=80")
            assert e["dip"] == home and e["known"], (h, home, e)
        assert lab.api.get(f"/v1/vips/{vip}")["flows"] >= before + len(hosts)
        for c in connections:
            c.close()


def test_a_change_of_a_pool_moves_none(lab):
    """Nor does a restart, or a kill."""
    keep = [lib.Connection(lab, h, port) for h, port in
            [(host4(), 80) for _ in range(40)] + [(host6(), 80) for _ in range(40)] +
            [(VIP4, p) for p in RANGE * 10] + [(random.choice(DATAGRAMS_TO), 80) for _ in range(20)]]
    homes = [c.get("/name").backend for c in keep]
    downloads = [lib.Download(lab, h, 48 << 10) for h in [host4() for _ in range(5)] + [host6()] * 5]
    for vip in ("net", "net6", "ports"):
        for b, w in (("b1", 5), ("b2", 1)):
            assert lab.api.patch(f"/v1/vips/{vip}/dips/{b}", {"weight": w})["change"]["flows_moved"] == 0
        v6 = vip == "net6"
        lab.put_dips({"b3": 4}, vip, v6)
    assert lab.api.call("DELETE", "/v1/vips/both/dips/b3").json["change"]["flows_moved"] == 0
    assert [c.get("/name").backend for c in keep] == homes
    before = lab.api.get("/v1/vips")
    lab.stop_daemon(signal.SIGKILL)
    lab.start_daemon()
    same = ("id", "address", "port", "port_end", "protocol")
    assert [[v[k] for k in same] for v in lab.api.get("/v1/vips")["items"]] == \
        [[v[k] for k in same] for v in before["items"]]
    assert lab.api.patch("/v1/vips/net/dips/b1", {"weight": 1})["change"]["flows_moved"] == 0
    assert [c.get("/name").backend for c in keep] == homes
    for d in downloads:
        d.finish()
    for c in keep:
        c.close()
    lab.assert_consistent()


def test_overlaps(lab):
    def put(query, **members):
        return lab.api.call("PUT", f"/v1/vips/more{query}",
                            {"address": "10.9.7.20", "port": 80, "protocol": "tcp", **members})
    with lib.Connection(lab, "10.9.7.20") as c:
        c.get("/name")
        a = put("")
        assert a.status == 409 and a.json["errors"][0]["code"] == "overlap", a
        a = put("", address=NET4)
        assert a.status == 409 and a.json["errors"][0]["code"] == "duplicate", a
    # What takes nothing is let in beside: a wider prefix, another port.
    assert put("", address="10.9.0.0/16", port=443).status == 201
    assert lab.api.call("DELETE", "/v1/vips/more?force=true").status == 200
    for members, pointer in (({"address": "10.9.7.1/24"}, "/address"), ({"port_end": 79}, "/port_end")):
        a = put("", **members)
        assert a.status == 422 and a.json["errors"][0]["pointer"] == pointer, a

    def names(query):
        return {v["id"] for v in lab.api.get(f"/v1/vips?{query}")["items"]}
    assert names("address=10.9.7.200") == {"net", "half"}
    assert names(f"address={NET4}") == {"net"}
    assert names(f"address={VIP4}&port={RANGE[1]}") == {"ports"}


def test_a_more_specific_vip_comes_and_goes(lab):
    """All the while nothing of the prefix goes to the kernel, and no other connection notices."""
    resets = lab.resets_sent()
    downloads = [lib.Download(lab, host4(21, 60), 48 << 10) for _ in range(10)]
    done, answered = threading.Event(), collections.Counter()

    def connect():
        while not done.is_set():
            try:
                answered[lab.get(address="10.9.7.20", sport=lab.fresh_port(), timeout=8).backend] += 1
            except OSError:
                answered["nobody"] += 1
    thread = threading.Thread(target=connect, daemon=True)
    thread.start()
    for _ in range(6):
        a = lab.api.call("PUT", "/v1/vips/more?force=true",
                         {"address": "10.9.7.20", "port": 80, "protocol": "tcp"})
        assert a.status == 201, a
        lab.put_dips({"b4": 1}, "more")
        there = answered["b4"]
        lib.wait_until("the new VIP answers", lambda n=there: answered["b4"] > n)
        assert lab.api.call("DELETE", "/v1/vips/more?force=true").status == 200
        others = sum(answered[b] for b in ("b1", "b2", "b3"))
        lib.wait_until("the prefix answers",
                       lambda n=others: sum(answered[b] for b in ("b1", "b2", "b3")) > n)
    done.set()
    thread.join(30)
    for d in downloads:
        d.finish()
    # Connections may have been under way at a forced change: then the other backend resets them, but
    # never our kernel.
    assert lab.resets_sent() == resets
    assert answered["nobody"] < sum(answered.values()) / 2, answered
    assert lab.consistency()["violations_total"] == 0


if __name__ == "__main__":
    lib.main("match", [
        test_shares_of_a_prefix, test_the_longest_prefix_takes_it, test_a_range_of_ports,
        test_any_port_and_protocol, test_echo, test_the_destination_is_part_of_the_flow,
        test_a_change_of_a_pool_moves_none, test_overlaps, test_a_more_specific_vip_comes_and_goes,
    ], setup, backends=4)
