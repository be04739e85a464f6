"""Export by actors: each task writes one unit of :meth:`seqpipe.dataset.Dataset.write`; pixels stay in the actor."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final
from uuid import uuid4

import numpy as np

from ..dataset.write import WriteOptions, sample_names, write_job, write_units
from ..writers.run import WriteReport
from .placement import ActorPool, check_whole, raised_by_name, ray_module, use_cores

if TYPE_CHECKING:
    from ..dataset import Dataset

__all__ = ["WriteUnits", "export"]

_DYING_S: Final = 20.0
"""How long Ray may take to end the actors of a run that was killed."""


def export(
    dataset: Dataset,
    out: str | os.PathLike[str],
    format: str = "webdataset",  # noqa: A002  the field's name
    *,
    concurrency: int | None = None,
    num_cpus: int = 1,
    num_gpus: int = 0,
    resume: bool = False,
    overwrite: bool = False,
    **options: Any,
) -> WriteReport:
    """Write every sample into files by Ray's actors, with the files of :meth:`seqpipe.Dataset.write`.

    A task writes a shard, or 256 samples where there are no shards, and records it when it is complete. Ray repeats the
    tasks of actors that die; an export that was stopped is continued by the same call with ``resume=True``, here or by
    :meth:`seqpipe.Dataset.write`.

    Args:
        dataset: videos, volumes, items, or what is made of these, without ``batch`` and ``shard``.
        out: a folder that all nodes see, or a URL such as ``s3://bucket/prefix``.
        format: as for :meth:`seqpipe.Dataset.write`.
        concurrency: number of actors; by default as many as the cluster holds.
        num_cpus: cores of an actor, and threads that encode.
        num_gpus: 1 gives each actor a GPU, for a data set with ``device="cuda"``; 0 for one on the CPU.
        resume: whether to keep what an earlier run has written.
        overwrite: whether to replace it.
        **options: ``pattern``, ``parts``, ``quality``, ``image_format``, ``samples_per_shard``, ``shard_mib`` and
            ``epoch`` of :meth:`seqpipe.Dataset.write`.

    Returns:
        What this run has written, over all actors.

    Raises:
        BackendError: Ray is not installed or too old, its cluster is too small for the actors, or it stopped, as
            where actors run out of memory.
        ParameterError: an argument is out of bounds, or the format does not hold a part.
        OutputError: a file cannot be written, the folder holds other files, or another run writes into it.
        SourceError: a sample cannot be read, and ``on_error`` is "raise"; finished files stay.
    """
    given = WriteOptions(format=format, **options)
    folder = os.fspath(out)
    if "://" not in folder:
        folder = os.path.abspath(folder)  # noqa: PTH100  actors may have other working directories
    check_whole(dataset, "export()")
    job = replace(write_job(dataset, folder, given), run=uuid4().hex)
    place = ActorPool.of(dataset, concurrency, num_cpus, num_gpus)
    counts = dict.fromkeys(("written", "lost", "files", "bytes"), 0)
    with job.claimed(wait_s=_DYING_S):
        units = job.begin(resume=resume, overwrite=overwrite)
        if units:
            rows = ray_module("ray.data").from_items(
                [{"unit": unit} for unit in units], override_num_blocks=len(units)
            )
            arguments = dataset, folder, given, job.run, place.num_cpus
            done = place.pooled(rows, WriteUnits, *arguments, batch_size=1)
            for row in raised_by_name(done.iter_rows()):
                counts = {name: count + row[name] for name, count in counts.items()}
        todo = sum(len(job.samples(unit)) for unit in units)
        complete = job.finish()
    return WriteReport(
        folder=job.store.place, samples=job.size, kept=job.size - todo, complete=complete, **counts
    )


class WriteUnits:
    """Actor that writes units of an export, and returns a row of counts for each.

    Args:
        dataset: the :class:`seqpipe.Dataset`.
        folder: path or URL of the folder.
        options: arguments of :meth:`seqpipe.Dataset.write`.
        run: name of the run, which all of its actors share.
        num_cpus: cores of the actor.
    """

    def __init__(
        self, dataset: Dataset, folder: str, options: WriteOptions, run: str, num_cpus: int = 1
    ) -> None:
        use_cores(dataset, num_cpus)
        self._dataset, self._options = dataset, replace(options, threads=num_cpus)
        self._job = replace(write_job(dataset, folder, options), run=run)
        self._names = sample_names(dataset.source, options)

    def __call__(self, batch: Mapping[str, Any]) -> dict[str, Any]:
        """Write units.

        Args:
            batch: ``unit``, numbers of units.

        Raises:
            OutputError: a file cannot be written, or another run writes the unit.
            SourceError: a sample cannot be read, and ``on_error`` is "raise".
        """
        units = np.asarray(batch["unit"]).tolist()
        counts: dict[str, list[int]] = {name: [] for name in ("written", "lost", "files", "bytes")}
        for unit in units:
            alone = replace(self._job, rank=unit, world=self._job.units)  # as that rank would, with its lock
            with alone.claimed():
                writer = write_units(self._dataset, alone, self._names, self._options, [unit])
            for name, values in counts.items():
                values.append(getattr(writer, name))
        return {"unit": units, **counts}
