"""Pictures that carry their own frame number, readable from the pixels after lossy coding.

The upper three eighths of a picture are a grid of 12 × 3 black or white cells: a fixed marker (8 bits), the
frame number (16 bits) and its check (12 bits), most significant bit first. The cells are gray, so no color
matrix moves them, and large, so that they outlive coarse quantization, 4:2:0 and a reduction to 64 rows.
The lower part moves: gradients, a panning texture and discs, so that an encoder has reason to predict in both
directions. Everything is integer arithmetic: the same picture on every machine.
"""

from __future__ import annotations

import zlib
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["MAX_NUMBER", "draw", "find", "read"]

MAX_NUMBER = 0xFFFF
_COLUMNS, _ROWS, _CODE_ROWS = 12, 8, 3
_MARKER = "11010010"
_NUMBER_BITS, _CHECK_BITS = 16, 12
_BLACK, _WHITE = 20, 235


def draw(
    number: int, size: tuple[int, int] = (128, 96), *, deep: bool = False, interlaced: bool = False
) -> NDArray[Any]:
    """One picture.

    Args:
        number: frame number, 0…65535; also the time of the moving part.
        size: (width, height) in pixels, at least 96 × 64.
        deep: 16 bits per channel, with detail below the eighth bit.
        interlaced: the rows 1, 3, 5, … show the moving part half a frame later (top field first).

    Returns:
        (height, width, 3) RGB, uint8, or uint16 when ``deep``.

    Raises:
        ValueError: the number does not fit, or the picture is too small to carry it.
    """
    width, height = size
    if not 0 <= number <= MAX_NUMBER:
        raise ValueError(f"frame number {number} does not fit; allowed: 0…{MAX_NUMBER}")
    if width < 96 or height < 64:
        raise ValueError(f"a picture of {width}×{height} cannot carry a frame code; allowed: 96×64 and more")
    picture = _scene(2 * number, width, height)
    if interlaced:
        picture[1::2] = _scene(2 * number + 1, width, height)[1::2]
    rows = height * _CODE_ROWS // _ROWS
    picture[:rows] = _cells(number, width, height)[:rows, :, None]
    if not deep:
        return picture.astype(np.uint8)
    x, y = np.arange(width)[None, :, None], np.arange(height)[:, None, None]
    return (picture * 256 + (7 * x + 5 * y + 3 * number) % 256).astype(np.uint16)


def read(image: NDArray[Any], *, turns: int = 0, mirrored: bool = False) -> int:
    """The frame number that a picture carries.

    Args:
        image: (height, width), such as a luma plane, or (height, width, channels); any type and range.
        turns: quarter turns clockwise by which the picture was turned after it was drawn.
        mirrored: the picture was mirrored left to right before it was turned.

    Raises:
        ValueError: no frame code, or a check that does not fit its number.
    """
    upright = np.rot90(image, turns)
    bits = _read_bits(upright[:, ::-1] if mirrored else upright)
    marker, number, check = bits[:8], bits[8:24], bits[24:]
    if marker != _MARKER:
        raise ValueError(f"no frame code in this picture: marker {marker}, expected {_MARKER}")
    if int(check, 2) != _check(int(number, 2)):
        raise ValueError(f"damaged frame code: number {int(number, 2)} with check {int(check, 2)}")
    return int(number, 2)


def find(image: NDArray[Any]) -> tuple[int, int, bool]:
    """The number of a picture in an unknown orientation.

    Returns:
        (number, turns, mirrored) as :func:`read` takes them.

    Raises:
        ValueError: no orientation gives a valid frame code.
    """
    for mirrored in (False, True):
        for turns in range(4):
            try:
                return read(image, turns=turns, mirrored=mirrored), turns, mirrored
            except ValueError:
                continue
    raise ValueError("no frame code in this picture, in any orientation")


def _check(number: int) -> int:
    return zlib.crc32(number.to_bytes(2, "big")) & ((1 << _CHECK_BITS) - 1)


