#!/usr/bin/python3
"""kill -9 at random moments, again and again, under load and pool changes; in some lives the database is
on a disk that is full, or read-only. The crowd's connections, downloads and keep-alive connections stay
open over all of it, new ones come all the time, changes are made as fast as the API answers. After each
restart every flow is where it was, and every change that was answered is there.

KILLS: how many; SEED repeats the moments."""

import collections
import hashlib
import http.client
import os
import random
import signal
import threading
import time

import crowds
import disks
import lib
from lib import VIP4

KILLS = int(os.environ.get("KILLS", "200"))
SEED = int(os.environ.get("SEED", str(int(time.time()))))
LIVE, NEW_PER_S = 1000, 100  # of the crowd
RATE = 64 << 10  # bytes a second of a download: 2 MiB last half a minute
BOOT_KILLS = 0.2  # share of the kills that do not wait until the process is ready
LOOK_EVERY = 20  # kills after which everybody has spoken, and is where it was
WEIGHTS = {"b1": 2, "b2": 1, "b3": 3, "b4": 2}
lib.LIMIT_S = 120 + 2 * KILLS


class Worker(threading.Thread):
    """Runs step() again and again until told to stop; error says why it ended before."""

    def __init__(self):
        super().__init__(daemon=True)
        self.stop, self.error, self.n, self.steps = False, None, 0, 0

    def run(self):
        try:
            while not self.stop:
                self.step()
                self.n += 1
                self.steps += 1
        except Exception as e:
            self.error = f"{type(e).__name__}: {e}"

    def end(self):
        self.stop = True
        self.join(90)
        assert not self.is_alive() and not self.error, self.error


class Keeper(Worker):
    """Talks over one keep-alive connection."""

    def __init__(self, lab):
        super().__init__()
        self.c = lib.Connection(lab, VIP4, timeout=60)
        self.home = self.c.get("/name").backend
        self.start()

    def step(self):
        now = self.c.get("/name").backend
        assert now == self.home, f"was on {self.home}, is on {now}"
        time.sleep(0.02)


class Downloader(Worker):
    """One slow download after the other; each must come whole."""

    def __init__(self, lab):
        super().__init__()
        self.lab = lab
        self.start()

    def step(self):
        with lib.Connection(self.lab, VIP4, timeout=60, window=16 << 10) as c:
            c.send("/fast/2m")
            status, headers = c.head()
            digest = hashlib.sha256()

            def take(part):
                digest.update(part)
                self.steps += 1
                if not self.stop:
                    time.sleep(len(part) / RATE)
            c.body(int(headers["content-length"]), take)
            assert status == 200 and digest.hexdigest() == self.lab.files["2m"], status


