"""Marks for tests that are run for every operator, or for each of their examples."""

from __future__ import annotations

from collections.abc import Iterable
from typing import get_args

import pytest

from seqpipe.ops.core.declaration import Takes

from .operators import cases, names

__all__ = ["ALL", "CASES", "NAMES", "TAKES", "some"]


def some(chosen: Iterable[tuple[str, int]]) -> pytest.MarkDecorator:
    """For some examples of operators."""
    return pytest.mark.parametrize("case", chosen, ids=lambda case: f"{case[0]}-{case[1]}")


TAKES = get_args(Takes)
NAMES = pytest.mark.parametrize("name", names())
ALL = pytest.mark.parametrize("name", names(*TAKES))
CASES = some(cases())
