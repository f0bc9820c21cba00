#!/usr/bin/python3
"""Draw what the bench programs have measured: build/bench/*.json -> build/bench/figures/NAME.svg and
.png, by gnuplot. catalogue.py says what, figures/*.gp how it looks; NAME.gp and the .dat files beside the
pictures can be given to gnuplot again. Published points (published.json) are drawn beside ours.

figures.py [JSON-FOLDER [OUT-FOLDER]]. Exit status 1 if results for a figure are missing: the others are
drawn all the same."""

import json
import math
import os
import pathlib
import shutil
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))
import results  # noqa: E402
from catalogue import FIGURES, NAMES, TYPES, number  # noqa: E402

ROOT = HERE.parents[1]
PUBLISHED = json.loads((HERE / "published.json").read_text(encoding="utf-8"))
UNITS = {"MiB": 2**20}  # what published values are multiplied by to have our unit
PANEL_H, KEY_W, HEAD_H, FOOT_H = 330, 220, 44, 34


def published(panel):
    """{(layout, system): {case: value}} of a panel's bench."""
    found = {}
    for p in PUBLISHED["points"]:
        if p["bench"] == panel.bench:
            found.setdefault((p["layout"], p["system"]), {})[p["case"]] = p["value"] * UNITS.get(p["unit"], 1)
    return found


def layouts_of(panel, res):
    return [n for n in res.layouts(panel.bench) if not panel.layouts or n in panel.layouts]


def place(panel, cases):
    """Where each case is on the x axis, and the axis' labels."""
    if panel.kind in ("bars", "points"):
        return {c: i for i, (c, _) in enumerate(cases)}, {name: i for i, (_, name) in enumerate(cases)}
    at = {c: number(name) for c, name in cases}
    return at, {name: number(name) for _, name in cases} if panel.kind == "curves" else {}


def series_of(panel, res):
    """[(line type, name in the key, [(x, y, label)])], and the labels of the x axis."""
    theirs = published(panel)
    cases = panel.cases(dict.fromkeys([*res.cases(panel.bench), *(c for points in theirs.values() for c in points)]))
    if panel.kind == "curves":
        cases.sort(key=lambda c: number(c[1]))
    at, tics = place(panel, cases)
    names = layouts_of(panel, res)
    found = [(TYPES.get(n, 11), NAMES.get(n, n), {c: res.value(panel.bench, c, n) for c, _ in cases})
             for n in names]
    found += [(TYPES[n] + 20, f"{system}, published", points) for (n, system), points in theirs.items()]
    lines = []
    for i, (kind, name, values) in enumerate(found):
        points = [(at[c], v * panel.scale, c) for c, v in values.items() if v is not None and c in at]
        if panel.kind in ("bars", "points"):
            points = [(x + ((i - (len(found) - 1) / 2) / (len(found) + 1)), y, c) for x, y, c in points]
        if panel.kind == "cdf":
            points = [(y, x, c) for x, y, c in points]
        lines.append((kind, name, points))
    return lines, tics


def short(value):
    """Three digits, and a letter. What only rounding has left is nothing."""
    if abs(value) < 1e-5:
        return "0"
    for unit, letter in ((1e9, "G"), (1e6, "M"), (1e4, "k")):
        if abs(value) >= unit:
            return f"{value / (1e3 if letter == 'k' else unit):.3g}{letter}"
    return f"{value:.3g}" if abs(value) < 1000 else f"{value:.0f}"


def data(lines, log):
    """gnuplot's blocks: x, y, where a bar's label stands, label."""
    floor = min([y for _, _, points in lines for _, y, _ in points if y > 0], default=1) / 2
    blocks = []
    for _, name, points in lines:
        rows = [f"{x:.10g} {y:.10g} {max(y, floor) if 'y' in log else y:.10g} {short(y)}" for x, y, _ in points]
        blocks.append(f"# {name}\n" + "\n".join(rows or ["NaN NaN NaN -"]) + "\n")
    return "\n\n".join(blocks)


def quote(text):
    return "'" + text.replace("'", "''") + "'"


def log_range(values):
    """A range somewhat larger than what is in it, and the marks of its axis: 1, 2, 5 where few decades are."""
    low, high = min(values), max(values)
    yield f"[{low / 1.4:g}:{high * 1.4:g}]"
    steps = (1, 2, 5) if high / low < 300 else (1,)
    every = 1 if high / low < 1e6 else 2
    exponents = range(math.floor(math.log10(low)) - 1, math.ceil(math.log10(high)) + 1)
    marks = [s * 10.0**e for e in exponents if e % every == 0 for s in steps]
    yield "(" + ", ".join(f"'{short(m)}' {m:g}" for m in marks) + ")"


