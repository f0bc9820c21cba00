#!/usr/bin/python3
"""The disk fails, the forwarder does not: a database on a file system that is full, or read-only. What
cannot be stored is refused and the old state goes on, over kill -9 as well; when there is room again,
changes work again."""

import signal
import time

import disks
import lib
from lib import VIP4

RATE = 32 << 10  # bytes a second: 2 MiB would last a minute, and are let go when a test is done
WEIGHTS = {"b1": 2, "b2": 1, "b3": 1}
CHANGES = 240  # while the disk fills and empties; each fortieth is followed by a kill


class Crowd:
    """Connections that must not move: downloads, and keep-alive ones that speak when asked."""

    def __init__(self, lab):
        self.downloads = [lib.Download(lab, VIP4, RATE) for _ in range(12)]
        self.keep = [lib.Connection(lab, VIP4) for _ in range(40)]
        self.homes = [c.get("/name").backend for c in self.keep]

    def ask(self, lab):
        assert [c.get("/name").backend for c in self.keep] == self.homes
        broken = [d.error for d in self.downloads if d.error]
        assert not broken, broken
        c = lab.consistency()
        assert c["violations_total"] == 0 and c["flows_lost_total"] == 0, c

    def end(self):
        for d in self.downloads:
            d.finish()
        for c in self.keep:
            c.close()


disk = None


def pool(lab):
    return {n: d["weight"] for n, d in lab.dips().items()}


def refused_until_it_is(lab, changes):
    """Make changes until one is refused with 507, then all are. (Log and file may have room within
    themselves for some hundred: what is rewritten takes no more, only the list of changes grows.)"""
    before, n = pool(lab), 0
    while True:
        a = changes(n)
        if a.status == 507:
            break
        assert a.status == 200 and n < 2000, a
        before, n = pool(lab), n + 1
    assert a.headers["Content-Type"].startswith("application/problem+json"), a
    assert "stored" in a.json["detail"], a
    assert pool(lab) == before
    return before


def fill_up(lab):
    """Fill the disk while the log has no room within itself: it goes when the process ends cleanly."""
    assert lab.stop_daemon() == 0
    lab.start_daemon()
    disk.fill()


def weight(lab, name, value):
    return lab.api.call("PATCH", f"/v1/vips/web/dips/{name}", {"weight": value})


def all_refused(lab, full=True):
    """Every kind of change, and nothing of any is to be seen."""
    time.sleep(0.2)  # the log of a commit that failed is folded into the file
    before, vips = pool(lab), lab.api.get("/v1/vips")["items"]
    generation = lab.consistency()["generation"]
    for method, path, body in (
            ("PATCH", "/v1/vips/web/dips/b1", {"weight": 77}),
            ("PUT", "/v1/vips/web/dips/b4", {"address": lab.address("b4"), "weight": 5}),
            ("DELETE", "/v1/vips/web/dips/b1", None),
            ("DELETE", "/v1/vips/web/dips/b1?force=true", None),
            ("PUT", "/v1/vips/more", {"address": VIP4, "port": 81, "protocol": "tcp"}),
            ("PATCH", "/v1/vips/web", {"closing_pin_s": 33}),
            ("DELETE", "/v1/vips/web?force=true", None)):
        if full:
            disk.fill()
        a = lab.api.call(method, path, body)
        assert a.status == 507, f"{method} {path}: {a}"
    assert pool(lab) == before
    now = lab.api.get("/v1/vips")["items"]
    assert [(v["id"], v["closing_pin_s"]) for v in now] == \
        [(v["id"], v["closing_pin_s"]) for v in vips]
    assert lab.consistency()["generation"] == generation


def works_again(lab, crowd):
    """Changes are taken, and are on the disk: the next process has them."""
    def taken():
        return weight(lab, "b1", 5).status == 200
    lib.wait_until("changes to be taken again", taken, 10)
    a = lab.api.call("PUT", "/v1/vips/web/dips/b4", {"address": lab.address("b4"), "weight": 4})
    assert a.status == 201 and a.json["change"]["flows_moved"] == 0, a
    crowd.ask(lab)
    after = pool(lab)
    assert lab.stop_daemon(signal.SIGKILL) == -signal.SIGKILL
    lab.start_daemon()
    assert pool(lab) == after
    crowd.ask(lab)
    assert lab.api.call("DELETE", "/v1/vips/web/dips/b4?force=true").status == 200
    lib.wait_until("b4 gone", lambda: "b4" not in pool(lab))


