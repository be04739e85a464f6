# Written by `python -m seqpipe.ops` from the registry of operators; a test compares the two.
from typing import Any, Literal, TypeVar

from seqpipe.ops import Flag, Number

X = TypeVar("X")

def brightness(
    x: X,
    /,
    *,
    brightness: Number = 1.0,
    brightness_shift: Number = 0.0,
    dtype: Literal["uint8", "uint16", "int16", "float16", "float32"] | None = None,
    p: float = 1.0,
    per_frame: bool = False,
    seed: int = 0,
    layout: str | None = None,
    epoch: int = 0,
    index: Any = None,
) -> X: ...
def brightness_contrast(
    x: X,
    /,
    *,
    brightness: Number = 1.0,
    brightness_shift: Number = 0.0,
    contrast: Number = 1.0,
    contrast_center: Number | None = None,
    dtype: Literal["uint8", "uint16", "int16", "float16", "float32"] | None = None,
    p: float = 1.0,
    per_frame: bool = False,
    seed: int = 0,
    layout: str | None = None,
    epoch: int = 0,
    index: Any = None,
) -> X: ...
def contrast(
    x: X,
    /,
    *,
    contrast: Number = 1.0,
    contrast_center: Number | None = None,
    dtype: Literal["uint8", "uint16", "int16", "float16", "float32"] | None = None,
    p: float = 1.0,
    per_frame: bool = False,
    seed: int = 0,
    layout: str | None = None,
    epoch: int = 0,
    index: Any = None,
) -> X: ...
def crop(
    x: X,
    /,
    *,
    crop: tuple[int, int] | None = None,
    crop_pos_x: Number = 0.5,
    crop_pos_y: Number = 0.5,
    p: float = 1.0,
    per_frame: bool = False,
    seed: int = 0,
    layout: str | None = None,
    epoch: int = 0,
    index: Any = None,
) -> X: ...
def flip(
    x: X,
    /,
    *,
    horizontal: Flag = True,
    vertical: Flag = False,
    p: float = 1.0,
    per_frame: bool = False,
    seed: int = 0,
    layout: str | None = None,
    epoch: int = 0,
    index: Any = None,
) -> X: ...
def gamma(
    x: X,
    /,
    *,
    gamma: Number = 1.0,
    gain: Number = 1.0,
    p: float = 1.0,
    per_frame: bool = False,
    seed: int = 0,
    layout: str | None = None,
    epoch: int = 0,
    index: Any = None,
) -> X: ...
def invert(
    x: X,
    /,
    *,
    p: float = 1.0,
    per_frame: bool = False,
    seed: int = 0,
    layout: str | None = None,
    epoch: int = 0,
    index: Any = None,
) -> X: ...
def posterize(
    x: X,
    /,
    *,
    bits: Number = 4,
    p: float = 1.0,
    per_frame: bool = False,
    seed: int = 0,
    layout: str | None = None,
    epoch: int = 0,
    index: Any = None,
) -> X: ...
def solarize(
    x: X,
    /,
    *,
    threshold: Number | None = None,
    p: float = 1.0,
    per_frame: bool = False,
    seed: int = 0,
    layout: str | None = None,
    epoch: int = 0,
    index: Any = None,
) -> X: ...
