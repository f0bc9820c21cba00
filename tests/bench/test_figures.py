#!/usr/bin/python3
"""Running benches, drawing and quoting what they measured: from made-up programs and made-up results."""

import contextlib
import io
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import traceback
import xml.etree.ElementTree

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))
import catalogue  # noqa: E402
import figures  # noqa: E402
import readme  # noqa: E402
import results  # noqa: E402
import run  # noqa: E402

SYSTEMS = ("concury", "paper", "maglev", "silkroad", "conntrack", "jet")
WAYS = ("dcode", "maglev", "ketama", "two_level", "tournament", "ticket", "pow2_weights2", "pow2_weights3",
        "reroll", "old_new_set")
WORKLOADS = ("websearch", "datamining", "cache")
FLOWS = ("1K", "64K", "1M", "4M", "16M")
# Cases and layouts by the beginning of a bench's name, the first that fits.
SHAPES = [("consistency_change", ("8K", "128K"), SYSTEMS), ("consistency_churn", ("1K", "16K", "256K"), SYSTEMS),
          ("consistency_", FLOWS, SYSTEMS), ("hour_", ("1M", "1M_half_table"), SYSTEMS),
          ("choice_", ("10_equal", "10_mixed", "256_equal", "256_mixed", "4096_equal", "4096_mixed"), WAYS),
          ("uniform_", ("sequential_0", "random_64K", "traffic_16M"), ("concury", "md5", "sha256")),
          ("dynamics_share", [f"{w}_{s:03}" for w in WORKLOADS for s in (10, 20, 30)], WAYS),
          ("dynamics_", [f"{w}_{p}" for w in WORKLOADS for p in ("p50", "p90", "p99", "p100")], WAYS),
          ("pipeline", ("1", "1M"), ("l2", "ipip", "nat")),
          ("publish", ("100K", "1M"), ("plan", "pause_p50", "pause_p99")),
          ("change", ("100K", "1M"), ("p50", "p99"))]


def made_up(**values):
    """Results for all figures: Concury leads everywhere, but where `values` says otherwise."""
    found = []
    for bench, better in {p.bench: p.better for f in catalogue.FIGURES for p in f.panels}.items():
        _, cases, layouts = next(s for s in SHAPES if bench.startswith(s[0]))
        for i, case in enumerate(cases):
            for k, layout in enumerate(layouts):
                value = (20 + i) * (1 + 0.25 * k) if better != catalogue.MORE else (200 + i) / (1 + 0.25 * k)
                if bench.startswith("uniform_"):
                    value = 0.5 + 0.01 * k
                value = values.get(f"{bench}/{case}/{layout}", value)
                found.append({"bench": bench, "case": case, "layout": layout, "value": value, "unit": "units"})
    return found


def head(**members):
    return {"machine": {"cpu": "A CPU", "cores": 2, "kernel": "6.1"}, "date": "2026-11-30 20:00+00:00",
            "commit": "0123456789ab", "command": "make bench-all", "quick": False, "results": [], **members}


def put(folder, name="bench_all", found=(), **members):
    folder.mkdir(exist_ok=True)
    results.write(folder / f"{name}.json", head(results=list(found), **members))


