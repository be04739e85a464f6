"""Fetcher: samples to pixels, with the ``on_error`` policy for unreadable ones."""

from __future__ import annotations

from collections.abc import Sequence as Seq
from dataclasses import dataclass, field
from typing import TypeAlias

import numpy as np

from ..array import Array, IntArray
from ..errors import DeviceMemoryError, SeqpipeError
from ..sampling.params import OnError
from ..sequence import Sequence
from ..video.convert.output import OutputSpec
from ..video.engine.engine import Engine, PendingRead
from ..video.plan.request import Request
from .lazy_engine import LazyEngine
from .outputs import Outputs, SampleGroup, fill_in, group_of
from .report import ReportBook
from .selection import SampleRequest, Selection

__all__ = ["FetchedSamples", "Fetcher", "Pair", "Pending", "begin_together"]

_NEARBY = 1024
_TRIES = 16


Pair: TypeAlias = tuple[SampleRequest, Sequence]
"""A sample and its pixels."""


@dataclass(frozen=True, eq=False)
class Pending:
    """Samples on their way.

    Attributes:
        epoch: their epoch.
        positions: their positions within it.
        group: what they are, and what is made of them.
        stacked: where their pixels go, N and then the axes of the output's layout; None where each has an array
            of its own.
        size: the bytes that their pixels hold, or will hold.
        read: the decoding.
        engine: who does it.
    """

    epoch: int
    positions: IntArray
    group: SampleGroup
    stacked: Array | None
    size: int
    read: PendingRead
    engine: Engine


@dataclass(frozen=True, eq=False)
class FetchedSamples:
    """Samples that arrived.

    Attributes:
        outcomes: for each sample, in order: the pair, the error to be raised, or None if it is left out.
        stacked: the array that holds the pixels of all of them, or None.
    """

    outcomes: tuple[Pair | SeqpipeError | None, ...]
    stacked: Array | None = None

    @property
    def pairs(self) -> list[Pair]:
        """The samples that are there."""
        return [outcome for outcome in self.outcomes if isinstance(outcome, tuple)]

    @property
    def error(self) -> SeqpipeError | None:
        """The first error to be raised."""
        return next((outcome for outcome in self.outcomes if isinstance(outcome, SeqpipeError)), None)


