"""The command line, run within the test's own process."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from click.testing import CliRunner, Result

from seqpipe.cli import main


@pytest.fixture
def run() -> Callable[..., Result]:
    """Runs a command; the exit code is checked, 0 unless ``code`` says another."""

    def call(*arguments: Any, code: int = 0) -> Result:
        result = CliRunner().invoke(main, [str(argument) for argument in arguments])
        if result.exception is not None and not isinstance(result.exception, SystemExit):
            raise result.exception
        assert result.exit_code == code, f"exit {result.exit_code}\n{result.stderr}{result.stdout}"
        return result

    return call
