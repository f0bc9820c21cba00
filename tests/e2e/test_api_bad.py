#!/usr/bin/python3
"""Bad requests to the API: each is refused with the right status, as problem+json that points at the
culprit; none changes anything, none ends the daemon."""

import json
import socket

import lib
from lib import VIP4

VIP, DIP = "/v1/vips/web", "/v1/vips/web/dips/b1"
NEW, NEW_DIP = "/v1/vips/new", "/v1/vips/web/dips/new"
GOOD_VIP = {"address": "10.9.0.101", "port": 80, "protocol": "tcp"}
GOOD_DIP = {"address": "10.9.0.13", "weight": 1}

NOT_STRINGS = [5, True, [], {}, 1.5]
NOT_ADDRESSES = ["", "10.9.0", "10.9.0.256", "10.9.0.1/24", " 10.9.0.1", "10.9.0.1 ", "localhost",
                 "10.9.0.1:80", "fd09::1%eth0", "[fd09::1]", "0x0a090001", ":::", "10.09.0.1.2"]
NOT_HOSTS = ["0.0.0.0", "127.0.0.1", "224.0.0.1", "255.255.255.255", "::", "::1", "ff02::1"]
NOT_NUMBERS = ["80", "", True, [], {}, 1.5, 1e3]
NOT_IDS = ["Web", "a%20b", "-web", ".web", "_web", "we%2Fb", "w%C3%A9b", "a" * 64, "we:b", "web!", "%00",
           "we%25b"]
TOO_BIG = 10 ** 30


def without(body, member):
    return {k: v for k, v in body.items() if k != member}


def members():
    """(method, URL, body, status, pointer): one member is wrong."""
    for method, url, base, name in (("PUT", NEW, GOOD_VIP, "address"),
                                    ("PUT", NEW_DIP, GOOD_DIP, "address")):
        for value in NOT_STRINGS + NOT_ADDRESSES + NOT_HOSTS + [None]:
            yield method, url, {**base, name: value}, 422, f"/{name}"
        yield method, url, without(base, name), 422, f"/{name}"
    for value in NOT_NUMBERS + [-1, 65536, 10 ** 12, None]:
        yield "PUT", NEW, {**GOOD_VIP, "port": value}, 422, "/port"
    yield "PUT", NEW, without(GOOD_VIP, "port"), 422, "/port"
    for value in NOT_STRINGS + ["TCP", "sctp", "", "tcp ", "6", None]:
        yield "PUT", NEW, {**GOOD_VIP, "protocol": value}, 422, "/protocol"
    yield "PUT", NEW, without(GOOD_VIP, "protocol"), 422, "/protocol"
    for name, words in (("mode", ["L2", "NAT", "tunnel", "dsr", ""]),
                        ("affinity", ["source", "none", "FLOW"]),
                        ("on_learn_overflow", ["queue", "ignore", ""])):
        for value in NOT_STRINGS + words:
            yield "PATCH", VIP, {name: value}, 422, f"/{name}"
            if name != "affinity":
                yield "PUT", NEW, {**GOOD_VIP, name: value}, 422, f"/{name}"
    for name in ("drain_timeout_s", "closing_pin_s"):
        for value in NOT_NUMBERS + [-1, 1 << 32, 10 ** 15]:
            yield "PATCH", VIP, {name: value}, 422, f"/{name}"
    for value in [5, True, "60", [], [60]]:
        yield "PATCH", VIP, {"idle_timeout_s": value}, 422, "/idle_timeout_s"
    for name in ("established", "half_open", "closing", "udp"):
        for value in ["60", True, -1, 0, 1 << 33, 2.5]:
            yield "PATCH", VIP, {"idle_timeout_s": {name: value}}, 422, f"/idle_timeout_s/{name}"
    yield "PATCH", VIP, {"idle_timeout_s": {"open": 5}}, 422, "/idle_timeout_s/open"
    for value in NOT_NUMBERS + [-1, 65536, 1 << 40]:
        yield "PATCH", DIP, {"weight": value}, 422, "/weight"
        yield "PUT", NEW_DIP, {**GOOD_DIP, "weight": value}, 422, "/weight"
    for value in NOT_STRINGS + ["", "02:00:00:00:00", "02:00:00:00:00:00:01", "020000000001",
                                "02-00-00-00-00-01", "01:00:5e:00:00:01", "00:00:00:00:00:00",
                                "ff:ff:ff:ff:ff:ff", "02:00:00:00:00:0g"]:
        yield "PATCH", DIP, {"mac": value}, 422, "/mac"
    for value in NOT_STRINGS + ["UP", "draining", "unresolved", ""]:
        yield "PATCH", DIP, {"admin_state": value}, 422, "/admin_state"
    for name, pointer in (("adress", "/adress"), ("", "/"), ("a/b", "/a~1b"), ("~", "/~0"),
                          ("Weight", "/Weight"), ("waeight", "/waeight"), ("é", "/é")):
        yield "PATCH", VIP, {name: 1}, 422, pointer
        yield "PATCH", DIP, {name: 1}, 422, pointer
        yield "PUT", NEW, {**GOOD_VIP, name: None}, 422, pointer
    yield "PUT", NEW, {**GOOD_VIP, "id": "other"}, 422, "/id"
    yield "PUT", NEW, {**GOOD_VIP, "id": 5}, 422, "/id"
    yield "PATCH", DIP, {"id": "b2"}, 422, "/id"
    yield "PATCH", VIP, {"port": TOO_BIG}, 422, None
    # a good member beside a bad one is not taken
    yield "PATCH", DIP, {"weight": 7, "mac": "x"}, 422, "/mac"
    yield "PATCH", VIP, {"closing_pin_s": 7, "mode": "x"}, 422, "/mode"


