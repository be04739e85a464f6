"""StoredVolume: voxels stored as one array in one file, raw or compressed, described by a header."""

from __future__ import annotations

import math
from collections.abc import Sequence as Seq
from dataclasses import dataclass
from io import RawIOBase

import numpy as np

from ...array import FloatArray, to_numpy
from ...errors import SourceError
from ...sequence import Sequence
from ..info import VolumeInfo
from ..source import AnyArray, Box, Source, chosen_times, damaged
from .gunzip import Compression, check_size, inflate, inflate_start

__all__ = ["Storage", "StoredVolume", "affine_of", "frames_of", "layout_axes"]

_WORTH_STOPPING = 0.6
"""Fraction of a stream up to which zlib, which can stop early, is faster than libdeflate on the whole stream."""


@dataclass(frozen=True)
class Storage:
    """Layout of the voxels in a file.

    Attributes:
        shape: shape of the stored array, slowest axis first.
        axes: for each axis of the layout (``DHWC`` or ``FDHWC``) the stored axis; None for an axis of size 1.
        dtype: stored dtype with its byte order.
        offset: byte offset of the first voxel, in the decompressed data if the voxels are compressed.
        compression: compression of the voxels; None if they are raw.
        begin: byte offset of the compressed stream in the file.
    """

    shape: tuple[int, ...]
    axes: tuple[int | None, ...]
    dtype: np.dtype[np.generic]
    offset: int = 0
    compression: Compression | None = None
    begin: int = 0

    @property
    def nbytes(self) -> int:
        """Size of all voxels in bytes."""
        return math.prod(self.shape) * self.dtype.itemsize

    def layout_shape(self) -> tuple[int, ...]:
        """Return the shape in the order of the layout."""
        return tuple(1 if axis is None else self.shape[axis] for axis in self.axes)


