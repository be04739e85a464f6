"""Memory for batches of external sources: gathered by several threads, used again, page-locked on the way to a GPU."""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Sequence as Seq
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt

from ..array import Array
from ..kernel import load_cupy
from ..ops.call.threads import side_by_side
from ..video.cuda.streams import Streams
from ..video.finalizers import Afterwards

__all__ = ["Gathered", "Staging"]

_SHARE: Final = 1 << 19  # bytes that a thread copies at once
_BLOCKS: Final = 3  # one that is filled, one that waits, one that is uploaded
_KEPT: Final = 4  # blocks that nobody uses
_SMALL: Final = 1 << 16  # bytes up to which memory of its own is as quick

# what uploads may still read, though nobody else refers to it: CuPy gives freed memory to whoever asks next
_uploading: deque[_Block] = deque()

_log = logging.getLogger(__name__)


class Gathered(NamedTuple):
    """What is known of a batch that was gathered.

    Attributes:
        memory: what it lies in.
        cut: the operator whose crop it already is, or None.
    """

    memory: Staging
    cut: Any = None


@dataclass(eq=False)
class _Block:
    """A piece of main memory.

    Attributes:
        data: its bytes.
        owner: what holds the memory, if that is not ``data`` itself.
        uploads: an event behind each upload that may still read it.
    """

    data: npt.NDArray[np.uint8]
    owner: Any = None
    uploads: list[Any] = field(default_factory=list)

    def is_idle(self) -> bool:
        """Whether no upload reads it any more."""
        return all(event.done for event in self.uploads)

    def wait(self) -> None:
        """Wait until no upload reads it any more."""
        for event in self.uploads:
            event.synchronize()
        self.uploads.clear()


class _Lease:
    """An array's hold on a block; when the last view is gone, the block is free for another batch.

    Args:
        block: the block.
        shape: of the array.
        dtype: of the array.
        free: where the block goes.
    """

    def __init__(
        self, block: _Block, shape: tuple[int, ...], dtype: np.dtype[Any], free: deque[_Block]
    ) -> None:
        address = block.data.__array_interface__["data"]
        self.__array_interface__ = {"version": 3, "shape": shape, "typestr": dtype.str, "data": address}
        self.block = block
        self._afterwards = Afterwards(free.append, block)


class Staging:
    """Blocks of main memory in which the batches of one source are gathered.

    A block is used again when no array refers to it and no upload reads it any more. May be used by several threads.

    Args:
        device: number of the GPU that the batches go to, for page-locked memory; None for batches that stay.
    """

    def __init__(self, device: int | None = None) -> None:
        self.device = device
        self._free: deque[_Block] = deque()
        self._made = 0
        self._streams: Streams | None = None

    def gather(
        self, samples: npt.NDArray[Any] | Seq[npt.NDArray[Any]], window: tuple[slice, ...] = ()
    ) -> npt.NDArray[Any]:
        """Copy samples of one dtype into one array, by several threads.

        Args:
            samples: an array ``(N, …)`` of one sample or more, or a list of arrays.
            window: the part of each sample that is copied, which has one shape for all; empty for all of it.

        Returns:
            An array ``(N, …)`` of the staging's memory, valid as long as it is referred to.
        """
        first = samples[0][window]
        out = self._array((len(samples), *first.shape), first.dtype)
        share = max(1, _SHARE // max(1, first.nbytes))

        def copy(number: int) -> None:
            begin, end = number * share, min((number + 1) * share, len(samples))
            if isinstance(samples, np.ndarray):
                out[begin:end] = samples[begin:end][(slice(None), *window)]
            else:
                for place in range(begin, end):
                    out[place] = samples[place][window]

        side_by_side(copy, -(-len(samples) // share))
        return out

    def upload(self, array: npt.NDArray[Any]) -> Array:
        """Copy an array that :meth:`gather` made to the GPU, without waiting for it.

        The copy is queued in a stream of its own; CuPy's current stream waits for it, the host does not.

        Raises:
            DeviceMemoryError: the GPU is full.
        """
        block, cupy = self._block_of(array), load_cupy()
        if block is None or block.owner is None or not array.flags.c_contiguous:
            return cupy.asarray(array)
        if self._streams is None:
            self._streams = Streams(int(self.device or 0), shared=True)
        streams = self._streams
        _forget_uploaded()
        with streams.ready():
            out = streams.allocate(array.shape, array.dtype)
            streams.admit()  # what the memory was used for before comes first
            out.data.copy_from_host_async(int(array.ctypes.data), array.nbytes, streams.current())
            event = streams.event()
            block.uploads.append(event)
            _uploading.append(block)
            cupy.cuda.get_current_stream().wait_event(event)
        return out

    def close(self) -> None:
        """Give back the memory that nobody uses, after the uploads from it."""
        while self._free:
            self._drop()
        _forget_uploaded()

    def _block_of(self, array: Any) -> _Block | None:
        while isinstance(array, np.ndarray):
            array = array.base
        return array.block if isinstance(array, _Lease) else None

    def _array(self, shape: tuple[int, ...], dtype: np.dtype[Any]) -> npt.NDArray[Any]:
        size = int(np.prod(shape, dtype=np.int64)) * dtype.itemsize
        if size < _SMALL:
            return np.empty(shape, dtype)
        return np.asarray(_Lease(self._take(size), shape, dtype, self._free))

    def _take(self, size: int) -> _Block:
        """A block of some bytes or more that nothing reads; it may be waited for."""
        while len(self._free) > _KEPT:
            self._drop()
        for _ in range(len(self._free)):
            try:
                block = self._free.popleft()  # the one that was used longest ago
            except IndexError:  # another thread has taken it
                break
            if len(block.data) < size:
                block.wait()
                self._made -= 1
            elif self._made >= _BLOCKS or block.is_idle():
                block.wait()
                return block
            else:
                self._free.append(block)
        self._made += 1
        return self._new(size)

    def _new(self, size: int) -> _Block:
        if self.device is not None:
            cupy = load_cupy()
            try:
                with cupy.cuda.Device(self.device):
                    owner = cupy.cuda.alloc_pinned_memory(size)
                return _Block(np.frombuffer(owner, np.uint8, size), owner)
            except cupy.cuda.runtime.CUDARuntimeError as error:
                _log.warning("%d bytes cannot be page-locked, uploads are slower: %s", size, error)
        return _Block(np.empty(size, np.uint8))

    def _drop(self) -> None:
        try:
            block = self._free.popleft()
        except IndexError:
            return
        block.wait()
        self._made -= 1


def _forget_uploaded() -> None:
    while _uploading and _uploading[0].is_idle():
        _uploading.popleft()
