#!/usr/bin/python3
"""Watching a concuryd that forwards: events by GET /v1/events over a pool's changes and a restart, known
connections by GET /v1/vips/{vip}/flows, and packets with their verdict by GET /v1/trace, whose file
tcpdump reads."""

import json
import socket
import struct
import subprocess
import threading
import time

import lib
from lib import CLIENT4, VIP4

WEIGHTS = {"b1": 1, "b2": 1}


def setup(lab):
    lab.start_backends()
    lab.start_daemon()
    lab.put_vip(closing_pin_s=1)
    lab.put_dips(WEIGHTS)


# --- events --------------------------------------------------------------------------------------

class Events:
    """A stream, read in a thread of its own."""

    def __init__(self, lab, query="", last=None):
        self.seen = []
        self.ended = threading.Event()
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.connect(str(lab.socket))
        header = f"Last-Event-ID: {last}\r\n" if last else ""
        # HTTP/1.0: no chunks, up to the end of the connection.
        self.socket.sendall(f"GET /v1/events{query} HTTP/1.0\r\nHost: localhost\r\n{header}\r\n".encode())
        self.file = self.socket.makefile("rb")
        assert b" 200 " in self.file.readline()
        while self.file.readline().strip():
            pass
        assert self.file.readline().startswith(b"retry:")
        self.thread = threading.Thread(target=self._read)
        self.thread.start()

    def _read(self):
        event = {}
        try:
            for line in self.file:
                name, _, value = line.decode().rstrip("\n").partition(": ")
                if name:
                    event[name] = value
                elif "event" in event:
                    self.seen.append((event["id"], json.loads(event["data"])))
                    event = {}
        except OSError:
            pass
        self.ended.set()

    def wait(self, kind, **members):
        def find():
            return [e for _, e in self.seen if e["kind"] == kind
                    and all(e[k] == v for k, v in members.items())]
        return lib.wait_until(f"event {kind} {members}", find, 5)[0]

    def close(self):
        self.socket.shutdown(socket.SHUT_RDWR)
        self.thread.join()
        self.file.close()
        self.socket.close()


def test_events_tell_what_happens(lab):
    everything, health = Events(lab), Events(lab, "?vip=web&kind=drain_done,violation")
    lab.api.patch("/v1/vips/web/dips/b1", {"weight": 3})
    e = everything.wait("change", vip="web", dip="b1")
    assert e["values"]["dcodes_moved"] > 0 and e["values"]["flows_moved"] == 0, e
    assert everything.wait("publish", generation=e["generation"])["values"]["pause_us"] < 1e6
    lab.api.put("/v1/vips/web/dips/gone", {"address": "10.9.0.77"})
    lab.api.delete("/v1/vips/web/dips/gone")
    everything.wait("drain_done", dip="gone")
    assert health.wait("drain_done")["dip"] == "gone"
    assert lab.api.call("POST", "/v1/audit").status == 200
    assert everything.wait("audit")["values"]["flows_misplaced"] == 0
    # Two at one time are told of both; what was not asked for was not told.
    assert [e["kind"] for _, e in health.seen] == ["drain_done"], health.seen
    numbers = [int(i.rsplit("-", 1)[1]) for i, _ in everything.seen]
    assert numbers == list(range(numbers[0], numbers[0] + len(numbers))), everything.seen
    # One that comes back gets what it missed.
    last = everything.seen[0][0]
    again = Events(lab, last=last)
    lib.wait_until("what was missed", lambda: len(again.seen) >= len(everything.seen) - 1, 5)
    assert again.seen[:len(everything.seen) - 1] == everything.seen[1:]
    for stream in (everything, health, again):
        stream.close()
    lab.api.patch("/v1/vips/web/dips/b1", {"weight": 1})


def test_events_over_a_restart(lab):
    stream = Events(lab)
    start = time.monotonic()
    assert lab.stop_daemon() == 0
    stopped = time.monotonic() - start
    assert stream.ended.wait(5)
    last, event = stream.seen[-1]
    assert event["kind"] == "end", stream.seen
    assert stopped < 3, f"{stopped:.1f} s to end beside a stream"
    stream.close()
    lab.start_daemon()
    lab.wait_up(WEIGHTS)
    again = Events(lab, last=last)
    assert lib.wait_until("restarted", lambda: again.seen, 5)[0][1]["kind"] == "restarted"
    again.wait("start")
    again.close()


# --- flows ---------------------------------------------------------------------------------------

def pages(lab, query):
    target = f"/v1/vips/web/flows?{query}"
    while target:
        answer = lab.api.call("GET", target)
        assert answer.status == 200, answer.raw
        yield from answer.json["items"]
        link = answer.headers.get("Link")
        assert ("next" in answer.json) == (link is not None), answer.headers
        target = link[1:].split(">")[0] if link else None


def test_flows_are_listed(lab):
    with_ports = {lab.fresh_port(): None for _ in range(60)}
    keep = [lib.Connection(lab, VIP4, sport=p) for p in with_ports]
    for p, c in zip(with_ports, keep):
        with_ports[p] = c.get("/name").backend
    lib.wait_until("all are known", lambda: lab.consistency()["flows_established"] >= 60, 5)
    mine = [f for f in pages(lab, f"limit=7&client={CLIENT4}&state=established")
            if f["client_port"] in with_ports]
    assert {f["client_port"]: f["dip"] for f in mine} == with_ports, mine
    assert len(mine) == 60, "a flow is listed twice"
    assert all(f["port"] == 80 and f["protocol"] == "tcp" and f["age_s"] < 60 for f in mine), mine
    on_b1 = [f for f in pages(lab, "limit=1000&dip=b1") if f["client_port"] in with_ports]
    assert len(on_b1) == list(with_ports.values()).count("b1")
    # Connections that stay behind are pinned.
    lab.api.patch("/v1/vips/web/dips/b1", {"weight": 0})
    pinned = {f["client_port"] for f in pages(lab, "pinned=true")}
    assert {p for p, b in with_ports.items() if b == "b1"} <= pinned
    lab.api.patch("/v1/vips/web/dips/b1", {"weight": 1})
    for c in keep:
        c.close()


