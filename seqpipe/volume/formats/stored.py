"""StoredVolume: voxels that lie in one file as one array, raw or compressed; all formats with headers of their own."""

from __future__ import annotations

import math
from collections.abc import Sequence as Seq
from dataclasses import dataclass

import numpy as np

from ...errors import SourceError
from ..info import VolumeInfo
from ..source import AnyArray, Box, Source, chosen_times, damaged
from .gunzip import Compression, check_size, inflate, inflate_start

__all__ = ["Storage", "StoredVolume", "layout_axes"]

_WORTH_STOPPING = 0.6
"""The share of a stream up to which it is quicker to inflate it by zlib and stop, than whole by libdeflate."""


@dataclass(frozen=True)
class Storage:
    """How the voxels lie in a file.

    Attributes:
        shape: of the stored array, the slowest axis first.
        axes: for each axis of the layout (``DHWC`` or ``FDHWC``) the stored axis; None where there is one value.
        dtype: as stored, with its byte order.
        offset: of the first voxel, in bytes; within what is inflated, if the whole file is compressed.
        compression: of the voxels, None for none.
        begin: where the compressed stream begins in the file.
    """

    shape: tuple[int, ...]
    axes: tuple[int | None, ...]
    dtype: np.dtype[np.generic]
    offset: int = 0
    compression: Compression | None = None
    begin: int = 0

    @property
    def nbytes(self) -> int:
        """The bytes of all voxels."""
        return math.prod(self.shape) * self.dtype.itemsize

    def layout_shape(self) -> tuple[int, ...]:
        """The shape with the axes of the layout."""
        return tuple(1 if axis is None else self.shape[axis] for axis in self.axes)


class StoredVolume:
    """A :class:`~seqpipe.volume.source.VolumeSource` of one stored array.

    Args:
        source: the file that holds the voxels.
        info: what its header says.
        storage: where the voxels are.

    Raises:
        UnreadableSourceError: the file cannot hold what its header promises.
    """

    def __init__(self, source: Source, info: VolumeInfo, storage: Storage) -> None:
        self.info, self._source, self._storage = info, source, storage
        self._inflated: AnyArray | None = None
        self._begun = False
        stored = source.size() - storage.begin - (0 if storage.compression else storage.offset)
        expected = storage.nbytes + (storage.offset if storage.compression else 0)
        check_size(expected, stored, info.source, storage.compression)

    def read(self, box: Box, times: Seq[int] | None = None) -> AnyArray:
        """Voxels as they are stored; see :class:`~seqpipe.volume.source.VolumeSource`."""
        box, chosen = box.checked(self.info), chosen_times(self.info, times)
        ranges = self._stored_ranges(box, chosen)
        whole = all(r == (0, size) for r, size in zip(ranges, self._storage.shape, strict=True))
        array, origin = self._array(ranges, whole=whole)
        axes = [axis for axis in self._storage.axes if axis is not None]
        view = array.transpose(axes)
        for place, axis in enumerate(self._storage.axes):
            if axis is None:
                view = np.expand_dims(view, place)
        cut: list[slice | list[int]] = [slice(a, b) for a, b in box.ranges]
        if self.info.layout == "FDHWC":
            cut = [slice(None), *cut]
        if (slowest := self._storage.axes.index(0)) < len(cut) and isinstance(first := cut[slowest], slice):
            cut[slowest] = slice(first.start and first.start - origin, first.stop and first.stop - origin)
        view = view[tuple(cut)]
        if self.info.layout == "FDHWC" and chosen != list(range(self.info.frames)):
            shift = origin if self._storage.axes[0] == 0 else 0
            view = view[[time - shift for time in chosen]]
        native = view.astype(self.info.dtype, order="C", copy=array is self._inflated)
        return native if native.flags.writeable else native.copy()

    def close(self) -> None:
        """Give back the file and what was inflated of it."""
        self._inflated = None
        self._source.close()

    def _stored_ranges(self, box: Box, chosen: Seq[int]) -> list[tuple[int, int]]:
        """The range of each stored axis that holds the box."""
        ranges = [(0, size) for size in self._storage.shape]
        wanted = list(box.ranges)
        if self.info.layout == "FDHWC":
            wanted.insert(0, (min(chosen), max(chosen) + 1))
        for axis, span in zip(self._storage.axes, wanted, strict=False):
            if axis is not None:
                ranges[axis] = span
        return ranges

    def _array(self, ranges: Seq[tuple[int, int]], *, whole: bool) -> tuple[AnyArray, int]:
        """The stored array, cut along its slowest axis to what is needed at least, and where it was cut."""
        storage = self._storage
        first, end = ranges[0]
        row = storage.nbytes // storage.shape[0]
        if storage.compression is None:
            data = self._raw(storage.offset + first * row, (end - first) * row)
            return self._shaped(data, end - first), first
        if self._inflated is not None:
            return self._inflated, 0
        needed = storage.offset + end * row
        stream = self._source.read([(storage.begin, self._source.size() - storage.begin)])[0]
        early = end < storage.shape[0] and needed < _WORTH_STOPPING * (storage.offset + storage.nbytes)
        if early and not self._begun:
            self._begun = True  # who comes again reads on: then all of it is inflated once
            data = inflate_start(stream, needed, self.info.source, storage.compression)[storage.offset :]
            return self._shaped(data, end), 0
        expected = storage.offset + storage.nbytes
        data = inflate(stream, expected, self.info.source, storage.compression)[storage.offset :]
        array = self._shaped(data, storage.shape[0])
        if not whole:
            self._inflated = array
        return array, 0

    def _shaped(self, data: AnyArray, rows: int) -> AnyArray:
        if data.ctypes.data % self._storage.dtype.alignment:
            data = data.copy()
        return data.view(self._storage.dtype).reshape(rows, *self._storage.shape[1:])

    def _raw(self, offset: int, size: int) -> AnyArray:
        if self._source.path is not None:
            try:
                data = np.fromfile(self._source.path, np.uint8, size, offset=offset)
            except OSError as error:
                raise SourceError(f"cannot be read ({error.strerror})", source=self.info.source) from error
        else:
            data = np.frombuffer(self._source.read([(offset, size)])[0], dtype=np.uint8)
        if len(data) < size:
            raise damaged(self.info.source, f"the file ends {size - len(data):,} bytes too early")
        return data


def layout_axes(kinds: str) -> tuple[int | None, ...]:
    """The stored axis of each axis of the layout.

    Args:
        kinds: the letters of the stored axes, the slowest first, such as ``"FDHW"``.
    """
    layout = "FDHWC" if "F" in kinds else "DHWC"
    return tuple(kinds.index(letter) if letter in kinds else None for letter in layout)
