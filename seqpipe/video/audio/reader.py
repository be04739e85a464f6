"""AudioReader: exact samples of a file's sound, by time."""

from __future__ import annotations

import threading
from collections import OrderedDict
from fractions import Fraction
from functools import partial
from typing import Any, Final

import av
import numpy as np

from ...core.closing import Closing
from ...core.forks import reset_after_fork
from ...core.param import Param
from ...errors import FrameRangeError, ParameterError, SourceError
from ..probe.probe import is_cover, open_container
from ..probe.recognize import parsing
from ..source.source import Origin, Source, Stamp, open_source
from .decode import BlockDecoder, default_layout, resampled, resampled_length
from .samples import AudioSamples
from .track import AudioStreamInfo, AudioTrack, audio_streams, choose_stream, nearest, read_track

__all__ = ["CHANNELS", "SAMPLE_RATE", "AudioReader", "sound_alone"]

SAMPLE_RATE: Final = Param(
    name="sample_rate", doc="Samples per second of each channel", lo=1, hi=768_000, unit="Hz", optional=True
)
CHANNELS: Final = Param(name="channels", doc="Number of channels", lo=1, hi=8, unit="channels", optional=True)
_KEPT_TRACKS: Final = 1024


class AudioReader(Closing):
    """Random access to the sound of a file, exact to the sample.

    Args:
        origin: a path, a URL, the bytes of a file, or a seekable binary file object.
        stream: number or language of the stream that is read unless a call names another; by default the container's
            default stream, of several that of most channels.

    Raises:
        SourceNotFoundError: the source does not exist.
        UnreadableSourceError: the source has no sound that can be decoded.
        ParameterError: it has no such stream.
    """

    def __init__(self, origin: Origin, *, stream: int | str | None = None) -> None:
        self._origin, self._stream = origin, stream
        self._source = open_source(origin)
        self._lock = threading.RLock()
        self._decoders: dict[int, BlockDecoder] = {}
        self._tracks: dict[int, AudioTrack] = {}
        self._streams = _TRACKS.streams(self._source, stream)
        choose_stream(self._source, self._streams, stream)
        reset_after_fork(self)

    def __reduce__(self) -> tuple[Any, ...]:
        return partial(AudioReader, self._origin, stream=self._stream), ()

    @property
    def streams(self) -> tuple[AudioStreamInfo, ...]:
        """Streams of sound of the container."""
        return self._streams

    def range_s(self, stream: int | str | None = None) -> tuple[float, float]:
        """Return the times in seconds at which a stream of sound starts and ends.

        Raises:
            ParameterError: there is no such stream.
            SourceError: the file cannot be read.
        """
        with self._lock:
            track = self._track(stream)
        end = track.start + Fraction(track.length, track.info.sample_rate)
        return float(track.start), float(end)

    def audio(
        self,
        start_s: float | None = None,
        end_s: float | None = None,
        *,
        sample_rate: int | None = None,
        channels: int | None = None,
        stream: int | str | None = None,
    ) -> AudioSamples:
        """Return a range of sound, exact to the sample: any range equals that range of the whole, bit for bit.

        Encoders' delays that the container declares are left out, gaps between packets are silent, and rate and
        channels are changed by libswresample.

        Args:
            start_s: time of the first sample on the container's clock; None for the start of the sound. The samples
                nearest to both times bound the range.
            end_s: time at which the range ends; None for the end of the sound.
            sample_rate: samples per second of the result; None for the stream's.
            channels: number of channels, 1 to 8, of the usual layout (mono, stereo, …, 5.1); None for the stream's.
            stream: number of the stream in the container, or its language, such as "eng"; None for the reader's.

        Raises:
            FrameRangeError: a time is outside of the sound.
            ParameterError: there is no such stream, or an argument is out of bounds.
            SourceError: the file cannot be read.
        """
        rate, count = SAMPLE_RATE.check(sample_rate), CHANNELS.check(channels)
        with self._lock:
            track = self._track(stream)
            rate = rate or track.info.sample_rate
            length = resampled_length(track.length, track.info.sample_rate, rate)
            begin, end = self._range(track, length, rate, start_s, end_s)
            samples = self._read(track, begin, end, rate, count or track.info.channels)
        start = track.start + Fraction(begin, rate)
        return AudioSamples(samples, rate, float(start), self._source.name)

    def padded(
        self, start_s: float, count: int, *, sample_rate: int, channels: int, stream: int | str | None
    ) -> Any:
        """Return ``count`` samples from a time on; those outside of the sound are zero.

        Returns:
            float32 of shape (channels, count).
        """
        with self._lock:
            track = self._track(stream)
            length = resampled_length(track.length, track.info.sample_rate, sample_rate)
            begin = nearest((Fraction(start_s) - track.start) * sample_rate)
            left, right = min(max(begin, 0), length), min(max(begin + count, 0), length)
            result = np.zeros((channels, count), np.float32)
            if left < right:
                result[:, left - begin : right - begin] = self._read(
                    track, left, right, sample_rate, channels
                )
        return result

    def close(self) -> None:
        """Close the file."""
        with self._lock:
            self._decoders.clear()
            self._source.close()

    def after_fork(self) -> None:
        """Reset in a forked process: another thread may have held the lock."""
        self._lock = threading.RLock()

    def __repr__(self) -> str:
        return f"AudioReader({self._source.name!r}, {'; '.join(map(str, self._streams))})"

    def _track(self, wanted: int | str | None) -> AudioTrack:
        """Return the track of a stream."""
        chosen = self._stream if wanted is None else wanted
        number = choose_stream(self._source, self._streams, chosen).number
        if number not in self._tracks:
            self._tracks[number] = _TRACKS.track(self._source, number)
            self._decoders[number] = BlockDecoder(self._source, self._tracks[number])
        return self._tracks[number]

    def _range(
        self, track: AudioTrack, length: int, rate: int, start_s: float | None, end_s: float | None
    ) -> tuple[int, int]:
        """Return the first sample of a range of time, and its end: the nearest samples to both times."""
        first, last = float(track.start), float(track.start + Fraction(track.length, track.info.sample_rate))
        places: list[int] = []
        for name, time, default in (("start_s", start_s, 0), ("end_s", end_s, length)):
            value = _TIME_S[name].check(time)
            place = default if value is None else nearest((Fraction(value) - track.start) * rate)
            if not 0 <= place <= length:
                raise FrameRangeError(
                    f"{name}={time} is not in its audio",
                    source=self._source.name,
                    allowed=f"from {first:.6f} s to {last:.6f} s",
                )
            places.append(place)
        if places[0] > places[1]:
            raise ParameterError(
                f"start_s={start_s} is later than end_s={end_s}",
                source=self._source.name,
                allowed="start_s <= end_s",
            )
        return places[0], places[1]

    def _read(self, track: AudioTrack, begin: int, end: int, rate: int, channels: int) -> Any:
        """Return samples at a rate and with channels."""
        info, decoder = track.info, self._decoders[track.info.number]
        if rate == info.sample_rate and channels == info.channels:
            return decoder.read(begin, end)
        layout = info.layout
        if av.AudioLayout(layout).name != layout or " channels" in layout:
            layout = default_layout(info.channels)
        return resampled(
            decoder.read,
            track.length,
            begin,
            end,
            rate=info.sample_rate,
            to_rate=rate,
            layout=layout,
            to_layout=layout if channels == info.channels else default_layout(channels),
        )


