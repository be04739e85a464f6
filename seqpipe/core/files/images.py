"""Pictures in memory: checks of what a header declares, and decoding: JPEG by libjpeg-turbo, others by OpenCV."""

from __future__ import annotations

import re
import struct
import zlib
from collections.abc import Callable
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt

from ...errors import UnreadableSourceError
from ..limits import check_image_size
from .checks import VERIFY, verifies

__all__ = ["check_image", "decode_pixels", "is_picture", "jpeg_orientation"]

_JPEG_FRAMES: Final = {*range(0xC0, 0xD0)} - {0xC4, 0xC8, 0xCC}  # start of frame, of any process
_ARITHMETIC: Final = {*range(0xC9, 0xD0)} - {0xCC}
_JPEG_MOST: Final = 8 * 64
"""Pixels of a byte: each block of 8×8 takes a bit at least, but for arithmetic coding."""
_DEFLATE_MOST: Final = 1032
"""Bytes that a byte of a deflate stream becomes at most."""
_PNG_CHANNELS: Final = {0: 1, 2: 3, 3: 1, 4: 2, 6: 4}
_PNM: Final = re.compile(rb"P([1-6])((?:\s+|#[^\n]*\n)+)(\d+)(?:\s+|#[^\n]*\n)+(\d+)(?:\s+|#[^\n]*\n)*(\d+)?")
_TIFF_TYPES: Final = {1: "B", 3: "H", 4: "I", 13: "I", 16: "Q"}
_TIFF_PLAIN, _TIFF_DEFLATE = 1, (8, 32946)
_ORIENTATION: Final = 0x112


def check_image(data: memoryview, source: str) -> None:
    """Check the size and the lengths that the header of an image file declares; other data pass."""
    head = bytes(data[:32])
    for magic, check in _CHECKS.items():
        if head.startswith(magic):
            check(data, source)
            return


def is_picture(head: bytes) -> bool:
    """Return whether a file is an image by its first bytes; a JPEG may begin a video, and counts as none."""
    found = any(head.startswith(magic) for magic in _CHECKS if magic not in (b"\xff\xd8", b"RIFF"))
    return found or (head.startswith(b"RIFF") and head[8:12] == b"WEBP")


def _short(what: str, data: memoryview, source: str) -> UnreadableSourceError:
    return UnreadableSourceError(
        f"{what}, but the file has {len(data)} bytes",
        source=source,
        advice="The file is damaged, or truncated",
    )


class _Jpeg(NamedTuple):
    """The header of a JPEG: size in pixels, start of frame, and the Exif data; zeros for what it lacks."""

    width: int = 0
    height: int = 0
    frame: int = 0
    exif: bytes = b""


def _jpeg_header(data: memoryview) -> _Jpeg:
    offset, exif = 2, b""
    while offset + 9 <= len(data) and data[offset] == 0xFF:
        marker = data[offset + 1]
        length = int.from_bytes(data[offset + 2 : offset + 4], "big")
        if marker in _JPEG_FRAMES:
            height, width = struct.unpack(">HH", data[offset + 5 : offset + 9])
            return _Jpeg(width, height, marker, exif)
        if marker == 0xE1 and bytes(data[offset + 4 : offset + 10]) == b"Exif\0\0" and not exif:
            exif = bytes(data[offset + 10 : offset + 2 + length])
        offset += 1 if marker == 0xFF else 2 + length  # fill bytes may stand before a marker
    return _Jpeg(exif=exif)


def jpeg_orientation(data: memoryview) -> int:
    """Return the orientation of a JPEG by its Exif data, 1 to 8; 1 if they state none."""
    exif = _jpeg_header(data).exif
    order = {b"II": "<", b"MM": ">"}.get(exif[:2])
    if order is None or len(exif) < 8:
        return 1
    (first,) = struct.unpack_from(f"{order}I", exif, 4)
    if first + 2 > len(exif):
        return 1
    (count,) = struct.unpack_from(f"{order}H", exif, first)
    for entry in range(first + 2, min(first + 2 + 12 * count, len(exif) - 11), 12):
        tag, kind, _, value = struct.unpack_from(f"{order}HHIH", exif, entry)
        if (tag, kind) == (_ORIENTATION, 3):
            return value if 1 <= value <= 8 else 1
    return 1