class StoredVolume:
    """A :class:`~seqpipe.volume.source.VolumeSource` of one stored array.

    Args:
        source: the file with the voxels.
        info: facts from its header.
        storage: layout of the voxels in the file.

    Raises:
        UnreadableSourceError: the file is too small for the voxels that its header states.
    """

    def __init__(self, source: Source, info: VolumeInfo, storage: Storage) -> None:
        self.info, self._source, self._storage = info, source, storage
        self._inflated: AnyArray | None = None
        self._begun = False
        stored = source.size() - storage.begin - (0 if storage.compression else storage.offset)
        expected = storage.nbytes + (storage.offset if storage.compression else 0)
        check_size(expected, stored, info.source, storage.compression)

    def read(self, box: Box, times: Seq[int] | None = None) -> AnyArray:
        """Read voxels in their stored dtype; see :class:`~seqpipe.volume.source.VolumeSource`."""
        box, chosen = box.checked(self.info), chosen_times(self.info, times)
        ranges = self._stored_ranges(box, chosen)
        whole = all(r == (0, size) for r, size in zip(ranges, self._storage.shape, strict=True))
        array, origins = self._array(ranges, whole=whole)
        axes = [axis for axis in self._storage.axes if axis is not None]
        view = array.transpose(axes)
        for axis_number, axis in enumerate(self._storage.axes):
            if axis is None:
                view = np.expand_dims(view, axis_number)
        # index of the array's first element along each axis of the layout
        begins = [0 if axis is None or axis >= len(origins) else origins[axis] for axis in self._storage.axes]
        series = self.info.layout == "FDHWC"
        cut = [
            slice(a - begin, b - begin) for (a, b), begin in zip(box.ranges, begins[series:], strict=False)
        ]
        view = view[(slice(None), *cut) if series else tuple(cut)]
        if series and [time - begins[0] for time in chosen] != list(range(len(view))):
            view = view[[time - begins[0] for time in chosen]]
        native = view.astype(self.info.dtype, order="C", copy=array is self._inflated)
        return native if native.flags.writeable else native.copy()

    @property
    def sources(self) -> Seq[Source]:
        """The files with the voxels."""
        return (self._source,)

    def close(self) -> None:
        """Close the file and release the decompressed voxels."""
        self._inflated = None
        self._source.close()

    def _stored_ranges(self, box: Box, chosen: Seq[int]) -> list[tuple[int, int]]:
        """Return the range of each stored axis that contains the box."""
        ranges = [(0, size) for size in self._storage.shape]
        wanted = list(box.ranges)
        if self.info.layout == "FDHWC":
            wanted.insert(0, (min(chosen), max(chosen) + 1))
        for axis, span in zip(self._storage.axes, wanted, strict=False):
            if axis is not None:
                ranges[axis] = span
        return ranges

    def _array(self, ranges: Seq[tuple[int, int]], *, whole: bool) -> tuple[AnyArray, tuple[int, ...]]:
        """Return the stored array, cropped along its slowest axes at least to the ranges, and the crop origin."""
        storage = self._storage
        end = ranges[0][1]
        row = storage.nbytes // storage.shape[0]
        if storage.compression is None:
            return self._raw(ranges)
        if self._inflated is not None:
            return self._inflated, ()
        needed = storage.offset + end * row
        stream = self._source.read([(storage.begin, self._source.size() - storage.begin)])[0]
        early = end < storage.shape[0] and needed < _WORTH_STOPPING * (storage.offset + storage.nbytes)
        if early and not self._begun:
            self._begun = True  # a second read probably continues: it decompresses everything, once
            data = inflate_start(stream, needed, self.info.source, storage.compression)[storage.offset :]
            return self._shaped(data, end), ()
        expected = storage.offset + storage.nbytes
        data = inflate(stream, expected, self.info.source, storage.compression)[storage.offset :]
        array = self._shaped(data, storage.shape[0])
        if not whole:
            self._inflated = array
        return array, ()

    def _shaped(self, data: AnyArray, rows: int) -> AnyArray:
        """View decompressed bytes as the first rows of the stored array."""
        if data.ctypes.data % self._storage.dtype.alignment:
            data = data.copy()
        return data.view(self._storage.dtype).reshape(rows, *self._storage.shape[1:])

    def _raw(self, ranges: Seq[tuple[int, int]]) -> tuple[AnyArray, tuple[int, ...]]:
        """Read voxels of an uncompressed file, cropped along the two slowest axes."""
        storage = self._storage
        (first, end), shape = ranges[0], list(storage.shape)
        origins: tuple[int, ...] = (first,)
        row = storage.nbytes // shape[0]
        shape[0] = end - first
        if len(shape) < 3 or ranges[1] == (0, shape[1]):
            spans = [(storage.offset + first * row, shape[0] * row)]
        else:
            line, (start, stop) = row // shape[1], ranges[1]
            shape[1] = stop - start
            spans = [(storage.offset + n * row + start * line, shape[1] * line) for n in range(first, end)]
            origins = (first, start)
        data = self._bytes(spans)
        if data.ctypes.data % storage.dtype.alignment:
            data = data.copy()
        return data.view(storage.dtype).reshape(shape), origins

    def _bytes(self, spans: list[tuple[int, int]]) -> AnyArray:
        """Read ranges of the file, each an offset and a size, and concatenate them."""
        total = sum(size for _, size in spans)
        if self._source.path is None:
            pieces = self._source.read(spans)
            data = np.frombuffer(pieces[0] if len(pieces) == 1 else b"".join(pieces), np.uint8)
        else:
            data = np.empty(total, np.uint8)
            count_read = 0
            try:
                with open(self._source.path, "rb", buffering=0) as file:  # noqa: PTH123  a path as text
                    for offset, size in spans:
                        file.seek(offset)
                        count_read += _filled(file, data[count_read : count_read + size])
            except OSError as error:
                raise SourceError(f"cannot be read ({error.strerror})", source=self.info.source) from error
            data = data[:count_read]
        if len(data) < total:
            raise damaged(self.info.source, f"the file is {total - len(data):,} bytes too short")
        return data


def _filled(file: RawIOBase, into: AnyArray) -> int:
    """Read from a file until an array is full or the file ends; return the number of bytes read."""
    count_read = 0
    while count_read < len(into) and (count := file.readinto(into[count_read:].data)):
        count_read += count
    return count_read


def layout_axes(kinds: str) -> tuple[int | None, ...]:
    """Return the stored axis of each axis of the layout."""
    layout = "FDHWC" if "F" in kinds else "DHWC"
    return tuple(kinds.index(letter) if letter in kinds else None for letter in layout)


def frames_of(sequence: Sequence) -> AnyArray:
    """Return the stored values of a volume to write, ``FDHWC``; bool as uint8 and float16 as float32."""
    array = to_numpy(sequence.data)
    array = array[..., None] if sequence.layout == "DHW" else array
    array = array if sequence.layout == "FDHWC" else array[None]
    kept = {np.dtype(np.bool_): np.uint8, np.dtype(np.float16): np.float32}.get(array.dtype, array.dtype)
    return array.astype(kept, copy=False)


def affine_of(sequence: Sequence) -> FloatArray:
    """Return the affine of a volume to write: that of 1 mm and RAS where it has none."""
    result: FloatArray = np.eye(4)[:, [2, 1, 0, 3]] if sequence.affine is None else sequence.affine
    return result