def label(name):
    """The marks of bars and the like have two lines."""
    return '"' + name.replace("_", "\\n", 1).replace("_", " ") + '"'


def axes(panel, lines, tics):
    ys = [y for _, _, points in lines for _, y, _ in points]
    bars = panel.kind in ("bars", "points")
    yield f"set title {quote(panel.title)}"
    yield f"set xlabel {quote(panel.xlabel)}"
    yield "unset logscale; set xtics autofreq font ','; set ytics autofreq; set autoscale; unset arrow"
    yield f"set logscale {panel.log}" if panel.log and not (bars and "y" not in panel.log) else ""
    if tics:
        yield "set xtics (" + ", ".join(f"{label(name)} {x}" for name, x in tics.items()) + ") noenhanced" + \
            (" font ',10'" if len(tics) > 8 else "")
    if bars:
        yield f"set xrange [-0.6:{len(tics) - 0.4}]; set boxwidth {0.9 / (len(lines) + 1):.3f}"
    elif "x" in panel.log and tics:
        yield f"set xrange {next(log_range(tics.values()))}"
    positive = [y for y in ys if y > 0] or [1]
    if panel.yrange:
        yield f"set yrange {panel.yrange}"
    elif "y" in panel.log:
        # Bars have room for what is written above them, and a foot.
        room = [min(positive) / 2, max(positive) * (2 * max(positive) / min(positive)) ** 0.3] if bars else positive
        limits, marks = log_range(room)
        yield f"set yrange {limits}; set ytics {marks}"
    elif panel.kind == "bars":
        yield f"set yrange [0:{max(positive) * 1.25}]"
    if panel.hline is not None:
        yield (f"set arrow from graph 0, first {panel.hline} to graph 1, first {panel.hline} nohead "
               "dashtype 3 linecolor rgb '#555555'")
    yield f"kind = {quote('curves' if panel.kind == 'cdf' else panel.kind)}; data = {quote(panel.data)}"
    yield f"N = {len(lines)}; array TYPES[N] = [{', '.join(str(t) for t, _, _ in lines)}]"
    yield f"load {quote(str(HERE / 'figures' / 'panel.gp'))}"


def box(figure, panel, i, width, height):
    """Margins and y label of panel i, as parts of the picture."""
    column, row = i % figure.columns, i // figure.columns
    left, top = column * figure.panel_w, HEAD_H + row * PANEL_H
    return (f"set lmargin at screen {(left + 74) / width:.4f}; "
            f"set rmargin at screen {(left + figure.panel_w - 14) / width:.4f}; "
            f"set tmargin at screen {1 - (top + 26) / height:.4f}; "
            f"set bmargin at screen {1 - (top + PANEL_H - 62) / height:.4f}; "
            f"set label 3 {quote(panel.ylabel)} at screen {(left + 16) / width:.4f}, "
            f"screen {1 - (top + PANEL_H / 2 - 18) / height:.4f} center rotate by 90 noenhanced")


def key(entries, kind, width, height):
    """All series of all panels, once, at the right."""
    style = {"bars": "boxes fillstyle solid noborder", "points": "points", "lines": "lines"}.get(kind, "linespoints")
    yield (f"set lmargin at screen {1 - KEY_W / width:.4f}; set rmargin at screen {1 - 6 / width:.4f}; "
           f"set tmargin at screen {1 - HEAD_H / height:.4f}; set bmargin at screen 0.02")
    yield "unset logscale; unset border; unset tics; unset grid; unset arrow; unset label 3; unset xlabel; unset title"
    yield "set xrange [0:1]; set yrange [0:1]; set key left top Left reverse noenhanced samplen 2.2 spacing 1.25"
    yield "plot " + ", ".join(f"NaN with {style} linetype {t} title {quote(name)}" for t, name in entries)


