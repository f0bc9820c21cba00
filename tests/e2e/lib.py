"""A small laboratory for concuryd: network namespaces on one L2 segment, nginx backends, real clients.

    client ----+                 +---- b1 (nginx; the VIP on lo)
               |   sw (bridge)   +---- b2
    lb --------+                 +---- ...
    (concuryd; the VIP on eth0)

All names carry the suite's name, so that suites do not meet, and so that a run finds and removes what
a killed one left. Offloads stay as the kernel sets them. Only the Python standard library is used.
"""

import atexit
import collections
import contextlib
import fcntl
import hashlib
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import time
import traceback

from clients import (Api, Connection, Datagrams, Download, assert_shares,  # noqa: F401
                     inside)

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = ROOT / os.environ.get("BUILD", "build")
CONCURYD = BUILD / "bin" / "concuryd"

ALL_SYSCTLS = ("sysctl -qw net.ipv6.conf.default.accept_dad=0 net.ipv6.conf.all.accept_dad=0 "
               "net.ipv4.conf.all.rp_filter=0 net.ipv4.conf.default.rp_filter=0\n"
               "ip link set lo up")
CLIENT4, LB4, VIP4 = "10.9.0.1", "10.9.0.2", "10.9.0.100"
CLIENT6, LB6, VIP6 = "fd09::1", "fd09::2", "fd09::100"


def sh(*argv, check=True, timeout=60, stdin=None):
    """Run a command, return its output."""
    r = subprocess.run([str(a) for a in argv], stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                       text=True, timeout=timeout, input=stdin)
    if check and r.returncode != 0:
        raise RuntimeError(f"{' '.join(str(a) for a in argv)}: exit {r.returncode}: {r.stdout.strip()}")
    return r.stdout


def wait_until(what, condition, timeout=10.0, step=0.05):
    """Wait until condition() is true and return its value."""
    end = time.monotonic() + timeout
    while True:
        value = condition()
        if value:
            return value
        if time.monotonic() > end:
            raise AssertionError(f"{what}: not within {timeout:g} s")
        time.sleep(step)


# --- the laboratory ------------------------------------------------------------------------------

def _netns_list(prefix):
    return [n for n in sorted(os.listdir("/run/netns")) if n.startswith(prefix)] \
        if os.path.isdir("/run/netns") else []


def _kill_inside(netns):
    """End every process in one of our namespaces."""
    def pids():
        return [int(p) for p in sh("ip", "netns", "pids", netns, check=False).split() if p.isdigit()]
    end = time.monotonic() + 10
    while (left := [p for p in pids() if p != os.getpid()]) and time.monotonic() < end:
        for pid in left:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(0.02)


NGINX_CONF = """\
user root;
worker_processes 1;
daemon off;
pid {dir}/nginx.pid;
error_log {dir}/error.log warn;
events {{ worker_connections 4096; }}
http {{
	access_log off;
	default_type application/octet-stream;
	sendfile on;
	keepalive_timeout 600s;
	keepalive_requests 1000000;
	send_timeout 120s;
	client_max_body_size 0;
	reset_timedout_connection off;
	client_body_temp_path {dir}/body;
	proxy_temp_path {dir}/proxy;
	fastcgi_temp_path {dir}/fastcgi;
	uwsgi_temp_path {dir}/uwsgi;
	scgi_temp_path {dir}/scgi;
	server {{
		{listen}
		add_header X-Backend {name} always;
		location = /name {{ return 200 "{name}\\n"; }}
		# Answers once the whole body is there, and keeps it as a file.
		location = /upload {{
			client_body_in_file_only on;
			proxy_pass http://127.0.0.1:81/name;
		}}
		location /slow/ {{ alias {files}/; limit_rate $arg_rate; }}
		location /fast/ {{ alias {files}/; }}
	}}
	server {{
		listen 127.0.0.1:81;
		location = /name {{ return 200 "{name}\n"; }}
	}}
}}
"""


