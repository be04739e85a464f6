"""JPEG's distortion against libjpeg, which makes and reads files, and its transform against SciPy's in float64."""

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
from seqpipe.ops.compression import jpeg
from seqpipe.ops.core import traits
from seqpipe.ops.core.blocks import resolve
from tests.support.deep import combined
from tests.support.operators import compare

COEFFICIENT = 8200  # more than any, which are 8 times as large


def smooth(size, seed=0):
    """Something like a photograph: shapes with edges, and a little grain."""
    rng = np.random.default_rng(seed)
    found = cv2.GaussianBlur(rng.normal(size=(*size, 3)), (0, 0), 4)
    found = np.where(found > 0.05, found + 0.1, found)
    return (128 + 900 * found + rng.normal(size=found.shape) * 3).clip(0, 255).astype(np.uint8)


def by_libjpeg(x, quality):
    """Encoded by its accurate transform, decoded without smoothing colors."""
    _, file = cv2.imencode(".jpg", x[..., ::-1], [cv2.IMWRITE_JPEG_QUALITY, quality])
    return simplejpeg.decode_jpeg(file, "RGB", fastdct=False, fastupsample=True)


def steps_of(quality):
    row = resolve(JpegCompressionDistortion(quality=quality), [Spec(1, 8, 8, 3, "uint8")], 0, [0]).rows[0]
    return row["steps"].astype(int).tolist()


@pytest.mark.parametrize("quality", [1, 2, 10, 25, 49, 50, 51, 75, 90, 99, 100])
def test_steps_are_those_of_libjpeg(quality):
    file = io.BytesIO()
    Image.new("RGB", (8, 8)).save(file, "JPEG", quality=quality)
    tables = Image.open(file).quantization
    assert steps_of(quality) == [*tables[0], *tables[1]]


