"""Memory for batches of external sources: gathered by several threads, used again, page-locked on the way to a GPU."""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Sequence as Seq
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt

from ..array import Array
from ..kernel import load_cupy
from ..ops.call.threads import parallel_for, threads
from ..video.cuda.streams import Streams
from ..video.finalizers import Finalizer

__all__ = ["Gathered", "Staging"]

_SHARE: Final = 1 << 19  # bytes that a thread copies at once, or more
_SHARES: Final = 4  # for each thread, so that none waits long for the last one
_KEPT: Final = 4  # blocks that nobody uses
_SMALL: Final = 1 << 16  # bytes up to which memory of its own is as quick

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
        owner: what holds page-locked memory; None for other memory.
    """

    data: npt.NDArray[np.uint8]
    owner: Any = None


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
        self._finalizer = Finalizer(free.append, block)


class Staging:
    """Blocks of main memory in which the batches of one source are gathered.

    A block is used again when no array refers to it any more. May be used by several threads; one of them uploads.

    Args:
        device: number of the GPU that the batches go to, for page-locked memory; None for batches that stay.
    """

    def __init__(self, device: int | None = None) -> None:
        self.device = device
        self._free: deque[_Block] = deque(maxlen=_KEPT)
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
        share = max(1, _SHARE // max(1, first.nbytes), len(samples) // (_SHARES * threads()))

        def copy(number: int) -> None:
            begin, end = number * share, min((number + 1) * share, len(samples))
            if isinstance(samples, np.ndarray):
                out[begin:end] = samples[begin:end][(slice(None), *window)]
            else:
                for place in range(begin, end):
                    out[place] = samples[place][window]

        parallel_for(copy, -(-len(samples) // share))
        return out

    def upload(self, array: npt.NDArray[Any]) -> Array:
        """Copy an array that :meth:`gather` made to the GPU, and wait for the copy.

        It runs in a stream of its own, beside whatever the default stream does: only this thread waits, which is one
        that makes batches ahead, and no other work on the GPU. So nothing reads the array when this returns.

        Raises:
            DeviceMemoryError: the GPU is full.
        """
        block, cupy = self._block_of(array), load_cupy()
        if block is None or block.owner is None or not array.flags.c_contiguous:
            return cupy.asarray(array)
        if self._streams is None:
            self._streams = Streams(int(self.device or 0), shared=True)
        streams = self._streams
        with streams.ready():
            out = streams.allocate(array.shape, array.dtype)
            streams.admit()  # what the memory was used for before comes first
            done = cupy.cuda.Event(block=True, disable_timing=True)
            try:
                out.data.copy_from_host_async(int(array.ctypes.data), array.nbytes, streams.current())
            finally:
                done.record(streams.current())
                done.synchronize()
        return out

    def close(self) -> None:
        """Give back the memory that nobody uses."""
        self._free.clear()

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
        """A block of some bytes or more that nobody uses."""
        for _ in range(len(self._free)):
            try:
                block = self._free.popleft()  # smaller ones go
            except IndexError:  # another thread has taken it
                break
            if len(block.data) >= size:
                return block
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
