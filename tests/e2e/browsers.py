"""Scripts in node that drive Debian's Chromium by playwright-core (tests/e2e/dashboard/), and the network that they ask
for. `make deps-test` installs the packages into build/dashboard."""

import json
import os
import shutil
import subprocess
import threading
import time

import lib
from lib import BUILD, CLIENT4, ROOT, VIP4, Connection

SOURCE = ROOT / "tests" / "e2e" / "dashboard"
NODE = ROOT / "build" / "dashboard"
SHOTS = BUILD / "web-shots"
LISTEN = "127.0.0.1:8080"
TOKENS = {"operate": "operate-0123456789abcdef", "read": "read-0123456789abcdef"}


class Traffic:
    """Clients that open one connection after another, and stay quiet of those that find no backend."""

    def __init__(self, lab, clients, pause_s):
        self.lab, self.pause_s = lab, pause_s
        self.stopped, self.ports = threading.Event(), threading.Lock()
        self.threads = [threading.Thread(target=self._run, daemon=True) for _ in range(clients)]
        for t in self.threads:
            t.start()

    def _run(self):
        while not self.stopped.is_set():
            with self.ports:
                sport = self.lab.fresh_port()
            try:
                self.lab.get(sport=sport, timeout=1)
            except OSError:
                time.sleep(0.2)
            time.sleep(self.pause_s)

    def stop(self):
        self.stopped.set()
        for t in self.threads:
            t.join()


class Script:
    """A script of tests/e2e/dashboard in node, whose questions are answered here."""

    def __init__(self, lab):
        self.lab, self.traffic, self.held = lab, None, []

    def traffic_start(self, clients, pause_ms):
        self.traffic = Traffic(self.lab, clients, pause_ms / 1000)

    def traffic_stop(self):
        self.traffic.stop()

    def hold(self, backend):
        """An open connection of a backend: its client's port."""
        while True:
            c = Connection(self.lab, VIP4, sport=self.lab.fresh_port())
            if c.get("/name").backend == backend:
                self.held.append(c)
                return {"src": CLIENT4, "sport": c.sport}
            c.close()

    def speak(self):
        """Of each held connection, the backend that answers."""
        return [c.get("/name").backend for c in self.held]

    def release(self):
        while self.held:
            self.held.pop().close()

    def stop_daemon(self):
        return self.lab.stop_daemon()

    def start_daemon(self):
        start_daemon(self.lab)

    def run(self, name):
        """Returns the steps that it has done."""
        env = {**os.environ, "DASHBOARD_URL": f"http://{LISTEN}", "SHOTS": str(SHOTS), "VIP": VIP4,
               "OPERATE_TOKEN": TOKENS["operate"], "READ_TOKEN": TOKENS["read"], "HOME": str(self.lab.dir)}
        argv = ["ip", "netns", "exec", self.lab.ns("lb"), "node", str(NODE / name)]
        steps = []
        with open(self.lab.dir / "node.err", "w+", encoding="utf-8") as err, \
                subprocess.Popen(argv, env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=err, text=True) as p:
            self.lab.processes.append(p)
            try:
                for line in p.stdout:
                    said = json.loads(line)
                    if "failed" in said:
                        raise AssertionError(f"after {steps}: {said['failed']}")
                    if "done" in said:
                        steps.append(said["done"])
                    else:
                        answer = getattr(self, said["ask"])(*said["args"])
                        p.stdin.write(json.dumps(answer) + "\n")
                        p.stdin.flush()
            finally:
                p.kill()
                if self.traffic:
                    self.traffic.stop()
                self.release()
        err = (self.lab.dir / "node.err").read_text()
        assert steps and steps[-1] == "end", f"{steps}: {err[-2000:]}"
        return steps


def start_daemon(lab):
    lab.start_daemon("--listen", LISTEN, "--token-file", lab.dir / "tokens", "--web", BUILD / "web")


def setup(lab):
    assert (NODE / "installed").exists(), "playwright-core is missing: make deps-test"
    for f in SOURCE.glob("*.mjs"):
        shutil.copy(f, NODE / f.name)
    SHOTS.mkdir(parents=True, exist_ok=True)
    tokens = lab.dir / "tokens"
    tokens.write_text("".join(f"{role} {role}-token {token}\n" for role, token in TOKENS.items()))
    tokens.chmod(0o600)
    lab.start_backends()
    start_daemon(lab)
