"""What the bench programs have measured: build/bench/NAME.json, each a head (machine, date, commit,
command) with a list "results" of {"bench", "case", "layout", "value", "unit"}; targets have "most" and
"met", too."""

import json
import math

HEAD = {"machine": dict, "date": str, "commit": str, "command": str, "quick": bool, "results": list}
RESULT = {"bench": str, "case": str, "layout": str, "value": (int, float), "unit": str}


class Bad(Exception):
    """A file that is not there, or not as it should be: told to whoever started the program."""


def _check(where, what, members):
    if not isinstance(what, dict):
        raise Bad(f"{where}: no object")
    for key, kind in members.items():
        if not isinstance(what.get(key), kind):
            raise Bad(f"{where}: '{key}' is missing or malformed")


def read(path):
    try:
        file = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as e:
        raise Bad(f"{path}: {e}") from e
    _check(path, file, HEAD)
    for i, r in enumerate(file["results"]):
        _check(f"{path}: result {i}", r, RESULT)
        if isinstance(r["value"], bool) or not math.isfinite(r["value"]):
            raise Bad(f"{path}: result {i}: 'value' is no number")
    return file


def load(folder):
    """All files of a folder, or Bad."""
    return [read(p) for p in sorted(folder.glob("*.json"))]


def write(path, file):
    """One result a line, for people and for diff."""
    head = {k: v for k, v in file.items() if k != "results"}
    lines = ",\n".join(json.dumps(r) for r in file["results"])
    path.write_text(json.dumps(head, indent=1)[:-2] + f',\n "results": [\n{lines}\n]}}\n', encoding="utf-8")


class Results:
    """Values by bench, case and layout; the order of cases and layouts is the programs'."""

    def __init__(self, files):
        self.files = files
        self.quick = any(f["quick"] for f in files)
        self.units = {}
        self._values = {}
        for f in files:
            for r in f["results"]:
                self._values[r["bench"], r["case"], r["layout"]] = r["value"]
                self.units[r["bench"]] = r["unit"]

    def value(self, bench, case, layout):
        return self._values.get((bench, case, layout))

    def cases(self, bench):
        return list(dict.fromkeys(c for b, c, _ in self._values if b == bench))

    def layouts(self, bench):
        return list(dict.fromkeys(layout for b, _, layout in self._values if b == bench))
