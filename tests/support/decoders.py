"""Watching the CPU's decoders at work."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from collections.abc import Sequence as Seq

import pytest

from seqpipe.video.decode.cpu import CpuDecoder
from seqpipe.video.decode.packets import DecodeResult, FedPacket

__all__ = ["count_packets"]


def count_packets(monkeypatch: pytest.MonkeyPatch, before: Callable[[], object] = lambda: None) -> list[int]:
    """The numbers of all packets that are decoded from now on, in their order.

    Args:
        monkeypatch: pytest's.
        before: called before each packet.
    """
    fed: list[int] = []
    plain = CpuDecoder.feed

    def feed(self: CpuDecoder, packets: Seq[FedPacket]) -> Iterator[DecodeResult]:
        for packet in packets:
            before()
            fed.append(packet.number)
            yield from plain(self, [packet])

    monkeypatch.setattr(CpuDecoder, "feed", feed)
    return fed
