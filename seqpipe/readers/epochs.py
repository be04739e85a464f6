"""Base class of datasets: epochs, report, and closing."""

from __future__ import annotations

from abc import ABC, abstractmethod
from types import TracebackType
from typing import TYPE_CHECKING

from ..sampling.params import EPOCH
from ..video.device import Device
from .loader import PassContext
from .report import Report, ReportBook

if TYPE_CHECKING:
    from typing_extensions import Self

__all__ = ["EpochDataset"]


class EpochDataset(ABC):
    """A dataset whose samples depend on (seed, epoch, index) only; a rank reads its shard of every epoch."""

    _feed: PassContext
    _device: Device
    _book: ReportBook

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

    def report(self) -> Report:
        """Return the number of sources and samples, and every source or sample that was lost, with the reason."""
        return self._book.so_far()

    @abstractmethod
    def close(self) -> None:
        """Stop the threads; the next read starts them again."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
