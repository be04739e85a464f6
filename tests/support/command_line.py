"""The command line, run within the test's own process."""

from __future__ import annotations

from typing import Any

from click.testing import CliRunner, Result

from seqpipe.cli import main

__all__ = ["run_command"]


def run_command(*arguments: Any, code: int = 0) -> Result:
    """Run a command and check its exit code; an error that the command line does not expect is raised."""
    result = CliRunner().invoke(main, [str(argument) for argument in arguments])
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    assert result.exit_code == code, f"exit {result.exit_code}\n{result.stderr}{result.stdout}"
    return result
