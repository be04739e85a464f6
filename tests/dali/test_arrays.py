"""DALI's operators on arrays are NumPy's, for samples of one shape and of several."""

from __future__ import annotations

import numpy as np
import pytest

from seqpipe.dali import fn, types
from seqpipe.errors import ParameterError
from tests.dali.conftest import run

SHAPES = {"one shape": [(2, 3, 4)] * 3, "several": [(2, 3, 4), (1, 5, 4), (3, 3, 4)]}


def samples_of(kind, dtype="int16"):
    rng = np.random.default_rng(0)
    return [rng.integers(0, 9, shape).astype(dtype) for shape in SHAPES[kind]]


def given(function, samples, layout="HWC"):
    """What a function of a node gives for samples, and the layout of it."""
    ((output,),) = run(
        lambda: function(fn.external_source(lambda: samples, layout=layout)), batch_size=len(samples)
    )
    return [output.at(number) for number in range(len(samples))], output.layout()


MATRIX, ADDED = np.arange(8.0).reshape(2, 4), np.array([0.5, -1.0])
CASES = {
    "transpose": (lambda x: fn.transpose(x), lambda x: x.T, "CWH"),
    "perm": (lambda x: fn.transpose(x, perm=[2, 0, 1]), lambda x: x.transpose(2, 0, 1), "CHW"),
    "perm without layout": (
        lambda x: fn.transpose(x, perm=[1, 0, 2], transpose_layout=False),
        lambda x: x.swapaxes(0, 1),
        "HWC",
    ),
    "perm with a layout": (
        lambda x: fn.transpose(x, perm=[1, 0, 2], output_layout="ABC"),
        lambda x: x.swapaxes(0, 1),
        "ABC",
    ),
    "expand": (lambda x: fn.expand_dims(x, axes=[0, 3]), lambda x: x[None, :, :, None], ""),
    "expand by name": (
        lambda x: fn.expand_dims(x, axes=[3, 0], new_axis_names="DF"),
        lambda x: x[None, :, :, None],
        "FHWDC",
    ),
    "squeeze": (
        lambda x: fn.squeeze(fn.expand_dims(x, axes=[1], new_axis_names="D"), axis_names="D"),
        lambda x: x,
        "HWC",
    ),
    "stack": (lambda x: fn.stack(x, x + 1, axis=-1), lambda x: np.stack([x, x + 1], -1), ""),
    "stack by name": (
        lambda x: fn.stack(x, x, axis=1, axis_name="D"),
        lambda x: np.stack([x, x], 1),
        "HDWC",
    ),
    "cat": (lambda x: fn.cat(x, x, axis=-2), lambda x: np.concatenate([x, x], 1), "HWC"),
    "cat by name": (lambda x: fn.cat(x, x, axis_name="C"), lambda x: np.concatenate([x, x], 2), "HWC"),
    "reshape": (lambda x: fn.reshape(x, shape=[-1, 2]), lambda x: x.reshape(-1, 2), ""),
    "reshape by parts": (
        lambda x: fn.reshape(x, rel_shape=[1, -1, 0.5], layout="XYZ"),
        lambda x: x.reshape(x.shape[0], -1, 2),
        "XYZ",
    ),
    "reshape by places": (
        lambda x: fn.reshape(x, src_dims=[1, 0, -1, 2]),
        lambda x: x.reshape(x.shape[1], x.shape[0], 1, 4),
        "",
    ),
    "bytes": (
        lambda x: fn.reinterpret(x, dtype=types.UINT8, rel_shape=[1, 1, 1]),
        lambda x: x.copy().view(np.uint8),
        "HWC",
    ),
    "pad": (
        lambda x: fn.pad(x, axis_names="WC", shape=[1, 1], align=[4, 3], fill_value=-7),
        lambda x: np.pad(x, [(0, 0), (0, -x.shape[1] % 4), (0, 2)], constant_values=-7),
        "HWC",
    ),
    "pad to a shape": (
        lambda x: fn.pad(x, axes=[0, 2], shape=[5, 2]),
        lambda x: np.pad(x, [(0, 5 - len(x)), (0, 0), (0, 0)]),
        "HWC",
    ),
    "table": (
        lambda x: fn.lookup_table(x, keys=[2, 5, 8], values=[20, 50, 80], default_value=-1),
        lambda x: np.select([x == 2, x == 5, x == 8], [20.0, 50.0, 80.0], -1.0),
        "HWC",
    ),
    "one hot": (
        lambda x: fn.one_hot(x, num_classes=9, on_value=3, off_value=-2, axis=1),
        lambda x: np.where(x[:, None] == np.arange(9).reshape(1, 9, 1, 1), 3.0, -2.0),
        "",
    ),
    "one hot by default": (
        lambda x: fn.one_hot(x, num_classes=9),
        lambda x: (x[..., None] == np.arange(9)).astype(np.float32),
        "",
    ),
    "points": (
        lambda x: fn.coord_transform(x, M=MATRIX.ravel().tolist(), T=ADDED.tolist()),
        lambda x: x @ MATRIX.T + ADDED,
        "HWC",
    ),
    "points by one matrix": (
        lambda x: fn.coord_transform(x, MT=np.column_stack([MATRIX, ADDED]).ravel().tolist()),
        lambda x: x @ MATRIX.T + ADDED,
        "HWC",
    ),
    "points by a factor": (lambda x: fn.coord_transform(x, M=3.0), lambda x: x * 3.0, "HWC"),
    "mean": (lambda x: fn.reductions.mean(x, axis_names="W"), lambda x: x.mean(1), "HC"),
    "greatest": (
        lambda x: fn.reductions.max(x, axes=[0, 2], keep_dims=True),
        lambda x: x.max((0, 2), keepdims=True),
        "HWC",
    ),
    "sum of all": (lambda x: fn.reductions.sum(x), lambda x: x.sum(), ""),
    "normalized by numbers": (
        lambda x: fn.normalize(x, mean=np.arange(4.0), stddev=[1.0, 2.0, 3.0, 4.0], scale=2, shift=3),
        lambda x: (x - np.arange(4)) / np.arange(1, 5) * 2 + 3,
        "HWC",
    ),
    "normalized by a node": (
        lambda x: fn.normalize(
            x,
            mean=fn.reductions.mean(x, axis_names="HW", keep_dims=True),
            axis_names="HW",
            **{"ddof": 1, "epsilon": 0.5, "scale": 2, "shift": 3},
        ),
        lambda x: (x - x.mean((0, 1))) / np.sqrt(x.var((0, 1), ddof=1) + 0.5) * 2 + 3,
        "HWC",
    ),
    "normalized by a spread": (
        lambda x: fn.normalize(
            x, stddev=fn.reductions.max(x, axis_names="HW", keep_dims=True), axis_names="HW"
        ),
        lambda x: np.divide(
            x - x.mean((0, 1)), x.max((0, 1)), out=np.zeros(x.shape), where=x.max((0, 1)) + 0 * x > 0
        ),
        "HWC",
    ),
    "mirrored points": (
        lambda x: fn.coord_flip(x[:, :, :2] * 0.1, flip_x=0, flip_y=1, center_y=0.3),
        lambda x: np.stack([x[..., 0] * 0.1, 0.6 - x[..., 1] * 0.1], -1),
        "HWC",
    ),
    "like": (lambda x: fn.full_like(x, 7, dtype=types.FLOAT), lambda x: np.full(x.shape, 7.0), "HWC"),
    "ones like": (lambda x: fn.ones_like(x), np.ones_like, "HWC"),
}


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("kind", SHAPES)
def test_what_numpy_gives(kind, name):
    function, judge, layout = CASES[name]
    samples = samples_of(kind)
    found, letters = given(function, samples)
    assert letters == layout
    for one, sample in zip(found, samples, strict=True):
        wanted = np.asarray(judge(sample))
        assert one.shape == wanted.shape
        np.testing.assert_allclose(one, wanted, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("kind", SHAPES)
def test_samples_and_frames_are_picked(kind):
    samples = samples_of(kind)
    found, _ = given(lambda x: fn.permute_batch(x, indices=[2, 0, 2]), samples)
    assert all(np.array_equal(one, samples[n]) for one, n in zip(found, (2, 0, 2), strict=True))
    ((first, last),) = run(
        lambda: fn.element_extract(fn.external_source(lambda: samples, layout="FHW"), element_map=[0, 0]),
        batch_size=3,
    )
    assert (first.layout(), last.layout()) == ("HW", "HW")
    assert all(np.array_equal(first.at(n), samples[n][0]) for n in range(3))
    assert all(np.array_equal(last.at(n), samples[n][0]) for n in range(3))


def test_the_largest_shape_of_the_batch_is_that_of_all():
    samples = samples_of("several")
    found, _ = given(lambda x: fn.pad(x, fill_value=1), samples)
    for one, sample in zip(found, samples, strict=True):
        widths = [(0, n - m) for n, m in zip((3, 5, 4), sample.shape, strict=True)]
        assert np.array_equal(one, np.pad(sample, widths, constant_values=1))


def test_regions_are_pasted_in_the_order_of_the_list():
    images = [np.full((6, 8, 3), number + 1, np.uint8) for number in range(2)]

    def results():
        batch = fn.external_source(lambda: images, layout="HWC")
        return fn.multi_paste(
            batch,
            in_ids=np.array([0, 1]),
            output_size=(10, 12),
            in_anchors=np.array([[0, 0], [2, 3]]),
            shapes=np.array([[6, 8], [4, 5]]),
            out_anchors=np.array([[1, 2], [5, 6]]),
        )

    ((output,),) = run(results, batch_size=2)
    wanted = np.zeros((10, 12, 3))
    wanted[1:7, 2:10] = 1
    wanted[5:9, 6:11] = 2
    assert all(np.array_equal(output.at(number), wanted) for number in range(2))
    with pytest.raises(
        ParameterError, match=r"a region of 6×8 pixels at \(0, 0\) of an image of \(6, 8\), for \(5, 0\)"
    ):
        given(lambda x: fn.multi_paste(x, output_size=(10, 12), out_anchors=np.array([[5, 0]])), images)


def test_arrays_of_one_value():
    def results():
        return (
            fn.zeros(shape=[2, 3]),
            fn.ones(shape=[2], dtype=types.UINT8),
            fn.full(2.5, shape=[3]),
            fn.constant(idata=[1, 2, 3, 4], shape=[2, 2], layout="HW"),
            fn.constant(fdata=[1.5], shape=[2]),
            fn.constant(idata=[7]),
        )

    (found,) = run(results)
    wanted = (
        *(np.zeros((2, 3), np.int32), np.ones(2, np.uint8), np.full(3, 2.5, np.float32)),
        *(np.array([[1, 2], [3, 4]], np.int32), np.full(2, 1.5, np.float32), np.array([7], np.int32)),
    )
    for one, judge in zip(found, wanted, strict=True):
        assert (one.at(0).dtype, one.at(0).shape) == (judge.dtype, judge.shape)
        assert np.array_equal(one.at(0), judge)
    assert found[3].layout() == "HW"


@pytest.mark.parametrize(
    ("function", "said"),
    [
        (lambda x: fn.reshape(x, shape=[7]), "with 7 elements but the original shape has 24 elements"),
        (
            lambda x: fn.squeeze(x, axes=[1]),
            "a shape with 8 elements but .* 24 elements. Give axes of length 1",
        ),
        (lambda x: fn.cat(x, fn.transpose(x)), "samples cannot be joined"),
        (
            lambda x: fn.reductions.sum(x, axis_names="F"),
            "Axis 'F' is not present in the input layout 'HWC'; allowed: HWC",
        ),
        (lambda x: fn.lookup_table(x, keys=[1, 2], values=[1]), "2 keys and 1 values"),
        (
            lambda x: fn.lookup_table(x, keys=[-1], values=[1]),
            "1 keys and 1 values; allowed: one .* at least 0",
        ),
        (
            lambda x: fn.lookup_table(x * 1.5, keys=[1], values=[1]),
            "keys of type float32; allowed: whole numbers",
        ),
        (lambda x: fn.coord_transform(x, MT=[1.0], M=2.0), "MT is given, and M or T"),
        (
            lambda x: fn.element_extract(fn.reshape(x, layout="FHW"), element_map=[2]),
            "Index `2` from `element_map` is out of bounds for sample with sequence length equal `2`",
        ),
        (lambda x: fn.element_extract(x, element_map=[0]), "it must start with 'F', got 'HWC' instead"),
        (lambda x: fn.element_extract(x, element_map=[-1]), "Negative indices .* not allowed, found: -1"),
        (lambda x: fn.expand_dims(x, axes=[5]), "Data has not enough dimensions to add new axes"),
        (lambda x: fn.expand_dims(x, axes=[0, 0]), r"axes \[0, 0\]; allowed: different axes"),
        (lambda x: fn.squeeze(x, axes=[1], axis_names="W"), "Provided both ``axes`` and ``axis_names``"),
        (lambda x: fn.pad(x, align=[0]), "`align` argument must be positive"),
        (lambda x: fn.reshape(x, src_dims=[0, 4]), "src_dims has 4, which is out of bounds"),
        (lambda _: fn.constant(shape=[2]), "neither idata nor fdata is given"),
    ],
)
def test_what_does_not_fit_is_refused(function, said):
    with pytest.raises(ParameterError, match=said):
        given(function, samples_of("one shape"))