class Changer(Worker):
    """Changes the pool as fast as it goes, and knows for each thing what it may be: what was answered
    last, or one of the values that were asked for without an answer since."""

    def __init__(self, lab, rng):
        super().__init__()
        self.lab, self.rng = lab, rng
        self.may = {f"dip {b}": {w} for b, w in WEIGHTS.items()}
        self.may.update({"dip b5": {None}, "vip x1": {None}, "vip x2": {None}})
        self.up = threading.Event()
        self.idle = threading.Event()
        self.disk_fails = False  # what cannot be stored is refused by 507
        self.answered = collections.Counter()
        self.unanswered = 0
        self.start()

    def change(self):
        """(thing, value, method, path, body)"""
        kind = self.rng.random()
        if kind < 0.7:
            b = self.rng.choice(sorted(WEIGHTS))
            w = self.rng.randint(1, 9)
            return f"dip {b}", w, "PATCH", f"/v1/vips/web/dips/{b}", {"weight": w}
        if kind < 0.85:
            if self.rng.random() < 0.5:
                return "dip b5", None, "DELETE", "/v1/vips/web/dips/b5", None
            w = self.rng.randint(1, 9)
            return ("dip b5", w, "PUT", "/v1/vips/web/dips/b5",
                    {"address": self.lab.address("b5"), "weight": w})
        x = self.rng.choice(("x1", "x2"))
        if self.rng.random() < 0.5:
            return f"vip {x}", None, "DELETE", f"/v1/vips/{x}", None
        pin = self.rng.randint(1, 60)
        return (f"vip {x}", pin, "PUT", f"/v1/vips/{x}",
                {"address": VIP4, "port": 8000 + int(x[1]), "protocol": "tcp",
                 "closing_pin_s": pin})

    def step(self):
        if not self.up.is_set():
            self.idle.set()
            self.up.wait(0.005)
            return
        thing, value, method, path, body = self.change()
        try:
            a = self.lab.api.call(method, path, body)
        except (OSError, http.client.HTTPException):
            self.may[thing].add(value)  # killed in the middle: done or not
            self.unanswered += 1
            self.up.clear()
            return
        self.answered[a.status] += 1
        time.sleep(0.002)
        if a.status == 507:
            assert self.disk_fails, f"{method} {path}: {a}"
        elif a.status in (200, 201, 202):
            self.may[thing] = {value}
            moved = (a.json or {}).get("change", {}).get("flows_moved", 0)
            assert moved == 0, f"{method} {path}: {a}"
        else:
            # b5, x1, x2 are not always there; an index or a drain may want time
            assert a.status in (404, 503) and thing not in [f"dip {b}" for b in WEIGHTS], \
                f"{method} {path}: {a}"

    def pause(self):
        """Until nothing is under way. The daemon is dead, so no call can last."""
        self.up.clear()
        self.idle.clear()
        lib.wait_until("the last change to end", lambda: self.idle.is_set() or self.error, 40, 0.002)
        assert not self.error, self.error

    def look(self):
        """What the configuration says; each thing must be something that it may be."""
        dips = self.lab.dips()
        vips = {v["id"]: v for v in self.lab.api.get("/v1/vips")["items"]}
        for thing, may in self.may.items():
            kind, name = thing.split()
            if kind == "vip":
                now = vips[name]["closing_pin_s"] if name in vips else None
            elif name not in dips or dips[name]["state"] == "draining":
                now = None  # deleted, or leaves with its last flow
            else:
                now = dips[name]["weight"]
            assert now in may, f"{thing} is {now}, may be {may}"
            self.may[thing] = {now}


def setup(lab):
    global disk
    disk = disks.Disk(lab, size="96m")  # the log may grow to 64 MiB while changes never pause
    crowds.ignore_at_backends(lab)
    for n in ("client", *lab.backends):
        # A life is shorter than what TCP backs off to; kernels that cannot be told wait longer. And
        # seven SYNs, a second apart, may all find nobody.
        lab.run(n, "sysctl", "-qe", "-w", "net.ipv4.tcp_rto_max_ms=1000", "net.ipv4.tcp_retries2=100",
                "net.ipv4.tcp_syn_retries=100", "net.ipv4.tcp_synack_retries=100")
    lab.start_backends()
    lab.start_daemon()
    lab.put_vip(closing_pin_s=1)
    lab.put_dips(WEIGHTS)


disk = None


def assert_nothing_wrong(lab):
    c = lab.consistency()
    for k in ("violations_total", "flows_lost_total", "flows_forgotten_total",
              "flows_unlearned_total"):
        assert c[k] == 0, f"{k} is {c[k]}: {c}"


