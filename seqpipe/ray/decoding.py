"""Decoding by actors: rows of references become rows of samples."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from ..array import IntArray
from ..dataset.arrays import converted, numpy_array
from ..dataset.by_index import readable_at
from ..sampling.params import EPOCH
from ..sequence import Batch
from .placement import ActorPool, check_whole, ray_module, use_cores
from .planning import planned_blocks

if TYPE_CHECKING:
    from ..dataset import Dataset, Samples

__all__ = ["DecodeClips", "to_ray"]

_log: Final = logging.getLogger(__name__)
_REQUEST_BYTES: Final = 64 * 2**20  # half of Ray's block
_BLOCKS_PER_ACTOR: Final = 4


def to_ray(
    dataset: Dataset,
    decode: bool = True,
    concurrency: int | None = None,
    num_gpus: int = 0,
    *,
    num_cpus: int = 1,
    epoch: int = 0,
) -> Any:
    """Return an epoch of a data set as a ``ray.data.Dataset``: a row for each sample, which Ray's actors decode.

    Rows have the columns ``sample_id`` (see :func:`seqpipe.ray.sample_ids`), ``index``, ``epoch`` and ``source`` (path
    or URL, "" if unknown). Decoded rows further have the parts of the sample: pixels are Ray's tensors, in the data
    set's layout; other arrays are lists, and volumes have ``affine``, 16 numbers row by row. Ray gives rows in any
    order, unless its ``preserve_order`` is set. Samples that cannot be read raise, or are left out with a warning in
    Ray's log, as the data set's ``on_error`` says.

    References are planned from the data set, without opening files, and form Ray's read operator; so its
    ``CheckpointConfig(id_column="sample_id")`` drops finished rows before they are decoded. Neighboring samples of a
    file are read together, so that no frame is decoded twice.

    Args:
        dataset: videos, volumes, items, or what is made of these, without ``batch`` and ``shard``.
        decode: whether to decode; without, rows are references, for ``map_batches(DecodeClips, …)`` after a filter.
        concurrency: number of actors; by default as many as the cluster holds.
        num_gpus: 1 gives each actor a GPU, for a data set with ``device="cuda"``; 0 for one on the CPU.
        num_cpus: cores, and threads, of an actor.
        epoch: selects random frames, patches and draws.

    Raises:
        BackendError: Ray is not installed, or its cluster is too small for the actors.
        ParameterError: an argument is out of bounds or does not fit the data set's device, or the data set has no
            samples by index.
    """
    check_whole(dataset, "to_ray()")
    number = EPOCH.check(epoch)
    place = ActorPool.of(dataset, concurrency, num_cpus, num_gpus) if decode else None
    data = ray_module("ray.data")
    from .datasource import SampleReferences  # imported late: it derives from Ray's class

    blocks = planned_blocks(dataset, number, _BLOCKS_PER_ACTOR * (place.actors if place else 1))
    # Reads take no core: actors may have taken all, and Ray would wait without an end. Few at a time, as each is short.
    reads = data.TaskPoolStrategy(size=1 + (place.actors if place else 0) // 8)
    rows = data.read_datasource(
        SampleReferences(blocks), override_num_blocks=len(blocks), num_cpus=0, compute=reads
    )
    if place is None:
        return rows
    # Ray wants a batch size where there are GPUs, and cuts blocks by it
    batch_size = max(block.size for block in blocks) if place.num_gpus else None
    return place.pooled(rows, DecodeClips, dataset, place.num_cpus, batch_size=batch_size)


class DecodeClips:
    """Actor that reads the samples of references, for ``map_batches(DecodeClips, fn_constructor_args=(dataset,), …)``.

    Args:
        dataset: the :class:`seqpipe.Dataset` that the references are of.
        num_cpus: cores of the actor.
    """

    def __init__(self, dataset: Dataset, num_cpus: int = 1) -> None:
        self._dataset = dataset
        use_cores(dataset, num_cpus)

    def __call__(self, batch: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
        """Yield the samples of references, those of a file at a time, with what their rows hold besides.

        Args:
            batch: columns of rows, as arrays; ``index``, ``epoch`` and ``source`` are read.

        Raises:
            SourceError: a sample cannot be read, and the data set's ``on_error`` is "raise".
        """
        for rows in self._requests(batch):
            given = {name: np.asarray(values)[rows] for name, values in batch.items()}
            samples = readable_at(self._dataset, given["index"], int(given["epoch"][0]))
            read = [] if samples is None else np.asarray(samples.index).tolist()
            if len(read) < len(rows):
                self._tell_lost(given["index"], read)
            if samples is not None:
                kept = np.isin(given["index"], read)
                yield {**_columns(samples), **{name: values[kept] for name, values in given.items()}}

    def _requests(self, batch: Mapping[str, Any]) -> Iterator[IntArray]:
        """Yield positions of neighboring rows of one file and epoch, as many as fit a request."""
        source, epoch = np.asarray(batch["source"]), np.asarray(batch["epoch"])
        borders = np.flatnonzero((source[1:] != source[:-1]) | (epoch[1:] != epoch[:-1])) + 1
        for rows in np.split(np.arange(len(source)), borders):
            if not len(rows):
                continue
            indices = np.asarray(batch["index"])[rows]
            plan = self._dataset.source.plan(int(epoch[rows[0]]), indices, self._dataset.heads_of(indices))
            yield from np.array_split(rows, min(len(rows), 1 + plan.nbytes // _REQUEST_BYTES))

    def _tell_lost(self, indices: IntArray, read: list[int]) -> None:
        lost = sorted(set(indices.tolist()) - set(read))
        reasons = "; ".join(f"{loss.source}: {loss.reason}" for loss in self._dataset.report().losses[-3:])
        _log.warning("samples %s cannot be read and are left out: %s", lost, reasons)


def _columns(samples: Samples) -> dict[str, Any]:
    """Return samples by column: a tensor or list for each."""
    columns = {name: _column(value) for name, value in converted(samples, None, numpy_array).items()}
    for value in samples.values():
        affines = [sequence.affine for sequence in value.sequences] if isinstance(value, Batch) else []
        if known := [affine.ravel().tolist() for affine in affines if affine is not None]:
            columns["affine"] = known
            break
    return columns


def _column(values: Any) -> Any:
    """Return values as Ray takes them, whatever their shapes: pixels and sound as tensors, others as lists."""
    if isinstance(values, np.ndarray) and values.ndim == 1:
        return values
    if all(isinstance(value, np.ndarray) and value.ndim > 2 for value in values):
        if isinstance(values, np.ndarray):
            return values
        tensors = np.empty(len(values), object)
        tensors[:] = values
        return tensors
    return [value.tolist() if isinstance(value, np.ndarray) else value for value in values]
