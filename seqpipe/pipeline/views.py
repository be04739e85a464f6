"""Scores averaged over all views of a video.

clips = seqpipe.videos(…, Clip(16, per_video=10, starts="even"), output=OutputSpec(short_side=256))
scores = VideoScores()
for batch in clips.views((256, 256), count=3).batch(12):     # 3 consecutive views of each clip
    scores.add(model(batch["image"].torch()), batch["video"])
mean = scores.mean()                                         # for each video, the mean over 10 × 3 views
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ..array import FloatArray, to_numpy
from ..errors import ParameterError

__all__ = ["VideoScores"]


@dataclass(eq=False)
class VideoScores:
    """Scores averaged over all views of each video."""

    _sums: dict[Hashable, FloatArray] = field(default_factory=dict, init=False)
    _counts: dict[Hashable, int] = field(default_factory=dict, init=False)

    def add(self, scores: Any, videos: Any) -> None:
        """Add the scores of some views.

        Args:
            scores: ``(N, classes)``, a NumPy, CuPy or torch array.
            videos: the video of each view: numbers, as the part "video" of a data set's batches, or other keys, such
                as :attr:`seqpipe.Batch.sources`.

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
