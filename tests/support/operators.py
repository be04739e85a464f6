"""What tests of operators share: the registry's examples as cases, images, and a comparison that raises."""

from __future__ import annotations

import contextlib
import functools
from typing import Any

import numpy as np
from numpy.typing import NDArray

from seqpipe import ops
from seqpipe.array import LAYOUTS
from seqpipe.errors import ParameterError
from seqpipe.ops import REGISTRY

from . import own_operators

__all__ = [
    "LAYOUTS",
    "built",
    "case_of",
    "cases",
    "compare",
    "first_of_skeletons",
    "five",
    "images",
    "main_type",
    "may_stay",
    "names",
    "printed",
    "some_values",
    "unfive",
]

FRAMES, HEIGHT, WIDTH = 3, 5, 7


def names(*takes: str) -> list[str]:
    """The operators of seqpipe on images (or others), and those of ``own_operators``; tests may register more."""
    homes, kinds = ("seqpipe.", own_operators.__name__), takes or ("images",)
    return sorted(
        n for n, cls in REGISTRY.items() if cls.__module__.startswith(homes) and cls.traits.takes in kinds
    )


@functools.cache
def first_of_skeletons() -> frozenset[str]:
    """An operator for each skeleton that kernels of operators have, and one that is composed of others."""
    by_kind: dict[str, str] = {}
    for name in names():
        cls = REGISTRY[name]
        if cls.traits.body is not None or cls.traits.composed:
            by_kind.setdefault("composed" if cls.traits.body is None else cls.traits.body.kind, name)
    return frozenset(by_kind.values())


def main_type(name: str) -> str:
    """The type that an operator is mostly used with."""
    dtypes = REGISTRY[name].traits.dtypes
    return "uint8" if "uint8" in dtypes else str(dtypes[0])


def cases(*takes: str) -> list[tuple[str, int]]:
    """(operator, number of its example), for all on images (or others)."""
    return [(name, number) for name in names(*takes) for number in range(len(REGISTRY[name].traits.examples))]


def built(case: tuple[str, int], **changes: Any) -> Any:
    """The operator of a case."""
    name, number = case
    return REGISTRY[name](**{**REGISTRY[name].traits.examples[number], **changes})


def case_of(name: str, q: ops.Parameter) -> tuple[str, int]:
    """The first example of an operator beside which a parameter can be given, for some exclude one another."""
    for number in range(len(REGISTRY[name].traits.examples)):
        with contextlib.suppress(ParameterError):
            built((name, number), **{q.name: some_values(q, 1)})
            return name, number
    raise AssertionError(f"no example of {name} takes {q.name}")


def may_stay(name: str) -> bool:
    """Whether there are probabilities with which an operator acts, other than 1."""
    (p,) = (q for q in REGISTRY[name].parameters if q.name == "p")
    return p.param.lo == 0


def images(
    op: Any,
    dtype: str,
    layout: str = "NFHWC",
    *,
    samples: int = 2,
    size: tuple[int, int] = (HEIGHT, WIDTH),
    seed: int = 0,
) -> NDArray[Any]:
    """Images that an operator takes: all levels of a type, or floats below, within and above 0 to 1."""
    channels = (op.traits.channels or (3,))[0]
    lengths = dict(zip("NFDHWC", (samples, FRAMES, FRAMES, *size, channels), strict=True))
    shape = tuple(lengths[letter] for letter in layout)
    rng = np.random.default_rng(seed)
    if np.dtype(dtype).kind == "f":
        return rng.normal(0.5, 1, shape).astype(dtype)
    if dtype == "bool":
        return rng.integers(0, 2, shape).astype(bool)
    info = np.iinfo(dtype)
    return rng.integers(info.min, info.max, shape, dtype=dtype, endpoint=True)


def printed(text: str) -> NDArray[np.float64]:
    """Numbers as a library printed them."""
    return np.array([float(word) for word in text.split()])


def five(array: NDArray[Any], layout: str) -> NDArray[Any]:
    """An array of any layout as NFHWC, written without seqpipe."""
    layout = _flat(layout)
    for letter in "NFHWC":
        if letter not in layout:
            array, layout = array[..., None], layout + letter
    return np.transpose(array, [layout.index(letter) for letter in "NFHWC"])


def _flat(layout: str) -> str:
    """A layout without slices: they are frames, and the time points of a series of volumes are samples."""
    return (layout.replace("F", "N") if {"F", "D"} <= {*layout} else layout).replace("D", "F")


def unfive(array: NDArray[Any], layout: str) -> NDArray[Any]:
    """What :func:`five` was given."""
    letters = _flat(layout)
    for axis in reversed(range(5)):
        if "NFHWC"[axis] not in letters:
            array = array.take(0, axis=axis)
    rest = [letter for letter in "NFHWC" if letter in letters]
    return np.transpose(array, [rest.index(letter) for letter in letters])


def compare(actual: Any, wanted: NDArray[Any], tolerance: tuple[float, float] = (0, 0)) -> None:
    """Raise unless arrays agree: by the worst element, in levels or rounding steps, and by the share that differs."""
    if isinstance(wanted, tuple):
        assert isinstance(actual, tuple)
        for one, other in zip(actual, wanted, strict=True):
            compare(one, other, tolerance)
        return
    actual = np.asarray(actual)
    assert (actual.dtype, actual.shape) == (wanted.dtype, wanted.shape)
    steps = distance(actual, wanted)
    worst, share = float(steps.max(initial=0)), float((steps > 0).mean())
    assert worst <= tolerance[0], f"the worst element is {worst:g} steps off, {share:.2%} differ"
    assert share <= tolerance[1], f"{share:.2%} differ, by at most {worst:g} steps"


def distance(actual: NDArray[Any], wanted: NDArray[Any]) -> NDArray[np.float64]:
    """Of each element: levels for whole numbers, rounding steps for floats; infinite between NaN and a number."""
    if wanted.dtype.kind != "f":
        return np.abs(actual.astype(np.float64) - wanted.astype(np.float64))
    same = (actual == wanted) | (np.isnan(actual) & np.isnan(wanted))
    with np.errstate(invalid="ignore", over="ignore"):
        steps = np.abs(actual.astype(np.float64) - wanted.astype(np.float64)) / np.spacing(
            np.abs(wanted)
        ).astype(np.float64)
    return np.where(same, 0, np.where(np.isfinite(steps), np.maximum(steps, 1e-9), np.inf))


def some_values(q: ops.Parameter, count: int, seed: int = 0) -> NDArray[Any]:
    """Values that a parameter may have: ``(count,)``, or ``(count, size)``."""
    shape = (count, q.size) if q.size else (count,)
    rng = np.random.default_rng(seed)
    if q.param.kind is bool:
        return np.resize([True, False, False], shape)
    middle = 1.0 if q.default is None else float(np.mean(q.default))
    lo = max(q.param.lo if q.param.lo is not None else -np.inf, middle - 1)
    hi = min(q.param.hi if q.param.hi is not None else np.inf, middle + 1)
    values = rng.uniform(lo, hi, shape)
    return np.rint(values) if q.param.kind is int else values


@functools.cache
def cupy() -> Any:
    """CuPy, for tests marked gpu."""
    import cupy as library

    return library
