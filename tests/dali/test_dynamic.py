"""Dynamic mode: operators compute at their call, with the results of the same operators in a pipeline."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import seqpipe.dali.experimental.dynamic as ndd
from seqpipe.dali import fn, pipeline_def, types
from seqpipe.errors import ParameterError, StateError

IMAGES = np.random.default_rng(0).integers(0, 256, (3, 6, 8, 3)).astype(np.uint8)


def _both(define: Any, *arrays: Any, layout: str | None = None) -> tuple[list[Any], Any]:
    """Return the samples of a function of ``fn`` or ``ndd`` and nodes, by a pipeline and by dynamic mode."""

    @pipeline_def(batch_size=len(arrays[0]), num_threads=1, device_id=None)
    def piped() -> Any:
        return define(fn, *(fn.external_source([list(one)], cycle=True, layout=layout) for one in arrays))

    (expected,) = piped().run()
    got = define(ndd, *(ndd.as_batch(list(one), layout=layout) for one in arrays))
    assert (expected.layout() or None) == got.layout
    return [np.asarray(one) for one in expected], got


@pytest.mark.parametrize(
    "define",
    [
        lambda api, x: api.resize(x, size=(4, 4)),
        lambda api, x: api.crop_mirror_normalize(x, crop=(4, 4), mean=[1.0, 2, 3], dtype=types.FLOAT),
        lambda api, x: api.reductions.mean(x, axes=(0, 1)),
        lambda api, x: api.flip(x, horizontal=1) / 2 + 1,
    ],
    ids=["resize", "normalize", "reduce", "arithmetic"],
)
def test_results_are_those_of_pipelines(define: Any) -> None:
    expected, got = _both(define, IMAGES, layout="HWC")
    for one, other in zip(expected, got, strict=True):
        np.testing.assert_array_equal(one, other)
        assert one.dtype == np.asarray(other).dtype


def test_a_tensor_is_one_sample_and_a_batch_several() -> None:
    image = ndd.tensor(IMAGES[0], layout="HWC")
    angles = ndd.as_batch([0.0, 90.0])
    assert ndd.flip(image).shape == (6, 8, 3)
    turned = ndd.rotate(image, angle=angles)
    assert turned.batch_size == 2
    assert turned.shape == [(6, 8, 3), (8, 6, 3)]
    assert turned.slice[1:3, ndd.as_batch([0, 1])].shape == [(2, 3), (2, 3)]
    assert (image[1, 2, 0] + 1).item() == IMAGES[0, 1, 2, 0] + 1
    assert ndd.as_tensor(turned, pad=True).shape == (2, 8, 8, 3)
    with pytest.raises(ParameterError, match=r"batches of 2 and 3 samples"):
        ndd.rotate(ndd.as_batch(IMAGES, layout="HWC"), angle=angles)
    with pytest.raises(ValueError, match=r"samples of different shapes"):
        ndd.as_tensor(turned)


def test_types_have_dalis_names() -> None:
    assert ndd.dtype("u8") is ndd.uint8 is ndd.dtype(types.UINT8) is ndd.dtype(np.uint8)
    assert (ndd.float32.bytes, ndd.float16.exponent_bits, str(ndd.bool)) == (4, 5, "bool")
    assert ndd.tensor(types.INTERP_CUBIC).dtype is ndd.InterpType
    assert ndd.tensor([1, 2]).dtype is ndd.int32
    assert ndd.tensor([1.5], dtype=ndd.float64).dtype is ndd.float64
    with pytest.raises(AttributeError, match="no operator 'python_function'"):
        _ = ndd.python_function


def test_readers_and_checkpoints(tmp_path: Any) -> None:
    for n in range(5):
        np.save(tmp_path / f"{n}.npy", np.full(2, n, np.float32))
    options: dict[str, Any] = {"file_root": str(tmp_path), "random_shuffle": True, "seed": 3}
    reader = ndd.readers.Numpy(**options)
    assert reader.get_metadata()["epoch_size"] == 5
    epochs = [
        [int(one[0, 0].item()) for (b,) in reader.next_epoch(2) for one in [ndd.as_tensor(b)]]
        for _ in range(2)
    ]
    assert len(epochs[0]) == len(epochs[1]) == 3
    with pytest.raises(StateError, match="batch_size=None after epochs of 2"):
        next(reader.next_epoch())
    reader, rng = ndd.readers.Numpy(**options), ndd.random.RNG(7)
    for step, (_,) in enumerate(reader.next_epoch(2)):
        if step == 1:
            break
    saved = ndd.checkpoint.Checkpoint()
    saved.register(reader, "reader")
    saved.register(rng)
    path = saved.save(str(tmp_path / "state"))
    rest, number = [np.asarray(ndd.as_tensor(b)) for (b,) in reader.next_epoch(2)], rng()
    again, rng = ndd.readers.Numpy(**options), ndd.random.RNG(0)
    loaded = ndd.checkpoint.Checkpoint()
    loaded.load(path)
    loaded.register(again, "reader")
    loaded.register(rng)
    np.testing.assert_array_equal(rest, [np.asarray(ndd.as_tensor(b)) for (b,) in again.next_epoch(2)])
    assert rng() == number


def test_random_numbers_depend_on_the_generator() -> None:
    def drawn(seed: int) -> Any:
        return ndd.random.uniform(range=(0, 1), shape=[4], batch_size=2, rng=ndd.random.RNG(seed))

    np.testing.assert_array_equal(ndd.as_tensor(drawn(1)), ndd.as_tensor(drawn(1)))
    assert not np.array_equal(ndd.as_tensor(drawn(1)), ndd.as_tensor(drawn(2)))
    ndd.random.set_seed(5)
    first = ndd.random.coin_flip(batch_size=64)
    ndd.random.set_seed(5)
    np.testing.assert_array_equal(ndd.as_tensor(first), ndd.as_tensor(ndd.random.coin_flip(batch_size=64)))


def test_external_sources_and_files(tmp_path: Any) -> None:
    from PIL import Image

    Image.fromarray(IMAGES[0]).save(tmp_path / "a.png")
    np.testing.assert_array_equal(ndd.imread(str(tmp_path / "a.png")), IMAGES[0])
    assert ndd.imread([str(tmp_path / "a.png")] * 2).batch_size == 2
    source = ndd.ExternalSource([np.zeros(2), np.ones(2)], cycle="raise")
    assert [source().shape, source(batch_size=3).shape] == [(2,), [(2,)] * 3]
    with pytest.raises(StopIteration):
        source()
    assert source().shape == (2,)
    with ndd.EvalMode.deferred, ndd.EvalContext(num_threads=1):
        assert ndd.EvalContext.current().num_threads == 1
    assert ndd.Device("cpu:0") == ndd.Device("cpu")
    with pytest.raises(ValueError, match="Invalid device id"):
        ndd.Device("cpu:3")
