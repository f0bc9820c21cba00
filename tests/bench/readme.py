#!/usr/bin/python3
"""Write what was measured into README.md (tables, and where others are ahead) and tests/bench/README.md
(each figure explained), between their markers, and put the figures that README.md shows beside the latter.
From build/bench/*.json and build/bench/figures alone: the same files give the same text.

readme.py [JSON-FOLDER [ROOT]]. Whole runs of all programs only: a quick one leaves out too much to be
quoted."""

import os
import pathlib
import shutil
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))
import figures  # noqa: E402
import results  # noqa: E402
from catalogue import FIGURES, LESS, MORE, OURS  # noqa: E402
from figures import short  # noqa: E402

SHOWN = ("lookup", "memory", "hour")  # of README.md; they are checked in, so they have to be small
SVG_MAX = 60 << 10
NOTICEABLE = 1.02  # what is nearer than that is no lead
MIB = 1 / 2**20
AHEAD = "Ahead of Concury: "
# Heads of columns, bench, case, factor, which way is better.
KEEPERS = [("lookups/s, 1 thread", "consistency_lookup", "1M", 1e6, MORE),
           ("2 threads", "consistency_lookup_2t", "1M", 1e6, MORE),
           ("while 256K flows/s open", "consistency_churn", "256K", 1e6, MORE),
           ("MiB read", "consistency_bytes", "1M", MIB, LESS),
           ("all taken in, ms", "consistency_insert", "1M", 1, LESS),
           ("change of a VIP, ms", "consistency_change", "8K", 1, LESS),
           ("broken in an hour", "hour_broken", "1M", 1, LESS),
           ("false hits", "hour_false_hits", "1M", 1, LESS)]
CHOOSERS = [("ns", "choice_ns", "256_mixed", 1, LESS),
            ("bytes", "choice_bytes", "256_mixed", 1, LESS),
            ("build, µs", "choice_build", "256_mixed", 1, LESS),
            ("largest share", "choice_max_mean", "256_mixed", 1, LESS),
            ("variation, %", "choice_cv", "256_mixed", 1, LESS),
            ("moves: add", "choice_moves_add", "256_mixed", 1, LESS),
            ("remove", "choice_moves_remove", "256_mixed", 1, LESS),
            ("fail, return", "choice_moves_fail_return", "256_mixed", 1, LESS),
            ("weight x2", "choice_moves_double", "256_mixed", 1, LESS),
            ("two agree, %", "choice_agree", "256_mixed", 1, MORE)]


def leads(better, theirs, ours):
    """How many times better they are; 1: not noticeably."""
    high, low = (theirs, ours) if better == MORE else (ours, theirs)
    if high <= 0 or high < low * NOTICEABLE:
        return 1
    return high / low if low > 0 else float("inf")


def ahead(res, bench, panels):
    """["`maglev` at 1K: 60 against 50 Mlookups/s"], for each peer that leads somewhere; the largest lead first."""
    layouts = dict.fromkeys(n for p in panels for n in figures.layouts_of(p, res))
    ours = next((n for n in layouts if n in OURS), None)
    cases = [c for p in panels for c, _ in p.cases(res.cases(bench))]
    found = []
    for peer in layouts:
        both = [(c, res.value(bench, c, peer), res.value(bench, c, ours)) for c in cases]
        both = [(c, t, o) for c, t, o in both if t is not None and o is not None]
        led = [(leads(panels[0].better, t, o), c, t, o) for c, t, o in both]
        led = [x for x in led if x[0] > 1]
        if led:
            lead, case, theirs, own = max(led)
            where = f"in {len(led)} of {len(both)} cases, most at {case}" if len(led) > 1 else f"at {case}"
            found.append((lead, f"`{peer}` {where}: {short(theirs)} against {short(own)} {res.units[bench]}"))
    return [text for _, text in sorted(found, key=lambda x: -x[0])]


def frank(res, figure):
    """[(name of the panel, or '', who is ahead)] of a figure, or None where nothing is to be compared."""
    benches = {}
    for p in figure.panels:
        if p.better and p.kind != "lines":  # chance decides single points of a time series
            benches.setdefault(p.bench, []).append(p)
    if not benches:
        return None
    found = [(panels[0].title if len(benches) > 1 else "", ahead(res, bench, panels))
             for bench, panels in benches.items()]
    return [(title, peers) for title, peers in found if peers]


def sentence(found, most=None):
    """Of many peers those with the largest leads."""
    if not found:
        return "None is ahead of Concury."
    if most:
        found = [(title, peers[:most] + ([f"{len(peers) - most} more"] if len(peers) > most else []))
                 for title, peers in found]
    return AHEAD + "; ".join((f"{title}: " if title else "") + "; ".join(peers) for title, peers in found) + "."


def table(res, columns, name):
    """Rows of a Markdown table; the best of a column is bold."""
    layouts = dict.fromkeys(n for _, bench, *_ in columns for n in res.layouts(bench))
    yield f"| {name} | " + " | ".join(head for head, *_ in columns) + " |"
    yield "| --- |" + " --: |" * len(columns)
    best = {}
    for head, bench, case, factor, better in columns:
        values = [v for n in layouts if (v := res.value(bench, case, n)) is not None]
        best[head] = short(factor * (max(values) if better == MORE else min(values)))
    for n in layouts:
        cells = []
        for head, bench, case, factor, _ in columns:
            value = res.value(bench, case, n)
            cell = "–" if value is None else short(value * factor)
            cells.append(f"**{cell}**" if cell == best[head] else cell)
        yield f"| `{n}` | " + " | ".join(cells) + " |"


