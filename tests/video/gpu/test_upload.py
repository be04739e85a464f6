"""Buffers that surfaces of the CPU are uploaded by, on memory that takes the GPU's place."""

from __future__ import annotations

import sys

import numpy as np
import pytest

from seqpipe.video.convert.surface import Surface, surface_format
from seqpipe.video.cuda import device_surface
from seqpipe.video.cuda.device_surface import Uploader
from tests.support.fake_cupy import FakeCupy
from tests.support.interrupts import lost_interrupts

SURFACE = Surface(0, (np.full((96, 128), 7, np.uint8),), surface_format("gray"))


class Memory:
    """The GPU's; it remembers what is copied there."""

    def __init__(self):
        self.ptr, self.copied = 4096, 0

    def copy_from_host_async(self, _address, size, _stream):
        self.copied += size


@pytest.fixture
def made(monkeypatch):
    """The buffers that were made, and an uploader that makes them."""
    found, free, cupy = [], device_surface._Free(), FakeCupy(2**30)
    cupy.cuda.alloc_pinned_memory = bytearray
    cupy.cuda.alloc = lambda _size: found.append(Memory()) or found[-1]
    monkeypatch.setitem(sys.modules, "cupy", cupy)
    monkeypatch.setattr(device_surface, "_free", lambda _device: free)
    return found


def test_a_buffer_is_used_again_once_its_surface_is_gone(made):
    uploader = Uploader(0)
    for _ in range(3):
        uploader(SURFACE, None)
    assert [memory.copied for memory in made] == [3 * 96 * 256]


def test_of_many_that_were_in_use_at_once_some_are_kept(made, monkeypatch):
    monkeypatch.setattr(device_surface, "_IDLE_BYTES", 5 << 15)
    uploader = Uploader(0)
    surfaces = [uploader(SURFACE, None) for _ in range(12)]
    assert len(made) == 12
    surfaces.clear()
    surfaces.extend(uploader(SURFACE, None) for _ in range(6))
    assert len(made) == 13


def test_no_interrupt_is_lost_where_a_surface_is_let_go(made, monkeypatch):
    monkeypatch.setattr(sys, "unraisablehook", lambda _: None)
    uploader = Uploader(0)
    assert lost_interrupts(lambda: uploader(SURFACE, None) and None) == []
    assert made
