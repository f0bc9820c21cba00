#!/usr/bin/python3
"""concuryd ends, is killed, fails to start again: connections survive, and never does the kernel of the
load balancer answer for a VIP. Nothing is attached that --detach does not remove."""

import json
import signal
import socket
import threading
import time

import lib
from lib import VIP4

RATE = 48 << 10  # bytes a second, until a test is done
WEIGHTS = {"b1": 2, "b2": 1, "b3": 1}


def setup(lab):
    lab.start_backends()
    lab.start_daemon()
    lab.put_vip()
    lab.put_dips(WEIGHTS)


def attached(lab):
    """Is an XDP program on the load balancer's interface?"""
    link, = json.loads(lab.run("lb", "ip", "-j", "link", "show", "eth0"))
    return "xdp" in link and bool(link["xdp"].get("prog"))


def assert_silent(lab, what):
    """A SYN to the VIP gets no answer at all, above all no RST; the host itself does answer."""
    with lib.inside(lab.ns("client")):
        s = socket.socket()
    s.settimeout(1.5)
    try:
        s.connect((VIP4, 80))
        raise AssertionError(f"{what}: connected")
    except ConnectionRefusedError:
        raise AssertionError(f"{what}: the kernel sent a RST")
    except TimeoutError:
        pass
    finally:
        s.close()
    lab.run("client", "ping", "-c", "1", "-W", "2", lab.address("lb"))
    assert lab.resets_sent() == 0, what


def pool_changes(lab):
    """Weights change, a DIP comes: about half of the Dcodes move."""
    for name, weight in (("b1", 1), ("b2", 5)):
        change = lab.api.patch(f"/v1/vips/web/dips/{name}", {"weight": weight})["change"]
        assert change["flows_moved"] == 0, change
    change = lab.api.put("/v1/vips/web/dips/b4",
                         {"address": lab.address("b4"), "weight": 4})["change"]
    assert change["flows_moved"] == 0 and change["flows_known"] > 0, change


class Keeper(threading.Thread):
    """Talks over one keep-alive connection all the time."""

    def __init__(self, lab):
        super().__init__(daemon=True)
        self.c = lib.Connection(lab, VIP4, timeout=30)
        self.home = self.c.get("/name").backend
        self.stop, self.error, self.n = False, None, 0
        self.start()

    def run(self):
        try:
            while not self.stop:
                now = self.c.get("/name").backend
                assert now == self.home, f"was on {self.home}, is on {now}"
                self.n += 1
                time.sleep(0.01)
        except Exception as e:
            self.error = f"{type(e).__name__}: {e}"


def test_kill_and_restart(lab):
    """kill -9 with downloads open, restart, a pool change right after: all of them finish."""
    downloads = [lib.Download(lab, VIP4, RATE) for _ in range(40)]
    keepers = [Keeper(lab) for _ in range(20)]
    idle = [lib.Connection(lab, VIP4) for _ in range(30)]  # these say nothing in between
    homes = [c.get("/name").backend for c in idle]
    config = lab.api.get("/v1/vips")["items"]
    time.sleep(1)
    for round_ in range(2):
        assert lab.stop_daemon(signal.SIGKILL) == -signal.SIGKILL
        assert attached(lab)
        lab.start_daemon()
        status = lab.api.get("/v1/status")
        assert status["state_file"] == "kept", status
        if round_ == 0:
            got = lab.api.get("/v1/vips")["items"]
            for was, now in zip(config, got):
                for member in ("id", "address", "port", "protocol", "mode", "affinity",
                               "closing_pin_s", "idle_timeout_s"):
                    assert was[member] == now[member], (was, now)
            pool_changes(lab)
        else:
            change = lab.api.patch("/v1/vips/web/dips/b2", {"weight": 1})["change"]
            assert change["flows_moved"] == 0, change
        assert [c.get("/name").backend for c in idle] == homes
    for d in downloads:
        d.finish()
    for k in keepers:
        k.stop = True
        k.join(40)
        assert not k.error and k.n > 20, (k.n, k.error)
    c = lab.consistency()
    assert c["violations_total"] == 0 and c["flows_lost_total"] == 0, c
    assert lab.resets_sent() == 0
    for connection in idle:
        connection.close()


