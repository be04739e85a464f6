"""NPY arrays and members of NPZ archives; their sizes are compared with the bytes that are there first."""

from __future__ import annotations

import io
import math
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt

from ...errors import SeqpipeError, UnreadableSourceError

__all__ = ["NpyHeader", "array_of_npy", "member_bytes", "npy_header", "reading_zip"]

_HEADS: Final = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}
_HEAD_BYTES: Final = 1 << 16
_DEFLATE_MOST: Final = 1032
"""Bytes that a byte of a deflate stream becomes at most."""
_PIECE: Final = 1 << 20


class NpyHeader(NamedTuple):
    """The header of an array.

    Attributes:
        shape: its shape.
        fortran: whether the first axis is the fastest.
        dtype: dtype of the values, which are numbers.
        offset: position of the values.
    """

    shape: tuple[int, ...]
    fortran: bool
    dtype: np.dtype[Any]
    offset: int

    @property
    def end(self) -> int:
        """Position after the values."""
        return self.offset + math.prod(self.shape) * self.dtype.itemsize


def npy_header(head: bytes, source: str, kinds: str = "biufc") -> NpyHeader:
    """Read the header of an array."""
    stream = io.BytesIO(head[:_HEAD_BYTES])
    try:
        version = np.lib.format.read_magic(stream)
        shape, fortran, dtype = _HEADS[version](stream)
    except Exception as error:
        # NumPy evaluates the header as a Python literal, which raises many types of errors
        raise UnreadableSourceError(
            f"the NPY header is damaged ({error})", source=source, advice="Write the file again"
        ) from error
    if dtype.hasobject or dtype.kind not in kinds:
        raise UnreadableSourceError(
            f"the array has the dtype {dtype} and is not unpickled"
            if dtype.hasobject
            else f"the array has the dtype {dtype}",
            source=source,
            allowed="numbers",
            advice="Save an array of numbers: np.save(path, array.astype(np.float32))",
        )
    if any(type(length) is not int or length < 0 for length in shape):
        raise UnreadableSourceError(
            f"the array has the shape {shape}", source=source, allowed="lengths from 0 on"
        )
    return NpyHeader(shape, bool(fortran), dtype, stream.tell())


def array_of_npy(data: npt.NDArray[np.uint8], source: str, kinds: str = "biufc") -> npt.NDArray[Any]:
    """Return the array of an NPY file as a view of its bytes."""
    header = npy_header(data[:_HEAD_BYTES].tobytes(), source, kinds)
    if header.end > len(data):
        raise UnreadableSourceError(
            f"the header promises {header.end:,} bytes, but the file has {len(data):,}",
            source=source,
            advice="The file was cut short, or its header is wrong: fetch it again",
        )
    values = data[header.offset : header.end].view(header.dtype)
    return values.reshape(header.shape, order="F" if header.fortran else "C")


@contextmanager
def reading_zip(source: str, fact: str = "the archive is damaged") -> Iterator[None]:
    """Turn what reading a ZIP archive raises into an error that names it."""
    try:
        yield
    except SeqpipeError:
        raise
    except (
        zipfile.BadZipFile,
        zlib.error,
        EOFError,
        OSError,
        RuntimeError,  # an encrypted member; as NotImplementedError, a method of compression
        ValueError,
        KeyError,
        IndexError,
    ) as error:
        raise UnreadableSourceError(
            f"{fact} ({error})", source=source, advice="Write or fetch the file again"
        ) from error


def member_bytes(archive: zipfile.ZipFile, name: str, source: str) -> npt.NDArray[np.uint8]:
    """Return the bytes of a member of an archive; its checksum is verified."""
    member = archive.getinfo(name)
    size, packed = member.file_size, member.compress_size
    most = packed * (1 if member.compress_type == zipfile.ZIP_STORED else _DEFLATE_MOST)
    if size > most and member.compress_type in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        raise UnreadableSourceError(
            f"{name} promises {size:,} bytes, but has {packed:,} bytes in the archive", source=source
        )
    data, at = np.empty(size, np.uint8), 0
    with archive.open(member) as stream:
        while piece := stream.read(_PIECE):  # the last one verifies the checksum
            data[at : at + len(piece)] = np.frombuffer(piece, np.uint8)
            at += len(piece)
    if at < size:
        raise UnreadableSourceError(f"{name} is {size - at:,} bytes too short", source=source)
    return data