@dataclass(frozen=True, eq=False)
class Fetcher:
    """Reads samples.

    A sample that cannot be read is raised, left out, or substituted. The substitute is found by a rule that
    knows only the epoch's order: of the next 1024 positions of the rank's epoch (after its end follows its
    beginning), first those whose videos differ from the lost one's and from each other's, then the rest, in
    order; the first of up to 16 that can be read is taken. If none of them can, the sample is left out.

    That the device is full is no sample's fault: it is raised whatever becomes of others, and nothing is lost. Neither
    is it that :data:`outputs` asks for what pictures do not have: that is raised in the samples' turn.

    Attributes:
        selection: which frames make a sample.
        engine: decodes.
        output: what the pixels are to be.
        fill: the value of positions that are filled with a constant.
        on_error: what becomes of samples that cannot be read.
        book: where losses are written down.
        outputs: what is made of samples instead, each on its own.
    """

    selection: Selection
    engine: LazyEngine
    output: OutputSpec
    fill: float
    on_error: OnError
    book: ReportBook
    outputs: Outputs | None = None
    _last: dict[tuple[int, bytes], SampleGroup] = field(default_factory=dict, init=False)

    def size(self, epoch: int, positions: IntArray) -> int:
        """The bytes that the pixels of samples will hold; nothing is decoded to know it."""
        if self.outputs is not None:
            return self.group(epoch, positions).size
        return self.selection.values_at(epoch, positions) * self._itemsize

    @property
    def largest(self) -> int:
        """The bytes that the pixels of one sample hold at most."""
        return self.selection.largest * self._itemsize

    def begin(self, epoch: int, positions: IntArray, *, stack: bool = True) -> Pending:
        """Begin to read the samples at positions of the rank's epoch; those of one video share their decoding.

        Args:
            epoch: the epoch.
            positions: at least one.
            stack: whether to decode into one array where shapes agree.

        Raises:
            DeviceMemoryError: the device has no room for that array.
        """
        return begin_together([self], epoch, positions, stack=stack)[0]

    def finish(self, pending: Pending) -> FetchedSamples:
        """Wait for samples, and deal with those that cannot be read.

        Raises:
            DeviceMemoryError: the device is full, so that some could not be decoded; others may have been.
        """
        group = pending.group
        if group.broken is not None:
            return FetchedSamples((group.broken,) * len(group.samples))
        arrived = iter(pending.read.result())
        outcomes: list[Pair | SeqpipeError | None] = []
        for place, sample in enumerate(group.samples):
            result = group.failed[place] if place in group.failed else next(arrived)
            if isinstance(result, Sequence):
                outcomes.append(_pair(sample, result))
            else:
                outcomes.append(self._lost(pending.epoch, int(pending.positions[place]), sample, result))
        whole = all(isinstance(o, tuple) and o[0] is s for o, s in zip(outcomes, group.samples, strict=True))
        return FetchedSamples(tuple(outcomes), pending.stacked if whole else None)

    def single(self, sample: SampleRequest, epoch: int) -> Sequence:
        """Read one sample.

        Raises:
            SourceError: it cannot be read, whatever ``on_error`` says.
            ParameterError: pictures do not have what is asked of them.
        """
        group = self._grouped((sample,), {}, epoch)
        if group.broken is not None:
            raise group.broken
        result = self.engine.get().read([self._request(sample, group.outputs[0])])[0]
        if isinstance(result, SeqpipeError):
            raise result
        return _pair(sample, result)[1]

    def requests(self, group: SampleGroup, stacked: Array | None) -> list[Request]:
        """What has to be read of samples that can be.

        Args:
            group: the samples.
            stacked: where their pixels go; None where each has an array of its own.
        """
        return [
            self._request(sample, output, None if stacked is None else stacked[place])
            for place, (sample, output) in enumerate(zip(group.samples, group.outputs, strict=True))
            if place not in group.failed and group.broken is None
        ]

    def group(self, epoch: int, positions: IntArray) -> SampleGroup:
        """The samples at positions, and what is made of them; the last ones are kept, for they are asked for again.

        Not with what failed: the next time, a file may be there again.
        """
        place = epoch, positions.tobytes()
        found = self._last.get(place)
        if found is None:
            self._last.clear()
            found = self._grouped(*self._resolve(epoch, positions), epoch)
            if not (found.failed or found.broken):
                self._last[place] = found
        return found

    def stack(self, group: SampleGroup) -> Array | None:
        """One array for all samples, if their pictures have one shape."""
        if group.common is None:
            return None
        shape, dtype = group.common
        whole = (len(group.samples), len(group.samples[0].frames), *shape)
        return self.engine.get().allocate(whole, np.dtype(dtype))

    @property
    def _itemsize(self) -> int:
        return np.dtype(self.output.dtype).itemsize

    def _grouped(
        self, samples: tuple[SampleRequest, ...], failed: dict[int, SeqpipeError], epoch: int
    ) -> SampleGroup:
        return group_of(samples, failed, self.selection.catalog, self.output, self.outputs, epoch)

    def _resolve(
        self, epoch: int, positions: IntArray
    ) -> tuple[tuple[SampleRequest, ...], dict[int, SeqpipeError]]:
        samples: list[SampleRequest] = []
        failed: dict[int, SeqpipeError] = {}
        for place, index in enumerate(self.selection.order.samples(epoch, positions).tolist()):
            try:
                samples.append(self.selection.sample(index, epoch))
            except SeqpipeError as error:
                failed[place] = error
                samples.append(self.selection.unknown(index))
        return tuple(samples), failed

    def _lost(
        self, epoch: int, position: int, lost: SampleRequest, error: SeqpipeError
    ) -> Pair | SeqpipeError | None:
        if isinstance(error, DeviceMemoryError):
            raise error
        if self.on_error == "raise":
            self.book.note(lost.source, "sample raised", error)
            return error
        found = self._substitute(epoch, position, lost) if self.on_error == "substitute" else None
        self.book.note(lost.source, "sample left out" if found is None else "sample substituted", error)
        return found

    def _substitute(self, epoch: int, position: int, lost: SampleRequest) -> Pair | None:
        for candidate in self._candidates(epoch, position, lost.video).tolist():
            group = self._grouped(*self._resolve(epoch, np.array([candidate])), epoch)
            ((sample,), (output,)) = group.samples, group.outputs
            unsound = group.failed or group.broken
            result = self.engine.get().read([] if unsound else [self._request(sample, output)])
            if result and isinstance(result[0], Sequence):
                return _pair(sample, result[0])
            if result and isinstance(result[0], DeviceMemoryError):
                raise result[0]
        return None

    def _candidates(self, epoch: int, position: int, video: int) -> IntArray:
        length = self.selection.order.length(epoch)
        nearby = (position + 1 + np.arange(min(length - 1, _NEARBY), dtype=np.int64)) % length
        videos = self.selection.videos_at(epoch, nearby)
        first = np.zeros(len(nearby), dtype=np.bool_)
        first[np.unique(videos, return_index=True)[1]] = True
        first &= videos != video
        return np.concatenate([nearby[first], nearby[~first]])[:_TRIES]

    def _request(self, sample: SampleRequest, output: OutputSpec, out: Array | None = None) -> Request:
        fill = fill_in(self.fill, self.output, output)
        return Request(sample.source, sample.frames, sample.padding, output, fill, out)


def begin_together(
    fetchers: Seq[Fetcher], epoch: int, positions: IntArray, *, stack: bool = True
) -> list[Pending]:
    """Begin to read the samples at positions several times over, by one decoding: each fetcher has its own output.

    Args:
        fetchers: of one engine.
        epoch: the epoch.
        positions: at least one.
        stack: whether to decode into one array where shapes agree.

    Raises:
        DeviceMemoryError: the device has no room for these arrays.
    """
    engine = fetchers[0].engine.get()
    found, requests = [], list[Request]()
    for fetcher in fetchers:
        group = fetcher.group(epoch, positions)
        stacked = fetcher.stack(group) if stack else None
        first = len(requests)
        requests += fetcher.requests(group, stacked)
        found.append((group, stacked, fetcher.size(epoch, positions), first, len(requests)))
    read = engine.submit(requests)
    return [
        Pending(epoch, positions, group, stacked, size, read.part(first, end), engine)
        for group, stacked, size, first, end in found
    ]


def _pair(sample: SampleRequest, sequence: Sequence) -> Pair:
    return sample, sequence.of_sample(sample.label, sample.index)