def test_term_ends_cleanly(lab):
    """SIGTERM, SIGINT: exit 0; steer stays and drops VIP packets."""
    with lib.Connection(lab, VIP4, timeout=30) as c:
        home = c.get("/name").backend
        for sig in (signal.SIGTERM, signal.SIGINT):
            assert lab.stop_daemon(sig) == 0
            assert attached(lab)
            assert_silent(lab, f"after {sig.name}")
            lab.start_daemon()
            assert c.get("/name").backend == home
    assert lab.consistency()["violations_total"] == 0


def test_shutdown_under_load(lab):
    """A stop in the middle of everything is clean, too."""
    keepers = [Keeper(lab) for _ in range(30)]
    time.sleep(0.5)
    assert lab.stop_daemon() == 0
    time.sleep(0.3)
    lab.start_daemon()
    time.sleep(1)
    for k in keepers:
        k.stop = True
        k.join(40)
        assert not k.error, k.error
        k.c.close()


def test_failed_restart(lab):
    """A restart that fails leaves all as it was: VIP packets are dropped, not refused."""
    assert lab.stop_daemon() == 0
    for argv, status in ((["--workers", "0"], 2), (["--listen", "unix:/nonexistent/api.sock"], 1),
                         (["--interface", "nosuch0"], 1)):
        code, out = lab.run_daemon(*lab.daemon_argv(*argv)[1:])
        assert code == status, (argv, code, out)
        assert attached(lab), argv
    assert_silent(lab, "after failed restarts")
    lab.start_daemon()
    assert lab.get().status == 200


def test_restart_without_state_file(lab):
    """As after a reboot: pins are kept in the database, and voluntary changes wait."""
    connections = [lib.Connection(lab, VIP4) for _ in range(60)]
    homes = [c.get("/name").backend for c in connections]
    pool = {n: d["weight"] for n, d in lab.dips().items()}
    for name, weight in pool.items():
        lab.api.patch(f"/v1/vips/web/dips/{name}", {"weight": 9 - weight})
    assert lab.consistency()["flows_pinned"] > 0
    assert lab.stop_daemon() == 0
    for f in lab.state_dir.iterdir():
        f.unlink()
    lab.start_daemon()
    assert lab.api.get("/v1/status")["state_file"] != "kept"
    a = lab.api.call("PATCH", "/v1/vips/web/dips/b1", {"weight": 1})
    assert a.status == 503 and int(a.headers["Retry-After"]) >= 1, a
    assert [c.get("/name").backend for c in connections] == homes
    a = lab.api.call("PATCH", "/v1/vips/web/dips/b1?override_hold=true", {"weight": 1})
    assert a.status == 200 and a.json["change"]["flows_moved"] == 0, a
    assert [c.get("/name").backend for c in connections] == homes

    def taken():
        return lab.api.call("PATCH", "/v1/vips/web/dips/b1", {"weight": 7}).status == 200
    lib.wait_until("the hold to end", taken, 15, 0.25)
    assert [c.get("/name").backend for c in connections] == homes
    for c in connections:
        c.close()


def test_detach(lab):
    code, out = lab.run_daemon("--version")
    assert code == 0 and out.startswith("concuryd "), (code, out)
    assert lab.stop_daemon() == 0
    assert attached(lab)
    code, out = lab.run_daemon("--detach", "--interface", "eth0")
    assert code == 0, (code, out)
    assert not attached(lab)
    # The kernel has its packets back.
    try:
        lab.get(timeout=3)
        raise AssertionError("answered")
    except ConnectionRefusedError:
        pass
    # There is nothing to detach any more, and it says so.
    code, out = lab.run_daemon("--detach", "--interface", "eth0")
    assert code == 1 and len(out.strip().splitlines()) == 1 and "eth0" in out, (code, out)
    # A first start that fails attaches nothing.
    code, out = lab.run_daemon(*lab.daemon_argv("--listen", "unix:/nonexistent/api.sock")[1:])
    assert code == 1 and not attached(lab), out
    lab.start_daemon()
    assert attached(lab) and lab.get().status == 200


if __name__ == "__main__":
    lib.main("restart", [
        test_kill_and_restart, test_term_ends_cleanly, test_shutdown_under_load, test_failed_restart,
        test_restart_without_state_file, test_detach,
    ], setup, backends=4)