def images(size):
    """Something like a photograph, noise, and squares of the strongest colors, of which coefficients are largest."""
    rng = np.random.default_rng(4)
    strongest = rng.choice(np.array([0, 255], np.uint8), (-(-size[0] // 8), -(-size[1] // 8), 3))
    yield smooth(size)
    yield rng.integers(0, 256, (*size, 3), dtype=np.uint8)
    yield strongest.repeat(8, 0).repeat(8, 1)[: size[0], : size[1]]


@pytest.mark.parametrize(
    ("size", "quality"),
    combined(
        [(96, 128), (61, 83), (17, 16), (2, 3), (1, 1), (5, 40), (54, 70), (70, 54)],
        [1, 3, 30, 50, 75, 90, 100],
    ),
)
def test_it_is_what_libjpeg_makes_of_an_image(anywhere, size, quality):
    """Every level, also near borders, where what is repeated beyond them is in the coefficients."""
    for x in images(size):
        compare(anywhere(JpegCompressionDistortion(quality=quality), x), by_libjpeg(x, quality))


def test_the_transform_is_the_cosine_transform():
    """To one part of eight of a level, the unit of its coefficients, and back to less than a level."""
    rng = np.random.default_rng(0)
    x = rng.integers(-128, 128, (8, 8, 400)).astype(np.int32)
    found = jpeg._frequencies(
        jpeg._frequencies(x, -jpeg._EXTRA_BITS).swapaxes(0, 1), jpeg._EXTRA_BITS
    ).swapaxes(0, 1)
    wanted = fft.dctn(x.astype(np.float64), axes=(0, 1), norm="ortho") * 8
    assert np.abs(found - wanted).max() < 1.5
    assert abs((found - wanted).mean()) < 0.03
    coefficients = np.rint(wanted / 8).astype(np.int32)
    places = jpeg._values_of(jpeg._values_of(coefficients, 11).swapaxes(0, 1), 18).swapaxes(0, 1)
    exact = fft.idctn(coefficients.astype(np.float64), axes=(0, 1), norm="ortho")
    assert np.abs(places - exact).max() < 0.7


def test_the_matrix_has_the_symmetries_that_kernels_use():
    """Both directions have the same weights; sums and differences of values suffice, for even frequencies twice."""
    weights, signs = jpeg._weights(), (-1) ** np.arange(8)[:, None]
    assert (jpeg._values_of(np.eye(8, dtype=np.int32) << 11, 11) == weights.T).all()
    assert (weights[:, ::-1] == signs * weights).all()
    assert (weights[::2, 3::-1] == signs[:4] * weights[::2, :4]).all()


def test_the_kernels_numbers_fit_their_integers():
    """Sums fit 32 bits, in any order; what is kept between the passes, of forward ones the upper half, fits 16."""
    weights = np.abs(jpeg._weights().astype(np.int64))
    of_frequency, of_place = weights.sum(axis=1).max(), weights.sum(axis=0).max()
    assert 255 * of_frequency << 16 - 11 < 1 << 31
    lines = 128 * of_frequency >> 11  # 128 has been subtracted
    assert lines * of_frequency << 16 - 15 < 1 << 31
    assert lines * of_frequency >> 15 <= COEFFICIENT
    quantized = COEFFICIENT // 8 + 128  # by steps of 255 at most
    assert quantized * of_place < 1 << 31
    columns = lines + (129 * of_place >> 11) + 8  # errors of steps, and of rounding
    assert columns < 1 << 15
    assert (columns + 4096) * of_place < 1 << 31  # 128 has been added


def test_the_kernel_rounds_coefficients_as_they_are_rounded():
    """By reciprocals that are a little too large, so that halves go away from 0."""
    coefficients = np.arange(-COEFFICIENT, COEFFICIENT + 1)
    for step in range(1, 256):
        wanted = np.sign(coefficients) * ((np.abs(coefficients) + 4 * step) // (8 * step))
        part = np.float32(1 + 2.0**-14) * (np.float32(1) / np.float32(8 * step))
        assert (np.rint(coefficients.astype(np.float32) * part) == wanted).all()


def test_it_is_the_same_with_and_without_c(monkeypatch):
    """Of types that are bytes, and others, and of images that do not lie one after the other."""
    native = jpeg._native()
    if native is None:
        pytest.skip("no C compiler")
    x = np.random.default_rng(1).integers(0, 256, (3, 45, 70, 3), dtype=np.uint8)
    for given in (x, x[:, ::-1, 1::2], x.astype(np.float32) / 255, x.astype(np.uint16) * 257):
        op = JpegCompressionDistortion(quality=60)
        found = op(given)
        monkeypatch.setattr(jpeg, "_native", lambda: None)
        compare(op(given), found)
        monkeypatch.setattr(jpeg, "_native", lambda: native)
        compare(apply(op, given, backend="reference"), found)


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


def test_blocks_make_one_tile_after_the_other_where_there_are_many(place, monkeypatch):
    monkeypatch.setattr(traits, "_FULL_GPU_BLOCKS", 1)
    x = np.random.default_rng(3).integers(0, 256, (2, 1, 150, 210, 3), dtype=np.uint8)
    op = JpegCompressionDistortion(quality=[30, 85])
    compare(place(op, x), apply(op, x, backend="reference"))
    some, many = JpegCompressionDistortion(quality=40, p=0.5, seed=1), x.repeat(3, 0)
    found = place(some, many)
    compare(found, apply(some, many, backend="reference"))
    assert len({bool((result == given).all()) for result, given in zip(found, many, strict=True)}) == 2


@pytest.mark.parametrize("size", [(16, 32), (17, 36), (47, 4), (50, 100), (33, 30)])
def test_kernels_take_words_and_bytes(place, size):
    """Of lines that are whole words, over the borders of units and of parts; of every other column; and of planes."""
    x = np.random.default_rng(2).integers(0, 256, (2, *size, 3), dtype=np.uint8)
    op = JpegCompressionDistortion(quality=70)
    for given in (x, x[:, :, ::2], x[:, ::-1, 1:]):
        compare(place(op, given), apply(op, given, backend="reference"))
    planes = np.ascontiguousarray(np.moveaxis(x, -1, 1))
    wanted = np.moveaxis(apply(op, x, backend="reference"), -1, 1)
    compare(place(op, planes, layout="FCHW"), wanted)


def test_kernels_keep_differences_of_the_strongest_colors_within_levels(place):
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


def test_an_image_of_one_color_keeps_it(anywhere):
    x = np.full((19, 33, 3), 128, np.uint8)
    compare(anywhere(JpegCompressionDistortion(quality=1), x), x)
