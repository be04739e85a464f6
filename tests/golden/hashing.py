"""Jobs and their entries: what is hashed of a job's parts, and how two entries are compared.

A job is a generator of ``(epoch, parts)``, where parts are arrays, lists of arrays, numbers and texts by name. Its
entry holds, for each epoch and name, a hash of all values in their order:

- Whole numbers, texts and small arrays (indices, frames, labels, timestamps, affines) have one hash, the same on every
  machine; fractions are rounded to four digits after the point.
- Pixels (three axes or more) have a type, a hash of their bytes, and samples of their values. OpenCV and NumPy round
  floats by the instructions of the processor: where the entries were recorded with other libraries or on another
  processor, the samples are compared with a tolerance instead of the bytes.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np

__all__ = ["JOBS", "Job", "differences", "entry_of", "job", "machine"]

_LIBRARIES = ("numpy", "opencv-python-headless", "av", "simplejpeg")
_SAMPLES = 32
_STEP = 0.02  # tolerance of a sample, as a part of the range of all samples
_OUTLIERS = (
    0.1  # part of the samples that may differ by more: pixels at edges that were rounded to the other side
)

Parts = dict[str, Any]


@dataclass(frozen=True)
class Job:
    """A golden job.

    Attributes:
        name: its name in ``hashes.json``.
        run: yields ``(epoch, parts)`` for each batch; called in the folder of the media.
        needs: package without which it cannot run; "" for none.
        changes: what a decided change of the package will alter in it on purpose; "" for nothing.
    """

    name: str
    run: Callable[[], Iterator[tuple[int, Parts]]]
    needs: str = ""
    changes: str = ""


JOBS: dict[str, Job] = {}


def job(name: str, **more: str) -> Callable[[Any], Any]:
    """Declare a generator function as a job."""

    def declared(run: Any) -> Any:
        assert name not in JOBS, f"two jobs are named {name}"
        JOBS[name] = Job(name, run, **more)
        return run

    return declared


def machine() -> str:
    """What the bytes of computed pixels depend on: versions of libraries, and the processor's instructions."""
    found = getattr(np, "_core", None) or np.core
    features = found._multiarray_umath.__cpu_features__
    enabled = ",".join(sorted(name for name, there in features.items() if there))
    versions = " ".join(f"{name}={metadata.version(name)}" for name in _LIBRARIES)
    return f"{versions} instructions={hashlib.sha256(enabled.encode()).hexdigest()[:12]}"


def entry_of(one: Job, media: Path) -> dict[str, dict[str, Any]]:
    """Run a job in the folder of the media, and return the hashes of what it gives."""
    collected: dict[int, dict[str, list[Any]]] = {}
    before = Path.cwd()
    os.chdir(media)
    try:
        for epoch, parts in one.run():
            for name, value in parts.items():
                collected.setdefault(epoch, {}).setdefault(name, []).append(value)
    finally:
        os.chdir(before)
    assert collected, f"the job {one.name} gives nothing"
    return {
        f"epoch {epoch}": {name: _hashed(values) for name, values in sorted(parts.items())}
        for epoch, parts in sorted(collected.items())
    }


def _hashed(values: list[Any]) -> Any:
    arrays = list(_arrays(values))
    return _pixels(arrays) if arrays and arrays[0].ndim > 2 else _digest(repr(_plain(values)).encode())


def _arrays(value: Any) -> Iterator[np.ndarray]:
    """All arrays of a value, in their order."""
    if isinstance(value, (list, tuple)):
        for one in value:
            yield from _arrays(one)
    elif isinstance(value, np.ndarray):
        yield value


def _plain(value: Any) -> Any:
    """A value as nested lists of rounded numbers and texts."""
    if isinstance(value, dict):
        return {str(name): _plain(one) for name, one in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(one) for one in value]
    if isinstance(value, (np.ndarray, np.generic)):
        return _plain(value.tolist())
    return round(value, 4) + 0.0 if isinstance(value, float) else value


def _pixels(arrays: list[np.ndarray]) -> dict[str, str]:
    """Type, bytes and samples of pixels; shapes are listed once for as many arrays as follow one another."""
    kinds: list[list[Any]] = []
    bytes_ = hashlib.sha256()
    for array in arrays:
        kind = f"{array.dtype}{list(array.shape)}"
        if kinds and kinds[-1][1] == kind:
            kinds[-1][0] += 1
        else:
            kinds.append([1, kind])
        canonical = array + np.zeros((), array.dtype) if array.dtype.kind == "f" else array  # no -0.0
        bytes_.update(np.ascontiguousarray(canonical).tobytes())
    flat = np.concatenate([np.asarray(array, np.float64).ravel() for array in arrays])
    places = np.random.Generator(np.random.PCG64(0)).random(_SAMPLES)
    taken = flat[(places * len(flat)).astype(np.int64)]
    return {
        "type": " ".join(f"{count}×{kind}" for count, kind in kinds),
        "bytes": bytes_.hexdigest()[:16],
        "samples": " ".join(f"{value + 0.0:.5g}" for value in taken),
    }


def _digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()[:16]


def differences(recorded: dict[str, Any], found: dict[str, Any], *, same_machine: bool) -> list[str]:
    """What differs between two entries of a job, a line for each epoch and name."""
    lines = []
    for epoch in sorted(recorded.keys() | found.keys()):
        before, now = recorded.get(epoch, {}), found.get(epoch, {})
        for name in sorted(before.keys() | now.keys()):
            if name not in now or name not in before:
                lines.append(f"{epoch}, {name}: only {'recorded' if name in before else 'found'}")
            elif said := _difference(before[name], now[name], same_machine):
                lines.append(f"{epoch}, {name}: {said}")
    return lines


def _difference(before: Any, now: Any, same_machine: bool) -> str:
    if isinstance(before, str) or isinstance(now, str):
        return "" if before == now else "other values"
    if before["type"] != now["type"]:
        return f"was {before['type']}, is {now['type']}"
    if before["bytes"] == now["bytes"]:
        return ""
    old, new = (np.array([float(word) for word in one["samples"].split()]) for one in (before, now))
    step = _STEP * float(np.nanmax(old) - np.nanmin(old)) + 1e-6
    far = float(np.mean(~((np.abs(old - new) <= step) | (np.isnan(old) & np.isnan(new)))))
    if same_machine:
        return f"other bytes; {far:.0%} of the samples differ by more than {step:.3g}"
    return f"{far:.0%} of the samples differ by more than {step:.3g}" if far > _OUTLIERS else ""
