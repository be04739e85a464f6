"""A full GPU: what is idle goes first, then it is tried once more, then the message says what to do."""

from __future__ import annotations

import sys

import numpy as np
import pytest

from seqpipe.errors import BackendError, DeviceMemoryError, ParameterError
from seqpipe.video.cuda import memory
from seqpipe.video.cuda.memory import idle_bytes, release_idle, total_bytes, when_full
from seqpipe.video.cuda.streams import Streams
from tests.support.fake_cupy import FakeCupy

GIB = 2**30
BYTES = np.dtype(np.uint8)


@pytest.fixture
def gpu(monkeypatch):
    fake = FakeCupy(GIB)
    monkeypatch.setitem(sys.modules, "cupy", fake)
    monkeypatch.setattr(memory, "_release_hooks", {})
    return fake


def test_memory_is_simply_allocated_while_there_is_some(gpu):
    when_full(0, lambda: pytest.fail("nothing has to be given back"))
    assert Streams(0).allocate((2, 3), np.dtype(np.float16)).nbytes == 12
    assert gpu.events == ["empty"]


def test_free_blocks_are_given_back_before_anyone_complains(gpu):
    gpu.used = gpu.idle = GIB
    assert Streams(0).allocate((GIB // 2,), BYTES).nbytes == GIB // 2
    assert gpu.events == ["empty", "free_all_blocks", "empty"]


def test_idle_decoders_are_given_back_before_anyone_complains(gpu):
    gpu.used = GIB

    def give_back():
        gpu.events.append("decoders")
        gpu.used = 0

    when_full(0, give_back)
    when_full(1, lambda: pytest.fail("this is another GPU"))
    assert Streams(0).allocate((GIB,), BYTES).nbytes == GIB
    assert gpu.events == ["empty", "decoders", "free_all_blocks", "empty"]


def test_a_gpu_that_stays_full_is_named_with_what_was_asked_for_and_what_is_free(gpu, monkeypatch):
    monkeypatch.setenv("SEQPIPE_NVDEC_IDLE_GIB", "1.5")
    gpu.used = GIB * 3 // 4
    with pytest.raises(
        DeviceMemoryError,
        match=r"^cuda:0 has no memory for an array \(2, 268435456\) uint8 of 0\.50 GiB; "
        r"allowed: 0\.25 GiB, which are free of 1\.00 GiB\. .*1\.50 GiB \(SEQPIPE_NVDEC_IDLE_GIB\)",
    ) as caught:
        Streams(0).allocate((2, GIB // 4), BYTES)
    assert gpu.events == ["empty", "free_all_blocks", "empty"]
    assert isinstance(caught.value, BackendError)
    # what changes from one moment to the next is not in the fact: by it the reasons of fallbacks are counted
    assert "0.25" not in caught.value.fact
    # and the next one that fits is unaffected
    assert Streams(0).allocate((GIB // 4,), BYTES).nbytes == GIB // 4


def test_other_errors_pass(gpu, monkeypatch):
    def broken(_shape, _dtype):
        raise TypeError("no such dtype")

    monkeypatch.setattr(gpu, "empty", broken)
    with pytest.raises(TypeError, match="no such dtype"):
        Streams(0).allocate((1,), BYTES)
    assert gpu.events == []


def test_a_gpu_without_room_for_a_context_is_named(gpu):
    gpu.starts = False
    with pytest.raises(DeviceMemoryError, match=r"cuda:0 has no memory for a context\. End other programs"):
        Streams(0)


@pytest.mark.parametrize(
    ("text", "expected"), [(None, 4 * GIB), ("0", 0), ("0.5", GIB // 2), ("12", 12 * GIB)]
)
def test_the_memory_of_idle_decoders_is_set_from_outside(monkeypatch, text, expected):
    monkeypatch.delenv("SEQPIPE_NVDEC_IDLE_GIB", raising=False)
    if text is not None:
        monkeypatch.setenv("SEQPIPE_NVDEC_IDLE_GIB", text)
    assert idle_bytes() == expected


@pytest.mark.parametrize("text", ["", "much", "-1", "nan", "inf"])
def test_a_setting_that_is_no_size_is_refused(monkeypatch, text):
    monkeypatch.setenv("SEQPIPE_NVDEC_IDLE_GIB", text)
    with pytest.raises(ParameterError, match=r"SEQPIPE_NVDEC_IDLE_GIB=.*allowed: a number of at least 0 GiB"):
        idle_bytes()


def test_there_may_be_nothing_to_give_back(gpu):
    release_idle()
    assert gpu.events == ["free_all_blocks"]
    assert total_bytes(0) == GIB
