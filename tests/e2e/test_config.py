#!/usr/bin/python3
"""The configuration as a whole, by curl: read, edited, put back, tried, batched; connections stay meanwhile.
Then 64 clients at once: no update is lost, generations are in order, and connections stay."""

import http.client
import json
import socket
import subprocess
import threading
import time

import lib
from lib import VIP4, sh

CLIENTS, INCREMENTS = 64, 4
JSON = "Content-Type: application/json"


class Curl:
    """The API as an operator calls it."""

    def __init__(self, lab):
        self.socket, self.head, self.body = lab.socket, lab.dir / "head", lab.dir / "body"

    def __call__(self, method, path, body=None, *headers):
        argv = ["curl", "-sS", "--unix-socket", self.socket, "-X", method, "-D", self.head, "-o", self.body,
                "-w", "%{http_code}", f"http://localhost{path}"]
        for h in headers:
            argv += ["-H", h]
        if body is not None:
            argv += ["-H", JSON, "--data-binary", "@-"]
        status = int(sh(*argv, stdin=None if body is None else
                        body if isinstance(body, str) else json.dumps(body)))
        lines = self.head.read_text().splitlines()[1:]
        self.headers = {k.lower(): v.strip() for k, v in (x.split(":", 1) for x in lines if ":" in x)}
        text = self.body.read_text() if status != 304 else ""
        self.text, self.json = text, json.loads(text) if text else None
        return status


def check_documents(curl):
    """GET, edit, PUT."""
    assert curl("GET", "/v1/config") == 200
    config, text, tag = curl.json, curl.text, curl.headers["etag"]
    generation = int(curl.headers["x-generation"])
    assert [d["weight"] for d in config["vips"][0]["dips"]] == [10, 10, 10]
    assert curl("PUT", "/v1/config", text) == 200
    assert curl.json["change"]["generation"] == generation, "what is there already is no change"
    assert curl.headers["etag"] == tag
    config["vips"][0]["dips"][0]["weight"] = 30
    assert curl("PUT", "/v1/config?dry_run=true", config) == 200
    plan = curl.json["plan"]
    assert plan["generation"] == generation and plan["flows_moved"] == 0 and plan["dcodes_moved"] > 0
    shares = {d["id"]: d["share"] for d in plan["vips"][0]["dips"]}
    assert abs(shares["b1"] - 0.6) < 0.01, shares
    assert curl("GET", "/v1/config", None, f"If-None-Match: {tag}") == 304
    assert curl("PUT", "/v1/config", config, f"If-Match: {tag}") == 200
    assert curl.json["change"]["dcodes_moved"] == plan["dcodes_moved"]
    assert curl.json["dips"] == {"created": 0, "changed": 1, "draining": 0, "removed": 0}
    now = curl.headers["etag"]
    assert curl("PUT", "/v1/config", text, f"If-Match: {tag}") == 412
    assert curl.headers["etag"] == curl.json["etag"] == now and now != tag
    assert curl.json["type"] == "/problems/precondition-failed"
    assert curl("GET", "/v1/config", None, "Accept: text/html") == 406
    assert curl("GET", "/v1/config", None, "Accept: text/html, */*;q=0.1") == 200


def check_batches(curl):
    b = "/v1/vips/web/dips/"
    good = [{"method": "PUT", "path": "/v1/vips/other",
             "body": {"address": VIP4, "port": 81, "protocol": "tcp"}},
            {"method": "PUT", "path": "/v1/vips/other/dips/b1", "body": {"address": "10.9.0.11"}},
            {"method": "PATCH", "path": b + "b1", "body": {"weight": 10}}]
    assert curl("GET", "/v1/config") == 200
    before, generation = curl.text, int(curl.headers["x-generation"])
    assert curl("POST", "/v1/config:batch", {"operations": [
        *good, {"method": "PATCH", "path": b + "b9", "body": {"weight": 1}},
        {"method": "PATCH", "path": b + "b2", "body": {"weight": 70000, "wait": 1}}]}) == 422
    assert {e["pointer"] for e in curl.json["errors"]} == \
        {"/operations/4/body/weight", "/operations/4/body/wait"}
    assert curl("POST", "/v1/config:batch", {"operations": [
        *good, {"method": "PATCH", "path": b + "b9", "body": {"weight": 1}}]}) == 404
    assert curl.json["errors"][0]["pointer"] == "/operations/3/body"
    assert curl("GET", "/v1/config") == 200
    assert curl.text == before and int(curl.headers["x-generation"]) == generation
    assert curl("POST", "/v1/config:batch", {"operations": good}) == 200
    assert [r["status"] for r in curl.json["results"]] == [201, 201, 200]
    assert curl.json["change"]["generation"] == generation + 1 == int(curl.headers["x-generation"])
    assert curl("GET", "/v1/vips/other/dips/b1") == 200
    assert curl("PUT", "/v1/config?prune=remove", before) == 200
    assert curl.json["vips"]["removed"] == 1
    assert curl("GET", "/v1/vips/other") == 404
    assert curl("GET", "/v1/limits") == 200
    assert curl.json["vips"] >= 4096 and curl.json["flows"] == 100000


