"""WholeRuns: decoding and painting of a job by the engines, with nothing of Python between its packets.

A thread of Python that takes its lock again waits for all others. Step by step, a window of 16 small frames needed it
some 30 times, and seven engines waited. So what nearly always goes well is done in one call of C, which finds out
whether it did; the few runs that did not are done once more step by step, where it is known what is wrong and what
follows from it.
"""

from __future__ import annotations

import contextlib
import weakref
from collections.abc import Callable, Iterable
from typing import Any, Final

import numpy as np

from ..convert.paint import Targets
from ..cuda.converter import DeviceConverter
from ..decode.kinds import HeldPackets, learn
from ..decode.packets import PacketReader
from ..nvdec.arrays import PendingFrames
from ..nvdec.decoder import NvdecDecoder, NvdecDecoders
from ..nvdec.painting import PaintingOf
from ..plan.jobs import PlannedVideo
from ..plan.plan import Segment, awaited, make_plan, undecodable

__all__ = ["WholeRuns"]

# what is read before any of it is decoded, and what nobody can interrupt
_MOST_BYTES: Final = 16 << 20
_MOST_PACKETS: Final = 1024


class WholeRuns:
    """Runs by one GPU's engines; see :class:`seqpipe.video.engine.backend.WholeRun`. Any thread may ask.

    Args:
        decoders: those of the GPU.
    """

    def __init__(self, decoders: NvdecDecoders) -> None:
        self._decoders = decoders
        # where something was wrong with one run, it most likely is with the next one
        self._odd: weakref.WeakSet[PlannedVideo] = weakref.WeakSet()

    def __call__(
        self, video: PlannedVideo, targets: Targets, painter: Any, reader: Callable[[], PacketReader]
    ) -> bool:
        """Do a job, if it is a plain one and nothing is wrong.

        Raises:
            BackendError: the GPU cannot decode such a stream.
            SourceError: the stream cannot be read, or not be converted to what is asked for.
        """
        table, converter = video.index.packets, _only_converter(targets)
        if converter is None or video in self._odd or table.damaged.any():
            return False
        wanted = table.frame_packet[np.fromiter(targets, np.int64, len(targets))]
        with contextlib.closing(HeldPackets(reader())) as packets:
            learn(video.index, packets, wanted)
            segments = make_plan(table, wanted).segments
            if not _are_short(video, segments):
                return False
            decoder = self._decoders.take(video.index, 1)
            done, usable = False, True
            if decoder.runs_whole:
                painting = painter.painting(converter, video.index.info)
                done, usable = _run(video, segments, targets, painting, decoder, packets)
                if not done and painting.fits:
                    self._odd.add(video)
        if usable:
            self._decoders.give_back(video.index, 1, decoder)
        return done


def _run(
    video: PlannedVideo,
    segments: Iterable[Segment],
    targets: Targets,
    painting: PaintingOf,
    decoder: NvdecDecoder,
    packets: PacketReader,
) -> tuple[bool, bool]:
    """Do some runs; returns whether nothing was wrong, and whether the decoder is ready for another."""
    table = video.index.packets
    for segment in segments:
        numbers = segment.packets
        awaits = PendingFrames(
            np.searchsorted(numbers, segment.wanted),
            [
                [address for _, address in targets[frame]]
                for frame in table.packet_frame[segment.wanted].tolist()
            ],
            awaited(table, segment),
            undecodable(table, segment),
        )
        clean, ended = decoder.whole_run(numbers, list(packets.read(numbers)), awaits, painting)
        if not (clean and ended):
            return False, ended
    return True, True


def _only_converter(targets: Targets) -> DeviceConverter | None:
    """The converter, if there is one for all."""
    converters = {id(converter): converter for wanted in targets.values() for converter, _ in wanted}
    return next(iter(converters.values())) if len(converters) == 1 else None


def _are_short(video: PlannedVideo, segments: Iterable[Segment]) -> bool:
    sizes = video.index.packets.size
    return all(
        len(segment.packets) <= _MOST_PACKETS and int(sizes[segment.packets].sum()) <= _MOST_BYTES
        for segment in segments
    )
