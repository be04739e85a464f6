"""Output specification: color, dtype, size and crop of output frames; imports no library that handles pixels."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias

from ...core.keywords import refuses_unknown_fields
from ...core.param import Param, check_fields, check_list, choice
from ...errors import ParameterError
from ..probe.info import StreamInfo
from .geometry import Placement, make_placement

if TYPE_CHECKING:
    from ..packet_index import Facts

__all__ = [
    "COLOR",
    "CROP",
    "DTYPE",
    "INTEGER_DTYPE",
    "LAYOUT",
    "MAX_SIDE",
    "MEAN",
    "MIRROR",
    "PART",
    "ROTATE",
    "ROUNDED",
    "SHORT_SIDE",
    "SIZE",
    "STD",
    "TRANSFER",
    "WINDOW",
    "Color",
    "DType",
    "FrameLayout",
    "OutputSpec",
    "check_fill",
    "check_output",
    "transposed",
]

Color: TypeAlias = Literal["RGB", "BGR", "GRAY", "YCbCr", "RGBA"]
DType: TypeAlias = Literal["uint8", "uint16", "float16", "float32"]
Transfer: TypeAlias = Literal["coded", "sdr", "linear"]
FrameLayout: TypeAlias = Literal["FHWC", "FCHW"]
_MAX_SIDE_PX = 32768
_MOST_PLAUSIBLE: Final = 2.0  # mean or std on the scale 0 to 1; ImageNet's in 8-bit values are 58 to 124

COLOR: Final = choice(
    "color",
    "color of the channels; GRAY is full-range luma, YCbCr the stream's own code values, RGBA has the stream's alpha",
    ("RGB", "BGR", "GRAY", "YCbCr", "RGBA"),
)
DTYPE: Final = choice(
    "dtype",
    "type of a value; uint16 spans 0 to 65535 whatever the stream's depth, YCbCr excepted; floats span 0 to 1",
    ("uint8", "uint16", "float16", "float32"),
)
INTEGER_DTYPE: Final = replace(
    DTYPE,
    doc="type of a value; uint16 spans 0 to 65535 whatever the stream's depth, YCbCr excepted",
    choices=("uint8", "uint16"),
)
_FILL_VALUE: Final = Param(
    name="fill_value",
    doc="Value of padded pixels; for float dtypes on the scale of the result, after mean and std",
    kind=float,
)
_FILL_BOUNDS: Final = {
    "uint8": (0, 255),
    "uint16": (0, 65535),
    "float16": (-65504, 65504),
    "float32": (None, None),
}
TRANSFER: Final = choice(
    "transfer",
    "transfer function of the values: the stream's own (coded), PQ and HLG changed to SDR of BT.709 by method A of "
    "BT.2446 (sdr), or light (linear)",
    ("coded", "sdr", "linear"),
)
LAYOUT: Final = choice("layout", "order of the axes of a sequence", ("FHWC", "FCHW"))
MEAN: Final = Param(
    name="mean",
    doc="mean on the scale 0 to 1, subtracted from float values: one number, or one for each channel",
    kind=float,
    lo=-1e6,
    hi=1e6,
    optional=True,
)
STD: Final = Param(
    name="std",
    doc="standard deviation by which float values are then divided: one number, or one for each channel",
    kind=float,
    lo=1e-6,
    hi=1e6,
    optional=True,
)
MIRROR: Final = Param(name="mirror", doc="mirror the oriented frame left to right", kind=bool)
ROTATE: Final = Param(name="rotate", doc="apply the rotation of the container's display matrix", kind=bool)
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
    name="size", doc="exact height and width of the result", unit="pixels", lo=1, hi=_MAX_SIDE_PX
)
CROP: Final = Param(
    name="crop", doc="top, left, height and width of the part to show", unit="pixels", lo=0, hi=_MAX_SIDE_PX
)
WINDOW: Final = Param(
    name="window",
    doc="top, left, height and width within the crop that is scaled; pixels around it are in reach of the filter",
    unit="pixels",
    lo=0,
    hi=_MAX_SIDE_PX,
)
ROUNDED: Final = replace(
    INTEGER_DTYPE,
    name="rounded",
    doc="type to which colors are rounded before a window is scaled; None scales the decoder's planes directly",
    optional=True,
)
PART: Final = Param(
    name="part",
    doc="top, left, height and width of the part of the scaled frame to return",
    unit="pixels",
    lo=0,
    hi=_MAX_SIDE_PX,
)


@refuses_unknown_fields()
@dataclass(frozen=True)
class OutputSpec:
    """Color, dtype and geometry of output frames.

    Attributes:
        color: ``"RGB"``, ``"BGR"``, ``"GRAY"`` (full-range luma, one channel), ``"YCbCr"`` (the stream's
            own code values with upsampled chroma, without a color matrix) or ``"RGBA"`` (on the CPU: the alpha of the
            stream as it is stored, straight or premultiplied, and scaled like a color; opaque where it has none).
        dtype: ``"uint8"``, ``"uint16"``, ``"float16"`` or ``"float32"``. Colors span 0…255, 0…65535 or 0…1
            for every bit depth. Code values of YCbCr are unchanged in uint16, and divided by ``2**(bits - 8)`` for
            uint8; float dtypes are not allowed for them.
        crop: (top, left, height, width) in pixels of the oriented frame, applied before scaling.
        size: (height, width) of the result in pixels; the aspect ratio may change.
        short_side: length of the shorter side of the result in pixels; keeps the aspect ratio.
        max_side: maximum length of the longer side in pixels; keeps the aspect ratio and never enlarges.
        rotate: whether the display matrix is applied.
        mirror: whether the oriented frame is mirrored left to right, after crop and scaling.
        layout: ``"FHWC"`` or ``"FCHW"``, the axes of a sequence; a single frame has the same axes without F.
        mean: for float dtypes: mean on the scale 0…1, subtracted; one number, or one for each channel in the order of
            ``color``. None is 0.
        std: for float dtypes: standard deviation on the same scale, by which the difference is divided. None is 1.
        window: (top, left, height, width) within the crop, or the oriented frame, that is scaled instead of the crop.
            The filter takes pixels of the crop outside of the window into account, as Pillow's ``resize(box=…)``, and
            none outside of the crop. Without a window, the crop is scaled with its edge pixels repeated.
        part: (top, left, height, width) within the scaled frame: the part to return, before mirroring.
        rounded: for windows: ``"uint8"`` or ``"uint16"``, to which colors are clipped and rounded before they are
            scaled, as if a frame of full size had been stored first. None scales the surface's planes and converts the
            result, which is half the work and differs for colors outside of the range of black to white.
        transfer: ``"coded"`` keeps the stream's transfer function. ``"sdr"`` changes PQ and HLG signals (of BT.2020, up
            to 1000 cd/m²) to SDR of BT.709 by method A of ITU-R BT.2446-1. ``"linear"`` gives light, with a float
            dtype: PQ and HLG in units of 203 cd/m² with the primaries of the stream, other signals, by BT.1886, in
            units of white. Both apply after scaling, to RGB, BGR and the colors of RGBA.

    Raises:
        ParameterError: a value is out of bounds, more than one of size, short_side and max_side is given, or
            mean, std or a float dtype does not go with the other values.
    """

    color: Color = "RGB"
    dtype: DType = "uint8"
    crop: tuple[int, int, int, int] | None = None
    size: tuple[int, int] | None = None
    short_side: int | None = None
    max_side: int | None = None
    rotate: bool = True
    mirror: bool = False
    layout: FrameLayout = "FHWC"
    mean: float | tuple[float, ...] | None = None
    std: float | tuple[float, ...] | None = None
    window: tuple[int, int, int, int] | None = None
    part: tuple[int, int, int, int] | None = None
    rounded: DType | None = None
    transfer: Transfer = "coded"

    def __post_init__(self) -> None:
        check_fields(self, COLOR, DTYPE, ROTATE, SHORT_SIDE, MAX_SIDE, MIRROR, LAYOUT, ROUNDED, TRANSFER)
        self._check_geometry()
        if self.color == "YCbCr" and self.is_float:
            raise ParameterError(
                f"dtype={self.dtype!r} and color='YCbCr' exclude one another",
                allowed="dtype='uint8' or 'uint16' for code values",
                advice="Ask for another color: floats are colors of 0 to 1, code values are not",
            )
        if self.transfer != "coded":
            self._check_transfer()
        for param in (MEAN, STD):
            object.__setattr__(self, param.name, self._per_channel(param))

    def _check_transfer(self) -> None:
        """Check that color, dtype and rounding go with a change of the transfer function."""
        fits = self.is_float or self.transfer == "sdr"
        if self.color not in ("RGB", "BGR", "RGBA") or not fits or self.rounded is not None:
            raise ParameterError(
                f"transfer={self.transfer!r} with color={self.color!r}, dtype={self.dtype!r}, rounded={self.rounded!r}",
                allowed="color='RGB', 'BGR' or 'RGBA' without rounded, and a float dtype for 'linear'",
            )

    def _check_geometry(self) -> None:
        """Check sizes and boxes, and that those that exclude one another are not combined."""
        if self.size is not None:
            object.__setattr__(self, "size", _checked(SIZE, self.size, 2))
        for param in (CROP, WINDOW, PART):
            if (box := getattr(self, param.name)) is not None:
                object.__setattr__(self, param.name, _box(param, box))
        fits = self.window is not None and (self.is_float or self.rounded == self.dtype)
        if self.rounded is not None and not fits:
            raise ParameterError(
                f"rounded={self.rounded!r} with window={self.window!r} and dtype={self.dtype!r}",
                allowed="a window, and a dtype that is the same or a float",
            )
        chosen = [name for name in ("size", "short_side", "max_side") if getattr(self, name) is not None]
        if len(chosen) > 1:
            raise ParameterError(
                f"{' and '.join(chosen)} exclude one another", allowed="one of size, short_side, max_side"
            )

    def _per_channel(self, param: Param) -> tuple[float, ...] | None:
        """Return mean or std with one number for each channel."""
        value = getattr(self, param.name)
        if value is None:
            return None
        if not self.is_float:
            raise ParameterError(
                f"{param.name}={value!r} and dtype={self.dtype!r} exclude one another",
                allowed=f"{param.name} with dtype='float16' or 'float32'",
            )
        if isinstance(value, Iterable):
            return _checked(param, value, self.channels)
        return (param.check(value),) * self.channels

    @property
    def is_float(self) -> bool:
        """Whether values are floats."""
        return self.dtype.startswith("float")

    @property
    def channels(self) -> int:
        """Number of channels."""
        return {"GRAY": 1, "RGBA": 4}.get(self.color, 3)

    @property
    def frame_layout(self) -> str:
        """The axes of a single frame, ``"HWC"`` or ``"CHW"``."""
        return self.layout[1:]

    def frame_shape(self, info: StreamInfo | Facts) -> tuple[int, int, int]:
        """Return the shape of one output frame of a stream, in the order of :attr:`frame_layout`.

        Raises:
            ParameterError: the crop, the window or the part exceeds the frame that it is given in.
        """
        rows, columns = self.placement(info).shape
        if self.layout == "FCHW":
            return self.channels, rows, columns
        return rows, columns, self.channels

    def placement(self, info: StreamInfo | Facts) -> Placement:
        """Return the geometry from a stream's surfaces to output frames.

        Raises:
            ParameterError: the crop, the window or the part exceeds the frame that it is given in.
        """
        return make_placement(
            (info.width, info.height),
            rotation_degrees=info.rotation_degrees if self.rotate else 0,
            flipped=info.flipped and self.rotate,
            crop=transposed(self.crop),
            window=transposed(self.window),
            size=transposed(self.size),
            short_side=self.short_side,
            max_side=self.max_side,
            part=transposed(self.part),
            mirror=self.mirror,
        )


def transposed(values: Any) -> Any:
    """Exchange rows and columns of a size or box: (height, width) and (width, height); None stays None.

    The public API has rows first, as NumPy and torch; internal geometry has columns first, as FFmpeg.
    """
    return values and tuple(values[number ^ 1] for number in range(len(values)))


def check_output(output: OutputSpec | None) -> OutputSpec:
    """Return a validated output specification; None is the default one."""
    if output is None:
        return OutputSpec()
    if not isinstance(output, OutputSpec):
        raise ParameterError(f"output={output!r} is not valid", allowed="an OutputSpec or None")
    for param in (MEAN, STD):
        values = getattr(output, param.name)
        if values and min(map(abs, values)) > _MOST_PLAUSIBLE:
            raise ParameterError(
                f"{param.name}={values!r} is in units of 0 to 255, but float values of a reader span 0 to 1",
                allowed=f"{param.name} up to {_MOST_PLAUSIBLE:g}",
                advice="Divide it by 255 (operators such as crop_mirror_normalize take the unit of their input)",
            )
    return output


def check_fill(value: float, output: OutputSpec) -> float:
    """Return the pixel value of padded frames, checked against the output's dtype."""
    lo, hi = _FILL_BOUNDS[output.dtype]
    param = replace(_FILL_VALUE, kind=float if output.is_float else int, lo=lo, hi=hi)
    number: float = param.check(value)
    return number


def _box(param: Param, value: Any) -> tuple[Any, ...]:
    """Return the four checked numbers of a box."""
    box = _checked(param, value, 4)
    if not (box[2] and box[3]):
        raise ParameterError(
            f"{param.name}={value!r} is empty", allowed="a height and a width of at least 1 pixel"
        )
    return box


def _checked(param: Param, values: Any, count: int) -> tuple[Any, ...]:
    """Return the checked values of a tuple."""
    allowed = f"{count} values, each {param.allowed}"
    numbers = check_list(param.name, values, allowed)
    if len(numbers) != count:
        raise ParameterError(f"{param.name}={values!r} is not valid", allowed=allowed, advice=param.doc)
    return tuple(param.check(value) for value in numbers)
