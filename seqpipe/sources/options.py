"""Options of sources: how videos are decoded, and how volumes are prepared and cached."""

from __future__ import annotations

import os
from dataclasses import dataclass

from ..core.keywords import refuses_unknown_fields
from ..readers.volumes.options import Cache, Prepare
from ..video.device import DecodeChoice

__all__ = ["Cache", "Decode", "Prepare"]

_Path = str | os.PathLike[str]


@refuses_unknown_fields()
@dataclass(frozen=True)
class Decode:
    """How videos are decoded.

    Attributes:
        backend: for a GPU: "auto" (NVDEC, and the CPU for streams that NVDEC does not support), "nvdec" (only NVDEC),
            "mixed" (both at the same time) or "cpu" (the CPU, with an upload).
        stream: number of the stream in the container; by default the best video stream, as ffmpeg chooses.
        threads: CPU threads that decode; by default one for each core that the process may use.
        cache_dir: folder of the indexes; by default ``SEQPIPE_CACHE_DIR``, else the platform's cache folder.
        register: a file of indexes that several users share; by default ``seqpipe.register`` in the folder of videos.
    """

    backend: DecodeChoice = "auto"
    stream: int | None = None
    threads: int | None = None
    cache_dir: _Path | None = None
    register: _Path | None = None
