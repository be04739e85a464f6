"""Augmented: a reader and a chain of operators as one dataset, fused into few passes over the pixels."""

from __future__ import annotations

from typing import Any, TypeVar, get_args
from weakref import WeakSet

from ..array import IntArray
from ..core.closing import Closing
from ..errors import ParameterError, described_type
from ..ops import Chain, Op
from ..readers import Report, SampleRequest, Video
from ..readers.collate import Ragged
from ..sampling import fingerprint
from ..sampling.params import LastBatch
from ..sequence import Sequence
from .executor import Executor
from .fusion import Fuse, Split, split
from .passes import AugmentedBatches, AugmentedSequences

__all__ = ["Augmented"]

PassT = TypeVar("PassT", AugmentedBatches, AugmentedSequences)


class Augmented(Closing):
    """A dataset whose sequences pass through a chain of operators.

    Its batches equal ``chain(batch, epoch=…)`` for each batch of the reader, with the same samples, windows, flips and
    other sampled values for every ``fuse``. The first operators of the chain become part of the color conversion of
    decoded surfaces, as far as the conversion supports them. On a GPU that is one kernel that reads the decoder's
    surface, so batches at full size, which take most memory of such a loop, are never stored. :meth:`explain` lists
    the passes, and why the conversion does not take over more.

    ``fuse`` bounds the difference of pixel values:

    - ``"surface"``, the default: values differ by at most 1 of 255. Surface pixels are converted to RGB, limited and
      rounded as the reader does, then resampled; intermediate results are rounded once, at the end. The fast CPU
      implementations of operators differ from their reference by the same amount.
    - ``"exact"``: no value differs. The conversion crops and mirrors whole pixels, and operators do the rest.
    - ``"planes"``: the planes of the surface are resampled as they are stored, as the reader's own ``size`` does it,
      and then converted to colors. On a CPU, a feed of 1080p H.264 takes 10 to 26 % less processor time, decoding
      included, than with ``"surface"``; on an H200, which its decoders limit, it is 3 % faster. Values beyond black and
      white are averaged before they are clipped, not after: of films, 1 to 3 % of the values differ by more than one
      8-bit step, by up to 27 where saturated colors meet.
    - ``"none"``: the whole chain runs after the conversion; for comparison.

    With ``"surface"`` and ``"planes"``, optical flow that is the first remaining operator receives luma, straight from
    the decoded surface, and no colors are made. The luma is the stream's own; that of RGB frames has the weights of
    BT.601. :func:`seqpipe.pipeline.read` gives both, colors and luma.

    Values may differ by more in frames whose size is not that of the video's first frame: the conversion scales each
    window of such a frame to the target size, instead of the whole frame first.

    Batches with ``ragged="pad"`` are not fused, as their windows are drawn within padded frames.

    The remaining operators run on one separate thread, on the device of the batch, up to two batches ahead of the
    consumer, while the reader's threads read ahead. States include the chain, and can be loaded with any ``fuse``.

    Args:
        reader: the reader; closing this dataset closes it.
        chain: a chain, one operator, a list of operators, or a choice such as ``ops.OneOf(…)``.
        fuse: bound of the difference of pixel values.

    Raises:
        ParameterError: an argument is not valid.
    """

    def __init__(self, reader: Video, chain: Chain | Op | Any, *, fuse: Fuse = "surface") -> None:
        if not isinstance(reader, Video):
            raise _wrong("reader", reader, "a seqpipe.readers.Video")
        if fuse not in get_args(Fuse):
            allowed = ", ".join(map(repr, get_args(Fuse)))
            raise ParameterError(f"fuse={fuse!r} is not valid", source="Augmented", allowed=allowed)
        self._reader, self._fuse = reader, fuse
        members = chain if isinstance(chain, (list, tuple)) else [chain]
        self._chain = chain if isinstance(chain, Chain) else Chain(*members)
        self._executors: WeakSet[Executor] = WeakSet()
        self._split = split(self._chain, reader.output, fuse, reader.layout)
        parts = [op.to_json() if isinstance(op, Op) else repr(op) for op in self._chain.ops]
        self._own = fingerprint(chain=[self._chain.fuse, *parts])

    @property
    def reader(self) -> Video:
        """The reader."""
        return self._reader

    @property
    def chain(self) -> Chain:
        """The chain of operators."""
        return self._chain

    @property
    def parts(self) -> Split:
        """The chain in two parts: the operators of the reader's conversion, and those that run after it."""
        return self._split

    @property
    def classes(self) -> tuple[str, ...]:
        """Class names; a name's position is its label. Empty where labels are plain integers."""
        return self._reader.classes

    @property
    def total(self) -> int:
        """Number of samples of an epoch over all ranks."""
        return self._reader.total

    @property
    def epoch(self) -> int:
        """The current epoch, 0 at first."""
        return self._reader.epoch

    @property
    def fingerprint(self) -> str:
        """Short digest of everything that determines samples, order and augmentation; part of every state."""
        return f"{self._reader.fingerprint} {self._own}"

    def __len__(self) -> int:
        """Number of samples of this rank in the current epoch."""
        return len(self._reader)

    def __repr__(self) -> str:
        return f"Augmented({self._reader!r}, {self._chain!r}, fuse={self._fuse!r})"

    def epoch_length(self, epoch: int) -> int:
        """Return the number of samples of this rank in an epoch."""
        return self._reader.epoch_length(epoch)

    def set_epoch(self, epoch: int) -> None:
        """Select the epoch of samples and sampled values for the next ``iter()``; it never advances by itself.

        Raises:
            ParameterError: ``epoch`` is not an integer of at least 0.
        """
        self._reader.set_epoch(epoch)

    def requests(self, epoch: int | None = None, positions: IntArray | None = None) -> list[SampleRequest]:
        """Return the samples of an epoch; see :meth:`seqpipe.readers.Video.requests`."""
        return self._reader.requests(epoch, positions)

    def sample(self, index: int, epoch: int | None = None) -> Sequence:
        """Read and augment one sample by its index within the dataset, which does not depend on rank and order.

        Args:
            index: 0 to ``total - 1``.
            epoch: selects frames and sampled values; by default the current epoch.

        Raises:
            ParameterError: ``index`` is out of range, or an operator does not accept the sample.
            SourceError: the sample cannot be read.
        """
        chosen = self.epoch if epoch is None else epoch
        sample = self._reader.sample(index, chosen, outputs=self._split.head)
        tail = self._split.tail
        return sample if tail is None else tail(sample, epoch=chosen, index=index)

    def batches(
        self, batch_size: int, *, last_batch: LastBatch = "partial", ragged: Ragged = "list"
    ) -> AugmentedBatches:
        """Iterate over the current epoch in batches; for arguments see :meth:`seqpipe.readers.Video.batches`.

        Raises:
            ParameterError: an argument is out of bounds.
        """
        padded = ragged == "pad"
        inner = self._reader.batches(
            batch_size, last_batch=last_batch, ragged=ragged, outputs=None if padded else self._split.head
        )
        return self._registered(
            AugmentedBatches(inner, self._chain if padded else self._split.tail, self.fingerprint)
        )

    def sequences(self) -> AugmentedSequences:
        """Iterate over the current epoch sequence by sequence."""
        inner = self._reader.sequences(outputs=self._split.head)
        return self._registered(AugmentedSequences(inner, self._split.tail, self.fingerprint))

    def __iter__(self) -> AugmentedSequences:
        return self.sequences()

    def explain(self) -> str:
        """Describe each pass over the pixels in a line, and why the conversion does not take over more operators."""
        head, tail = self._split.head, self._split.tail
        lines = [] if head is None else [head.explain()]
        if tail is not None and self._reader.device == "cpu":
            lines += [f"{op.name}: on the CPU" for op in tail.ops]
        elif tail is not None:
            lines += [line.partition(". ")[2] for line in tail.explain().splitlines()]
        numbered = [f"{number}. {line}" for number, line in enumerate(lines, 1)]
        if tail is not None:
            numbered.append(f"{tail.ops[0].name} is not part of the conversion: {self._split.reason}.")
        return "\n".join(numbered)

    def report(self) -> Report:
        """Return the reader's report; see :meth:`seqpipe.readers.Video.report`."""
        return self._reader.report()

    def stats(self) -> dict[str, dict[str, int]]:
        """Return counts of decoded frames; see :meth:`seqpipe.readers.Video.stats`."""
        return self._reader.stats()

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name != "_executors"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state, _executors=WeakSet())  # executors belong to their process

    def _registered(self, iterator: PassT) -> PassT:
        """Register an iterator that closing the dataset stops, even if it was dropped while it works."""
        self._executors.add(iterator.executor)
        return iterator

    def close(self) -> None:
        """Stop the threads of iterators and reader; the next read starts them again."""
        for one in list(self._executors):
            one.stop()
        self._reader.close()


def _wrong(name: str, value: object, allowed: str) -> ParameterError:
    return ParameterError(f"{name} is {described_type(value)}", source="Augmented", allowed=allowed)