def _cells(number: int, width: int, height: int) -> NDArray[np.int64]:
    bits = _MARKER + f"{number:0{_NUMBER_BITS}b}" + f"{_check(number):0{_CHECK_BITS}b}"
    cells = np.zeros((_ROWS, _COLUMNS), np.int64)
    cells[:_CODE_ROWS] = np.array([int(bit) for bit in bits]).reshape(_CODE_ROWS, _COLUMNS)
    rows, columns = np.arange(height) * _ROWS // height, np.arange(width) * _COLUMNS // width
    return np.where(cells[rows][:, columns] == 1, _WHITE, _BLACK)


def _read_bits(picture: NDArray[Any]) -> str:
    rows, columns = (
        _middles(_CODE_ROWS, _ROWS, picture.shape[0]),
        _middles(_COLUMNS, _COLUMNS, picture.shape[1]),
    )
    code = picture[: rows[-1] + 1, : columns[-1] + 1]
    gray = code.astype(np.float64) if code.ndim == 2 else code[..., :3].mean(axis=-1, dtype=np.float64)
    sums = np.add.reduceat(np.add.reduceat(gray, rows, axis=0)[::2], columns, axis=1)[:, ::2]
    flat = (sums / np.outer(np.diff(rows)[::2], np.diff(columns)[::2])).ravel()
    marker = np.array([bit == "1" for bit in _MARKER])
    white, black = flat[: len(marker)][marker].mean(), flat[: len(marker)][~marker].mean()
    if white - black < 0.2 * max(white, 1e-9):
        raise ValueError(f"no frame code in this picture: white cells {white:.1f}, black cells {black:.1f}")
    return "".join("1" if mean > (white + black) / 2 else "0" for mean in flat)


@cache
def _middles(count: int, cells: int, length: int) -> NDArray[np.int64]:
    """Where the middle half of each of the first cells begins and ends, in turn."""
    return np.array([place for cell in range(count) for place in _middle(cell, cells, length)])


def _middle(cell: int, cells: int, length: int) -> tuple[int, int]:
    """Pixel range of the middle half of a cell, one pixel at least."""
    start = int(length * (4 * cell + 1) / (4 * cells) + 0.5)
    return start, max(int(length * (4 * cell + 3) / (4 * cells) + 0.5), start + 1)


def _scene(time: int, width: int, height: int) -> NDArray[np.int64]:
    """The moving part, (height, width, 3) in 0…255, at ``time`` half frames."""
    x, y = np.arange(width)[None, :], np.arange(height)[:, None]
    texture = _texture()[(y + time // 4) % 64, (x + time // 2) % 64]
    red = _wave(2 * x + y + time, 150) + texture
    green = _wave(x + 3 * y - time, 150) + texture
    blue = _wave(3 * x - 2 * y + 2 * time, 150) + texture
    picture: NDArray[np.int64] = np.stack([red, green, blue], axis=-1) + 24
    for period, radius, color in ((91, 6, (230, 40, 30)), (67, 9, (30, 60, 220)), (53, 4, (240, 230, 40))):
        left = _wave(np.array(time + 2 * period), period) * width // period
        top = height // 2 + _wave(np.array(time + period // 2), period) * (height // 2) // period
        picture[(x - left) ** 2 + (y - top) ** 2 < radius**2] = color
    return picture.clip(0, 255)


def _texture() -> NDArray[np.int64]:
    """64 × 64 smooth noise in 0…63 that joins at its borders."""
    noise: NDArray[np.int64] = np.random.Generator(np.random.Philox(7)).integers(0, 64, (64, 64))
    for axis in (0, 1):
        noise = np.sum([np.roll(noise, shift, axis) for shift in range(4)], axis=0) // 4
    scaled: NDArray[np.int64] = (noise - noise.min()) * 63 // int(np.ptp(noise))
    return scaled


def _wave(value: NDArray[np.int64], height: int) -> NDArray[np.int64]:
    """A triangle wave between 0 and ``height``."""
    phase = value % (2 * height)
    wave: NDArray[np.int64] = np.minimum(phase, 2 * height - phase)
    return wave