def new_connections(lab, n=60):
    counts = lab.count_connections(n)
    assert sum(counts.values()) == n and set(counts) <= set(pool(lab)), counts


def setup(lab):
    global disk
    disk = disks.Disk(lab)
    lab.start_backends()
    lab.start_daemon()
    lab.put_vip(closing_pin_s=1)
    lab.put_dips(WEIGHTS)


def test_full_disk(lab):
    crowd = Crowd(lab)
    fill_up(lab)
    # Each change moves about half of the Dcodes, so that pins have to be written as well.
    refused_until_it_is(lab, lambda n: weight(lab, "b2", 9 if n % 2 else 1))
    all_refused(lab)
    crowd.ask(lab)
    new_connections(lab)
    disk.empty()
    works_again(lab, crowd)
    crowd.end()


def test_kill_on_a_full_disk(lab):
    crowd = Crowd(lab)
    fill_up(lab)
    before = refused_until_it_is(lab, lambda n: weight(lab, "b3", 9 if n % 2 else 1))
    for _ in range(3):
        assert lab.stop_daemon(signal.SIGKILL) == -signal.SIGKILL
        lab.start_daemon()
        assert lab.api.get("/v1/status")["state_file"] == "kept"
        assert pool(lab) == before
        refused_until_it_is(lab, lambda n: weight(lab, "b3", 9 if n % 2 else 1))
        before = pool(lab)
        crowd.ask(lab)
        new_connections(lab, 20)
    all_refused(lab)
    disk.empty()
    works_again(lab, crowd)
    crowd.end()


def test_the_disk_fills_and_empties_under_changes(lab):
    """Each answer is the truth: 200 is there after a kill, 507 is not."""
    crowd = Crowd(lab)
    answers = {200: 0, 507: 0}
    now, full, n = pool(lab)["b1"], False, 0
    while n < CHANGES or (min(answers.values()) < 5 and n < 5 * CHANGES):
        n += 1
        want = 1 + n % 9
        a = weight(lab, "b1", want)
        assert a.status in answers, a
        answers[a.status] += 1
        now = want if a.status == 200 else now
        if n % 15 == 0:
            full = not full
            disk.fill() if full else disk.empty()
        if n % 40 == 0:
            assert lab.stop_daemon(signal.SIGKILL) == -signal.SIGKILL
            lab.start_daemon()
        assert pool(lab)["b1"] == now, (n, a)
    print(f"    {answers}")
    assert min(answers.values()) >= 5, answers
    disk.empty()
    crowd.ask(lab)
    works_again(lab, crowd)
    crowd.end()


def second_is_refused(lab):
    code, out = lab.run_daemon("--interface", "eth0", "--database", lab.database, "--state-dir",
                               f"{lab.state_dir}-second", "--listen", "unix:/run/concury-e2e-disk-2.sock")
    assert code != 0 and "in use by another process" in out, out


def read_only(lab, crowd, sig):
    # Killed at once, so that the last change is in the log alone.
    assert weight(lab, "b3", 3 if sig == signal.SIGKILL else 2).status == 200
    before = pool(lab)
    lab.stop_daemon(sig)
    log = disk.path / "concury.db-wal"
    assert (log.exists() and log.stat().st_size > 0) == (sig == signal.SIGKILL)
    disk.remount("ro")
    for _ in range(2):
        lab.start_daemon()
        assert lab.api.get("/v1/status")["state_file"] == "kept"
        assert pool(lab) == before
        all_refused(lab, full=False)
        second_is_refused(lab)
        crowd.ask(lab)
        assert lab.stop_daemon(signal.SIGKILL) == -signal.SIGKILL
    lab.start_daemon()
    all_refused(lab, full=False)
    new_connections(lab)
    disk.remount("rw")
    second_is_refused(lab)
    works_again(lab, crowd)


def test_read_only_disk(lab):
    """The file system turned read-only while the process was away: killed, with a log beside the
    database, or ended cleanly, without one."""
    crowd = Crowd(lab)
    for sig in (signal.SIGKILL, signal.SIGTERM):
        read_only(lab, crowd, sig)
    crowd.end()


if __name__ == "__main__":
    lib.main("disk", [
        test_full_disk, test_kill_on_a_full_disk, test_the_disk_fills_and_empties_under_changes,
        test_read_only_disk,
    ], setup, backends=4)
