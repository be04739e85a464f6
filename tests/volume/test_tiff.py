"""TIFF: axes, channels, sizes and element types are those that tifffile and Pillow wrote."""

from __future__ import annotations

import numpy as np
import pytest
from PIL import Image

import seqpipe
from seqpipe.errors import SeqpipeError

tifffile = pytest.importorskip("tifffile")

SIZES = {"T": 3, "Z": 4, "C": 2, "Y": 6, "X": 7, "S": 3}


def _array(axes, dtype=np.uint16, sizes=SIZES):
    shape = [sizes[axis] for axis in axes]
    return np.random.default_rng(len(axes)).integers(0, 250, shape).astype(dtype)


def _expected(array, axes):
    """The array as FDHWC, C outside of S."""
    full = "TZYXCS"
    array = array.reshape(*array.shape, *[1] * (len(full) - len(axes)))
    axes += "".join(axis for axis in full if axis not in axes)
    array = array.transpose([axes.index(axis) for axis in full])
    return array.reshape(*array.shape[:4], -1)


def _assert_is(path, array, axes):
    want = _expected(array, axes)
    with seqpipe.open(path) as volume:
        found = volume.sequence().numpy()
        assert found.dtype == array.dtype
        if len(want) == 1:
            want = want[0]
        assert np.array_equal(found, want)
        cut = (slice(0, 1), slice(2, 5), slice(1, 3))
        assert np.array_equal(volume[cut].numpy(), want[(..., *cut, slice(None))])
        volume.close()
        assert np.array_equal(volume[cut].numpy(), want[(..., *cut, slice(None))])
        return volume.info


@pytest.mark.parametrize("one", ["", "T", "Z", "C", "TC", "TZ", "ZC"])
def test_imagej_hyperstacks_of_every_size(tmp_path, one):
    sizes = {axis: 1 if axis in one else size for axis, size in SIZES.items()}
    array = _array("TZCYX", sizes=sizes)
    tifffile.imwrite(tmp_path / "a.tif", array, imagej=True, metadata={"axes": "TZCYX"})
    _assert_is(tmp_path / "a.tif", array, "TZCYX")


@pytest.mark.parametrize(
    "axes", ["TZCYX", "ZCTYX", "CZTYX", "TCZYX", "ZTCYX", "CTZYX", "ZCYX", "CZYX", "TYX", "CYX", "ZYX"]
)
@pytest.mark.parametrize("ome", [True, False])
def test_axes_in_every_order(tmp_path, axes, ome):
    array = _array(axes)
    path = tmp_path / ("a.ome.tif" if ome else "a.tif")
    tifffile.imwrite(path, array, ome=ome, metadata={"axes": axes}, photometric="minisblack")
    _assert_is(path, array, axes)


@pytest.mark.parametrize("axes", ["TZYXS", "ZYXS", "CYXS", "YXS", "ZSYX"])
def test_colors_are_channels(tmp_path, axes):
    array = _array(axes, np.uint8)
    planar = "separate" if axes == "ZSYX" else "contig"
    tifffile.imwrite(
        tmp_path / "a.ome.tif",
        array,
        ome=True,
        metadata={"axes": axes},
        photometric="rgb",
        planarconfig=planar,
    )
    _assert_is(tmp_path / "a.ome.tif", array, axes)


@pytest.mark.parametrize("dtype", ["u1", "i1", "u2", "i2", "u4", "i4", "u8", "i8", "f2", "f4", "f8", "c8"])
@pytest.mark.parametrize("order", ["<", ">"])
def test_every_element_type(tmp_path, dtype, order):
    array = _array("ZYX", dtype)
    tifffile.imwrite(tmp_path / "a.tif", array, byteorder=order, photometric="minisblack")
    _assert_is(tmp_path / "a.tif", array, "ZYX")


@pytest.mark.parametrize("compression", [None, "zlib", "tiff_lzw", "packbits", "tiff_deflate"])
@pytest.mark.parametrize("mode", ["L", "RGB", "I;16", "P"])
def test_compressed_pages(tmp_path, compression, mode):
    array = _array("ZYXS" if mode == "RGB" else "ZYX", np.uint16 if mode == "I;16" else np.uint8)
    pictures = [Image.fromarray(one) for one in array]
    if mode == "P":
        pictures = [Image.fromarray(one % 4).convert("P") for one in array]
        for picture in pictures:
            picture.putpalette([255, 0, 0, 0, 255, 0, 0, 0, 255, 9, 8, 7])
        array, axes = np.stack([np.asarray(picture.convert("RGB")) for picture in pictures]), "ZYXS"
    axes = "ZYXS" if array.ndim == 4 else "ZYX"
    name = "raw" if compression is None else compression.replace("zlib", "tiff_adobe_deflate")
    pictures[0].save(tmp_path / "a.tif", save_all=True, append_images=pictures[1:], compression=name)
    _assert_is(tmp_path / "a.tif", array, axes)


