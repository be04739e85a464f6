"""Operators that change tones: autocontrast, equalization, gamma, inversion, posterization, solarization."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import numpy.typing as npt

from ...array import Array, namespace
from ..call.op import Op, Ranged
from ..core.distributions import Number
from ..core.parameters import param
from ..core.spec import RANGES, TABLE_DTYPES, Spec, put
from ..core.traits import Body

__all__ = ["AutoContrast", "Equalize", "Gamma", "Invert", "Posterize", "Solarize"]

_TABLE_ENTRIES: Final = 256  # entries of a table for uint8
_MERGED: Final = 4  # most channels for which OpenCV supports separate tables
_PLANES: Final = 128  # most channels that OpenCV supports


class AutoContrast(Ranged):
    """Stretch the values of each frame and channel to the whole range.

    ``out = least + width * (in - lowest) / (highest - lowest)``, where ``least`` and ``width`` are those of the range,
    or of all values of the dtype: Pillow's ``ImageOps.autocontrast`` and torchvision's, which truncate results where
    this rounds them. A constant channel stays unchanged.
    """

    takes_raw = True
    derived = ("least", "width")
    examples = ({}, {"p": 0.5, "seed": 1})

    def derive(self, rows: npt.NDArray[Any], spec: Spec) -> dict[str, Any]:  # noqa: ARG002  one for all
        """Derive the least value and the width of the range."""
        least, most, _ = self.intensities(spec)
        if self.range in (None, "dtype"):
            least, most = RANGES.get(spec.dtype, (0, 1))
        return {"least": least, "width": most - least}

    def reference(self, x: Array, p: Any) -> Array:
        """Stretch each plane by its own extremes, ignoring NaN."""
        library = namespace(x)
        lowest = library.fmin(x, np.inf).min(axis=(1, 2), keepdims=True)
        highest = library.fmax(x, -np.inf).max(axis=(1, 2), keepdims=True)
        reach = highest - lowest
        spread = (x - lowest) * p.width / library.where(reach > 0, reach, 1) + p.least
        return library.where(reach > 0, spread, x)

    def cpu(self, x: Array, p: Any) -> Array:
        """Use a table for each uint8 plane with more pixels than a table has entries."""
        if x.dtype.kind != "f" and x.shape[1] * x.shape[2] <= _TABLE_ENTRIES:
            return self._of_few(x, p)
        if x.dtype != np.uint8 or x.shape[-1] > _MERGED:
            return self.reference(x.astype(np.float32), p)
        import cv2

        out = np.empty_like(x)
        values = np.arange(256, dtype=np.float32).reshape(1, 256, 1, 1)
        for frame, into in zip(np.ascontiguousarray(x), out, strict=True):
            ends = [cv2.minMaxLoc(plane)[:2] for plane in cv2.split(frame)]
            tables = np.stack([values.clip(*pair) for pair in ends], axis=-1).reshape(1, 256, 1, -1)
            table = np.empty((256, 1, x.shape[-1]), np.uint8)
            put(table, self.reference(tables, p)[0])
            into[...] = cv2.LUT(frame, table).reshape(frame.shape)
        return out

    def _of_few(self, x: npt.NDArray[Any], p: Any) -> Array:
        """Compute the formula for few integers, which are never NaN, with contiguous planes."""
        planes = x.reshape(len(x), -1, x.shape[3]).swapaxes(1, 2).astype(np.float32, "C")
        lowest = np.minimum.reduce(planes, 2, keepdims=True)
        reach = np.maximum.reduce(planes, 2, keepdims=True)
        reach -= lowest
        if 0 in reach.ravel().tolist():
            return self.reference(x.astype(np.float32), p)
        planes -= lowest
        planes *= p.width
        planes /= reach
        if p.least:
            planes += p.least
        result = np.empty(planes.shape, x.dtype)
        put(result, planes)
        return np.ascontiguousarray(result.swapaxes(1, 2)).reshape(x.shape)

    body = Body(
        "surveyed",
        """constexpr bool LUMA = false;