class Lives:
    """The daemon's, each ended by kill -9."""

    def __init__(self, lab, changer, rng):
        self.lab, self.changer, self.rng = lab, changer, rng
        self.n = self.n_boots = self.n_full = self.n_read_only = 0
        self.start_s = self.slowest_start = 0.0  # the last one; of all
        self.disk = "good"

    def kill(self):
        assert self.lab.stop_daemon(signal.SIGKILL) == -signal.SIGKILL
        self.n += 1
        self.n_full += self.disk == "full"
        self.n_read_only += self.disk == "read-only"

    def choose_disk(self):
        """While nobody has it open. A fifth of the lives have one that fails."""
        share = self.n / KILLS % 0.25
        now = "good" if share < 0.2 else "full" if self.n < KILLS / 2 else "read-only"
        if now != self.disk:
            disk.remount("rw")
            disk.empty()
        if now == "full":
            disk.fill()
        elif now != self.disk and now == "read-only":
            disk.remount("ro")
        self.disk, self.changer.disk_fails = now, now != "good"

    def boot(self):
        """Until it is ready; some are killed before."""
        while self.n < KILLS - 1 and self.rng.random() < BOOT_KILLS:
            self.lab.daemon = self.lab.spawn("lb", self.lab.daemon_argv(), self.lab.log)
            time.sleep(self.rng.uniform(0, 0.3))
            self.kill()
            self.n_boots += 1
        start = time.monotonic()
        self.lab.start_daemon()
        self.start_s = time.monotonic() - start
        self.slowest_start = max(self.slowest_start, self.start_s)
        assert self.lab.api.get("/v1/status")["state_file"] == "kept"

    def next(self):
        self.kill()
        self.changer.pause()
        self.choose_disk()
        self.boot()
        self.changer.look()
        assert_nothing_wrong(self.lab)
        self.changer.up.set()


def all_go_on(workers):
    """Every connection speaks again."""
    before = [w.steps for w in workers]
    lib.wait_until("all connections to go on", lambda: all(
        w.steps > b or w.error for w, b in zip(workers, before)), 60, 0.01)
    broken = [w.error for w in workers if w.error]
    assert not broken, broken


def test_kills(lab):
    rng = random.Random(SEED)
    print(f"{KILLS} kills, SEED={SEED}", flush=True)
    names = ["lb", *lab.backends]
    resets = {n: lab.resets_sent(n) for n in names}
    crowd = crowds.Crowd(lab, LIVE, NEW_PER_S)
    workers = [Keeper(lab) for _ in range(8)] + [Downloader(lab) for _ in range(8)]
    idle = [lib.Connection(lab, VIP4, timeout=60) for _ in range(16)]  # silent between the looks
    homes = [c.get("/name").backend for c in idle]
    changer = Changer(lab, random.Random(rng.random()))
    lives = Lives(lab, changer, rng)
    changer.up.set()
    looked = 0
    while lives.n < KILLS:
        if lives.n - looked >= LOOK_EVERY:
            looked = lives.n
            all_go_on(workers)
            assert [c.get("/name").backend for c in idle] == homes, f"after kill {lives.n}"
        else:
            # As long as it was away, or shorter.
            time.sleep(rng.uniform(0, max(0.2, lives.start_s)))
        lives.next()
        assert not changer.error, f"after kill {lives.n}: {changer.error}"
    for w in (changer, *workers):
        w.stop = True
    for w in (changer, *workers):
        w.end()
    figures = crowd.end()
    assert [c.get("/name").backend for c in idle] == homes
    assert_nothing_wrong(lab)
    report(lives, changer, workers, figures)
    assert changer.answered[200] > KILLS and changer.answered[507] > KILLS // 20, "too little load"
    assert min(lives.n_boots, lives.n_full, lives.n_read_only) > KILLS // 50, "too few of a kind"
    assert all(w.n > 0 for w in workers)
    assert (figures["live"], figures["new_done"]) == (LIVE, figures["new_tried"]), figures
    assert figures["live_moved"] == figures["new_moved"] == figures["new_reset"] == 0, figures
    for n in names:
        assert lab.resets_sent(n) == resets[n], f"{n} sent {lab.resets_sent(n) - resets[n]} RSTs"
    for c in idle:
        c.close()


def report(lives, changer, workers, figures):
    print(f"    {lives.n} kills: {lives.n_boots} while it started, {lives.n_full} on a full disk, "
          f"{lives.n_read_only} on a read-only one; slowest start {lives.slowest_start:.2f} s\n"
          f"    answers {dict(changer.answered)}, {changer.unanswered} changes without one\n"
          f"    {figures['live']} live connections of {LIVE}, {figures['new_tried']} new ones, all "
          f"answered; {figures['exchanges']} exchanges, none elsewhere\n"
          f"    kernel to nginx: {sum(w.n for w in workers)} answers and whole downloads", flush=True)


if __name__ == "__main__":
    lib.main("killloop", [test_kills], setup, backends=5)
