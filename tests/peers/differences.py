"""Where DALI 2.4 and we differ: by how much, why, and what others make of the same case.

A difference that vanishes or grows fails. ``ours_by`` is a judge that agrees with us, ``theirs_by`` one that agrees
with DALI. Where there is the first alone, we are right; where there are both, it is a matter of convention.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from seqpipe.ops import per_frame
from tests.peers import judges
from tests.peers.dali import Case, Gap
from tests.peers.judges import Judge

__all__ = ["DIFFERENCES", "REFUSED", "Difference"]


@dataclass(frozen=True)
class Difference:
    """One of them.

    Attributes:
        case: what both do.
        gap: how far apart the results are.
        why: what DALI does otherwise.
        ours_by: who agrees with us, and how closely.
        theirs_by: who agrees with DALI, and how closely.
    """

    case: Case
    gap: Gap
    why: str
    ours_by: tuple[Judge, Gap]
    theirs_by: tuple[Judge, Gap] | None = None


Floats: TypeAlias = NDArray[np.float64]
Formula: TypeAlias = Callable[..., Floats]

_EXACTLY: Final = Gap(0, 0)
_LAST_BIT: Final = Gap(1, 0.002)
_TABLE: Final = Gap(2, 0.02)  # DALI has the curves in tables

_BORDER: Final = (
    "DALI repeats the pixels at the border under a filter that is widened, or wide; we leave out what lies beyond"
    " it, as Pillow and torch do. Within the filter's reach of the border results differ."
)
_SCALE: Final = (
    "Where a side of the result is rounded, DALI (subpixel_scale=True) keeps the scale and takes a part of the source,"
    " or more than it; we take all of it, as Pillow, OpenCV and torch do."
)
_CUT: Final = (
    "DALI cuts levels beyond the image off to the type as C does: of bytes, 2.7 is 2, 300 is 44 and -3 is 253. Ours are"
    " rounded and saturate, as all values."
)
_SQUARES: Final = (
    "DALI squares whole numbers of 16 bits in 32 bits with a sign, which their squares do not fit in."
)
_HALVES: Final = "DALI rounds halves away from 0, we round them to even, as NumPy, CUDA and IEEE 754 do."


def _picked(places: Callable[[int, int], NDArray[Any]]) -> Formula:
    """Frames resampled to the nearest pixels, whose numbers are found for a length of the picture and of the result."""

    def formula(x: Floats, size: tuple[int, int], **_: Any) -> Floats:
        rows, columns = (places(old, new) for old, new in zip(x.shape[1:3], size, strict=True))
        return x[:, rows][:, :, columns]

    return formula


def _in_whole_numbers(old: int, new: int) -> NDArray[Any]:
    return (2 * np.arange(new) + 1) * old // (2 * new)


def _step_by_step(old: int, new: int) -> NDArray[Any]:
    """Places added up in float32."""
    step = np.float32(old) / np.float32(new)
    return np.cumsum(np.r_[step / 2, np.full(new - 1, step)], dtype=np.float32).astype(int)


def _gaussian(distance: NDArray[Any]) -> NDArray[Any]:
    """DALI's curve: radius 1, four standard deviations of which one is its square root of 1/8."""
    return np.exp(-4 * distance**2)


def _resize(gap: Gap, **arguments: Any) -> Difference:
    """One at the border."""
    by: tuple[Judge, Judge] = judges.by_pillow(), judges.by_pillow(repeats=True)
    if arguments.get("interp_type") == "gaussian":
        by = judges.by_window(_gaussian, 1.0), judges.by_window(_gaussian, 1.0, repeats=True)
    case = Case("resize", "image", arguments)
    return Difference(case, gap, _BORDER, (by[0], _LAST_BIT), (by[1], _TABLE))


def _scaled(gap: Gap, **arguments: Any) -> Difference:
    by = judges.by_pillow(), judges.by_pillow(repeats=True, keeps_scale=True)
    return Difference(Case("resize", "image", arguments), gap, _SCALE, (by[0], _LAST_BIT), (by[1], _TABLE))


