"""Policy steps: the operator of each, and the mapping from magnitude to its parameters."""

from __future__ import annotations

import math
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, Final, NamedTuple

from ..call.op import Op
from ..color.brightness import Brightness
from ..color.hue import Saturation
from ..color.tone import AutoContrast, Equalize, Invert, Posterize, Solarize
from ..core.spec import Spec, full_range
from ..geometry.warp import Rotate, WarpAffine
from .enhance import MeanContrast, Sharpness

__all__ = ["STEPS", "PolicyStep"]


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
