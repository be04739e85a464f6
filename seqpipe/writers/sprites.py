"""Sprite sheets: thumbnails of a video on JPEG images, and a WebVTT file that tells players which to show when."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from fractions import Fraction
from functools import partial
from itertools import chain, islice, pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO
from urllib.parse import quote

import numpy as np
import numpy.typing as npt

from ..errors import OutputError
from .files import write_whole

if TYPE_CHECKING:
    from ..sequence import Sequence

__all__ = ["write_sprites"]

_ALONE_S = 1.0


def write_sprites(
    path: Path,
    frames: Iterable[Sequence],
    *,
    grid: tuple[int, int],
    write_sheet: Callable[[npt.NDArray[np.uint8], BinaryIO], None],
    fps: float | None,
    start_s: float,
) -> int:
    """Write sheets beside a WebVTT file, and the file once they are complete; return the size of the file in bytes.

    Each frame is shown from its time until that of the next one, the last one as long as the one before it.

    Args:
        path: the WebVTT file, to whose stem the names of the sheets add a number.
        frames: single frames of one size, RGB, ascending.
        grid: columns and rows of a sheet.
        write_sheet: writes a sheet ``(H, W, C)`` into a file.
        fps: rate of the frames; None for their times.
        start_s: time of the first frame of the video, which players show at 0 s.

    Raises:
        OutputError: there are no frames, or a file cannot be written.
    """
    columns, rows = grid
    members, sheets = iter(frames), list[Path]()
    times, places = list[float](), list[str]()
    try:
        while group := list(islice(members, columns * rows)):
            pixels = [frame.numpy() for frame in group]
            height, width = pixels[0].shape[:2]
            sheets.append(path.with_name(f"{path.stem}.sprite-{len(sheets):03d}.jpg"))
            write_whole(sheets[-1], partial(write_sheet, _sheet(pixels, columns)))
            for number, frame in enumerate(group):
                assert frame.timestamps is not None
                times.append(float(frame.timestamps[0]) - start_s)
                left, top = number % columns * width, number // columns * height
                places.append(f"{quote(sheets[-1].name)}#xywh={left},{top},{width},{height}")
        if not places:
            raise OutputError("sprite sheets without frames cannot be written", source=path.name)
        if fps is not None:
            times = [float(times[0] + number / Fraction(fps)) for number in range(len(times))]
        text = "\n".join(chain(["WEBVTT\n"], _cues(times, places)))
        return write_whole(path, lambda file: _write(text, file))
    except BaseException:  # sheets without their file would be of no use
        for written in sheets:
            written.unlink(missing_ok=True)
        raise


def _sheet(pixels: list[Any], columns: int) -> Any:
    """Return thumbnails side by side, with black where a row lacks some."""
    height, width, channels = pixels[0].shape
    rows = -(-len(pixels) // columns)
    sheet = np.zeros((rows, height, min(columns, len(pixels)), width, channels), np.uint8)
    for number, thumbnail in enumerate(pixels):
        sheet[number // columns, :, number % columns] = thumbnail
    return sheet.reshape(rows * height, -1, channels)


def _cues(times: list[float], places: list[str]) -> Iterator[str]:
    """Yield the cue of each thumbnail."""
    last_s = times[-1] - times[-2] if len(times) > 1 else _ALONE_S
    for (begin, end), place in zip(pairwise([*times, times[-1] + last_s]), places, strict=True):
        yield f"{_clock(begin)} --> {_clock(end)}\n{place}\n"


def _clock(seconds: float) -> str:
    """Return a time as WebVTT writes it."""
    minutes, milliseconds = divmod(max(0, round(seconds * 1000)), 60_000)
    return f"{minutes // 60:02d}:{minutes % 60:02d}:{milliseconds // 1000:02d}.{milliseconds % 1000:03d}"


def _write(text: str, file: BinaryIO) -> None:
    """Write a text as UTF-8."""
    file.write(text.encode())
