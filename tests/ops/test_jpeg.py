"""JPEG's distortion against libjpeg, which makes and reads files, and its transform against SciPy's in float64."""

from __future__ import annotations

import io
import re
from importlib import resources

import cv2
import numpy as np
import pytest
import simplejpeg
from PIL import Image
from scipy import fft

from seqpipe import fn
from seqpipe.ops import JpegCompressionDistortion, Spec, apply
from seqpipe.ops.compression import jpeg
from seqpipe.ops.core import body
from seqpipe.ops.core.blocks import resolve
from tests.support.deep import combined
from tests.support.operators import compare


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
    found = jpeg._frequencies(jpeg._frequencies(x, -jpeg._KEPT).swapaxes(0, 1), jpeg._KEPT).swapaxes(0, 1)
    wanted = fft.dctn(x.astype(np.float64), axes=(0, 1), norm="ortho") * 8
    assert np.abs(found - wanted).max() < 1.5
    assert abs((found - wanted).mean()) < 0.03
    coefficients = np.rint(wanted / 8).astype(np.int32)
    places = jpeg._values_of(jpeg._values_of(coefficients, 11).swapaxes(0, 1), 18).swapaxes(0, 1)
    exact = fft.idctn(coefficients.astype(np.float64), axes=(0, 1), norm="ortho")
    assert np.abs(places - exact).max() < 0.7


def parts(weights, bits):
    """Upper parts of weights, and what is left below them."""
    above = (weights + (1 << (bits - 1))) >> bits
    return above, weights - (above << bits)


def reach(weights, least, most):
    """How far any of a row's sums goes, whatever the order, of values from one to another."""
    ends = np.sort([weights * least, weights * most, 0 * weights], axis=0)
    return np.abs([ends[0].sum(axis=1), ends[-1].sum(axis=1)]).max()


def test_the_kernels_sums_are_whole_numbers_that_floats_hold():
    """From 0.5 to 1 there are 2²² of them to either side of 0.75, where sums begin; and halves hold the weights."""
    source = resources.files("seqpipe.ops.cuda").joinpath("cosine.cuh").read_text("utf-8")
    stated = r"LOWER\[2\]\[2\] = {{(\d), (\d)}, {(\d), (\d)}}, BIAS\[2\] = {(\d+) << 8, (\d+) << 8}"
    found = re.search(stated, source)
    assert found is not None
    *bits, one, other = map(int, found.groups())
    there, back, bias = bits[:2], bits[2:], (one << 8, other << 8)
    weights, room, larger = jpeg._weights().astype(np.int64), 1 << 22, 1 << 16 - 11
    assert (jpeg._values_of(np.eye(8, dtype=np.int64) << 11, 11) == weights.T).all()
    begins = [
        ((1 << 15) + (added << 16) - 0x3F400000) / larger / (1 << low[0])
        for added, low in zip(bias, (there, back), strict=True)
    ]
    assert all(begin == int(begin) for begin in begins)

    # there: bytes, of which the first line's sums are taken 128 times; and what is left of them
    above, below = parts(weights, there[0])
    darker = 128 * 65536 >> there[0]
    assert reach(above, 0, 255) + abs(begins[0]) + darker < room
    assert reach(below * larger, 0, 255) < room
    most = 128 * np.abs(weights).sum(axis=1).max() >> 11
    assert most <= bias[0]
    assert bias[0] + most < 1 << 15
    most = bias[0] + most * 127 // 128  # there are levels of -128, but none of 128
    above, below = parts(weights, there[1])
    assert reach(above, 0, most) + 128 < room
    assert reach(below, 0, most) < room

    # back: coefficients with the errors of steps of 255, of which halves hold the whole numbers; and places of columns
    most = 1024 + 128 + 1
    assert most <= 2048
    above, below = parts(weights.T, back[0])
    assert reach(above, -most, most) + abs(begins[1]) < room
    assert reach(below * larger, -most, most) < room
    most = 4 * 1024 + 129 * np.abs(weights.T).sum(axis=1).max() // 2048 + 8
    assert most < bias[1]
    assert 2 * bias[1] < 1 << 15
    # the second pass begins where it has nothing of the bias; the sums of upper parts at 1 and a bit, as far as to 2
    above, below = parts(weights.T, back[1])
    begin = ((128 << 18) + (1 << 17) - 0x3F400000 - (0x3F800000 << back[1])) % (1 << 32) >> back[1]
    assert reach(above, -bias[1], most) < min(begin, 2 * room - begin)
    assert reach(below, -bias[1], most) < room
    for first, second in (there, back):
        for part, scale in ((first, larger), (second, 512)):
            both = np.stack(parts(weights, part)).astype(np.float64) * scale
            assert (both.astype(np.float16) == both).all()


def test_the_kernel_rounds_coefficients_as_they_are_rounded():
    """By parts that are a little too large, so that halves go away from 0."""
    coefficients = np.arange(-8200, 8201, dtype=np.int64)
    for step in range(1, 256):
        wanted = np.sign(coefficients) * ((np.abs(coefficients) + 4 * step) // (8 * step))
        part = np.float32(1 + 2.0**-14) * (np.float32(1) / np.float32(8 * step))
        assert (np.rint(coefficients * np.float64(part)) == wanted).all()


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
    monkeypatch.setattr(body, "_MANY", 1)
    x = np.random.default_rng(3).integers(0, 256, (2, 1, 150, 210, 3), dtype=np.uint8)
    op = JpegCompressionDistortion(quality=[30, 85])
    compare(place(op, x), apply(op, x, backend="reference"))
    some, many = JpegCompressionDistortion(quality=40, p=0.5, seed=1), x.repeat(3, 0)
    found = place(some, many)
    compare(found, apply(some, many, backend="reference"))
    assert len({bool((one == given).all()) for one, given in zip(found, many, strict=True)}) == 2


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
