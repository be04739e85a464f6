"""Decode backends: which decoders and which painter put frames on a device."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from collections.abc import Sequence as Seq
from dataclasses import dataclass, replace
from typing import Protocol

from ...array import IntArray
from ..convert.paint import Painter, Targets
from ..convert.surface import AnySurface
from ..decode.packet_decoder import Decoders
from ..decode.packets import PacketReader
from ..decode.run import Lost
from ..plan.jobs import Job, PlannedVideo

__all__ = ["DecodeBackend", "DecodedElsewhere", "Helpers", "WholeRun"]


class DecodedElsewhere(Protocol):
    """The delivery of some frames, as :class:`~seqpipe.video.decode.run.Decoding` is one, to be closed."""

    def __iter__(self) -> Iterator[AnySurface | Lost]:
        """The frames."""

    def close(self) -> None:
        """Ask for no more of them."""


class Helpers(Protocol):
    """Who may decode in place of a backend's own decoders."""

    @property
    def count(self) -> int:
        """How many there are at most."""

    def fit(self, video: PlannedVideo) -> bool:
        """Whether a video may be left to them."""

    def decode(self, video: PlannedVideo, frames: IntArray) -> DecodedElsewhere | None:
        """Begin to decode frames, perhaps once another one's are done; None where they are not ready yet."""

    def close(self) -> None:
        """Let them go."""


class WholeRun(Protocol):
    """What decodes and paints all of a job at once, as long as nothing is wrong."""

    def __call__(
        self, video: PlannedVideo, targets: Targets, painter: Painter, reader: Callable[[], PacketReader]
    ) -> bool:
        """Do it, and say whether it is done; where it is not, all of it is left to other decoders.

        Raises:
            BackendError: the backend cannot decode such a stream.
            SourceError: the stream cannot be read, or not be converted to what is asked for.
        """


def _foremost(jobs: Iterable[Job], _waiting: Seq[Job]) -> Job | None:
    return next(iter(jobs), None)


def _every(_job: Job) -> bool:
    return True


def _unmeasured(_jobs: Seq[Job], _seconds: float) -> None:
    """Nobody asks how long it takes."""


def _nothing() -> None:
    """Nothing is held."""


@dataclass(frozen=True, eq=False)
class DecodeBackend:
    """One kind of worker.

    Attributes:
        name: of the decoder, for statistics.
        decoders: where its decoders come from.
        painter: makes a painter for a thread.
        helpers: are asked first to decode, or None.
        threads: of its own; 0 to work on the CPU threads of the engine.
        frame_threads: of each decoder on the CPU.
        fits: which jobs are for it; asked often.
        choose: picks one of those, given also all that wait, or none where they are better left to another backend.
        whole: is asked first to decode and paint all of a job at once, and says whether that is done; or None.
        fallback: decoders that are asked about what these have not decoded, or None.
        done: is told which jobs were done together, and how many seconds that took.
        close: gives back what it holds, once its threads have ended.
    """

    name: str
    decoders: Decoders
    painter: Callable[[], Painter]
    helpers: Helpers | None = None
    threads: int = 0
    frame_threads: int = 1
    fits: Callable[[Job], bool] = _every
    choose: Callable[[Iterable[Job], Seq[Job]], Job | None] = _foremost
    whole: WholeRun | None = None
    fallback: Decoders | None = None
    done: Callable[[Seq[Job], float], None] = _unmeasured
    close: Callable[[], None] = _nothing

    def pick(self, jobs: Seq[Job]) -> Job | None:
        """What one of its workers takes next of the jobs that wait, or None."""
        return self.choose(filter(self.fits, jobs), jobs)

    def only(self, fits: Callable[[Job], bool]) -> DecodeBackend:
        """This backend, for those of its jobs that fit a further condition."""
        mine = self.fits
        return replace(self, fits=lambda job: mine(job) and fits(job))

    def with_helpers(self, helpers: Helpers | None) -> list[DecodeBackend]:
        """This backend, and where there are helpers one more for what is left to them.

        Some of their workers paint while others wait for a helper, so there are more of them than helpers.
        """
        if helpers is None:
            return [self]

        return [
            self.only(lambda job: not helpers.fit(job.video)),
            replace(
                self.only(lambda job: helpers.fit(job.video)),
                helpers=helpers,
                threads=2 * helpers.count,
                frame_threads=1,
                close=helpers.close,
            ),
        ]
