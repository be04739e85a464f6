"""Window filters, which are not separable."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import numpy.typing as npt

from ...array import Array
from ..call.op import OutputDtype
from ..core.distributions import Number
from ..core.parameters import MATRIX, param
from ..core.spec import Spec
from ..core.traits import Body
from ..cuda.kernel import widened
from .base import REACH, WHOLE, Neighbors, by_frame, extended

__all__ = ["Filter", "MedianBlur"]

_REACH: Final = {
    (3, 3): 0,
    (5, 5): 1,
}  # kernel of filter.cuh by window; 2 for all others
_MOST_WEIGHT: Final = 1e30  # greatest weight of that kernel, which multiplies weights by 2²³
_MOST_WEIGHTS: Final = 625  # so that the weights fit into the arguments of a launch


class Filter(OutputDtype, Neighbors):
    """Correlate images with a kernel, which is not flipped, as in DALI.

    ``out[y, x] = sum of kernel[i, j] * in[y + i - anchor[0], x + j - anchor[1]]``, for each channel.
    """

    kernel: tuple[tuple[float, ...], ...] = param(
        ((1.0,),), "weights of the kernel", kind=float, size=MATRIX, identity=((1.0,),)
    )
    anchor: tuple[int, int] | None = param(
        None,
        "row and column of the kernel that lies on the output pixel; None for the center",
        kind=int,
        size=2,
        lo=0,
        drawn=False,
    )

    cpu_tolerance = (1, 0.02)  # of integers, by OpenCV, which sums in another order
    examples = (
        {"kernel": ((-1.0, 0.0, 1.0), (-2.0, 0.5, 2.0), (-1.0, 0.0, 1.0)), "p": 0.8},
        {"kernel": ((0.125, 0.25, 0.3, 0.2),), "anchor": (0, 3), "pad_mode": "edge"},
        {"kernel": ((0.1,), (0.7,)), "pad_mode": "constant", "fill_value": 50.0, "dtype": "float32"},
    )
    errors = (
        ({"kernel": ((1.0,) * 26,) * 25}, "a kernel of 25×26 weights; allowed: up to 625 weights"),
        (
            {"kernel": ((1.0, 2.0),), "anchor": (0, 2)},
            r"anchor=\(0, 2\) lies outside of the kernel; allowed: .* \(0, 1\)",
        ),
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        rows, columns = self._window
        if rows * columns > _MOST_WEIGHTS:
            raise self.refusal(
                f"a kernel of {rows}×{columns} weights", allowed=f"up to {_MOST_WEIGHTS} weights"
            )
        if self.anchor and (self.anchor[0] >= rows or self.anchor[1] >= columns):
            raise self.refusal(
                f"anchor={self.anchor} lies outside of the kernel", allowed=f"up to {(rows - 1, columns - 1)}"
            )

    @property
    def _window(self) -> tuple[int, int]:
        """Rows and columns of the kernel."""
        return len(self.kernel), len(self.kernel[0])

    @property
    def _center(self) -> tuple[int, int]:
        """The anchor; by default the center of the kernel."""
        rows, columns = self._window
        return self.anchor or (rows // 2, columns // 2)

    def reference(self, x: Array, p: Any) -> Array:
        """Sum the products with each weight in row-major order."""
        (rows, columns), (up, left) = self._window, self._center
        around = extended(x, 1, rows, self.pad_mode, p.beyond, up)
        around = extended(around, 2, columns, self.pad_mode, p.beyond, left)
        height, width = x.shape[1:3]
        total = None
        for i, line in enumerate(self.kernel):
            for j, weight in enumerate(line):
                part = around[:, i : i + height, j : j + width] * np.float32(weight)
                total = part if total is None else total + part
        return total

    def cpu(self, x: Array, p: Any) -> Array:
        """Compute integers by OpenCV."""
        weights, anchor = np.array(self.kernel, np.float32), self._center[::-1]
        gain = float(np.abs(weights).sum(dtype=np.float64))
        whole = gain * 2.0**p.bits <= WHOLE and bool((weights == np.rint(weights)).all())
        border = self.opencv_border(x, p, 0.0 if whole else gain)
        if border is None:
            return self.reference(x, p)
        import cv2

        return by_frame(
            np.ascontiguousarray(x),
            lambda x: cv2.filter2D(x, cv2.CV_32F, weights, anchor=anchor, borderType=border),
        )

    def kernel_rows(self, rows: npt.NDArray[Any], spec: Spec) -> npt.NDArray[Any]:  # noqa: ARG002  equal for all sizes
        """Return the kernel rows."""
        result = widened(rows, self.kernel_dtype())
        weights = np.array(self.kernel, np.float32).ravel()
        result["window"], result["anchor"], result["weights"][:, : weights.size] = (
            self._window,
            self._center,
            weights,
        )
        short = (
            self._center == (self._window[0] // 2, self._window[1] // 2)
            and np.abs(weights).max() < _MOST_WEIGHT
        )
        result["reach"] = result["acts"] * (_REACH.get(self._window, 2) if short else 2)
        return result

    body = Body("filter")
    kernel_fields = (
        REACH,
        ("window", np.int32, (2,)),
        ("anchor", np.int32, (2,)),
        ("weights", np.float32, (_MOST_WEIGHTS,)),
    )


class MedianBlur(Neighbors):
    """Replace each pixel by the median of a square window, channel by channel.

    With an even number of values, the median is the greater of the two middle ones, and the center is the pixel right
    of and below the middle, as in SciPy.
    """

    window_size: Number = param(3, "height and width of the window", unit="pixels", lo=1, hi=15, identity=1)

    examples = (
        {},
        {"window_size": (2, 4), "seed": 2},
        {"window_size": 5, "pad_mode": "constant", "fill_value": 30.0},
    )

    def reference(self, x: Array, p: Any) -> Array:
        """Partition the values of each window."""
        size = p.window_size
        around = self.padded(x, p, (size, size))
        windows = np.lib.stride_tricks.sliding_window_view(around, (size, size), (1, 2))
        middle = size * size // 2
        result: Array = np.partition(windows.reshape(*x.shape, size * size), middle, axis=-1)[..., middle]
        return result

    def cpu(self, x: Array, p: Any) -> Array:
        """Compute by OpenCV if it supports the window and the dtype."""
        size, channels = p.window_size, x.shape[-1]
        if size % 2 == 0 or channels not in (1, 3, 4) or (size > 5 and p.bits != 8):
            return self.reference(x, p)
        import cv2

        padded = self.padded(x, p, (size, size))
        if not p.bits and np.isnan(padded).any():  # OpenCV does not order NaN
            return self.reference(x, p)
        around = np.ascontiguousarray(padded, np.uint8 if p.bits == 8 else np.float32)
        half = size // 2
        inner = slice(half, half + x.shape[1]), slice(half, half + x.shape[2])
        result = [cv2.medianBlur(frame, size)[inner] for frame in around]
        return np.stack(result).reshape(x.shape).astype(np.float32)

    def kernel_rows(self, rows: npt.NDArray[Any], spec: Spec) -> npt.NDArray[Any]:  # noqa: ARG002  equal for all sizes
        """Return the kernel rows."""
        result = widened(rows, self.kernel_dtype())
        result["reach"] = result["acts"] * (result["window_size"] != 3)
        return result

    body = Body("median")
    kernel_fields = (REACH,)