def conflicts():
    yield "PUT", NEW, {"address": VIP4, "port": 80, "protocol": "tcp"}, 409, None
    yield "PUT", VIP, {**GOOD_VIP, "address": "10.9.0.102"}, 409, "/address"
    yield "PUT", VIP, {"address": VIP4, "port": 81, "protocol": "tcp"}, 409, "/port"
    yield "PUT", VIP, {"address": VIP4, "port": 80, "protocol": "udp"}, 409, "/protocol"
    yield "PUT", VIP, {"address": VIP4, "port": 80, "protocol": "tcp", "affinity": "client"}, 409, \
        "/affinity"
    yield "PATCH", VIP, {"address": "10.9.0.102"}, 409, "/address"
    yield "PATCH", VIP, {"port": 81}, 409, "/port"
    yield "PATCH", VIP, {"protocol": "any"}, 409, "/protocol"
    yield "PATCH", VIP, {"affinity": "client"}, 409, "/affinity"
    yield "PUT", DIP, {"address": "10.9.0.99", "weight": 1}, 409, "/address"
    yield "PATCH", DIP, {"address": "10.9.0.99"}, 409, "/address"


def paths():
    for bad in NOT_IDS:
        yield "PUT", f"/v1/vips/{bad}", GOOD_VIP, (400 if bad == "%00" else 422), None
        yield "PUT", f"{VIP}/dips/{bad}", GOOD_DIP, (400 if bad == "%00" else 422), None
        yield "GET", f"/v1/vips/{bad}", None, (400 if bad == "%00" else 404), None
        yield "DELETE", f"{VIP}/dips/{bad}", None, (400 if bad == "%00" else 404), None
    for url in ("/x", "/../x", "/README.md", "/v1", "/v1/", "/v2/vips", "/v1/vip", "/v1/vips/", "/v1/vips/none",
                "/v1/vips/none/dips", "/v1/vips/none/dips/b1", f"{VIP}/", f"{VIP}/dips/", f"{VIP}/dips/b9",
                f"{VIP}/dip", f"{DIP}/x", "/v1/statuss", "/V1/vips", "/v1//vips", "/v1/vips/../status",
                "/livez/", "/" + "x" * 3000, "/v1/" + "a/" * 300):
        yield "GET", url, None, 404, None
    for method, url, body in (("PATCH", "/v1/vips/none", {"mode": "l2"}),
                              ("DELETE", "/v1/vips/none", None),
                              ("DELETE", "/v1/vips/none?force=true", None),
                              ("PUT", "/v1/vips/none/dips/b1", GOOD_DIP),
                              ("PATCH", "/v1/vips/none/dips/b1", {"weight": 1}),
                              ("PATCH", f"{VIP}/dips/b9", {"weight": 1}),
                              ("DELETE", f"{VIP}/dips/b9", None)):
        yield method, url, body, 404, None
    for url in ("/v1/vips/%", "/v1/vips/%4", "/v1/vips/%zz", f"{VIP}/dips/%g0"):
        yield "GET", url, None, 400, None


def methods():
    for url, allowed in (("/v1/vips", "GET, HEAD"), (VIP, "GET, HEAD, PUT, PATCH, DELETE"),
                         (f"{VIP}/dips", "GET, HEAD"), (DIP, "GET, HEAD, PUT, PATCH, DELETE"),
                         ("/v1/status", "GET, HEAD"), ("/v1/counters", "GET, HEAD"),
                         ("/v1/consistency", "GET, HEAD"), ("/v1/explain", "GET, HEAD"),
                         ("/livez", "GET, HEAD"), ("/readyz", "GET, HEAD")):
        for method in ("POST", "PUT", "PATCH", "DELETE", "BREW", "OPTIONS"):
            if method not in allowed.split(", "):
                yield method, url, None, 405, allowed