def _halves(gap: Gap, case: Case, formula: Formula, dtype: str = "uint8") -> Difference:
    by = judges.by_formula(formula, dtype), judges.by_formula(formula, dtype, away=True)
    return Difference(case, gap, _HALVES, (by[0], _EXACTLY), (by[1], _EXACTLY))


def _as_it_is(x: Floats, **_: Any) -> Floats:
    return x


def _contrasted(x: Floats, contrast: float, contrast_center: float = 128.0) -> Floats:
    return contrast_center + contrast * (x - contrast_center)


def _turned(x: Floats, hue: float, saturation: float, value: float = 1.0) -> Floats:
    """By the matrix of NTSC with three digits."""
    yiq = np.array([[0.299, 0.587, 0.114], [0.596, -0.274, -0.321], [0.211, -0.523, 0.311]])
    turn = np.radians(hue)
    part = saturation * np.array([[np.cos(turn), np.sin(turn)], [-np.sin(turn), np.cos(turn)]])
    middle = np.block([[np.eye(1), np.zeros((1, 2))], [np.zeros((2, 1)), part]])
    return x @ (np.linalg.inv(yiq) @ middle @ yiq).T * value


def _twisted(half: float) -> Formula:
    def formula(x: Floats, hue: float, saturation: float, brightness: float, contrast: float) -> Floats:
        return brightness * (half + contrast * (_turned(x, hue, saturation) - half))

    return formula


_TWIST: Final = {"hue": -20.0, "saturation": 0.7, "brightness": 1.2, "contrast": 1.4}


def _padded(level: float) -> Formula:
    return lambda x, **_: np.pad(x, ((0, 33), (0, 27), (0, 0)), constant_values=level)


def _erased(level: float) -> Formula:
    def formula(x: Floats, **_: Any) -> Floats:
        x[10:15, 20:26] = level
        return x

    return formula


def _filled(level: float) -> Judge:
    """A warp with another level outside."""

    def judge(case: Case, shape: tuple[int, ...]) -> NDArray[Any]:
        return judges.by_scipy_warp(replace(case, arguments={**case.arguments, "fill_value": level}), shape)

    return judge


def _levels(
    gap: Gap, case: Case, formula: Callable[[float], Formula], ours: float, theirs: float
) -> Difference:
    """Levels that are none of the type."""
    by = judges.by_formula(formula(ours)), judges.by_formula(formula(theirs))
    return Difference(case, gap, _CUT, (by[0], _EXACTLY), (by[1], _EXACTLY))


_CANVAS: Final = {"axis_names": "HW", "shape": (100, 120)}
_REGION: Final = {"anchor": (10.0, 20.0), "shape": (5.0, 6.0), "fill_value": -3.0}
_AFFINE: Final = (0.913, 0.187, -1.03, -0.117, 1.093, 0.57)
_PERSPECTIVE: Final = (0.9, 0.2, -1.0, -0.1, 1.1, 0.5, 0.001, -0.002, 1.0)
_FOUR: Final = [0.0, 0.1, 0.2, 0.3]
_SHAPE: Final = "Unexpected shape of argument"
_NODE: Final = "should not be a 'DataNode'"
_PROJECTED: Final = "experimental.warp_perspective"

