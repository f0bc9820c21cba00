#!/usr/bin/python3
"""Who may do what, and what a running concuryd can still do itself: roles over every route, TLS and
client certificates that are read again, users of the Unix socket, guessed tokens, slow clients."""

import contextlib
import http.client
import json
import os
import re
import signal
import socket
import ssl
import subprocess
import threading
import time

import yaml

import lib
from lib import LB4, VIP4

TCP, READ_ONLY, TLS = ("127.0.0.1", 8080), ("127.0.0.1", 8081), (LB4, 8443)
UID = 4711  # a user without a name
BOTH = 1 << 12 | 1 << 13  # CAP_NET_ADMIN, CAP_NET_RAW
ORDER = [None, "read", "operate", "admin"]
tokens = {None: None}  # by role


# --- helpers -------------------------------------------------------------------------------------

class Bound(http.client.HTTPConnection):
    """A connection from inside a namespace, over TLS if there is a context for it."""

    def __init__(self, lab, name, to, context=None, source=None):
        super().__init__(*to, timeout=15)
        self.lab, self.name, self.context, self.source = lab, name, context, source

    def connect(self):
        with lib.inside(self.lab.ns(self.name)):
            s = socket.socket()
        s.settimeout(15)
        if self.source:
            s.bind((self.source, 0))
        s.connect((self.host, self.port))
        self.sock = self.context.wrap_socket(s, server_hostname="lb.example") if self.context else s


def call(c, method, url, token=None, body=None, headers=None):
    headers = dict(headers or {})
    if token:
        headers["Authorization"] = f"Bearer {token}"
    if body is not None:
        headers["Content-Type"] = "application/json"
        body = json.dumps(body)
    c.request(method, url, body=body, headers=headers)
    r = c.getresponse()
    return answer(r)


def answer(r):
    raw = r.read()
    return r.status, r.headers, json.loads(raw) if raw and "json" in r.headers["Content-Type"] else raw


def once(lab, name, to, method, url, token=None, body=None, headers=None, context=None, source=None):
    with contextlib.closing(Bound(lab, name, to, context, source)) as c:
        return call(c, method, url, token, body, headers)


def threads(lab):
    return [f"/proc/{lab.daemon.pid}/task/{t}" for t in os.listdir(f"/proc/{lab.daemon.pid}/task")]


def read(path):
    with open(path) as f:
        return f.read()


def make_authority(lab, name):
    lib.sh("openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days",
            "2", "-subj", f"/CN={name}", "-keyout", lab.dir / f"{name}.key", "-out", lab.dir / f"{name}.pem")


def make_cert(lab, by, cn, name, serial, usage):
    """name.pem and name.key, issued by an authority."""
    d = lab.dir
    (d / "ext").write_text(f"subjectAltName=DNS:{cn}\nextendedKeyUsage={usage}\n")
    lib.sh("openssl", "req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-subj",
            f"/CN={cn}", "-keyout", d / f"{name}.key", "-out", d / "csr")
    lib.sh("openssl", "x509", "-req", "-in", d / "csr", "-CA", d / f"{by}.pem", "-CAkey", d / f"{by}.key",
            "-set_serial", serial, "-days", "2", "-extfile", d / "ext", "-out", d / f"{name}.pem")


def context(lab, ca, cert=None):
    c = ssl.create_default_context(cafile=str(lab.dir / f"{ca}.pem"))
    if cert:
        c.load_cert_chain(lab.dir / f"{cert}.pem", lab.dir / f"{cert}.key")
    return c


def serial(c):
    """Of the certificate that the server has shown on a connection."""
    return int(c.sock.getpeercert()["serialNumber"], 16)


def reload(lab, lines=1):
    """What is said of it: that all is read again, or of each kind of file that it is wrong."""
    start = lab.log.stat().st_size
    lab.daemon.send_signal(signal.SIGHUP)
    said = lambda: re.findall("SIGHUP|stays", lab.log.read_text()[start:])
    lib.wait_until("SIGHUP is done", lambda: len(said()) == lines, 10, 0.02)
    return lab.log.read_text()[start:]


# --- slow clients, beside all other tests --------------------------------------------------------

class Slow(threading.Thread):
    """Sends ten bytes a second, so that it is never idle; how long it was let."""

    def __init__(self, lab, text):
        super().__init__()
        self.lab, self.text, self.took = lab, text, None

    def run(self):
        with lib.inside(self.lab.ns("lb")):
            s = socket.socket()
        s.connect(TCP)
        start = time.monotonic()
        s.settimeout(0.1)
        with contextlib.suppress(ConnectionError, BrokenPipeError):
            for byte in self.text:
                s.sendall(bytes([byte]))
                with contextlib.suppress(socket.timeout):
                    if s.recv(1) == b"":
                        break
        self.took = time.monotonic() - start
        s.close()


