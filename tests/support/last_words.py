"""What a process of a test run said when it crashed, at the end of the report, where it is read.

pytest writes Python's traceback of a crash to stderr, which for processes of pytest-xdist is somewhere among thousands
of lines, or cut off with them.
"""

from __future__ import annotations

import faulthandler
import os
import shutil
import tempfile
from pathlib import Path

import pytest

__all__ = ["pytest_configure", "pytest_terminal_summary", "pytest_unconfigure"]

_FOLDER = "SEQPIPE_TEST_LAST_WORDS"
_WORKER = "PYTEST_XDIST_WORKER"


@pytest.hookimpl(trylast=True)  # after pytest's own
def pytest_configure(config: pytest.Config) -> None:
    """Let a process of pytest-xdist write to a file what it has to say at last; the first process makes the folder."""
    if _WORKER not in os.environ:
        os.environ[_FOLDER] = tempfile.mkdtemp(prefix="seqpipe_last_words_")
        return
    file = (Path(os.environ[_FOLDER]) / os.environ[_WORKER]).open("w")
    faulthandler.enable(file)
    config.add_cleanup(faulthandler.disable)
    config.add_cleanup(file.close)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Show it."""
    for path in sorted(Path(os.environ[_FOLDER]).iterdir()):
        if said := path.read_text(errors="replace"):
            terminalreporter.section(f"{path.name} has crashed")
            terminalreporter.write(said)


def pytest_unconfigure() -> None:
    """Forget it."""
    if _WORKER not in os.environ:
        shutil.rmtree(os.environ.pop(_FOLDER))
