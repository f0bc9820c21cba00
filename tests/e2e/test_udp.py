#!/usr/bin/python3
"""UDP, any protocol on any port, and `affinity: client`."""

import collections
import signal

import lib
from lib import CLIENT4, VIP4, VIP6

WEIGHTS = {"b1": 1, "b2": 2, "b3": 1}
N_CLIENTS = 150

# Bound to the VIPs themselves, so that answers come from them.
ECHO = f"""
import selectors, socket, sys
selector = selectors.DefaultSelector()
for family, address in ((socket.AF_INET, "{VIP4}"), (socket.AF_INET6, "{VIP6}")):
    for port in (53, 5353):
        s = socket.socket(family, socket.SOCK_DGRAM)
        s.bind((address, port))
        selector.register(s, selectors.EVENT_READ)
while True:
    for key, _ in selector.select():
        _, client = key.fileobj.recvfrom(2048)
        key.fileobj.sendto(sys.argv[1].encode(), client)
"""


def client_address(i):
    return f"10.9.1.{1 + i}"


def setup(lab):
    lab.start_backends(ports=(80, 8080))
    for b in lab.backends:
        lab.spawn(b, ["python3", "-c", ECHO, b], lab.dir / f"{b}.echo")
    # More clients: addresses of a network that everybody finds on the segment.
    for i in range(N_CLIENTS):
        lab.run("client", "ip", "addr", "add", f"{client_address(i)}/32", "dev", "eth0")
    for n in ("lb", *lab.backends):
        lab.run(n, "ip", "route", "add", "10.9.1.0/24", "dev", "eth0")
    lab.start_daemon()
    for vip, address, v6 in (("dns", VIP4, False), ("dns6", VIP6, True)):
        lab.put_vip(vip, address, 53, "udp")
        lab.put_dips(WEIGHTS, vip, v6)
    lab.put_vip("all", VIP4, 0, "any", affinity="client")
    lab.put_dips(WEIGHTS, "all")

    def answers():
        try:
            return all(lib.Datagrams(lab, a, 53).ask() for a in (VIP4, VIP6) for _ in range(20))
        except OSError:
            return False
    lib.wait_until("the echo servers", answers, 20)


def test_shares(lab):
    for vip in (VIP4, VIP6):
        counts = collections.Counter()
        for _ in range(1200):
            d = lib.Datagrams(lab, vip, 53, lab.fresh_port())
            counts[d.ask()] += 1
            d.close()
        lib.assert_shares(counts, WEIGHTS)


def test_explain(lab):
    for _ in range(100):
        d = lib.Datagrams(lab, VIP4, 53, lab.fresh_port())
        landed = d.ask()
        e = lab.api.get(f"/v1/explain?vip=dns&src={CLIENT4}&sport={d.sport}")
        assert e["dip"] == landed and e["known"], (e, landed)
        d.close()


def test_flows_stay(lab):
    """Over weight changes, a new DIP, kill -9 and restart."""
    flows = [lib.Datagrams(lab, vip, 53) for vip in (VIP4, VIP6) for _ in range(60)]
    homes = [d.ask() for d in flows]
    assert set(homes) == set(WEIGHTS), homes
    for vip, v6 in (("dns", False), ("dns6", True)):
        for b, w in (("b1", 6), ("b2", 1)):
            change = lab.api.patch(f"/v1/vips/{vip}/dips/{b}", {"weight": w})["change"]
            assert change["flows_moved"] == 0 and change["flows_pinned"] > 0, change
        lab.put_dips({"b4": 4}, vip, v6)
    assert [d.ask() for d in flows] == homes
    lab.stop_daemon(signal.SIGKILL)
    lab.start_daemon()
    for vip in ("dns", "dns6"):
        change = lab.api.patch(f"/v1/vips/{vip}/dips/b3", {"weight": 9})["change"]
        assert change["flows_moved"] == 0, change
        a = lab.api.call("DELETE", f"/v1/vips/{vip}/dips/b4")
        assert a.status in (200, 202) and a.json["change"]["flows_moved"] == 0, a
    assert [d.ask() for d in flows] == homes
    for d in flows:
        d.close()


def clients_land(ask):
    """Where every client lands, three times each; it must be one DIP a client."""
    homes = {}
    for i in range(N_CLIENTS):
        landed = {ask(client_address(i)) for _ in range(3)}
        assert len(landed) == 1, (client_address(i), landed)
        homes[i] = landed.pop()
    return homes


def test_affinity_client(lab):
    """All connections of one client, over TCP and UDP and all ports, go to one DIP, and stay there."""
    def over_tcp(port):
        def ask(source):
            with lib.Connection(lab, VIP4, port, source=source) as c:
                return c.get("/name", close=True).backend
        return ask

    def over_udp(source):
        d = lib.Datagrams(lab, VIP4, 5353, source=source)
        try:
            return d.ask()
        finally:
            d.close()
    homes = clients_land(over_tcp(80))
    lib.assert_shares(collections.Counter(homes.values()), WEIGHTS)
    assert clients_land(over_tcp(8080)) == homes
    assert clients_land(over_udp) == homes
    for i in range(0, N_CLIENTS, 10):
        e = lab.api.get(f"/v1/explain?vip=all&src={client_address(i)}")
        assert e["dip"] == homes[i], (e, homes[i])
    for b, w in (("b1", 8), ("b2", 1)):
        change = lab.api.patch(f"/v1/vips/all/dips/{b}", {"weight": w})["change"]
        assert change["flows_moved"] == 0 and change["flows_known"] >= N_CLIENTS, change
    assert clients_land(over_tcp(80)) == homes
    # The more special VIP goes first.
    assert lib.Datagrams(lab, VIP4, 53).ask() in WEIGHTS
    dns = next(v for v in lab.counters()["vips"] if v["id"] == "dns")
    lib.Datagrams(lab, VIP4, 53).ask()
    assert next(v for v in lab.counters()["vips"] if v["id"] == "dns")["packets"] == dns["packets"] + 1


def test_overlapping_vip(lab):
    """A VIP that would take known flows over from one of any port is refused, unless it is meant."""
    body = {"address": VIP4, "port": 8080, "protocol": "tcp"}
    a = lab.api.call("PUT", "/v1/vips/part", body)
    assert a.status == 409, a
    assert lab.api.call("GET", "/v1/vips/part").status == 404
    a = lab.api.call("PUT", "/v1/vips/part?force=true", body)
    assert a.status == 201, a
    lab.put_dips({"b4": 1}, "part")
    assert lab.get(port=8080).backend == "b4"
    assert lab.get(port=80).backend in WEIGHTS


def test_kernel_never_answered(lab):
    assert lab.resets_sent() == 0
    lab.assert_consistent()


if __name__ == "__main__":
    lib.main("udp", [
        test_shares, test_explain, test_flows_stay, test_affinity_client, test_overlapping_vip,
        test_kernel_never_answered,
    ], setup, backends=4)
