"""The source protocol: samples of a data set by (epoch, index), without rank, position or batch size."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Protocol, TypeAlias

from ..array import Array, IntArray
from ..errors import SeqpipeError
from ..ops import Type
from ..readers.report import Report

__all__ = ["PLAIN", "Heads", "ReadPlan", "ReadResult", "SampleOutcome", "SampleSource"]

SampleOutcome: TypeAlias = "tuple[int, dict[str, Any]] | SeqpipeError | None"
"""A sample's index and parts by name; the error to raise; or None for a sample that is left out."""

Heads: TypeAlias = Mapping[str, Any]
"""For each array that a source reads of its images: the operators that it applies while it reads, see
:mod:`seqpipe.pipeline.fusion`; None for none."""

PLAIN: Final[Heads] = {"image": None}


@dataclass(frozen=True, eq=False)
class ReadPlan:
    """Samples that are chosen and not yet read.

    Attributes:
        epoch: the epoch.
        indices: the samples.
        nbytes: size of their pixels, as far as known.
        work: what the source needs to begin.
    """

    epoch: int
    indices: IntArray
    nbytes: int = 0
    work: Any = None


@dataclass(frozen=True, eq=False)
class ReadResult:
    """Samples that have been read.

    Attributes:
        outcomes: one for each sample.
        stacked: for parts that were read into one array: that array, by name.
    """

    outcomes: tuple[SampleOutcome, ...]
    stacked: Mapping[str, Array] = field(default_factory=dict)


class SampleSource(Protocol):
    """A source of samples that depend on (epoch, index) only. Thread-safe; used by several iterators at a time."""

    @property
    def name(self) -> str:
        """Name for messages."""

    @property
    def size(self) -> int:
        """Number of samples."""

    @property
    def unit(self) -> int:
        """Number of consecutive samples that stay together in every epoch."""

    @property
    def mix(self) -> int:
        """Number of units whose samples are shuffled among each other; 0 keeps those of a unit in order."""

    @property
    def seed(self) -> int:
        """Seed of order and samples."""

    @property
    def shuffle(self) -> bool:
        """Whether each epoch has a new order."""

    @property
    def parts(self) -> Mapping[str, Type]:
        """Type of each part of a sample, before anything is read."""

    @property
    def device(self) -> str:
        """Device of the samples' arrays."""

    @property
    def facts(self) -> Mapping[str, object]:
        """Everything that determines the samples, as plain values by name."""

    def plan(self, epoch: int, indices: IntArray, heads: Heads = PLAIN) -> ReadPlan:
        """Choose what is read of samples; arithmetic, no pixels.

        Args:
            epoch: the epoch.
            indices: the samples.
            heads: operators that the source applies while it reads; only for sources with ``output``.
        """

    def begin(self, plan: ReadPlan, *, stack: bool = True) -> Any:
        """Start to read; never blocks.

        Raises:
            DeviceMemoryError: the device's memory is too small.
        """

    def finish(self, work: Any) -> ReadResult:
        """Wait for samples.

        Raises:
            DeviceMemoryError: the device's memory was full.
        """

    def cancel(self, work: Any) -> None:
        """Cancel what was begun."""

    def metadata(self, indices: IntArray) -> Mapping[str, Any]:
        """Return parts that follow from the index alone, an entry for each sample."""

    def report(self) -> Report:
        """Return what was lost."""

    def stats(self) -> dict[str, Any]:
        """Return counts, such as decoded frames."""

    def close(self) -> None:
        """Stop threads; a later use starts them again."""
