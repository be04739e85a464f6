"""OutputSpec: what a decoded frame is to become. No pixels here, and no library that handles them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final, Literal

from ..errors import ParameterError
from ..param import Param, choice
from .geometry import Placement, place
from .info import StreamInfo

__all__ = ["COLOUR", "CROP", "DTYPE", "MAX_SIDE", "ROTATE", "SHORT_SIDE", "SIZE", "Colour", "OutputSpec"]

Colour = Literal["RGB", "BGR", "GRAY", "YCbCr"]
_MAX_SIDE_PX = 32768

COLOUR: Final = choice(
    "colour",
    "what the channels are; GRAY is full-range luma, YCbCr the stream's own code values",
    ("RGB", "BGR", "GRAY", "YCbCr"),
)
DTYPE: Final = choice(
    "dtype",
    "type of a value; uint16 spans 0 to 65535 whatever the stream's depth, YCbCr excepted",
    ("uint8", "uint16"),
)
ROTATE: Final = Param(name="rotate", doc="apply the rotation that the container asks for", kind=bool)
SHORT_SIDE: Final = Param(
    name="short_side",
    doc="scale so that the shorter side has this length",
    unit="pixels",
    lo=1,
    hi=_MAX_SIDE_PX,
    optional=True,
)
MAX_SIDE: Final = Param(
    name="max_side",
    doc="shrink so that the longer side has at most this length",
    unit="pixels",
    lo=1,
    hi=_MAX_SIDE_PX,
    optional=True,
)
SIZE: Final = Param(
    name="size", doc="exact width and height of the result", unit="pixels", lo=1, hi=_MAX_SIDE_PX
)
CROP: Final = Param(
    name="crop", doc="x, y, width and height of the part to show", unit="pixels", lo=0, hi=_MAX_SIDE_PX
)


@dataclass(frozen=True)
class OutputSpec:
    """What a decoded frame is to become.

    Attributes:
        colour: ``"RGB"``, ``"BGR"``, ``"GRAY"`` (full-range luma, one channel) or ``"YCbCr"`` (the stream's
            own code values with chroma upsampled, no matrix).
        dtype: ``"uint8"`` or ``"uint16"``. Colours span 0…255 or 0…65535 for every bit depth. Code values of
            YCbCr stay as they are in uint16, and are divided by ``2**(bits - 8)`` for uint8.
        crop: (x, y, width, height) in pixels of the upright picture, applied before scaling.
        size: (width, height) of the result in pixels, whatever the aspect ratio.
        short_side: length of the shorter side of the result in pixels, the aspect ratio kept.
        max_side: the most that the longer side may have in pixels, the aspect ratio kept; never enlarges.
        rotate: whether the display matrix is applied.

    Raises:
        ParameterError: a value is out of bounds, or more than one of size, short_side and max_side is given.
    """

    colour: Colour = "RGB"
    dtype: Literal["uint8", "uint16"] = "uint8"
    crop: tuple[int, int, int, int] | None = None
    size: tuple[int, int] | None = None
    short_side: int | None = None
    max_side: int | None = None
    rotate: bool = True

    def __post_init__(self) -> None:
        for param in (COLOUR, DTYPE, ROTATE, SHORT_SIDE, MAX_SIDE):
            param.check(getattr(self, param.name))
        if self.size is not None:
            object.__setattr__(self, "size", _whole_numbers(SIZE, self.size, 2))
        if self.crop is not None:
            crop = _whole_numbers(CROP, self.crop, 4)
            if not (crop[2] and crop[3]):
                raise ParameterError(
                    f"crop={self.crop!r} is empty", allowed="a width and a height of at least 1 pixel"
                )
            object.__setattr__(self, "crop", crop)
        given = [name for name in ("size", "short_side", "max_side") if getattr(self, name) is not None]
        if len(given) > 1:
            raise ParameterError(
                f"{' and '.join(given)} exclude one another", allowed="one of size, short_side, max_side"
            )

    def place(self, info: StreamInfo) -> Placement:
        """Where the output's pixels lie in a stream's surfaces.

        Raises:
            ParameterError: the crop leaves the picture.
        """
        return place(
            (info.width, info.height),
            rotation_degrees=info.rotation_degrees if self.rotate else 0,
            flipped=info.flipped and self.rotate,
            crop=self.crop,
            size=self.size,
            short_side=self.short_side,
            max_side=self.max_side,
        )


def _whole_numbers(param: Param, values: Any, count: int) -> tuple[int, ...]:
    """The values, each checked.

    Raises:
        ParameterError: there are not as many as the parameter has, or one of them is not allowed.
    """
    listed = tuple(values) if isinstance(values, Iterable) and not isinstance(values, str | bytes) else ()
    if len(listed) != count:
        raise ParameterError(
            f"{param.name}={values!r} is not valid",
            allowed=f"{count} values, each {param.allowed}",
            advice=param.doc,
        )
    return tuple(param.check(value) for value in listed)
