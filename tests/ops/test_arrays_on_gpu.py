"""Operators on arrays as a whole give on a GPU what they give on the CPU, and leave it there."""

from __future__ import annotations

import numpy as np
import pytest

from seqpipe import Sequence, fn
from tests.support.operators import compare, cupy

X = np.random.default_rng(0).integers(0, 256, (3, 5, 7, 3), dtype=np.uint8)
POINTS = np.random.default_rng(1).normal(size=(4, 6, 2)).astype(np.float32)
LABELS = np.array([[1, 0, 3], [-1, 7, 2]])
EXACT = {
    "transpose": lambda x: fn.transpose(x, output_layout="FCHW"),
    "reshape": lambda x: fn.reshape(x, rel_shape=(1, -1)),
    "squeeze": lambda x: fn.squeeze(x[:1], axis_names="F"),
    "stack": lambda x: fn.stack(x, x, axis=-1),
    "cat": lambda x: fn.cat(x, x[:1], axis_name="F"),
    "cat of columns": lambda x: fn.cat(x, x[:, :, :2], x[:, :, :1], axis=2),
    "cat of channels": lambda x: fn.cat(x, x, axis=-1),
    "cat of floats": lambda x: fn.cat(x.astype("float64"), x.astype("float64"), axis=1),
    "cat at odd places": lambda x: fn.cat(x.reshape(-1)[1:9], x.reshape(-1)[3:11]),
    "cat of what lies apart": lambda x: fn.cat(x[:, ::2], x, axis=1),
    "sum": lambda x: fn.reductions.sum(x, axis_names="HW"),
    "min": lambda x: fn.reductions.min(x, axes=(0, -1), keep_dims=True),
    "max": lambda x: fn.reductions.max(x),
    "mean": lambda x: fn.reductions.mean(x, axis_names="HWC"),
}
NEAR = {
    "std_dev": lambda x: fn.reductions.std_dev(x, axis_names="HW", ddof=1),
    "variance": lambda x: fn.reductions.variance(x, x.mean((1, 2)), axes=(1, 2)),
    "rms": lambda x: fn.reductions.rms(x),
    "mean_square": lambda x: fn.reductions.mean_square(x, axes=0),
    **{
        f"{name} of many {dtype}": lambda x, name=name, dtype=dtype: getattr(fn.reductions, name)(
            x.repeat(400, 1).astype(dtype), axes=(1, 2, 3)
        )
        for name in ("std_dev", "variance", "rms", "mean_square")
        for dtype in ("bool", "uint8", "int16", "float16", "float32")
    },
    "std_dev of very many": lambda x: fn.reductions.std_dev(x.repeat(10000, 1), ddof=1),
    "normalize over columns": lambda x: fn.normalize(x, axis_names="W", epsilon=1.0),
    "normalize a sequence": lambda x: fn.normalize(x),
    "normalize a batch": lambda x: fn.normalize([x, x[:2]], axis_names="FHW", batch=True)[1],
    "normalize what is kept": lambda x: fn.normalize([x, x + 1], axis_names="HW", batch=True)[1],
}


def on_gpu(call, x):
    found = call(cupy().asarray(x))
    assert isinstance(found, cupy().ndarray)
    return found.get()


@pytest.mark.gpu
@pytest.mark.parametrize("name", EXACT)
def test_what_is_moved_or_counted_is_the_same(name):
    compare(on_gpu(EXACT[name], X), EXACT[name](X))


@pytest.mark.gpu
@pytest.mark.parametrize("name", NEAR)
def test_what_is_added_up_in_another_order_is_near(name):
    wanted = NEAR[name](X)
    found = on_gpu(NEAR[name], X)
    assert found.dtype == wanted.dtype
    np.testing.assert_allclose(found, wanted, rtol=2e-6, atol=2e-6)


@pytest.mark.gpu
def test_labels_and_points():
    for labels in (LABELS, X, X.astype("uint64")):
        for more in ({}, {"axis": 0, "dtype": "uint8", "on_value": 300.0}, {"axis": 1, "dtype": "float16"}):
            compare(
                on_gpu(lambda x, more=more: fn.one_hot(x, num_classes=4, **more), labels),
                fn.one_hot(labels, num_classes=4, **more),
            )
    for more in (
        {"T": 1.5, "M": (0, -1, 1, 0)},
        {"M": 0.3, "dtype": "int16"},
        {"T": ((-1, 1), (-1, 1)), "per_frame": True},
    ):
        compare(
            on_gpu(lambda x, more=more: fn.coord_transform(x, **more), POINTS),
            fn.coord_transform(POINTS, **more),
            (1, 1),
        )


@pytest.mark.gpu
def test_sequences_and_tensors_stay_there(torch):
    clip = fn.transpose(Sequence(cupy().asarray(X), frames=[1, 2, 3]), output_layout="FCHW")
    assert (clip.device, clip.layout, clip.frames.tolist()) == ("cuda:0", "FCHW", [1, 2, 3])
    tensor = torch.from_numpy(X).cuda()
    for found, wanted in (
        (fn.transpose(tensor, perm=(0, 3, 1, 2)), X.transpose(0, 3, 1, 2)),
        (fn.reductions.sum(tensor, axes=0, dtype="int64"), X.sum(0, dtype=np.int64)),
        (fn.cat(tensor, tensor, axis=1), np.concatenate([X, X], 1)),
    ):
        assert found.device.type == "cuda"
        compare(found.cpu().numpy(), wanted)
