"""Data sets on a Ray cluster: decoded by actors, or written by them; extra ``ray``.

    clips = seqpipe.ray.to_ray(ds, concurrency=8)                   # ray.data.Dataset, a row for each sample
    report = seqpipe.ray.export(ds, "s3://bucket/set", format="webdataset", concurrency=8, resume=True)

Ray schedules, retries and reports progress; samples are those of the local data set: ``ds.read`` gives the same pixels,
and :func:`sample_ids` the same names. Files, registers and the module of the user's own functions have to be reachable
from every node by the same names.
"""

from __future__ import annotations

from .decoding import DecodeClips, to_ray
from .exporting import WriteUnits, export
from .planning import sample_ids

__all__ = ["DecodeClips", "WriteUnits", "export", "sample_ids", "to_ray"]