slow = []


def start_slow(lab):
    head = b"GET /livez HTTP/1.1\r\nHost: localhost\r\nX: " + b"y" * 200
    body = b"PUT /v1/vips/web HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9999\r\n\r\n"
    slow.extend([Slow(lab, head), Slow(lab, body + b"x" * 200)])
    for s in slow:
        s.start()


# --- tests ---------------------------------------------------------------------------------------

def test_first_five_minutes(lab):
    """Without a token: whoever is on the machine changes VIPs, but hands out no tokens."""
    assert once(lab, "lb", TCP, "PUT", "/v1/vips/web", None,
                {"address": VIP4, "port": 80, "protocol": "tcp"})[0] == 201
    status, headers, body = once(lab, "lb", TCP, "PUT", "/v1/tokens/x", None, {"role": "admin"})
    assert status == 403 and "admin" in body["detail"], body
    assert 'scope="admin"' in headers["WWW-Authenticate"]
    assert once(lab, "lb", TCP, "GET", "/v1/vips", headers={"Host": "evil.example"})[0] == 403
    assert once(lab, "lb", TCP, "GET", "/v1/vips", headers={"Origin": "http://evil.example"})[0] == 403
    lab.put_dips({"b1": 1})


def test_confined(lab):
    """Every thread: two capabilities, no new ones, a filter; and the priority that it had before."""
    nice = {}
    for t in threads(lab):
        try:
            status, stat = read(f"{t}/status"), read(f"{t}/stat")
        except (FileNotFoundError, ProcessLookupError):
            continue  # a connection's, which has just ended
        fields = dict(line.split(":", 1) for line in status.splitlines())
        for name in ("CapPrm", "CapEff", "CapBnd"):
            assert int(fields[name], 16) == BOTH, (fields["Name"], name, fields[name])
        for name in ("CapInh", "CapAmb"):
            assert int(fields[name], 16) == 0, (fields["Name"], name, fields[name])
        assert int(fields["NoNewPrivs"]) == 1 and int(fields["Seccomp"]) == 2, fields
        nice[fields["Name"].strip()] = int(stat[stat.rindex(")"):].split()[17])
    assert nice["worker-0"] == nice["control"] == -10 and nice["store"] == nice["concuryd"] == 0, nice


def test_users_of_the_socket(lab):
    """Root is admin; another user is kept out by the socket's mode, or operates."""
    def ask(method, url, *more):
        out = lab.run("lb", "setpriv", "--reuid", UID, "--regid", UID, "--clear-groups", "curl", "-sS", "-o",
                      "/dev/null", "-w", "%{http_code}", "--unix-socket", lab.socket, "-X", method,
                      f"http://localhost{url}", *more, check=False)
        return out.split()[-1]
    assert ask("GET", "/v1/vips") == "000"  # no connection
    os.chown(lab.socket, 0, UID)
    assert ask("GET", "/v1/vips") == "200"
    assert ask("PATCH", "/v1/vips/web", "-H", "Content-Type: application/merge-patch+json", "-d",
               '{"closing_pin_s": 14}') == "200"
    assert ask("GET", "/v1/tokens") == "403"
    assert lab.api.get("/v1/tokens") == {"items": []}


def test_first_token(lab):
    """Beside a running one --init-token says what to do, and that works; else it makes the token."""
    argv = ("--init-token", "--database", lab.database, "--listen", f"unix:{lab.socket}")
    rc, out = lab.run_daemon(*argv)
    assert rc == 1, out
    made = json.loads(lab.run("lb", "sh", "-c", re.search(r"curl .*", out).group() + " -sS"))
    assert made["role"] == "admin" and re.fullmatch("concury_[0-9a-f]{64}", made["token"]), made
    assert once(lab, "lb", TCP, "GET", "/v1/vips")[0] == 401  # there is a token now
    assert once(lab, "lb", TCP, "GET", "/v1/tokens", made["token"])[0] == 200
    assert lab.stop_daemon() == 0
    r = subprocess.run([lib.CONCURYD, *map(str, argv)], stdout=subprocess.PIPE, timeout=20, check=True)
    tokens["admin"] = r.stdout.decode().strip()
    assert re.fullmatch("concury_[0-9a-f]{64}", tokens["admin"]), r.stdout
    assert tokens["admin"].encode() not in lab.database.read_bytes()
    lab.start_daemon(*LISTENERS)
    assert once(lab, "lb", TCP, "GET", "/v1/tokens", made["token"])[0] == 401  # replaced
    assert once(lab, "lb", TCP, "GET", "/v1/tokens", tokens["admin"])[0] == 200


