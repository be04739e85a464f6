"""Listings of videos and volumes, and the reading of their samples, on which :mod:`seqpipe.dataset` stands.

The path of a batch of videos, by module: ``listing`` names the videos, ``survey`` counts their samples, ``selection``
and :mod:`seqpipe.sampling` choose the frames, and ``fetch`` has :mod:`seqpipe.video.engine` read them. The engine finds
the packets that the frames need (``video.index``, ``video.plan``), decodes them (``video.decode``, ``video.nvdec``),
and converts the surfaces (``video.convert``, ``video.cuda``) directly into the memory of the batch.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..core.lazy import on_demand

if TYPE_CHECKING:
    from . import published, published_volumes
    from .entry import Entry, Listing, Range
    from .report import Loss, Report
    from .selection import SampleRequest

__all__ = [
    "Entry",
    "Listing",
    "Loss",
    "Range",
    "Report",
    "SampleRequest",
    "published",
    "published_volumes",
]

_LAZY = {
    "Entry": "entry",
    "Listing": "entry",
    "Loss": "report",
    "Range": "entry",
    "Report": "report",
    "SampleRequest": "selection",
    "published": "",
    "published_volumes": "",
}

_GONE = {
    "Batches": "seqpipe.dataset.Epoch, which ds.epoch(number) gives",
    "FrameFolders": "seqpipe.folders(…, seqpipe.Clip(…))",
    "Sequences": "seqpipe.dataset.Epoch, which ds.epoch(number) gives",
    "list_videos": "seqpipe.listing(…)",
    "Video": "seqpipe.videos(…, seqpipe.Clip(…))",
    "Volume": "seqpipe.volumes(cases, seqpipe.Patch(size)), or Whole()",
}

if not TYPE_CHECKING:
    __getattr__ = on_demand(__name__, _LAZY, _GONE)


def __dir__() -> list[str]:
    return __all__
