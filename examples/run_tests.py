"""The tests of seqpipe, starting from nothing but python3 and pip.

    python3 examples/run_tests.py [PYTEST ARGUMENTS]

Makes the same virtual environment as first_run.py, adds the packages that the tests need, and runs pytest in one and a
half times as many processes as there are cores, because many tests wait for programs. The exit code is pytest's. Run
again, it repeats only what is needed.

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
    cores = len(os.sched_getaffinity(0))
    usual = [] if any(word.startswith("-m") for word in given) else ["-m", "not deep"]
    command = [
        str(python),
        "-m",
        "pytest",
        "-n",
        str(min(8, cores + cores // 2)),
        "--dist",
        "worksteal",
        *usual,
        *given,
    ]
    # each process would load, and rewrite the assertions of, every other package that brings a plugin
    os.environ["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"
    os.environ["PYTEST_PLUGINS"] = "xdist.plugin,_hypothesis_pytestplugin"
    print("+", *command, flush=True)
    os.chdir(ROOT)
    os.execv(python, command)
