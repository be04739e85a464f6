"""Plugin of pytest that runs every test several times: ``TIMES=20 pytest -p tests.support.repeated``."""

from __future__ import annotations

import os

import pytest

__all__ = ["pytest_generate_tests", "repetition"]


@pytest.fixture(autouse=True)
def repetition(request: pytest.FixtureRequest) -> int:
    """Which time it is."""
    number: int = request.param
    return number


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Make a test of each time."""
    metafunc.parametrize("repetition", range(int(os.environ.get("TIMES", "20"))), indirect=True)