DIFFERENCES: Final[list[Difference]] = [
    _resize(Gap(16, 0.0228), size=(31, 40)),
    _resize(Gap(8, 0.035), size=(31, 40), interp_type="cubic"),
    _resize(Gap(7, 0.01), size=(100, 151), interp_type="cubic"),
    _resize(Gap(7, 0.047), size=(31, 40), interp_type="lanczos3"),
    _resize(Gap(11, 0.0188), size=(100, 151), interp_type="lanczos3"),
    _resize(Gap(8, 0.0231), size=(30, 40), interp_type="gaussian"),
    Difference(
        Case("resize", "image", {"size": (33, 150), "interp_type": "gaussian", "antialias": False}),
        Gap(4, 0.0084),
        "A pixel right at the end of the curve, where it falls from exp(-4) to 0, counts with DALI.",
        (judges.by_window(_gaussian, 1.0), _LAST_BIT),
        (judges.by_window(_gaussian, 1.0, closed=True), _TABLE),
    ),
    Difference(
        Case("resize", "sequence", {"size": (50, 22), "interp_type": "nearest"}),
        Gap(144, 0.0361),
        "DALI adds up places from pixel to pixel in float32: a center where a pixel begins, 2.5 * 2.4, comes to lie in"
        " the one before it. Ours are computed for each pixel, and to 2⁻³² of one.",
        (judges.by_formula(_picked(_in_whole_numbers)), _EXACTLY),
        (judges.by_formula(_picked(_step_by_step)), _EXACTLY),
    ),
    _scaled(Gap(49, 0.42), resize_y=40),
    _scaled(Gap(38, 0.456), resize_shorter=32),
    _halves(
        Gap(1, 0.163), Case("brightness", "image", {"brightness": 1.5}), lambda x, brightness: x * brightness
    ),
    _halves(Gap(1, 0.159), Case("contrast", "image", {"contrast": 1.5}), _contrasted),
    _halves(Gap(1, 0.159), Case("brightness_contrast", "image", {"contrast": 1.5}), _contrasted),
    _halves(Gap(1, 0.25), Case("cast", "halves", {"dtype": "int16"}), _as_it_is, "int16"),
    Difference(
        Case("cast", "odd", {"dtype": "float16"}),
        Gap(2, 0.5),
        _HALVES + " From 2048 on, a float16 holds even numbers.",
        (judges.by_formula(_as_it_is, "float16"), _EXACTLY),
        (judges.by_formula(lambda x, **_: x + 1, "float16"), _EXACTLY),
    ),
    Difference(
        Case("color_twist", "signed", _TWIST),
        Gap(7803, 1.0),
        "DALI's contrast has its center at 128 here, for int16 too, and at half of the range in brightness_contrast.",
        (judges.by_formula(_twisted(16384.0), "int16"), _LAST_BIT),
        (judges.by_formula(_twisted(128.0), "int16"), _LAST_BIT),
    ),
    Difference(
        Case("hsv", "floats", {"hue": 40.0, "saturation": 1.5, "value": 0.8}),
        Gap(0.5, 0.9987),
        "DALI's hsv gives uint8 unless it is told a type; we keep the type.",
        (judges.by_formula(_turned, "float32"), Gap(1e-6, 0)),
        (judges.by_formula(_turned, "uint8"), _LAST_BIT),
    ),
    Difference(
        Case("warp_affine", "floats", {"matrix": _AFFINE, "fill_value": 42.0}),
        Gap(0.0076, 0.007),
        "DALI adds up places from pixel to pixel in float32; ours are computed for each, and within 1e-5 pixels.",
        (judges.by_scipy_warp, Gap(1e-3, 0)),
    ),
    Difference(
        Case(
            "warp_perspective",
            "image",
            {"matrix": _PERSPECTIVE, "fill_value": 42.0, "interp_type": "cubic"},
            peer=_PROJECTED,
        ),
        Gap(13, 0.346),
        "DALI's cubic is OpenCV's, of a = -0.75; ours is that of Keys, a = -0.5, as Pillow's and SciPy's window.",
        (judges.by_cubic_perspective(-0.5), _LAST_BIT),
        (judges.by_cubic_perspective(-0.75), _LAST_BIT),
    ),
    Difference(
        Case("warp_perspective", "image", {"matrix": _PERSPECTIVE}, peer=_PROJECTED),
        Gap(252, 0.182),
        "Without a fill_value DALI's perspective has black outside, its affine map repeats the border; ours repeat it.",
        (judges.by_opencv_perspective("replicate"), Gap(1, 0.01)),
        (judges.by_opencv_perspective("constant"), Gap(1, 0.01)),
    ),
    _levels(Gap(1, 0.4808), Case("pad", "image", {**_CANVAS, "fill_value": 2.7}), _padded, 3, 2),
    _levels(Gap(211, 0.4808), Case("pad", "image", {**_CANVAS, "fill_value": 300.0}), _padded, 255, 44),
    _levels(Gap(253, 0.0048), Case("erase", "image", _REGION, {"axis_names": "HW"}), _erased, 0, 253),
    Difference(
        Case("rotate", "image", {"angle": 20.0, "fill_value": 300.0}),
        Gap(37, 0.03),
        "DALI makes a fill_value a level of the image's type before it interpolates; ours is the number that is given,"
        " and results saturate.",
        (_filled(300.0), Gap(1, 0.01)),
        (_filled(255.0), Gap(1, 0.01)),
    ),
    Difference(
        Case("reductions.mean_square", "wide"),
        Gap(1265766560, 1),
        _SQUARES,
        (judges.by_formula(lambda x: np.mean(x**2), "float32"), Gap(256, 1)),
    ),
    Difference(
        Case("reductions.rms", "wide"),
        Gap(23045, 1),
        _SQUARES,
        (judges.by_formula(lambda x: np.sqrt(np.mean(x**2)), "float32"), Gap(0.01, 1)),
    ),
    *(
        Difference(
            Case("jpeg_compression_distortion", "image", {"quality": quality}),
            gap,
            "On CPUs DALI writes and reads a file by libjpeg, which smooths colors between their pixels; ours are what"
            " libjpeg gives without that.",
            (judges.by_libjpeg(smooth=False), _EXACTLY),
            (judges.by_libjpeg(smooth=True), _EXACTLY),
        )
        for quality, gap in ((5, Gap(83, 0.663)), (50, Gap(96, 0.813)), (95, Gap(97, 0.761)))
    ),
]

