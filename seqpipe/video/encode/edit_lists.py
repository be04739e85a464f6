"""Ends of the edit lists of MP4 files, which hide what follows them: the muxer's end with the last packet."""

from __future__ import annotations

import os
import struct
from collections.abc import Iterator
from typing import BinaryIO

__all__ = ["end_edit_lists"]


def end_edit_lists(file: BinaryIO, duration_s: float) -> None:
    """Set the end of all edit lists of an MP4 file."""
    for kind, begin, size in _boxes(file, 0, file.seek(0, os.SEEK_END)):
        if kind != b"moov":
            continue
        inner = list(_boxes(file, begin, begin + size))
        header = next(at for name, at, _ in inner if name == b"mvhd")
        file.seek(header)
        wide = file.read(1) == b"\1"
        file.seek(header + (20 if wide else 12))
        (ticks,) = struct.unpack(">I", file.read(4))
        for name, at, length in inner:
            if name == b"trak":
                _end_edit_list(file, at, length, round(duration_s * ticks))


def _end_edit_list(file: BinaryIO, begin: int, size: int, duration: int) -> None:
    """Set the end of a track's edit list, unless it ends earlier."""
    for name, at, length in _boxes(file, begin, begin + size):
        if name != b"edts":
            continue
        for inner, start, _ in _boxes(file, at, at + length):
            if inner != b"elst":
                continue
            file.seek(start)
            version, count = struct.unpack(">B3xI", file.read(8))
            form = ">Qq" if version else ">Ii"
            place = start + 8 + (count - 1) * (struct.calcsize(form) + 4)
            before = 0
            for number in range(count - 1):
                file.seek(start + 8 + number * (struct.calcsize(form) + 4))
                before += struct.unpack(form, file.read(struct.calcsize(form)))[0]
            file.seek(place)
            stated, media = struct.unpack(form, file.read(struct.calcsize(form)))
            file.seek(place)
            file.write(struct.pack(form, min(stated, max(0, duration - before)), media))


def _boxes(file: BinaryIO, begin: int, end: int) -> Iterator[tuple[bytes, int, int]]:
    """Yield type, offset and size of the body of each box."""
    while begin + 8 <= end:
        file.seek(begin)
        size, kind = struct.unpack(">I4s", file.read(8))
        head = 8
        if size == 1:
            size, head = struct.unpack(">Q", file.read(8))[0], 16
        if size < head:
            return
        yield kind, begin + head, size - head
        begin += size
