"""What speaks to the laboratory: HTTP clients in its namespaces, the API's client, and the arithmetic of
shares. Only the Python standard library is used, and jsonschema.
"""

import contextlib
import ctypes
import hashlib
import http.client
import json
import os
import socket
import threading
import time

import contract

_libc = ctypes.CDLL(None, use_errno=True)
CLONE_NEWNET = 0x40000000


def _setns(fd):
    if _libc.setns(fd, CLONE_NEWNET) != 0:
        raise OSError(ctypes.get_errno(), "setns")


@contextlib.contextmanager
def inside(netns):
    """The calling thread is in a namespace; what sockets it opens there stay there."""
    own = os.open("/proc/thread-self/ns/net", os.O_RDONLY)
    other = os.open(f"/run/netns/{netns}", os.O_RDONLY)
    try:
        _setns(other)
        yield
    finally:
        _setns(own)
        os.close(own)
        os.close(other)


# --- statistics ----------------------------------------------------------------------------------

def chi_squared(counts, expected_shares):
    """The statistic of counts against shares that sum to one."""
    n = sum(counts.values())
    assert n and set(counts) <= set(expected_shares), (counts, expected_shares)
    return sum((counts.get(k, 0) - n * p) ** 2 / (n * p) for k, p in expected_shares.items() if p)


def assert_shares(counts, weights):
    """The counts are what these weights give; a sound program fails this once in a million runs."""
    total = sum(weights.values())
    zero = [k for k, w in weights.items() if w == 0 and counts.get(k)]
    assert not zero, f"weight 0 but connections: {counts}"
    live = {k: w / total for k, w in weights.items() if w}
    df = len(live) - 1
    if df == 0:
        return
    z = 4.753  # normal quantile of 1 - 1e-6; Wilson and Hilferty make chi-squared of it
    limit = df * (1 - 2 / (9 * df) + z * (2 / (9 * df)) ** 0.5) ** 3
    x = chi_squared(counts, live)
    assert x < limit, f"chi-squared {x:.1f} > {limit:.1f}: {counts} for weights {weights}"


# --- HTTP ----------------------------------------------------------------------------------------

class _UnixConnection(http.client.HTTPConnection):
    def __init__(self, path, timeout):
        super().__init__("localhost", timeout=timeout)
        self.path = path

    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self.path)


class Answer:
    def __init__(self, status, headers, raw):
        self.status, self.headers, self.raw = status, headers, raw
        try:
            self.json = json.loads(raw) if raw else None
        except ValueError:
            self.json = None

    def __repr__(self):
        return f"{self.status} {self.raw[:400]!r}"


class Api:
    """The daemon's API over its Unix socket. Every answer is held against the API's description."""

    def __init__(self, path):
        self.path = str(path)

    def call(self, method, url, body=None, headers=None, timeout=30):
        """body: bytes as they are, anything else as JSON."""
        headers = dict(headers or {})
        if body is not None and not isinstance(body, bytes):
            body = json.dumps(body).encode()
            headers.setdefault("Content-Type", "application/merge-patch+json" if method == "PATCH"
                               else "application/json")
        c = _UnixConnection(self.path, timeout)
        try:
            c.request(method, url, body=body, headers=headers)
            r = c.getresponse()
            answer = Answer(r.status, r.headers, r.read())
        finally:
            c.close()
        contract.check(method, url, answer.status, answer.headers, answer.raw)
        return answer

    def _must(self, method, url, body, wanted):
        a = self.call(method, url, body)
        assert a.status in wanted, f"{method} {url}: {a}"
        return a.json

    def get(self, url):
        return self._must("GET", url, None, (200,))

    def put(self, url, body):
        return self._must("PUT", url, body, (200, 201))

    def patch(self, url, body):
        return self._must("PATCH", url, body, (200,))

    def delete(self, url):
        return self._must("DELETE", url, None, (200, 202))


class Response:
    def __init__(self, status, headers, body):
        self.status, self.headers, self.body = status, headers, body

    @property
    def backend(self):
        return self.headers.get("x-backend")