class Lab:
    """Namespaces, backends and a daemon. backends: how many; queues: of the load balancer's interface;
    mtu: of what lies between load balancer and backends."""

    def __init__(self, suite, backends=3, queues=1, mtu=1500):
        assert suite.isalnum()
        self.suite, self.prefix = suite, f"cc-{suite}-"
        self.dir = BUILD / "e2e" / suite
        self.state_dir = pathlib.Path(f"/dev/shm/concury-e2e-{suite}")
        self.backends = [f"b{i + 1}" for i in range(backends)]
        self.queues, self.mtu = queues, mtu
        self.files = {}        # name -> sha256
        self.processes = []    # all that were started here
        self.daemon = None
        self.log = self.dir / "concuryd.log"
        self.socket = pathlib.Path(f"/run/concury-e2e-{suite}.sock")  # short: sun_path has a limit
        self.database = self.dir / "concury.db"
        self.api = Api(self.socket)
        self.ports = iter(range(1024, 40000))
        lock_path = f"/run/lock/concury-e2e-{suite}"
        self.lock = open(lock_path, "w")
        try:
            fcntl.flock(self.lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise SystemExit(f"another run of the {suite} tests is under way ({lock_path})")
        self.remove()
        atexit.register(self.remove)
        self.dir.mkdir(parents=True)

    # names and addresses

    def ns(self, name):
        return self.prefix + name

    def address(self, name, v6=False):
        """Of client, lb or a backend (b1 is .11)."""
        host = {"client": 1, "lb": 2}.get(name) or 10 + int(name[1:])
        return f"fd09::{host}" if v6 else f"10.9.0.{host}"

    def mac(self, name):
        host = {"client": 1, "lb": 2}.get(name) or 10 + int(name[1:])
        return f"02:00:00:09:00:{host:02x}"

    def run(self, name, *argv, **kw):
        """Run a command in a namespace, return its output."""
        return sh("ip", "netns", "exec", self.ns(name), *argv, **kw)

    # making and removing

    def remove(self):
        """Everything that this or a killed run of the suite has made."""
        for p in self.processes:
            if p.poll() is None:
                p.kill()
                p.wait()
        self.processes = []
        left = _netns_list(self.prefix)
        for netns in left:
            _kill_inside(netns)
        if left:
            sh("ip", "-force", "-batch", "-", stdin="".join(f"netns del {n}\n" for n in left),
               check=False)
        shutil.rmtree(self.state_dir, ignore_errors=True)
        self.socket.unlink(missing_ok=True)
        for path in self.dir.glob("*"):
            if path.name != "logs":
                shutil.rmtree(path) if path.is_dir() else path.unlink()
        with contextlib.suppress(OSError):
            self.dir.rmdir()

    def build(self):
        """The namespaces, the segment, the addresses: one script in each namespace."""
        names = ["client", "lb", *self.backends]
        sh("ip", "-batch", "-", stdin="".join(f"netns add {self.ns(n)}\n" for n in ["sw", *names]))
        # A switch looks at no IP header; where the kernel has br_netfilter, the bridge would.
        self.script("sw", ALL_SYSCTLS, "ip link add br0 type bridge",
                    "sysctl -qe -w net.bridge.bridge-nf-call-iptables=0 "
                    "net.bridge.bridge-nf-call-ip6tables=0")
        for n in names:
            self.script(n, ALL_SYSCTLS, self._interface(n), *self._addresses(n))
        self.script("sw", *(f"ip link set p-{n} master br0 up" for n in names),
                    *([f"ip link set br0 mtu {self.mtu}"] if self.mtu != 1500 else []),
                    "ip link set br0 up")

    def script(self, name, *lines):
        """Run shell commands in a namespace, each of which must succeed."""
        return self.run(name, "sh", "-e", stdin="\n".join(lines) + "\n")

    def _interface(self, n):
        """Its eth0, and the switch's port."""
        # A native XDP program wants as many RX queues as the peer has TX queues.
        q = self.queues if n == "lb" else 1
        queues = f"numrxqueues {q} numtxqueues {q}"
        link = (f"ip link add eth0 address {self.mac(n)} {queues} type veth "
                f"peer name p-{n} netns {self.ns('sw')} {queues}")
        if n != "client" and self.mtu != 1500:
            link += (f"\nip link set eth0 mtu {self.mtu}"
                     f"\nip -n {self.ns('sw')} link set p-{n} mtu {self.mtu}")
        return link

    def _addresses(self, n):
        own = [f"ip addr add {self.address(n)}/24 dev eth0",
               f"ip addr add {self.address(n, True)}/64 dev eth0 nodad",
               "ip link set eth0 up"]
        if n == "client":
            own.append("sysctl -qw net.ipv4.ip_local_port_range='40000 60999'")
        elif n == "lb":
            # concuryd adds no addresses: the kernel of the load balancer answers ARP and ND.
            own += [f"ip addr add {VIP4}/32 dev eth0", f"ip addr add {VIP6}/128 dev eth0 nodad"]
        else:
            # A backend takes the VIP but must not say so: arp_ignore, arp_announce. (IPv6 answers
            # only for addresses of the interface that was asked on.)
            own += ["sysctl -qw net.ipv4.conf.all.arp_ignore=1 net.ipv4.conf.all.arp_announce=2",
                    f"ip addr add {VIP4}/32 dev lo", f"ip addr add {VIP6}/128 dev lo nodad"]
        return own

    def start_backends(self, ports=(80,)):
        """nginx on every backend: /name, /slow/FILE?rate=BYTES_PER_SECOND, /fast/FILE."""
        files = self.dir / "files"
        files.mkdir()
        for name, size in (("64k", 1 << 16), ("2m", 2 << 20), ("16m", 16 << 20)):
            data = os.urandom(size)
            (files / name).write_bytes(data)
            self.files[name] = hashlib.sha256(data).hexdigest()
        listen = " ".join(f"listen {p} backlog=1024; listen [::]:{p} ipv6only=on backlog=1024;"
                          for p in ports)
        for b in self.backends:
            d = self.dir / b
            d.mkdir()
            (d / "nginx.conf").write_text(
                NGINX_CONF.format(dir=d, name=b, files=files, listen=listen))
            self.spawn(b, ["nginx", "-p", str(d), "-e", str(d / "error.log"),
                           "-c", str(d / "nginx.conf")], d / "nginx.out")
        for b in self.backends:
            for port in ports:
                wait_until(f"nginx on {b}", lambda b=b, port=port: self._answers(b, port))

    def _answers(self, backend, port):
        try:
            with Connection(self, self.address(backend), port, timeout=1) as c:
                return c.get("/name").body == f"{backend}\n".encode()
        except OSError:
            return False

    def spawn(self, name, argv, out):
        with open(out, "ab") as f:
            p = subprocess.Popen(["ip", "netns", "exec", self.ns(name), *map(str, argv)],
                                 stdin=subprocess.DEVNULL, stdout=f, stderr=subprocess.STDOUT)
        self.processes.append(p)
        return p

    # the daemon

    def daemon_argv(self, *more):
        return [CONCURYD, "--interface", "eth0", "--database", self.database, "--state-dir",
                self.state_dir, "--listen", f"unix:{self.socket}", "--flows", "100000", *more]

    def start_daemon(self, *more, timeout=20):
        """Start concuryd and wait until it says that it is ready."""
        start = self.log.stat().st_size if self.log.exists() else 0
        self.daemon = self.spawn("lb", self.daemon_argv(*more), self.log)

        def ready():
            with open(self.log, errors="replace") as f:
                f.seek(start)
                text = f.read()
            assert self.daemon.poll() is None, f"concuryd exited {self.daemon.returncode}: {text}"
            return any(line.endswith("ready") for line in text.splitlines())
        wait_until("concuryd ready", ready, timeout, 0.02)

    def run_daemon(self, *argv, timeout=20):
        """Run concuryd with exactly these arguments until it exits; (exit code, output)."""
        r = subprocess.run(["ip", "netns", "exec", self.ns("lb"), str(CONCURYD), *map(str, argv)],
                           stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                           stderr=subprocess.STDOUT, text=True, timeout=timeout)
        return r.returncode, r.stdout

    def stop_daemon(self, sig=signal.SIGTERM, timeout=10):
        """End it; returns its exit code (negative: the signal that killed it)."""
        self.daemon.send_signal(sig)
        return self.daemon.wait(timeout)

    def put_vip(self, vip="web", address=VIP4, port=80, protocol="tcp", **more):
        return self.api.put(f"/v1/vips/{vip}",
                            {"address": address, "port": port, "protocol": protocol, **more})

    def put_dips(self, weights, vip="web", v6=False):
        """weights: {"b1": 2, ...}; returns when all are usable."""
        for b, w in weights.items():
            self.api.put(f"/v1/vips/{vip}/dips/{b}",
                         {"address": self.address(b, v6), "weight": w})
        self.wait_up(weights, vip)

    def decapsulate(self, backend):
        """A backend takes the outer headers of tunnels off, which its kernel may have no devices for."""
        program = BUILD / "tests" / "e2e" / "decap.bpf.o"
        if not program.exists():
            raise RuntimeError(f"{program} is missing: make bench-build")
        xdp = "xdp" if self.mtu <= 3498 else "xdpgeneric"  # it reads single buffers
        self.run(backend, "ip", "link", "set", "dev", "eth0", xdp, "obj", program, "sec", "xdp")

    def dips(self, vip="web"):
        return {d["id"]: d for d in self.api.get(f"/v1/vips/{vip}/dips")["items"]}

    def wait_up(self, names, vip="web"):
        def up():
            dips = self.dips(vip)
            return all(n in dips and dips[n]["state"] != "unresolved" for n in names)
        wait_until(f"DIPs {', '.join(names)} resolved", up)

    def consistency(self):
        return self.api.get("/v1/consistency")

    def counters(self):
        return self.api.get("/v1/counters")

    def assert_consistent(self):
        c = self.consistency()
        for k in ("violations_total", "flows_unlearned_total", "flows_forgotten_total"):
            assert c[k] == 0, f"{k} is {c[k]}: {c}"
        return c

    def resets_sent(self, name="lb"):
        """RSTs that the kernel of a namespace has sent, over IPv4 and IPv6."""
        header, values = [line.split() for line in self.run(name, "cat", "/proc/net/snmp").splitlines()
                          if line.startswith("Tcp:")]
        return int(values[header.index("OutRsts")])

    # clients

    def get(self, path="/name", address=VIP4, port=80, sport=0, timeout=20):
        """One request over a connection of its own."""
        with Connection(self, address, port, sport, timeout) as c:
            return c.get(path, close=True)

    def fresh_port(self):
        """A client port that was not used before, nor will be by the kernel's choice: a port whose
        last flow ended some seconds ago may still be pinned to that flow's DIP."""
        return next(self.ports)

    def count_connections(self, n, address=VIP4, port=80):
        """n connections, one after another; how many each backend got."""
        return collections.Counter(
            self.get(address=address, port=port, sport=self.fresh_port()).backend
            for _ in range(n))

    def count_curls(self, n, address=VIP4, port=80):
        """The same by curl, from ports of the kernel's choice."""
        host = f"[{address}]" if ":" in address else address
        out = self.run("client", "curl", "-sS", "--fail", "--max-time", "20", "-H",
                       "Connection: close", f"http://{host}:{port}/name?[1-{n}]", timeout=120)
        counts = collections.Counter(out.split())
        assert sum(counts.values()) == n, f"{n} connections, answers: {str(counts)[:300]}"
        return counts

    def upload(self, address=VIP4, name="16m", timeout=30):
        """Send a file by curl: frames full to the MTU, which the client's stack hands over uncut.
        True if the backend has got all of it."""
        host = f"[{address}]" if ":" in address else address
        out = self.run("client", "curl", "-sS", "-g", "-H", "Expect:", "--data-binary",
                       f"@{self.dir}/files/{name}", "-m", timeout, f"http://{host}/upload",
                       check=False)
        kept = [f for b in self.backends for f in (self.dir / b / "body").rglob("*") if f.is_file()]
        whole = any(hashlib.sha256(f.read_bytes()).hexdigest() == self.files[name] for f in kept)
        for f in kept:
            f.unlink()
        return whole and out.strip() in self.backends

    # the end of a run

    def log_tail(self, lines=25):
        text = self.log.read_text(errors="replace") if self.log.exists() else "(no log)"
        return "\n".join("    | " + line for line in text.splitlines()[-lines:])


# --- running tests -------------------------------------------------------------------------------

LIMIT_S = 175


def main(suite, tests, setup=None, **lab_args):
    """Run tests (functions that take the lab) in order; exit 1 if one failed."""
    if os.geteuid() != 0:
        raise SystemExit("not ok - the tests make network namespaces: run them as root")
    for sig in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(sig, lambda s, _: sys.exit(f"not ok - ended by signal {s}"))

    signal.signal(signal.SIGALRM, lambda *_: sys.exit(
        f"not ok - {suite}: the whole file took more than {LIMIT_S} s"))
    signal.alarm(LIMIT_S)

    lab = Lab(suite, **lab_args)
    failed = 0
    steps = [(t.__name__.removeprefix("test_"), t) for t in tests]
    try:
        try:
            lab.build()
            if setup:
                setup(lab)
        except Exception as e:
            traceback.print_exc(file=sys.stdout)
            print(f"not ok - set-up ({e})\n{lab.log_tail()}", flush=True)
            failed, steps = 1, []
        for name, test in steps:
            start = time.monotonic()
            try:
                test(lab)
                print(f"ok - {suite}: {name.replace('_', ' ')} "
                      f"({time.monotonic() - start:.1f} s)", flush=True)
            except Exception as e:
                failed += 1
                traceback.print_exc(file=sys.stdout)
                print(f"not ok - {suite}: {name.replace('_', ' ')} ({type(e).__name__}: {e})\n"
                      f"{lab.log_tail()}", flush=True)
    finally:
        signal.alarm(0)
        lab.remove()
    sys.exit(1 if failed else 0)
