"""Images that are damaged, or declare more than they hold: an error by every way to read them, and no memory."""

from __future__ import annotations

import io
import re
import struct
import subprocess
import sys
import zlib

import cv2
import numpy as np
import pytest
from PIL import Image

import seqpipe
from seqpipe.dali import fn, pipeline_def
from seqpipe.errors import SeqpipeError, UnreadableSourceError
from seqpipe.images import decode_image
from tests.support.media import ROOT

ROWS, COLUMNS = np.mgrid[:64, :80]
PICTURE = np.stack([ROWS * 3, COLUMNS * 3, (ROWS * COLUMNS) % 251], -1).astype(np.uint8)


def encoded(mode="RGB", kind="JPEG", **options):
    file = io.BytesIO()
    Image.fromarray(PICTURE).convert(mode).save(file, kind, **options)
    return file.getvalue()


def damaged(data):
    """Copies of a JPEG of which libjpeg warns, in the words that it uses."""
    scan = data.index(b"\xff\xda") + 14
    middle = (scan + len(data)) // 2
    cut = data[:middle].rstrip(b"\xff")
    return {
        "premature end of data segment": cut + b"\xff\xd9",
        "Premature end of JPEG file": cut,
        r"\d+ extraneous bytes before marker 0xd9": data[:-2] + b"abcd" * 5 + data[-2:],
    }


JPEGS = {
    "plain": lambda: encoded(quality=90),
    "full chroma": lambda: encoded(quality=90, subsampling=0),
    "gray": lambda: encoded("L", quality=90),
    "CMYK": lambda: encoded("CMYK", quality=90),
    "restarts": lambda: encoded(quality=90, restart_marker_rows=1),
}


@pytest.mark.parametrize("color", ["RGB", "GRAY", "any", "BGR", "YCbCr"])
@pytest.mark.parametrize("name", JPEGS)
def test_what_libjpeg_warns_of_is_an_error(name, color, monkeypatch):
    """OpenCV drops the warnings, and gives gray or smeared pixels."""
    data = JPEGS[name]()
    assert decode_image(data, color).shape[:2] == PICTURE.shape[:2]
    for words, bad in damaged(data).items():
        with pytest.raises(UnreadableSourceError, match=rf"a\.jpg: the image is damaged: .*{words}"):
            decode_image(bad, color, source="a.jpg")
    if name != "CMYK":
        monkeypatch.setenv("SEQPIPE_VERIFY", "0")
        for bad in damaged(data).values():
            assert decode_image(bad, color).shape[:2] == PICTURE.shape[:2]


def test_restart_markers_that_are_out_of_order():
    data = JPEGS["restarts"]()
    at = data.index(b"\xff\xd1", data.index(b"\xff\xda"))
    with pytest.raises(UnreadableSourceError, match=r"found marker 0xd5 instead of RST1"):
        decode_image(data[:at] + b"\xff\xd5" + data[at + 2 :])


def test_warnings_about_headers_are_no_damage():
    data = bytearray(encoded(quality=90))
    data[data.index(b"JFIF\0") + 5] = 9  # a revision that nobody knows
    np.testing.assert_array_equal(decode_image(bytes(data)), decode_image(encoded(quality=90)))


@pytest.mark.parametrize("orientation", range(1, 9))
@pytest.mark.parametrize("mode", ["RGB", "L", "CMYK"])
@pytest.mark.parametrize("progressive", [False, True])
def test_whole_images_are_those_of_opencv(mode, progressive, orientation):
    exif = Image.Exif()
    exif[0x112] = orientation
    raw = np.frombuffer(encoded(mode, quality=85, progressive=progressive, exif=exif), np.uint8)
    judge = cv2.imdecode(raw, cv2.IMREAD_COLOR)
    np.testing.assert_array_equal(decode_image(raw, "BGR"), judge)
    np.testing.assert_array_equal(decode_image(raw, "RGB"), judge[..., ::-1])
    np.testing.assert_array_equal(decode_image(raw, "GRAY")[..., 0], cv2.imdecode(raw, cv2.IMREAD_GRAYSCALE))
    plain = cv2.imdecode(raw, cv2.IMREAD_COLOR | cv2.IMREAD_IGNORE_ORIENTATION)
    np.testing.assert_array_equal(decode_image(raw, "BGR", orient=False), plain)