def sound_alone(origin: Origin, *, stream: int | str | None = None) -> AudioReader | None:
    """Return a reader of a file that has sound and no video but cover images; None for other files."""
    try:
        source = open_source(origin)
        # which checks what the headers of images declare
        with parsing(source), open_container(source) as container:
            has_video = any(not is_cover(stream) for stream in container.streams.video)
            sound = not has_video and bool(audio_streams(container))
    except SourceError:
        return None
    return AudioReader(origin, stream=stream) if sound else None


_TIME_S: Final = {
    name: Param(name=name, doc=doc, kind=float, unit="s", optional=True)
    for name, doc in (("start_s", "Time at which a range starts"), ("end_s", "Time at which a range ends"))
}


class _Tracks:
    """Streams and tracks that were read last, by the file's identity; shared by threads."""

    def __init__(self) -> None:
        self._kept: OrderedDict[tuple[Stamp, int], Any] = OrderedDict()
        self._lock = threading.Lock()
        reset_after_fork(self)

    def after_fork(self) -> None:
        """Reset in a forked process."""
        self._lock = threading.Lock()

    def streams(self, source: Source, wanted: int | str | None) -> tuple[AudioStreamInfo, ...]:
        """Return the streams of sound of a file; one is read at the same time, as opening takes longest."""

        def read() -> tuple[AudioStreamInfo, ...]:
            with parsing(source), open_container(source) as container:
                streams = tuple(audio_streams(container))
                chosen = choose_stream(source, streams, wanted).number
                self._of(source, chosen, lambda: read_track(source, chosen, container))
                return streams

        streams: tuple[AudioStreamInfo, ...] = self._of(source, -1, read)
        return streams

    def track(self, source: Source, number: int) -> AudioTrack:
        """Return a track of a file."""
        track: AudioTrack = self._of(source, number, lambda: read_track(source, number))
        return track

    def _of(self, source: Source, number: int, read: Any) -> Any:
        """Return what is kept for a file, or read it."""
        stamp = source.stamp()
        if stamp is None:
            return read()
        key = stamp, number
        with self._lock:
            if key in self._kept:
                self._kept.move_to_end(key)
                return self._kept[key]
        value = read()
        with self._lock:
            self._kept[key] = value
            while len(self._kept) > _KEPT_TRACKS:
                self._kept.popitem(last=False)
        return value


_TRACKS: Final = _Tracks()
