"""How batches of external sources are copied: once, by threads, into memory that is used again; cropped on the way."""

from __future__ import annotations

import ctypes
import gc
import time
from contextlib import nullcontext
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from seqpipe import fn
from seqpipe.dali import fn as dali
from seqpipe.dali import pipeline_def, types
from seqpipe.dali.sources import staging as staging_module
from seqpipe.dali.sources.staging import Staging
from seqpipe.errors import ParameterError

IMAGES = np.random.default_rng(3).integers(0, 255, (5, 40, 60, 3), np.uint8)


def built(function, images=IMAGES, count=3, **options):
    """The pipeline of a function of one external source, and what it gives for some batches."""

    def program():
        return function(dali.external_source(lambda: images, layout="HWC", **options))

    pipe = pipeline_def(program, batch_size=5, num_threads=1, device_id=None)()
    return pipe, [[one.as_array().copy() for one in pipe.run()] for _ in range(count)]


def remarks(pipe, tmp_path):
    pipe.save_graph_to_dot_file(str(tmp_path / "graph.dot"))
    return [line for line in (tmp_path / "graph.dot").read_text().splitlines() if line.startswith("//")]


@pytest.mark.parametrize("images", [IMAGES, IMAGES.astype(np.float32), list(IMAGES), IMAGES[:, ::-1, 3:]])
@pytest.mark.parametrize("place", [{}, {"crop_pos_x": 0.0, "crop_pos_y": 1.0}, {"crop_pos_x": 0.31}])
def test_a_crop_is_copied_alone_and_gives_what_a_crop_of_all_gives(images, place, tmp_path):
    pipe, batches = built(lambda x: dali.rotate(dali.crop(x, crop=(20, 30), **place), angle=20.0), images)
    assert len(remarks(pipe, tmp_path)) == 1
    assert "what Crop(crop=(20, 30)" in remarks(pipe, tmp_path)[0]
    expected = fn.rotate(
        fn.crop(np.stack(list(images)), crop=(20, 30), layout="NHWC", **place), angle=20.0, layout="NHWC"
    )
    for (found,) in batches:
        np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize(
    "options",
    [
        {"crop": (20, 30), "mean": [120.0], "std": [50.0]},
        {"crop": (20, 30), "mirror": 1, "crop_pos_x": 0.2, "dtype": types.FLOAT16},
        {"crop": (20, 30), "mirror": "drawn", "output_layout": "HWC", "crop_pos_y": 0.9},
        {"mirror": "drawn"},
    ],
)
def test_operators_that_crop_first_read_only_the_crop(options, tmp_path):
    def function(x):
        drawn = (
            dali.random.coin_flip(seed=6) if options.get("mirror") == "drawn" else options.get("mirror", 0)
        )
        return dali.crop_mirror_normalize(x, **{**options, "mirror": drawn})

    pipe, cropped = built(function)
    _, whole = built(lambda x: (function(x), x))  # another user, so that all is copied
    assert "CropMirrorNormalize" in remarks(pipe, tmp_path)[0]
    side = 30 if "crop" in options else 60
    (source,) = sources(pipe)
    shape = source.host_copies[0]._windows[(40, 60, 3), np.dtype(np.uint8), "HWC"].window[1]
    assert shape.stop - shape.start == side
    for (found,), (expected, _) in zip(cropped, whole, strict=True):
        np.testing.assert_array_equal(found, expected)
        assert found.dtype == expected.dtype


def sources(pipe):
    return [one for one in pipe.executor.sources if hasattr(one, "host_copies")]


def test_images_of_different_sizes_are_one_array_behind_a_crop(tmp_path):
    images = [IMAGES[n, : 40 - n, : 60 - 3 * n] for n in range(5)]
    pipe, ((found,), *_) = built(lambda x: dali.crop(x, crop=(20, 30)), images)
    assert len(remarks(pipe, tmp_path)) == 1
    np.testing.assert_array_equal(found, [fn.crop(one, crop=(20, 30), layout="HWC") for one in images])


@pytest.mark.parametrize(
    "function",
    [
        lambda x: (dali.crop(x, crop=(20, 30)), dali.flip(x)),
        lambda x: (dali.crop(x, crop=(20, 30)), x),
        lambda x: dali.crop(dali.flip(x, horizontal=1), crop=(20, 30)),
        lambda x: dali.crop(x, crop=(20, 30), crop_pos_x=dali.random.uniform(range=(0.0, 1.0))),
        lambda x: dali.slice(x, (0.1, 0.2), (0.5, 0.5)),
        lambda x: dali.crop(dali.slice(x, (0.1, 0.2), (0.5, 0.5)), crop=(10, 10)),
    ],
    ids=["two users", "an output", "behind a flip", "drawn", "slice", "behind a slice"],
)
def test_all_is_copied_where_more_than_a_crop_is_needed(function, tmp_path):
    pipe, _ = built(function)
    assert not [line for line in remarks(pipe, tmp_path) if "Crop" in line]


def test_a_window_larger_than_the_images_is_refused_where_it_stands():
    with pytest.raises(ParameterError, match=r"crop.*50"):
        built(lambda x: dali.crop(x, crop=(50, 30)))


