"""Marks for tests that are run for every operator, or for each of their examples."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterable
from typing import Any, get_args

import pytest

from seqpipe.ops.core.declaration import Takes

from .operators import cases, names

__all__ = ["ALL", "CASES", "NAMES", "TAKES", "some"]


def some(chosen: Iterable[tuple[str, int]]) -> Callable[[Callable[..., None]], Any]:
    """For some examples of operators: one test for each operator, whose examples it takes as ``case``."""
    by_name: dict[str, list[tuple[str, int]]] = {}
    for case in chosen:
        by_name.setdefault(case[0], []).append(case)

    def decorate(test: Callable[..., None]) -> Any:
        def of_each(name: str, **fixtures: Any) -> None:
            skipped = 0
            for case in by_name[name]:
                print(f"example {case[1]} of {name}")  # noqa: T201  pytest shows it with a failure
                try:
                    test(case=case, **fixtures)
                except pytest.skip.Exception:
                    skipped += 1
                    if skipped == len(by_name[name]):
                        raise

        functools.update_wrapper(of_each, test)
        given = inspect.signature(test).parameters.values()
        parameters = [one.replace(name="name") if one.name == "case" else one for one in given]
        of_each.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
        return pytest.mark.parametrize("name", [*by_name])(of_each)

    return decorate


TAKES = get_args(Takes)
NAMES = pytest.mark.parametrize("name", names())
ALL = pytest.mark.parametrize("name", names(*TAKES))
CASES = some(cases())