def check_size(curl):
    """A document that is larger than other bodies may be; one that is larger than any."""
    dips = [{"id": f"d{i}", "address": f"10.77.{i // 200}.{i % 200 + 1}", "weight": i % 7,
             "mac": "02:00:00:00:00:01"} for i in range(1000)]
    vips = [{"id": f"big{v}", "address": "10.9.0.101", "port": 1000 + v, "protocol": "tcp",
             "dips": dips} for v in range(16)]
    assert len(json.dumps({"vips": vips})) > 1 << 20
    t = time.monotonic()
    assert curl("PUT", "/v1/config?prune=none", {"vips": vips}) == 200, curl.text[:1000]
    first = time.monotonic() - t
    assert curl.json["dips"]["created"] == 16000
    generation = curl.json["change"]["generation"]
    t = time.monotonic()
    assert curl("PUT", "/v1/config?prune=none", {"vips": vips}) == 200
    again = time.monotonic() - t
    assert curl.json["change"]["generation"] == generation
    assert curl("GET", "/v1/config") == 200 and len(curl.json["vips"]) == 17
    web = [v for v in curl.json["vips"] if v["id"] == "web"]
    assert curl("PUT", "/v1/config?prune=remove", {"vips": web}) == 200
    assert curl("PUT", "/v1/config", " " * (17 << 20)) == 413
    print(f"# 16 VIPs of 1,000 DIPs: {first:.2f} s, once more {again:.2f} s")


def check_as_many_as_there_may_be(curl):
    """At the limit all VIPs but the one in use are replaced in one document, in which none but the end counts."""
    assert curl("GET", "/v1/limits") == 200
    most = curl.json["vips"]
    assert curl("GET", "/v1/config") == 200
    web = curl.json["vips"]

    def document(prefix, n):
        return {"vips": web + [{"id": f"{prefix}{i}", "address": "10.9.0.102", "port": 1 + i,
                                "protocol": "tcp" if prefix == "a" else "udp", "dips": []} for i in range(n)]}

    seconds = []
    for prefix in ("a", "b"):
        t = time.monotonic()
        assert curl("PUT", "/v1/config?prune=remove", document(prefix, most - 1)) == 200, curl.text[:1000]
        seconds.append(time.monotonic() - t)
        assert curl.json["vips"]["created"] == most - 1
    assert curl.json["vips"]["removed"] == most - 1
    generation = curl.json["change"]["generation"]
    operations = [{"method": "PUT", "path": "/v1/vips/new", "body": {"address": "10.9.0.103", "port": 1,
                                                                    "protocol": "tcp"}},
                  {"method": "DELETE", "path": "/v1/vips/b7"}]
    assert curl("POST", "/v1/config:batch", {"operations": operations[:1]}) == 422
    assert curl.json["errors"] == [{"pointer": "/operations/0/body", "code": "limit",
                                    "detail": f"vips: {most} at the most"}]
    assert curl("POST", "/v1/config:batch", {"operations": operations}) == 200
    assert curl.json["change"]["generation"] == generation + 1
    assert curl("PUT", "/v1/config?prune=remove", {"vips": web}) == 200
    print(f"# {most} VIPs: {seconds[0]:.2f} s; all replaced {seconds[1]:.2f} s")


# --- many clients --------------------------------------------------------------------------------

class Session(http.client.HTTPConnection):
    """A kept connection, without what would make 64 of them slow."""

    def __init__(self, path):
        super().__init__("localhost", timeout=60)
        self.path = str(path)

    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self.path)

    def ask(self, method, path, body=None, **headers):
        if body is not None:
            headers["Content-Type"] = "application/json"
        self.request(method, path, body=None if body is None else json.dumps(body),
                     headers={k.replace("_", "-"): v for k, v in headers.items()})
        r = self.getresponse()
        return r.status, r.headers, json.loads(r.read())


class Writer(threading.Thread):
    """Adds one to the weight of a DIP again and again, each time to what it has just read."""

    def __init__(self, lab, number):
        super().__init__()
        self.session = Session(lab.socket)
        self.path = f"/v1/vips/web/dips/b{number % 3 + 1}"
        self.latencies, self.conflicts, self.fault = [], 0, None
        self.seen = []  # (asked at, answered at, generation)

    def ask(self, *args, **headers):
        start = time.monotonic()
        status, headers, body = self.session.ask(*args, **headers)
        end = time.monotonic()
        self.seen.append((start, end, int(headers["X-Generation"])))
        return status, headers, body, end - start

    def increment(self):
        status, headers, dip, _ = self.ask("GET", self.path)
        assert status == 200
        while True:
            tag = headers["ETag"]
            status, headers, body, took = self.ask("PATCH", self.path, {"weight": dip["weight"] + 1},
                                                   If_Match=tag)
            if status == 200:
                assert body["change"]["generation"] == int(headers["X-Generation"])
                self.latencies.append(took)
                return
            assert status == 412 and headers["ETag"] == body["etag"] != tag, (status, body)
            self.conflicts += 1
            status, headers, dip, _ = self.ask("GET", self.path)

    def run(self):
        try:
            for _ in range(INCREMENTS):
                self.increment()
        except Exception as e:  # told by the main thread
            self.fault = e