def test_one_bit_and_white_as_zero(tmp_path):
    array = _array("ZYX", np.uint8) % 2
    tifffile.imwrite(tmp_path / "a.tif", array.astype(bool), photometric="minisblack")
    _assert_is(tmp_path / "a.tif", array, "ZYX")
    tifffile.imwrite(tmp_path / "w.tif", array, photometric="miniswhite")
    assert any("WhiteIsZero" in note for note in _assert_is(tmp_path / "w.tif", array, "ZYX").notes)


@pytest.mark.parametrize(
    ("unit", "mm"),
    [
        ("um", 1e-3),
        ("\\u00B5m", 1e-3),
        ("micron", 1e-3),
        ("nm", 1e-6),
        ("mm", 1),
        ("cm", 10),
        ("inch", 25.4),
        ("pixel", 1),
    ],
)
def test_imagej_lengths(tmp_path, unit, mm):
    array = _array("TZCYX")
    facts = {"axes": "TZCYX", "spacing": 2.5, "unit": unit, "finterval": 0.5}
    tifffile.imwrite(tmp_path / "a.tif", array, imagej=True, resolution=(2, 4), metadata=facts)
    info = _assert_is(tmp_path / "a.tif", array, "TZCYX")
    np.testing.assert_allclose(info.spacing_mm, np.array([2.5, 0.25, 0.5]) * mm)
    assert info.time_step_s == 0.5


@pytest.mark.parametrize(
    ("unit", "mm"), [("µm", 1e-3), ("nm", 1e-6), ("mm", 1), ("cm", 10), ("m", 1000), (None, 1e-3)]
)
def test_ome_lengths_and_times(tmp_path, unit, mm):
    facts = {"axes": "TZYX", "TimeIncrement": 250, "TimeIncrementUnit": "ms"}
    for axis, size in zip("XYZ", (0.5, 0.25, 2.5), strict=True):
        facts[f"PhysicalSize{axis}"] = size
        facts |= {f"PhysicalSize{axis}Unit": unit} if unit else {}
    array = _array("TZYX")
    tifffile.imwrite(tmp_path / "a.ome.tif", array, metadata=facts)
    info = _assert_is(tmp_path / "a.ome.tif", array, "TZYX")
    np.testing.assert_allclose(info.spacing_mm, np.array([2.5, 0.25, 0.5]) * mm)
    assert info.time_step_s == 0.25


@pytest.mark.parametrize(("unit", "mm"), [("INCH", 25.4), ("CENTIMETER", 10), ("NONE", None)])
def test_resolution_tags(tmp_path, unit, mm):
    array = _array("ZYX")
    tifffile.imwrite(
        tmp_path / "a.tif",
        array,
        resolution=(200, 100),
        resolutionunit=unit,
        metadata=None,
        photometric="minisblack",
    )
    info = _assert_is(tmp_path / "a.tif", array, "ZYX")
    want = (1, 1, 1) if mm is None else (1, mm / 100, mm / 200)
    np.testing.assert_allclose(info.spacing_mm, want)
    assert any("no unit" in note for note in info.notes) == (mm is None)


def test_axes_that_volumes_do_not_have_and_several_images_are_named(tmp_path):
    tifffile.imwrite(tmp_path / "a.tif", _array("ZYX"), metadata={"axes": "AYX"}, photometric="minisblack")
    with pytest.raises(SeqpipeError, match="axes AYX, 4×6×7"):
        seqpipe.open(tmp_path / "a.tif")
    with tifffile.TiffWriter(tmp_path / "b.ome.tif", ome=True) as writer:
        writer.write(_array("ZYX"), metadata={"axes": "ZYX"}, photometric="minisblack")
        writer.write(_array("YX"), metadata={"axes": "YX"})
    with pytest.raises(SeqpipeError, match="the pages differ: 4×6×7 uint16, 6×7 uint16"):
        seqpipe.open(tmp_path / "b.ome.tif")
