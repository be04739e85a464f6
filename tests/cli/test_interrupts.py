"""Ctrl-C once, or more often than that, at any moment: the program ends with 130 and leaves nothing half done."""

from __future__ import annotations

import itertools
import random
import signal
import subprocess
import sys
import time

import pytest

from tests.support.deep import deep_but
from tests.support.interrupts import INTERRUPTIBLE, PROGRAM
from tests.support.media import made

from .written import files

# On a busy machine those who press again right away may be a second late, and would be taken for insisting.
PATIENT = "from seqpipe.core import interrupts; interrupts._PATIENCE_S = 60.0\n"
BEFORE_IMPORTS = INTERRUPTIBLE + (
    "from seqpipe.core import interrupts\nfrom seqpipe.__main__ import main\n"
    "usual = interrupts.signal.signal\n"
    "def told(number, handler):\n"
    "    usual(number, handler)\n"
    "    if number == signal.SIGTERM: print('begun', flush=True)\n"
    "interrupts.signal.signal = told; main()"
)
TAKEN_OVER = (
    INTERRUPTIBLE + "import os, sys, time\nfrom pathlib import Path\nfrom seqpipe.core import interrupts\n"
)


def start(program, *arguments):
    command = [sys.executable, "-c", program, *map(str, arguments)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def press(process, times, within_s=0.3, number=signal.SIGINT):
    """Ctrl-C, by somebody impatient."""
    for _ in range(times):
        process.send_signal(number)
        time.sleep(random.uniform(0, within_s / times))
    return process.communicate(timeout=60)[1]


def left(folder):
    return [path for path in folder.rglob(".*") if path.suffix in (".part", ".lock")]


@pytest.fixture
def exporting(tmp_path):
    """The arguments of an export that takes its time, and how to wait until it writes."""
    paths = [made(name) for name in ("h264", "vp9")]
    manifest = ("--manifest", tmp_path / "m.csv")
    options = ("--out", tmp_path / "o", "--format", "png", "--size", "800x600", "--jobs", 2, *manifest)

    def writing(process):
        while process.poll() is None and not [*tmp_path.glob("o/**/*.png")]:
            time.sleep(0.002)
        time.sleep(random.uniform(0, 0.2))

    return ("export", *paths, *options), writing


@pytest.mark.parametrize(
    ("number", "times"),
    deep_but(
        [(signal.SIGINT, 10), (signal.SIGHUP, 1)],
        itertools.product([signal.SIGINT, signal.SIGTERM, signal.SIGHUP], [1, 2, 3, 10]),
    ),
)
def test_an_export_ends_in_quiet_and_can_be_gone_on_with(tmp_path, exporting, times, number):
    """The second one ended the waiting for the threads, and what they ran in C++ aborted at the program's end."""
    arguments, writing = exporting
    with start(PATIENT + PROGRAM, *arguments) as process:
        writing(process)
        said = press(process, times, number=number)
    assert process.returncode == 130, said
    assert said.splitlines()[-1] == (
        "Interrupted. No file is incomplete; repeat the command with --resume to continue."
    )
    assert len(said.splitlines()) == 2
    assert left(tmp_path) == []
    with start(PROGRAM, *arguments, "--resume") as process:
        assert "kept" in process.communicate()[1]
    assert process.returncode == 0
    assert len([name for name in files(tmp_path / "o") if name.endswith(".png")]) == 2 * 48


@pytest.mark.parametrize(
    ("command", "delay_s"),
    deep_but(
        [("export", 0.4), ("doctor", 0.1)],
        itertools.product(["export", "index", "probe", "doctor"], [0.0, 0.1, 0.4, 0.8]),
    ),
)
def test_so_does_every_command_while_it_loads_what_it_needs(tmp_path, command, delay_s):
    """Most of a second: it was a traceback, from within NumPy or whatever was being loaded."""
    options = ("--out", tmp_path / "o") if command == "export" else ()
    paths = () if command == "doctor" else (made("h264"),)
    with start(BEFORE_IMPORTS, command, *paths, *options, "--cache-dir", tmp_path / "c") as process:
        assert process.stdout.readline() == "begun\n"
        time.sleep(delay_s)
        said = press(process, 3)
    # a machine that is fast enough may have come to the command's end
    assert process.returncode == 130 or (process.returncode == 0 and delay_s), said
    assert "Traceback" not in said
    assert "ignored" not in said
    assert left(tmp_path) == []


WAITS = """
interrupts.install_handlers()
with interrupts.graceful("So it is."):
    try:
        print("begun", flush=True)
        time.sleep(60)
    finally:
        {afterwards}
"""


def test_who_presses_again_right_away_does_not_disturb_the_end(tmp_path):
    program = TAKEN_OVER + PATIENT + WAITS.format(afterwards="time.sleep(0.4); Path(sys.argv[1]).touch()")
    with start(program, tmp_path / "ended") as process:
        assert process.stdout.readline() == "begun\n"
        press(process, 10)
    assert (tmp_path / "ended").exists()


def test_who_insists_does_not_wait_for_an_end_that_does_not_come(tmp_path):
    """What is under way is tidied away all the same."""
    afterwards = "\n        ".join(
        [
            "from seqpipe.core.whole_file import replacing; from seqpipe.writers.lock import locked",
            "with locked(Path(sys.argv[1]), 'it'), replacing(Path(sys.argv[1])) as part:",
            "    part.touch(); print(len(list(part.parent.iterdir())), flush=True); time.sleep(60)",
        ]
    )
    with start(TAKEN_OVER + WAITS.format(afterwards=afterwards), tmp_path / "x") as process:
        assert process.stdout.readline() == "begun\n"
        process.send_signal(signal.SIGINT)
        assert process.stdout.readline() == "2\n"
        time.sleep(1.2)
        said = press(process, 1)
    assert (process.returncode, said) == (130, "Interrupted. So it is.\n")
    assert list(tmp_path.iterdir()) == []


def test_where_nothing_has_to_be_left_in_order_the_program_ends_at_once(tmp_path):
    """An index that is built, or a video that is verified, was waited for."""
    program = TAKEN_OVER + (
        "from seqpipe.core.whole_file import replacing\nfrom seqpipe.video.engine.engine import Engine\n"
        "def work(path):\n"
        "    with replacing(Path(path)) as part:\n"
        "        part.touch(); print('begun', flush=True); time.sleep(60)\n"
        "interrupts.install_handlers()\nwith Engine(2) as engine: list(engine.map(work, sys.argv[1:]))"
    )
    with start(program, tmp_path / "x") as process:
        assert process.stdout.readline() == "begun\n"
        said = press(process, 1)
    assert (process.returncode, said) == (130, "Interrupted.\n")
    assert list(tmp_path.iterdir()) == []


def test_one_that_falls_where_python_can_raise_nothing_ends_the_program_too():
    program = TAKEN_OVER + (
        "interrupts.install_handlers()\n"
        "class Left:\n"
        "    def __del__(self): signal.raise_signal(signal.SIGINT)\n"
        "with interrupts.graceful('So it is.'): Left(); time.sleep(60)"
    )
    with start(program) as process:
        said = process.communicate(timeout=30)[1]
    assert (process.returncode, said) == (130, "Interrupted. So it is.\n")


def test_what_a_shell_has_put_in_the_background_goes_on_ignoring_it(tmp_path):
    ignoring = "import signal; signal.signal(signal.SIGINT, signal.SIG_IGN); print('begun', flush=True)\n"
    program = ignoring + PROGRAM.partition("\n")[2]
    with start(program, "export", made("h264"), "--out", tmp_path) as process:
        assert process.stdout.readline() == "begun\n"
        press(process, 5, within_s=2)
    assert process.returncode == 0
