"""Sound of written videos: encoded from samples, or copied from the packets of a source."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import suppress
from fractions import Fraction
from itertools import chain
from math import floor, inf
from typing import Any, Final

import av
import av.codec
import av.error
import numpy as np

from ...core.closing import Closing
from ..audio.samples import AudioSamples, SampleArray
from ..audio.track import audio_streams, choose_stream
from ..probe.probe import Demuxer
from ..probe.recognize import parsing
from ..source.source import Source

__all__ = ["BEFORE_S", "CopiedSound", "EncodedSound"]

BEFORE_S: Final = 0.1
"""Sound before a cut that decoders need, and that an edit list hides."""
_FRAMES_BEFORE: Final = 2048
"""The same in samples of low rates: two frames of AAC."""
_CHUNK: Final = 1024
_EARLY_S: Final = 0.03
"""Sound that may begin before the first frame without an edit list: a packet, of which decoders leave out a part."""


class CopiedSound(Closing):
    """Packets of the sound of a source within a range of time, which a video takes over as they are.

    Args:
        source: the file; of several streams of sound the default one is taken.
        start_s: time of the first frame on the source's clock.
        end_s: time at which the last frame ends.

    Attributes:
        codec: name of the codec.
        early: whether sound before the first frame is copied too, and has to be hidden.
    """

    def __init__(self, source: Source, start_s: float, end_s: float) -> None:
        with parsing(source):
            self._demuxer = Demuxer(source)
        container = self._demuxer.container
        number = choose_stream(source, audio_streams(container), None).number
        self._template: Any = next(stream for stream in container.streams.audio if stream.index == number)
        assert self._template.time_base is not None  # of every stream of a container
        self._tick = self._template.time_base
        self._start, self._end = start_s, end_s
        self._begin = (self._template.start_time or 0) * self._tick
        self.codec: str = self._template.codec.canonical_name
        self.early = self._begin < start_s - _EARLY_S

    @property
    def duration_s(self) -> float:
        """Length of the range."""
        return self._end - self._start

    def end_at(self, end_s: float) -> None:
        """Set an earlier end of the range, before the end is written."""
        self._end = end_s

    def close(self) -> None:
        """Close the source."""
        self._demuxer.close()

    def begin(self, output: Any) -> None:
        """Add the stream to an open file, before anything is written."""
        self._output, self._packets = output, self._in_range()
        self._next = next(self._packets, None)
        if self._next is not None:
            self._stream = output.add_stream_from_template(self._template, opaque=True)

    def _in_range(self) -> Iterator[Any]:
        """Yield packets with times from the first frame on."""
        rate = self._template.sample_rate
        # without an edit list, or before the beginning, all that the source stores before its first sample
        first = self._start - Fraction(max(BEFORE_S, _FRAMES_BEFORE / rate)) if self.early else -inf
        container = self._demuxer.container
        if first > self._begin:
            container.seek(floor(Fraction(first) / self._tick), stream=self._template, backward=True)
        with suppress(av.error.FFmpegError):  # a truncated file gives what it has
            for packet in container.demux(self._template):
                time = None if packet.pts is None else packet.pts * self._tick
                if packet.size and time is not None and time >= first:
                    # in samples, which are finer than the ticks of some containers
                    packet.pts = packet.dts = round((time - self._start) * rate)
                    packet.duration = round((packet.duration or 0) * self._tick * rate)
                    packet.time_base = Fraction(1, rate)
                    yield packet

    def until(self, seconds: float | None) -> None:
        """Write the sound before a time from the first frame on; None for all that is left."""
        last_s = self.duration_s if seconds is None else min(seconds, self.duration_s)
        while self._next is not None and self._next.pts * self._next.time_base < last_s:
            self._next.stream = self._stream
            self._output.mux(self._next)
            self._next = next(self._packets, None)


class EncodedSound:
    """Encodes sound beside the frames, beginning with the first one; :meth:`until` as of :class:`CopiedSound`."""

    def __init__(
        self,
        container: Any,
        encoders: tuple[str, ...],
        first: AudioSamples,
        others: Iterator[AudioSamples],
    ) -> None:
        available = av.codec.codecs_available
        name = next((encoder for encoder in encoders if encoder in available), encoders[0])
        rate = 48_000 if name == "libopus" else first.sample_rate
        layout = av.AudioLayout(
            {1: "mono", 2: "stereo", 6: "5.1"}.get(first.channels, f"{first.channels}c")
        ).name
        self._container, self._layout, self._rate = container, layout, first.sample_rate
        self._stream = container.add_stream(name, rate=rate, layout=layout)
        self._resampler = av.AudioResampler(self._stream.format.name, layout, rate)
        self._at, self._chunks = 0, _chunks(chain([first], others))

    def until(self, seconds: float | None) -> None:
        """Encode the sound before a time; None for all that is left."""
        end = inf if seconds is None else seconds * self._rate + _CHUNK
        while self._at < end and (chunk := next(self._chunks, None)) is not None:
            frame = av.AudioFrame.from_ndarray(chunk, "fltp", self._layout)
            frame.sample_rate, frame.pts, frame.time_base = self._rate, self._at, Fraction(1, self._rate)
            self._at += chunk.shape[1]
            self._mux(frame)
        if seconds is None:
            self._mux(None)
            self._container.mux(self._stream.encode(None))

    def _mux(self, frame: Any) -> None:
        """Encode and write a frame of sound; None for what the resampler still holds."""
        for resampled in self._resampler.resample(frame):
            self._container.mux(self._stream.encode(resampled))


def _chunks(pieces: Iterable[AudioSamples]) -> Iterator[SampleArray]:
    """Yield the samples of consecutive pieces in short chunks."""
    for piece in pieces:
        for at in range(0, piece.samples.shape[1], _CHUNK):
            yield np.ascontiguousarray(piece.samples[:, at : at + _CHUNK])
