"""Base class of datasets: epochs, samples by index, and the report."""

from __future__ import annotations

from typing import Any, Generic, Protocol, TypeVar

from ..array import IntArray
from ..core.closing import Closing
from ..sampling.params import EPOCH
from ..video.device import Device
from .loader import PassContext
from .params import check_index
from .report import Report, ReportBook

__all__ = ["EpochDataset", "EpochSelection"]

RequestT = TypeVar("RequestT", covariant=True)


class EpochSelection(Protocol[RequestT]):
    """The samples of a dataset before they are read."""

    @property
    def total(self) -> int:
        """Number of samples of an epoch over all ranks."""

    def sample(self, index: int, epoch: int) -> RequestT:
        """Return one sample of an epoch by its index within the dataset."""


class EpochDataset(Closing, Generic[RequestT]):
    """A dataset whose samples depend on (seed, epoch, index) only; a rank reads its shard of every epoch."""

    _feed: PassContext
    _device: Device
    _book: ReportBook
    _selection: EpochSelection[RequestT]

    @property
    def device(self) -> str:
        """Device of the samples' arrays: "cpu" or "cuda:N"."""
        return str(self._device)

    @property
    def epoch(self) -> int:
        """The current epoch, 0 at first."""
        return self._feed.epoch

    @property
    def fingerprint(self) -> str:
        """Short digest of everything that determines samples and their order; part of every state."""
        return self._feed.fingerprint

    @property
    def total(self) -> int:
        """Number of samples of an epoch over all ranks; sample indices are 0 to ``total - 1``."""
        return self._selection.total

    def __len__(self) -> int:
        """Number of samples of this rank in the current epoch."""
        return self.epoch_length(self._feed.epoch)

    def epoch_length(self, epoch: int) -> int:
        """Return the number of samples of this rank in an epoch; it may differ by one between epochs.

        Raises:
            ParameterError: ``epoch`` is not an integer of at least 0.
        """
        return self._feed.length(EPOCH.check(epoch))

    def set_epoch(self, epoch: int) -> None:
        """Select the epoch of the next ``iter()``; the epoch never advances by itself.

        Raises:
            ParameterError: ``epoch`` is not an integer of at least 0.
        """
        self._feed.epoch = EPOCH.check(epoch)

    def requests(self, epoch: int | None = None, positions: IntArray | None = None) -> list[RequestT]:
        """Return the samples of an epoch of this rank, in order, without reading anything.

        Args:
            epoch: the epoch; by default the current one.
            positions: positions within the rank's epoch; by default all of them.

        Raises:
            ParameterError: a position is outside of the epoch.
        """
        chosen = self._epoch_or_current(epoch)
        indices = self._feed.order.samples(chosen, positions).tolist()
        return [self._selection.sample(index, chosen) for index in indices]

    def report(self) -> Report:
        """Return the number of sources and samples, and every source or sample that was lost, with the reason."""
        return self._book.so_far()

    def _epoch_or_current(self, epoch: Any) -> int:
        """Return an epoch, checked; the current one for None."""
        return self._feed.epoch if epoch is None else EPOCH.check(epoch)

    def _request(self, index: Any, epoch: int) -> RequestT:
        """Return one sample of an epoch by its index within the dataset, checked."""
        return self._selection.sample(check_index(index, self.total), epoch)
