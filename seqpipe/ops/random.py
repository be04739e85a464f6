"""Random numbers as nodes: ``fn.random.uniform`` and so on, named as in DALI; for each sample, or for each frame.

They depend on (seed, name, occurrence, epoch, index of the sample) alone, like all sampled values: two nodes of one
name and one seed in a graph give different numbers. To use the same numbers twice, pass one node to both operators.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence as Seq
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from ..array import Array
from ..core.cached import cached_property
from ..random import stream_index, streams
from .call.inputs import error_source
from .core import distributions
from .core.declaration import Declaration, Takes
from .core.deferred import written
from .core.nodes import DataNode, Named, Occurrences, Run
from .core.parameters import ANY, param
from .core.sampling import indices_of

__all__ = ["Choice", "CoinFlip", "Normal", "RandomSource", "Uniform"]


class _Random(Declaration, register=False):
    """Base of random numbers; subclasses define :attr:`distribution`."""

    per_frame: bool = param(
        False, "whether a number is sampled for each frame instead of once for a sample", drawn=False
    )

    takes: ClassVar[Takes] = "nothing"
    dtypes: ClassVar[tuple[str, ...]] = ("float64",)
    # random numbers have no input that could stay unchanged
    p: ClassVar[float] = 1.0  # type: ignore[misc]  # a constant, where others have a parameter

    def __post_init__(self) -> None:
        super().__post_init__()
        with error_source(self):
            _ = self.distribution  # raises an error for arguments that are not valid

    @property
    @abstractmethod
    def distribution(self) -> distributions.Distribution:
        """The distribution of the numbers."""

    def __call__(self) -> DataNode:
        """Return a node of random numbers.

        Returns:
            A node of float64 ``(N,)``, or with ``per_frame`` ``(N, F)`` for the samples and frames of a graph's inputs.
            Each call returns another node: a graph with both samples different numbers for them.
        """
        return RandomSource(self)

    def reference(self, x: Array, p: Any) -> Array:
        """Sample the numbers of one sample."""
        return self.distribution.draw(x, p, whole=False)

    def drawn(
        self, *, epoch: int = 0, index: int | Seq[int] = 0, frames: int | None = None
    ) -> npt.NDArray[np.float64]:
        """Sample the numbers of one or several samples."""
        if self.per_frame and frames is None:
            raise self.refusal(
                "per_frame=True, and the number of frames is not known", allowed="sequences of one length"
            )
        single = np.ndim(index) == 0
        shape = (frames,) if self.per_frame and frames is not None else ()
        indices = indices_of(self, index, 1 if single else np.size(index))
        generators = streams(self.seed, self.stream_name, stream_index(epoch, "epoch", self.name), indices)
        result = np.array([self.reference(rng, shape) for rng in generators], np.float64)
        return result[0] if single else result


@dataclass(frozen=True, eq=False, repr=False)
class RandomSource(DataNode):
    """Node of random numbers.

    Attributes:
        op: the operator that samples them.
    """

    op: _Random

    @property
    def by_frame(self) -> bool:
        """Whether there is a number for each frame."""
        return self.op.per_frame

    @property
    def label(self) -> str:
        """The name of the operator."""
        return self.op.name

    def written(self, name: Named) -> str:
        """See :meth:`DataNode.written`."""
        return f"{self.op.name}({written(self.op, name)})"

    def with_occurrences(self, seen: Occurrences) -> RandomSource:
        """See :meth:`DataNode.with_occurrences`."""
        return RandomSource(*seen.of([self.op]))

    def value(self, operands: Seq[Any], run: Run) -> npt.NDArray[np.float64]:  # noqa: ARG002  it has no operands
        """See :meth:`DataNode.value`."""
        indices = indices_of(self.op, run.index, run.samples)
        return self.op.drawn(epoch=run.epoch, index=indices, frames=run.frames)


class Uniform(_Random, function_name="random.uniform"):
    """Sample numbers uniformly from a range."""

    range: tuple[float, float] = param((-1.0, 1.0), "minimum and maximum", kind=float, size=2, drawn=False)

    examples = ({"range": (0.5, 2.0), "seed": 1}, {"range": (-10.0, 10.0), "per_frame": True})
    errors = (
        ({"range": (2.0, 1.0)}, r"random.uniform: the range \(2.0, 1.0\) is reversed; allowed: \(least"),
    )

    @cached_property
    def distribution(self) -> distributions.Distribution:
        """The uniform distribution."""
        return distributions.Uniform(*self.range)


class Normal(_Random, function_name="random.normal"):
    """Sample numbers from the normal distribution."""

    mean: float = param(0.0, "mean", drawn=False)
    stddev: float = param(1.0, "standard deviation", lo=0, drawn=False)

    examples = ({"mean": 1.0, "stddev": 0.1, "seed": 1}, {"per_frame": True})

    @cached_property
    def distribution(self) -> distributions.Distribution:
        """The normal distribution."""
        return distributions.Normal(self.mean, self.stddev)


class Choice(_Random, function_name="random.choice"):
    """Sample one of some numbers."""

    of: tuple[float, ...] = param((0.0, 1.0), "values to choose from", kind=float, size=ANY)
    weights: tuple[float, ...] | None = param(
        None, "relative probability of each value; None for equal ones", kind=float, lo=0, size=ANY
    )

    examples = ({"of": (3, 5, 7), "seed": 1}, {"of": (0.0, 90.0), "weights": (3, 1), "per_frame": True})
    errors = (({"of": (1, 2), "weights": (1,)}, r"random.choice: weights=\(1.0,\) do not fit 2 values"),)

    @cached_property
    def distribution(self) -> distributions.Distribution:
        """The choice of one of the values."""
        return distributions.Choice(self.of, self.weights)


class CoinFlip(_Random, function_name="random.coin_flip"):
    """Sample 1 with a probability, otherwise 0; flags accept them as True and False."""

    probability: float = param(0.5, "probability of 1", lo=0, hi=1, drawn=False)

    examples = ({"probability": 0.25, "seed": 1}, {"per_frame": True})

    @cached_property
    def distribution(self) -> distributions.Distribution:
        """The choice of 0 or 1."""
        return distributions.Choice((0.0, 1.0), (1 - self.probability, self.probability))