@pytest.mark.parametrize("crop", [False, True])
def test_a_source_may_use_its_memory_again(crop):
    memory = np.zeros((64, 64, 64, 3), np.float32)

    def source(number):
        memory[...] = number
        return memory

    def program():
        x = dali.external_source(source, layout="HWC")
        return dali.crop(x, crop=(48, 48)) if crop else x

    pipe = pipeline_def(program, batch_size=64, num_threads=1, device_id=None)()
    held = [pipe.run()[0].as_array() for _ in range(6)]
    assert [np.unique(one).tolist() for one in held] == [[n] for n in range(6)], "outputs stay what they are"


def test_memory_is_used_again_when_nobody_refers_to_it():
    staging, samples = Staging(), np.ones((64, 32, 32, 3), np.float32)
    first = staging.copy(samples)
    address, view = first.ctypes.data, first[3:5, 1:]
    del first
    gc.collect()
    second = staging.copy(samples * 2)
    assert second.ctypes.data != address, "a view of it is held"
    assert (view == 1).all()
    del view
    third = staging.copy(samples[:32])
    assert third.ctypes.data == address, "a smaller batch fits"
    assert (third == 1).all()
    assert (second == 2).all()


def test_memory_stays_the_same_from_the_third_batch_on():
    seen, rng = set(), np.random.default_rng(5)

    def source():
        time.sleep(rng.choice((0.0, 0.004)))  # at times the consumer waits, at times the queue is full
        return np.zeros((5, 100, 100, 3), np.float32)

    pipe = pipeline_def(
        lambda: dali.external_source(source, layout="HWC"), batch_size=5, num_threads=1, device_id=None
    )()
    for number in range(60):
        (found,) = pipe.run()
        time.sleep(rng.choice((0.0, 0.004)))
        if number > 3:
            seen.add(found.as_array().ctypes.data)
    assert len(seen) <= 6, "two in the queue, two at the consumer, one at each stage"


@given(
    st.integers(1, 40),
    st.tuples(st.integers(1, 40), st.integers(1, 30)),
    st.sampled_from([np.uint8, np.float32, np.bool_, np.int64]),
    st.booleans(),
    st.data(),
)
def test_any_window_of_any_samples(count, sides, dtype, listed, data):
    begin = tuple(data.draw(st.integers(0, side - 1)) for side in sides)
    window = tuple(
        slice(n, data.draw(st.integers(n + 1, side))) for n, side in zip(begin, sides, strict=True)
    )
    samples = np.arange(count * sides[0] * sides[1] * 3).reshape(count, *sides, 3).astype(dtype)
    staging = Staging()
    found = staging.copy(list(samples) if listed else samples, (*window, slice(None)))
    np.testing.assert_array_equal(found, samples[(slice(None), *window)])
    assert found.dtype == samples.dtype


class FakeCuda:
    """What of CuPy and of the streams the staging uses; copies are made when they are waited for."""

    def __init__(self):
        self.cuda = self.runtime = self
        self.calls, self.pending = [], []

    class CUDARuntimeError(Exception):
        """As CuPy's."""

    def Device(self, _number):
        return nullcontext()

    def Event(self, **_):
        return self

    def alloc_pinned_memory(self, size):
        self.calls.append("lock")
        return bytearray(size)

    def record(self, stream):
        assert stream is self

    def synchronize(self):
        self.calls.append("wait")
        for job in self.pending:
            ctypes.memmove(*job)
        self.pending.clear()

    def ready(self):
        return nullcontext()

    def allocate(self, shape, dtype):
        out = np.empty(shape, dtype)

        def copy(address, size, stream):
            self.calls.append("copy")
            assert stream is self
            self.pending.append((out.ctypes.data, address, size))

        return SimpleNamespace(array=out, data=SimpleNamespace(copy_from_host_async=copy))

    def admit(self):
        self.calls.append("admit")

    def current(self):
        return self


@pytest.fixture
def cuda(monkeypatch):
    fake = FakeCuda()
    monkeypatch.setattr(staging_module, "load_cupy", lambda: fake)
    monkeypatch.setattr(staging_module, "Streams", lambda _, **__: fake)
    return fake


def test_uploads_are_over_before_page_locked_memory_is_used_again(cuda):
    staging, samples = Staging(0), np.ones((8, 64, 64, 3), np.float32)
    addresses, outs = set(), []
    for number in range(5):
        copied = staging.copy(samples * number)
        addresses.add(copied.ctypes.data)
        outs.append(staging.upload(copied))
        del copied
    assert [one.array.max() for one in outs] == list(range(5))
    assert len(addresses) == 1
    assert cuda.calls == ["lock", *["admit", "copy", "wait"] * 5]
    held = staging.copy(samples)
    staging.close()
    assert (held == 1).all()


def test_page_locked_memory_that_is_held_is_not_used_again(cuda):
    staging, samples = Staging(0), np.ones((8, 64, 64, 3), np.float32)
    held = [staging.copy(samples * number) for number in range(6)]
    assert [one.max() for one in held] == list(range(6))
    assert len({one.ctypes.data for one in held}) == 6


def test_memory_that_cannot_be_page_locked_is_told_and_replaced(cuda, monkeypatch, caplog):
    def full(size):
        raise cuda.CUDARuntimeError("no memory")

    monkeypatch.setattr(cuda, "alloc_pinned_memory", full)
    with caplog.at_level("WARNING"):
        found = Staging(0).copy(np.ones((8, 64, 64, 3), np.float32))
    assert (found == 1).all()
    assert "cannot be page-locked" in caplog.text
