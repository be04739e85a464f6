"""Fused decode loop: decoding and conversion of a job by NVDEC in one C call without the GIL.

Step by step, a window of 16 small frames acquires the GIL some 30 times, and the seven NVDEC engines of a GPU wait for
it. The C call decodes a whole segment and reports whether any packet was damaged; the few segments with damage are
decoded again step by step, which finds the damaged packet and the frames that depend on it.
"""

from __future__ import annotations

import contextlib
import weakref
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

import numpy as np

from ..convert.converter import Targets
from ..cuda.converter import DeviceConverter
from ..decode.packets import HeldPackets, PacketReader, learn
from ..nvdec.decoder import NvdecDecoder, NvdecDecoders
from ..nvdec.feeder import PendingFrames
from ..nvdec.hardware import Painting
from ..plan import PlannedVideo, Segment, make_plan, tracked, undecodable

__all__ = ["FusedDecoder"]

# A segment is read before any of it is decoded, and its C call cannot be interrupted.
_MOST_BYTES: Final = 16 << 20
_MOST_PACKETS: Final = 1024


class FusedDecoder:
    """Fused decode loop of one GPU, see :class:`seqpipe.video.engine.backend.FusedDecode`; thread-safe.

    Args:
        decoders: decoders of the GPU.
    """

    def __init__(self, decoders: NvdecDecoders) -> None:
        self._decoders = decoders
        # Where one segment failed, the next one most likely fails too.
        self._failed: weakref.WeakSet[PlannedVideo] = weakref.WeakSet()

    def __call__(
        self, video: PlannedVideo, targets: Targets, painter: Any, reader: Callable[[], PacketReader]
    ) -> bool:
        """Decode and paint the targets; False where there are none, or they are too large, or damaged."""
        table = video.index.packets
        if not targets or video in self._failed or table.damaged.any():
            return False
        wanted = table.frame_packet[np.fromiter(targets, np.int64, len(targets))]
        with contextlib.closing(HeldPackets(reader())) as packets:
            learn(video.index, packets, wanted)
            segments = make_plan(table, wanted).segments
            if not _are_short(video, segments):
                return False
            decoder = self._decoders.take(video.index, 1)
            done, usable = False, True
            if decoder.can_fuse:
                converters = dict.fromkeys(converter for pairs in targets.values() for converter, _ in pairs)
                painting = painter.painting(list(converters), video.index.info)
                conversions = {converter: index for index, converter in enumerate(converters)}
                done, usable = _decode(video, segments, targets, conversions, painting, decoder, packets)
                if not done and painting.fits:
                    self._failed.add(video)
                    usable = False  # the decoder has reported damage
        if usable:
            self._decoders.give_back(video.index, 1, decoder)
        return done


def _decode(
    video: PlannedVideo,
    segments: Iterable[Segment],
    targets: Targets,
    conversions: Mapping[DeviceConverter, int],
    painting: Painting,
    decoder: NvdecDecoder,
    packets: PacketReader,
) -> tuple[bool, bool]:
    """Decode segments."""
    table = video.index.packets
    for segment in segments:
        numbers = segment.packets
        pending = PendingFrames(
            np.searchsorted(numbers, segment.wanted),
            [
                [(address, conversions[converter]) for converter, address in targets[frame]]
                for frame in table.packet_frame[segment.wanted].tolist()
            ],
            tracked(table, segment),
            undecodable(table, segment),
        )
        undamaged, flushed = decoder.fused_run(numbers, list(packets.read(numbers)), pending, painting)
        if not (undamaged and flushed):
            return False, flushed
    return True, True


def _are_short(video: PlannedVideo, segments: Iterable[Segment]) -> bool:
    sizes = video.index.packets.size
    return all(
        len(segment.packets) <= _MOST_PACKETS and int(sizes[segment.packets].sum()) <= _MOST_BYTES
        for segment in segments
    )
