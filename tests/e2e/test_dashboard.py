#!/usr/bin/python3
"""The dashboard in Chromium: a VIP's whole life by clicks and keys, under real traffic; two who edit at once; a
restart of concuryd meanwhile."""

import lib
from browsers import Script, setup


def test_life_of_a_vip(lab):
    steps = Script(lab).run("life.mjs")
    assert len(steps) == 12, steps
    lab.assert_consistent()


if __name__ == "__main__":
    lib.main("dashboard", [test_life_of_a_vip], setup, backends=3)
