"""Cases that are left to the marker ``deep``: run by hand before a change to their area lands, see CONTRIBUTING.md."""

from __future__ import annotations

import itertools
import zlib
from collections.abc import Collection, Iterable, Sequence
from typing import Any, Final

import pytest

__all__ = ["combined", "deep", "deep_but", "leave_wide_sweeps"]

_MOST_CASES: Final = 3
_MOST_PROGRAMS: Final = 1
_PROGRAMS: Final = (
    "tests/cli/test_piped.py",
    "tests/cli/test_interrupts.py",
    "tests/cli/test_lock.py",
    "tests/cli/test_resume.py",
    "tests/cli/test_while_indexing.py",
    "tests/cli/test_cut.py",
    "tests/dataset/test_contract.py",
    "tests/pipeline/test_augmented.py",
    "tests/pipeline/test_passes.py",
    "tests/readers/test_exit.py",
    "tests/readers/test_interrupts.py",
    "tests/readers/test_memory.py",
    "tests/readers/test_resume.py",
    "tests/readers/test_survey.py",
    "tests/video/gpu/test_software_gpu.py",
    "tests/video/gpu/test_windows.py",
    "tests/video/tables/test_cues.py",
    "tests/video/test_children.py",
    "tests/video/test_exact.py",
    "tests/video/test_fuzz.py",
    "tests/volume/test_dicom_values.py",
    "tests/writers/test_object_storage.py",
)
"""Files each of whose cases starts programs, or reads a whole video or epoch several times."""
_WHOLE: Final = (
    "tests/golden/",
    "tests/test_architecture.py",
)  # each of their cases is the only one of its kind


def leave_wide_sweeps(metafunc: pytest.Metafunc) -> None:
    """Mark cases of a test with more than 3 usual ones, or 1 that is slow, as deep: the others are spread evenly.

    Under ``-m "not deep"`` the deep cases, two thirds of all, do not even become items, which every process would
    make. A test that has no other keeps one, which pytest leaves out.
    """
    calls, name, config = metafunc._calls, metafunc.definition.nodeid, metafunc.config
    if not calls:
        return
    is_deep = metafunc.definition.get_closest_marker("deep") is not None
    usual = [call for call in calls if not is_deep and all(mark.name != "deep" for mark in call.marks)]
    if not name.startswith(_WHOLE):
        usual = _spread(usual, _MOST_PROGRAMS if name.startswith(_PROGRAMS) else _MOST_CASES, name)
    if config.option.markexpr == "not deep" and not any("[" in word for word in config.args):
        calls[:] = usual or calls[:1]
        return
    kept = set(map(id, usual))
    for call in calls:
        if id(call) not in kept:
            call.marks.append(pytest.mark.deep.mark)


def _spread(cases: list[Any], most: int, name: str) -> list[Any]:
    """At most so many of the cases, evenly. The name tells where they begin, so that tests of all operators differ."""
    if len(cases) <= most:
        return cases
    first = zlib.crc32(name.encode()) % len(cases)
    kept = {(first + n * len(cases) // most) % len(cases) for n in range(most)}
    return [case for number, case in enumerate(cases) if number in kept]


def deep(*values: Any) -> Any:
    """A case of a parametrized test that is left out by default."""
    return pytest.param(*values, marks=pytest.mark.deep)


def deep_but(usual: Collection[Any], every: Iterable[Any]) -> list[Any]:
    """Every case of a parametrized test; the usual ones by default, the others are deep.

    Args:
        usual: some of them.
        every: cases; a tuple has a value for each of several parameters.
    """
    cases = list(every)
    assert all(one in cases for one in usual), "a usual case is one of them"
    return [one if one in usual else deep(*one) if isinstance(one, tuple) else deep(one) for one in cases]


def combined(*axes: Sequence[Any]) -> list[Any]:
    """Every combination of values; by default as few as have each value once, the others are deep."""
    usual = {tuple(n % len(axis) for axis in axes) for n in range(max(map(len, axes)))}
    indices = itertools.product(*(range(len(axis)) for axis in axes))
    return [
        pytest.param(
            *(axis[n] for axis, n in zip(axes, where, strict=True)),
            marks=() if where in usual else pytest.mark.deep,
        )
        for where in indices
    ]