def _check_jpeg(data: memoryview, source: str) -> None:
    header = _jpeg_header(data)
    check_image_size(header.width, header.height, source)
    if header.frame not in _ARITHMETIC and header.width * header.height > _JPEG_MOST * len(data):
        raise _short(f"it declares {header.width}×{header.height} pixels", data, source)


def _check_png(data: memoryview, source: str) -> None:
    if len(data) < 33 or bytes(data[12:16]) != b"IHDR":
        return  # the decoder refuses it
    width, height, depth, color = struct.unpack(">IIBB", data[16:26])
    check_image_size(width, height, source)
    offset, packed, kind = 8, 0, b""
    while kind != b"IEND":
        length = int.from_bytes(data[offset : offset + 4], "big")
        kind, end = bytes(data[offset + 4 : offset + 8]), offset + 12 + length
        if end > len(data):
            raise _short(f"the chunk {kind!r} at byte {offset} has a length of {length}", data, source)
        packed += length * (kind == b"IDAT")
        # the decoder checks that of pixels
        if (
            kind != b"IDAT"
            and verifies()
            and zlib.crc32(data[offset + 4 : end - 4]) != int.from_bytes(data[end - 4 : end], "big")
        ):
            raise UnreadableSourceError(
                f"the checksum of the chunk {kind!r} at byte {offset} is wrong",
                source=source,
                advice="The file is damaged",
            )
        offset = end
    size = height * (width * depth * _PNG_CHANNELS.get(color, 1) // 8)
    if size > _DEFLATE_MOST * packed:
        raise _short(f"it declares {width}×{height} pixels in {packed} bytes", data, source)


def _check_bmp(data: memoryview, source: str) -> None:
    if len(data) < 34 or data[14] < 40:
        return  # the header of OS/2 has 16 bits for a size
    pixels, width, height, _, bits, packing = struct.unpack("<I4xiiHHI", data[10:34])
    check_image_size(abs(width), abs(height), source)
    if packing in (0, 3, 6) and pixels + abs(height) * (abs(width) * bits // 8) > len(data):
        raise _short(f"it declares {width}×{height} pixels of {bits} bits", data, source)


def _check_pnm(data: memoryview, source: str) -> None:
    match = _PNM.match(bytes(data[:4096]))
    if match is None:
        return
    kind, width, height = int(match[1]), int(match[3]), int(match[4])
    check_image_size(width, height, source)
    samples = width * height * (3 if kind in (3, 6) else 1)
    wide = 2 if kind in (5, 6) and int(match[5] or 0) > 255 else 1
    if (height * (width // 8) if kind == 4 else samples * wide) > len(data):
        raise _short(f"it declares {width}×{height} pixels", data, source)


def _check_webp(data: memoryview, source: str) -> None:
    if len(data) < 30 or bytes(data[8:12]) != b"WEBP":
        return
    length = int.from_bytes(data[4:8], "little")
    if 8 + length > len(data):
        raise _short(f"it declares {8 + length} bytes", data, source)
    kind, bits = bytes(data[12:16]), bytes(data[20:30])
    if kind == b"VP8X":
        width, height = int.from_bytes(bits[4:7], "little") + 1, int.from_bytes(bits[7:10], "little") + 1
    elif kind == b"VP8L":
        packed = int.from_bytes(bits[1:5], "little")
        width, height = (packed & 0x3FFF) + 1, (packed >> 14 & 0x3FFF) + 1
    else:
        width, height = (
            int.from_bytes(bits[6:8], "little") & 0x3FFF,
            int.from_bytes(bits[8:10], "little") & 0x3FFF,
        )
    check_image_size(width, height, source)


def _check_gif(data: memoryview, source: str) -> None:
    if len(data) >= 10:
        width, height = struct.unpack("<HH", data[6:10])
        check_image_size(width, height, source)


def _check_jpeg2000(data: memoryview, source: str) -> None:
    start = bytes(data[:4096])
    at = start.find(b"\xff\x4f\xff\x51")
    if at >= 0 and len(data) >= at + 24:
        width, height, left, top = struct.unpack(">IIII", data[at + 8 : at + 24])
        check_image_size(max(0, width - left), max(0, height - top), source)


def _check_tiff(data: memoryview, source: str) -> None:
    order, big = "<" if bytes(data[:1]) == b"I" else ">", bytes(data[2:4]) in (b"+\0", b"\0+")
    if len(data) < 16:
        return
    offset = (
        struct.unpack_from(f"{order}Q", data, 8)[0] if big else struct.unpack_from(f"{order}I", data, 4)[0]
    )
    seen: set[int] = set()
    while offset:
        if offset in seen:
            raise UnreadableSourceError(
                f"the page at byte {offset} follows itself",
                source=source,
                advice="The file is damaged: its last page must be followed by none",
            )
        seen.add(offset)
        count_form, entry_form, size = ("Q", "HHQQ", 20) if big else ("H", "HHII", 12)
        if offset + struct.calcsize(f"={count_form}") > len(data):
            raise _short(f"the directory of a page is at byte {offset}", data, source)
        (count,) = struct.unpack_from(f"{order}{count_form}", data, offset)
        first = offset + struct.calcsize(f"={count_form}")
        following = first + size * count
        if following + (8 if big else 4) > len(data):
            raise _short(f"the directory at byte {offset} has {count} entries", data, source)
        tags: dict[int, list[int]] = {}
        for entry in range(first, following, size):
            tag, kind, number, _ = struct.unpack_from(f"{order}{entry_form}", data, entry)
            if tag in _TIFF_TAGS and kind in _TIFF_TYPES:
                tags[tag] = _tiff_values(data, order, entry, (kind, number, big), source)
        _check_page(tags, data, source)
        (offset,) = struct.unpack_from(f"{order}{'Q' if big else 'I'}", data, following)


_TIFF_TAGS: Final = {256, 257, 258, 259, 273, 277, 279, 324, 325}


def _tiff_values(
    data: memoryview, order: str, entry: int, field: tuple[int, int, bool], source: str
) -> list[int]:
    kind, number, big = field
    form, room = _TIFF_TYPES[kind], 8 if big else 4
    at = entry + (12 if big else 8)
    if (size := number * struct.calcsize(f"={form}")) > room:
        (at,) = struct.unpack_from(f"{order}{'Q' if big else 'I'}", data, at)
    if at + size > len(data):
        raise _short(f"a field of a page has {number} values at byte {at}", data, source)
    return list(struct.unpack_from(f"{order}{number}{form}", data, at))


def _check_page(tags: dict[int, list[int]], data: memoryview, source: str) -> None:
    """Check the size of a page of a TIFF file against its strips or tiles, and these against the file."""
    width, height = ((tags.get(tag) or [0])[0] for tag in (256, 257))
    check_image_size(width, height, source)
    starts = tags.get(273) or tags.get(324) or []
    counts = tags.get(279) or tags.get(325) or []
    for start, count in zip(starts, counts, strict=False):
        if start + count > len(data):
            raise _short(f"a strip or tile has {count} bytes at byte {start}", data, source)
    packing, bits = (tags.get(259) or [1])[0], sum(tags.get(258) or [1])
    samples = (tags.get(277) or [1])[0]
    size = height * (width * max(bits, samples) // 8)
    most = {_TIFF_PLAIN: 1, **dict.fromkeys(_TIFF_DEFLATE, _DEFLATE_MOST)}.get(packing)
    if most is not None and counts and size > most * sum(counts):
        raise _short(f"a page declares {width}×{height} pixels in {sum(counts)} bytes", data, source)


_CHECKS: Final[dict[bytes, Callable[[memoryview, str], None]]] = {
    b"\xff\xd8": _check_jpeg,
    b"\x89PNG\r\n\x1a\n": _check_png,
    b"BM": _check_bmp,
    b"II*\0": _check_tiff,
    b"MM\0*": _check_tiff,
    b"II+\0": _check_tiff,
    b"MM\0+": _check_tiff,
    b"RIFF": _check_webp,
    b"GIF8": _check_gif,
    b"\0\0\0\x0cjP  \r\n\x87\n": _check_jpeg2000,
    b"\xff\x4f\xff\x51": _check_jpeg2000,
    **dict.fromkeys((b"P1", b"P2", b"P3", b"P4", b"P5", b"P6"), _check_pnm),
}


_HARMLESS: Final = (
    "unknown JFIF revision",
    "Unknown Adobe color",
    "Invalid SOS parameters",
    "bad ICC marker",
)
"""Warnings about headers, which change no pixel."""
_CHANNELS: Final = {3: [2, 1, 0], 4: [2, 1, 0, 3]}


def decode_pixels(raw: npt.NDArray[np.uint8], flags: int, source: str) -> npt.NDArray[Any]:
    """Decode an image, after a check of what its header declares."""
    import cv2

    check_image(raw.data, source)
    jpeg = _of_jpeg(raw, flags, source) if raw[:2].tobytes() == b"\xff\xd8" else None
    if jpeg is not None:
        return jpeg
    try:
        image = cv2.imdecode(raw, flags) if raw.size else None
    except cv2.error as error:
        raise UnreadableSourceError(f"the image cannot be decoded: {error}", source=source) from error
    if image is None:
        raise UnreadableSourceError(
            f"these {raw.size} bytes are not an image that can be decoded",
            source=source,
            allowed="JPEG, PNG, BMP, TIFF, WebP, JPEG 2000, PNM",
            advice="The file is damaged, or of another format",
        )
    if image.ndim == 2 or image.shape[2] not in _CHANNELS:
        return np.asarray(image)
    if image.dtype not in (np.uint8, np.uint16, np.float32):
        return np.ascontiguousarray(image[..., _CHANNELS[image.shape[2]]])
    return np.asarray(cv2.cvtColor(image, {3: cv2.COLOR_BGR2RGB, 4: cv2.COLOR_BGRA2RGBA}[image.shape[2]]))


def _of_jpeg(raw: npt.NDArray[np.uint8], flags: int, source: str) -> npt.NDArray[Any] | None:
    """Decode a JPEG; None for one that is left to OpenCV, such as one of CMYK, which is only verified."""
    import cv2
    import simplejpeg

    try:
        _, _, space, _ = simplejpeg.decode_jpeg_header(raw)
    except ValueError:
        return None  # of 12 bits, or no image
    if space in ("CMYK", "YCCK"):
        _turbo(raw, "CMYK", source, min_height=1, min_width=1, min_factor=8)
        return None
    gray = flags == cv2.IMREAD_GRAYSCALE or flags == cv2.IMREAD_GRAYSCALE | cv2.IMREAD_IGNORE_ORIENTATION
    keeps = flags == cv2.IMREAD_UNCHANGED or flags & cv2.IMREAD_ANYCOLOR
    image = _turbo(raw, "GRAY" if gray or (keeps and space == "Gray") else "RGB", source)
    image = image[..., 0] if image.shape[2] == 1 else image
    if flags == cv2.IMREAD_UNCHANGED or flags & cv2.IMREAD_IGNORE_ORIENTATION:
        return image
    return _oriented(image, jpeg_orientation(raw.data))


def _turbo(raw: npt.NDArray[np.uint8], colors: str, source: str, **scaled: int) -> npt.NDArray[Any]:
    import simplejpeg

    # the accurate transform and chroma, which are those of OpenCV
    options = {"fastdct": False, "fastupsample": False, **scaled}
    try:
        image: npt.NDArray[Any] = simplejpeg.decode_jpeg(raw, colors, strict=verifies(), **options)
    except ValueError as error:
        if not any(text in str(error) for text in _HARMLESS):
            raise UnreadableSourceError(
                f"the image is damaged: {error}", source=source, advice=f"{VERIFY}=0 takes it as it is"
            ) from error
        image = simplejpeg.decode_jpeg(raw, colors, strict=False, **options)
    return image


def _oriented(image: npt.NDArray[Any], orientation: int) -> npt.NDArray[Any]:
    """Turn an image by its Exif orientation."""
    if orientation >= 5:
        image = image.swapaxes(0, 1)
    rows = -1 if orientation in (3, 4, 7, 8) else 1
    columns = -1 if orientation in (2, 3, 6, 7) else 1
    return np.ascontiguousarray(image[::rows, ::columns])
