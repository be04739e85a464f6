"""Definition: what a data set consists of, and what follows from it for whoever reads it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any
from weakref import ref

import numpy as np

from ..array import IntArray
from ..core.cached import cached_property
from ..core.closing import Closing
from ..errors import ParameterError
from ..ops import Type
from ..pipeline.executor import Executor
from ..pipeline.fusion import Fuse
from ..readers.params import bytes_ahead
from ..readers.report import Report
from ..sampling import fingerprint
from ..sampling.buckets import Bucket, Buckets
from ..sampling.dealing import History, SampleOrder
from ..video.device import parse_device
from .absorbing import Absorbed, absorbed
from .bucketing import BucketedBatches, FitStage, buckets_of, fitted
from .compute import Computation
from .dealt import Dealt, Last
from .epoch import finished
from .params import Ragged
from .samples import Samples
from .source import Heads, SampleSource
from .stages import DatasetStage, Function, OperatorStage, TransferStage, stages_of, with_padding

__all__ = ["Definition"]

_GROUP = 8  # samples that are read together without batch()


@dataclass(frozen=True, eq=False)
class Definition(Closing):
    """Source, operators, batches and share of a rank; see :class:`seqpipe.dataset.Dataset`.

    Attributes:
        source: the source.
        steps: operators, graphs and functions, in order.
        batched_at: number of steps before ``batch``; None without.
        batch_size: samples in a batch; None without ``batch``.
        last: policy for an incomplete last batch.
        ragged: samples of different shapes: a "list", or "pad" to one size with a mask.
        bucket: how the samples of a batch get one shape; None for batches of neighbors.
        rank: number of this process.
        world: number of processes that share every epoch.
        even: whether all ranks get equally many samples.
        stick: whether a rank reads the same samples in every epoch.
        read_ahead: number of batches that are read ahead.
        gib: memory limit of batches that are read ahead; None for a quarter of the device's memory.
        fusing: how far operators may be fused with decoding.
    """

    source: SampleSource
    steps: tuple[DatasetStage, ...] = ()
    batched_at: int | None = None
    batch_size: int | None = None
    last: Last = "partial"
    ragged: Ragged = "list"
    bucket: Bucket | None = None
    rank: int = 0
    world: int = 1
    even: bool = False
    stick: bool = False
    read_ahead: int = 2
    gib: float | None = None
    fusing: Fuse = "surface"
    _open: list[ref[Executor]] = field(default_factory=list, init=False, repr=False)
    _told: set[str] = field(default_factory=set, init=False, repr=False)

    @property
    def title(self) -> str:
        """Name of the source."""
        return self.source.name

    @property
    def size(self) -> int:
        """Number of samples of an epoch over all ranks; indices are 0 to ``size - 1``."""
        return self.source.size

    @property
    def device(self) -> str:
        """Device of the samples' arrays."""
        return ([s.device for s in self.steps if isinstance(s, TransferStage)] or [self.source.device])[-1]

    @property
    def is_single(self) -> bool:
        """Whether iteration gives single samples, as there is no ``batch``."""
        return self.batch_size is None

    @property
    def classes(self) -> tuple[str, ...]:
        """Names of the classes of videos; a name's position is its label."""
        return tuple(getattr(self.source, "classes", ()))

    @property
    def types(self) -> dict[str, Type]:
        """Type of each part of a sample before operators: kind, layout, dtype, device and shape, as far as known."""
        return dict(self.source.parts)

    def __len__(self) -> int:
        """Number of batches of this rank in an epoch; of samples without ``batch``."""
        dealt = self.dealt()
        count: int | None = dealt.length(0) if self.is_single else dealt.batches(0)
        if count is None:
            raise TypeError(f"the length of {self.title} is unknown")
        return count

    @cached_property
    def order(self) -> SampleOrder:
        """The order of the samples."""
        source = self.source
        return SampleOrder(
            size=source.size,
            seed=source.seed,
            shuffle=source.shuffle,
            unit=source.unit,
            mix=max(1, source.mix),
            mixes=source.mix > 0,
        )

    @cached_property
    def fingerprint(self) -> str:
        """Digest of everything that determines the samples; rank, world, batch size, device and workers do not."""
        order = self.order
        steps = tuple(step for step in self.steps if not isinstance(step, TransferStage))
        chain = [stage.facts for stage in stages_of(steps)]
        return fingerprint(
            **self.source.facts,
            seed=order.seed,
            shuffle=order.shuffle,
            unit=[order.unit, order.mix, order.mixes],
            **({"chain": chain} if chain else {}),
            **({} if self.bucket is None else {"bucket": [self.batch_size, self.bucket.facts]}),
        )

    @cached_property
    def buckets(self) -> Buckets | None:
        """The buckets of all samples, whose ``report()`` tells how full batches are; None without ``bucket``."""
        if self.bucket is None:
            return None
        return buckets_of(self.bucket, self.source, self.batch_size or 1)

    @cached_property
    def _fitted(self) -> tuple[Absorbed, ...]:
        """For buckets with shapes: what the source applies to the samples of each; empty if it resizes nothing."""
        if self.buckets is None or self.bucket is None or self.bucket.shapes is None:
            return ()
        return fitted(self.stages, self.buckets, self.source, self.fusing)

    def heads_of(self, indices: IntArray) -> Heads:
        """Return what the source applies while it reads samples.

        Raises:
            ParameterError: the samples are of several buckets, which are resized to different shapes.
        """
        if self.buckets is None or not self._fitted:
            return self.absorbed.heads
        numbers = np.unique(self.buckets.numbers[indices]).tolist()
        if len(numbers) > 1:
            raise ParameterError(
                f"samples of {len(numbers)} buckets in one batch",
                source="Dataset",
                allowed="samples of one bucket",
                advice="Read them one by one: ds.sample(index)",
            )
        heads: Heads = self._fitted[numbers[0]].heads
        return heads

    @cached_property
    def stages(self) -> tuple[DatasetStage, ...]:
        """The steps, with neighboring chains as one."""
        return stages_of(self.steps)

    @cached_property
    def absorbed(self) -> Absorbed:
        """The stages that the source applies while it reads, and those that remain."""
        stages = self.stages
        if self.ragged == "pad":
            steps = self.steps[: self.batched_at]
            before = sum(len(step.chain.ops) if isinstance(step, OperatorStage) else 1 for step in steps)
            stages = with_padding(stages, before, getattr(self.source, "fill", 0))
        if self._fitted:
            return self._fitted[0]
        if self.buckets is not None and self.bucket is not None and self.bucket.shapes is not None:
            stages = (FitStage(self.buckets), *stages)
        return absorbed(stages, self.source, self.fusing)

    def explain(self) -> str:
        """Describe each pass over the pixels in a line, and why decoding does not take over more operators."""
        changed = [
            name for name, part_type in self.source.parts.items() if part_type.kind in ("images", "labels")
        ]
        return _explained(self.absorbed, self.source.device, changed)

    def report(self) -> Report:
        """Return the number of sources and samples, and every source or sample that was lost, with the reason."""
        return self.source.report()

    def stats(self) -> dict[str, Any]:
        """Return counts of the source, such as decoded frames by backend."""
        return self.source.stats()

    def __repr__(self) -> str:
        return _written(self.source, self.steps, self.batched_at, self.__dict__)

    def dealt(self, done: History = (), turn: tuple[int, int] = (0, 1)) -> Any:
        """Return the source of batches for an executor.

        Args:
            done: what earlier numbers of ranks have read of the epoch.
            turn: (number, count) of workers that share the rank's batches in turns.
        """
        limit = bytes_ahead(self.gib, parse_device(self.source.device))
        own = getattr(self.source, "dealt", None)  # a source that is read from front to back
        if own is not None:
            return own(self.batch_size or 1, self.rank, self.world, limit)
        options: dict[str, Any] = {
            "last": self.last,
            "even": self.even,
            "stick": self.stick,
            "single": self.is_single or bool(self.by_sample),
            "limit_bytes": limit,
            "done": done,
            "turn": turn,
            "told": self._told,
        }
        given = self.source, self.order, self.absorbed.heads, self.rank, self.world
        if self.buckets is not None:
            return BucketedBatches(*given, 1, **options, buckets=self.buckets, fitted=self._fitted)
        return Dealt(*given, self.batch_size or self._group(limit), **options)

    def _group(self, limit: int) -> int:
        """Return the number of single samples that are read together: fewer where two groups exceed the limit."""
        count = min(_GROUP, self.size)
        nbytes = self.source.plan(0, np.arange(count), self.absorbed.heads).nbytes if count else 0
        return max(1, min(_GROUP, limit * count // max(1, 2 * nbytes)))

    @property
    def by_sample(self) -> tuple[DatasetStage, ...]:
        """The stages up to the last function of the user's, which run sample by sample."""
        rest = self.absorbed.stages
        last = max((number for number, stage in enumerate(rest, 1) if isinstance(stage, Function)), default=0)
        return rest[:last]

    def transform(self) -> Callable[..., tuple[Any, ...]] | None:
        """Return the function that applies the stages to what the source has read; None if there are none."""
        rest = self.absorbed.stages
        if not rest:
            return None
        by_sample = rest if self.is_single else self.by_sample
        return Computation(by_sample, rest[len(by_sample) :], self.finished, self.is_single)

    def finished(self, parts: Mapping[str, Any], epoch: int, index: Any) -> Samples:
        """Return parts after operators as samples, with what their batch knows and what follows from the index."""
        known = self.source.metadata(np.atleast_1d(np.asarray(index, np.int64)))
        if not np.ndim(index):
            known = {name: value[0] for name, value in known.items()}
        return finished(parts, known, epoch, index)

    def opened(self, executor: Executor) -> None:
        """Register an executor, which :meth:`close` stops even if its iterator was dropped while it works."""
        # references without callbacks, which would lose an interrupt
        for gone in [reference for reference in self._open if reference() is None]:
            with suppress(ValueError):  # another thread's
                self._open.remove(gone)
        self._open.append(ref(executor))

    def close(self) -> None:
        """Stop the threads of all iterators and of the source; the next read starts them again."""
        for reference in list(self._open):
            if (executor := reference()) is not None:
                executor.stop()
        for step in self.steps:
            if isinstance(step, Function):
                step.close()
        self.source.close()

    def __getstate__(self) -> dict[str, Any]:
        # executors belong to their process, and what is absorbed follows from the steps
        return {
            name: value
            for name, value in self.__dict__.items()
            if name not in ("_open", "absorbed", "_fitted")
        }

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state, _open=[])


def _explained(parts: Absorbed, device: str, changed: Iterable[str]) -> str:
    """Describe each pass over the pixels in a line, and why decoding does not take over more operators."""
    lines = parts.explain()
    for stage in parts.stages:
        lines += stage.explain(device)
        device = stage.device if isinstance(stage, TransferStage) else device
    numbered = [f"{number}. {line}" for number, line in enumerate(lines, 1)]
    numbered += parts.refusals
    if numbered:
        numbered.append(f"Operators change {', '.join(changed)}; other parts are passed on.")
    return "\n".join(numbered)


def _written(
    source: object, steps: Iterable[DatasetStage], batched_at: int | None, options: dict[str, Any]
) -> str:
    """Return a data set as it is written, a line for each step."""
    lines = [repr(step) for step in steps]
    if batched_at is not None:
        kept = {"last": "partial", "ragged": "list", "bucket": None}
        changed = "".join(f", {name}={options[name]!r}" for name in kept if options[name] != kept[name])
        lines.insert(batched_at, f".batch({options['batch_size']}{changed})")
    if options["world"] > 1:
        set_ = "".join(f", {name}=True" for name in ("even", "stick") if options[name])
        lines.append(f".shard({options['rank']}, {options['world']}{set_})")
    if options["fusing"] != "surface":
        lines.append(f".fuse({options['fusing']!r})")
    return "\n    ".join([repr(source), *lines])
