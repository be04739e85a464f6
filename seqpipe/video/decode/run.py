"""Execution of a decode plan: packets in, frames in presentation order out, lost frames with the reason.

A frame is handed out only once everything that it may be predicted from has come out of the decoder undamaged: a
decoder reports damage with the damaged frame, and a B-frame is presented before the later frame it was predicted from.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import compress, islice

import numpy as np

from ...array import IntArray, distinct
from ..convert.surface import AnySurface
from ..packet_index import PacketIndex, PacketTable
from ..plan.plan import Segment, awaited, damaged_by, make_plan, undecodable
from .fork_guard import is_inherited
from .kinds import HeldPackets, learn, parts
from .packet_decoder import DecodedFrame, DecodeError, DecodeResult, Decoders, FedPacket, PacketDecoder
from .packets import PacketReader

__all__ = ["Decoding", "Lost"]

_EARLIER_KEYS_TO_TRY = 1
_FED_AT_ONCE = 128


@dataclass(frozen=True, slots=True)
class Lost:
    """A frame that cannot be delivered.

    Attributes:
        number: the frame number.
        reason: what happened, as one clause.
    """

    number: int
    reason: str


class Decoding:
    """The delivery of some frames of one video.

    Iterate over it: sound frames come as surfaces, ascending within the file; lost ones as soon as they are known.

    Args:
        index: the video's index.
        reader: where its packets come from.
        decoders: where decoders are taken from. After the last frame they are given back, unless they have raised, or
            this is left midway; so whoever still uses the pictures of a GPU lets go of them before asking on.
        frames: frame numbers, in any order, repeats allowed; each is delivered once.
        threads: frame threads of the decoder.

    Attributes:
        damaged: the packets that were found damaged so far.
    """

    def __init__(
        self,
        index: PacketIndex,
        reader: PacketReader,
        decoders: Decoders,
        frames: IntArray,
        *,
        threads: int = 1,
    ) -> None:
        self._index = index
        self._table = index.packets
        self._reader = HeldPackets(reader)
        self._decoders = decoders
        self._threads = threads
        self._frame = index.packets.packet_frame
        self._flushed: tuple[int, PacketDecoder] | None = None
        self._thorough = False
        self.damaged: set[int] = set()
        self._missing = set(index.packets.frame_packet[distinct(frames)].tolist())

    def __iter__(self) -> Iterator[AnySurface | Lost]:
        yield from self._lose_damaged_packets()
        threads, earlier = self._threads, 0
        while self._missing:
            before = len(self._missing) - len(self.damaged)
            yield from self._attempt(threads, earlier)
            if not self._thorough:
                # Threads blur which packet was at fault, and some flags of damage come too late: one sees it through.
                # And what is lost may not depend on what else was asked for: no packet is left out any more.
                threads, self._thorough = 1, True
            elif len(self._missing) - len(self.damaged) < before:
                earlier = 0
            elif earlier < _EARLIER_KEYS_TO_TRY:
                earlier += 1
            else:
                yield from self._lose_the_rest()
        self._give_back()

    def _attempt(self, threads: int, earlier: int) -> Iterator[AnySurface | Lost]:
        """Run a plan for all that is missing, up to its end or to the first complaint of the decoder."""
        decoder = self._decoder(threads)
        for segment in self._segments(earlier):
            run = _DecodingRun(self._table, segment)
            try:
                yield from self._run(run, decoder)
            except DecodeError as error:
                if self._thorough:
                    yield from self._lose(run.at if error.packet is None else error.packet, str(error))
                return
        self._flushed = threads, decoder

    def _segments(self, earlier: int) -> Iterator[Segment]:
        """The runs that deliver what is missing; what has to be known of packets for that is learned on the way."""
        for wanted in parts(self._table, np.sort(np.fromiter(self._missing, dtype=np.int64))):
            learn(self._index, self._reader, wanted, earlier=earlier)
            plan = make_plan(
                self._table, wanted, earlier=earlier, damaged=self.damaged, thorough=self._thorough
            )
            yield from plan.segments

    def _decoder(self, threads: int) -> PacketDecoder:
        """The decoder of the attempt before, if it has as many threads, or another one."""
        if self._flushed is not None and self._flushed[0] == threads:
            (_, decoder), self._flushed = self._flushed, None
            return decoder
        self._give_back()
        return self._decoders.take(self._index, threads)

    def _give_back(self) -> None:
        if self._flushed is not None:
            (threads, decoder), self._flushed = self._flushed, None
            self._decoders.give_back(self._index, threads, decoder)

    def _run(self, run: _DecodingRun, decoder: PacketDecoder) -> Iterator[AnySurface | Lost]:
        data = self._reader.read(run.segment.packets)
        while part := run.part(list(islice(data, _FED_AT_ONCE))):
            yield from self._sort(run, decoder, decoder.feed(part))
        yield from self._sort(run, decoder, decoder.flush())
        for packet in run.swallowed():
            if not self._thorough:
                raise DecodeError("the decoder gives no picture for it")
            yield from self._lose(packet, "the decoder gives no picture for it")
        yield from self._release(run, everything=True)

    def _sort(
        self, run: _DecodingRun, decoder: PacketDecoder, steps: Iterator[DecodeResult]
    ) -> Iterator[AnySurface | Lost]:
        for result in steps:
            run.hear(result)
            damaged = result.damaged
            del result  # it holds pictures, of which a GPU has few
            for packet in damaged:
                if packet not in run.undecodable:
                    if not self._thorough:
                        raise DecodeError("the decoder had to invent parts of a picture")
                    yield from self._lose(packet, "the decoder had to invent parts of its picture")
            if run.held:
                yield from self._release(run)
            if is_inherited(decoder):  # this was left at a picture, and is gone on with in a forked process
                raise DecodeError("the threads of its decoder are another process's")

    def _release(self, run: _DecodingRun, *, everything: bool = False) -> Iterator[AnySurface]:
        for packet, surface in run.release(everything=everything):
            if packet in self._missing:
                self._missing.discard(packet)
                yield surface(int(self._frame[packet]))

    def _lose(self, packet: int, reason: str) -> Iterator[Lost]:
        """Give up the frames that a damaged packet has a part in."""
        self.damaged.add(packet)
        for victim in damaged_by(self._table, packet).tolist():
            if victim in self._missing:
                self._missing.discard(victim)
                yield Lost(int(self._frame[victim]), f"packet {packet} is damaged: {reason}")

    def _lose_damaged_packets(self) -> Iterator[Lost]:
        for packet in np.flatnonzero(self._table.damaged).tolist():
            yield from self._lose(packet, "it was found so when the file was indexed")

    def _lose_the_rest(self) -> Iterator[Lost]:
        for packet in sorted(self._missing):
            yield Lost(int(self._frame[packet]), "the decoder gives no picture for it")
        self._missing.clear()


class _DecodingRun:
    """One segment on its way through a decoder.

    Attributes:
        segment: what is fed and wanted.
        wanted: the packets whose frames are wanted.
        undecodable: leading pictures of this run's key frame, fed for their place among the others only.
        at: the packet fed last.
        held: pictures that came out, in the order in which they came.
    """

    def __init__(self, table: PacketTable, segment: Segment) -> None:
        packets = segment.packets
        self.segment = segment
        self.wanted = set(segment.wanted.tolist())
        self.undecodable = set(packets[undecodable(table, segment)].tolist())
        self.at = int(packets[0])
        self.held: deque[DecodedFrame] = deque()
        self._packets: list[int] = packets.tolist()
        self._keys, self._awaited = table.key[packets].tolist(), awaited(table, segment).tolist()
        self._begun = 0
        self._inside: dict[int, None] = {}

    def part(self, data: list[bytes]) -> list[FedPacket]:
        """Note the next packets on their way in."""
        some = slice(self._begun, self._begun + len(data))
        packets = self._packets[some]
        self._begun = some.stop
        self._inside.update(dict.fromkeys(compress(packets, self._awaited[some])))
        if packets:
            self.at = packets[-1]
        wanted = map(self.wanted.__contains__, packets)
        return list(map(FedPacket._make, zip(packets, data, self._keys[some], wanted, strict=True)))

    def hear(self, result: DecodeResult) -> None:
        """Note what came of them."""
        for packet in result.decoded:
            self._inside.pop(packet, None)
        self.held.extend(picture for picture in result.pictures if picture.packet in self.wanted)

    def release(self, *, everything: bool = False) -> Iterator[DecodedFrame]:
        """The pictures that nothing still inside could have damaged, in the order in which they came."""
        while self.held and (
            everything or not self._inside or self.held[0].packet <= next(iter(self._inside))
        ):
            yield self.held.popleft()

    def swallowed(self) -> list[int]:
        """The reference frames that never came out of the flushed decoder."""
        return list(self._inside)
