"""Windows of random resized crops: of random area and aspect ratio, sampled again while they do not fit."""

from __future__ import annotations

import math
from typing import Any, Final

import numpy as np

from ...core.draws import BatchGenerator, ScalarGenerator

__all__ = ["CropWindows"]

_WORDS: Final = 12  # random words of a sample: enough for five attempts, one of which nearly always fits


class CropWindows:
    """Distribution of windows.

    Args:
        area: least and greatest area relative to the images.
        ratio: least and greatest ratio of width to height.
        attempts: most windows that are sampled; then the largest centered one with an allowed ratio is used.
    """

    def __init__(self, area: tuple[float, float], ratio: tuple[float, float], attempts: int) -> None:
        (least, most), (lo, hi) = area, map(math.log, ratio)
        self._ranges = least, most - least, lo, hi - lo
        self._ratio, self._attempts = ratio, attempts

    def draw(
        self, rng: np.random.Generator | BatchGenerator, height: int, width: int, frames: int | None
    ) -> Any:
        """Sample left, top, width and height of a window, or of one for each frame.

        Args:
            rng: random generator of a sample; or of several, whose axis comes first in the result.
            height: rows of the images.
            width: columns of the images.
            frames: number of frames; None for one window.
        """
        if not isinstance(rng, BatchGenerator):
            return self._some(ScalarGenerator.of(rng), height, width, frames)
        return np.array([self._some(one, height, width, frames) for one in rng.each(_WORDS)])

    def _some(self, numbers: ScalarGenerator, height: int, width: int, frames: int | None) -> Any:
        if frames is None:
            return self._one(numbers, height, width)
        return [self._one(numbers, height, width) for _ in range(frames)]

    def _one(self, numbers: ScalarGenerator, height: int, width: int) -> tuple[int, int, int, int]:
        least, more, log_least, log_more = self._ranges
        for _ in range(self._attempts):
            area = height * width * (least + more * numbers.random())
            ratio = math.exp(log_least + log_more * numbers.random())
            columns, rows = round(math.sqrt(area * ratio)), round(math.sqrt(area / ratio))
            if 0 < columns <= width and 0 < rows <= height:
                left = numbers.below(width - columns + 1)
                return left, numbers.below(height - rows + 1), columns, rows
        lo, hi = self._ratio
        columns = max(1, min(width, round(height * hi)))
        rows = max(1, min(height, round(width / lo)))
        return (width - columns) // 2, (height - rows) // 2, columns, rows
