#!/usr/bin/python3
"""A flood of spoofed SYNs as fast as one core sends them, beside live connections, new real ones and a
pool change a second. Prints its figures."""

import random
import re
import resource
import subprocess
import threading
import time

import lib
from lib import VIP4

FLOWS = 65536            # capacity of the flow table
HALF_OPEN_MAX = FLOWS // 4 + 1
LIVE = 1000              # keep-alive connections
BATCH = 50               # of them speak at a time
FLOOD_S = 20
BYTES_A_FLOW = 160       # slot, index, list, reference: all that one flow may take
MIB = 1 << 20

live = []


def setup(lab):
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, 8192), hard))
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


class Speaker(threading.Thread):
    """All live connections speak in turn, a batch at a time; each must be answered by its backend."""

    def __init__(self):
        super().__init__(daemon=True)
        self.stop, self.error, self.n, self.turns, self.slowest = False, None, 0, 0, 0.0
        self.start()

    def speak(self, batch):
        start = time.monotonic()
        for c in batch:
            c.send("/name")
        for c in batch:
            status, headers = c.head()
            c.body(int(headers["content-length"]))
            now = headers["x-backend"]
            assert (status, now) == (200, c.home), f"{c.sport}: was on {c.home}, is on {now}"
            self.n += 1
        self.slowest = max(self.slowest, time.monotonic() - start)

    def run(self):
        try:
            while not self.stop:
                for i in range(0, LIVE, BATCH):
                    self.speak(live[i:i + BATCH])
                self.turns += 1
        except Exception as e:
            self.error = f"{type(e).__name__}: {e}"


def test_a_thousand_live_connections(lab):
    for _ in range(LIVE):
        c = lib.Connection(lab, VIP4, timeout=60)
        c.home = c.get("/name").backend
        live.append(c)
    lib.wait_until("all are known", lambda: lab.consistency()["flows_established"] >= LIVE)


def change_pool(lab, rng):
    """No DIP is cut, and one at least has weight."""
    dip = rng.choice(lab.backends)
    weight = rng.choice((0, 5, 10, 40)) if dip != "b1" else rng.choice((5, 10, 40))
    start = time.monotonic()
    lab.api.patch(f"/v1/vips/web/dips/{dip}", {"weight": weight})
    return time.monotonic() - start


def read_wrk(path):
    """(requests answered, failed) of new connections."""
    text = path.read_text()
    done = int(re.search(r"(\d+) requests in", text)[1])
    errors = re.search(r"Socket errors: connect (\d+), read (\d+), write (\d+), timeout (\d+)", text)
    bad = re.search(r"Non-2xx or 3xx responses: (\d+)", text)
    return done, sum(map(int, errors.groups())) if errors else 0, int(bad[1]) if bad else 0


def test_flood_moves_nothing(lab):
    rng = random.Random()
    before, rx_before = lab.consistency(), lab.counters()["interfaces"][0]["rx_packets"]
    rss = [daemon_rss(lab)]
    speaker = Speaker()
    flood = subprocess.Popen(
        ["ip", "netns", "exec", lab.ns("client"), str(lib.BUILD / "experiment" / "flood"), "eth0",
         lab.mac("lb"), lab.mac("client"), str(FLOOD_S)], stdout=subprocess.PIPE, text=True)
    lab.processes.append(flood)
    wrk = lab.spawn("client", ["wrk", "-t1", "-c8", f"-d{FLOOD_S - 2}s", "--timeout", "10s", "-H",
                               "Connection: close", f"http://{VIP4}/name"], lab.dir / "wrk.out")
    changes, established, half_open = [], [], []
    next_change = time.monotonic()
    while flood.poll() is None:
        next_change += 1
        time.sleep(max(0.0, next_change - time.monotonic()))
        changes.append(change_pool(lab, rng))
        c = lab.consistency()
        established.append(c["flows_established"])
        half_open.append(c["flows_half_open"])
        rss.append(daemon_rss(lab))
        assert not speaker.error, speaker.error
        assert half_open[-1] <= HALF_OPEN_MAX, half_open
        assert established[-1] >= LIVE, established
    sent = int(flood.stdout.read())
    wrk.wait(30)
    turns = speaker.turns
    lib.wait_until("all have spoken twice more",
                   lambda: speaker.error or speaker.turns > turns + 2, 60)
    speaker.stop = True
    speaker.join(70)
    done, failed, refused = read_wrk(lab.dir / "wrk.out")
    after = lab.consistency()
    got = lab.counters()["interfaces"][0]["rx_packets"] - rx_before
    grown = [r[0] - rss[0][0] for r in rss]
    print(f"    flood: {sent} SYNs sent in {FLOOD_S} s, {got} packets of all kinds got to a worker\n"
          f"    pool changes: {len(changes)}, the slowest answered in {max(changes):.2f} s; "
          f"pause at most {after['max_pause_us']} us\n"
          f"    {LIVE} live connections: {speaker.n} answers, all from their backend; a batch of "
          f"{BATCH} took {speaker.slowest:.1f} s at most\n"
          f"    new real ones: {done} answered, {failed} failed "
          f"({100 * done / max(1, done + failed):.2f}% good), {done / (FLOOD_S - 2):.0f} a second\n"
          f"    half-open: {max(half_open)} at most of {HALF_OPEN_MAX}; established: "
          f"{min(established)} at least; forgotten: "
          f"{after['flows_forgotten_total'] - before['flows_forgotten_total']}; unlearned: "
          f"{after['flows_unlearned_total'] - before['flows_unlearned_total']}\n"
          f"    memory: {rss[0][0] / MIB:.1f} MiB, {max(grown) / MIB:.1f} MiB more at most; "
          f"private {rss[0][1] / MIB:.1f} to {max(r[1] for r in rss) / MIB:.1f} MiB", flush=True)
    assert not speaker.error, speaker.error
    # The flood was one: more than its class holds, so that it had to push something out.
    assert max(half_open) >= HALF_OPEN_MAX * 9 // 10, half_open
    assert after["flows_forgotten_total"] > before["flows_forgotten_total"], after
    assert after["violations_total"] == 0 and after["flows_lost_total"] == 0, after
    # What the kernel loses in front of a worker (most of the flood) it loses of real ones as well:
    # their stacks send again, and a few may come too late for wrk.
    assert refused == 0 and done > 100 and failed <= (done + failed) * 0.1, (done, failed, refused)
    assert max(grown) <= FLOWS * BYTES_A_FLOW, (grown, FLOWS * BYTES_A_FLOW)


def test_nothing_is_misplaced(lab):
    a = lab.api.call("POST", "/v1/audit")
    assert a.status == 200 and a.json["flows_misplaced"] == 0, a
    assert a.json["flows_checked"] >= LIVE, a
    for c in live:
        assert c.get("/name").backend == c.home
        c.close()


if __name__ == "__main__":
    lib.main("flood", [test_a_thousand_live_connections, test_flood_moves_nothing,
                       test_nothing_is_misplaced], setup)