@pytest.fixture
def folder(tmp_path):
    whole = encoded(quality=90)
    for clip in "ab":
        (tmp_path / clip).mkdir()
        for number in range(4):
            (tmp_path / clip / f"{number}.jpg").write_bytes(whole)
    (tmp_path / "b" / "2.jpg").write_bytes(damaged(whole)["premature end of data segment"])
    return tmp_path


def test_folders_of_frames(folder):
    with seqpipe.folders([folder / "a", folder / "b"], 2) as frames:
        for index in (0, 1, 2):
            frames.sample(index)
        with pytest.raises(SeqpipeError, match=r"2\.jpg.*the image is damaged"):
            frames.sample(3)
    with seqpipe.folders([folder / "a", folder / "b"], 2, on_error="skip").batch(2) as frames:
        assert sum(len(batch["image"]) for batch in frames) == 3
        assert "2.jpg" in str(frames.report())
    with pytest.raises(SeqpipeError, match=r"2\.jpg"), seqpipe.open(folder / "b") as volume:
        volume[:]


def test_dali_decoders(folder):
    def decoded(path):
        raw = np.fromfile(path, np.uint8)
        pipe = pipeline_def(
            lambda: fn.decoders.image(fn.external_source(source=lambda _: [raw])),
            batch_size=1,
            num_threads=1,
            device_id=None,
        )()
        return pipe.run()

    decoded(folder / "a" / "2.jpg")
    with pytest.raises(SeqpipeError, match="the image is damaged"):
        decoded(folder / "b" / "2.jpg")


def chunk(kind, data, checksum=None):
    crc = zlib.crc32(kind + data) if checksum is None else checksum
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", crc)


def test_chunks_of_png():
    data = encoded(kind="PNG")
    end = data.index(b"IEND") - 4
    for kind in (b"IDAT", b"IEND"):
        at = data.index(kind) - 4
        bad = data[:at] + struct.pack(">I", 0x51000000) + data[at + 4 :]
        with pytest.raises(
            UnreadableSourceError, match=rf"the chunk b'{kind.decode()}'.* has a length of 13589"
        ):
            decode_image(bad)
    for rest in (b"", data[end : end + 7]):
        with pytest.raises(UnreadableSourceError, match="but the file has"):
            decode_image(data[:end] + rest)
    with pytest.raises(UnreadableSourceError, match="the checksum of the chunk b'tEXt' at byte"):
        decode_image(data[:end] + chunk(b"tEXt", b"a\0b", 7) + data[end:])
    whole = data[:end] + chunk(b"tEXt", b"a\0b") + data[end:] + b"whatever follows"
    np.testing.assert_array_equal(decode_image(whole), PICTURE)


def huge(name):
    """A small file whose header declares 11,000 × 11,000 pixels."""
    side = 11_000
    if name == "jpg":
        data = bytearray(encoded())
        at = data.index(b"\xff\xc0")
        data[at + 5 : at + 9] = struct.pack(">HH", side, side)
    elif name == "png":
        packed = zlib.compress(bytes(1000))
        head = struct.pack(">IIBBBBB", side, side, 8, 2, 0, 0, 0)
        data = b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", packed) + chunk(b"IEND", b"")
    elif name == "bmp":
        data = bytearray(encoded(kind="BMP"))
        data[18:26] = struct.pack("<ii", side, side)
    elif name in ("tif", "deflate.tif"):
        data = bytearray(
            encoded(kind="TIFF", **({"compression": "tiff_adobe_deflate"} if "." in name else {}))
        )
        (first,) = struct.unpack_from("<I", data, 4)
        (count,) = struct.unpack_from("<H", data, first)
        for entry in range(first + 2, first + 2 + 12 * count, 12):
            if struct.unpack_from("<H", data, entry)[0] in (256, 257):
                struct.pack_into("<HII", data, entry + 2, 4, 1, side)
    elif name == "ppm":
        data = b"P6 11000 11000 255\n" + bytes(1000)
    elif name == "text.pgm":
        data = b"P2\n# a comment\n11000 11000\n255\n" + b"1 " * 500
    return bytes(data)