def needed(res, bench, case, layout):
    value = res.value(bench, case, layout)
    if value is None:
        raise results.Bad(f"no result {bench} {case} {layout}: make bench-all")
    return value


def packets(res):
    modes = ", ".join(f"{short(needed(res, 'pipeline', '1M', n))} ns by `{n}`" for n in res.layouts("pipeline"))
    pause = [1000 * needed(res, "publish", "1M", n) for n in ("pause_p50", "pause_p99")]
    change = [needed(res, "change", "1M", n) for n in ("p50", "p99")]
    return (f"A small packet costs the worker's CPU, from ring to ring with 1M known flows: {modes}. A change of the pool "
            f"with 1M known flows pauses the packets for {short(pause[0])} µs (99 of 100: at most {short(pause[1])}) and "
            f"is answered, planned, on disk and published, in {short(change[0])} ms ({short(change[1])}).")


def provenance(res):
    """Where, when, by what: one line if all programs agree, as they do after one run."""
    lines = dict.fromkeys(figures.machine(f) for f in res.files)
    return "; ".join(lines) + ", `" + "`, `".join(dict.fromkeys(f["command"] for f in res.files)) + "`"


def performance(res):
    yield f"{provenance(res)}. Best figures are bold."
    yield ""
    yield ("Keeping connections: 1M known flows of 128 VIPs, and one DIP more at each VIP since they opened. The peers are "
           "written after their authors' papers, with the same hash, bursts and huge pages.")
    yield ""
    yield from table(res, KEEPERS, "system")
    yield ""
    yield "Choosing a DIP, 256 of mixed weights (moves: times the least possible; `dcode` is Concury's):"
    yield ""
    yield from table(res, CHOOSERS, "way")
    yield ""
    yield packets(res)
    yield ""
    yield "Where others are ahead, and by how much (all of them: [tests/bench](tests/bench/README.md#figures)):"
    for figure in FIGURES:
        found = frank(res, figure)
        if found:
            yield f"* {figure.title}: {sentence(found, 3).removeprefix(AHEAD)}"
    yield ""
    for name in SHOWN:
        title = next(f.title for f in FIGURES if f.name == name)
        yield f"![{title}](tests/bench/figures/{name}.svg)"


def explanations(res):
    yield f"{provenance(res)}. Figures are in `build/bench/figures`, as NAME.svg and NAME.png."
    for figure in FIGURES:
        programs = dict.fromkeys(name for p in figure.panels for name, f in zip(res.names, res.files)
                                 if any(r["bench"] == p.bench for r in f["results"]))
        found = frank(res, figure)
        yield ""
        yield f"### `{figure.name}`: {figure.title}"
        yield " ".join([figure.text, *([sentence(found)] if found is not None else []),
                        f"({', '.join(f'`{p}`' for p in programs)})"])


def put(path, name, lines):
    """Replace what is between a file's two markers."""
    start, end = f"<!-- {name}: written by `make bench-readme` -->\n", f"<!-- end of {name} -->\n"
    text = path.read_text(encoding="utf-8")
    if text.count(start) != 1 or text.count(end) != 1 or text.index(start) > text.index(end):
        raise results.Bad(f"{path}: the markers of '{name}' are not there")
    before, after = text.split(start)[0], text.split(end)[1]
    new = before + start + "\n".join(lines) + "\n" + end + after
    if new != text:
        path.write_text(new, encoding="utf-8")
    print(f"{path}: {'written' if new != text else 'nothing new'}")


def main(source, root):
    res = results.Results(results.load(source))
    res.names = [p.stem for p in sorted(source.glob("*.json"))]
    quick = [n for n, f in zip(res.names, res.files) if f["quick"]]
    if quick:
        raise results.Bad(f"of a quick run: {', '.join(quick)}; wanted is a whole one: make bench-all")
    missing = dict.fromkeys(p.bench for f in FIGURES for p in f.panels if not p.cases(res.cases(p.bench)))
    if missing:
        raise results.Bad(f"no results of {', '.join(missing)}: make bench-all")
    text, explained = list(performance(res)), list(explanations(res))
    for name in SHOWN:
        svg = source / "figures" / f"{name}.svg"
        if not svg.is_file():
            raise results.Bad(f"{svg} is missing: make figures")
        if svg.stat().st_size > SVG_MAX:
            raise results.Bad(f"{svg} is too large to be checked in: {svg.stat().st_size} bytes")
    for name in SHOWN:
        shutil.copyfile(source / "figures" / f"{name}.svg", root / "tests" / "bench" / "figures" / f"{name}.svg")
    put(root / "README.md", "performance", text)
    put(root / "tests" / "bench" / "README.md", "figures", explained)


if __name__ == "__main__":
    build = figures.ROOT / os.environ.get("BUILD", "build")
    paths = [pathlib.Path(a).resolve() for a in sys.argv[1:]]
    try:
        main(paths[0] if paths else build / "bench", paths[1] if paths[1:] else figures.ROOT)
    except results.Bad as e:
        sys.exit(f"readme.py: {e}")
