"""Files of flow, beside OpenCV's own readers and writers; damaged ones are named."""

from __future__ import annotations

import struct

import cv2
import numpy as np
import pytest
from PIL import Image

from seqpipe import flow
from seqpipe.errors import OutputError, ParameterError, SourceNotFoundError, UnreadableSourceError
from seqpipe.sequence import Sequence


@pytest.fixture
def field():
    made = np.random.default_rng(0).normal(0, 20, (7, 9, 2)).astype(np.float32)
    made[2, 3] = np.nan
    return made


def test_flo_is_that_of_opencv(tmp_path, field):
    flow.write(tmp_path / "a.flo", field)
    found = cv2.readOpticalFlow(str(tmp_path / "a.flo"))
    known = np.isfinite(field)
    assert (found[known] == field[known]).all()
    assert (found[2, 3] > 1e9).all()  # unknown, as the benchmark has it
    assert cv2.writeOpticalFlow(str(tmp_path / "b.flo"), np.nan_to_num(field))
    assert (flow.read(tmp_path / "b.flo") == np.nan_to_num(field)).all()
    back = flow.read(tmp_path / "a.flo")
    assert back.dtype == np.float32
    assert np.array_equal(back, field, equal_nan=True)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.flo", "b.flo"]


def test_png_is_that_of_kitti(tmp_path, field):
    flow.write(tmp_path / "a.png", field)
    # the devkit's reader: R and G are the vector, B tells whether it is known
    blue, green, red = np.moveaxis(
        cv2.imread(str(tmp_path / "a.png"), cv2.IMREAD_UNCHANGED).astype(float), -1, 0
    )
    assert np.abs((red - 32768) / 64 - field[..., 0])[blue > 0].max() <= 1 / 128 + 1e-6
    assert np.abs((green - 32768) / 64 - field[..., 1])[blue > 0].max() <= 1 / 128 + 1e-6
    assert blue.min() == blue[2, 3] == 0
    assert (red[2, 3], green[2, 3]) == (0, 0)
    back = flow.read(tmp_path / "a.png")
    assert np.isnan(back[2, 3]).all()
    assert np.nanmax(np.abs(back - field)) <= 1 / 128 + 1e-6
    field[0, 0] = (700, -700)
    flow.write(tmp_path / "far.png", field)
    assert flow.read(tmp_path / "far.png")[0, 0].tolist() == [(65535 - 32768) / 64, -512]


def test_npz_keeps_the_clock(tmp_path, field):
    given = Sequence(np.stack([field, field]), source="a.mp4", frames=[3, 4], timestamps=[0.1, 0.2])
    flow.write(tmp_path / "a.npz", given)
    back = flow.read(tmp_path / "a.npz")
    assert isinstance(back, Sequence)
    assert np.array_equal(back.data, given.data, equal_nan=True)
    assert (back.frames.tolist(), back.timestamps.tolist(), back.source) == ([3, 4], [0.1, 0.2], "a.mp4")
    flow.write(tmp_path / "b.npz", given.data)
    assert np.array_equal(flow.read(tmp_path / "b.npz"), given.data, equal_nan=True)
    fixed = np.nan_to_num(given.data * 32).astype(np.int16)
    flow.write(tmp_path / "c.npz", fixed)
    assert (flow.read(tmp_path / "c.npz") == fixed / np.float32(32)).all()


def test_one_frame_of_a_sequence_fits_a_file_of_one(tmp_path, field):
    flow.write(tmp_path / "a.flo", field[None])
    assert flow.read(tmp_path / "a.flo").shape == (7, 9, 2)
    with pytest.raises(
        ParameterError, match=r"write: a flow of shape \(2, 7, 9, 2\) in one .flo file; allowed: one"
    ):
        flow.write(tmp_path / "b.flo", np.stack([field, field]))


GOOD = b"PIEH" + struct.pack("<ii", 2, 1) + bytes(16)


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("a.flo", b"", "begins with b'', where a .flo file has b'PIEH'"),
        ("a.flo", b"RIFF" + GOOD[4:], "begins with b'RIFF'"),
        ("a.flo", GOOD[:9], "its header is cut off after 9 of 12 bytes"),
        ("a.flo", b"PIEH" + struct.pack("<ii", -2, 1), "its header says -2×1 vectors"),
        (
            "a.flo",
            b"PIEH" + struct.pack("<ii", 1 << 30, 1 << 30),
            "its header says 1073741824×1073741824 vectors",
        ),
        ("a.flo", GOOD[:-3], "it has 25 bytes, but 2×1 vectors need 28"),
        ("a.flo", GOOD + b"x", "it has 29 bytes, but 2×1 vectors need 28"),
        ("a.png", b"", "these 0 bytes are not an image that can be decoded"),
        ("a.png", b"\x89PNG\r\n\x1a\n" + bytes(20), "these 28 bytes are not an image that can be decoded"),
        ("a.npz", b"", "it is no .npz file that can be read"),
        ("a.npz", b"PK\x03\x04" + bytes(30), "it is no .npz file that can be read"),
    ],
)
def test_damaged_files_are_named(tmp_path, name, content, said):
    (tmp_path / name).write_bytes(content)
    with pytest.raises(UnreadableSourceError, match=rf"{name}: .*{said}.*Write or fetch the file again"):
        flow.read(tmp_path / name)


def test_pictures_are_no_flow(tmp_path):
    Image.new("RGB", (4, 3)).save(tmp_path / "a.png")
    with pytest.raises(
        UnreadableSourceError, match=r"a picture of uint8 of shape \(3, 4, 3\); allowed: KITTI's flow"
    ):
        flow.read(tmp_path / "a.png")
    np.savez(tmp_path / "a.npz", data=np.zeros(3))
    with pytest.raises(UnreadableSourceError, match="it has no array 'flow', but data"):
        flow.read(tmp_path / "a.npz")
    np.savez(tmp_path / "b.npz", flow=np.zeros(3))
    with pytest.raises(UnreadableSourceError, match=r"its array 'flow' is float64 of shape \(3,\)"):
        flow.read(tmp_path / "b.npz")


def test_places_that_are_none(tmp_path, field):
    with pytest.raises(SourceNotFoundError, match="there is no such file"):
        flow.read(tmp_path / "none.flo")
    with pytest.raises(ParameterError, match=r"read: .*a.jpg ends in .jpg; allowed: .flo, .png, .npz"):
        flow.read(tmp_path / "a.jpg")
    with pytest.raises(ParameterError, match="ends in nothing"):
        flow.write(tmp_path / "flo", field)
    with pytest.raises(OutputError, match="the file cannot be written"):
        flow.write(tmp_path / "none" / "a.flo", field)
    with pytest.raises(ParameterError, match="format='gif' is not valid; allowed: flo, png, npz"):
        flow.encode(field, "gif")