def call(program, *argv):
    r = subprocess.run([HERE / program, *argv], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    assert "Traceback" not in r.stdout, r.stdout
    return r.returncode, r.stdout


def blocks(path):
    """{name: [(x, y)]} of a .dat file."""
    found = {}
    for block in path.read_text(encoding="utf-8").split("\n\n\n"):
        name, *rows = block.strip().splitlines()
        found[name.removeprefix("# ")] = [tuple(map(float, r.split()[:2])) for r in rows]
    return found


def test_all_figures_are_drawn(tmp):
    source, out = tmp / "json", tmp / "drawn"
    put(source, found=made_up())
    status, said = call("figures.py", source, out)
    assert status == 0 and f"wrote {len(catalogue.FIGURES)} figures" in said, said
    for f in catalogue.FIGURES:
        svg = xml.etree.ElementTree.parse(out / f"{f.name}.svg")
        text = "\n".join(t.strip() for t in svg.getroot().itertext() if t.strip())
        png = (out / f"{f.name}.png").read_bytes()
        assert png.startswith(b"\x89PNG") and len(png) > 8000, (f.name, len(png))
        wanted = [f.title, "A CPU, 2 cores, Linux 6.1", *(p.title for p in f.panels), *(p.xlabel for p in f.panels)]
        for i, p in enumerate(f.panels):
            there = blocks(out / f"{f.name}.{i}.dat")
            wanted += there
            for layout in figures.layouts_of(p, results.Results([head(results=made_up())])):
                points = there[catalogue.NAMES.get(layout, layout)]
                assert points and all(x == x and y == y for x, y in points), (f.name, layout, points)
        for w in wanted:
            assert w in text, (f.name, w, text)
    assert "quick" not in (out / "lookup.svg").read_text(encoding="utf-8")


def test_published_points_are_drawn(tmp):
    points = json.loads((HERE / "published.json").read_text(encoding="utf-8"))["points"]
    panels = {p.bench: (f, i, p) for f in catalogue.FIGURES for i, p in enumerate(f.panels)}
    drawn = 0
    for p in points:
        f, i, panel = panels[p["bench"]]
        series = blocks(tmp / "drawn" / f"{f.name}.{i}.dat")[f"{p['system']}, published"]
        value = p["value"] * {"MiB": 1, "ms": panel.scale, "Mlookups/s": panel.scale}[p["unit"]]
        assert any(x == catalogue.number(p["case"]) and abs(y / value - 1) < 1e-6 for x, y in series), (p, series)
        drawn += 1
        text = (tmp / "drawn" / f"{f.name}.svg").read_text(encoding="utf-8")
        assert f"{p['system']}, published" in text and "i7-6700" in text, p
    assert drawn == len(points) == 29
    all_drawn = [p for f in (tmp / "drawn").glob("*.dat") for n, s in blocks(f).items() for p in s if "published" in n]
    assert len(all_drawn) == drawn, all_drawn


def test_what_is_missing_is_told(tmp):
    empty, part = tmp / "empty", tmp / "part"
    empty.mkdir()
    for folder in (empty, tmp / "nowhere"):
        status, said = call("figures.py", folder, tmp / "none")
        assert status == 1 and "no results" in said and "make bench-all" in said, said
    put(part, found=[r for r in made_up() if r["bench"] in ("consistency_insert", "publish")], quick=True)
    status, said = call("figures.py", part, tmp / "part-drawn")
    assert status == 1 and "lookup: not drawn, no results of consistency_lookup, consistency_lookup_2t" in said, said
    assert "publish: a part is not drawn, no results of change" in said, said
    assert {p.stem for p in (tmp / "part-drawn").glob("*.svg")} == {"insert", "publish"}
    assert "a quick run" in (tmp / "part-drawn" / "insert.svg").read_text(encoding="utf-8")
    status, said = call("readme.py", part, tmp)
    assert status == 1 and "of a quick run: bench_all" in said, said
    found = [r for r in made_up() if r["bench"] == "dynamics_share" and "datamining" not in r["case"]]
    for quick in (True, False):
        put(part, found=found, quick=quick)
        status, said = call("figures.py", part, tmp / "part-drawn")
        assert status == 1 and ("dynamics: a part is not drawn" in said) == (not quick), said
        text = (tmp / "part-drawn" / "dynamics.svg").read_text(encoding="utf-8")
        assert "web search" in text and "cache" in text and "data mining" not in text
    put(part, found=made_up()[:100])
    status, said = call("readme.py", part, tmp)
    assert status == 1 and "no results of" in said, said


def test_what_is_malformed_is_told(tmp):
    good = json.dumps(head(results=made_up()[:3]))
    for bad, why in ((good[:-3], "delimiter"), ("", "Expecting value"), ("[]", "no object"),
                     (good.replace('"date"', '"dat"'), "'date' is missing"),
                     (good.replace('"layout"', '"lay"', 1), "result 0: 'layout'"),
                     (good.replace("200.0", '"20"', 1), "result 0: 'value'"),
                     (good.replace("200.0", "NaN", 1), "result 0: 'value'")):
        folder = tmp / "bad"
        put(folder, "bench_a", made_up()[:1])
        (folder / "bench_b.json").write_text(bad, encoding="utf-8")
        for program in ("figures.py", "readme.py"):
            status, said = call(program, folder, tmp / "none")
            assert status == 1 and "bench_b.json" in said and why in said, (bad[:60], said)


def root(tmp):
    """A copy of what readme.py writes to."""
    r = tmp / "root"
    (r / "tests" / "bench" / "figures").mkdir(parents=True, exist_ok=True)
    for f in ("README.md", "tests/bench/README.md"):
        shutil.copy(figures.ROOT / f, r / f)
    return r


def written(r):
    return {p: p.read_bytes() for p in r.rglob("*") if p.is_file()}


def test_the_readme_is_written_once(tmp):
    source, r = tmp / "json", root(tmp)
    status, said = call("readme.py", source, r)
    assert status == 1 and "lookup.svg is missing: make figures" in said, said
    shutil.copytree(tmp / "drawn", source / "figures")
    status, said = call("readme.py", source, r)
    assert status == 0, said
    once = written(r)
    text = once[r / "README.md"].decode()
    assert "| `concury` | **202M** | **202M** |" in text and "| `jet` | 89.8M |" in text, text
    shown = [f"tests/bench/figures/{n}.svg" for n in readme.SHOWN]
    assert all(s in text and r / s in once for s in shown)
    before = (figures.ROOT / "README.md").read_text(encoding="utf-8")
    for marker, side in (("<!-- performance", 0), ("<!-- end of performance", 1)):
        assert before.split(marker)[side] == text.split(marker)[side], marker
    explained = once[r / "tests/bench/README.md"].decode()
    assert all(f"### `{f.name}`: {f.title}\n{f.text}" in explained for f in catalogue.FIGURES)
    status, said = call("readme.py", source, r)
    assert status == 0 and said.count("nothing new") == 2 and written(r) == once, said


def test_who_is_ahead_is_told(tmp):
    res = results.Results([head(results=made_up())])
    assert all(not readme.frank(res, f) for f in catalogue.FIGURES)
    res = results.Results([head(results=made_up(**{
        "consistency_lookup/1K/maglev": 230, "consistency_lookup/4M/maglev": 406, "consistency_lookup/64K/jet": 202,
        "hour_broken/1M/jet": 0, "choice_ns/10_equal/ticket": 10}))])
    said = {f.name: readme.sentence(found) for f in catalogue.FIGURES
            if (found := readme.frank(res, f)) is not None}
    for name, wanted in (("lookup", "1 thread: `maglev` in 2 of 5 cases, most at 4M: 406 against 203 units."),
                         ("hour", "broken flows: `jet` at 1M: 0 against 20 units."),
                         ("choice_ns", "`ticket` at 10_equal: 10 against 20 units.")):
        assert said[name] == readme.AHEAD + wanted, said[name]
    assert said["memory"] == "None is ahead of Concury." and "pipeline" not in said
    put(tmp / "json", found=made_up(**{"consistency_lookup/1K/maglev": 230},
                                    **{f"choice_agree/256_mixed/{n}": 300 + i for i, n in enumerate(WAYS)}))
    r = root(tmp)
    status, said = call("readme.py", tmp / "json", r)
    text = (r / "README.md").read_text(encoding="utf-8")
    assert status == 0 and "* Lookups: 1 thread: `maglev` at 1K: 230 against 200 units." in text, said
    # The three largest leads of many.
    assert re.search(r"\* .*two balancers: `old_new_set` at 256_mixed: 309 against 300 units;( `[^;]*;){2} 1 more\.\n", text), text


def test_markers_that_are_gone_are_told(tmp):
    r = root(tmp)
    readme_md = r / "README.md"
    text = readme_md.read_text(encoding="utf-8").replace("<!-- end of performance -->\n", "")
    readme_md.write_text(text, encoding="utf-8")
    status, said = call("readme.py", tmp / "json", r)
    assert status == 1 and "the markers of 'performance' are not there" in said, said
    assert readme_md.read_text(encoding="utf-8") == text


def bench_all(build, names=(), quick=True, total_s=60):
    """run.py with made-up programs."""
    said = io.StringIO()
    run.SOURCES = build / "sources"
    run.BUILD, run.TOTAL_S, run.LIMIT_S = build, {True: total_s, False: total_s}, {"bench_long": (50, 1)}
    os.environ["QUICK"] = "1" if quick else "0"
    with contextlib.redirect_stdout(said):
        status = run.main(list(names))
    return status, said.getvalue()


def program(build, name, text, source=True):
    p = build / "bench" / name
    p.write_text("#!/bin/sh\n" + text, encoding="utf-8")
    p.chmod(0o755)
    if source:
        (build / "sources").mkdir(exist_ok=True)
        (build / "sources" / f"{name}.c").touch()


def test_programs_are_run_and_bounded(tmp):
    build = tmp / "build"
    (build / "bench").mkdir(parents=True)
    one = '{"bench": "b", "case": "c", "layout": "%s", "value": 1.5, "unit": "u"}'
    program(build, "bench_good", f"echo '{one % 'good'}' | sed \"s/u\\\"}}/u$BENCH_QUICK\\\"}}/\" >> $BENCH_JSON\n")
    status, said = bench_all(build)
    assert status == 0 and "bench_good: done" in said and "1 results" in said, said
    good = results.read(build / "bench" / "bench_good.json")
    assert good["results"] == [{"bench": "b", "case": "c", "layout": "good", "value": 1.5, "unit": "u1"}]
    assert good["quick"] and good["command"] == "QUICK=1 make bench-all" and good["machine"]["cores"] == os.cpu_count()
    program(build, "bench_bad", f"echo '{one % 'bad'}' >> $BENCH_JSON; exit 3\n")
    program(build, "bench_long", f"echo '{one % 'long'}' >> $BENCH_JSON; sleep 30 & echo $! > {tmp}/pid; wait\n")
    program(build, "bench_silent", "exit 0\n")
    program(build, "bench_gone", "exit 1\n", source=False)
    (build / "bench" / "bench_old.json").write_text("{}", encoding="utf-8")
    status, said = bench_all(build)
    for wanted in ("bench_bad: failed (exit 3)", "bench_long: cut off after 1 s", "bench_silent: no results",
                   "bench_good: done"):
        assert wanted in said, (wanted, said)
    assert "bench_gone" not in said
    assert status == 1 and [p.name for p in (build / "bench").glob("*.json")] == ["bench_good.json"]
    assert json.loads((build / "bench.json").read_text(encoding="utf-8")) == good["results"]
    child = pathlib.Path("/proc") / (tmp / "pid").read_text(encoding="utf-8").strip() / "stat"
    assert not child.exists() or re.search(r"\) [ZX] ", child.read_text(encoding="utf-8")), "what it started lives on"
    status, said = bench_all(build, total_s=0)
    assert status == 1 and said.count("not run, the 0 s for all are over") == 4, said
    status, said = bench_all(build, ["bench_good"], quick=False)
    assert status == 0 and results.read(build / "bench" / "bench_good.json")["results"][0]["unit"] == "u", said
    status, said = bench_all(build, ["bench_none"])
    assert status == 1 and "bench_none" in said, said


def main():
    failed = 0
    with tempfile.TemporaryDirectory() as tmp:
        for name, test in [(n, t) for n, t in globals().items() if n.startswith("test_")]:
            try:
                test(pathlib.Path(tmp))
                print(f"ok - figures: {name.removeprefix('test_').replace('_', ' ')}", flush=True)
            except Exception as e:
                failed += 1
                traceback.print_exc(file=sys.stdout)
                print(f"not ok - figures: {name.removeprefix('test_').replace('_', ' ')} ({e})", flush=True)
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
