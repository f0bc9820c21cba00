#!/usr/bin/python3
"""One cell of the experiment (tests/experiment), simulated and over AF_XDP."""

import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "experiment"))
import experiment  # noqa: E402

if __name__ == "__main__":
    sys.argv[1:] = ["--check"]
    experiment.main()
