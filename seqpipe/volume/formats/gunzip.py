"""Decompression of volume files: by libdeflate if it is installed, else by zlib.

The size of the result follows from the header. So memory is allocated once, and a stream that holds more or less raises
an error instead of giving a wrong volume or exhausting memory.
"""

from __future__ import annotations

import ctypes
import importlib.util
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Final, Literal

import numpy as np

from ...core.files.content import packing_of, unpack_errors, unpacker
from ...errors import SourceError, UnreadableSourceError
from ..source import AnyArray, damaged

__all__ = ["LEVEL", "MAX_GIB", "Compression", "check_size", "inflate", "inflate_all", "inflate_start"]

Compression = Literal["gzip", "zlib", "bzip2", "xz"]

LEVEL: Final = 6
"""Level of compression of the files that are written."""

MAX_GIB: Final = 64.0
"""Largest volume that is read at once, in GiB."""

_GZIP: Final = b"\x1f\x8b"
_MAGIC: Final = 16
# greatest compression ratio of deflate; bzip2 and xz compress zeros further
_DEFLATE_MOST: Final = 1032
_OTHERS_MOST: Final = 1 << 20
_ROOM: Final = 1 << 20
_PIECE: Final = 1 << 20
_GOOD, _BAD, _SHORT, _NO_SPACE = 0, 1, 2, 3


def check_size(expected: int, stored: int, source: str, compression: Compression | None) -> None:
    """Refuse, before allocating memory, a header that promises more than its file can hold."""
    most = {None: 1, "bzip2": _OTHERS_MOST, "xz": _OTHERS_MOST}.get(compression, _DEFLATE_MOST) * stored
    if expected > most:
        can = (
            f"{stored:,} bytes"
            if compression is None
            else f"{stored:,} bytes compressed, which hold {most:,} at most"
        )
        raise UnreadableSourceError(
            f"the header promises {expected:,} bytes, but the file has {can}",
            source=source,
            advice="The file was cut short, or its header is wrong: fetch it again",
        )
    if expected > MAX_GIB * 2**30:
        raise UnreadableSourceError(
            f"the volume takes {expected / 2**30:.1f} GiB",
            source=source,
            allowed=f"up to {MAX_GIB:g} GiB",
            advice="Increase seqpipe.volume.formats.gunzip.MAX_GIB to read it",
        )


def inflate(data: bytes, expected: int, source: str, compression: Compression = "gzip") -> AnyArray:
    """Decompress a stream; the members of a gzip, bzip2 or xz file are concatenated."""
    check_size(expected, len(data), source, compression)
    decompress = _libdeflate(compression) if compression in ("gzip", "zlib") else None
    if decompress is None:
        return _by_python(data, expected, source, compression)
    out = np.empty(expected + _ROOM, dtype=np.uint8)
    read = written = 0
    while read < len(data) and (not read or data[read : read + 2] == _GZIP):
        code, used, produced = decompress(data, read, out, written)
        if code == _NO_SPACE:
            raise _too_much(source, expected)
        if code != _GOOD:
            _by_python(data, expected, source, compression)  # its error states where the damage begins
            raise damaged(source, "the compressed data is damaged")
        read, written = read + used, written + produced
    if written < expected:
        raise damaged(source, f"the file holds {written:,} bytes, but its header promises {expected:,}")
    return out[:expected]


def inflate_start(data: bytes, size: int, source: str, compression: Compression = "gzip") -> AnyArray:
    """Decompress the first bytes of a stream, ignoring what follows."""
    return _by_python(data, size, source, compression, whole=False)


def inflate_all(data: bytes, source: str, compression: Compression = "gzip") -> bytes:
    """Decompress a whole stream of unknown size; the members of a gzip, bzip2 or xz file are concatenated."""
    pieces: list[bytes] = []
    total = 0
    for piece in _pieces(data, source, compression):
        pieces.append(piece)
        total += len(piece)
        if total > MAX_GIB * 2**30:
            check_size(total, total, source, None)
    return b"".join(pieces)


