#!/usr/bin/python3
"""QUIC by connection ID: clients and servers by ngtcp2 (`quic/`), clients that change their address."""

import contextlib
import queue
import signal
import subprocess
import threading

import lib
from lib import CLIENT4, CLIENT6, VIP4, VIP6

PORT = 443
SIZE, PAUSE = 600_000, 150_000
CLIENTS = 8  # of each family
PEERS = lib.BUILD / "tests" / "e2e" / "quic"
VIPS = {"h3": (VIP4, CLIENT4, "10.9.1.{}"), "h3v6": (VIP6, CLIENT6, "fd09:1::{}")}
WEIGHTS = {"b1": 1, "b2": 2, "b3": 1}


def server_id(backend):
    return f"5a0{backend[1:]}"


class Client:
    """A connection of a client; its commands and what it prints are in quic/client.c."""

    def __init__(self, lab, vip):
        self.vip = vip
        address, local, _ = VIPS[vip]
        self.process = subprocess.Popen(
            ["ip", "netns", "exec", lab.ns("client"), PEERS / "client", address, str(PORT), local],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1)
        lab.processes.append(self.process)
        self.lines = queue.Queue()
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self):
        for line in self.process.stdout:
            self.lines.put(line.strip())
        self.lines.put("(the end)")

    def say(self, command):
        self.process.stdin.write(command + "\n")

    def hear(self, begin, timeout=15):
        """What follows the beginning of the next line."""
        try:
            line = self.lines.get(timeout=timeout)
        except queue.Empty:
            raise AssertionError(f"no '{begin}' within {timeout} s") from None
        assert line.startswith(begin), f"'{line}', not '{begin}'"
        return line[len(begin):].strip()

    def is_silent(self):
        return self.lines.empty()

    def close(self):
        with contextlib.suppress(BrokenPipeError):
            self.process.stdin.close()
        self.process.wait(5)


clients = []
homes = []   # of each, the server that it began with


def client_address(vip, i):
    return VIPS[vip][2].format(1 + i)


def strays(lab):
    """Packets that have reached a server which has no such connection."""
    return sum((lab.dir / f"{b}.quic").read_text().count("stray") for b in lab.backends)


def by_id(lab):
    return lab.counters()["quic"]["by_id"]


def start_servers(lab):
    key, certificate = lab.dir / "key.pem", lab.dir / "certificate.pem"
    lib.sh("openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1",
           "-nodes", "-keyout", key, "-out", certificate, "-subj", "/CN=quic", "-days", "10")
    for b in lab.backends:
        out = lab.dir / f"{b}.quic"
        for address in (VIP4, VIP6):
            lab.spawn(b, [PEERS / "server", address, PORT, b, server_id(b), certificate, key], out)
    for b in lab.backends:
        lib.wait_until(f"the servers of {b}",
                       lambda b=b: (lab.dir / f"{b}.quic").read_text().count("ready") == 2)


def put_dip(lab, vip, backend, weight):
    lab.api.put(f"/v1/vips/{vip}/dips/{backend}",
                {"address": lab.address(backend, vip == "h3v6"), "weight": weight,
                 "server_id": server_id(backend)})


def setup(lab):
    for program in ("client", "server"):
        if not (PEERS / program).exists():
            raise RuntimeError(f"{PEERS / program} is missing: make bench-build")
    # Addresses to migrate to, which everybody finds on the segment.
    lab.script("client", *(f"ip addr add {client_address(vip, i)}/{128 if vip == 'h3v6' else 32} "
                           f"dev eth0 {'nodad' if vip == 'h3v6' else ''}"
                           for vip in VIPS for i in range(2 * CLIENTS)))
    for n in ("lb", *lab.backends):
        lab.script(n, "ip route add 10.9.1.0/24 dev eth0", "ip -6 route add fd09:1::/64 dev eth0")
    start_servers(lab)
    lab.start_daemon()
    for vip, (address, _, _) in VIPS.items():
        lab.put_vip(vip, address, PORT, "udp", quic="server-id")
        for b, weight in WEIGHTS.items():
            put_dip(lab, vip, b, weight)
        lab.wait_up(WEIGHTS, vip)


