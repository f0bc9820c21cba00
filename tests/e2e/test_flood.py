#!/usr/bin/python3
"""A flood of spoofed SYNs as fast as one core sends them, beside 10,000 live connections, 500 new ones a
second and a pool change a second. Prints its figures.

Most connections are the crowd's (tests/experiment/crowd.c): clients and backends frame by frame, at a
tenth of a core, so that the flood gets the rest of the machine. Some more are the kernel's and nginx's."""

import random
import re
import subprocess
import threading
import time

import crowds
import lib
from lib import VIP4

FLOWS = 262144           # capacity of the flow table
HALF_OPEN_MAX = FLOWS // 4 + 1
LIVE = 10000             # the crowd's, each of which speaks every three seconds
NEW_PER_S = 500
KERNEL = 40              # keep-alive connections of curl's kind to nginx
FLOOD_S = 15
BYTES_A_FLOW = 160       # slot, index, list, reference: all that one flow may take
MIB = 1 << 20


def setup(lab):
    crowds.ignore_at_backends(lab)
    for b in lab.backends:
        # What a switch drops costs the backends nothing: the two cores are the flood's.
        lab.run("sw", "tc", "qdisc", "add", "dev", f"p-{b}", "clsact")
        lab.run("sw", "tc", "filter", "add", "dev", f"p-{b}", "egress", "bpf", "da", "obj",
                lib.BUILD / "tests" / "e2e" / "spoofed.bpf.o", "sec", "tc")
    lab.start_backends()
    lab.start_daemon("--flows", str(FLOWS))
    lab.put_vip()
    lab.put_dips({b: 10 for b in lab.backends})


def daemon_rss(lab):
    """(all, private) bytes of concuryd."""
    with open(f"/proc/{lab.daemon.pid}/status") as f:
        status = f.read()
    return (int(re.search(r"VmRSS:\s+(\d+) kB", status)[1]) << 10,
            int(re.search(r"RssAnon:\s+(\d+) kB", status)[1]) << 10)


class Kernel(threading.Thread):
    """Connections of the client's kernel to nginx: live ones speak in turn, and between any two of them
    a new one is made."""

    def __init__(self, lab):
        super().__init__(daemon=True)
        self.lab, self.stop, self.error = lab, False, None
        self.spoken = self.opened = 0
        self.slowest = 0.0
        self.live = [lib.Connection(lab, VIP4, timeout=60) for _ in range(KERNEL)]
        self.homes = [c.get("/name").backend for c in self.live]

    def speak(self, c, home):
        start = time.monotonic()
        r = c.get("/name")
        assert (r.status, r.backend) == (200, home), f"{c.sport}: was on {home}, is on {r.backend}"
        self.spoken += 1
        assert self.lab.get(sport=self.lab.fresh_port(), timeout=60).status == 200
        self.opened += 1
        self.slowest = max(self.slowest, time.monotonic() - start)

    def run(self):
        try:
            while not self.stop:
                for c, home in zip(self.live, self.homes):
                    if not self.stop:
                        self.speak(c, home)
                        time.sleep(0.02)
        except Exception as e:
            self.error = f"{type(e).__name__}: {e}"

    def end(self):
        self.stop = True
        self.join(70)
        assert not self.is_alive() and not self.error, self.error
        assert [c.get("/name").backend for c in self.live] == self.homes
        for c in self.live:
            c.close()


class Flood:
    """From the client's side of the segment, one core at work."""

    def __init__(self, lab):
        self.process = subprocess.Popen(
            ["ip", "netns", "exec", lab.ns("client"), str(lib.BUILD / "experiment" / "flood"),
             "eth0", lab.mac("lb"), lab.mac("client"), str(FLOOD_S)],
            stdout=subprocess.PIPE, text=True)
        lab.processes.append(self.process)

    def is_on(self):
        return self.process.poll() is None

    def sent(self):
        return int(self.process.stdout.read())


class Samples(threading.Thread):
    """What the forwarder has counted, ten times a second. All times are the crowd's: ms since boot."""

    def __init__(self, lab):
        super().__init__(daemon=True)
        self.lab, self.stop, self.list = lab, False, []
        self.take()

    @staticmethod
    def now_ms():
        return time.clock_gettime_ns(time.CLOCK_BOOTTIME) // 1000000

    def take(self):
        asked = self.now_ms()
        c = self.lab.consistency()
        self.list.append((asked, self.now_ms(), c))

    def run(self):
        while not self.stop:
            time.sleep(0.1)
            self.take()

    def end(self):
        self.stop = True
        self.join(30)
        assert not self.is_alive()
        self.take()

    def most(self, name, start, end):
        """How much a counter can have grown between two times."""
        before = [c for _, answered, c in self.list if answered <= start][-1]
        after = next(c for asked, _, c in self.list if asked >= end)
        return after[name] - before[name]


def inexplicable(resets, samples):
    """Those of the connections reset while half-open that the flood cannot have pushed out: since their
    SYN fewer flows have opened than the class holds, or the pool has not changed."""
    return [(start, end, repeats) for start, end, repeats in resets
            if samples.most("flows_opened_total", start, end) < HALF_OPEN_MAX
            or samples.most("publishes_total", start, end) == 0]


