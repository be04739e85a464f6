"""Published tables of augmentation policies: magnitude ranges, and the policies of AutoAugment.

Sources: E. D. Cubuk and others, "AutoAugment: Learning augmentation policies from data", 2019; E. D. Cubuk and others,
"RandAugment: Practical automated data augmentation with a reduced search space", 2020; S. G. Müller and F. Hutter,
"TrivialAugment: Tuning-free yet state-of-the-art data augmentation", 2021. Where papers and their code differ, the
numbers are torchvision's, which most later results use.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache
from types import SimpleNamespace
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt

from ...array import Array, namespace
from ..call.backends import apply_table
from ..call.op import Op
from ..color.adjust import Brightness, Saturation
from ..color.tone import AutoContrast, Equalize, Invert, Posterize, Solarize
from ..core.distributions import Number
from ..core.parameters import param
from ..core.spec import TABLE_DTYPES, Spec, full_range, put
from ..core.traits import Body
from ..geometry.warp import Rotate, WarpAffine

__all__ = [
    "AUTO",
    "AUTO_BINS",
    "FOUND",
    "NARROW",
    "STEPS",
    "WIDE",
    "MagnitudeRange",
    "MeanContrast",
    "PolicyStep",
    "Sharpness",
]

_CHANNELS: Final = 4  # most channels that OpenCV filters together
_LUMA: Final = np.array((0.299, 0.587, 0.114), np.float32)


class MeanContrast(Op, register=False):
    """Change contrast around the mean luma of each frame.

    ``out = mean + contrast * (in - mean)``, where ``mean`` is that of ``0.299 R + 0.587 G + 0.114 B``, rounded to an
    integer like the luma of each pixel.
    """

    contrast: Number = param(1.0, "factor of the distance from the mean", lo=0, identity=1.0)

    dtypes = TABLE_DTYPES
    channels = (3, 1)
    takes_raw = True

    def reference(self, x: Array, p: Any) -> Array:
        """Change each frame around its own mean."""
        return _around(x, namespace(x).array(_means(x), np.float32).reshape(-1, 1, 1, 1), p.contrast)

    def cpu(self, x: Array, p: Any) -> Array:
        """Compute uint8 by a table for each frame."""
        if x.dtype != np.uint8:
            return self.reference(x.astype(np.float32), p)
        tables = [_table(mean, float(p.contrast)) for mean in _means(x)]
        if len(tables) == 1:
            return apply_table(x, tables[0])
        return np.stack([apply_table(frame, table) for frame, table in zip(x, tables, strict=True)])

    body = Body(
        "surveyed",
        """constexpr bool LUMA = true;
