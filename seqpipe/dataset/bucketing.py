"""Batches of buckets: samples of one shape, resized while they are read where the buckets give shapes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ..array import IntArray
from ..errors import ParameterError, warn_caller
from ..ops import Chain, Crop, Resize
from ..parts import Part
from ..pipeline.fusion import Fuse
from ..sampling.buckets import Bucket, BucketPlan, Buckets, bucketed
from ..sampling.dealing import SampleOrder, Share
from ..sequence import Batch, Sequence
from .absorbing import Absorbed, absorbed
from .dealt import BatchSteps, Dealt
from .samples import spatial
from .source import Heads, SampleSource
from .stages import DatasetStage, OperatorStage

__all__ = ["BucketedBatches", "FitStage", "buckets_of", "fitted", "shortened"]


def buckets_of(bucket: Bucket, source: SampleSource, size: int) -> Buckets:
    """Return the buckets of a source's samples."""
    known: Any = getattr(source, "sizes", None)
    sizes = bucket.sizes if bucket.sizes is not None else None if known is None else known()
    if sizes is None:
        raise ParameterError(
            f"{source.name} does not know the sizes of samples before they are read",
            source="Bucket",
            advice="Give them: Bucket(sizes=…), an array of (frames, height, width) of each sample",
        )
    sizes = np.asarray(sizes, np.int64)
    if sizes.shape != (source.size, 3) or (sizes.size and sizes.min() < 1):
        raise ParameterError(
            f"sizes of shape {sizes.shape}",
            source="Bucket",
            allowed=f"({source.size}, 3), frames, height and width of at least 1",
        )
    return bucket.assigned(sizes, size)


def shortened(source: SampleSource, bucket: Bucket, buckets: Buckets) -> SampleSource:
    """Return a source whose samples keep the frames of their buckets.

    Warns:
        UserWarning: no sample goes to a bucket that was given.
    """
    if idle := bucket.unused(buckets):
        warn_caller(f"no sample goes to the bucket of {', '.join(idle)}")
    if buckets.kept is None:
        return source
    own: Any = getattr(source, "shortened", None)
    if own is None:
        raise ParameterError(
            f"{source.name} cannot leave out the last frames of samples",
            source="Bucket",
            allowed="frames=… of videos and folders of frames",
            advice="Shorten them by .apply()",
        )
    result: SampleSource = own(buckets.kept)
    return result


def _fitting(height: int, width: int) -> tuple[Any, ...]:
    """Return the operators that resize frames to cover a shape, and crop them around the center."""
    cover = Resize(size=(height, width), mode="not_smaller")
    return Chain(cover, Crop(crop=(height, width))).ops


@dataclass(frozen=True)
class FitStage:
    """Resizing of the samples of a bucket to its shape, for sources that apply nothing while they read.

    Attributes:
        buckets: the buckets.
    """

    buckets: Buckets

    def __call__(self, parts: Mapping[str, Any], epoch: int, index: Any) -> dict[str, Any]:
        """See :class:`seqpipe.dataset.stages.DatasetStage`."""
        number = int(self.buckets.numbers[np.atleast_1d(np.asarray(index))[0]])
        _, height, width = self.buckets.shapes[number].tolist()
        chain: Any = Chain.part(_fitting(height, width))
        moving = spatial(parts)
        if len(moving) == 1:
            (name, value), *_ = moving.items()
            if isinstance(value, (Batch, Sequence)) and not isinstance(value, Part):
                return {**parts, name: chain(value, epoch=epoch, index=index)}
        return {**parts, **chain(moving, epoch=epoch, index=index)}

    @property
    def facts(self) -> object:
        """Nothing: the bucket is part of the fingerprint."""
        return None

    def explain(self, device: str) -> list[str]:
        """See :class:`seqpipe.dataset.stages.DatasetStage`."""
        return [f"resizing to the shapes of the buckets, and cropping: on {device}"]


def fitted(
    stages: tuple[DatasetStage, ...], buckets: Buckets, source: SampleSource, fuse: Fuse
) -> tuple[Absorbed, ...]:
    """Return what a source applies to the samples of each bucket; empty if it cannot resize while it reads."""
    results = []
    for _, height, width in buckets.shapes.tolist():
        fit, rest = Chain.part(_fitting(height, width)), stages
        if stages and isinstance(stages[0], OperatorStage):
            chain, rest = stages[0].chain, stages[1:]
            fit = Chain.part((*fit.ops, *chain.ops), chain.fuse)
        result = absorbed((OperatorStage(fit), *rest), source, fuse)
        if len(getattr(result.heads["image"], "ops", ())) < len(_fitting(height, width)):
            return ()
        results.append(result)
    return tuple(results)


@dataclass(frozen=True)
class _BucketSteps(BatchSteps):
    """Division of a rank's share of planned batches; a position is a batch."""

    plan: BucketPlan = field(kw_only=True)
    buckets: Buckets = field(kw_only=True)

    def indices(self, first: int) -> IntArray:
        """See :class:`BatchSteps`."""
        (number,) = self.share.indices(np.array([first])).tolist()
        members = self.plan.batch(number)
        bucket = int(self.buckets.numbers[members[0]])
        missing = 0 if self.buckets.pack else int(self.buckets.capacities[bucket]) - len(members)
        if self.last == "pad":
            return np.append(members, np.repeat(members[-1], missing))
        if self.last == "fill":
            alike = self.plan.members[self.buckets.numbers[self.plan.members] == bucket]
            return np.append(members, np.resize(alike, missing))
        return members


@dataclass(eq=False)
class BucketedBatches(Dealt):
    """Batches of buckets in the order of a rank; positions and states count batches.

    Attributes:
        buckets: the buckets.
        fitted: what the source applies to the samples of each bucket; empty for sources that apply nothing.
    """

    buckets: Buckets = field(kw_only=True)
    fitted: tuple[Absorbed, ...] = field(default=(), kw_only=True)
    _plans: dict[int, BucketPlan] = field(default_factory=dict, init=False)

    def _plan_of(self, epoch: int) -> BucketPlan:
        plan = self._plans.get(epoch)
        if plan is None:
            share = self.order.share(epoch)
            plan = bucketed(share.indices(np.arange(len(share))), self.buckets, drop=self.last == "drop")
            if self.order.shuffle:
                places = self._batches_of(plan).share(epoch).indices(np.arange(len(plan)))
                plan = plan.in_runs(places, self.buckets)
            self._plans = {epoch: plan}
        return plan

    def _batches_of(self, plan: BucketPlan) -> SampleOrder:
        """Return the order of batches, which is one of its own, so that incomplete ones are spread over the ranks."""
        return SampleOrder(size=len(plan), seed=self.order.seed, shuffle=self.order.shuffle)

    def steps(self, epoch: int) -> BatchSteps:
        """See :class:`Dealt`."""
        plan = self._plan_of(epoch)
        share: Share = self._batches_of(plan).share(
            epoch, self.rank, self.world, done=self.done, even=self.even, stick=self.stick
        )
        return _BucketSteps(share, 1, self.last, plan=plan, buckets=self.buckets)

    def heads_of(self, indices: IntArray) -> Heads:
        """See :class:`Dealt`."""
        return self.fitted[int(self.buckets.numbers[indices[0]])].heads if self.fitted else self.heads