def script(figure, drawn, foot, out):
    columns = min(figure.columns, len(drawn))
    rows = -(-len(drawn) // columns)
    width, height = columns * figure.panel_w + KEY_W, HEAD_H + rows * PANEL_H + FOOT_H
    entries = dict.fromkeys((t, name) for _, lines, _ in drawn for t, name, _ in lines)
    head = []
    for terminal, suffix in ((f"svg size {width},{height} fixed font 'DejaVu Sans,13' background 'white'", "svg"),
                             (f"pngcairo size {width * 2},{height * 2} font 'DejaVu Sans,12' fontscale 2 "
                              "linewidth 2 pointscale 2 background 'white'", "png")):
        head += ["reset", f"set terminal {terminal}", f"load {quote(str(HERE / 'figures' / 'style.gp'))}",
                 f"set output {quote(str(out / (figure.name + '.' + suffix)))}", "set multiplot",
                 f"set label 1 {quote(figure.title)} at screen 0.012, screen {1 - 20 / height:.4f} left "
                 "font ',16' noenhanced",
                 f'set label 2 "{foot}" at screen 0.012, screen {24 / height:.4f} left font ",9" '
                 "textcolor rgb '#666666' noenhanced"]
        for i, (panel, lines, tics) in enumerate(drawn):
            head += [box(figure, panel, i, width, height), *axes(panel, lines, tics), "unset label 1; unset label 2"]
        head += [*key(list(entries), drawn[0][0].kind, width, height), "unset multiplot", "unset output"]
    return "\n".join(head) + "\n"


def draw(figure, res, out):
    """Returns the benches that are missing; what there is is drawn. A quick run may leave out cases."""
    there = [p for p in figure.panels if p.cases(res.cases(p.bench))]
    missing = [p.bench for p in figure.panels if p not in there and not (res.quick and res.cases(p.bench))]
    drawn = []
    for i, panel in enumerate(there):
        lines, tics = series_of(panel, res)
        panel.data = str(out / f"{figure.name}.{i}.dat")
        pathlib.Path(panel.data).write_text(data(lines, panel.log), encoding="utf-8")
        drawn.append((panel, lines, tics))
    if drawn:
        head = next(f for f in res.files if any(r["bench"] == drawn[0][0].bench for r in f["results"]))
        foot = machine(head) + (", a quick run" if head["quick"] else "")
        if any(t > 20 for _, lines, _ in drawn for t, _, _ in lines):
            foot += f"\\ndashed: as published, {PUBLISHED['machine']} ({PUBLISHED['source'].split(',')[0]})"
        gp = out / f"{figure.name}.gp"
        gp.write_text(script(figure, drawn, foot, out), encoding="utf-8")
        r = subprocess.run(["gnuplot", "-d", str(gp)], capture_output=True, text=True)
        if r.returncode or r.stderr.strip():
            raise results.Bad(f"{gp}: gnuplot: {r.stderr.strip() or r.returncode}")
    return missing


def machine(head):
    """One line about where and when."""
    m = head["machine"]
    caches = "".join(f", {level.upper()} {m[level]}" for level in ("l2", "l3") if m.get(level))
    virtual = " (virtual)" if m.get("virtual") else ""
    return (f"{m.get('cpu', 'unknown CPU')}, {m.get('cores', '?')} cores{virtual}{caches}, "
            f"Linux {m.get('kernel', '?')}, {head['date'][:10]}, {head['commit']}")


def main(source, out):
    if not shutil.which("gnuplot"):
        raise results.Bad("gnuplot is missing: apt install gnuplot-nox (make deps-test)")
    files = results.load(source)
    if not files:
        raise results.Bad(f"no results in {source}: make bench-all (QUICK=1: 2 minutes)")
    res = results.Results(files)
    shutil.rmtree(out, ignore_errors=True)
    out.mkdir(parents=True)
    good = True
    for figure in FIGURES:
        missing = draw(figure, res, out)
        if missing:
            part = "a part is " if (out / f"{figure.name}.gp").exists() else ""
            print(f"{figure.name}: {part}not drawn, no results of {', '.join(dict.fromkeys(missing))}: make bench-all")
        good &= not missing
    print(f"wrote {len(list(out.glob('*.svg')))} figures, SVG and PNG: {out}")
    return 0 if good else 1


if __name__ == "__main__":
    build = ROOT / os.environ.get("BUILD", "build")
    paths = [pathlib.Path(a).resolve() for a in sys.argv[1:]]
    try:
        sys.exit(main(*(paths + [build / "bench", build / "bench" / "figures"][len(paths):])))
    except results.Bad as e:
        sys.exit(f"figures.py: {e}")