class Watch:
    """Changes the pool once a second, and looks."""

    def __init__(self, lab):
        self.lab, self.rng = lab, random.Random()
        self.before, self.rss = lab.consistency(), [daemon_rss(lab)]
        self.slowest, self.n_changes = 0.0, 0
        self.established, self.half_open = [], []

    def change(self):
        """No DIP is cut, and one at least has weight."""
        dip = self.rng.choice(self.lab.backends)
        weight = self.rng.choice((0, 5, 10, 40) if dip != "b1" else (5, 10, 40))
        start = time.monotonic()
        a = self.lab.api.patch(f"/v1/vips/web/dips/{dip}", {"weight": weight})
        self.slowest = max(self.slowest, time.monotonic() - start)
        self.n_changes += 1
        assert a["change"]["flows_moved"] == 0, a

    def look(self):
        c = self.lab.consistency()
        self.established.append(c["flows_established"])
        self.half_open.append(c["flows_half_open"])
        self.rss.append(daemon_rss(self.lab))
        assert self.half_open[-1] <= HALF_OPEN_MAX, self.half_open
        assert self.established[-1] >= LIVE + KERNEL, self.established

    def grown(self):
        """Bytes more than before, at most."""
        return max(r[0] for r in self.rss) - self.rss[0][0]


def test_flood_moves_nothing(lab):
    kernel, crowd = Kernel(lab), crowds.Crowd(lab, LIVE, NEW_PER_S)
    lib.wait_until("all are known",
                   lambda: lab.consistency()["flows_established"] >= LIVE + KERNEL)
    watch, rx_before = Watch(lab), lab.counters()["interfaces"][0]["rx_packets"]
    samples = Samples(lab)
    kernel.start()
    samples.start()
    flood = Flood(lab)
    next_change = time.monotonic()
    while flood.is_on():
        next_change += 1
        time.sleep(max(0.0, next_change - time.monotonic()))
        watch.change()
        watch.look()
        assert not kernel.error, kernel.error
    got = lab.counters()["interfaces"][0]["rx_packets"] - rx_before
    sent = flood.sent()
    c = crowd.end()
    kernel.end()
    samples.end()
    after = lab.consistency()
    report(watch, kernel, c, after, sent, got)
    # The flood was one: more than its class holds, so that it had to push something out.
    assert max(watch.half_open) >= HALF_OPEN_MAX * 9 // 10, watch.half_open
    assert after["flows_forgotten_total"] > watch.before["flows_forgotten_total"], after
    assert after["violations_total"] == 0 and after["flows_lost_total"] == 0, after
    assert (c["live"], c["live_moved"], c["live_failed"]) == (LIVE, 0, 0), c
    assert c["new_tried"] >= NEW_PER_S * FLOOD_S * 9 // 10, c
    assert (c["new_moved"], c["new_failed"]) == (0, 0), c
    # A new connection's SYN is held until as many others have come as the class holds. Only if its ACK
    # and first words were late for that, or lost in front of the worker for so long, and the pool
    # changed meanwhile, have they met a backend that does not know it.
    assert len(c["resets"]) == c["new_reset"], c
    wrong = inexplicable(c["resets"], samples)
    unlearned = after["flows_unlearned_total"] - watch.before["flows_unlearned_total"]
    assert len(wrong) <= unlearned, (wrong, unlearned)
    assert c["new_reset"] <= c["new_tried"] // 100, c
    assert c["new_done"] + c["new_reset"] == c["new_tried"], c
    assert watch.n_changes >= FLOOD_S * 2 // 3, watch.n_changes
    assert watch.grown() <= FLOWS * BYTES_A_FLOW, (watch.rss, FLOWS * BYTES_A_FLOW)


def describe(resets):
    if not resets:
        return ""
    ages = sorted(end - start for start, end, _ in resets)
    return (f" ({ages[0]} to {ages[-1]} ms after their SYN, their first words sent "
            f"{1 + min(r[2] for r in resets)} to {1 + max(r[2] for r in resets)} times)")


def report(watch, kernel, crowd, after, sent, got):
    def more(name):
        return after[name] - watch.before[name]
    print(f"    flood: {sent / FLOOD_S:.0f} SYNs a second for {FLOOD_S} s; "
          f"{got / FLOOD_S:.0f} packets of all kinds a second got to the worker\n"
          f"    pool changes: {watch.n_changes}, the slowest answered in {watch.slowest:.2f} s; "
          f"pause at most {after['max_pause_us']} us\n"
          f"    {LIVE} live connections: {crowd['live_moved']} moved, {crowd['live_failed']} "
          f"failed\n"
          f"    new ones: {crowd['new_tried']} tried, {crowd['new_done']} answered, "
          f"{crowd['new_moved']} moved, {crowd['new_reset']} reset while half-open"
          f"{describe(crowd['resets'])}, {crowd['new_failed']} failed\n"
          f"    a SYN is held for {1000 * HALF_OPEN_MAX * FLOOD_S // max(1, got)} ms on the average\n"
          f"    {crowd['exchanges']} exchanges, the slowest {crowd['slowest_ms']} ms; "
          f"{crowd['repeats']} segments sent again\n"
          f"    kernel to nginx: {kernel.spoken} answers over {KERNEL} live connections, "
          f"{kernel.opened} new ones, all answered; slowest pair {kernel.slowest:.1f} s\n"
          f"    half-open: {max(watch.half_open)} at most of {HALF_OPEN_MAX}; established: "
          f"{min(watch.established)} at least; forgotten: {more('flows_forgotten_total')}; "
          f"unlearned: {more('flows_unlearned_total')}\n"
          f"    memory: {watch.rss[0][0] / MIB:.1f} MiB, {watch.grown() / MIB:.1f} MiB more at most; "
          f"private {watch.rss[0][1] / MIB:.1f} to {max(r[1] for r in watch.rss) / MIB:.1f} MiB",
          flush=True)


def test_nothing_is_misplaced(lab):
    a = lab.api.call("POST", "/v1/audit")
    assert a.status == 200 and a.json["flows_misplaced"] == 0, a
    assert a.json["flows_checked"] >= LIVE, a


if __name__ == "__main__":
    lib.main("flood", [test_flood_moves_nothing, test_nothing_is_misplaced], setup)