# --- traces --------------------------------------------------------------------------------------

def blocks(data):
    """The blocks of a pcapng file: (type, body)."""
    at = 0
    while at < len(data):
        kind, length = struct.unpack_from("<II", data, at)
        assert struct.unpack_from("<I", data, at + length - 4)[0] == length
        yield kind, data[at + 8:at + length - 4]
        at += length
    assert at == len(data)


def options(data):
    while True:
        code, length = struct.unpack_from("<HH", data)
        if code == 0:
            return
        yield code, data[4:4 + length]
        data = data[4 + (length + 3) // 4 * 4:]


def packets(data):
    """(interface, frame, comment) of each packet."""
    for kind, body in blocks(data):
        if kind == 6:
            iface, _, _, kept, _ = struct.unpack_from("<IIIII", body)
            comment = dict(options(body[20 + (kept + 3) // 4 * 4:]))[1].decode()
            yield iface, body[20:20 + kept], comment


class Trace(threading.Thread):
    def __init__(self, lab, query):
        super().__init__()
        self.argv = ["curl", "-sSN", "--fail", "-m", "30", "--unix-socket", str(lab.socket),
                     f"http://localhost/v1/trace?{query}"]
        self.begun = threading.Event()
        self.start()
        # The file's head comes once the workers are told.
        assert self.begun.wait(5)

    def run(self):
        with subprocess.Popen(self.argv, stdout=subprocess.PIPE) as p:
            self.data = p.stdout.read(4)
            self.begun.set()
            self.data += p.stdout.read()
        self.status = p.returncode

    def finish(self):
        self.join()
        assert self.status == 0
        return self.data


def ip_of(frame):
    """The packet in a frame, but for the TCP checksum: the client's kernel leaves it to its card, and
    concuryd completes it."""
    return frame[14:50] + bytes(2) + frame[52:]


def test_a_trace_shows_packets_and_why(lab):
    sport = lab.fresh_port()
    trace = Trace(lab, f"vip=web&src={CLIENT4}&sport={sport}&packets=4&snap=1500&seconds=20")
    r = lab.api.call("GET", "/v1/trace?packets=1")
    assert r.status == 409 and r.headers["Retry-After"], r.raw
    backend = lab.get(sport=sport).backend
    lab.get(sport=lab.fresh_port())  # another one, that is not asked for
    data = trace.finish()
    seen = list(packets(data))
    assert [iface for iface, _, _ in seen].count(0) == 4, seen
    assert [iface for iface, _, _ in seen].count(1) == 4, seen
    assert all(f"VIP web: forwarded to DIP {backend} (home, " in c for _, _, c in seen), seen
    ins, outs = ([f for iface, f, _ in seen if iface == side] for side in (0, 1))
    assert [ip_of(f) for f in ins] == [ip_of(f) for f in outs]  # in l2 mode, but for MAC addresses
    assert all(f[:6] == bytes.fromhex(lab.mac("lb").replace(":", "")) for f in ins)
    assert all(f[:6] == bytes.fromhex(lab.mac(backend).replace(":", "")) for f in outs)
    assert all(struct.unpack("!H", ip_of(f)[20:22]) == (sport,) for f in ins)
    # The first one opens the connection; tcpdump understands all.
    r = subprocess.run(["tcpdump", "-nr", "-"], input=data, stdout=subprocess.PIPE,
                       stderr=subprocess.DEVNULL, check=True)
    lines = r.stdout.decode().splitlines()
    assert len(lines) == 8 and "Flags [S]" in lines[0] + lines[1], lines


def test_a_trace_shows_drops(lab):
    trace = Trace(lab, "packets=3&seconds=20")
    for b in WEIGHTS:
        lab.api.patch(f"/v1/vips/web/dips/{b}", {"admin_state": "down"})
    try:
        lab.get(timeout=1)
        raise AssertionError("an answer, though no DIP is up")
    except OSError:
        pass
    for b in WEIGHTS:
        lab.api.patch(f"/v1/vips/web/dips/{b}", {"admin_state": "up"})
    lab.get()
    seen = list(packets(trace.finish()))
    assert any("VIP web: dropped: no_dip (" in c for _, _, c in seen), seen
    # Time ends one as well, with what cannot be in it.
    start = time.monotonic()
    data = Trace(lab, "vip=web&sport=1&seconds=1").finish()
    assert 0.9 < time.monotonic() - start < 5
    assert [kind for kind, _ in blocks(data)] == [0x0a0d0d0a, 1, 1, 5, 5]


def test_the_daemon_ends_beside_a_trace(lab):
    trace, stream = Trace(lab, "seconds=60"), Events(lab)
    start = time.monotonic()
    assert lab.stop_daemon() == 0
    assert time.monotonic() - start < 3
    assert [kind for kind, _ in blocks(trace.finish())][:3] == [0x0a0d0d0a, 1, 1]
    assert stream.ended.wait(5)
    stream.close()


if __name__ == "__main__":
    lib.main("watching", [test_events_tell_what_happens, test_events_over_a_restart,
                          test_flows_are_listed, test_a_trace_shows_packets_and_why,
                          test_a_trace_shows_drops, test_the_daemon_ends_beside_a_trace],
             setup, backends=2)
