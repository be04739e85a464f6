"""Sound beside the frames of clips, as a source over that of the clips."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final, Protocol

import numpy as np

from ..array import IntArray
from ..core.forks import reset_after_fork
from ..core.keywords import refuses_unknown_fields
from ..core.param import Param, check_fields
from ..core.workers import Workers
from ..dataset.source import PLAIN, Heads, ReadPlan, ReadResult, SampleOutcome, SampleSource
from ..errors import ParameterError, SeqpipeError, SourceError
from ..ops import Type
from ..readers.fetch import Fetcher
from ..readers.report import Report
from ..sampling.dealing import distinct, substitutes
from ..sequence import Sequence
from ..video.audio.reader import AudioReader
from ..video.audio.samples import SampleArray
from ..video.convert.output import OutputSpec
from ..video.engine.engine import available_cores

__all__ = ["AudioClips", "AudioSpec"]

_PART: Final = "audio"
_OPEN_FILES = 64
_RATE = Param(name="sample_rate", doc="Samples per second of each channel", lo=1, hi=768_000, unit="Hz")
_CHANNELS = Param(name="channels", doc="Number of channels", lo=1, hi=8, unit="channels")
_LENGTH = Param(name="length", doc="Samples of each clip", lo=1, unit="samples", optional=True)
_REQUIRED = Param(name="required", doc="Whether a video without sound is unreadable", kind=bool)


@refuses_unknown_fields()
@dataclass(frozen=True, kw_only=True)
class AudioSpec:
    """Sound of clips.

    Attributes:
        sample_rate: samples per second of each channel.
        channels: number of channels, 1 to 8, of the usual layout (mono, stereo, …, 5.1).
        length: samples of each clip: shorter sound is followed by silence, longer sound is cut. None for as many as the
            clip's own times take, which differ between videos of different frame rates.
        stream: number of the stream of sound in the container, or its language, such as "eng"; None for the default.
        required: whether a video without such a stream counts as unreadable, for ``on_error``; otherwise it is silent.

    Raises:
        ParameterError: an argument is out of bounds.
    """

    sample_rate: int = 16_000
    channels: int = 1
    length: int | None = None
    stream: int | str | None = None
    required: bool = True

    def __post_init__(self) -> None:
        check_fields(self, _RATE, _CHANNELS, _LENGTH, _REQUIRED)
        if self.stream is not None and (
            isinstance(self.stream, bool) or not isinstance(self.stream, (int, str))
        ):
            raise ParameterError(
                f"stream={self.stream!r} is not valid", allowed="a number, a language such as 'eng', or None"
            )


class _Clips(SampleSource, Protocol):
    """A source of clips of videos."""

    @property
    def fetcher(self) -> Fetcher: ...
    @property
    def output(self) -> OutputSpec: ...
    @property
    def paths(self) -> tuple[str, ...]: ...
    @property
    def fill(self) -> float: ...
    @property
    def classes(self) -> tuple[str, ...]: ...
    def sizes(self) -> IntArray: ...
    def share_cores(self, processes: int) -> None: ...


class _OpenFiles:
    """Readers of the files whose sound was read last, and the threads that read."""

    def __init__(self) -> None:
        self._readers: OrderedDict[str, AudioReader] = OrderedDict()
        self._workers: Workers | None = None
        self._lock = threading.Lock()
        self.threads = available_cores()
        reset_after_fork(self)

    def __reduce__(self) -> tuple[Any, ...]:
        return _OpenFiles, ()

    def after_fork(self) -> None:
        """Reset in a forked process, which has none of the threads."""
        self._readers, self._workers, self._lock = OrderedDict(), None, threading.Lock()

    def reader(self, name: str) -> AudioReader:
        """Return the reader of a file."""
        with self._lock:
            if name in self._readers:
                self._readers.move_to_end(name)
                return self._readers[name]
        reader = AudioReader(name)
        with self._lock:
            reader = self._readers.setdefault(name, reader)
            while len(self._readers) > _OPEN_FILES:
                self._readers.popitem(last=False)
        return reader

    @property
    def workers(self) -> Workers:
        """The threads."""
        with self._lock:
            self._workers = self._workers or Workers(self.threads, "seqpipe_audio")
            return self._workers

    def close(self) -> None:
        """Close the files and stop the threads; a later use starts them again."""
        with self._lock:
            readers, self._readers = list(self._readers.values()), OrderedDict()
            workers, self._workers = self._workers, None
        if workers is not None:
            workers.close()
        for reader in readers:
            reader.close()


@dataclass(frozen=True, eq=False)
class AudioClips:
    """Clips of videos with their sound: the part ``audio``, float32 of shape (channels, samples).

    The sound of a clip begins with its first frame and ends with the end of its last one; padded frames are silent. It
    has the randomness of the clip, and a video without sound is treated as one without frames.

    Attributes:
        clips: the source of the clips.
        spec: rate, channels and stream.
    """

    clips: _Clips
    spec: AudioSpec
    _files: _OpenFiles = field(default_factory=_OpenFiles, init=False)

    def __post_init__(self) -> None:
        if _PART in self.clips.parts:
            raise ParameterError(
                "the manifest has a column 'audio', the name of the part of sound",
                source="videos",
                advice="Rename the column",
            )

    @property
    def name(self) -> str:
        """That of the clips."""
        return self.clips.name

    @property
    def size(self) -> int:
        """That of the clips."""
        return self.clips.size

    @property
    def unit(self) -> int:
        """That of the clips."""
        return self.clips.unit

    @property
    def mix(self) -> int:
        """That of the clips."""
        return self.clips.mix

    @property
    def seed(self) -> int:
        """That of the clips."""
        return self.clips.seed

    @property
    def shuffle(self) -> bool:
        """That of the clips."""
        return self.clips.shuffle

    @property
    def device(self) -> str:
        """That of the clips; sound is in main memory."""
        return self.clips.device

    @property
    def output(self) -> OutputSpec:
        """That of the clips."""
        return self.clips.output

    @property
    def paths(self) -> tuple[str, ...]:
        """Those of the clips."""
        return self.clips.paths

    def sizes(self) -> IntArray:
        """Those of the clips."""
        return self.clips.sizes()

    @property
    def fill(self) -> float:
        """That of the clips."""
        return self.clips.fill

    @property
    def classes(self) -> tuple[str, ...]:
        """Those of the clips."""
        return self.clips.classes

    @property
    def parts(self) -> Mapping[str, Type]:
        """See :class:`seqpipe.dataset.source.SampleSource`."""
        shape = self.spec.channels, self.spec.length
        return {**self.clips.parts, _PART: Type("numbers", None, "float32", "cpu", shape)}

    @property
    def facts(self) -> Mapping[str, object]:
        """See :class:`seqpipe.dataset.source.SampleSource`."""
        return {**self.clips.facts, _PART: repr(self.spec)}

    def plan(self, epoch: int, indices: IntArray, heads: Heads = PLAIN) -> ReadPlan:
        """See :class:`seqpipe.dataset.source.SampleSource`."""
        plan = self.clips.plan(epoch, indices, heads)
        return ReadPlan(epoch, indices, plan.nbytes, (plan, heads))

    def begin(self, plan: ReadPlan, *, stack: bool = True) -> Any:
        """See :class:`seqpipe.dataset.source.SampleSource`."""
        clips, heads = plan.work
        return self.clips.begin(clips, stack=stack), plan, heads

    def finish(self, work: Any) -> ReadResult:
        """See :class:`seqpipe.dataset.source.SampleSource`."""
        begun, plan, heads = work
        read = self.clips.finish(begun)
        jobs = [
            self._files.workers.submit(partial(self._sound, _clip_of(outcome)))
            if isinstance(outcome, tuple)
            else None
            for outcome in read.outcomes
        ]
        outcomes: list[SampleOutcome] = []
        for number, (outcome, job) in enumerate(zip(read.outcomes, jobs, strict=True)):
            sound = None if job is None else job.result()
            if isinstance(sound, SeqpipeError):
                outcomes.append(self._lost(plan.epoch, int(plan.indices[number]), heads, outcome, sound))
            elif isinstance(outcome, tuple):
                outcomes.append((outcome[0], {**outcome[1], _PART: sound}))
            else:
                outcomes.append(outcome)
        pairs = zip(read.outcomes, outcomes, strict=True)
        same = all(
            isinstance(new, tuple) and isinstance(old, tuple) and new[0] == old[0] for old, new in pairs
        )
        return ReadResult(tuple(outcomes), read.stacked if same else {})

    def cancel(self, work: Any) -> None:
        """See :class:`seqpipe.dataset.source.SampleSource`."""
        self.clips.cancel(work[0])

    def metadata(self, indices: IntArray) -> Mapping[str, Any]:
        """See :class:`seqpipe.dataset.source.SampleSource`."""
        return self.clips.metadata(indices)

    def report(self) -> Report:
        """Return what was lost."""
        return self.clips.report()

    def stats(self) -> dict[str, Any]:
        """Return counts of decoded frames by backend."""
        return self.clips.stats()

    def share_cores(self, processes: int) -> None:
        """Let this process use one of ``processes`` parts of the cores."""
        self._files.threads = max(1, available_cores() // processes)
        self.clips.share_cores(processes)

    def close(self) -> None:
        """Stop the threads."""
        self._files.close()
        self.clips.close()

    def __repr__(self) -> str:
        return f"{self.clips!r} with {self.spec!r}"

    def _sound(self, clip: Sequence) -> SampleArray | SeqpipeError:
        """Return the sound of a clip, or why there is none."""
        assert clip.source is not None
        spec = self.spec
        try:
            start, count, silent = self._span(clip)
            length = count + silent if spec.length is None else spec.length
            result = np.zeros((spec.channels, length), np.float32)
            read = min(count, length)
            try:
                result[:, :read] = self._files.reader(clip.source).padded(
                    start, read, sample_rate=spec.sample_rate, channels=spec.channels, stream=spec.stream
                )
            except (SourceError, ParameterError):
                if spec.required:
                    raise
        except SeqpipeError as error:
            return error
        return result

    def _span(self, clip: Sequence) -> tuple[float, int, int]:
        """Return the time of a clip's first frame, its samples of sound, and those of its padding."""
        assert clip.frames is not None
        assert clip.timestamps is not None
        assert clip.source is not None
        real, rate = clip.frames >= 0, self.spec.sample_rate
        if not real.any():
            return 0.0, 0, 0
        times = self.clips.fetcher.selection.clock.of(clip.source)
        last = int(clip.frames[real].max())
        start = float(clip.timestamps[real].min())
        follows = last + 1 < len(times)
        frame_s = (
            float(times[last + 1] - times[last] if follows else times[last] - times[last - 1])
            if last
            else 0.0
        )
        end = float(times[last]) + frame_s
        steps = int(real.sum()) - 1
        step_s = (float(times[last]) - start) / steps if steps else frame_s
        return start, round((end - start) * rate), round(int((~real).sum()) * step_s * rate)

    def _lost(
        self, epoch: int, index: int, heads: Heads, outcome: SampleOutcome, error: SeqpipeError
    ) -> SampleOutcome:
        """Return what takes the place of a clip whose sound cannot be read, as for unreadable frames."""
        fetcher = self.clips.fetcher
        source = str(_clip_of(outcome).source) if isinstance(outcome, tuple) else self.name
        if fetcher.on_error == "raise":
            fetcher.book.note(source, "sample raised", error)
            return error
        found = self._substitute(epoch, index, heads) if fetcher.on_error == "substitute" else None
        fetcher.book.note(source, "sample left out" if found is None else "sample substituted", error)
        return found

    def _substitute(self, epoch: int, index: int, heads: Heads) -> SampleOutcome:
        candidates = substitutes(self.seed, epoch, index, self.size)
        videos = np.asarray(self.metadata(candidates)["video"])
        lost = int(np.asarray(self.metadata(np.array([index]))["video"])[0])
        for candidate in distinct(candidates, videos, lost):
            plan = self.clips.plan(epoch, np.array([candidate]), heads)
            (outcome,) = self.clips.finish(self.clips.begin(plan, stack=False)).outcomes
            if isinstance(outcome, tuple):
                sound = self._sound(_clip_of(outcome))
                if not isinstance(sound, SeqpipeError):
                    return outcome[0], {**outcome[1], _PART: sound}
        return None


def _clip_of(outcome: tuple[int, dict[str, Any]]) -> Sequence:
    """Return the frames of a sample; with a fused graph, those of any of its uses."""
    return next(value for value in outcome[1].values() if isinstance(value, Sequence))
