"""Access by time to a remote Matroska file through its cues, without a pass over the whole file.

The number of a frame is known only once the headers of all blocks before it were read, which are spread over the file.
The cues lead from a time to the key frame before it. The packets from there to the next key frame form an index of
their own, whose frames have times but no frame numbers in the file.
"""

from __future__ import annotations

import logging
from collections import OrderedDict
from collections.abc import Iterator
from collections.abc import Sequence as Seq
from dataclasses import replace

import numpy as np

from ...array import IntArray
from ...sampling.clock import frames_at
from ..decode.packets import IndexMismatchError
from ..plan import PlannedVideo
from ..probe.info import StreamInfo
from ..source.blocks import Blocks
from ..source.source import Source
from ..tables import matroska
from ..tables.facts import StreamFacts, facts_of
from ..tables.gate import UnusableTablesError, check
from .from_tables import index_of

__all__ = ["CuedVideo", "open_by_cues"]

_log = logging.getLogger(__name__)
_MOST_PARTS = 4


def open_by_cues(source: Source) -> CuedVideo | None:
    """Return access by cues, if the source is a remote Matroska file with usable cues; else None."""
    if not source.slow or source.stream is not None:
        return None
    blocks = Blocks.of(source)
    if blocks.read([(0, len(matroska.MAGIC))]) != [matroska.MAGIC]:
        return None
    try:
        header = matroska.read_header(blocks)
        return CuedVideo(source, blocks, header, matroska.read_cues(blocks, header))
    except (UnusableTablesError, IndexMismatchError) as reason:
        _log.debug("%s is not read by its cues, because %s", source.name, reason)
        return None


class CuedVideo:
    """Video whose frames are accessed by time.

    Args:
        source: the video.
        blocks: cached blocks of the source.
        header: headers before the first cluster.
        cues: the cues.

    Attributes:
        info: properties of the stream, without a frame count.

    Raises:
        UnusableTablesError, IndexMismatchError: the file's structure is not supported.
        SourceError: the source cannot be read.
    """

    def __init__(
        self, source: Source, blocks: Blocks, header: matroska.MatroskaHeader, cues: matroska.Cues
    ) -> None:
        self._source, self._header, self._cues = source, header, cues
        self._tick_s = header.scale / 1e9
        first = matroska.read_part(blocks, header, cues, 0, 0)
        check(first, blocks.size())
        head = blocks.read([(int(first.offset[0]), int(first.size[0]))])[0]
        self._facts: StreamFacts = facts_of(blocks, first, head, ())
        self.info: StreamInfo = replace(self._facts.info, frame_count=None, source=source.name)
        self._parts: OrderedDict[int, PlannedVideo] = OrderedDict()

    def parts(self, seconds: Seq[float]) -> Iterator[tuple[PlannedVideo, IntArray, IntArray]]:
        """Yield the parts that hold the frames displayed at the given times.

        Yields:
            A part in memory, with an index of its own, whose frames are numbered from 0; the positions in ``seconds``
            of the times in it; and the numbers of their frames in it.
        """
        times = np.asarray(seconds, np.float64)
        cues = frames_at(np.multiply(self._cues.times, self._tick_s, dtype=np.float64), times)
        if len(cues) and cues.min() < 0:
            raise UnusableTablesError("a time is before the first cue")
        for cue in np.unique(cues).tolist():
            part, positions = self._part(cue), np.flatnonzero(cues == cue)
            stamps = part.index.timestamps
            numbers = frames_at(stamps, times[positions])
            if numbers.min() < 0 or times[positions].max() >= part.index.end_s:
                raise UnusableTablesError("a time is outside of the video")
            yield part, positions, numbers

    def _part(self, cue: int) -> PlannedVideo:
        if cue not in self._parts:
            blocks = Blocks(self._source)
            tables = matroska.read_part(blocks, self._header, self._cues, cue, cue + 1)
            check(tables, blocks.size())
            tables = replace(
                tables, shown=tables.pts >= tables.pts[0]
            )  # leading pictures belong to the part before
            self._parts[cue] = PlannedVideo(blocks, index_of(blocks, tables, self._facts))
            while len(self._parts) > _MOST_PARTS:
                self._parts.popitem(last=False)
        self._parts.move_to_end(cue)
        return self._parts[cue]
