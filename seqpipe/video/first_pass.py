"""First pass over a video: frames are decoded from the first packet on while the index is built from the packets.

Frames are yielded as long as the finished index cannot contradict their numbers and times: each packet has a pts, the
frames' pts ascend, and all packets decode. The caller reads later frames with the index.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from itertools import chain
from typing import TYPE_CHECKING, Any, NamedTuple

from ..sequence import Sequence
from .convert.output import OutputSpec
from .decode.cpu import CpuDecoder
from .decode.packet_decoder import DecodeError, DecodeResult, FedPacket
from .frame_stream import FramePainter
from .index.build import Scan
from .packet_index import NO_PACKETS, PacketIndex
from .probe.info import StreamInfo
from .probe.probe import open_container, side_data
from .source.parsing import parsing
from .source.source import Source

if TYPE_CHECKING:
    import av

__all__ = ["FirstFrame", "FirstPass", "first_pass"]

_WITHOUT_PTS = ("avi",)
_STATEFUL = {"new_extradata", "palette", "unknown"}
"""Side data that changes how later packets are decoded."""


class FirstFrame(NamedTuple):
    """Frame of a first pass.

    Attributes:
        frame: sequence with its pixels, number and time; layout ``HWC`` or ``CHW``.
        pts: timestamp in ticks.
    """

    frame: Sequence
    pts: int


@contextlib.contextmanager
def first_pass(source: Source, *, output: OutputSpec, threads: int = 1) -> Iterator[FirstPass]:
    """Start a first pass over a video.

    Args:
        source: the video.
        output: color, dtype and geometry of the pixels.
        threads: number of decoding threads.

    Raises:
        UnreadableSourceError: the file is not a video that can be decoded.
        SourceError: the source cannot be read.
    """
    with open_container(source) as container:
        with parsing(source):
            video = FirstPass(source, Scan(source, container), output, threads)
        yield video


class FirstPass:
    """Decoding of a video during the pass that builds its index.

    Args:
        source: the video.
        packets: the pass over its packets.
        output: color, dtype and geometry of the pixels.
        threads: number of decoding threads.

    Attributes:
        info: properties of the stream, before frames are counted.
    """

    def __init__(self, source: Source, packets: Scan, output: OutputSpec, threads: int) -> None:
        self._source, self._scan = source, packets
        self._head: list[av.Packet[Any]] = []
        for packet in packets.packets():
            self._head.append(packet)
            if packets.first.done:
                break
        described = packets.described(NO_PACKETS)
        self.info: StreamInfo = described.info
        self._decoder = CpuDecoder(described, threads)
        self._painter = FramePainter(self.info, output)
        self._count, self._last = 0, -(1 << 63)

    def frames(self) -> Iterator[FirstFrame]:
        """Yield frames from the first one on, up to the last one or the first whose number or time is uncertain.

        Raises:
            SourceError: the source cannot be read.
        """
        if self.info.container in _WITHOUT_PTS:
            return
        with parsing(self._source):
            times: dict[int, int] = {}
            with contextlib.suppress(DecodeError):
                for result in self._decoded(times):
                    for picture in result.frames:
                        pts = times.pop(picture.packet)
                        if result.damaged or pts <= self._last:
                            return
                        seconds = pts * self.info.time_base.numerator / self.info.time_base.denominator
                        yield FirstFrame(self._painter.sequence(self._count, seconds, picture.surface), pts)
                        self._count, self._last = self._count + 1, pts

    def index(self, *, rest: bool = True) -> PacketIndex:
        """Return the index of the video, see :meth:`seqpipe.video.index.build.Scan.index`."""
        with parsing(self._source):
            return self._scan.index(rest=rest)

    def _decoded(self, times: dict[int, int]) -> Iterator[DecodeResult]:
        """Yield decode results up to an uncertain packet, and store the pts of packets in ``times``."""
        for number, packet in enumerate(chain(self._head, self._scan.packets())):
            uncertain = packet.pts is None or packet.is_corrupt or packet.is_discard
            if uncertain or (not number and not packet.is_keyframe) or _STATEFUL & set(side_data(packet)):
                return
            times[number] = int(packet.pts or 0)
            yield from self._decoder.feed([FedPacket(number, bytes(packet), packet.is_keyframe, wanted=True)])
        self._head = []
        if self._scan.whole:
            yield from self._decoder.flush()