def _by_python(
    data: bytes, expected: int, source: str, compression: Compression, *, whole: bool = True
) -> AnyArray:
    """Decompress by the standard library, in pieces, so that errors state where the damage begins."""
    check_size(expected, len(data), source, compression)
    out = np.empty(expected, dtype=np.uint8)
    written = 0
    for piece in _pieces(data, source, compression, expected):
        part = np.frombuffer(piece, dtype=np.uint8)[: max(0, expected - written)]
        out[written : written + len(part)] = part
        written += len(piece)
        if written >= expected and not whole:
            return out
        if written > expected + _ROOM:
            raise _too_much(source, expected)
    if written < expected:
        raise damaged(source, f"the file holds {written:,} bytes, but its header promises {expected:,}")
    return out


def _pieces(
    data: bytes, source: str, compression: Compression, expected: int | None = None
) -> Iterator[bytes]:
    """Yield the content of a stream in pieces; errors state where the damage begins, and the expected size if known."""
    read = written = 0
    of_all = "" if expected is None else f" of {expected:,}"
    while read < len(data) and (not read or packing_of(data[read : read + _MAGIC]) == compression):
        stream = unpacker(compression)
        pending = b""
        while not stream.eof:
            if not pending and getattr(stream, "needs_input", True):
                pending = data[read : read + _PIECE]
                read += len(pending)
                if not pending:
                    raise damaged(source, f"the file ends after {written:,}{of_all} bytes")
            try:
                piece = stream.decompress(pending, _PIECE)
            except unpack_errors() as error:
                raise damaged(
                    source, f"the compressed data is damaged after {written:,} bytes ({error})"
                ) from error
            pending = getattr(stream, "unconsumed_tail", b"")
            written += len(piece)
            yield piece
        read -= len(stream.unused_data)


def _too_much(source: str, expected: int) -> SourceError:
    """Return the error for a stream that holds more than expected."""
    return damaged(
        source, f"the compressed data holds more than the {expected:,} bytes that its header promises"
    )


_Decompress = Callable[[bytes, int, AnyArray, int], tuple[int, int, int]]


@cache
def _libdeflate(compression: str) -> _Decompress | None:
    """Return libdeflate's function for a kind of stream, from the wheel ``deflate``; None if it is not installed.

    It is called by address, because the wheel's own functions ignore all members but the first.
    """
    spec = importlib.util.find_spec("deflate")
    folder = Path(spec.origin).parent if spec is not None and spec.origin else None
    for path in [] if folder is None else sorted(folder.glob("_deflate*.so")):
        try:
            library = ctypes.CDLL(str(path))
            allocate, free = library.libdeflate_alloc_decompressor, library.libdeflate_free_decompressor
            function = library[f"libdeflate_{compression}_decompress_ex"]
        except (OSError, AttributeError):
            continue
        size, pointer = ctypes.c_size_t, ctypes.c_void_p
        allocate.restype, allocate.argtypes = pointer, []
        free.restype, free.argtypes = None, [pointer]
        function.restype = ctypes.c_int
        function.argtypes = [
            pointer,
            pointer,
            size,
            pointer,
            size,
            ctypes.POINTER(size),
            ctypes.POINTER(size),
        ]
        return _caller(allocate, free, function)
    return None


def _caller(
    allocate: Callable[[], int | None],
    free: Callable[[int], None],
    function: Callable[..., int],
) -> _Decompress:
    """Return the function that inflates, with a decompressor of its own for each call."""

    def decompress(data: bytes, read: int, out: AnyArray, written: int) -> tuple[int, int, int]:
        used, produced = ctypes.c_size_t(), ctypes.c_size_t()
        state = allocate()
        if not state:
            raise MemoryError("libdeflate has no memory for its tables")
        try:
            view = np.frombuffer(data, dtype=np.uint8)
            code = function(
                state,
                view.ctypes.data + read,
                len(data) - read,
                out.ctypes.data + written,
                len(out) - written,
                ctypes.byref(used),
                ctypes.byref(produced),
            )
        finally:
            free(state)
        return code, used.value, produced.value

    return decompress