def check_order(seen):
    """What was answered before something else was asked has no higher generation than its answer."""
    highest, ends = 0, sorted((end, g) for _, end, g in seen)
    i = 0
    for start, _, generation in sorted(seen):
        while i < len(ends) and ends[i][0] < start:
            highest = max(highest, ends[i][1])
            i += 1
        assert generation >= highest, f"{generation} after {highest}"


def check_clients(lab, connections):
    before = {b: d["weight"] for b, d in lab.dips().items()}
    generation = int(lab.api.call("GET", "/v1/vips").headers["X-Generation"])
    writers = [Writer(lab, i) for i in range(CLIENTS)]
    for w in writers:
        w.start()
    asked = 0
    while any(w.is_alive() for w in writers):
        c = connections[asked % len(connections)]
        assert c.get("/name").backend == c.home
        asked += 1
    for w in writers:
        w.join()
        w.session.close()
        if w.fault:
            raise w.fault
    after = {b: d["weight"] for b, d in lab.dips().items()}
    added = {b: INCREMENTS * sum(w.path.endswith(b) for w in writers) for b in before}
    assert after == {b: before[b] + added[b] for b in before}, (before, added, after)
    check_order([s for w in writers for s in w.seen])
    latencies = sorted(x for w in writers for x in w.latencies)
    last = int(lab.api.call("GET", "/v1/vips").headers["X-Generation"])
    print(f"# {CLIENTS} clients: {len(latencies)} changes in {last - generation} publishes, "
          f"{sum(w.conflicts for w in writers)} conflicts; p50 {latencies[len(latencies) // 2] * 1e3:.1f} ms, "
          f"p99 {latencies[len(latencies) * 99 // 100] * 1e3:.1f} ms; {asked} requests forwarded")
    assert asked > 10


def check_reads_cost_nothing(lab, connections):
    """wrk on /v1/status beside forwarding: reads ask control, never a worker."""
    asker = subprocess.Popen(["ip", "netns", "exec", lab.ns("lb"), "wrk", "-t1", "-c8", "-d2",
                              "http://127.0.0.1:8080/v1/status"], stdout=subprocess.PIPE, text=True)
    lab.processes.append(asker)
    n = 0
    while asker.poll() is None:
        c = connections[n % len(connections)]
        assert c.get("/name").backend == c.home
        n += 1
    out = asker.stdout.read()
    assert "Non-2xx" not in out and "Socket errors" not in out, out
    counters = lab.counters()
    lost = sum(counters["learning"].values()) + counters["drops"]["tx_full"] + \
        counters["drops"]["learn_overflow"] + counters["rx_kernel_drops"]
    assert lost == 0, counters
    rate = [line.split()[1] for line in out.splitlines() if line.startswith("Requests/sec")]
    print(f"# {n} forwarded beside {rate[0]} reads a second")


def with_connections(lab, check):
    """While it goes on connections stay where they are, and after it."""
    connections = []
    for _ in range(12):
        c = lib.Connection(lab, VIP4)
        c.home = c.get("/name").backend
        connections.append(c)
    check(connections)
    for c in connections:
        assert c.get("/name").backend == c.home
        c.close()
    lab.assert_consistent()


def test_documents(lab):
    with_connections(lab, lambda _: check_documents(Curl(lab)))


def test_batches(lab):
    with_connections(lab, lambda _: check_batches(Curl(lab)))


def test_size(lab):
    with_connections(lab, lambda _: check_size(Curl(lab)))
    with_connections(lab, lambda _: check_as_many_as_there_may_be(Curl(lab)))


def test_many_clients(lab):
    with_connections(lab, lambda connections: check_clients(lab, connections))


def test_reads_beside_forwarding(lab):
    with_connections(lab, lambda connections: check_reads_cost_nothing(lab, connections))


def setup(lab):
    lab.start_backends()
    lab.start_daemon("--listen", "127.0.0.1:8080")
    lab.put_vip()
    lab.put_dips({b: 10 for b in lab.backends})


if __name__ == "__main__":
    lib.main("config", [
        test_documents, test_batches, test_size, test_many_clients, test_reads_beside_forwarding,
    ], setup, backends=3)
