"""What is asked for, and the judge of what comes: of pictures, of errors that must be, and of those that need not."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from seqpipe.array import IntArray
from seqpipe.errors import DamagedSourceError, FrameRangeError, SeqpipeError, SourceNotFoundError
from seqpipe.sequence import Sequence
from seqpipe.video.convert.output import OutputSpec
from seqpipe.video.device import DecodeChoice
from tests.support.truth import PLAIN, Known, unlike

__all__ = ["MISSING", "Answer", "Asked", "Judge"]

MISSING: Final = "/no/such/video.mp4"
"""What is asked for where there is nothing."""

# levels that a picture may be from the CPU's on average: on the CPU, on a GPU, and where standards leave it open
_SAME, _NEAR, _LOOSE = 0.0, 0.5, 2.0
_LOOSE_CODECS = frozenset({"mpeg1video", "mpeg2video", "mpeg4"})


@dataclass(frozen=True, eq=False)
class Asked:
    """A request, for whoever judges what came; of no file if it is one that does not exist."""

    frames: IntArray
    known: Known | None
    output: OutputSpec = PLAIN

    def __str__(self) -> str:
        return f"{self.known or MISSING} {self.frames.tolist()}"


Answer = tuple[Asked, Sequence | SeqpipeError]


@dataclass(frozen=True)
class Judge:
    """Judges answers; any thread may ask it.

    Attributes:
        device: where frames are.
        decode: who decodes them.
    """

    device: str
    decode: DecodeChoice

    def wrong(self, asked: Asked, result: Sequence | SeqpipeError) -> str:
        """What is wrong with an answer; "" if it is right."""
        known = asked.known
        if known is None or asked.frames.max() >= len(known):
            expected = SourceNotFoundError if known is None else FrameRangeError
            return (
                "" if isinstance(result, expected) else f"it ends in {result!r}, not in a {expected.__name__}"
            )
        lost = known.lost.intersection(asked.frames.tolist())
        if isinstance(result, DamagedSourceError):
            alone = self.decode == "nvdec"
            sound = set(result.lost) - lost
            return f"{result}" if lost - set(result.lost) or (sound and not (alone and known.lost)) else ""
        if isinstance(result, SeqpipeError):
            return f"{type(result).__name__}: {result}"
        if lost:
            return f"frames {sorted(lost)} came, which cannot be decoded"
        return unlike(result, asked.frames, asked.output, known, self._tolerance(known))

    def _tolerance(self, known: Known) -> float:
        if self.device == "cpu":
            return _SAME
        return _LOOSE if self.decode == "nvdec" and known.codec in _LOOSE_CODECS else _NEAR
