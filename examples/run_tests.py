"""The tests of seqpipe, starting from nothing but python3 and pip.

    python3 examples/run_tests.py [PYTEST ARGUMENTS]

Makes the same virtual environment as first_run.py, adds the packages that the tests need, and runs pytest
on all cores. The exit code is pytest's. Run again, it repeats only what is needed.
"""

from __future__ import annotations

import os
import sys

from first_run import ROOT, environment

if __name__ == "__main__":
    python = environment("test")
    command = [str(python), "-m", "pytest", "-n", "auto", "--maxprocesses", "8", *sys.argv[1:]]
    print("+", *command, flush=True)
    os.chdir(ROOT)
    os.execv(python, command)
