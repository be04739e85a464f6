"""Execution of decode plans: yields frames in presentation order, and lost frames with the reason.

A frame is delivered only once all frames that it may be predicted from have been decoded undamaged: a decoder reports
damage with the damaged frame, and a B-frame is presented before the later frame that it is predicted from.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Container, Iterator
from dataclasses import dataclass
from itertools import compress, islice

import numpy as np

from ...array import IntArray, distinct
from ..convert.surface import AnySurface
from ..packet_index import PacketIndex, PacketTable
from ..plan import Segment, damaged_by, make_plan, tracked, undecodable
from .cpu import is_inherited
from .packets import (
    DecodedFrame,
    DecodeError,
    DecodeResult,
    Decoders,
    FedPacket,
    HeldPackets,
    PacketDecoder,
    PacketReader,
    learn,
    parts,
)

__all__ = ["Decoding", "Lost"]

_EARLIER_KEYS_TO_TRY = 1
_FEED_PACKETS = 128
_NO_FRAME = "the decoder outputs no frame for it"


@dataclass(frozen=True, slots=True)
class Lost:
    """Frame that cannot be delivered.

    Attributes:
        number: the frame number.
        reason: the cause, as one clause.
    """

    number: int
    reason: str


class Decoding:
    """Iterable over frames of one video: undamaged ones as surfaces in file order, lost ones as soon as they are known.

    Args:
        index: the video's index.
        reader: reads the video's packets.
        decoders: pool of decoders. A decoder is returned to it after the last frame, unless it has raised, reported
            damage, or the iteration was abandoned; surfaces in GPU memory must be released before the iteration
            continues.
        frames: frame numbers, in any order, repeats allowed; each is delivered once.
        threads: frame threads of the decoder.
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
        self._refused: set[tuple[int, int]] = set()  # see make_plan
        self._missing = set(index.packets.frame_packet[distinct(frames)].tolist())

    def __iter__(self) -> Iterator[AnySurface | Lost]:
        yield from self._lose_damaged_packets()
        threads, earlier = self._threads, 0
        while self._missing:
            before = len(self._missing), len(self._refused)
            yield from self._attempt(threads, earlier)
            if not self._thorough:
                # With frame threads the damaged packet is not known, and damage may be reported too late: decode with
                # one thread. Feed all packets, so that the lost frames do not depend on the requested ones.
                threads, self._thorough = 1, True
            elif (len(self._missing), len(self._refused)) != before:
                earlier = 0
            elif earlier < _EARLIER_KEYS_TO_TRY:
                earlier += 1
            else:
                yield from self._lose_the_rest()
        self._give_back()

    def _attempt(self, threads: int, earlier: int) -> Iterator[AnySurface | Lost]:
        """Run a plan for all missing frames, up to its end or to the first error of the decoder."""
        for segment in self._segments(earlier):
            run, decoder = _DecodingRun(self._table, segment), self._decoder(threads)
            try:
                yield from self._run(run, decoder)
            except DecodeError as error:
                if self._thorough:
                    refused = run.at if error.packet is None else error.packet
                    self._refused.add((int(run.segment.packets[0]), refused))
                    yield from self._lose(refused, str(error), run.wanted)
                return
            if (
                not run.damaged
            ):  # else it is dropped: flushing does not undo all that damage leaves in a decoder
                self._flushed = threads, decoder

    def _segments(self, earlier: int) -> Iterator[Segment]:
        """Plan the missing frames, part by part, after learning the kinds of the packets that this takes."""
        for wanted in parts(self._table, np.sort(np.fromiter(self._missing, dtype=np.int64))):
            learn(self._index, self._reader, wanted, earlier=earlier)
            plan = make_plan(
                self._table, wanted, earlier=earlier, refused=self._refused, thorough=self._thorough
            )
            yield from plan.segments

    def _decoder(self, threads: int) -> PacketDecoder:
        """Return the decoder of the previous segment if it has as many threads, else another one."""
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
        """Decode a segment, and yield its frames."""
        data = self._reader.read(run.segment.packets)
        while packets := run.next_packets(list(islice(data, _FEED_PACKETS))):
            yield from self._process(run, decoder, decoder.feed(packets))
        yield from self._process(run, decoder, decoder.flush())
        for packet in run.missing():
            if not self._thorough:
                raise DecodeError(_NO_FRAME)
            yield from self._lose(packet, _NO_FRAME, run.wanted)
        yield from self._release(run, everything=True)

    def _process(
        self, run: _DecodingRun, decoder: PacketDecoder, results: Iterator[DecodeResult]
    ) -> Iterator[AnySurface | Lost]:
        """Yield the frames that results of the decoder complete, and those that are lost."""
        for result in results:
            run.add(result)
            damaged = result.damaged
            del result  # releases its frames, of which a GPU has few
            for packet in damaged:
                if packet not in run.undecodable:
                    if not self._thorough:
                        raise DecodeError("the decoder concealed an error in a frame")
                    run.damaged = True
                    yield from self._lose(packet, "the decoder concealed an error in its frame", run.wanted)
            if run.frames:
                yield from self._release(run)
            if is_inherited(decoder):  # the iteration continues in a process forked after the last yield
                raise DecodeError("the decoder's threads belong to the parent process")

    def _release(self, run: _DecodingRun, *, everything: bool = False) -> Iterator[AnySurface]:
        """Yield the surfaces of frames that are complete and still missing."""
        for packet, surface in run.release(everything=everything):
            if packet in self._missing:
                self._missing.discard(packet)
                yield surface(int(self._frame[packet]))

    def _lose(self, packet: int, reason: str, among: Container[int]) -> Iterator[Lost]:
        """Mark the missing frames, among some, that depend on a damaged packet as lost."""
        for victim in damaged_by(self._table, packet).tolist():
            if victim in self._missing and victim in among:
                self._missing.discard(victim)
                yield Lost(int(self._frame[victim]), f"packet {packet} is damaged: {reason}")

    def _lose_damaged_packets(self) -> Iterator[Lost]:
        for packet in np.flatnonzero(self._table.damaged).tolist():
            yield from self._lose(packet, "indexing found it damaged", self._missing)

    def _lose_the_rest(self) -> Iterator[Lost]:
        for packet in sorted(self._missing):
            yield Lost(int(self._frame[packet]), _NO_FRAME)
        self._missing.clear()


