"""Pool of idle decoders, which are reused because creating one takes longer than a short decode."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable

from ..packet_index import PacketIndex
from .cpu import CpuDecoder
from .fork_guard import is_inherited, watch
from .packet_decoder import PacketDecoder

__all__ = ["DecoderPool"]


class DecoderPool:
    """Idle decoders by stream parameters; the least recently used are dropped first.

    A decoder is taken, used, and given back; one that has raised is not given back. A forked process does not reuse
    decoders with threads.

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
        """Return a decoder for the caller's exclusive use.

        Raises:
            BackendError: there is no decoder for the stream's codec.
        """
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