def test_where_it_listens(lab):
    """Other machines are served with tokens, and over TLS or where clear text is asked for."""
    base = ["--interface", "eth0", "--state-dir", lab.state_dir]
    rc, out = lab.run_daemon(*base, "--database", lab.dir / "x.db", "--listen", f"{LB4}:8080")
    assert rc == 1 and "not a loopback address" in out and f"http:{LB4}:8080" in out, out
    rc, out = lab.run_daemon(*base, "--database", lab.dir / "x.db", "--listen", f"http:{LB4}:8080")
    assert rc == 1 and "no token exists" in out and "--init-token" in out, out
    rc, out = lab.run_daemon(*base, "--listen", f"https:{LB4}:8080")
    assert rc == 1 and "--tls-cert" in out, out


def routes():
    with open(lib.ROOT / "schema" / "openapi.yaml", encoding="utf-8") as f:
        doc = yaml.safe_load(f)
    for path, item in doc["paths"].items():
        for method in set(item) & {"get", "put", "patch", "delete", "post"}:
            op = item[method]
            role = op.get("x-role", "read" if method == "get" else "operate")
            yield method.upper(), re.sub(r"\{\w+\}", "x", path), None if "security" in op else role


def test_roles(lab):
    """Each role against each route. (What is asked for is not there, so nothing changes.)"""
    for role in ("read", "operate"):
        status, _, body = once(lab, "lb", TCP, "PUT", f"/v1/tokens/{role}", tokens["admin"], {"role": role})
        assert status == 201, body
        tokens[role] = body["token"]
    n = 0
    for method, path, wanted in routes():
        for role in ORDER:
            with contextlib.closing(Bound(lab, "lb", TCP)) as c:
                c.request(method, path, headers={"Authorization": f"Bearer {tokens[role]}"} if role else {})
                r = c.getresponse()
                why = f"{method} {path} as {role}: {r.status}"
                if wanted is None:
                    assert r.status != 403 and (r.status != 401 or path.endswith("/reports")), why
                elif role is None:
                    assert r.status == 401 and r.headers["WWW-Authenticate"] == "Bearer", why
                elif ORDER.index(role) < ORDER.index(wanted):
                    assert r.status == 403 and wanted in json.loads(r.read())["detail"], why
                else:
                    assert r.status not in (401, 403, 429), why
                n += 1
    assert n >= 100, n
    assert [v["id"] for v in lab.api.get("/v1/vips")["items"]] == ["web"]
    print(f"{n} of route and role")


def test_only_looking(lab):
    """The read-only listener takes no change from anybody."""
    assert once(lab, "lb", READ_ONLY, "GET", "/v1/vips")[0] == 401
    assert once(lab, "lb", READ_ONLY, "GET", "/metrics", tokens["read"])[0] == 200
    assert once(lab, "lb", READ_ONLY, "GET", "/v1/vips", tokens["admin"])[0] == 200
    for method, url in (("PUT", "/v1/vips/web"), ("DELETE", "/v1/vips/web"), ("POST", "/v1/audit"),
                        ("GET", "/v1/tokens")):
        assert once(lab, "lb", READ_ONLY, method, url, tokens["admin"])[0] == 403, (method, url)


def test_tls_is_read_again(lab):
    """A new certificate and a new token file count for new connections; old ones go on."""
    ctx = context(lab, "ca", "ops")
    old = Bound(lab, "client", TLS, ctx)
    assert call(old, "GET", "/v1/vips", "first-token-of-the-file")[0] == 200
    assert serial(old) == 100
    make_cert(lab, "ca", "lb.example", "server", 101, "serverAuth")
    (lab.dir / "tokens").write_text(TOKEN_FILE.replace("first", "other"))
    assert "are read again" in reload(lab)
    with contextlib.closing(Bound(lab, "client", TLS, ctx)) as new:
        assert call(new, "GET", "/v1/vips", "other-token-of-the-file")[0] == 200
        assert serial(new) == 101
    assert call(old, "GET", "/v1/vips", "first-token-of-the-file")[0] == 401
    assert call(old, "GET", "/v1/vips", "other-token-of-the-file")[0] == 200
    old.close()
    # What is wrong with the files is said, and changes nothing.
    key = (lab.dir / "server.key").read_text()
    (lab.dir / "server.key").write_text("nonsense")
    (lab.dir / "tokens").write_text("read x short\n")
    text = reload(lab, lines=2)
    assert "server.key" in text and "tokens, line 1" in text and lab.daemon.poll() is None, text
    assert once(lab, "client", TLS, "GET", "/v1/vips", "other-token-of-the-file", context=ctx)[0] == 200
    (lab.dir / "server.key").write_text(key)
    (lab.dir / "tokens").write_text(TOKEN_FILE)
    assert "are read again" in reload(lab)