def test_handshakes(lab):
    """Clients that nobody knows go by their flow, and from then on to the server whose ID they bear."""
    clients.extend(Client(lab, vip) for vip in VIPS for _ in range(CLIENTS))
    for c in clients:
        c.hear("ready")
        c.say(f"get {SIZE} {PAUSE}")
    for c in clients:
        c.hear("paused")
        c.say("cid")
        cid, port = c.hear("cid").split()
        e = lab.api.get(f"/v1/explain?vip={c.vip}&src={VIPS[c.vip][1]}&sport={port}&cid={cid}")
        assert e["reason"] == "server_id" and e["known"], e
        assert cid[2:6] == server_id(e["dip"]), (cid, e)
        homes.append(e["dip"])
    assert set(homes) == set(WEIGHTS), homes
    assert by_id(lab) > 0 and strays(lab) == 0


def change_pool(lab):
    """So that most flows that nobody knows go elsewhere."""
    for vip in VIPS:
        for b, weight in (("b1", 5), ("b2", 1)):
            lab.api.patch(f"/v1/vips/{vip}/dips/{b}", {"weight": weight})
        put_dip(lab, vip, "b4", 4)
        lab.wait_up(["b4"], vip)


def test_migration_in_mid_transfer(lab):
    """New addresses, some with new connection IDs and some behind a NAT that has forgotten, over changes of
    the pool and a killed forwarder: the rest of each download comes from the server that it began with."""
    change_pool(lab)
    for i, c in enumerate(clients):
        c.say(f"{'rebind' if i % 4 == 3 else 'move'} {client_address(c.vip, i % CLIENTS)}")
    for i, c in enumerate(clients):
        if i % 4 != 3:
            c.hear("moved")
    lab.stop_daemon(signal.SIGKILL)
    lab.start_daemon()
    for c in clients:
        c.say("go")
    for c, home in zip(clients, homes):
        assert c.hear("got") == home
    assert strays(lab) == 0
    lab.assert_consistent()


def test_flows_alone_lose_them(lab):
    """The same with `quic: flow`: packets reach servers that know nothing of their connection. With the IDs
    again each connection goes on."""
    for c in clients:
        c.say(f"get {SIZE} {PAUSE}")
    for c in clients:
        c.hear("paused")
    for vip in VIPS:
        lab.api.patch(f"/v1/vips/{vip}", {"quic": "flow"})
    before = by_id(lab)
    for i, c in enumerate(clients):
        c.say(f"rebind {client_address(c.vip, CLIENTS + i % CLIENTS)}")
        c.say("go")
    lib.wait_until("strays", lambda: strays(lab) > 0)
    assert by_id(lab) == before
    assert any(c.is_silent() for c in clients)
    for vip in VIPS:
        lab.api.patch(f"/v1/vips/{vip}", {"quic": "server-id"})
    for c, home in zip(clients, homes):
        assert c.hear("got") == home
    lab.assert_consistent()


def test_a_drain_waits_for_them(lab):
    """A DIP that is deleted goes on serving connections of which no flow is known."""
    before = strays(lab)
    for vip in VIPS:
        home = homes[[c.vip for c in clients].index(vip)]
        lab.api.delete(f"/v1/vips/{vip}/dips/{home}")
        assert lab.dips(vip)[home]["state"] == "draining"
    for c in clients:
        c.say(f"get {SIZE} 0")
    for c, home in zip(clients, homes):
        assert c.hear("got") == home
    assert strays(lab) == before
    for c in clients:
        c.close()
    lab.assert_consistent()


if __name__ == "__main__":
    lib.main("quic", [
        test_handshakes, test_migration_in_mid_transfer, test_flows_alone_lose_them,
        test_a_drain_waits_for_them,
    ], setup, backends=4)