class Connection:
    """One TCP connection of the client, spoken HTTP/1.1 over by hand so that nothing is retried or
    reused behind our back."""

    def __init__(self, lab, address, port=80, sport=0, timeout=20, source="", window=0):
        """window: bytes that the receiver keeps for its reader; 0: as the kernel likes."""
        self.address, self.port = address, port
        with inside(lab.ns("client")):
            self.sock = socket.socket(socket.AF_INET6 if ":" in address else socket.AF_INET)
        self.sock.settimeout(timeout)
        if window:
            self.sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, window)
        if sport or source:
            self.sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            self.sock.bind((source, sport))
        self.sock.connect((address, port))
        self.sport = self.sock.getsockname()[1]
        self.rest = b""

    def _more(self):
        data = self.sock.recv(65536)
        if not data:
            raise ConnectionError("closed by the backend")
        return data

    def send(self, path, close=False):
        host = f"[{self.address}]" if ":" in self.address else self.address
        self.sock.sendall(f"GET {path} HTTP/1.1\r\nHost: {host}\r\n"
                          f"Connection: {'close' if close else 'keep-alive'}\r\n\r\n".encode())

    def head(self):
        """Read status and headers."""
        while b"\r\n\r\n" not in self.rest:
            self.rest += self._more()
        head, self.rest = self.rest.split(b"\r\n\r\n", 1)
        lines = head.decode().split("\r\n")
        headers = {k.strip().lower(): v.strip() for k, v in (x.split(":", 1) for x in lines[1:])}
        return int(lines[0].split()[1]), headers

    def body(self, length, sink=None):
        """Read a body of that length; sink gets its parts instead of keeping them."""
        kept, left = [], length
        while left:
            part, self.rest = self.rest[:left] or self._more(), self.rest[left:]
            if len(part) > left:
                part, self.rest = part[:left], part[left:]
            left -= len(part)
            (sink or kept.append)(part)
        return b"".join(kept)

    def get(self, path, close=False):
        self.send(path, close)
        status, headers = self.head()
        return Response(status, headers, self.body(int(headers["content-length"])))

    def close(self):
        self.sock.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()


class Download(threading.Thread):
    """A download that takes its time, in a thread of its own: the client reads no faster than the rate,
    in bytes a second, from a small window, so that it speaks all along. ok, or error says why not."""

    WINDOW = 16 << 10

    def __init__(self, lab, address, rate, name="2m", port=80):
        super().__init__(daemon=True)
        self.want, self.rate = lab.files[name], rate
        self.error, self.ok, self.got = None, False, 0
        self.hurried = threading.Event()
        self.connection = Connection(lab, address, port, window=self.WINDOW)
        self.connection.send(f"/fast/{name}")
        self.status, headers = self.connection.head()
        self.backend = headers.get("x-backend")
        self.length = int(headers["content-length"])
        self.digest = hashlib.sha256()
        self.began = time.monotonic()
        self.start()

    def _take(self, part):
        self.digest.update(part)
        self.got += len(part)
        ahead = self.got / self.rate - (time.monotonic() - self.began)
        if ahead > 0:
            self.hurried.wait(ahead)

    def run(self):
        try:
            self.connection.body(self.length, self._take)
            self.ok = self.status == 200 and self.digest.hexdigest() == self.want
            if not self.ok:
                self.error = f"status {self.status}, checksum {self.digest.hexdigest()[:12]}"
        except OSError as e:
            self.error = f"after {self.got} of {self.length} bytes from {self.backend}: {e}"
        finally:
            self.connection.close()

    def finish(self, timeout=60):
        """The rest as fast as it comes; it must be whole, and have been under way until now."""
        assert self.is_alive(), self.error or "has ended before"
        self.hurried.set()
        self.join(timeout)
        assert self.ok, self.error or f"{self.got} of {self.length} bytes"


class Datagrams:
    """A UDP socket of the client, connected to a VIP; its backends answer with their name."""

    def __init__(self, lab, address, port, sport=0, source=""):
        with inside(lab.ns("client")):
            self.sock = socket.socket(socket.AF_INET6 if ":" in address else socket.AF_INET,
                                      socket.SOCK_DGRAM)
        self.sock.settimeout(5)
        if sport or source:
            self.sock.bind((source, sport))
        self.sock.connect((address, port))
        self.sport = self.sock.getsockname()[1]

    def ask(self):
        """The backend that one datagram reaches."""
        self.sock.send(b"?")
        return self.sock.recv(64).decode()

    def close(self):
        self.sock.close()
