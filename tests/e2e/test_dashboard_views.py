#!/usr/bin/python3
"""What the dashboard shows: every view at two widths in both themes, before axe-core and on screenshots
(build/web-shots); what a read-only token sees; the keyboard; that nothing jumps, from 320 pixels to 4K."""

import shutil

import browsers
import lib
from browsers import SHOTS, Script

VIEWS = 8


def setup(lab):
    shutil.rmtree(SHOTS, ignore_errors=True)
    browsers.setup(lab)


def test_every_view(lab):
    steps = Script(lab).run("looks.mjs")
    assert len(steps) == 7, steps
    shots = sorted(p.name for p in SHOTS.glob("*-*.png"))
    assert len(shots) == 4 * VIEWS and all((SHOTS / s).stat().st_size > 5000 for s in shots), shots


if __name__ == "__main__":
    lib.main("dashboardviews", [test_every_view], setup, backends=3)
