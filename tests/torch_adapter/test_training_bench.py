"""The training benchmark: contestants that fail or hang end in a row that says why."""

from __future__ import annotations

import argparse
import re
import sys
import textwrap
import time

import pytest

from tests.bench.training import _sources, run_limited


def run(tmp_path, program, limit_s=30.0):
    command = [sys.executable, "-c", textwrap.dedent(program)]
    return run_limited(command, '["a.mp4"]', limit_s, tmp_path / "log")


def test_a_result_is_the_last_line(tmp_path):
    program = "import json, sys; print('hello'); print(json.dumps({'paths': json.load(sys.stdin)}))"
    assert run(tmp_path, program) == ({"paths": ["a.mp4"]}, "")


@pytest.mark.parametrize(
    ("program", "why"),
    [
        ("import nothing_of_that_name", r"exit code 1, ModuleNotFoundError: .*, it was still starting"),
        (
            "import sys\nprint('stage: made the model after 1.0 s', file=sys.stderr)\nraise ValueError('two\\nlines')",
            r"exit code 1, ValueError: two, it made the model after 1\.0 s",
        ),
        (
            "import os, signal\nos.kill(os.getpid(), signal.SIGSEGV)",
            r"ended by SIGSEGV, it was still starting",
        ),
        ("pass", r"exit code 0, no message, .*"),
        (
            "import faulthandler, time\nfaulthandler.dump_traceback_later(0.1, exit=True)\ntime.sleep(30)",
            "no result within the limit, it was still starting",
        ),
    ],
)
def test_the_reason_of_a_failure(tmp_path, program, why):
    found, said = run(tmp_path, program)
    assert found is None
    assert re.fullmatch(why, said), said


def test_large_videos_of_the_folder_are_read_again(tmp_path, capfd):
    videos = [tmp_path / f"large_30_film_{number}.mp4" for number in range(2)]
    for path in [*videos, tmp_path / "large_cheap.mp4"]:
        path.touch()
    options = argparse.Namespace(videos=None, large=True, folder=tmp_path)
    assert _sources(options) == videos
    assert capfd.readouterr().err == f"read 2 videos of 1080p in {tmp_path}\n"
    assert _sources(argparse.Namespace(videos=["a.mp4"], large=True, folder=tmp_path)) == ["a.mp4"]


def test_a_process_that_hangs_is_ended_with_its_children(tmp_path):
    begin = time.perf_counter()
    found, why = run(
        tmp_path,
        """
        import subprocess, sys, time
        child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
        print("stage: got the first batch after 2.0 s", file=sys.stderr, flush=True)
        print(child.pid, flush=True)
        child.wait()
        """,
        limit_s=1.5,
    )
    assert (found, why) == (None, "no result within the limit, it got the first batch after 2.0 s")
    assert time.perf_counter() - begin < 20, "the child, which has inherited its output, is not waited for"
