"""What all datasets do alike: epochs, the report, and their end."""

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
    """A dataset whose samples depend on (seed, epoch, index) alone; a rank reads its shard of every epoch."""

    _feed: PassContext
    _place: Device
    _book: ReportBook

    @property
    def device(self) -> str:
        """Where the samples' arrays are: "cpu" or "cuda:N"."""
        return str(self._place)

    @property
    def epoch(self) -> int:
        """The current epoch, 0 at first."""
        return self._feed.epoch

    @property
    def fingerprint(self) -> str:
        """A short text of all that decides which samples come and in which order; part of every state."""
        return self._feed.fingerprint

    def __len__(self) -> int:
        """Samples that this rank gets in the current epoch."""
        return self.epoch_length(self._feed.epoch)

    def epoch_length(self, epoch: int) -> int:
        """Samples that this rank gets in an epoch; where the ranks' shares are not equal, they take turns.

        Raises:
            ParameterError: it is no whole number of at least 0.
        """
        return self._feed.length(EPOCH.check(epoch))

    def set_epoch(self, epoch: int) -> None:
        """Choose the epoch that the next ``iter()`` goes through; it never advances by itself.

        Raises:
            ParameterError: it is no whole number of at least 0.
        """
        self._feed.epoch = EPOCH.check(epoch)

    def report(self) -> Report:
        """What the dataset consists of, and what was left out so far and why."""
        return self._book.so_far()

    @abstractmethod
    def close(self) -> None:
        """Stop the threads; a later use starts them again."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
