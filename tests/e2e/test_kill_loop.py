#!/usr/bin/python3
"""kill -9 at random moments, again and again, under load and pool changes: downloads and keep-alive
connections stay open over all of it, new ones come all the time, changes are made as fast as the API
answers. After each restart every flow is where it was, and every change that was answered is there.

KILLS=200 is the full loop (some minutes); `make check` makes 25. SEED repeats the moments."""

import collections
import hashlib
import http.client
import os
import random
import signal
import threading
import time

import lib
from lib import VIP4

KILLS = int(os.environ.get("KILLS", "25"))
SEED = int(os.environ.get("SEED", str(int(time.time()))))
RATE = 96 << 10  # bytes a second: 2 MiB last 20 s
WEIGHTS = {"b1": 2, "b2": 1, "b3": 3, "b4": 2}
lib.LIMIT_S = 175 + 5 * KILLS


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
        with lib.Connection(self.lab, VIP4, timeout=60) as c:
            c.send(f"/slow/2m?rate={RATE}")
            status, headers = c.head()
            digest = hashlib.sha256()

            def take(part):
                digest.update(part)
                self.steps += 1
            c.body(int(headers["content-length"]), take)
            assert status == 200 and digest.hexdigest() == self.lab.files["2m"], status


class Opener(Worker):
    """New connections, one after the other."""

    def __init__(self, lab):
        super().__init__()
        self.lab = lab
        self.start()

    def step(self):
        r = self.lab.get(timeout=60)
        assert r.status == 200, r.status
        time.sleep(0.005)


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
            self.up.wait(1)
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
        if a.status in (200, 201, 202):
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
        lib.wait_until("the last change to end", self.idle.is_set, 40, 0.002)
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
    lab.start_backends()
    lab.start_daemon()
    lab.put_vip(closing_pin_s=1)
    lab.put_dips(WEIGHTS)


def assert_nothing_wrong(lab):
    c = lab.consistency()
    for k in ("violations_total", "flows_lost_total", "flows_forgotten_total",
              "flows_unlearned_total"):
        assert c[k] == 0, f"{k} is {c[k]}: {c}"


def all_go_on(crowd):
    """Every connection speaks again."""
    before = [w.steps for w in crowd]
    lib.wait_until("all connections to go on", lambda: all(
        w.steps > b or w.error for w, b in zip(crowd, before)), 60, 0.01)
    broken = [w.error for w in crowd if w.error]
    assert not broken, broken


def test_kills(lab):
    rng = random.Random(SEED)
    print(f"{KILLS} kills, SEED={SEED}", flush=True)
    names = ["lb", *lab.backends]
    resets = {n: lab.resets_sent(n) for n in names}
    crowd = [Keeper(lab) for _ in range(24)] + [Downloader(lab) for _ in range(12)]
    openers = [Opener(lab) for _ in range(2)]
    idle = [lib.Connection(lab, VIP4, timeout=60) for _ in range(24)]  # silent between the looks
    homes = [c.get("/name").backend for c in idle]
    changer = Changer(lab, random.Random(rng.random()))
    slowest, at_once = 0, False
    for k in range(KILLS):
        changer.up.set()
        # Now and then at once, but not twice in a row: TCP backs off while its packets are dropped,
        # and would not come back between kills that come at random.
        at_once = not at_once and rng.random() < 0.4
        if not at_once:
            all_go_on(crowd)
        time.sleep(rng.uniform(0, 0.15 if at_once else 0.4))
        if k % 4 == 0:
            assert_nothing_wrong(lab)
        assert lab.stop_daemon(signal.SIGKILL) == -signal.SIGKILL
        changer.pause()
        start = time.monotonic()
        lab.start_daemon()
        slowest = max(slowest, time.monotonic() - start)
        assert lab.api.get("/v1/status")["state_file"] == "kept"
        changer.look()
        lab.get(timeout=10)  # it forwards
        assert_nothing_wrong(lab)
        if k % 5 == 4:
            assert [c.get("/name").backend for c in idle] == homes, f"after kill {k + 1}"
        broken = [w.error for w in crowd + openers if w.error]
        assert not broken, f"after kill {k + 1}: {broken}"
    changer.stop = True
    changer.end()
    for w in crowd + openers:
        w.stop = True
    for w in crowd + openers:
        w.end()
    assert [c.get("/name").backend for c in idle] == homes
    assert_nothing_wrong(lab)
    opened = sum(o.n for o in openers)
    whole = sum(w.n for w in crowd if isinstance(w, Downloader))
    print(f"answers {dict(changer.answered)}, {changer.unanswered} changes without one; "
          f"{opened} connections opened, {whole} downloads whole; slowest start {slowest:.2f} s")
    assert changer.answered[200] > KILLS and opened > KILLS // 2 and whole >= 12, "too little load"
    assert all(w.n > 0 for w in crowd)
    for n in names:
        assert lab.resets_sent(n) == resets[n], f"{n} sent {lab.resets_sent(n) - resets[n]} RSTs"
    for c in idle:
        c.close()


if __name__ == "__main__":
    lib.main("killloop", [test_kills], setup, backends=5)
