"""How many functions an eager call on a tiny array goes through, and the queueing of one on a GPU.

``python -m benchmarks.ops --device cpu --job eager`` says how long that takes: 17 µs for the 52 of a flip. Their
number is the same on every machine, however busy it is.
"""

from __future__ import annotations

import gc
import sys

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


def functions(call):
    """How many functions, of Python and of C, a call calls when it is made again."""
    call()
    called = 0

    def count(frame, event, argument):
        nonlocal called
        called += event in ("call", "c_call")

    before = sys.getprofile()
    gc.collect()
    gc.disable()  # finalizers, and callbacks of other libraries, are no part of the call
    sys.setprofile(count)
    try:
        call()
    finally:
        sys.setprofile(before)
        gc.enable()
    return called


def eager(call):
    return lambda: call(X)


def queued(op):
    """A call of 8×16 frames for a GPU that does nothing: what is left is the host's part."""
    return lambda: apply(op, FRAMES, backend="cuda", device=Nothing())


# a tenth more than there are
CALLS = {
    "flip": (lambda: fn.flip(X, horizontal=True), 57),
    "brightness_contrast": (lambda: fn.brightness_contrast(X, brightness=1.5, contrast=0.5), 58),
    "crop": (lambda: fn.crop(X, crop=(4, 4)), 79),
    "rotate": (eager(ops.Rotate(angle=20.0)), 78),
    "resize": (eager(ops.Resize(size=(4, 6))), 91),
    "random": (eager(ops.Brightness(brightness=(0.5, 2.0))), 81),
    "policy": (eager(ops.RandAugment(seed=1)), 135),
    "queued crop": (queued(ops.Crop(crop=(4, 4))), 106),
    "queued resize": (queued(ops.Resize(size=(4, 4))), 106),
    "queued blur": (queued(ops.GaussianBlur(sigma=1.5)), 108),
    "queued chain": (lambda: CHAIN(FRAMES, backend="cuda", device=Nothing()), 530),
    "queued policy": (queued(ops.RandAugment(seed=1)), 1100),
    "queued random": (queued(ops.BrightnessContrast(brightness=(0.5, 2.0), contrast=(0.5, 2.0))), 134),
}


@pytest.mark.parametrize("name", CALLS)
def test_a_call_costs_little(name):
    call, most = CALLS[name]
    assert functions(call) <= most


def test_what_is_counted():
    nothing = functions(lambda: None)
    assert nothing in (1, 2), "the call, and from Python 3.11 on the end of counting"
    assert functions(lambda: len(sorted([2, 1]))) == nothing + 2
