"""Conversions of colour against OpenCV, Pillow, the standard's formulas, and what DALI 2.4.0 gave on a CPU."""

from __future__ import annotations

import cv2
import numpy as np
import pytest
from PIL import Image

from seqpipe import fn
from seqpipe.ops import Grayscale
from tests.support.operators import compare, images


@pytest.mark.parametrize("dtype", ["uint8", "uint16", "int16"])
def test_grayscale_is_the_luma(anywhere, dtype):
    x = images(Grayscale, dtype, "HWC", size=(20, 21))
    luma = np.rint(x.astype(np.float64) @ [0.299, 0.587, 0.114]).astype(dtype)
    compare(anywhere(Grayscale(), x), np.stack([luma] * 3, axis=-1), (1, 0.01))


def test_grayscale_is_opencvs_and_pillows(anywhere):
    """Which compute with whole numbers, and so fall to the other side of a half now and then."""
    x = images(Grayscale, "uint8", "HWC", size=(100, 100))
    found = anywhere(Grayscale(), x)
    compare(found, cv2.cvtColor(cv2.cvtColor(x, cv2.COLOR_RGB2GRAY), cv2.COLOR_GRAY2RGB), (1, 0.002))
    compare(found, np.asarray(Image.fromarray(x).convert("L").convert("RGB")), (1, 0.002))


def test_what_is_gray_stays(levels):
    x = np.repeat(levels, 3, axis=-1)
    compare(fn.grayscale(x), x)
    compare(fn.grayscale(fn.grayscale(images(Grayscale, "uint8"))), fn.grayscale(images(Grayscale, "uint8")))
