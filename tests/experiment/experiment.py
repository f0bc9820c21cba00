#!/usr/bin/python3
"""What becomes of open connections when host agents' reports are lost or late and the pool changes:
Concury beside the paper's protocol. experiment.py [--check]: one cell instead of the whole matrix."""

import os
import pathlib
import signal
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "e2e"))
import lib  # noqa: E402

PROGRAMS = lib.BUILD / "experiment"
WEIGHT = 1000
CHANGES = {
    "weight": ("PATCH", "b1", {"weight": 3 * WEIGHT}),
    "add": ("PUT", "b4", {"weight": WEIGHT}),
    "drain": ("PATCH", "b2", {"weight": 0}),
}


def simulated(check):
    r = subprocess.run([PROGRAMS / "simulated", *check], timeout=1200)
    return r.returncode == 0


def before(lab):
    """A VIP without flows and three backends."""
    a = lab.api.call("DELETE", "/v1/vips/web?force=true")
    assert a.status in (200, 202, 404), a
    lib.wait_until("the VIP is gone", lambda: not lab.api.get("/v1/vips")["items"])
    lab.put_vip()
    lab.put_dips({b: WEIGHT for b in ("b1", "b2", "b3")})


def after(lab, change):
    method, dip, body = CHANGES[change]
    if method == "PUT":
        body = {**body, "address": lab.address(dip)}
    a = lab.api.call(method, f"/v1/vips/web/dips/{dip}", body)
    assert a.status in (200, 201), a
    lib.wait_until("the change", lambda: lab.dips()[dip]["state"] != "unresolved", step=0.005)


def on_the_wire(check):
    lab = lib.Lab("experiment", backends=5)
    try:
        lab.build()
        lab.start_daemon("--flows", "1000000")
        argv = ["ip", "netns", "exec", lab.ns("b5"), str(PROGRAMS / "wire"), lab.prefix, *check]
        p = subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        lab.processes.append(p)
        for line in p.stdout:
            if not line.startswith("!"):
                print(line, end="", flush=True)
                continue
            when, change = line[1:].split()
            before(lab) if when == "before" else after(lab, change)
            p.stdin.write("done\n")
            p.stdin.flush()
        status = p.wait(10)
        c = lab.consistency()
        print("Concury's own counters: "
              + ", ".join(f"{k} {c[k]}" for k in ("flows_opened_total", "flows_late_total",
                                                  "violations_total", "flows_unlearned_total",
                                                  "flows_forgotten_total")))
        return status == 0 and c["violations_total"] == 0
    finally:
        lab.remove()


def main():
    if os.geteuid() != 0:
        raise SystemExit("not ok - the experiment makes network namespaces: run it as root")
    for sig in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):  # the namespaces are removed at exit
        signal.signal(sig, lambda s, _: sys.exit(f"not ok - ended by signal {s}"))
    check = sys.argv[1:2]
    if not check:
        print("the whole matrix: two minutes simulated, then ten on the wire", flush=True)
    ok = simulated(check)
    ok = on_the_wire(check) and ok
    sys.exit(0 if ok else 1)


if __name__ == "__main__":
    main()
