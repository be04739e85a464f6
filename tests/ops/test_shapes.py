"""Transpose, reshape and squeeze against NumPy, and what DALI 2.4.0 gave on a CPU."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from seqpipe import Batch, Sequence, fn
from seqpipe.errors import ParameterError
from seqpipe.ops import Transpose
from tests.support.operators import compare, images

X = np.arange(24, dtype=np.uint8).reshape(2, 3, 4)
AFFINE = np.array([[3.0, 0.1, 0.2, 5.0], [0.0, 2.0, 0.3, 6.0], [0.0, 0.0, 1.0, 7.0], [0.0, 0.0, 0.0, 1.0]])


def batch_of(x, **fields):
    return Batch.of([Sequence(one, frames=np.arange(len(one)) + n) for n, one in enumerate(x)], **fields)


# ------------------------------------------------------------------------------------------ transpose


@pytest.mark.parametrize("perm", [*itertools.permutations(range(3)), (-1, 0, 1)])
def test_transpose_is_numpys_and_moves_nothing(perm):
    found = fn.transpose(X, perm=perm)
    compare(found, X.transpose(perm))
    assert np.shares_memory(found, X)


# arguments for HWC, and shape, layout and the first values that DALI 2.4 gave
TURNED = [
    ({"perm": (2, 0, 1)}, (4, 2, 3), "CHW", [0, 4, 8, 12, 16, 20, 1, 5]),
    ({"perm": (1, 0, 2), "transpose_layout": False}, (3, 2, 4), "HWC", [0, 1, 2, 3, 12, 13, 14, 15]),
    ({"perm": (1, 0, 2), "output_layout": "HWC"}, (3, 2, 4), "HWC", [0, 1, 2, 3, 12, 13, 14, 15]),
]


@pytest.mark.parametrize(("arguments", "shape", "layout", "first"), TURNED, ids=str)
def test_layouts_move_as_in_dali(arguments, shape, layout, first):
    found = fn.transpose(Sequence(X, "HWC"), **arguments)
    assert (found.shape, found.layout, found.data.ravel()[:8].tolist()) == (shape, layout, first)
    compare(fn.transpose(X, **arguments), found.data)


def test_without_arguments_all_axes_turn_round_as_in_dali():
    compare(fn.transpose(X), X.T)


@pytest.mark.parametrize(
    ("layout", "wanted"), [("FHWC", "FCHW"), ("NFHWC", "NFCHW"), ("CHW", "HWC"), ("HWC", "CHW")]
)
def test_a_layout_that_is_asked_for(layout, wanted):
    x = images(Transpose(), "uint8", layout)
    found = fn.transpose(x, output_layout=wanted, layout=layout)
    compare(found, np.einsum(f"{layout}->{wanted}", x))
    assert np.shares_memory(found, x)
    if layout == "NFHWC":
        compare(fn.transpose(x, perm=(0, 3, 1, 2), layout=layout), found)
        compare(fn.transpose(x, perm=(0, 1, 4, 2, 3)), found)


def test_batches_are_transposed_sample_by_sample():
    x = images(Transpose(), "uint8")
    whole = batch_of(x, labels=[3, 4], mask=np.ones(x.shape[:4], bool))
    for arguments in ({"perm": (0, 3, 1, 2)}, {"output_layout": "FCHW"}, {"output_layout": "NFCHW"}):
        found = fn.transpose(whole, **arguments)
        assert (found.layout, found.labels.tolist(), found.mask.shape) == ("NFCHW", [3, 4], x.shape[:4])
        compare(found.numpy(), np.moveaxis(x, -1, 2))
        assert all(np.shares_memory(result.data, found.stacked) for result in found)
        assert found.frames.tolist() == whole.frames.tolist()
    ragged = Batch.of([Sequence(x[0]), Sequence(x[1][:, :2])], labels=[5, 6])
    found = fn.transpose(ragged, output_layout="FCHW")
    assert [result.shape for result in found] == [(3, 3, 5, 7), (3, 3, 2, 7)]
    assert found.labels.tolist() == [5, 6]


def test_an_affine_follows_axes_that_change_places():
    x = images(Transpose(), "int16", "DHWC")
    volume = Sequence(x, "DHWC", affine=AFFINE)
    for perm in itertools.permutations(range(3)):
        found = fn.transpose(volume, perm=(*perm, 3), transpose_layout=False)
        voxel = np.array([1, 2, 0])
        before = np.empty(3, int)
        before[list(perm)] = voxel
        assert (found.data[tuple(voxel)] == x[tuple(before)]).all()
        np.testing.assert_allclose(found.affine @ [*voxel, 1], AFFINE @ [*before, 1])
    assert (
        fn.transpose(Sequence(x[0], "HWC", affine=AFFINE), perm=(2, 0, 1)).affine.tolist() == AFFINE.tolist()
    )


def test_tensors_are_views_of_tensors(torch):
    x = torch.arange(24).reshape(2, 3, 4)
    found = fn.transpose(x, perm=(2, 0, 1))
    assert torch.equal(found, x.permute(2, 0, 1))
    assert found.data_ptr() == x.data_ptr()
    several = fn.transpose([x, x.float()], perm=(1, 0, 2))
    assert [value.dtype for value in several] == [torch.int64, torch.float32]
    assert torch.equal(fn.reshape(torch.arange(6), shape=(2, 3)), torch.arange(6).reshape(2, 3))


# ------------------------------------------------------------------------------------------ reshape

# arguments for HWC, and shape and layout that DALI 2.4 gave; None where it had none
SHAPED = [
    ({"shape": (6, 4)}, (6, 4), None),
    ({"shape": (-1, 4)}, (6, 4), None),
    ({"shape": (6, 4, 1), "layout": "HWC"}, (6, 4, 1), "HWC"),
    ({"shape": (4, 3, 2)}, (4, 3, 2), "HWC"),
    ({"rel_shape": (1, -1)}, (2, 12), None),
    ({"rel_shape": (0.5, 2, 1)}, (1, 6, 4), "HWC"),
    ({"rel_shape": (-1, 0.5)}, (12, 2), None),
    ({"src_dims": (1, 0, 2)}, (3, 2, 4), "HWC"),
    ({"src_dims": (1, 0), "rel_shape": (1, -1)}, (3, 8), None),
    ({"layout": "CHW"}, (2, 3, 4), "CHW"),
    ({"src_dims": (-1, 0, 1, 2), "layout": "FHWC"}, (1, 2, 3, 4), "FHWC"),
]


@pytest.mark.parametrize(("arguments", "shape", "layout"), SHAPED, ids=str)
def test_shapes_are_dalis(arguments, shape, layout):
    found = fn.reshape(X, **arguments)
    compare(found, X.reshape(shape))
    assert np.shares_memory(found, X)
    if layout is not None:
        sequence = fn.reshape(Sequence(X, "HWC"), **arguments)
        assert (sequence.layout, sequence.shape) == (layout, shape)
        return
    with pytest.raises(
        ParameterError, match="a sequence of layout HWC would have the layout unknown; allowed: HW, HWC"
    ):
        fn.reshape(Sequence(X, "HWC"), **arguments)


def test_a_batch_keeps_its_samples():
    x = images(Transpose(), "uint8")
    found = fn.reshape(batch_of(x), shape=(3, 35, 3, 1), layout="FHWC")
    compare(found.numpy(), x.reshape(2, 3, 35, 3, 1))
    assert found.layout == "NFHWC"
    compare(fn.reshape([X, X + 1], shape=(-1,))[1], X.ravel() + 1)


# ------------------------------------------------------------------------------------------ squeeze


def test_squeeze_is_numpys():
    x = X[None, :, None]
    compare(fn.squeeze(x, axes=0), X[:, None])
    compare(fn.squeeze(x, axes=(2, -5)), X)
    assert np.shares_memory(fn.squeeze(x, axes=0), X)


def test_letters_go_with_their_axes():
    clip = Sequence(
        X[..., None, None].transpose(3, 0, 1, 2, 4)[..., :1, 0], "FHWC", frames=[7], timestamps=[0.5]
    )
    found = fn.squeeze(clip, axis_names="F")
    assert (found.layout, found.shape, found.frames.tolist()) == ("HWC", (2, 3, 1), [7])
    found = fn.squeeze(clip, axes=(0, -1))
    assert (found.layout, found.shape) == ("HW", (2, 3))
    compare(fn.squeeze(np.zeros((2, 1, 3, 1)), axis_names="C", layout="NHWC"), np.zeros((2, 1, 3)))
    compare(fn.squeeze(np.zeros((2, 1, 3, 1)), axes=0, layout="NHWC"), np.zeros((2, 3, 1)))
    x = images(Transpose(), "uint8")[:, :1]
    found = fn.squeeze(batch_of(x), axis_names="F")
    assert (found.layout, found.shape) == ("NHWC", (2, 5, 7, 3))


# ------------------------------------------------------------------------------------------ refusals


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (
            lambda: fn.transpose(X, perm=(0, 1)),
            r"transpose: perm=\(0, 1\) and output_layout=None for 3 axes; allowed: 3",
        ),
        (lambda: fn.transpose(X, perm=(0, 1, 1)), r"perm=\(0, 1, 1\) has an axis twice"),
        (lambda: fn.transpose(X, perm=(0, 1, 3)), "perm has 3, of 3 axes; allowed: -3 to 2"),
        (
            lambda: fn.transpose(X, output_layout="FCHW"),
            "output_layout='FCHW' of an array of layout HWC; allowed: the same",
        ),
        (
            lambda: fn.transpose(Sequence(X, "HWC"), perm=(1, 0, 2)),
            "a sequence of layout HWC would have the layout WHC",
        ),
        (
            lambda: fn.transpose(Sequence(X, "FHW", frames=[1, 2]), perm=(1, 0, 2), transpose_layout=False),
            "frames would be along another axis, .*, than frame numbers and timestamps. Pass the array",
        ),
        (
            lambda: fn.transpose(Sequence(X, "HWC", affine=AFFINE), perm=(2, 1, 0), transpose_layout=False),
            "axes that change their meaning, .*, of a volume with an affine. Pass the array without",
        ),
        (
            lambda: fn.transpose(
                batch_of(images(Transpose(), "uint8", size=(5, 5)), mask=np.ones((2, 3, 5, 5), bool)),
                perm=(0, 2, 1, 3),
                transpose_layout=False,
            ),
            "pixels with other axes than the batch's mask. Pass the batch without",
        ),
        (
            lambda: fn.reshape(X, shape=(5, -1)),
            r"reshape: 24 values of shape \(2, 3, 4\) for the shape \(5, 4\); allowed: as",
        ),
        (lambda: fn.reshape(X, shape=(0, -1)), r"24 values of shape .* for the shape \(0, -1\)"),
        (
            lambda: fn.reshape(X, shape=(24,), layout="HW"),
            "layout='HW' of 1 axes; allowed: one letter for each",
        ),
        (lambda: fn.reshape(X, src_dims=(3,)), r"src_dims=\(3,\) of 3 axes; allowed: -1 to 2"),
        (lambda: fn.reshape(X, rel_shape=(1, 1, 1, 1)), r"rel_shape=.* of 3 axes; allowed: not more numbers"),
        (
            lambda: fn.reshape(Sequence(X, "FHW", frames=[1, 2]), shape=(3, 2, 4)),
            "reshape: 2 frames for 3 frames. Pass the array of the sequence",
        ),
        (
            lambda: fn.reshape(Sequence(X, "DHW", affine=AFFINE), shape=(2, 4, 3)),
            "another shape, .* of a volume with an",
        ),
        (
            lambda: fn.squeeze(X, axes=0),
            r"squeeze: axes of \[2\] values, of an array of shape \(2, 3, 4\); allowed: axes with",
        ),
        (lambda: fn.squeeze(X[:1], axis_names="F", layout="HWC"), "axis_names='F' of an array of layout HWC"),
        (
            lambda: fn.squeeze(Sequence(X[:, :1], "FHW"), axes=1),
            "a sequence of layout FHW would have the layout FW",
        ),
        (
            lambda: fn.squeeze(np.zeros(1, complex), axes=0),
            "squeeze: values of type complex128; allowed: bool",
        ),
    ],
)
def test_axes_that_cannot_be_had_are_refused(call, said):
    with pytest.raises(ParameterError, match=said):
        call()
