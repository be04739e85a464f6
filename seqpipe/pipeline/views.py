"""Evaluation views: several windows of each sequence, and scores averaged over all views of a video.

reader = seqpipe.readers.Video(files=…, sequence_length=16, clips_per_video=10, clip_mode="even", short_side=256)
scores = VideoScores()
for batch in reader.batches(4):
    views = crop_views(batch, (256, 256), count=3)          # 12 sequences: 3 consecutive views of each clip
    scores.add(model(views.torch()), reader.videos(views.indices))
mean = scores.mean()                                        # for each video, the mean over 10 × 3 views
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from ..array import FloatArray, to_numpy
from ..errors import ParameterError
from ..ops import REGISTRY
from ..sequence import Batch

__all__ = ["VideoScores", "crop_views"]


def crop_views(batch: Batch, size: tuple[int, int], *, count: int = 3) -> Batch:
    """Cut windows that are spread evenly along the longer side of each sequence, and centered along the other.

    Args:
        batch: sequences ``FHWC``.
        size: (height, width) of a window.
        count: windows of each sequence; a single one is centered.

    Returns:
        A batch of ``count`` consecutive views of each sequence, with labels, indices and sources.

    Raises:
        ParameterError: the sequences are smaller than a window, or ``count`` is less than 1.
    """
    if count < 1:
        raise ParameterError(f"count={count} is not valid", source="crop_views", allowed="1 or more")
    positions = [0.5] if count == 1 else [n / (count - 1) for n in range(count)]
    crops = []
    for sequence in batch.sequences:
        letters = sequence.layout
        rows, columns = (sequence.shape[letters.index(letter)] for letter in "HW")
        side = "crop_pos_x" if columns >= rows else "crop_pos_y"
        crops += [REGISTRY["crop"](crop=tuple(size), **{side: position})(sequence) for position in positions]
    known: dict[str, Any] = {
        name: None
        if (values := getattr(batch, name)) is None
        else np.repeat(np.asarray(values), count, axis=0)
        for name in ("labels", "indices")
    }
    views = Batch.of(crops)
    return replace(views, **known)


@dataclass(eq=False)
class VideoScores:
    """Scores averaged over all views of each video."""

    _sums: dict[Hashable, FloatArray] = field(default_factory=dict, init=False)
    _counts: dict[Hashable, int] = field(default_factory=dict, init=False)

    def add(self, scores: Any, videos: Any) -> None:
        """Add the scores of some views.

        Args:
            scores: ``(N, classes)``, a NumPy, CuPy or torch array.
            videos: the video of each view: numbers, as from :meth:`seqpipe.readers.Video.videos` or the entry "video"
                of torch batches, or other keys, such as :attr:`seqpipe.Batch.sources`.

        Raises:
            ParameterError: the numbers of scores and videos, or of classes, differ.
        """
        table = np.asarray(to_numpy(scores), np.float64)
        keys = list(videos.tolist() if hasattr(videos, "tolist") else videos)
        if table.ndim != 2 or len(table) != len(keys):
            raise ParameterError(
                f"scores of the shape {table.shape} for {len(keys)} views",
                source="VideoScores",
                allowed="(views, classes)",
            )
        for key, row in zip(keys, table, strict=True):
            if key in self._sums and self._sums[key].shape != row.shape:
                raise ParameterError(
                    f"scores of {len(row)} classes after some of {len(self._sums[key])}",
                    source=f"video {key}",
                )
            self._sums[key] = self._sums.get(key, 0.0) + row
            self._counts[key] = self._counts.get(key, 0) + 1

    def mean(self) -> dict[Any, FloatArray]:
        """Return the mean scores of each video."""
        return {key: total / self._counts[key] for key, total in self._sums.items()}

    def counts(self) -> dict[Any, int]:
        """Return the number of views of each video."""
        return dict(self._counts)
