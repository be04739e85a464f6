"""Reused memory blocks for batches of external sources, filled by several threads, page-locked for uploads."""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Sequence as Seq
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt

from ...array import Array
from ...core.finalizers import Finalizer
from ...core.kernel import load_cupy
from ...core.threads import parallel_for, threads
from ...video.cuda.streams import Streams

__all__ = ["Copied", "Staging"]

_SHARE: Final = 1 << 19  # minimum bytes of a thread's task
_SHARES: Final = 4  # tasks for each thread, to balance their load
_HELD: Final = 4  # batches outside the queue: two at the consumer, one at each of the two stages
_SMALL: Final = 1 << 16  # bytes up to which allocation costs no more than reuse

_log = logging.getLogger(__name__)


class Copied(NamedTuple):
    """Facts about a copied batch.

    Attributes:
        memory: the memory that holds it.
        applied: the operator whose crop was applied, or None.
    """

    memory: Staging
    applied: Any = None


@dataclass(eq=False)
class _Block:
    """A piece of main memory.

    Attributes:
        data: its bytes.
        owner: the allocation of page-locked memory; None for pageable memory.
    """

    data: npt.NDArray[np.uint8]
    owner: Any = None


class _Lease:
    """The owner of an array in a block; the block becomes free when the array's last view is deleted.

    Args:
        block: the block.
        shape: of the array.
        dtype: of the array.
        free: queue of free blocks.
    """

    def __init__(
        self, block: _Block, shape: tuple[int, ...], dtype: np.dtype[Any], free: deque[_Block]
    ) -> None:
        address = block.data.__array_interface__["data"]
        self.__array_interface__ = {"version": 3, "shape": shape, "typestr": dtype.str, "data": address}
        self.block = block
        self._finalizer = Finalizer(free.append, block)


class Staging:
    """Blocks of main memory in which the batches of one source are copied to.

    A block is reused when no array refers to it. Thread-safe, except for uploads, which one thread makes.

    Args:
        device: number of the GPU of the uploads, for page-locked memory; None for pageable memory.
        prefetch: number of batches that the pipeline makes ahead; as many blocks as it refers to at once are kept.
    """

    def __init__(self, device: int | None = None, prefetch: int = 2) -> None:
        self.device = device
        self._free: deque[_Block] = deque(maxlen=prefetch + _HELD)
        self._streams: Streams | None = None

    def copy(
        self, samples: npt.NDArray[Any] | Seq[npt.NDArray[Any]], window: tuple[slice, ...] = ()
    ) -> npt.NDArray[Any]:
        """Copy samples of one dtype into one array, by several threads.

        Args:
            samples: an array ``(N, …)`` of one sample or more, or a list of arrays.
            window: the part of each sample that is copied, which has one shape for all; empty for all of it.

        Returns:
            An array ``(N, …)`` in one of the blocks.
        """
        first = samples[0][window]
        out = self._array((len(samples), *first.shape), first.dtype)
        share = max(1, _SHARE // max(1, first.nbytes), len(samples) // (_SHARES * threads()))

        def copy_share(number: int) -> None:
            begin, end = number * share, min((number + 1) * share, len(samples))
            if isinstance(samples, np.ndarray):
                out[begin:end] = samples[begin:end][(slice(None), *window)]
            else:
                for sample in range(begin, end):
                    out[sample] = samples[sample][window]

        parallel_for(copy_share, -(-len(samples) // share))
        return out

    def upload(self, array: npt.NDArray[Any]) -> Array:
        """Copy an array from :meth:`copy` to the GPU, and wait for the copy.

        The copy runs in a separate stream, concurrently with the default stream. Only this thread waits, which prepares
        batches ahead. So the array's memory may be reused when this returns.

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
            streams.admit()  # waits for earlier uses of the GPU memory
            done = cupy.cuda.Event(block=True, disable_timing=True)
            try:
                out.data.copy_from_host_async(int(array.ctypes.data), array.nbytes, streams.current())
            finally:
                done.record(streams.current())
                done.synchronize()
        return out

    def close(self) -> None:
        """Release the free blocks."""
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
        """Return a free block of at least ``size`` bytes."""
        for _ in range(len(self._free)):
            try:
                block = self._free.pop()  # the last used, which caches may hold; smaller ones are released
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
