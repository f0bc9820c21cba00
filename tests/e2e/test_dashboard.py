#!/usr/bin/python3
"""The dashboard in Chromium: a VIP's whole life by clicks and keys, under real traffic; two who edit at once; a
restart of concuryd meanwhile; answers that come late, in another order or never."""

import lib
from browsers import Script, setup


def test_life_of_a_vip(lab):
    steps = Script(lab).run("life.mjs")
    assert len(steps) == 12, steps
    lab.assert_consistent()


def test_late_answers(lab):
    steps = Script(lab).run("late.mjs")
    assert len(steps) == 9, steps


if __name__ == "__main__":
    lib.main("dashboard", [test_life_of_a_vip, test_late_answers], setup, backends=3)
