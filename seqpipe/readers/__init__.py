"""Datasets of videos and volumes, which return sequences and batches.

dataset = seqpipe.readers.Video(file_root="videos", sequence_length=16, stride=2, shuffle=True)
for batch in dataset.batches(8):
    batch.numpy(), batch.labels                 # pixels NFHWC, labels N

The path of a batch of :class:`Video`, by module: ``listing`` names the videos, ``survey`` counts their samples,
``loader`` iterates over batches and reads ahead, ``selection`` and :mod:`seqpipe.sampling` choose the frames, ``fetch``
has :mod:`seqpipe.video.engine` read them, and ``collate`` makes the batch. The engine finds the packets that the frames
need (``video.index``, ``video.plan``), decodes them (``video.decode``, ``video.nvdec``), and converts the surfaces
(``video.convert``, ``video.cuda``) directly into the memory of the batch.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..core.lazy import on_demand

if TYPE_CHECKING:
    from . import published, published_volumes
    from .entry import Entry, Listing
    from .frame_folders import FrameFolders
    from .listing import list_videos
    from .loader import Batches, Sequences
    from .ranges import Range
    from .report import Loss, Report
    from .selection import SampleRequest
    from .video import Video

__all__ = [
    "Batches",
    "Entry",
    "FrameFolders",
    "Listing",
    "Loss",
    "Range",
    "Report",
    "SampleRequest",
    "Sequences",
    "Video",
    "list_videos",
    "published",
    "published_volumes",
]

_LAZY = {
    "Batches": "loader",
    "Entry": "entry",
    "FrameFolders": "frame_folders",
    "Listing": "entry",
    "Loss": "report",
    "Range": "ranges",
    "Report": "report",
    "SampleRequest": "selection",
    "Sequences": "loader",
    "Video": "video",
    "list_videos": "listing",
    "published": "",
    "published_volumes": "",
}

if not TYPE_CHECKING:
    __getattr__ = on_demand(
        __name__, _LAZY, {"Volume": "seqpipe.volumes(cases, seqpipe.Patch(size)), or Whole()"}
    )


def __dir__() -> list[str]:
    return __all__
