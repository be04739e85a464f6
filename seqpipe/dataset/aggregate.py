"""Aggregate: a model's output for the patches of a grid, merged to whole volumes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ..errors import ParameterError, described_type
from ..readers.volumes.fetch import GridSelection
from ..readers.volumes.listing import Case
from ..sequence import Batch, Sequence
from ..volume.patches.grid import GridAggregator, Weighting
from .dataset import Dataset
from .samples import Samples
from .volumes import PatchSource

__all__ = ["Aggregate", "Result"]


@dataclass(frozen=True)
class Result:
    """The merged output for a volume.

    Attributes:
        case: the volume's files and subject.
        volume: its position in the data set.
        output: float32, or the requested dtype; ``DHWC`` with the affine of the volume.
    """

    case: Case
    volume: int
    output: Sequence

    def __iter__(self) -> Iterator[Any]:
        """Yield case and output."""
        return iter((self.case, self.output))


@dataclass(eq=False)
class Aggregate:
    """Merges a model's output for the patches of ``volumes(…, Grid(…))``: a weighted mean where they overlap.

    whole = seqpipe.Aggregate(grid, weights="gaussian")
    for batch in grid:
        for case, output in whole.add(batch, model(batch["image"].torch())):   # volumes that became complete
            seqpipe.volume.save(output, f"{case.subject}.nii.gz")

    One volume is in memory at a time, as its patches follow one another.

    Attributes:
        grid: the data set.
        weights: weight of a voxel by its position in the patch: "gaussian", "hann" or "constant".
        dtype: dtype of the results; integers are rounded half to even.

    Raises:
        ParameterError: ``grid`` is not a data set of ``volumes`` with ``Grid``.
    """

    grid: Dataset
    weights: Weighting = "gaussian"
    dtype: Any = np.float32
    _sums: dict[int, GridAggregator] = field(default_factory=dict, init=False)

    def __post_init__(self) -> None:
        source = getattr(self.grid, "source", None)
        selection = source.fetcher.selection if isinstance(source, PatchSource) else None
        if not isinstance(selection, GridSelection):
            raise ParameterError(
                f"grid is {described_type(self.grid)}",
                source="Aggregate",
                allowed="seqpipe.volumes(…, seqpipe.Grid(…))",
            )
        self._selection = selection

    def add(self, batch: Samples, output: Any) -> list[Result]:
        """Add the output for a batch of patches, and return the volumes that are complete by now.

        Args:
            batch: a batch of ``grid``.
            output: a batch or array ``NDHWC``, with the patches' slices, rows and columns and any number of channels.
                NumPy, CuPy, torch.

        Raises:
            ParameterError: the shape does not fit.
        """
        data = output.data if isinstance(output, (Batch, Sequence)) else output
        index = np.asarray(batch.index)
        volumes = self._selection.volumes_of(index)
        done = []
        for volume in dict.fromkeys(volumes.tolist()):
            of_volume = np.flatnonzero(volumes == volume)
            sums = self._sums.get(volume)
            if sums is None:
                sums = self._sums[volume] = self._started(volume, batch, int(of_volume[0]))
            numbers = (index[of_volume] - self._selection.bounds[volume]).tolist()
            sums.add(numbers, data[of_volume[0] : of_volume[-1] + 1])
            if sums.complete:
                case = self._selection.cases[volume]
                done.append(Result(case, volume, self._sums.pop(volume).result(self.dtype)))
        return done

    def _started(self, volume: int, batch: Samples, row: int) -> GridAggregator:
        """Return the sums of a volume, whose grid and position follow from a patch of it."""
        selection = self._selection
        patch = next(value for value in batch.values() if isinstance(value, Batch))[row]
        number = int(batch.index[row]) - int(selection.bounds[volume])
        start = selection.starts[volume][number]
        affine = None if patch.affine is None else np.array(patch.affine)
        if affine is not None:
            affine[:3, 3] -= affine[:3, :3] @ start
        source: Any = self.grid.source
        size = selection.rule.patch or source.infos[volume].grid
        return GridAggregator.of(
            source.infos[volume].grid, size, selection.starts[volume], self.weights, affine, patch.source
        )

    @property
    def pending(self) -> tuple[int, ...]:
        """Positions of the volumes that are begun and not complete."""
        return tuple(self._sums)
