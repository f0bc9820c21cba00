#!/usr/bin/python3
"""Run the bench programs of build/bench, one after the other, and keep what each measures in
build/bench/NAME.json, with the machine, the time and the commit; and all of it in build/bench.json, a
list. run.py [NAME...]: these programs alone, beside what is there of others.

Bounded: QUICK=1 leaves out what is large (the programs see BENCH_QUICK) and takes two minutes at
most, else it is twenty. A program that fails, takes too long or measures nothing is told, and makes the
exit status 1."""

import datetime
import json
import os
import pathlib
import platform
import signal
import subprocess
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import results  # noqa: E402

SOURCES = pathlib.Path(__file__).resolve().parent
ROOT = SOURCES.parents[1]
BUILD = ROOT / os.environ.get("BUILD", "build")
TOTAL_S = {False: 1200, True: 120}
# The longest that one program may take, whole and quick.
LIMIT_S = {"bench_consistency": (420, 45), "bench_hour": (240, 30), "bench_choice": (240, 25),
           "bench_uniform": (180, 25), "bench_publish": (180, 35)}
OTHERS_S = (180, 25)


def read(path):
    try:
        return pathlib.Path(path).read_text(encoding="utf-8").strip()
    except OSError:
        return ""


def machine():
    """What figures depend on, as far as the kernel tells."""
    cpu = dict(line.split(":", 1) for line in read("/proc/cpuinfo").split("\n\n")[0].splitlines())
    cpu = {k.strip(): v.strip() for k, v in cpu.items()}
    m = {"cpu": cpu.get("model name", platform.machine()), "cores": os.cpu_count(),
         "virtual": "hypervisor" in cpu.get("flags", "").split(),
         "memory_gib": round(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") / 2**30, 1),
         "kernel": platform.release()}
    for index in sorted(pathlib.Path("/sys/devices/system/cpu/cpu0/cache").glob("index*")):
        level = read(index / "level")
        if level in ("2", "3"):
            m[f"l{level}"] = read(index / "size")
    return m


def commit():
    r = subprocess.run(["git", "-c", f"safe.directory={ROOT}", "describe", "--always", "--dirty",
                        "--abbrev=12", "--exclude", "*"], cwd=ROOT, capture_output=True, text=True)
    return r.stdout.strip() or "unknown"


def run(program, quick, limit_s, lines):
    """Returns what went wrong, or None."""
    env = dict(os.environ, BENCH_JSON=str(lines))
    env.pop("BENCH_QUICK", None)
    if quick:
        env["BENCH_QUICK"] = "1"
    try:
        with subprocess.Popen([program], env=env, start_new_session=True) as p:
            try:
                status = p.wait(limit_s)
            except BaseException as e:
                # A session of its own: whatever it has started ends with it.
                os.killpg(p.pid, signal.SIGKILL)
                if isinstance(e, subprocess.TimeoutExpired):
                    return f"cut off after {limit_s:.0f} s"
                raise
    except OSError as e:
        return f"cannot be started: {e.strerror}"
    return f"failed (exit {status})" if status else None


def bench(program, quick, limit_s, head):
    """Run one program and write what it measured; returns whether all is well."""
    name = program.name
    lines, out = program.with_suffix(".lines"), program.with_suffix(".json")
    lines.unlink(missing_ok=True)
    out.unlink(missing_ok=True)
    print(f"{name}:", flush=True)
    head = {**head, "date": datetime.datetime.now(datetime.timezone.utc).isoformat(" ", "minutes"),
            "load": os.getloadavg()[0]}
    start = time.monotonic()
    wrong = run(program, quick, limit_s, lines)
    seconds = time.monotonic() - start
    if wrong is None and not read(lines):
        wrong = "no results"
    print(f"{name}: {wrong or 'done'} ({seconds:.1f} s)", flush=True)
    # What failed has perhaps measured a part: that is no result.
    if wrong is None:
        found = [json.loads(line) for line in read(lines).splitlines()]
        results.write(out, {**head, "seconds": round(seconds, 1), "results": found})
    lines.unlink(missing_ok=True)
    return wrong is None


def gather():
    """All that there is, as one list."""
    found = [r for f in results.load(BUILD / "bench") for r in f["results"]]
    text = ",\n".join(json.dumps(r) for r in found)
    (BUILD / "bench.json").write_text(f"[\n{text}\n]\n", encoding="utf-8")
    met = [r["met"] for r in found if "met" in r]
    print(f"targets: {met.count(True)} met, {met.count(False)} missed")
    print(f"wrote {BUILD.name}/bench.json, {BUILD.name}/bench/*.json: {len(found)} results")


def main(names):
    quick = os.environ.get("QUICK", "") not in ("", "0")
    # What an earlier tree has left there has no source any more.
    there = sorted(p for p in (BUILD / "bench").glob("bench_*") if (SOURCES / f"{p.name}.c").exists())
    programs = [p for p in there if not names or p.name in names]
    if not programs or len(programs) < len(names):
        print(f"not all there: {', '.join(names) or 'bench programs'} (make bench-build)")
        return 1
    if not names:
        for old in (BUILD / "bench").glob("*.json"):
            old.unlink()
    head = {"machine": machine(), "commit": commit(), "quick": quick,
            "command": "QUICK=1 make bench-all" if quick else "make bench-all"}
    end, good = time.monotonic() + TOTAL_S[quick], True
    for p in programs:
        limit_s = min(LIMIT_S.get(p.name, OTHERS_S)[quick], end - time.monotonic())
        if limit_s <= 0:
            print(f"{p.name}: not run, the {TOTAL_S[quick]} s for all are over")
            good = False
            continue
        good &= bench(p, quick, limit_s, head)
    gather()
    return 0 if good else 1


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except results.Bad as e:
        sys.exit(f"run.py: {e}")