def test_guessing(lab):
    """Ten wrong tokens shut an address out, and no other."""
    ctx = context(lab, "ca", "ops")
    lab.run("client", "ip", "addr", "add", "10.9.0.250/24", "dev", "eth0")
    with contextlib.closing(Bound(lab, "client", TLS, ctx, "10.9.0.250")) as c:
        got = [call(c, "GET", "/v1/vips", f"concury_guess-number-{i}")[0] for i in range(12)]
        assert got == [401] * 10 + [429] * 2, got
        status, headers, _ = call(c, "GET", "/v1/vips", tokens["read"])
        assert status == 429 and 1 <= int(headers["Retry-After"]) <= 6, (status, headers)
    assert once(lab, "client", TLS, "GET", "/v1/vips", tokens["read"], context=ctx)[0] == 200
    assert "10.9.0.250: too many failed log-ins" in lab.log.read_text()


def test_slow_clients_are_cut(lab):
    for s in slow:
        s.join(20)
        # Ten seconds for the rest of a request, after at most ten for its first line.
        assert s.took is not None and 9 < s.took < 15, f"{s.took} s for {s.text[:60]}"


def test_client_certificates(lab):
    """Nobody without a certificate; roles by its name; the agent has one too."""
    make_cert(lab, "ca", "rack1.example", "rack1", 201, "clientAuth")
    make_authority(lab, "stranger")
    make_cert(lab, "stranger", "ops.example", "thief", 200, "clientAuth")
    for cert in (None, "thief"):
        try:
            status = once(lab, "client", TLS, "GET", "/livez", context=context(lab, "ca", cert))[0]
        except (OSError, http.client.HTTPException) as e:
            status = type(e)
        assert not isinstance(status, int), f"{cert}: {status}"
    ops = context(lab, "ca", "ops")
    assert once(lab, "client", TLS, "GET", "/v1/vips", context=ops)[0] == 200
    assert once(lab, "client", TLS, "GET", "/v1/tokens", context=ops)[0] == 403
    rack1 = context(lab, "ca", "rack1")
    assert once(lab, "client", TLS, "GET", "/v1/vips", context=rack1)[0] == 401
    assert once(lab, "client", TLS, "GET", "/v1/vips", tokens["read"], context=rack1)[0] == 200

    made = lab.api.put("/v1/agents/rack1", {"vip": "web", "dip": "b1"})
    (lab.dir / "agent.token").write_text(made["token"] + "\n")
    lab.run("b1", "sh", "-c", f"echo {LB4} lb.example > {lab.dir}/hosts")
    lab.spawn("b1", ["unshare", "-m", "sh", "-c",
                     f"mount --bind {lab.dir}/hosts /etc/hosts && exec {lib.BUILD}/bin/concury-agent "
                     f"--url https://lb.example:8443 --agent rack1 --token-file {lab.dir}/agent.token "
                     f"--ca-file {lab.dir}/ca.pem --cert {lab.dir}/rack1.pem --key {lab.dir}/rack1.key "
                     "--interval 100"], lab.dir / "agent.log")
    lib.wait_until("a report over TLS", lambda: lab.api.get("/v1/agents/rack1")["synced"], 10)


TOKEN_FILE = "# of this test\nread scraper first-token-of-the-file\noperate ops cert:ops.example\n"
LISTENERS = []


def setup(lab):
    make_authority(lab, "ca")
    make_cert(lab, "ca", "lb.example", "server", 100, "serverAuth")
    make_cert(lab, "ca", "ops.example", "ops", 200, "clientAuth")
    (lab.dir / "tokens").write_text(TOKEN_FILE)
    os.chmod(lab.dir / "tokens", 0o600)
    LISTENERS[:] = ["--listen", "http:%s:%d" % TCP, "--listen-read-only", "http:%s:%d" % READ_ONLY,
                    "--listen", "%s:%d" % TLS, "--token-file", lab.dir / "tokens",
                    "--tls-cert", lab.dir / "server.pem", "--tls-key", lab.dir / "server.key",
                    "--tls-client-ca", lab.dir / "ca.pem"]
    lab.start_daemon("--listen", "%s:%d" % TCP)


if __name__ == "__main__":
    lib.main("security", [
        test_first_five_minutes, test_confined, test_users_of_the_socket, test_first_token,
        test_where_it_listens, start_slow, test_roles, test_only_looking, test_tls_is_read_again,
        test_client_certificates, test_guessing, test_slow_clients_are_cut,
    ], setup, backends=1)