REFUSED: Final[list[tuple[Case, str]]] = [
    (
        Case("rotate", "image", {"angle": 30.0, "interp_type": "cubic"}),
        "Only nearest and linear interpolation",
    ),
    (
        Case("warp_affine", "image", {"matrix": _AFFINE, "interp_type": "cubic"}),
        "Only nearest and linear interpolation",
    ),
    (Case("rotate", "wide", {"angle": 30.0}), "Unsupported input/output types for the operator: uint16"),
    (Case("erase", "sequence", {"anchor": (1.0, 2.0), "shape": (3.0, 4.0)}), "args_len % naxes == 0"),
    (
        Case("crop_mirror_normalize", "sequence", {"output_layout": "CHW"}),
        "not a permutation of input layout",
    ),
    (Case("sequence_rearrange", "sequence", {"new_order": (0, -1)}), "new_order[1] must be between 0 and"),
    (Case("element_extract", "sequence", {"element_map": (0, -1)}), "Negative indices in `element_map`"),
    (Case("equalize", "wide"), "Expected input type: `uint8_t`"),
    (
        Case("color_space_conversion", "floats", {"image_type": "RGB", "output_type": "GRAY"}),
        "only uint8 tensors",
    ),
    (Case("lookup_table", "floats", {"keys": (0, 1), "values": (1.0, 2.0)}), "Unsupported input type: float"),
    *(
        (Case(operator, "sequence", {**given, name: per_frame(values)}, changes), says)
        for operator, given, name, values, changes, says in (
            ("flip", {}, "horizontal", [1, 0, 1, 0], {}, _SHAPE),
            ("crop", {"crop": (50, 50)}, "crop_pos_x", _FOUR, {}, _SHAPE),
            ("crop_mirror_normalize", {}, "mirror", [1, 0, 1, 0], {"output_layout": "FHWC"}, _SHAPE),
            ("resize_crop_mirror", {"size": (50, 60), "crop": (40, 40)}, "crop_pos_y", _FOUR, {}, _SHAPE),
            (
                "erase",
                {"shape": (3.0, 4.0)},
                "anchor",
                [(1.0, 2.0)] * 4,
                {"axis_names": "HW"},
                "roi_anchor.size()",
            ),
            (
                "jpeg_compression_distortion",
                {},
                "quality",
                [1, 20, 50, 100],
                {},
                "cannot be converted to dimension",
            ),
            ("normalize", {"mean": 1.0, "stddev": 2.0}, "shift", _FOUR, {}, _NODE),
            ("lookup_table", {"values": (1.0, 2.0)}, "default_value", _FOUR, {"keys": (0, 1)}, _NODE),
        )
    ),
]
