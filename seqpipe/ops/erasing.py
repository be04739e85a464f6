"""Operators that fill regions of images.

Imports `core`, `call`, `cuda`.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Sequence as Seq
from typing import Any, ClassVar, Final

import numpy as np
import numpy.typing as npt

from ..array import Array, IntArray
from ..core.cached import cached_property
from .call.op import Op
from .core.blocks import values_of_all
from .core.distributions import Number
from .core.parameters import ANY, levels, param
from .core.spec import Spec, put
from .core.traits import Body

__all__ = ["Erase", "RandomErasing"]

_MAX_REGIONS: Final = 16  # regions of an image
_LEVELS: Final = 4  # most channels with fill values of their own
_ATTEMPTS: Final = 10  # as in torchvision
_ROW: Final = np.dtype(
    [
        ("acts", np.int32),
        ("count", np.int32),
        ("levels", np.float32, (_LEVELS,)),
        ("boxes", np.int32, (4 * _MAX_REGIONS,)),
    ]
)


class _Regions(Op, register=False):
    """Base of operators that fill boxes."""

    fill_value: tuple[float, ...] = levels("value of erased pixels")

    derived: ClassVar[tuple[str | tuple[str, int], ...]] = (("levels", _LEVELS),)
    derived_from: ClassVar[tuple[str, ...] | None] = ()
    takes_raw: ClassVar[bool] = True

    @abstractmethod
    def boxes(self, p: Any, height: int, width: int) -> IntArray:
        """Return top, left, bottom and right of each region in pixels, ``(K, 4)``; they may extend beyond the image.

        Args:
            p: parameters; if they are arrays with a row for each frame or sample, so is the result.
            height: rows of the image.
            width: columns of the image.
        """

    def derive(self, rows: npt.NDArray[Any], spec: Spec) -> dict[str, Any]:  # noqa: ARG002  equal for all rows
        """Derive the fill value of each channel.

        Raises:
            ParameterError: the number of values is not that of the channels.
        """
        result = self.fill_value
        if len(result) > 1 and (len(result) != spec.channels or len(result) > _LEVELS):
            raise self.refusal(
                f"fill_value has {len(result)} values for {spec.channels} channels",
                allowed=f"one, or one for each of up to {_LEVELS} channels",
            )
        return {"levels": np.resize(result, _LEVELS) if len(result) == 1 else (*result, 0, 0, 0)[:_LEVELS]}

    def reference(self, x: Array, p: Any) -> Array:
        """Return a copy with filled boxes."""
        out = x.copy()
        # with more channels, all have one value
        levels = p.levels[: x.shape[-1]] if x.shape[-1] <= _LEVELS else p.levels[0]
        for box in self.boxes(p, *x.shape[1:3]).tolist():
            top, left, bottom, right = (max(corner, 0) for corner in box)
            put(out[:, top:bottom, left:right], levels)
        return out

    def cpu(self, x: Array, p: Any) -> Array:
        """Compute the same in the dtype of the input."""
        return self.reference(x, p)

    def kernel_rows(self, rows: npt.NDArray[Any], spec: Spec) -> npt.NDArray[Any]:
        """Return the kernel rows."""
        result = np.zeros(len(rows), _ROW)
        result["acts"], result["levels"] = rows["acts"], rows["levels"]
        boxes = self.boxes(values_of_all(rows), spec.height, spec.width).reshape(len(rows), -1)
        result["count"], result["boxes"][:, : boxes.shape[1]] = boxes.shape[1] // 4, boxes
        return result

    kernel_row = _ROW
    body = Body("erased")


class Erase(_Regions):
    """Fill one or several regions, as in DALI.

    A region extends from ``floor(anchor)`` to ``floor(anchor + shape)``, the latter excluded, and is clipped to the
    image. The first region may differ between samples and frames; those of ``more`` are the same for all.
    """

    anchor: Number = param((0.0, 0.0), "top and left of the erased region", kind=float, unit="pixels", size=2)
    shape: Number = param(
        (0.0, 0.0),
        "height and width of the region",
        kind=float,
        unit="pixels",
        size=2,
        lo=0,
        identity=(0.0, 0.0),
    )
    more: tuple[float, ...] | None = param(
        None, "further regions, each (top, left, height, width)", kind=float, unit="pixels", size=ANY
    )
    normalized: bool = param(
        False, "whether anchors and shapes are relative to the image's size", drawn=False
    )
    normalized_anchor: bool | None = param(
        None, "whether anchors are relative; None for the value of normalized", kind=bool, drawn=False
    )
    normalized_shape: bool | None = param(
        None, "whether shapes are relative; None for the value of normalized", kind=bool, drawn=False
    )
    centered_anchor: bool = param(
        False, "whether anchors are the centers of regions instead of their top left corners", drawn=False
    )

    examples = (
        {"anchor": (1.0, 2.0), "shape": (2.0, 3.0)},
        {
            "anchor": ((0.0, 1.0), (0.0, 1.0)),
            "shape": (0.4, 0.5),
            "normalized": True,
            "fill_value": 9,
            "seed": 2,
        },
        {
            "shape": (2.0, 2.0),
            "more": (-1.0, 5.0, 3.0, 9.0, 3.0, 1.5, 1.5, 2.0),
            "fill_value": 200.0,
        },
        {"anchor": (0.5, 0.5), "shape": (3.0, 2.0), "normalized_anchor": True, "centered_anchor": True},
    )
    errors = (({"more": (1.0, 2.0)}, "more has 2 numbers; allowed: 4 for each of up to 15 regions"),)

    def __post_init__(self) -> None:
        super().__post_init__()
        count = len(self.more or ())
        if count % 4 or count > 4 * (_MAX_REGIONS - 1):
            raise self.refusal(
                f"more has {count} numbers", allowed=f"4 for each of up to {_MAX_REGIONS - 1} regions"
            )

    def boxes(self, p: Any, height: int, width: int) -> IntArray:
        """Return the regions, computed in float32 as DALI does: 0.9 of 40 rows are 36, not 35.99999905."""
        size = np.array([height, width], np.float32)
        first = np.concatenate([p.anchor, p.shape], axis=-1, dtype=np.float32)[..., None, :]
        more = np.reshape(self.more or (), (-1, 4)).astype(np.float32)
        regions = np.concatenate([first, np.broadcast_to(more, (*first.shape[:-2], *more.shape))], axis=-2)
        by_default = self.normalized
        anchor, shape = (
            part * (size if (by_default if relative is None else relative) else 1)
            for part, relative in (
                (regions[..., :2], self.normalized_anchor),
                (regions[..., 2:], self.normalized_shape),
            )
        )
        start = anchor - shape / 2 if self.centered_anchor else anchor
        reach = np.concatenate([start, start + shape], axis=-1)
        result: IntArray = np.floor(np.clip(reach, -1, 2.0**30)).astype(np.int64)
        return result


class RandomErasing(_Regions):
    """Fill one region of random size, aspect ratio and position, the same in all frames, as torchvision does.

    Its area is uniform in ``scale``, the logarithm of the ratio of height to width in that of ``ratio``; a region that
    is not smaller than the image is sampled again, ten times at most, and then nothing is erased (Zhong et al., "Random
    erasing data augmentation", 2020). Training recipes usually set ``p=0.5``.
    """

    scale: tuple[float, float] = param(
        (0.02, 0.33),
        "range of the region's area, as a share of the image's",
        unit="of the image's",
        size=2,
        ordered=True,
        lo=0,
        hi=1,
        kind=float,
        drawn=False,
    )
    ratio: tuple[float, float] = param(
        (0.3, 3.3),
        "range of the region's ratio of height to width",
        size=2,
        ordered=True,
        lo=0.001,
        hi=1000,
        kind=float,
        drawn=False,
    )

    samples_together = True
    derived = (*_Regions.traits.derived, ("draws", 4 * _ATTEMPTS))
    examples = (
        {"seed": 1},
        {"scale": (0.2, 0.6), "p": 0.5, "fill_value": 10.0, "seed": 3},
    )

    def sample(self, rng: np.random.Generator, spec: Spec) -> dict[str, Any]:
        """Sample four numbers from 0 to 1 for each attempt, so that they do not depend on the size of the image."""
        shape = (spec.frames, 4 * _ATTEMPTS) if self.per_frame else (4 * _ATTEMPTS,)
        return {"draws": rng.random(shape, np.float32)}

    def boxes(self, p: Any, height: int, width: int) -> IntArray:
        """Return the region of the first attempt that fits; an empty one if none does."""
        regions = [
            self._region(numbers, height, width) for numbers in p.draws.reshape(-1, 4 * _ATTEMPTS).tolist()
        ]
        return np.array(regions, np.int64).reshape(*p.draws.shape[:-1], 1, 4)

    def _region(self, numbers: Seq[float], height: int, width: int) -> tuple[int, int, int, int]:
        """Return the region of the first attempt that fits, from four numbers each; an empty one if none does."""
        least, most = self.scale
        lo, hi = self._log_ratio
        for first in range(0, len(numbers), 4):
            area = height * width * (least + (most - least) * numbers[first])
            aspect = math.exp(lo + (hi - lo) * numbers[first + 1])
            rows, columns = round(math.sqrt(area * aspect)), round(math.sqrt(area / aspect))
            if rows < height and columns < width:
                top = math.floor(numbers[first + 2] * (height + 1 - rows))
                left = math.floor(numbers[first + 3] * (width + 1 - columns))
                return top, left, top + rows, left + columns
        return 0, 0, 0, 0

    @cached_property
    def _log_ratio(self) -> tuple[float, float]:
        lo, hi = self.ratio
        return math.log(lo), math.log(hi)