__device__ __forceinline__ Real changed(Real value, const Known& known, const Row& row) {
    return (value - known.mean) * row.contrast + known.mean;
}""",
    )


class Sharpness(Op, register=False):
    """Blend images with the result of a 3×3 smoothing filter.

    ``out = smooth + amount * (in - smooth)``, where ``smooth`` is the mean of the window with five times the weight for
    its center, rounded to an integer. Pixels at the border stay unchanged.
    """

    amount: Number = param(1.0, "0 smooths, 1 changes nothing, 2 sharpens", lo=0, identity=1.0)

    dtypes = TABLE_DTYPES
    takes_raw = True

    def reference(self, x: Array, p: Any) -> Array:
        """Sum all nine pixels and four times the center."""
        library = namespace(x)
        height, width = x.shape[1:3]
        out = x.copy()
        if min(height, width) < 3:
            return out
        center = x[:, 1:-1, 1:-1]
        lines = x[:, :-2] + x[:, 1:-1] + x[:, 2:]
        total = lines[:, :, :-2] + lines[:, :, 1:-1] + lines[:, :, 2:] + center * np.float32(4)
        smooth = library.rint(total / np.float32(13))
        out[:, 1:-1, 1:-1] = smooth + (center - smooth) * p.amount
        return out

    def cpu(self, x: Array, p: Any) -> Array:
        """Sum by OpenCV."""
        floats = x.astype(np.float32)
        if x.shape[-1] > _CHANNELS or min(x.shape[1:3]) < 3:
            return self.reference(floats, p)
        import cv2

        inside = slice(1, -1), slice(1, -1)
        for frame in floats:
            smooth = cv2.boxFilter(frame, -1, (3, 3), normalize=False).reshape(frame.shape)
            smooth += frame * np.float32(4)
            smooth /= np.float32(13)
            np.rint(smooth, out=smooth)
            apart = frame - smooth
            apart *= p.amount
            apart += smooth
            frame[inside] = apart[inside]
        return floats

    body = Body("smoothed")


def _around(x: Array, means: Any, contrast: Any) -> Array:
    """Scale the distance of values from their mean."""
    return (x - means) * contrast + means


@lru_cache(maxsize=4096)  # there are 256 means, and policies have few contrasts
def _table(mean: int, contrast: float) -> npt.NDArray[np.uint8]:
    """Return the table of results for uint8."""
    table = np.empty(256, np.uint8)
    put(table, _around(np.arange(256, dtype=np.float32), mean, np.float32(contrast)))
    return table


def _means(x: Array) -> list[int]:
    """Return the rounded mean luma of each frame."""
    library = namespace(x)
    luma = x
    if x.shape[-1] == 3:
        parts = x * library.asarray(_LUMA)
        luma = parts[..., 0] + parts[..., 1]
        luma += parts[..., 2]
        library.rint(luma, luma)
    # integer sums, which double precision holds
    sums = luma.sum(axis=(1, 2) if luma.ndim == 3 else (1, 2, 3), dtype=np.float64).tolist()
    pixels = x.shape[1] * x.shape[2]
    return [math.floor(total / pixels + 0.5) for total in sums]


class PolicyStep(NamedTuple):
    """A step of a policy.

    Attributes:
        op: its operator.
        values: parameters of the operator for a magnitude and a sample.
        sized: whether they depend on the size of the sample; otherwise on its dtype alone.
    """

    op: type[Op]
    values: Callable[[float, Spec], dict[str, Any]]
    sized: bool = False


def _translation(x: float, y: float) -> dict[str, Any]:
    """Return a translation to the right and down, truncated to whole pixels as in torchvision."""
    # rounding removes errors of float32
    right, down = (math.trunc(round(offset, 3)) for offset in (x, y))
    return {"matrix": (1, 0, -right, 0, 1, -down)}


_TURN: Final = Rotate(angle=1.0, keep_size=True)


def _rotation(angle: float, spec: Spec) -> dict[str, Any]:
    """Return a rotation as a matrix, so that it shares launches with other warps."""
    mapping = _TURN.mapping(SimpleNamespace(angle=angle, aspect=1.0), spec.height, spec.width)
    return {"matrix": mapping.matrix[:2].ravel()}


STEPS: Final[dict[str, PolicyStep]] = {
    "shear_x": PolicyStep(WarpAffine, lambda m, _: {"matrix": (1, m, 0, 0, 1, 0)}),
    "shear_y": PolicyStep(WarpAffine, lambda m, _: {"matrix": (1, 0, 0, m, 1, 0)}),
    "translate_x": PolicyStep(WarpAffine, lambda m, _: _translation(m, 0), sized=True),
    "translate_y": PolicyStep(WarpAffine, lambda m, _: _translation(0, m), sized=True),
    "rotate": PolicyStep(WarpAffine, _rotation, sized=True),
    "brightness": PolicyStep(Brightness, lambda m, _: {"brightness": 1 + m}),
    "color": PolicyStep(Saturation, lambda m, _: {"saturation": 1 + m}),
    "contrast": PolicyStep(MeanContrast, lambda m, _: {"contrast": 1 + m}),
    "sharpness": PolicyStep(Sharpness, lambda m, _: {"amount": 1 + m}),
    "posterize": PolicyStep(Posterize, lambda m, _: {"bits": round(m)}),
    "solarize": PolicyStep(Solarize, lambda m, spec: {"threshold": m * full_range(spec.dtype)}),
    "auto_contrast": PolicyStep(AutoContrast, lambda *_: {}),
    "equalize": PolicyStep(Equalize, lambda *_: {}),
    "invert": PolicyStep(Invert, lambda *_: {}),
}
"""The steps by name; ``identity`` has none. Translations are in pixels here."""


class MagnitudeRange(NamedTuple):
    """Evenly spaced magnitudes of a step, one for each bin.

    Attributes:
        first: magnitude of bin 0.
        last: magnitude of the last bin.
        signed: whether the sign is random.
    """

    first: float = 0.0
    last: float = 0.0
    signed: bool = False


_ALONE: Final = MagnitudeRange()  # a step without a magnitude

NARROW: Final = {
    "identity": _ALONE,
    "shear_x": MagnitudeRange(0.0, 0.3, signed=True),
    "shear_y": MagnitudeRange(0.0, 0.3, signed=True),
    "translate_x": MagnitudeRange(0.0, 150 / 331, signed=True),
    "translate_y": MagnitudeRange(0.0, 150 / 331, signed=True),
    "rotate": MagnitudeRange(0.0, 30.0, signed=True),
    "brightness": MagnitudeRange(0.0, 0.9, signed=True),
    "color": MagnitudeRange(0.0, 0.9, signed=True),
    "contrast": MagnitudeRange(0.0, 0.9, signed=True),
    "sharpness": MagnitudeRange(0.0, 0.9, signed=True),
    "posterize": MagnitudeRange(8.0, 4.0),
    "solarize": MagnitudeRange(1.0, 0.0),
    "auto_contrast": _ALONE,
    "equalize": _ALONE,
}
"""The steps of RandAugment. Translations are relative to width or height, thresholds to the range of values;
brightness, color, contrast and sharpness are factors minus 1; posterize has bits."""

WIDE: Final = {
    **NARROW,
    **dict.fromkeys(("shear_x", "shear_y"), MagnitudeRange(0.0, 0.99, signed=True)),
    **dict.fromkeys(("translate_x", "translate_y"), MagnitudeRange(0.0, 32.0, signed=True)),
    "rotate": MagnitudeRange(0.0, 135.0, signed=True),
    **dict.fromkeys(("brightness", "color", "contrast", "sharpness"), MagnitudeRange(0.0, 0.99, signed=True)),
    "posterize": MagnitudeRange(8.0, 2.0),
}
"""The steps of TrivialAugment with wide ranges; translations are in pixels."""

AUTO: Final = {**NARROW, "invert": _ALONE}
"""The steps of AutoAugment."""

AUTO_BINS: Final = 10
"""Number of magnitudes of the policies of :data:`FOUND`."""

_IMAGENET: Final = """
posterize 0.4 8, rotate 0.6 9
solarize 0.6 5, auto_contrast 0.6
equalize 0.8, equalize 0.6
posterize 0.6 7, posterize 0.6 6
equalize 0.4, solarize 0.2 4
equalize 0.4, rotate 0.8 8
solarize 0.6 3, equalize 0.6
posterize 0.8 5, equalize 1.0
rotate 0.2 3, solarize 0.6 8
equalize 0.6, posterize 0.4 6
rotate 0.8 8, color 0.4 0
rotate 0.4 9, equalize 0.6
equalize 0.0, equalize 0.8
invert 0.6, equalize 1.0
color 0.6 4, contrast 1.0 8
rotate 0.8 8, color 1.0 2
color 0.8 8, solarize 0.8 7
sharpness 0.4 7, invert 0.6
shear_x 0.6 5, equalize 1.0
color 0.4 0, equalize 0.6
equalize 0.4, solarize 0.2 4
solarize 0.6 5, auto_contrast 0.6
invert 0.6, equalize 1.0
color 0.6 4, contrast 1.0 8
equalize 0.8, equalize 0.6
"""

_CIFAR10: Final = """
invert 0.1, contrast 0.2 6
rotate 0.7 2, translate_x 0.3 9
sharpness 0.8 1, sharpness 0.9 3
shear_y 0.5 8, translate_y 0.7 9
auto_contrast 0.5, equalize 0.9
shear_y 0.2 7, posterize 0.3 7
color 0.4 3, brightness 0.6 7
sharpness 0.3 9, brightness 0.7 9
equalize 0.6, equalize 0.5
contrast 0.6 7, sharpness 0.6 5
color 0.7 7, translate_x 0.5 8
equalize 0.3, auto_contrast 0.4
translate_y 0.4 3, sharpness 0.2 6
brightness 0.9 6, color 0.2 8
solarize 0.5 2, invert 0.0
equalize 0.2, auto_contrast 0.6
equalize 0.2, equalize 0.6
color 0.9 9, equalize 0.6
auto_contrast 0.8, solarize 0.2 8
brightness 0.1 3, color 0.7 0
solarize 0.4 5, auto_contrast 0.9
translate_y 0.9 9, translate_y 0.7 9
auto_contrast 0.9, solarize 0.8 3
equalize 0.8, invert 0.1
translate_y 0.7 9, auto_contrast 0.9
"""

_SVHN: Final = """
shear_x 0.9 4, invert 0.2
shear_y 0.9 8, invert 0.7
equalize 0.6, solarize 0.6 6
invert 0.9, equalize 0.6
equalize 0.6, rotate 0.9 3
shear_x 0.9 4, auto_contrast 0.8
shear_y 0.9 8, invert 0.4
shear_y 0.9 5, solarize 0.2 6
invert 0.9, auto_contrast 0.8
equalize 0.6, rotate 0.9 3
shear_x 0.9 4, solarize 0.3 3
shear_y 0.8 8, invert 0.7
equalize 0.9, translate_y 0.6 6
invert 0.9, equalize 0.6
contrast 0.3 3, rotate 0.8 4
invert 0.8, translate_y 0.0 2
shear_y 0.7 6, solarize 0.4 8
invert 0.6, rotate 0.8 4
shear_y 0.3 7, translate_x 0.9 3
shear_x 0.1 6, invert 0.6
solarize 0.7 2, translate_y 0.6 7
shear_y 0.8 4, invert 0.8
shear_x 0.7 9, translate_y 0.8 3
shear_y 0.8 5, auto_contrast 0.7
shear_x 0.7 2, invert 0.1
"""

_Found = tuple[tuple[str, float, int], ...]


def _read(table: str) -> tuple[_Found, ...]:
    """Parse the lines of a table: steps with name, probability and bin, which is 0 for steps without a magnitude."""
    lines = ([part.split() for part in line.split(",")] for line in table.strip().splitlines())
    return tuple(tuple((name, float(p), int(*rest)) for name, p, *rest in line) for line in lines)


FOUND: Final = {"imagenet": _read(_IMAGENET), "cifar10": _read(_CIFAR10), "svhn": _read(_SVHN)}
"""The policies of AutoAugment, 25 pairs of steps each: names, probabilities and bins. A sample gets one pair, and each
of its steps acts with its probability."""