__device__ __forceinline__ Real changed(Real value, const Known& known, const Row& row) {
    const Real reach = known.highest - known.lowest;
    return reach > 0.0f ? (value - known.lowest) * row.width / reach + row.least : value;
}""",
    )


class Equalize(Op):
    """Equalize the histogram of each frame and channel over the whole range.

    ``out = range * (number of pixels up to in - number of lowest) / (number of pixels - number of lowest)``: the
    histogram equalization of OpenCV's ``equalizeHist`` and of DALI, for 16 bits as well. A constant channel stays
    unchanged.
    """

    dtypes = TABLE_DTYPES
    takes_raw = True
    derived = ("least", "bins")
    examples = ({}, {"p": 0.5, "seed": 2})

    def derive(self, rows: npt.NDArray[Any], spec: Spec) -> dict[str, Any]:  # noqa: ARG002  it follows from the type
        """Derive the least value of the dtype, and the number of its values."""
        least, most = RANGES[spec.dtype]
        return {"least": least, "bins": most - least + 1}

    def reference(self, x: Array, p: Any) -> Array:
        """Equalize each plane by its own histogram."""
        out = namespace(x).empty_like(x)
        for frame, into in zip(x, out, strict=True):
            for channel in range(x.shape[-1]):
                values = frame[..., channel].astype(np.int32) - int(p.least)
                into[..., channel] = _equalized(values, int(p.bins)) + p.least
        return out

    def cpu(self, x: Array, p: Any) -> Array:
        """Equalize uint8 by OpenCV."""
        if p.bins != 256 or x.shape[-1] > _PLANES:
            return self.reference(x.astype(np.float32), p)
        import cv2

        out = np.empty_like(x)
        for frame, into in zip(np.ascontiguousarray(x), out, strict=True):
            planes = [cv2.equalizeHist(plane) for plane in cv2.split(frame)]
            into[...] = cv2.merge(planes).reshape(frame.shape)
        return out

    body = Body("equalize")


def _equalized(values: Array, bins: int) -> Array:
    """Equalize a plane of integers from 0."""
    library = namespace(values)
    counts = library.bincount(values.ravel(), minlength=bins)
    lowest = counts[int((counts > 0).argmax())]
    rest = values.size - int(lowest)
    if rest == 0:
        return values
    up_to = (counts.cumsum() - lowest).astype(np.float32)
    return library.rint(up_to * (np.float32(bins - 1) / np.float32(rest)))[values]


class Gamma(Ranged):
    """Apply a power law to values.

    ``out = lo + width * gain * ((in - lo) / width) ** gamma``, where ``width`` is the width of the range and ``lo`` its
    least value: a gamma below 1 brightens dark pixels. Values below the range are changed symmetrically to those above
    its least value. The formula equals torchvision's ``adjust_gamma`` and scikit-image's.
    """

    gamma: Number = param(1.0, "exponent", lo=0, hi=100, identity=1.0)
    gain: Number = param(1.0, "factor of the result", lo=0, identity=1.0)

    pointwise = True
    derived = ("low", "width", "top")
    derived_from = ("gain",)
    tolerance = (8, 1)  # of floats: libraries round powers differently; integers hardly ever differ
    examples = (
        {"gamma": 2.2},
        {"gamma": (0.4, 2.5), "seed": 1},
        {"gamma": 0.45, "gain": 0.75},
    )

    def derive(self, rows: npt.NDArray[Any], spec: Spec) -> dict[str, Any]:
        """Derive the least value and the width of the range, and the width times the gain."""
        known = self.intensities(spec)
        return {"low": known.lo, "width": known.width, "top": rows["gain"] * known.width}

    def reference(self, x: Array, p: Any) -> Array:
        """Compute the formula."""
        above = x - p.low
        return namespace(x).copysign((abs(above) / p.width) ** p.gamma * p.top, above) + p.low

    body = Body(
        "value",
        "const Real above = value - row.low;\n"
        "    const Real power = powf((Real(fabsf(above.v)) / row.width).v, row.gamma.v);\n"
        "    value = Real(copysignf((power * row.top).v, above.v)) + row.low;",
    )


class Invert(Ranged):
    """Invert values.

    ``out = least + greatest - in``, the ends of the range; for the range of a dtype, its greatest value, 1 for floats,
    minus the value.
    """

    pointwise = True
    derived = ("ends",)
    examples = ({}, {"p": 0.5, "seed": 3})

    def derive(self, rows: npt.NDArray[Any], spec: Spec) -> dict[str, Any]:  # noqa: ARG002  one for all
        """Derive the sum of the ends of the range."""
        known = self.intensities(spec)
        return {"ends": known.lo + known.hi}

    def reference(self, x: Array, p: Any) -> Array:
        """Compute the formula."""
        return p.ends - x

    body = Body("value", "value = row.ends - value;")

    def inverse(self) -> Op:
        """Return the operator itself."""
        return self


class Posterize(Ranged):
    """Keep only the highest bits of values.

    ``out = floor((in - least) / step) * step + least``, where ``step`` is the range divided by ``2 ** bits``: for
    unsigned integers all other bits become 0, as in Pillow and torchvision; int16 has 15 bits and its sign. Floats are
    clipped to values from 0 to ``1 - step``, as in torchvision; with an explicit range, values are clipped to its least
    value and to a step below its greatest.
    """

    bits: Number = param(4, "number of bits to keep", kind=int, lo=0, hi=16)

    pointwise = True
    derived = ("low", "step", "least", "most")
    examples = ({"bits": 3}, {"bits": (1, 6), "seed": 4}, {})

    def derive(self, rows: npt.NDArray[Any], spec: Spec) -> dict[str, Any]:
        """Derive the step, and the least and greatest result in steps."""
        levels = np.exp2(rows["bits"].astype(np.float64))
        known = self.intensities(spec)
        if self.range not in (None, "dtype") or spec.dtype not in RANGES:
            return {"low": known.lo, "step": known.width / levels, "least": 0, "most": levels - 1}
        least, most = RANGES[spec.dtype]
        step = np.maximum((most + 1) / levels, 1)
        return {"low": 0, "step": step, "least": least // step, "most": (most + 1) / step - 1}

    def reference(self, x: Array, p: Any) -> Array:
        """Compute the formula, and clip it."""
        library = namespace(x)
        steps = library.floor((x - p.low) / p.step)
        return library.fmin(library.fmax(steps, p.least), p.most) * p.step + p.low

    body = Body(
        "value",
        "const float steps = floorf(((value - row.low) / row.step).v);\n"
        "    value = Real(fminf(fmaxf(steps, row.least.v), row.most.v)) * row.step + row.low;",
    )


class Solarize(Ranged):
    """Invert values from a threshold.

    ``out = least + greatest - in`` where ``in >= threshold``, else ``in``, as in Pillow and torchvision; ``least`` and
    ``greatest`` are the ends of the range: 0 and the greatest value of a dtype, 1 for floats.
    """

    threshold: Number = param(None, "minimum value to invert; None for the middle of the range", kind=float)

    pointwise = True
    derived = ("ends", "least")
    examples = ({}, {"threshold": (0.0, 256.0), "seed": 5}, {"threshold": 100.0})

    def derive(self, rows: npt.NDArray[Any], spec: Spec) -> dict[str, Any]:
        """Derive the sum of the ends of the range, and the threshold."""
        threshold, known = rows["threshold"], self.intensities(spec)
        return {"ends": known.lo + known.hi, "least": np.where(np.isnan(threshold), known.middle, threshold)}

    def reference(self, x: Array, p: Any) -> Array:
        """Compute the formula."""
        return namespace(x).where(x < p.least, x, p.ends - x)

    body = Body("value", "if (!(value < row.least)) value = row.ends - value;")