def queries():
    for url in ("/v1/vips?limit=0", "/v1/vips?limits=5", "/v1/status?limit=5", "/v1/status?x", f"{VIP}?force=true", f"{VIP}/dips?x=1"):
        yield "GET", url, None, 400, None
    for query in ("force=yes", "force=1", "force=", "force", "force=TRUE", "force=true&force=true",
                  "cut=true", "force=%zz", "=true"):
        yield "DELETE", f"{VIP}?{query}", None, 400, None
        yield "DELETE", f"{DIP}?{query}", None, 400, None
    for query in ("", "vip=web", "src=10.9.0.1&sport=1", "vip=web&src=10.9.0.1", "vip=web&sport=1",
                  "vip=web&src=10.9.0&sport=1", "vip=web&src=10.9.0.1&sport=-1",
                  "vip=web&src=10.9.0.1&sport=65536", "vip=web&src=10.9.0.1&sport=x",
                  "vip=web&src=fd09::1&sport=1", "vip=web&src=10.9.0.1&sport=1&dprt=1",
                  "vip=web&src=10.9.0.1&sport=1&sport=2", "vip=any&src=10.9.0.1&sport=1",
                  "vip=web&src=10.9.0.1&sport=1&protocol=udp"):
        yield "GET", f"/v1/explain?{query}", None, 400, None
    yield "GET", "/v1/explain?vip=none&src=10.9.0.1&sport=1", None, 404, None


BAD_JSON = [b"{", b"}", b"{]", b'{"weight"}', b'{"weight": }', b'{"weight": 1,}', b"{'weight': 1}",
            b'{"weight": 01}', b'{"weight": 1} x', b'{"weight": 1, "weight": 2}', b"\xff\xfe",
            b'{"mac": "\xff"}', b'{"weight": NaN}', b"nil", b"{" * 5000, b'{"a":' * 5000, b"[" * 100000,
            b'{"mac": "\\ud800"}', b"\x00", b" ", b'\xef\xbb\xbf{"weight": 1}']
NOT_OBJECTS = [b"null", b"5", b'"web"', b"true", b"[]", b'[{"weight": 1}]']


def bodies():
    """(method, URL, raw body, headers, status)"""
    as_json = {"Content-Type": "application/json"}
    for raw in BAD_JSON:
        yield "PATCH", DIP, raw, as_json, 400
        yield "PUT", NEW, raw, as_json, 400
    for raw in NOT_OBJECTS:
        yield "PATCH", DIP, raw, as_json, 422
        yield "PUT", NEW, raw, as_json, 422
    for method, url in (("PUT", NEW), ("PATCH", VIP), ("PUT", NEW_DIP), ("PATCH", DIP)):
        yield method, url, None, as_json, 400
        good = json.dumps(GOOD_VIP if url == NEW else GOOD_DIP if url == NEW_DIP else {}).encode()
        for kind in ("text/plain", "application/x-www-form-urlencoded", "application/jsonx",
                     "multipart/form-data; boundary=x", "application/xml", ""):
            yield method, url, good, {"Content-Type": kind}, 415
        yield method, url, good, {**as_json, "Content-Encoding": "gzip"}, 415
        yield method, url, b"[" + b" " * (1 << 20) + b"]", as_json, 413
    yield "PUT", NEW, json.dumps(GOOD_VIP).encode(), {"Content-Type": "application/merge-patch+json"}, 415


# Not even HTTP. The answer is a 400 or a closed connection.
NOT_HTTP = [b"\r\n\r\n", b"GET\r\n\r\n", b"GET / HTTP/9.9\r\n\r\n", b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc",
            b"GET /v1/vips HTTP/1.1\r\n\r\n", b"GET /v1/vips HTTP/1.1\r\nHost\r\n\r\n",
            b"PUT /v1/vips/new HTTP/1.1\r\nHost: x\r\nContent-Length: -5\r\n\r\n",
            b"PUT /v1/vips/new HTTP/1.1\r\nHost: x\r\nContent-Length: x\r\n\r\n{}",
            b"PUT /v1/vips/new HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
            b"PUT /v1/vips/new HTTP/1.1\r\nHost: x\r\nContent-Length: 99\r\n\r\n{\"address\"",
            b"GET " + b"/" * 200000 + b" HTTP/1.1\r\nHost: x\r\n\r\n",
            b"GET / HTTP/1.1\r\n" + b"X-A: b\r\n" * 20000 + b"\r\n",
            b"GET / HTTP/1.1\r\nX: " + b"y" * 200000 + b"\r\n\r\n", b"A" * 300000]


