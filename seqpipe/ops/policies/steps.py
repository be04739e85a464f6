"""Policy steps: an operator for each, and the mapping from magnitude to its parameters."""

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
    """What a step of a policy does to one sample.

    Attributes:
        op: its operator.
        values: parameters of the operator, by its magnitude and the sample.
        sized: whether they depend on the sample's size; otherwise on its type alone.
    """

    op: type[Op]
    values: Callable[[float, Spec], dict[str, Any]]
    sized: bool = False


def _moved(x: float, y: float) -> dict[str, Any]:
    """A translation to the right and down, by whole pixels as in torchvision: what is beyond them is cut off."""
    # a thousandth of a pixel is what float32 may have added
    right, down = (math.trunc(round(way, 3)) for way in (x, y))
    return {"matrix": (1, 0, -right, 0, 1, -down)}


_TURN: Final = Rotate(angle=1.0, keep_size=True)


def _turned(angle: float, spec: Spec) -> dict[str, Any]:
    """A rotation as a matrix, so that it is done together with other maps."""
    mapping = _TURN.mapping(SimpleNamespace(angle=angle, aspect=1.0), spec.height, spec.width)
    return {"matrix": mapping.matrix[:2].ravel()}


STEPS: Final[dict[str, PolicyStep]] = {
    "shear_x": PolicyStep(WarpAffine, lambda m, _: {"matrix": (1, m, 0, 0, 1, 0)}),
    "shear_y": PolicyStep(WarpAffine, lambda m, _: {"matrix": (1, 0, 0, m, 1, 0)}),
    "translate_x": PolicyStep(WarpAffine, lambda m, _: _moved(m, 0), sized=True),
    "translate_y": PolicyStep(WarpAffine, lambda m, _: _moved(0, m), sized=True),
    "rotate": PolicyStep(WarpAffine, _turned, sized=True),
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
"""The steps by their names, but for ``identity``, which is none. Translations are in pixels here."""
