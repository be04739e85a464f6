"""JPEG's distortion against libjpeg's tables and files, and against SciPy's transform in float64."""

from __future__ import annotations

import io

import cv2
import numpy as np
import pytest
import simplejpeg
from PIL import Image
from scipy import fft

from seqpipe import fn
from seqpipe.ops import JpegCompressionDistortion, Spec, apply
from seqpipe.ops._draw import resolve
from tests.support.operators import compare


def smooth(size, seed=0):
    """Something like a photograph: shapes with edges, and a little grain."""
    rng = np.random.default_rng(seed)
    found = cv2.GaussianBlur(rng.normal(size=(*size, 3)), (0, 0), 4)
    found = np.where(found > 0.05, found + 0.1, found)
    return (128 + 900 * found + rng.normal(size=found.shape) * 3).clip(0, 255).astype(np.uint8)


def by_libjpeg(x, quality):
    """Encoded by its accurate transform, decoded without smoothing colours."""
    _, file = cv2.imencode(".jpg", x[..., ::-1], [cv2.IMWRITE_JPEG_QUALITY, quality])
    return simplejpeg.decode_jpeg(file, "RGB", fastdct=False, fastupsample=True)


def in_float64(x, luminance, chrominance):
    """The published formulas by SciPy, for sizes that are multiples of 16."""
    matrix = np.array(
        [[0.299, 0.587, 0.114], [-0.168735892, -0.331264108, 0.5], [0.5, -0.418687589, -0.081312411]]
    )
    planes = [np.rint(x @ row + offset) for row, offset in zip(matrix, (0, 128, 128), strict=True)]
    halves = []
    for plane in planes[1:]:
        total = plane.reshape(x.shape[0] // 2, 2, x.shape[1] // 2, 2).sum(axis=(1, 3))
        halves.append((total + 1 + np.arange(total.shape[1]) % 2) // 4)
    found = []
    for plane, steps in zip([planes[0], *halves], (luminance, chrominance, chrominance), strict=True):
        blocks = (plane - 128).reshape(plane.shape[0] // 8, 8, plane.shape[1] // 8, 8)
        steps = np.reshape(steps, (8, 1, 8))
        rounded = np.rint(fft.dctn(blocks, axes=(1, 3), norm="ortho") / steps) * steps
        found.append(
            (fft.idctn(rounded, axes=(1, 3), norm="ortho").reshape(plane.shape) + 128).round().clip(0, 255)
        )
    y, blue, red = found[0], *(np.kron(half, np.ones((2, 2))) - 128 for half in found[1:])
    rgb = [y + 1.402 * red, y - 0.344136286 * blue - 0.714136286 * red, y + 1.772 * blue]
    return np.stack(rgb, axis=-1).round().clip(0, 255)


def steps_of(quality):
    row = resolve(JpegCompressionDistortion(quality=quality), [Spec(1, 8, 8, 3, "uint8")], 0, [0]).rows[0]
    return row["steps"].astype(int).tolist()


@pytest.mark.parametrize("quality", [1, 2, 10, 25, 49, 50, 51, 75, 90, 99, 100])
def test_steps_are_those_of_libjpeg(quality):
    file = io.BytesIO()
    Image.new("RGB", (8, 8)).save(file, "JPEG", quality=quality)
    tables = Image.open(file).quantization
    assert steps_of(quality) == [*tables[0], *tables[1]]


@pytest.mark.parametrize("quality", [3, 40, 85, 100])
def test_it_is_the_published_formula(anywhere, quality):
    x = smooth((64, 80))
    found = anywhere(JpegCompressionDistortion(quality=quality), x).astype(np.float64)
    steps = steps_of(quality)
    wanted = in_float64(x, steps[:64], steps[64:])
    # coefficients at a half, as means of whole numbers often are, go either way by the last bit: seen with small steps
    assert (found != wanted).mean() < (0.004 if quality < 50 else 0.03)
    assert np.abs(found - wanted).max() <= (255 if quality < 50 else 4)


@pytest.mark.parametrize("size", [(96, 128), (61, 83), (17, 16), (2, 3), (5, 40), (20, 300)])
def test_it_is_what_libjpeg_makes_of_an_image(size):
    """But for the coefficients that lie so near to a half that its whole-number transform rounds them otherwise."""
    for quality in (5, 30, 75, 100):
        x = smooth(size)
        found = fn.jpeg_compression_distortion(x, quality=quality).astype(np.float64)
        wanted = by_libjpeg(x, quality).astype(np.float64)
        assert np.abs(found - wanted).mean() < 0.06 * np.abs(wanted - x).mean() + 0.4
        assert np.median(np.abs(found - wanted)) == 0


def test_lower_quality_is_farther_from_the_image():
    x = smooth((96, 96))
    far = [
        np.abs(fn.jpeg_compression_distortion(x, quality=q).astype(int) - x).mean()
        for q in (2, 10, 30, 80, 100)
    ]
    assert far == sorted(far, reverse=True)
    assert far[0] > 3 * far[-1]


@pytest.mark.parametrize("size", [(70, 45), (33, 31), (1, 1), (47, 66)])
def test_kernels_give_the_references_bits_from_tile_to_tile(place, size):
    x = np.random.default_rng(0).integers(0, 256, (*size, 3), dtype=np.uint8)
    for quality in (5, 90):
        op = JpegCompressionDistortion(quality=quality)
        compare(place(op, x), apply(op, x, backend="reference"))


def test_kernels_keep_differences_of_the_strongest_colours_within_levels(place):
    """Of pure blue and red, the differences are half a level beyond."""
    x = np.random.default_rng(4).choice(np.array([0, 255], np.uint8), (12, 12, 3)).repeat(8, 0).repeat(8, 1)
    for quality in (40, 80):
        op = JpegCompressionDistortion(quality=quality)
        compare(place(op, x), apply(op, x, backend="reference"))


@pytest.mark.parametrize(("dtype", "full"), [("uint16", 65535), ("float32", 1.0)])
def test_other_types_are_brought_to_eight_bits_and_back(anywhere, dtype, full):
    x = smooth((20, 30))
    wanted = anywhere(JpegCompressionDistortion(quality=40), x).astype(np.float64) * full / 255
    given = (x.astype(np.float64) * full / 255).astype(dtype)
    np.testing.assert_allclose(anywhere(JpegCompressionDistortion(quality=40), given), wanted, rtol=1e-6)


def test_an_image_of_one_colour_keeps_it(anywhere):
    x = np.full((19, 33, 3), 128, np.uint8)
    compare(anywhere(JpegCompressionDistortion(quality=1), x), x)


@pytest.mark.parametrize("size", [(54, 70), (70, 54)])
def test_what_lies_beyond_the_borders_is_as_libjpeg_has_it(size):
    """It is not seen, but is in the coefficients of the last blocks."""
    off = []
    for seed in range(6):
        x = smooth(size, seed)
        found = fn.jpeg_compression_distortion(x, quality=50).astype(np.float64)
        off.append(np.abs(found - by_libjpeg(x, 50)))
    below, right = np.mean([one[-6:].mean() for one in off]), np.mean([one[:, -6:].mean() for one in off])
    assert max(below, right) < 0.7  # 1.8 and more, where the other of both is repeated first
