"""Stack and cat against NumPy, and what DALI 2.4.0 gave on a CPU."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from seqpipe import Batch, Sequence, fn
from seqpipe.errors import ParameterError
from seqpipe.ops.arrays.joining import _concatenated_by_kernel
from tests.support.operators import compare

X = np.arange(24, dtype=np.uint8).reshape(2, 3, 4)
Y = X + 100


def clip(x, first=0, **more):
    count = len(x)
    return Sequence(
        x, "FHW", frames=np.arange(count) + first, timestamps=(np.arange(count) + first) / 10, **more
    )


@pytest.mark.parametrize("axis", range(-4, 4))
def test_stack_is_numpys(axis):
    compare(fn.stack(X, Y, axis=axis), np.stack([X, Y], axis))
    compare(fn.stack([X, Y], axis=axis), np.stack([X, Y], axis))


@pytest.mark.parametrize("axis", range(-3, 3))
def test_cat_is_numpys(axis):
    compare(fn.cat(X, Y, X, axis=axis), np.concatenate([X, Y, X], axis))


def test_arrays_of_different_lengths():
    compare(fn.cat(X, Y[:1]), np.concatenate([X, Y[:1]]))
    compare(fn.cat(X, Y[:, :, :1], axis_name="C", layout="HWC"), np.concatenate([X, Y[:, :, :1]], 2))


def test_layouts_are_dalis():
    """DALI 2.4 gave FHWC and HWCF; the latter is no layout of a sequence."""
    parts = [Sequence(X, "HWC"), Sequence(Y, "HWC")]
    found = fn.stack(*parts, axis_name="F")
    assert (found.layout, found.shape) == ("FHWC", (2, 2, 3, 4))
    found = fn.cat(*parts, axis_name="C")
    assert (found.layout, found.shape) == ("HWC", (2, 3, 8))
    with pytest.raises(ParameterError, match="stack: a sequence of layout HWC would have the layout HWCF"):
        fn.stack(*parts, axis=3, axis_name="F")
    with pytest.raises(ParameterError, match="stack: a sequence of layout HWC would have the layout unknown"):
        fn.stack(*parts)


def test_numbers_and_times_of_frames_are_joined_with_them():
    found = fn.cat(clip(X, 5), clip(Y, 50), axis_name="F")
    assert found.frames.tolist() == [5, 6, 50, 51]
    np.testing.assert_allclose(found.timestamps, [0.5, 0.6, 5.0, 5.1])
    single = [Sequence(one, "HW", frames=[n]) for n, one in enumerate(X)]
    found = fn.stack(single, axis_name="F")
    assert (found.layout, found.frames.tolist()) == ("FHW", [0, 1])
    beside = fn.cat(clip(X, 5), clip(Y, 50), axis_name="W")
    assert (beside.shape, beside.frames.tolist()) == ((2, 3, 8), [5, 6])
    assert fn.cat(clip(X), Sequence(Y, "FHW")).frames is None


def test_sequences_become_a_batch():
    found = fn.stack(clip(X), clip(Y), axis_name="N")
    assert isinstance(found, Batch)
    compare(found.numpy(), np.stack([X, Y]))
    assert found.frames.tolist() == [[0, 1], [0, 1]]


def test_batches_are_joined_sample_by_sample():
    first, second = (Batch.of([clip(x), clip(x + 1)], labels=[n, n]) for n, x in enumerate((X, Y)))
    found = fn.cat(first, second, axis_name="F")
    compare(found.numpy(), np.concatenate([np.stack([X, X + 1]), np.stack([Y, Y + 1])], 1))
    assert found.labels.tolist() == [0, 0]
    found = fn.stack(first, second, axis=3, axis_name="C")
    assert (found.layout, found.shape) == ("NFHWC", (2, 2, 3, 4, 2))


def test_volumes_are_joined_where_one_goes_on_from_the_other():
    affine = np.diag([3.0, 2.0, 1.0, 1.0])
    later = affine.copy()
    later[0, 3] = 6.0
    found = fn.cat(Sequence(X, "DHW", affine=affine), Sequence(Y, "DHW", affine=later))
    assert found.affine.tolist() == affine.tolist()
    for other in (affine, None):
        with pytest.raises(
            ParameterError, match=r"cat: volumes that do not start where .* ends, along D\. Pass them"
        ):
            fn.cat(Sequence(X, "DHW", affine=affine), Sequence(Y, "DHW", affine=other))


def test_volumes_become_channels_only_where_they_lie_in_one_place():
    space, other = np.diag([3.0, 2.0, 1.0, 1.0]), np.diag([5.0, 5.0, 5.0, 1.0])
    for affines in ((space, other), (space, None), (None, space)):
        volumes = [Sequence(X, "DHW", affine=affine) for affine in affines]
        with pytest.raises(
            ParameterError, match=r"volumes that do not have one position, along C\. Pass them"
        ):
            fn.stack(*volumes, axis=-1, axis_name="C")
    found = fn.stack(*[Sequence(X, "DHW", affine=space)] * 2, axis=-1, axis_name="C")
    assert (found.shape, found.affine.tolist()) == ((*X.shape, 2), space.tolist())
    assert fn.cat(found, found, axis_name="C").affine.tolist() == space.tolist()


def test_masks_of_batches_are_not_lost():
    batch = Batch.of([clip(X)] * 2, mask=np.ones((2, *X.shape), np.bool_))
    for join in (fn.cat, fn.stack):
        with pytest.raises(
            ParameterError, match=f"{join.__name__}: batches with masks; allowed: batches without"
        ):
            join(batch, replace(batch, mask=None))


def test_tensors_stay_tensors(torch):
    x = torch.arange(6).reshape(2, 3)
    assert torch.equal(fn.stack(x, x, axis=1), torch.stack([x, x], 1))
    assert torch.equal(fn.cat(x, x, axis=-1), torch.cat([x, x], 1))


def test_axes_of_samples_are_counted_without_n():
    x = np.stack([X, Y])
    compare(fn.cat(x, x, axis=0, layout="NHWC"), np.concatenate([x, x], 1))
    compare(fn.stack(x, x, axis=0, layout="NHWC"), np.stack([x, x], 1))


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (
            lambda: fn.stack(),
            "stack: 0 arrays, of 0 kinds; allowed: one or more; arrays, Sequences or Batches",
        ),
        (lambda: fn.cat([]), "cat: 0 arrays, of 0 kinds"),
        (lambda: fn.stack(X, Sequence(X, "HWC")), "stack: 2 arrays, of 2 kinds"),
        (
            lambda: fn.stack(X, X[:1]),
            r"stack: arrays of different shapes, \(1, 3, 4\), \(2, 3, 4\); allowed: one for all",
        ),
        (lambda: fn.stack(X, X, axis=4), "stack: axis=4 of a result with 4 axes; allowed: -4 to 3"),
        (
            lambda: fn.stack(X, X.astype(float)),
            "stack: arrays of different types, float64, uint8; allowed: one for all",
        ),
        (
            lambda: fn.cat(X, X[:1], axis=1),
            r"cat: arrays of shapes \(2, 3, 4\), \(1, 3, 4\); allowed: one extent for all but",
        ),
        (lambda: fn.cat(X, X[0]), "cat: arrays of different numbers of axes, 2, 3"),
        (lambda: fn.cat(X, X, axis=3), "cat: axis has 3, of 3 axes; allowed: -3 to 2"),
        (lambda: fn.cat(X, X, axis_name="F"), "cat: axis_names='F' of an array of layout HWC"),
        (
            lambda: fn.cat(Sequence(X, "HWC"), Sequence(X, "FHW")),
            "cat: arrays of different layouts, FHW, HWC",
        ),
        (
            lambda: fn.cat(Batch.of([clip(X)]), Batch.of([clip(X)] * 2)),
            r"cat: batches of \[1, 2\] samples; allowed: as",
        ),
        (lambda: fn.cat(X, "Y"), "cat: an object of type str is not an array"),
    ],
)
def test_what_does_not_go_together_is_refused(call, said):
    with pytest.raises(ParameterError, match=said):
        call()


@pytest.mark.parametrize("dtype", ["bool", "uint8", "int16", "float32", "float64"])
def test_a_kernel_joins_as_numpy_does(emulated, dtype):
    whole = np.random.default_rng(0).integers(0, 256, (5, 6, 9)).astype(dtype)
    for axis in range(3):
        for cuts in ([], [1], [2, 3], [0, 4], [3, 4, 6]):
            parts = [np.ascontiguousarray(part) for part in np.split(whole, cuts, axis)]
            out = np.full_like(whole, 77)
            assert _concatenated_by_kernel(parts, axis, out, emulated)
            compare(out, whole)
    for axis in range(4):
        wanted = np.stack([whole, whole[::-1], whole], axis)
        out = np.full_like(wanted, 77)
        assert _concatenated_by_kernel([whole, whole[::-1].copy(), whole], axis, out, emulated)
        compare(out, wanted)
    parts = [
        whole[..., :3].copy(),
        whole[..., :1].copy(),
    ]  # what is written beside the last is not written over
    out = np.full((5, 6, 4), 77, dtype)
    assert _concatenated_by_kernel(parts, 2, out, emulated)
    compare(out, np.concatenate(parts, 2))
    bytes_ = np.zeros(11, np.uint8)
    out = np.zeros(9, np.uint8)
    assert _concatenated_by_kernel([bytes_[1:5], X[0, 0], bytes_[:1]], 0, out, emulated)
    compare(out, np.concatenate([bytes_[1:5], X[0, 0], bytes_[:1]]))
    assert not _concatenated_by_kernel([whole[:, ::2]], 0, np.zeros((5, 3, 9), dtype), emulated)
    assert _concatenated_by_kernel([whole[:0]], 0, np.zeros((0, 6, 9), dtype), emulated)
