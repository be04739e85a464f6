"""Flip against NumPy, Pillow and OpenCV, and what it does to boxes, points, masks and volumes."""

from __future__ import annotations

import cv2
import numpy as np
import pytest
from PIL import Image, ImageOps

from seqpipe import Sequence, fn
from seqpipe.errors import ParameterError
from seqpipe.ops import Chain, Choice, Flip, Invert, apply, per_frame
from tests.support.operators import compare, images
from tests.support.together import together

# OpenCV's code of a flip: 1 about the vertical axis, 0 about the horizontal one, -1 both
CODES = {(True, False): 1, (False, True): 0, (True, True): -1}


@pytest.mark.parametrize(("horizontal", "vertical"), CODES)
def test_pillow_and_opencv_agree(anywhere, horizontal, vertical):
    x = images(Flip(), "uint8", "HWC")
    found = anywhere(Flip(horizontal=horizontal, vertical=vertical), x)
    compare(found, cv2.flip(x, CODES[horizontal, vertical]))
    picture = Image.fromarray(x)
    picture = ImageOps.mirror(picture) if horizontal else picture
    picture = ImageOps.flip(picture) if vertical else picture
    compare(found, np.asarray(picture))


def test_dali_writes_its_flags_as_numbers():
    x = images(Flip(), "uint8", "HWC")
    compare(fn.flip(x), x[:, ::-1])
    compare(fn.flip(x, horizontal=0, vertical=1), x[::-1])
    compare(fn.flip(x, horizontal=np.int64(1)), x[:, ::-1])


def test_images_longer_than_float32_has_places_are_flipped_on_a_cpu_alone(emulated):
    x = np.arange(2**23 + 1).astype(np.uint8)[None, :, None]
    compare(Flip()(x), x[:, ::-1])
    for made in (
        lambda: apply(Flip(), x, layout="HWC", backend="cuda", device=emulated),
        lambda: Chain(Flip(), Invert())(x, layout="HWC", backend="cuda", device=emulated),
        lambda: together(Flip())(x, mask=x),
    ):
        with pytest.raises(
            ParameterError, match="flip: images of 1×8388609 pixels; allowed: up to 8388608 rows"
        ):
            made()


@pytest.mark.deep
def test_images_as_long_as_float32_has_places_are_flipped_by_kernels_too(emulated):
    short = np.arange(2**23).astype(np.uint8)[None, :, None]
    compare(apply(Flip(), short, layout="HWC", backend="cuda", device=emulated), short[:, ::-1])
    compare(together(Flip())(short, mask=short).mask, short[:, ::-1])


def test_both_axes_are_drawn_by_themselves():
    x = images(Flip(), "uint8", samples=64)
    found = fn.flip(x, horizontal=Choice([0, 1]), vertical=Choice([0, 1]), seed=5)
    kinds = [
        next(
            kind
            for kind, wanted in (
                ("", one),
                ("h", one[:, :, ::-1]),
                ("v", one[:, ::-1]),
                ("hv", one[:, ::-1, ::-1]),
            )
            if (wanted == flipped).all()
        )
        for one, flipped in zip(x, found, strict=True)
    ]
    assert min(kinds.count(kind) for kind in ("", "h", "v", "hv")) > 5


def test_a_volume_whose_slices_would_go_astray_is_refused():
    volume = Sequence(np.zeros((4, 5, 6), np.int16), "DHW", affine=np.eye(4))
    with pytest.raises(
        ValueError, match=r"flip: different mappings for the slices .*Use one value for all slices"
    ):
        fn.flip(volume, horizontal=per_frame([0, 1, 0, 1]))
    assert fn.flip(volume, horizontal=per_frame([1, 1, 1, 1])).affine[2, 2] == -1