class _DecodingRun:
    """State of one segment during decoding.

    Attributes:
        segment: the segment.
        wanted: packets whose frames are wanted.
        undecodable: packets that are fed although they cannot be decoded.
        at: the packet fed last.
        damaged: whether the decoder has reported damage.
        frames: decoded frames that are not delivered yet, in presentation order.
    """

    def __init__(self, table: PacketTable, segment: Segment) -> None:
        packets = segment.packets
        self.segment = segment
        self.wanted = set(segment.wanted.tolist())
        self.undecodable = set(packets[undecodable(table, segment)].tolist())
        self.at = int(packets[0])
        self.damaged = False
        self.frames: deque[DecodedFrame] = deque()
        self._packets: list[int] = packets.tolist()
        self._keys, self._tracked = table.key[packets].tolist(), tracked(table, segment).tolist()
        self._fed = 0
        # Reference frames that were fed and not reported yet, in decode order; a dict serves as an ordered set.
        self._pending: dict[int, None] = {}

    def next_packets(self, data: list[bytes]) -> list[FedPacket]:
        """Return the next packets for the decoder, and mark them as fed."""
        rows = slice(self._fed, self._fed + len(data))
        packets = self._packets[rows]
        self._fed = rows.stop
        self._pending.update(dict.fromkeys(compress(packets, self._tracked[rows])))
        if packets:
            self.at = packets[-1]
        wanted = map(self.wanted.__contains__, packets)
        return list(map(FedPacket._make, zip(packets, data, self._keys[rows], wanted, strict=True)))

    def add(self, result: DecodeResult) -> None:
        """Add a result of the decoder."""
        for packet in result.decoded:
            self._pending.pop(packet, None)
        self.frames.extend(frame for frame in result.frames if frame.packet in self.wanted)

    def release(self, *, everything: bool = False) -> Iterator[DecodedFrame]:
        """Remove and yield the frames that no pending reference frame precedes in decode order."""
        while self.frames and (
            everything or not self._pending or self.frames[0].packet <= next(iter(self._pending))
        ):
            yield self.frames.popleft()

    def missing(self) -> list[int]:
        """Return the reference frames that the flushed decoder has not reported."""
        return list(self._pending)
