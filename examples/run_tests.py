"""The tests of seqpipe, starting from nothing but python3 and pip.

    python3 examples/run_tests.py [PYTEST ARGUMENTS]

Makes the same virtual environment as first_run.py, adds the packages that the tests need, and runs pytest
on all cores. The exit code is pytest's. Run again, it repeats only what is needed.

Tests marked deep are left out: many rounds of signals and exits, and the widest parameter sweeps.
Run them by hand before a change to their area lands:

    python3 examples/run_tests.py -m deep [FOLDERS OR FILES]
"""

from __future__ import annotations

import os
import sys

from first_run import ROOT, environment

if __name__ == "__main__":
    python = environment("test")
    given = sys.argv[1:]
    usual = [] if any(word.startswith("-m") for word in given) else ["-m", "not deep"]
    command = [
        str(python),
        "-m",
        "pytest",
        "-n",
        "auto",
        "--maxprocesses",
        "8",
        "--dist",
        "worksteal",
        *usual,
        *given,
    ]
    print("+", *command, flush=True)
    os.chdir(ROOT)
    os.execv(python, command)
