"""Random numbers as nodes: ``fn.random.uniform`` and so on, named as in DALI; one for each sample, or for each frame.

They depend on (seed, the name of what draws, its occurrence, epoch, index of the sample) and on nothing else, as all
draws do: two nodes of one name and one seed in a graph are different numbers. To use the same twice, give one node to
both who need it.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence as Seq
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from ..array import Array
from ..cached import cached_property
from ..errors import ParameterError
from ..random import stream_index, streams
from .call.dispatch import indices_of
from .call.inputs import naming
from .core import distributions
from .core.declaration import Declaration, Takes
from .core.deferred import written
from .core.nodes import DataNode, Named, Run
from .core.occurrences import Occurrences
from .core.parameters import ANY, param

__all__ = ["Choice", "CoinFlip", "Normal", "RandomSource", "Uniform"]


class _Random(Declaration, register=False):
    """Numbers from a distribution; it states :attr:`distribution`."""

    per_frame: bool = param(
        False, "whether a number is sampled for each frame instead of once for a sample", drawn=False
    )

    takes: ClassVar[Takes] = "nothing"
    dtypes: ClassVar[tuple[str, ...]] = ("float64",)
    # there is nothing that it could leave as it is
    p: ClassVar[float] = 1.0  # type: ignore[misc]  # a constant, where others have a parameter

    def __post_init__(self) -> None:
        super().__post_init__()
        with naming(self):
            _ = self.distribution  # which may refuse them

    @property
    @abstractmethod
    def distribution(self) -> distributions.Distribution:
        """What they are drawn from."""

    def __call__(self) -> DataNode:
        """The numbers, as a node.

        Returns:
            A node of float64 ``(N,)``, or with ``per_frame`` ``(N, F)`` for the samples and frames of a graph's inputs.
            Each call gives another node: a graph that has both draws different numbers for them.
        """
        return RandomSource(self)

    def reference(self, x: Array, p: Any) -> Array:
        """The numbers of a sample.

        Args:
            x: random numbers of this sample, of its epoch.
            p: the shape of the result.
        """
        return self.distribution.draw(x, p, whole=False)

    def drawn(
        self, *, epoch: int = 0, index: int | Seq[int] = 0, frames: int | None = None
    ) -> npt.NDArray[np.float64]:
        """The numbers of a sample, or of several.

        Args:
            epoch: the epoch.
            index: the index of a sample within its dataset; or of several.
            frames: how many each sample has, where there is a number for each.

        Returns:
            One for a sample, or for each of several, in float64.

        Raises:
            ParameterError: the frames are not known.
        """
        if self.per_frame and frames is None:
            raise ParameterError(
                "per_frame=True, and the number of frames is not known",
                source=self.name,
                allowed="sequences with as many frames each",
            )
        one = np.ndim(index) == 0
        shape = (frames,) if self.per_frame and frames is not None else ()
        indices = indices_of(self, index, 1 if one else np.size(index))
        drawing = streams(self.seed, self.stream_name, stream_index(epoch, "epoch", self.name), indices)
        found = np.array([self.reference(rng, shape) for rng in drawing], np.float64)
        return found[0] if one else found


@dataclass(frozen=True, eq=False, repr=False)
class RandomSource(DataNode):
    """Random numbers that are to come.

    Attributes:
        op: what draws them.
    """

    op: _Random

    @property
    def by_frame(self) -> bool:
        """Whether there is one for each frame."""
        return self.op.per_frame

    @property
    def label(self) -> str:
        """The name of what draws."""
        return self.op.name

    def written(self, name: Named) -> str:
        """See :meth:`DataNode.written`."""
        return f"{self.op.name}({written(self.op, name)})"

    def occurring(self, seen: Occurrences) -> RandomSource:
        """See :meth:`DataNode.occurring`."""
        return RandomSource(*seen.of([self.op]))

    def value(self, given: Seq[Any], run: Run) -> npt.NDArray[np.float64]:  # noqa: ARG002  it is made of nothing
        """See :meth:`DataNode.value`."""
        indices = indices_of(self.op, run.index, run.samples)
        return self.op.drawn(epoch=run.epoch, index=indices, frames=run.frames)


class Uniform(_Random, called="random.uniform"):
    """Draw numbers from a range, every one alike."""

    range: tuple[float, float] = param((-1.0, 1.0), "minimum and maximum", kind=float, size=2, drawn=False)

    examples = ({"range": (0.5, 2.0), "seed": 1}, {"range": (-10.0, 10.0), "per_frame": True})
    errors = (
        ({"range": (2.0, 1.0)}, r"random.uniform: the range \(2.0, 1.0\) is reversed; allowed: \(least"),
        ({"range": 3.0}, "random.uniform: range=3.0 is not valid; allowed: 2 values, each a number"),
    )

    @cached_property
    def distribution(self) -> distributions.Distribution:
        """That range."""
        return distributions.Uniform(*self.range)


class Normal(_Random, called="random.normal"):
    """Draw numbers from the normal distribution."""

    mean: float = param(0.0, "mean", drawn=False)
    stddev: float = param(1.0, "standard deviation", lo=0, drawn=False)

    examples = ({"mean": 1.0, "stddev": 0.1, "seed": 1}, {"per_frame": True})
    errors = (({"stddev": -1.0}, "random.normal: stddev=-1.0 is not valid; allowed: a number of at least 0"),)

    @cached_property
    def distribution(self) -> distributions.Distribution:
        """That distribution."""
        return distributions.Normal(self.mean, self.stddev)


class Choice(_Random, called="random.choice"):
    """Draw one of some numbers."""

    of: tuple[float, ...] = param((0.0, 1.0), "values to choose from", kind=float, size=ANY)
    weights: tuple[float, ...] | None = param(
        None, "relative probability of each value; None for equal ones", kind=float, lo=0, size=ANY
    )

    examples = ({"of": (3, 5, 7), "seed": 1}, {"of": (0.0, 90.0), "weights": (3, 1), "per_frame": True})
    errors = (
        ({"of": ()}, r"random.choice: of=\(\) is not valid; allowed: one value or more"),
        ({"of": (1, 2), "weights": (1,)}, r"random.choice: weights=\(1.0,\) do not fit 2 values"),
    )

    @cached_property
    def distribution(self) -> distributions.Distribution:
        """One of the values."""
        return distributions.Choice(self.of, self.weights)


class CoinFlip(_Random, called="random.coin_flip"):
    """Draw 1 with a probability, otherwise 0; a flag takes them for True and False."""

    probability: float = param(0.5, "probability of 1", lo=0, hi=1, drawn=False)

    examples = ({"probability": 0.25, "seed": 1}, {"per_frame": True})
    errors = (
        ({"probability": 2}, "random.coin_flip: probability=2 is not valid; allowed: a number from 0 to 1"),
    )

    @cached_property
    def distribution(self) -> distributions.Distribution:
        """0 and 1, as likely as that."""
        return distributions.Choice((0.0, 1.0), (1 - self.probability, self.probability))
