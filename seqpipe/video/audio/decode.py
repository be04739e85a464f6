"""Decoding and resampling of sound, of which any range equals that range of the whole.

Decoders of sound depend on all packets before (prediction in Opus, noise substitution in AAC), by less and less. So a
track is decoded in blocks of packets: each starts with a new decoder and some packets before the block, whose samples
are left out.

A resampler's filter has a phase, which is zero at every common multiple of the two rates. A range is resampled from
such a point on, some of the filter's length before it, and what precedes the range is left out.
"""

from __future__ import annotations

import contextlib
from collections import OrderedDict
from collections.abc import Callable, Iterator
from fractions import Fraction
from math import ceil, floor, gcd
from typing import TYPE_CHECKING, Any, Final, cast

import av
import av.error
import av.filter
import numpy as np
from av.codec.context import CodecContext

from ...errors import SourceError
from ..probe.probe import Demuxer, av_packet, set_extradata
from ..source.source import Source
from .samples import SampleArray
from .track import AudioTrack, set_up_decoder

if TYPE_CHECKING:
    import av

__all__ = ["BlockDecoder", "default_layout", "resampled", "resampled_length"]

_BLOCK: Final = 32  # packets
# Opus needs 80 ms (RFC 7845, 4.6), MP3 what its bit reservoir may refer to, AAC the frame before.
_BEFORE_PACKETS, _BEFORE_S = 8, 0.08
_KEPT_BLOCKS: Final = 8
_FULL_SCALE: Final = {"u8": 2.0**7, "s16": 2.0**15, "s32": 2.0**31, "s64": 2.0**63}


