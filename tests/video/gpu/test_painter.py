"""The painter's own logic, on streams and events that take the GPU's place."""

from __future__ import annotations

import weakref
from collections import deque
from types import SimpleNamespace

import pytest

from seqpipe.video.convert.surface import surface_format
from seqpipe.video.cuda.device_surface import SurfaceShape, frames_per_launch
from seqpipe.video.cuda.painter import DevicePainter

SHAPE = SurfaceShape(4096, 4096, 2048, surface_format("yuv420p"), interleaved=True)


class Picture:
    """What owns a surface's memory: the GPU's picture, or a buffer that others wait for."""


@pytest.fixture
def gpu():
    """What lives, by number, and what did so whenever the GPU was waited for."""
    living = weakref.WeakValueDictionary()
    waited = []
    event = SimpleNamespace(synchronize=lambda: waited.append(sorted(living)))
    return SimpleNamespace(living=living, waited=waited, event=lambda: event, synchronize=event.synchronize)


@pytest.fixture
def painter(gpu):
    made = DevicePainter.__new__(DevicePainter)
    made._streams, made._stream, made._gathered, made._launched = gpu, gpu, [], deque()
    made._frames_per_launch = frames_per_launch(SHAPE.width, SHAPE.height)
    return made


def put(painter, gpu, number):
    picture = gpu.living[number] = Picture()
    painter.put(SHAPE.surface(number, (0, 4096 * 2048), picture), [(lambda *_: None, 0)])


def test_surfaces_live_until_the_gpu_is_done_with_them(painter, gpu):
    """Let go before that, a buffer may be filled anew by another thread while the GPU still reads it."""
    assert frames_per_launch(SHAPE.width, SHAPE.height) == 1
    for number in range(3):
        put(painter, gpu, number)
    assert gpu.waited == [[0, 1], [1, 2]]
    assert sorted(gpu.living) == [2]
    painter.finish()
    assert gpu.waited[2:] == [[2]]
    assert not gpu.living
