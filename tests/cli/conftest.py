"""The command line, run within the test's own process."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from click.testing import Result

from tests.support.command_line import run_command


@pytest.fixture
def run() -> Callable[..., Result]:
    """Runs a command; the exit code is checked, 0 unless ``code`` says another."""
    return run_command
