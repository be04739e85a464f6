"""Cases that go through our operators and, in a process of its own, through DALI's."""

from __future__ import annotations

import os
import pickle
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from operator import attrgetter
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from seqpipe import fn
from seqpipe.ops import PerFrame
from tests.support.pictures import pattern

__all__ = ["ADVICE", "PYTHON", "Answers", "Case", "Gap", "answered", "asked", "given", "ours", "theirs"]

PYTHON: Final = "SEQPIPE_DALI_PYTHON"
ADVICE: Final = (
    f"{PYTHON} names no Python that has DALI; make one, which needs no GPU: python -m venv dali &&"
    f" dali/bin/pip install nvidia-dali-cuda130==2.4.0 && export {PYTHON}=dali/bin/python"
)
_INPUTS: Final = {"filter": "kernel", "reductions.std_dev": "mean", "reductions.variance": "mean"}
"""Arguments that are an input with DALI."""
_WORKER: Final = Path(__file__).with_name("worker.py")


@dataclass(frozen=True)
class Answers:
    """What DALI gave.

    Attributes:
        operators: all that it has by name, and the defaults of their arguments.
        results: for each label a list of outputs, each a list of samples; or the message of its refusal.
    """

    operators: Mapping[str, Mapping[str, Any]] = field(repr=False)
    results: Mapping[str, Any] = field(repr=False)


@dataclass(frozen=True)
class Case:
    """The same work for both.

    Attributes:
        operator: of ours.
        given: the name of a picture.
        arguments: of ours; DALI is given the same ones,
        changes: but for these; those that are None are left out.
        peer: DALI's name of the operator, where it has another one.
    """

    operator: str
    given: str = "image"
    arguments: Mapping[str, Any] = field(default_factory=dict)
    changes: Mapping[str, Any] = field(default_factory=dict)
    peer: str | None = None

    @property
    def label(self) -> str:
        """One of its own."""
        return f"{self.operator}({self.given}, {dict(self.arguments)}, {dict(self.changes)})"

    def __str__(self) -> str:
        named = [f"{name}={value}" for name, value in self.arguments.items()]
        return "-".join([self.operator, self.given, *named])[:110]


@dataclass(frozen=True)
class Gap:
    """How far two results are apart: in levels at most, and the share of values more than a thousandth apart."""

    worst: float
    share: float

    @classmethod
    def between(cls, one: NDArray[Any], other: NDArray[Any]) -> Gap:
        """Of two arrays of one shape."""
        assert one.shape == other.shape
        apart = np.abs(one.astype(np.float64) - other.astype(np.float64))
        return cls(float(apart.max(initial=0)), float((apart > 1e-3).mean()))

    def within(self, other: Gap) -> bool:
        """Whether it is no larger."""
        return self.worst <= other.worst and self.share <= other.share


@lru_cache(maxsize=16)
def given(name: str) -> NDArray[Any]:
    """A picture of smooth gradients, hard edges in all colors and a little noise; or several; or boxes.

    Args:
        name: "image", "gray", "floats", "signed", "wide", "odd" or "halves", HWC; "sequence", FHWC; "batch", NFHWC;
            "boxes" of corners, or "sized" ones of corner and size.
    """
    if name in ("boxes", "sized"):
        corner, size = (
            np.random.default_rng(0).uniform([[0.0], [0.05]], [[0.6], [0.4]], (20, 2, 2)).swapaxes(0, 1)
        )
        return np.concatenate([corner, size + (corner if name == "boxes" else 0)], axis=1).astype(np.float32)
    if name == "sequence":
        return np.stack([_levels(pattern(160, 120, seed)) for seed in range(4)])
    if name == "batch":
        frames = [_levels(pattern(96, 64, seed)) for seed in range(6)]
        return np.stack(frames).reshape(2, 3, 64, 96, 3)
    picture = pattern(93, 67)
    made = {
        "image": _levels(picture),
        "gray": _levels(picture[..., :1]),
        "floats": picture.astype(np.float32),
        "signed": np.rint(picture * 4000 - 2000).astype(np.int16),
        "wide": np.rint(picture * 65535).astype(np.uint16),
        "odd": np.arange(2049, 2409, 2, np.int16).reshape(10, 6, 3),
        "halves": np.arange(-60, 60, dtype=np.float32).reshape(8, 5, 3) / 2,
    }
    return made[name]


