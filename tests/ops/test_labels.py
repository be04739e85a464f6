"""one_hot against torch, and what DALI 2.4.0 gave on a CPU."""

from __future__ import annotations

import numpy as np
import pytest

from seqpipe import Batch, Sequence, fn
from seqpipe.errors import ParameterError
from seqpipe.ops.labels import one_hot as one_hot_module
from tests.support.operators import compare

LABELS = np.array([1, 0, 3, -1, 7], np.int32)


def test_labels_are_dalis():
    found = fn.one_hot(LABELS, num_classes=4)
    assert found.dtype == np.float32
    assert found.tolist() == [[0, 1, 0, 0], [1, 0, 0, 0], [0, 0, 0, 1], [0] * 4, [0] * 4]
    compare(fn.one_hot(LABELS, num_classes=4, axis=0), found.T)
    # DALI cuts 2.5 off to 2; we round it to an even number
    found = fn.one_hot(LABELS, num_classes=3, on_value=2.5, off_value=-1, dtype="int16")
    assert found.tolist() == [[-1, 2, -1], [2, -1, -1], [-1] * 3, [-1] * 3, [-1] * 3]
    assert fn.one_hot(2, num_classes=3).tolist() == [0, 0, 1]
    assert fn.one_hot(np.int64(0), num_classes=3).tolist() == [1, 0, 0]


def test_values_saturate():
    """DALI has 44 for 300 in 8 bits."""
    assert fn.one_hot(1, num_classes=2, on_value=300.0, off_value=-5.0, dtype="uint8").tolist() == [0, 255]
    assert fn.one_hot(1, num_classes=2, dtype="bool").tolist() == [False, True]


@pytest.mark.parametrize("dtype", ["uint8", "int8", "uint16", "int64", "uint64", "bool"])
def test_torch_agrees(dtype, torch):
    x = np.random.default_rng(0).integers(0, 2 if dtype == "bool" else 6, (4, 5, 6)).astype(dtype)
    wanted = torch.nn.functional.one_hot(torch.from_numpy(x.astype(np.int64)), 6).numpy()
    compare(fn.one_hot(x, num_classes=6, dtype="int64"), wanted)
    for axis in range(4):
        compare(fn.one_hot(x, num_classes=6, dtype="int64", axis=axis), np.moveaxis(wanted, -1, axis))
        compare(fn.one_hot(x, num_classes=6, dtype="int64", axis=axis - 4), np.moveaxis(wanted, -1, axis))
    tensor = fn.one_hot(torch.from_numpy(x.astype(np.int64)), num_classes=6, dtype="int64")
    assert torch.equal(tensor, torch.from_numpy(wanted))


def test_more_classes_than_a_type_of_labels_has_numbers():
    found = fn.one_hot(np.array([200, 255], np.uint8), num_classes=600)
    assert found.argmax(1).tolist() == [200, 255]
    assert found.sum() == 2
    assert fn.one_hot(np.array([2**64 - 1, 2**32 + 1, 257], np.uint64), num_classes=3).sum() == 0


def test_label_images_get_channels():
    x = np.array([[[1, 2]], [[0, 1]]], np.uint8)
    found = fn.one_hot(Sequence(x, "FHW", frames=[3, 4]), num_classes=3, axis_name="C")
    assert (found.layout, found.shape, found.frames.tolist()) == ("FHWC", (2, 1, 2, 3), [3, 4])
    found = fn.one_hot(Sequence(x, "FHW"), num_classes=3, axis=1, axis_name="C")
    assert (found.layout, found.shape) == ("FCHW", (2, 3, 1, 2))
    batch = Batch.of([Sequence(x, "FHW")] * 2, labels=[2, -1])
    assert fn.one_hot(batch, num_classes=3, axis_name="C").layout == "NFHWC"
    assert fn.one_hot(batch.labels, num_classes=3).tolist() == [[0, 0, 1], [0, 0, 0]]


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (
            lambda: fn.one_hot(LABELS.astype(float), num_classes=3),
            "one_hot: values of type float64; allowed: bool, uint8",
        ),
        (
            lambda: fn.one_hot(LABELS, num_classes=3, axis=2),
            "one_hot: axis=2 of a result with 2 axes; allowed: -2 to 1",
        ),
        (lambda: fn.one_hot("cat", num_classes=3), "one_hot: an object of type str is not an array"),
        (
            lambda: fn.one_hot(Sequence(np.zeros((2, 2), np.uint8), "HW"), num_classes=3),
            "a sequence of layout HW would have the layout unknown",
        ),
    ],
)
def test_what_are_no_labels_is_refused(call, said):
    with pytest.raises(ParameterError, match=said):
        call()


@pytest.mark.parametrize(
    ("dtype", "result"), [("uint8", "float32"), ("bool", "uint8"), ("int16", "float16"), ("int64", "float64")]
)
@pytest.mark.parametrize("most", [2**31 - 16, 800])
def test_a_kernel_finds_the_same(emulated, monkeypatch, dtype, result, most):
    monkeypatch.setattr(one_hot_module, "_MOST_VALUES", most)
    high = 2 if dtype == "bool" else 6
    x = np.random.default_rng(0).integers(-2 if dtype.startswith("int") else 0, high, (33, 5)).astype(dtype)
    values = np.array([200, 3]).astype(result)
    for axis, classes in ((0, 2), (0, 6), (1, 1), (1, 5), (2, 1), (2, 7)):
        wanted = one_hot_module._one_hot(x, axis, classes, values)
        found = np.full_like(wanted, 77)
        launches = emulated.launches
        done = one_hot_module._one_hot_by_kernel(x, axis, values, found, emulated)
        assert done == (axis > 0 or found.size <= most)
        assert emulated.launches == launches + done
        compare(found, wanted if done else np.full_like(wanted, 77))
