"""Augmented: a reader and a chain of operators as one dataset, in as few passes over the pixels as that takes."""

from __future__ import annotations

from types import TracebackType
from typing import get_args

from ..array import IntArray
from ..errors import ParameterError
from ..ops import Chain, Declaration
from ..readers import Report, SampleRequest, Video
from ..readers.collate import Ragged
from ..sampling import fingerprint
from ..sampling.params import LastBatch
from ..sequence import Sequence
from .fusion import Fuse, split
from .passes import AugmentedBatches, AugmentedSequences

__all__ = ["Augmented"]


class Augmented:
    """A dataset whose sequences go through a chain of operators.

    It gives what ``chain(batch, epoch=…)`` gives for each batch of the reader: the same samples, windows, flips and
    other parameters, whatever ``fuse`` is. But the reader makes no pictures at full size for the chain to cut down: the
    operators at its head become part of the conversion that makes pictures of what was decoded, as far as a conversion
    can do them. On a GPU that is the kernel that reads the decoder's surface, and batches at full size, most of what
    such a loop takes of the card's memory, never exist. :meth:`explain` tells what is done where, and why.

    How much pixels may differ for it is for ``fuse`` to say:

    - ``"surface"``, the default: what the conversion makes differs by at most 1 level of 8 bits. Pixels are made of the
      surface, limited and rounded as the reader does, and resampled then; what is rounded between operators is rounded
      once, at the end. That is as far apart as the fast forms of operators on a CPU are from their reference, so a
      training run cannot tell it from a change of device.
    - ``"exact"``: no value differs. Windows and mirrors of whole pixels are the conversion's, and all else comes after.
    - ``"planes"``: the planes of the surface are resampled as they are stored, as the reader's own ``size`` does it,
      and colors are made of that: half the work or less. What lies beyond black and white is then averaged before it
      is cut off, not after: of films, 1 to 3 % of the values differ by more than a level, by up to 27 where saturated
      colors meet.
    - ``"none"``: all of the chain comes after; to compare.

    With ``"surface"`` and ``"planes"``, where optical flow comes first, or behind what the conversion does, that makes
    luma alone, straight from the decoded surface: no colors. The luma is the stream's own, where colors are weighted as
    of BT.601 whatever the stream; :func:`seqpipe.pipeline.read` gives both, colors and luma.

    Of a stream that changes its size midway, frames of another size than the first are an exception: the reader brings
    each window of them to the size that it is to have, not the whole picture first, and they may differ by more.

    Batches with ``ragged="pad"`` are not fused, for windows are then drawn within padded pictures.

    The chain runs in the thread that iterates, on the device that holds the batch; the reader's threads read ahead
    meanwhile. States of its passes include the chain, and may be loaded whatever ``fuse`` is.

    Args:
        reader: makes batches; it is closed with this.
        chain: what is done to them: a chain, or one operator.
        fuse: how much pixels may differ for being made in fewer steps.

    Raises:
        ParameterError: an argument is not valid.
    """

    def __init__(self, reader: Video, chain: Chain | Declaration, *, fuse: Fuse = "surface") -> None:
        if not isinstance(reader, Video):
            raise _wrong("reader", reader, "a seqpipe.readers.Video")
        if not isinstance(chain, (Chain, Declaration)):
            raise _wrong("chain", chain, "a Chain or an operator")
        if fuse not in get_args(Fuse):
            allowed = ", ".join(map(repr, get_args(Fuse)))
            raise ParameterError(f"fuse={fuse!r} is not valid", source="Augmented", allowed=allowed)
        self._reader, self._fuse = reader, fuse
        self._chain = chain if isinstance(chain, Chain) else Chain(chain)
        self._split = split(self._chain, reader.output, fuse)
        made = [op.to_json() for op in self._chain.ops]
        self._own = fingerprint(chain=[self._chain.fuse, *made])

    @property
    def reader(self) -> Video:
        """What makes the batches."""
        return self._reader

    @property
    def chain(self) -> Chain:
        """What is done to them."""
        return self._chain

    @property
    def classes(self) -> tuple[str, ...]:
        """The names of the classes by their numbers; none where labels are just numbers."""
        return self._reader.classes

    @property
    def total(self) -> int:
        """Samples of an epoch, of all ranks together."""
        return self._reader.total

    @property
    def epoch(self) -> int:
        """The current epoch, 0 at first."""
        return self._reader.epoch

    @property
    def fingerprint(self) -> str:
        """What decides the samples, their frames and what is done to them, in a short text; part of every state."""
        return f"{self._reader.fingerprint} {self._own}"

    def __len__(self) -> int:
        """Samples that this rank gets in the current epoch."""
        return len(self._reader)

    def __repr__(self) -> str:
        return f"Augmented({self._reader!r}, {self._chain!r}, fuse={self._fuse!r})"

    def epoch_length(self, epoch: int) -> int:
        """Samples that this rank gets in an epoch."""
        return self._reader.epoch_length(epoch)

    def set_epoch(self, epoch: int) -> None:
        """Choose the epoch that the next ``iter()`` goes through, of samples and of draws; it never advances by itself.

        Raises:
            ParameterError: it is no whole number of at least 0.
        """
        self._reader.set_epoch(epoch)

    def requests(self, epoch: int | None = None, positions: IntArray | None = None) -> list[SampleRequest]:
        """What an epoch consists of; see :meth:`seqpipe.readers.Video.requests`."""
        return self._reader.requests(epoch, positions)

    def sample(self, index: int, epoch: int | None = None) -> Sequence:
        """One sample by its index within the dataset, whatever the rank and the order.

        Args:
            index: from 0 to ``total - 1``.
            epoch: decides frames and draws; by default the current one.

        Raises:
            ParameterError: there is no such sample, or an operator does not take it.
            SourceError: it cannot be read.
        """
        chosen = self.epoch if epoch is None else epoch
        made = self._reader.sample(index, chosen, outputs=self._split.head)
        tail = self._split.tail
        return made if tail is None else tail(made, epoch=chosen, index=index)

    def batches(
        self, batch_size: int, *, last_batch: LastBatch = "partial", ragged: Ragged = "list"
    ) -> AugmentedBatches:
        """The current epoch in batches; the arguments are those of :meth:`seqpipe.readers.Video.batches`.

        Raises:
            ParameterError: an argument is out of bounds.
        """
        padded = ragged == "pad"
        inner = self._reader.batches(
            batch_size, last_batch=last_batch, ragged=ragged, outputs=None if padded else self._split.head
        )
        return AugmentedBatches(inner, self._chain if padded else self._split.tail, self.fingerprint)

    def sequences(self) -> AugmentedSequences:
        """The current epoch sequence by sequence."""
        inner = self._reader.sequences(outputs=self._split.head)
        return AugmentedSequences(inner, self._split.tail, self.fingerprint)

    def __iter__(self) -> AugmentedSequences:
        return self.sequences()

    def explain(self) -> str:
        """What is done where: a line for each pass over the pixels, and why the conversion does no more."""
        head, tail = self._split.head, self._split.tail
        lines = [] if head is None else [head.explain()]
        if tail is not None and self._reader.device == "cpu":
            lines += [f"{op.name}: on the CPU" for op in tail.ops]
        elif tail is not None:
            lines += [line.partition(". ")[2] for line in tail.explain().splitlines()]
        numbered = [f"{number}. {line}" for number, line in enumerate(lines, 1)]
        if tail is not None:
            numbered.append(f"{tail.ops[0].name} is not the conversion's: {self._split.reason}.")
        return "\n".join(numbered)

    def report(self) -> Report:
        """What the dataset consists of, and what was left out so far and why."""
        return self._reader.report()

    def stats(self) -> dict[str, dict[str, int]]:
        """What was decoded; see :meth:`seqpipe.readers.Video.stats`."""
        return self._reader.stats()

    def close(self) -> None:
        """Stop the reader's threads; a later use starts them again."""
        self._reader.close()

    def __enter__(self) -> Augmented:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _wrong(name: str, value: object, allowed: str) -> ParameterError:
    return ParameterError(f"{name} is a {type(value).__name__}", source="Augmented", allowed=allowed)