HUGE = ["jpg", "png", "bmp", "tif", "deflate.tif", "ppm", "text.pgm"]


@pytest.mark.parametrize("name", HUGE)
def test_a_header_that_declares_more_than_the_file_holds(name):
    with pytest.raises(
        UnreadableSourceError, match=r"11000.*, but the file has \d+ bytes|11000.* in \d+ bytes"
    ):
        decode_image(huge(name))


def test_such_headers_take_no_memory(tmp_path):
    paths = [tmp_path / f"a.{name}" for name in HUGE]
    for path, name in zip(paths, HUGE, strict=True):
        path.write_bytes(huge(name))
    code = (
        "import sys, seqpipe, cv2, numpy, seqpipe.video.reader\n"
        "from seqpipe.images import decode_image\n"
        "from tests.support.memory import peak_kib\n"
        "taken = lambda: peak_kib() >> 10\n"
        "for path in sys.argv[1:]:\n"
        "    data, before = open(path, 'rb').read(), taken()\n"
        "    ways = lambda: decode_image(data), lambda: decode_image(data, 'any'), lambda: seqpipe.open(path)[:]\n"
        "    for way in ways:\n"
        "        try: way()\n"
        "        except seqpipe.SeqpipeError: pass\n"
        "    print(taken() - before)\n"
    )
    command = [sys.executable, "-c", code, *paths]
    found = subprocess.run(command, capture_output=True, text=True, check=True, cwd=ROOT)
    assert [mib for mib in map(int, found.stdout.split()) if mib >= 60] == []
    assert len(found.stdout.split()) == len(paths)


@pytest.mark.parametrize("kind", ["WEBP", "GIF", "JPEG2000", "TIFF"])
def test_the_limit_of_pixels_holds_for_every_format(kind, monkeypatch):
    for options in ({}, {"lossless": True}) if kind == "WEBP" else ({},):
        data = encoded(kind=kind, **options)
        monkeypatch.setenv("SEQPIPE_MAX_PIXELS", "5120")
        decode_image(data)
        monkeypatch.setenv("SEQPIPE_MAX_PIXELS", "5119")
        with pytest.raises(UnreadableSourceError, match="it declares frames of 80×64 pixels"):
            decode_image(data)


@pytest.mark.parametrize("pages", [1, 3])
def test_pages_of_a_tiff_that_go_round_are_no_endless_volume(pages, tmp_path):
    """tifffile reads the pages of such a chain until memory ends."""
    file = io.BytesIO()
    first, *rest = [Image.fromarray(PICTURE[..., 0] + n) for n in range(pages)]
    first.save(file, "TIFF", save_all=True, append_images=rest)
    data = bytearray(file.getvalue())
    (start,), offset = struct.unpack_from("<I", data, 4), 4
    while (page := struct.unpack_from("<I", data, offset)[0]) != 0:
        offset = page + 2 + 12 * struct.unpack_from("<H", data, page)[0]
    struct.pack_into("<I", data, offset, start)
    (tmp_path / "round.tif").write_bytes(data)
    with pytest.raises(UnreadableSourceError, match=f"round.tif: the page at byte {start} follows itself"):
        seqpipe.open(tmp_path / "round.tif")


def test_webp_and_tiff_that_end_early():
    data = encoded(kind="WEBP")
    with pytest.raises(UnreadableSourceError, match=rf"it declares {len(data)} bytes, but the file has"):
        decode_image(data[:-3])
    data = encoded(kind="TIFF", compression="tiff_lzw")
    (first,) = struct.unpack_from("<I", data, 4)
    for length in (first - 20, first + 5, first + 30):
        if length < first:
            continue
        with pytest.raises(UnreadableSourceError, match="but the file has"):
            decode_image(data[:length])
    with pytest.raises(UnreadableSourceError, match=re.escape("the directory of a page is at byte")):
        decode_image(data[:4] + struct.pack("<I", 1 << 30) + data[8:])
