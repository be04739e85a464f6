"""The cost of an eager call on a tiny array, and of queueing one on a GPU, beside that of NumPy's own."""

from __future__ import annotations

import time
import timeit

import numpy as np
import pytest

from seqpipe import fn, ops
from seqpipe.ops import apply

X = np.zeros((8, 8, 3), np.uint8)
FRAMES = np.zeros((8, 16, 24, 28, 3), np.uint8)
CHAIN = ops.Chain(
    ops.RandomResizedCrop(size=(16, 16)), ops.Flip(p=0.5), ops.CropMirrorNormalize(mean=120.0, std=60.0)
)


class Nothing:
    """A device that does nothing."""

    argument_bytes = 4096

    def launch(self, *given):
        pass


def microseconds(call, number=100):
    call()
    return min(timeit.repeat(call, number=number, repeat=20, timer=time.process_time)) / number * 1e6


def eager(call):
    return lambda: call(X)


def queued(op):
    """A call of 8×16 frames for a GPU that does nothing: what is left is the host's part."""
    return lambda: apply(op, FRAMES, backend="cuda", device=Nothing())


CALLS = {
    "flip": (lambda: fn.flip(X, horizontal=True), 40),
    "brightness_contrast": (lambda: fn.brightness_contrast(X, brightness=1.5, contrast=0.5), 40),
    "crop": (lambda: fn.crop(X, crop=(4, 4)), 40),
    "rotate": (eager(ops.Rotate(angle=20.0)), 60),
    "resize": (eager(ops.Resize(size=(4, 6))), 60),
    "random": (eager(ops.Brightness(brightness=(0.5, 2.0))), 60),
    "queued crop": (queued(ops.Crop(crop=(4, 4))), 40),
    "queued resize": (queued(ops.Resize(size=(4, 4))), 40),
    "queued blur": (queued(ops.GaussianBlur(sigma=1.5)), 40),
    "queued chain": (
        lambda: CHAIN(FRAMES, backend="cuda", device=Nothing()),
        240,
    ),
    "queued random": (queued(ops.BrightnessContrast(brightness=(0.5, 2.0), contrast=(0.5, 2.0))), 120),
}


@pytest.mark.parametrize("name", CALLS)
def test_a_call_costs_little(name):
    """Microseconds where NumPy adds two tiny arrays in half a microsecond, in proportion where that takes longer."""
    call, limit = CALLS[name]
    found = []
    for _ in range(5):  # what else the machine does disturbs some of the attempts
        yardstick = max(0.5, microseconds(lambda: np.add(X, X)))
        found.append(microseconds(call) * 0.5 / yardstick)
        if found[-1] < limit:
            return
    pytest.fail(f"{min(found):.1f} µs at best")
