"""What an operator keeps between calls: it never changes a result, is bounded, and is no part of the operator."""

from __future__ import annotations

import copy
import pickle
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from seqpipe.errors import ParameterError
from seqpipe.ops import (
    Brightness,
    Cast,
    Choice,
    Crop,
    CropMirrorNormalize,
    Flip,
    RandomErasing,
    RandomResizedCrop,
    Resize,
    apply,
)
from tests.support.operators import compare

RNG = np.random.default_rng(0)


def image(*shape, dtype="uint8"):
    return RNG.integers(0, 200, shape).astype(dtype)


@pytest.mark.parametrize(
    "op",
    [Flip(), Crop(crop=(2, 2), crop_pos_x=(0.0, 1.0)), Brightness(brightness=0.5), Cast(dtype="float32")],
    ids=repr,
)
def test_arrays_of_one_shape_are_told_apart(op):
    cases = [(layout, dtype) for dtype in ("uint8", "uint16", "float32") for layout in ("HWC", "CHW", "FHW")]
    for layout, dtype in cases * 2:
        x = image(4, 4, 4, dtype=dtype)
        compare(op(x, layout=layout), type(op)(**op.settings())(x, layout=layout))
        turned = x.transpose(2, 1, 0)
        compare(op(turned, layout=layout), op(np.ascontiguousarray(turned), layout=layout))


@pytest.mark.parametrize("constant", [True, False])
def test_numbers_of_samples_and_sizes_are_told_apart(place, constant):
    op = Crop(crop=(2, 3), crop_pos_x=0.2 if constant else (0.0, 1.0))
    for samples, frames, height in ((1, 2, 4), (3, 2, 4), (2, 1, 4), (3, 2, 9), (1, 2, 4)):
        x = image(samples, frames, height, 8, 3)
        compare(place(op, x), apply(Crop(**op.settings()), x, backend="reference"))


def test_what_is_refused_is_refused_again():
    op = Crop(crop=(5, 5))
    for _ in range(3):
        with pytest.raises(ParameterError, match="crop=\\(5, 5\\) of images of 4×9 pixels"):
            op(image(4, 9, 3))
        with pytest.raises(ParameterError, match="values of type complex64"):
            Brightness(brightness=2.0)(image(4, 9, 3, dtype="complex64"))
        assert op(image(5, 9, 3)).shape == (5, 5, 3)


@pytest.mark.parametrize(
    ("op", "refused"),
    [
        (RandomErasing(fill_value=(1.0, 2.0)), "fill_value has 2 values for 3 channels"),
        (
            CropMirrorNormalize(mean=(1.0, 2.0), mirror=Choice((True, False))),
            "mean has 2 values, for pixels of 3",
        ),
    ],
    ids=repr,
)
def test_what_follows_from_parameters_is_refused_again_where_others_are_random(op, refused):
    for _ in range(3):
        with pytest.raises(ParameterError, match=refused):
            op(image(4, 9, 3))
        assert op(image(4, 9, 2)).shape == (4, 9, 2)


def test_it_is_bounded():
    for op in (Resize(size=(2, 2)), RandomResizedCrop(size=(2, 2)), Brightness(brightness=2.0)):
        for height in range(1, 200):
            op(image(height, 3, 1))
        kept = [value for value in vars(op).values() if isinstance(value, dict)]
        assert kept
        assert max(map(len, kept)) <= 64


def test_it_is_no_part_of_the_operator():
    used, fresh = (Crop(crop=(2, 2), crop_pos_y=(0.0, 1.0), seed=3) for _ in range(2))
    before = set(vars(fresh))
    used(image(2, 4, 4, 3))
    assert set(vars(used)) > before
    assert used == fresh
    assert hash(used) == hash(fresh)
    assert repr(used) == repr(fresh)
    for again in (pickle.loads(pickle.dumps(used)), copy.deepcopy(used)):
        assert again == used
        assert set(vars(again)) <= before


def test_threads_share_an_operator():
    op = CropMirrorNormalize(
        crop=(3, 4), crop_pos_x=(0.0, 1.0), crop_pos_y=(0.0, 1.0), mean=100.0, dtype="float32", seed=9
    )
    given = [image(4 + n % 3, 9 + n % 5, 3) for n in range(100)]
    alone = [CropMirrorNormalize(**op.settings())(x, index=n) for n, x in enumerate(given)]
    with ThreadPoolExecutor(8) as pool:
        together = list(pool.map(lambda pair: op(pair[1], index=pair[0]), enumerate(given)))
    for one, other in zip(together, alone, strict=True):
        compare(one, other)