class BlockDecoder:
    """Decodes ranges of a track; keeps the blocks that it decoded last.

    Args:
        source: the file.
        track: the track.
    """

    def __init__(self, source: Source, track: AudioTrack) -> None:
        self._source, self._track = source, track
        self._blocks: OrderedDict[int, list[SampleArray | None]] = OrderedDict()

    def read(self, begin: int, end: int) -> SampleArray:
        """Return samples by position, of shape (channels, end - begin); gaps are zero."""
        track = self._track
        result = np.zeros((track.info.channels, end - begin), np.float32)
        ends = track.begin + track.keep
        first = int(np.searchsorted(ends, begin, side="right"))
        last = int(np.searchsorted(track.begin, end, side="left"))
        for block in range(first // _BLOCK, -(-last // _BLOCK)):
            for number, samples in enumerate(
                self._block(block, min(_BLOCK, last - block * _BLOCK)), block * _BLOCK
            ):
                if samples is not None and first <= number < last:
                    at = int(track.begin[number]) - begin
                    left, right = max(0, at), min(end - begin, at + samples.shape[1])
                    if left < right:
                        result[:, left:right] = samples[:, left - at : right - at]
        return result

    def _block(self, block: int, count: int) -> list[SampleArray | None]:
        """Return what each of the first packets of a block, or more, gives; None where it gives nothing."""
        kept, begin = self._blocks, block * _BLOCK
        if len(kept.get(block, ())) < count:
            kept[block] = self._decoded(begin, begin + count)
        kept.move_to_end(block)
        while len(kept) > _KEPT_BLOCKS:
            kept.popitem(last=False)
        return kept[block]

    def _decoded(self, begin: int, end: int) -> list[SampleArray | None]:
        """Return what each packet of a range gives."""
        track = self._track
        early = max(0, begin - _BEFORE_PACKETS)
        time = track.begin[begin] - _BEFORE_S * track.info.sample_rate
        while early and track.begin[early] > time:
            early -= 1
        outputs: list[list[SampleArray]] = [[] for _ in range(end - early)]
        with self._decoder() as decode:
            for number, data in enumerate(track.packets(self._source, range(early, end))):
                for frame in decode(number, data):
                    packet = _packet_of(frame, number, end - early)
                    if packet >= begin - early:
                        outputs[packet].append(self._samples(frame))
        result: list[SampleArray | None] = []
        for number, parts in enumerate(outputs[begin - early :], begin):
            skip, keep = int(track.skip[number]), int(track.keep[number])
            whole = np.concatenate(parts, axis=1) if len(parts) > 1 else parts[0] if parts else None
            result.append(None if whole is None or not keep else whole[:, skip : skip + keep])
        return result

    @contextlib.contextmanager
    def _decoder(self) -> Iterator[Callable[[int, bytes], list[Any]]]:
        """Open a decoder; it is called with the number of a packet and its bytes, and returns frames."""
        track, demuxer = self._track, None
        if track.direct:
            context = cast("av.AudioCodecContext", CodecContext.create(track.info.codec, "r"))
            set_extradata(context, track.extradata)
            context.sample_rate, context.layout = track.info.sample_rate, track.info.layout
        else:
            # some decoders need properties that PyAV cannot set
            demuxer = Demuxer(self._source)
            streams = demuxer.container.streams.audio
            context = next(stream for stream in streams if stream.index == track.info.number).codec_context
        set_up_decoder(context)

        def decode(number: int, data: bytes) -> list[Any]:
            packet = av_packet(data)
            packet.pts = packet.dts = number
            try:
                return list(context.decode(packet))
            except av.error.InvalidDataError:  # its place on the clock is silent
                return []

        try:
            yield decode
        finally:
            if demuxer is not None:
                demuxer.close()

    def _samples(self, frame: av.AudioFrame) -> SampleArray:
        """Return the samples of a decoded frame as float32 of shape (channels, samples)."""
        info = self._track.info
        channels = frame.layout.nb_channels
        if frame.sample_rate != info.sample_rate or channels != info.channels:
            raise SourceError(
                f"its sound changes to {frame.sample_rate} Hz with {channels} channels within the stream",
                source=self._source.name,
                allowed=f"{info.sample_rate} Hz with {info.channels} channels, as at its start",
                advice="Convert its sound with ffmpeg first",
            )
        name = frame.format.name
        if name == "fltp":  # most codecs; FFmpeg's planes are longer than the samples
            samples = np.empty((channels, frame.samples), np.float32)
            for row, plane in zip(samples, frame.planes, strict=True):
                row[:] = np.frombuffer(memoryview(plane), np.float32, frame.samples)
            return samples
        values = frame.to_ndarray()
        if not name.endswith("p"):
            values = values.reshape(-1, channels).T
        kind = name.removesuffix("p")
        if kind in ("flt", "dbl"):
            return values.astype(np.float32)
        if kind == "u8":
            values = values.astype(np.int16) - 128
        return values.astype(np.float32) * np.float32(1 / _FULL_SCALE[kind])


def _packet_of(frame: Any, fed: int, count: int) -> int:
    """Return the packet that a frame was decoded from: by its time, if the decoder passes times on."""
    number = fed if frame.pts is None else int(frame.pts)
    return number if 0 <= number < count else fed


_LAYOUTS: Final = ("mono", "stereo", "2.1", "4.0", "5.0", "5.1", "6.1", "7.1")
_CHUNK: Final = 1 << 20
# libswresample's filter has 32 taps at the lower of the two rates.
_TAPS: Final = 64


def default_layout(channels: int) -> str:
    """Return FFmpeg's name of the usual layout of 1 to 8 channels."""
    return _LAYOUTS[channels - 1]


def resampled_length(length: int, rate: int, to_rate: int) -> int:
    """Return the number of samples that ``length`` samples become."""
    return floor(Fraction(length * to_rate, rate) + Fraction(1, 2))


def resampled(
    read: Callable[[int, int], SampleArray],
    length: int,
    begin: int,
    end: int,
    *,
    rate: int,
    to_rate: int,
    layout: str,
    to_layout: str,
) -> SampleArray:
    """Return samples ``begin`` to ``end`` of a resampled track."""
    if rate == to_rate:
        return _filtered(read(begin, end), rate, to_rate, layout, to_layout)
    step, to_step = rate // gcd(rate, to_rate), to_rate // gcd(rate, to_rate)
    margin = _TAPS * ceil(max(1.0, rate / to_rate))
    block = max(0, floor((begin * rate // to_rate - margin) / step))
    last = min(length, ceil(Fraction(end * rate, to_rate)) + margin)
    values = _filtered(read(block * step, last), rate, to_rate, layout, to_layout)
    wanted = values[:, begin - block * to_step : end - block * to_step]
    short = end - begin - wanted.shape[1]
    return np.pad(wanted, [(0, 0), (0, short)]) if short > 0 else wanted


def _filtered(samples: SampleArray, rate: int, to_rate: int, layout: str, to_layout: str) -> SampleArray:
    """Return samples at another rate and with other channels."""
    graph = av.filter.Graph()
    graph.threads = 1
    source = graph.add_abuffer(sample_rate=rate, format="fltp", layout=layout, time_base=Fraction(1, rate))
    resample = graph.add("aresample", str(to_rate))
    form = graph.add("aformat", f"sample_fmts=fltp:channel_layouts={to_layout}")
    sink = graph.add("abuffersink")
    source.link_to(resample)
    resample.link_to(form)
    form.link_to(sink)
    graph.configure()
    parts: list[SampleArray] = []
    for at in range(0, samples.shape[1], _CHUNK):
        chunk = np.ascontiguousarray(samples[:, at : at + _CHUNK])
        frame = av.AudioFrame.from_ndarray(chunk, format="fltp", layout=layout)
        frame.sample_rate, frame.pts, frame.time_base = rate, at, Fraction(1, rate)
        source.push(frame)
        parts += _pulled(sink)
    source.push(None)
    parts += _pulled(sink)
    channels = av.AudioLayout(to_layout).nb_channels
    return np.concatenate(parts, axis=1) if parts else np.zeros((channels, 0), np.float32)


def _pulled(sink: av.filter.FilterContext) -> list[SampleArray]:
    """Return what a graph has ready."""
    parts: list[SampleArray] = []
    while True:
        try:
            frame = sink.pull()
        except (av.error.BlockingIOError, av.error.EOFError):
            return parts
        parts.append(cast("av.AudioFrame", frame).to_ndarray().astype(np.float32, copy=False))
