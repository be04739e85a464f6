"""A crash of a process of a test run is told at the end of its report."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
CONFTEST = """
from tests.support.last_words import pytest_configure, pytest_terminal_summary, pytest_unconfigure
"""
CRASH = """
import ctypes

def test_sound(): ...

def test_reads_where_nothing_is():
    ctypes.string_at(0)
"""


@pytest.mark.deep
def test_where_a_process_crashed_is_told_at_the_end(tmp_path):
    (tmp_path / "conftest.py").write_text(CONFTEST)
    (tmp_path / "test_crash.py").write_text(CRASH)
    (tmp_path / "temporary").mkdir()
    environment = {
        name: value for name, value in os.environ.items() if not name.startswith(("PYTEST_", "SEQPIPE_TEST_"))
    }
    environment |= {"PYTHONPATH": str(ROOT), "TMPDIR": str(tmp_path / "temporary")}
    command = [sys.executable, "-m", "pytest", "-n", "1", "-p", "no:cacheprovider", str(tmp_path)]
    run = subprocess.run(
        command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=120, check=False
    )
    assert run.returncode == 1
    _, _, told = run.stdout.partition("gw0 has crashed")
    assert "Segmentation fault" in told, run.stdout
    assert "in test_reads_where_nothing_is" in told
    assert "1 failed, 1 passed" in told
    assert not list((tmp_path / "temporary").glob("seqpipe_last_words_*"))
