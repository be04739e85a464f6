"""Aggregate: a model's output for the patches of a grid, merged to whole volumes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ..array import as_native
from ..core.keywords import refuses_unknown_fields
from ..dataset.dataset import Dataset
from ..dataset.samples import Samples
from ..errors import ParameterError, described_type
from ..readers.volumes.listing import Case
from ..readers.volumes.options import Grid
from ..sequence import Batch, Sequence
from ..sources.volumes import PatchSource
from ..volume.patches.grid import NO_MARGINS, WEIGHTS, PatchSums, Weighting, window_weights

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


@refuses_unknown_fields()
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
    _sums: dict[int, PatchSums] = field(default_factory=dict, init=False)

    def __post_init__(self) -> None:
        source = getattr(self.grid, "source", None)
        selection = source.selection if isinstance(source, PatchSource) else None
        if selection is None or selection.starts is None:
            raise ParameterError(
                f"grid is {described_type(self.grid)}",
                source="Aggregate",
                allowed="seqpipe.volumes(…, seqpipe.Grid(…))",
            )
        self._selection, self._starts = selection, selection.starts
        take = selection.rules.take
        self._margins = take.margins if isinstance(take, Grid) else NO_MARGINS
        self._window = window_weights(take.patch or (), WEIGHTS.check(self.weights), self._margins)

    def add(self, batch: Samples, output: Any) -> list[Result]:
        """Add the output for a batch of patches, and return the volumes that are complete by now.

        Args:
            batch: a batch of ``grid``.
            output: a batch or array ``NDHWC``, with the patches' slices, rows and columns, or those without their
                margins, and any number of channels. NumPy, CuPy, torch, also of bfloat16.

        Raises:
            ParameterError: the shape does not fit.
        """
        given = output.data if isinstance(output, (Batch, Sequence)) else output
        # NumPy and CuPy have no bfloat16
        data = as_native(given.float() if str(getattr(given, "dtype", "")) == "torch.bfloat16" else given)
        index = np.asarray(batch.index)
        if len(data) != len(index):
            raise ParameterError(
                f"the output for {len(index)} patches has the shape {tuple(data.shape)}",
                source="Aggregate",
                allowed="one result for each patch",
            )
        volumes = self._selection.volumes_of(index)
        done = []
        for volume in dict.fromkeys(volumes.tolist()):
            of_volume = np.flatnonzero(volumes == volume)
            sums = self._sums.get(volume)
            if sums is None:
                grid = self._selection.infos[volume].grid
                sums = self._sums[volume] = PatchSums(grid, self._starts[volume], self._window, self._margins)
            numbers = index[of_volume] - self._selection.bounds[volume]
            sums.add(numbers.tolist(), data if len(numbers) == len(index) else data[of_volume])
            if sums.complete:
                case, info = self._selection.cases[volume], self._selection.infos[volume]
                values = self._sums.pop(volume).result(self.dtype)
                whole = Sequence(values, "DHWC", info.source, affine=info.affine)
                done.append(Result(case, volume, whole))
        return done

    @property
    def pending(self) -> tuple[int, ...]:
        """Positions of the volumes that are begun and not complete."""
        return tuple(self._sums)
