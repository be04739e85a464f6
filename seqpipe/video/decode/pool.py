"""Pool of idle decoders, which are reused because creating one takes longer than a short decode."""

from __future__ import annotations

import ctypes
import os
import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Any
from weakref import ref

from ..packet_index import PacketIndex
from .cpu import CpuDecoder
from .packets import PacketDecoder

__all__ = ["DecoderPool", "is_inherited", "watch"]

_with_threads: set[ref[Any]] = set()
_inherited: set[int] = set()


def watch(decoder: Any) -> None:
    """Register a decoder that has threads of its own."""
    # The callback is a C function: Python loses a Ctrl-C that arrives in a Python callback, such as that of WeakSet.
    _with_threads.add(ref(decoder, _with_threads.discard))


def is_inherited(decoder: Any) -> bool:
    """Return whether a decoder was created before a fork, so that its threads do not exist in this process."""
    return id(decoder) in _inherited


def _keep() -> None:
    # Destroying such a decoder would wait for its threads forever, also at interpreter exit: leak a reference.
    for decoder in [known() for known in _with_threads]:
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(decoder))
        _inherited.add(id(decoder))


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_keep)


class DecoderPool:
    """Idle decoders by stream parameters; the least recently used are dropped first.

    A decoder is taken, used, and given back; one that has raised or reported damage is not given back. A forked
    process does not reuse decoders with threads.

    Args:
        idle: maximum number of idle decoders.
        make: opens a decoder for a stream and a number of threads.
    """

    def __init__(self, idle: int = 8, make: Callable[[PacketIndex, int], PacketDecoder] = CpuDecoder) -> None:
        self._idle: OrderedDict[Hashable, list[PacketDecoder]] = OrderedDict()
        self._limit = idle
        self._make = make
        self._lock = threading.Lock()

    def take(self, index: PacketIndex, threads: int) -> PacketDecoder:
        """Return a decoder for the caller's exclusive use."""
        key = _key(index, threads)
        with self._lock:
            while decoders := self._idle.get(key):
                decoder = decoders.pop()
                if not decoders:
                    del self._idle[key]
                if not is_inherited(decoder):
                    return decoder
        decoder = self._make(index, threads)
        if threads > 1:
            watch(decoder)
        return decoder

    def give_back(self, index: PacketIndex, threads: int, decoder: PacketDecoder) -> None:
        """Keep a flushed decoder for the next run."""
        if is_inherited(decoder):
            return
        key = _key(index, threads)
        with self._lock:
            self._idle.setdefault(key, []).append(decoder)
            self._idle.move_to_end(key)
            while sum(len(decoders) for decoders in self._idle.values()) > self._limit:
                oldest = next(iter(self._idle))
                self._idle[oldest].pop(0)
                if not self._idle[oldest]:
                    del self._idle[oldest]

    def clear(self) -> None:
        """Drop all idle decoders."""
        with self._lock:
            self._idle.clear()


def _key(index: PacketIndex, threads: int) -> Hashable:
    info = index.info
    set_up = index.codec_tag, index.extradata, index.set_ups, index.palettes
    return info.codec, set_up, info.width, info.height, info.pixel_format, threads
