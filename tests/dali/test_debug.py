"""Debug mode: operators compute when they are called, with the results of the same pipeline without it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from seqpipe.dali import Pipeline, fn, pipeline_def, types
from seqpipe.dali import pipeline as pipelines
from seqpipe.errors import ParameterError, StateError

OPTIONS: dict[str, Any] = {"batch_size": 3, "num_threads": 1, "device_id": None, "seed": 5}
IMAGES = [np.arange(2 * 3 * 3, dtype=np.uint8).reshape(2, 3, 3) + n for n in range(3)]


def _define(seen: list[Any] | None = None) -> Any:
    images = fn.external_source(lambda info: IMAGES[info.idx_in_batch], batch=False, layout="HWC")
    brighter = fn.cast(images, dtype=types.FLOAT) * fn.random.uniform(range=(1, 2)) + 1
    if seen is not None:
        seen.append(brighter.get().as_array())
    flip = fn.random.coin_flip()
    if flip == 1:
        brighter = fn.flip(brighter)
    return brighter, flip


def test_batches_equal_those_without_debug_mode() -> None:
    seen: list[Any] = []
    plain = pipeline_def(enable_conditionals=True, **OPTIONS)(_define)()
    debugged = pipelines.experimental.pipeline_def(enable_conditionals=True, debug=True, **OPTIONS)(_define)(
        seen
    )
    for batch in range(3):
        for expected, got in zip(plain.run(), debugged.run(), strict=True):
            np.testing.assert_array_equal(expected.as_array(), got.as_array())
        assert len(seen) == batch + 1
    assert isinstance(debugged, Pipeline)


def test_readers_keep_their_place_and_fed_batches_wait(tmp_path: Any) -> None:
    for n in range(4):
        np.save(tmp_path / f"{n}.npy", np.full(2, n))

    @pipeline_def(debug=True, **{**OPTIONS, "batch_size": 2})
    def define() -> Any:
        return fn.readers.numpy(file_root=str(tmp_path)), fn.external_source(name="fed") + 1

    pipe = define()
    for first in (0, 2):
        pipe.feed_input("fed", [np.int32(first), np.int32(first)])
        volumes, fed = pipe.run()
        np.testing.assert_array_equal(volumes.as_array()[:, 0], [first, first + 1])
        np.testing.assert_array_equal(fed.as_array(), [first + 1] * 2)


def test_failures() -> None:
    with pytest.raises(ParameterError, match=r"get\(\) of .*debug=True"), Pipeline(**OPTIONS):
        fn.random.uniform().get()
    calls = iter([fn.external_source, fn.readers.file])

    @pipeline_def(debug=True, **OPTIONS)
    def define() -> Any:
        return next(calls)(source=lambda: [np.zeros(1)] * 3)

    pipe = define()
    pipe.run()
    with pytest.raises(StateError, match=r"fn\.readers\.file, and was fn\.external_source"):
        pipe.run()