def setup(lab):
    lab.start_daemon()
    lab.put_vip()
    lab.put_dips({"b1": 1, "b2": 3})
    lab.api.put("/v1/vips/any", {"address": "10.9.0.110", "port": 0, "protocol": "any"})
    global before
    before = snapshot(lab)


before = None


def snapshot(lab):
    """The whole configuration, byte for byte."""
    return [lab.api.call("GET", url).raw for url in
            ("/v1/vips", VIP, f"{VIP}/dips", DIP, "/v1/vips/any", "/v1/vips/any/dips")] + \
        [lab.api.get("/v1/status")["generation"]]


n_refused = 0


def refuse(lab, method, url, body, headers, status, pointer=None):
    global n_refused
    what = f"{method} {url[:80]} {str(body)[:80]} {headers or ''}"
    a = lab.api.call(method, url, body, headers)
    assert a.status == status, f"{what}: {a}, not {status}"
    assert a.headers["Content-Type"] == "application/problem+json", f"{what}: {a.headers}"
    assert a.json["status"] == status and a.json["title"] and a.json["type"] and a.json["detail"], \
        f"{what}: {a}"
    if pointer is not None:
        faults = {e["pointer"]: e for e in a.json["errors"]}
        assert pointer in faults, f"{what}: {a}, not {pointer}"
        assert faults[pointer]["code"] and faults[pointer]["detail"], f"{what}: {a}"
        assert set(faults) == {pointer}, f"{what}: blames others too: {a}"
    n_refused += 1
    return a


def unchanged(lab):
    assert lab.daemon.poll() is None, "concuryd is gone"
    assert snapshot(lab) == before


def run_table(lab, table):
    for method, url, body, status, pointer in table:
        refuse(lab, method, url, body, None, status, pointer)
        assert lab.daemon.poll() is None, (method, url, body)
    unchanged(lab)


def test_bad_members(lab):
    run_table(lab, members())


def test_conflicts(lab):
    run_table(lab, conflicts())


def test_bad_paths(lab):
    run_table(lab, paths())


def test_bad_queries(lab):
    run_table(lab, queries())


def test_bad_methods(lab):
    for method, url, body, status, allowed in methods():
        a = refuse(lab, method, url, body, None, status)
        assert set(a.headers["Allow"].split(", ")) == set(allowed.split(", ")), (method, url, a.headers)
    unchanged(lab)


def test_bad_bodies(lab):
    for method, url, raw, headers, status in bodies():
        refuse(lab, method, url, raw, headers, status)
        assert lab.daemon.poll() is None, (method, url, raw[:50])
    unchanged(lab)


def test_every_fault_is_named(lab):
    a = lab.api.call("PUT", NEW, {"address": "x", "port": -1, "protocol": 5, "mode": "y", "z": 1,
                                  "idle_timeout_s": {"udp": "z"}})
    assert a.status == 422, a
    got = {e["pointer"] for e in a.json["errors"]}
    assert got == {"/address", "/port", "/protocol", "/mode", "/z", "/idle_timeout_s/udp"}, got
    unchanged(lab)


def test_not_http(lab):
    for raw in NOT_HTTP:
        with socket.socket(socket.AF_UNIX) as s:
            s.settimeout(3)
            s.connect(str(lab.socket))
            try:
                s.sendall(raw)
                s.shutdown(socket.SHUT_WR)
                answer = s.recv(4096)
            except (ConnectionError, BrokenPipeError):
                answer = b""
        assert answer == b"" or answer.startswith((b"HTTP/1.1 4", b"HTTP/1.0 4", b"HTTP/1.1 505")), \
            (raw[:60], answer[:200])
        assert lab.daemon.poll() is None, raw[:60]
    # One that never ends its request holds up nobody else.
    idle = []
    for _ in range(20):
        s = socket.socket(socket.AF_UNIX)
        s.connect(str(lab.socket))
        s.sendall(b"GET /v1/vips HTTP/1.1\r\nHost: ")
        idle.append(s)
    unchanged(lab)
    for s in idle:
        s.close()


def test_count_and_life(lab):
    assert n_refused >= 200, n_refused
    print(f"{n_refused} bad requests were refused")
    assert lab.api.patch(DIP, {"weight": 2})["weight"] == 2
    assert lab.stop_daemon() == 0
    lab.start_daemon()
    assert lab.dips()["b1"]["weight"] == 2


if __name__ == "__main__":
    lib.main("apibad", [
        test_bad_members, test_conflicts, test_bad_paths, test_bad_queries, test_bad_methods,
        test_bad_bodies, test_every_fault_is_named, test_not_http, test_count_and_life,
    ], setup, backends=2)