def _levels(picture: NDArray[np.float64]) -> NDArray[Any]:
    return np.rint(picture * 255).astype(np.uint8)


def ours(case: Case) -> NDArray[Any]:
    """What our operator makes of a case."""
    result = attrgetter(case.operator)(fn)(given(case.given), **case.arguments)
    return np.stack(result) if isinstance(result, tuple) else np.asarray(result)


def theirs(answers: Answers, case: Case) -> NDArray[Any]:
    """What DALI made of it."""
    outputs = answers.results[case.label]
    assert not isinstance(outputs, str), outputs
    batched = given(case.given).ndim == 5
    each = [np.stack(output) if batched else output[0] for output in outputs]
    return each[0] if len(each) == 1 else np.stack(each)


def asked(case: Case) -> dict[str, Any]:
    """A case as the worker is given it."""
    picture = given(case.given)
    samples = list(picture) if picture.ndim == 5 else [picture]
    inputs, layouts = [samples], ["FHWC"[-samples[0].ndim :] if samples[0].ndim > 2 else None]
    asked: dict[str, Any] = {"arguments": {}, "per_sample": {}, "per_frame": {}}
    for name, value in (_named(case.operator, *one) for one in {**case.arguments, **case.changes}.items()):
        if name == _INPUTS.get(case.operator):
            inputs.append([np.array(value, np.float32)] * len(samples))
            layouts.append(None)
        elif isinstance(value, PerFrame):
            table = np.asarray(value.values)
            each = table if len(samples) > 1 and len(table) == len(samples) else [table] * len(samples)
            asked["per_frame"][name] = [_as_dali_has_it(name, rows) for rows in each]
        elif isinstance(value, np.ndarray):
            asked["per_sample"][name] = [_as_dali_has_it(name, row) for row in value]
        elif value is not None:
            asked["arguments"][name] = value
    return {"operator": case.peer or case.operator, "inputs": inputs, "layouts": layouts, **asked}


def _named(operator: str, name: str, value: Any) -> tuple[str, Any]:
    """The name and the value that DALI has for an argument."""
    if operator == "slice":
        same = {
            "trim": ("out_of_bounds_policy", "trim_to_shape"),
            "pad_mode": ("out_of_bounds_policy", "pad"),
            "fill_value": ("fill_values", value),
        }
        return same.get(name, (name, value))
    if name == "pad_mode":
        return "border", {"edge": "clamp", "reflect": "reflect_101", "symmetric": "reflect_1001"}.get(
            value, value
        )
    return name, value


def _as_dali_has_it(name: str, values: Any) -> NDArray[Any]:
    found = np.asarray(values)
    if name == "matrix":
        found = found.reshape(*found.shape[:-1], -1, 3)
    return found.astype(np.float32 if found.dtype.kind == "f" else np.int32)


def answered(cases: Mapping[str, Mapping[str, Any]], folder: Path) -> Answers:
    """What DALI makes of cases, by their labels."""
    paths = folder / "cases.pickle", folder / "results.pickle"
    paths[0].write_bytes(pickle.dumps(list(cases.values())))
    command = [os.environ[PYTHON], "-W", "ignore", str(_WORKER), *map(str, paths)]
    subprocess.run(command, check=True, timeout=300)
    found = pickle.loads(paths[1].read_bytes())
    assert found["version"].startswith("2.4."), "what it differs in is said of DALI 2.4"
    results = dict(zip(cases, found["results"], strict=True))
    return Answers(found["operators"], results)
