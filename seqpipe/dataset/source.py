"""The source protocol: samples of a data set by (epoch, index), without rank, position or batch size."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeAlias

from ..array import Array, IntArray
from ..errors import SeqpipeError
from ..ops import Type

__all__ = ["Outcome", "Plan", "Read", "Source"]

Outcome: TypeAlias = "tuple[int, dict[str, Any]] | SeqpipeError | None"
"""A sample's index and parts by name; the error to raise; or None for a sample that is left out."""


@dataclass(frozen=True, eq=False)
class Plan:
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
class Read:
    """Samples that have been read.

    Attributes:
        outcomes: one for each sample.
        stacked: for parts that were read into one array: that array, by name.
    """

    outcomes: tuple[Outcome, ...]
    stacked: Mapping[str, Array] = field(default_factory=dict)


class Source(Protocol):
    """A source of samples that depend on (epoch, index) only. Thread-safe; used by several iterators at a time.

    Attributes:
        name: for messages.
        size: number of samples.
        unit: number of consecutive samples that stay together in every epoch.
        mix: number of units whose samples are shuffled among each other; 0 keeps those of a unit in order.
        seed: seed of order and samples.
        shuffle: whether each epoch has a new order.
        parts: type of each part of a sample, before anything is read.
        device: device of the samples' arrays.
        facts: everything that determines the samples, as plain values by name.
    """

    name: str
    size: int
    unit: int
    mix: int
    seed: int
    shuffle: bool

    @property
    def parts(self) -> Mapping[str, Type]: ...

    @property
    def device(self) -> str: ...

    @property
    def facts(self) -> Mapping[str, object]: ...

    def plan(self, epoch: int, indices: IntArray, head: Any = None) -> Plan:
        """Choose what is read of samples; arithmetic, no pixels.

        Args:
            epoch: the epoch.
            indices: the samples.
            head: operators that the source applies while it reads, see :mod:`seqpipe.pipeline.fusion`; None for none.
        """

    def begin(self, plan: Plan, *, stack: bool = True) -> Any:
        """Start to read; never blocks.

        Raises:
            DeviceMemoryError: the device's memory is too small.
        """

    def finish(self, work: Any) -> Read:
        """Wait for samples.

        Raises:
            DeviceMemoryError: the device's memory was full.
        """

    def cancel(self, work: Any) -> None:
        """Cancel what was begun."""

    def metadata(self, indices: IntArray) -> Mapping[str, Any]:
        """Return parts that follow from the index alone, an entry for each sample."""

    def close(self) -> None:
        """Stop threads; a later use starts them again."""
