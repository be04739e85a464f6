"""Where DALI 2.4 and we agree: cases, each group with how far apart the results may be."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from seqpipe.ops import per_frame
from tests.peers.canvas import CANVAS
from tests.peers.dali import Case, Gap
from tests.peers.reduced import EXACT, NEAR
from tests.peers.resized import RESIZED, SIDES

__all__ = ["AGREED"]

_SAME: Final = Gap(0, 0)
_LAST_BIT: Final = Gap(1e-3, 0)
"""Of float32 results: sums in another order, for values up to some thousands."""
_UNIT: Final = Gap(2e-6, 0)
"""The same for values up to 2."""
_HALVES: Final = Gap(1, 0.001)
"""A value in a thousand lies so near to a half that the last bit of a float32 decides; DALI rounds halves up, too."""
_TIES: Final = Gap(255, 0.003)
"""A place right between two pixels goes to either by the last bit of a float32."""
_TABLE: Final = Gap(1, 0.008)
"""DALI takes the curves of filters from tables, between whose entries it interpolates."""

_FIXED: Final = Gap(1, 0.02)
"""Bytes are smoothed in fixed point by small windows, with us."""

_PICTURES: Final = ("image", "sequence", "floats", "signed")
_NORMAL: Final = {"mean": (120.0, 110.0, 100.0), "std": (60.0, 50.0, 40.0)}
_AFFINE: Final = (0.913, 0.187, -1.03, -0.117, 1.093, 0.57)
_PERSPECTIVE: Final = (0.9, 0.2, -1.0, -0.1, 1.1, 0.5, 0.001, -0.002, 1.0)
_SOBEL: Final = ((-1.0, 0.0, 1.0), (-2.0, 0.5, 2.0), (-1.0, 0.0, 1.0))
_UNEVEN: Final = ((0.1, 0.2, 0.3, 0.25), (0.05, 0.04, 0.03, 0.02))
_BLURS: Final = ({"sigma": 1.5}, {"window_size": 5}, {"sigma": 0.7, "window_size": 9})
_ANGLES: Final = [0.0, 10.0, 20.0, -30.0]
_FACTORS: Final = [0.51, 1.0, 1.31, 0.77]


def _each(operator: str, pictures: Sequence[str], *arguments: dict[str, Any], **changes: Any) -> list[Case]:
    return [Case(operator, picture, one, changes) for picture in pictures for one in arguments]


def _keeping_dtype(operator: str, pictures: Sequence[str], *arguments: dict[str, Any]) -> list[Case]:
    """DALI's hue, saturation and hsv give uint8 unless they are told."""
    dtypes = {"floats": "float32", "signed": "int16"}
    return [
        Case(operator, picture, one, {"dtype": one.get("dtype", dtypes.get(picture, "uint8"))})
        for picture in pictures
        for one in arguments
    ]


def _flips() -> list[Case]:
    flags = ((1, 0), (0, 1), (1, 1), (0, 0))
    asked = [
        Case(
            "flip",
            picture,
            {"horizontal": bool(across), "vertical": bool(down)},
            {"horizontal": across, "vertical": down},
        )
        for picture in _PICTURES
        for across, down in flags
    ]
    return [*asked, Case("flip", "batch", {"horizontal": np.array([True, False])})]


_PLACES: Final = [
    {"crop": (2 * n + 17, 61 - n), "crop_pos_x": n / 20, "crop_pos_y": 1 - n / 20} for n in range(21)
]
_TURNS: Final = [
    {"angle": -77.5, "keep_size": True},
    {"angle": 45.0, "fill_value": 100.0},
    {"angle": 90.0, "fill_value": 100.0},
    {"angle": 180.0},
    {"angle": 10.0, "size": (50, 60), "fill_value": 0.0},
]

AGREED: Final[list[tuple[Gap, list[Case]]]] = [
    (
        _SAME,
        [
            *_flips(),
            *CANVAS,
            *EXACT,
            *_each("crop", ["image"], *_PLACES),
            *_each("crop", ["sequence", "floats", "signed"], {"crop": (41, 51)}),
            *(Case("resize", "image", {"size": size, "interp_type": "nearest"}) for size in SIDES),
            Case(
                "crop_mirror_normalize",
                "image",
                {"crop": (40, 44), "mirror": True, "output_layout": "CHW", **_NORMAL},
                {"mirror": 1},
            ),
            Case(
                "crop_mirror_normalize",
                "sequence",
                {"crop": (40, 44), **_NORMAL, "scale": 64.0, "shift": 128.0, "dtype": "uint8"},
                {"output_layout": "FHWC"},
            ),
            Case(
                "crop_mirror_normalize",
                "sequence",
                {"output_layout": "CHW", **_NORMAL, "dtype": "float16"},
                {"output_layout": "FCHW"},
            ),
            *_each("rotate", ["image"], *({**turn, "interp_type": "nearest"} for turn in _TURNS)),
            *_each("laplacian", _PICTURES, {}, {"smoothing_size": 1}, {"scale": 0.25, "dtype": "float32"}),
            Case("laplacian", "sequence", {"scale": per_frame([0.5, 1.0, 1.5, 2.0])}),
            *_each("equalize", ["image", "gray", "sequence"], {}),
            *_each(
                "cast",
                ["image", "signed"],
                *({"dtype": dtype} for dtype in ("uint8", "uint16", "int16", "float32")),
            ),
            *_each("cast", ["floats"], *({"dtype": dtype} for dtype in ("uint8", "uint16", "int16"))),
            *_each(
                "lookup_table",
                ["image", "sequence"],
                {"keys": (0, 3, 255, 100), "values": (9.0, 1.5, 0.0, 7.25), "default_value": 77.0},
            ),
            *_each(
                "erase",
                ["image", "sequence"],
                {"anchor": (10.0, 20.0), "shape": (20.0, 30.0)},
                {"anchor": (10.6, 20.3), "shape": (20.7, 30.5), "fill_value": (1.0, 2.0, 3.0)},
                {"anchor": (0.1, 0.2), "shape": (0.33, 0.44), "normalized": True},
                {"anchor": (0.5, 0.5), "shape": (0.33, 0.44), "normalized": True, "centered_anchor": True},
                {"anchor": (-5.0, 80.0), "shape": (20.0, 30.0)},
                axis_names="HW",
            ),
            Case(
                "erase",
                "image",
                {"anchor": (10.0, 20.0), "shape": (5.0, 6.0), "more": (30.0, 30.0, 10.0, 12.0)},
                {"anchor": (10.0, 20.0, 30.0, 30.0), "shape": (5.0, 6.0, 10.0, 12.0), "more": None},
            ),
            Case("element_extract", "sequence", {"element_map": (2, 0, 0, 3)}),
            Case("sequence_rearrange", "sequence", {"new_order": (2, 0, 0, 3, 1)}),
            *_each(
                "color_space_conversion",
                ["image"],
                *(
                    {"image_type": one, "output_type": other}
                    for one in ("RGB", "BGR", "YCbCr")
                    for other in ("RGB", "BGR", "YCbCr")
                    if one != other
                ),
                {"image_type": "YCbCr", "output_type": "GRAY"},
            ),
            *_each(
                "color_space_conversion",
                ["gray"],
                *({"image_type": "GRAY", "output_type": other} for other in ("RGB", "YCbCr")),
            ),
        ],
    ),
    (
        _UNIT,
        [
            *_each("bb_flip", ["boxes"], {"ltrb": True}),
            *_each("bb_flip", ["sized"], {"horizontal": False, "vertical": True}, horizontal=0, vertical=1),
            *_each("bbox_paste", ["boxes"], {"ltrb": True, "ratio": 2.5, "paste_x": 0.3, "paste_y": 0.8}),
            *_each("bbox_paste", ["sized"], {"ratio": 2.5}),
            *_each(
                "normalize",
                ["image", "floats", "sequence"],
                {},
                {"mean": 100.0},
                {"stddev": 50.0},
                {"axis_names": "HWC"},
            ),
            *_each("normalize", ["image", "sequence"], {"mean": 100.0, "stddev": 50.0, "shift": -0.5}),
            *_each("normalize", ["image", "floats", "sequence"], {"axis_names": "HW"}),
            *_each("normalize", ["sequence"], {"axis_names": "FHW"}, {"axes": (0, 2)}),
            *_each(
                "normalize",
                ["image", "sequence"],
                {
                    "axis_names": "HW",
                    "epsilon": 10.0,
                    "ddof": 1,
                    "scale": 64.0,
                    "shift": 128.0,
                    "dtype": "uint8",
                },
            ),
            *_each("brightness", ["floats"], {"brightness": 1.5, "brightness_shift": 0.2}),
            *_each("contrast", ["floats"], {"contrast": 1.5}),
            *_each("gaussian_blur", ["floats"], *_BLURS),
            *_each("laplacian", ["floats"], {"window_size": 5, "normalized_kernel": True}),
            *_each("filter", ["floats"], {"kernel": _SOBEL}, {"kernel": _UNEVEN, "pad_mode": "wrap"}),
        ],
    ),
    (
        _LAST_BIT,
        [
            *NEAR,
            *_each(
                "brightness",
                ["image", "signed", "sequence"],
                {"brightness": 1 / 255, "brightness_shift": 0.25, "dtype": "float32"},
            ),
            *_each("contrast", ["image", "signed", "sequence"], {"contrast": 0.37, "dtype": "float32"}),
            *_each("contrast", _PICTURES, {"contrast": 0.4, "contrast_center": 100.0}),
            *_each(
                "brightness_contrast",
                _PICTURES,
                {"brightness": 1.3, "contrast": 1.4, "contrast_center": 60.0, "dtype": "float32"},
            ),
            *_keeping_dtype("hue", _PICTURES, {"hue": -120.0, "dtype": "float32"}),
            *_keeping_dtype("saturation", _PICTURES, {"saturation": 2.0, "dtype": "float32"}),
            *_keeping_dtype(
                "hsv", _PICTURES, {"hue": 40.0, "saturation": 1.5, "value": 0.8, "dtype": "float32"}
            ),
            *_keeping_dtype(
                "color_twist",
                ["image", "floats", "sequence"],
                {"hue": -20.0, "saturation": 0.7, "brightness": 1.2, "contrast": 1.4, "dtype": "float32"},
            ),
            *_each("gaussian_blur", ["image", "signed", "sequence"], {"sigma": 2.0, "dtype": "float32"}),
            *_each(
                "filter",
                ["image", "sequence"],
                {"kernel": _SOBEL},
                {"kernel": _UNEVEN, "dtype": "float32", "pad_mode": "symmetric"},
                {"kernel": _UNEVEN, "anchor": (1, 0), "pad_mode": "edge"},
            ),
        ],
    ),
    (
        _FIXED,
        [
            *_each("gaussian_blur", ["image", "sequence"], *_BLURS),
            Case("gaussian_blur", "sequence", {"sigma": per_frame([0.5, 1.0, 1.5, 2.0])}),
        ],
    ),
    (
        _HALVES,
        [
            *_keeping_dtype("hue", ["image", "signed", "sequence"], {"hue": 60.0}),
            *_keeping_dtype("hue", ["sequence"], {"hue": per_frame(_ANGLES)}),
            *_keeping_dtype("saturation", ["image", "signed", "sequence"], {"saturation": 0.5}),
            *_keeping_dtype(
                "hsv", ["image", "signed", "sequence"], {"hue": 40.0, "saturation": 1.5, "value": 0.8}
            ),
            *_keeping_dtype(
                "hsv",
                ["batch"],
                {"hue": per_frame([[0.0, 10.0, 20.0], [1.0, 2.0, 3.0]]), "saturation": np.array([0.5, 1.2])},
            ),
            *_each(
                "color_twist",
                ["image", "sequence"],
                {"hue": -20.0, "saturation": 0.7, "brightness": 1.2, "contrast": 1.4},
            ),
            *_each(
                "color_space_conversion",
                ["image"],
                *({"image_type": one, "output_type": "GRAY"} for one in ("RGB", "BGR")),
            ),
            *_each(
                "color_space_conversion",
                ["sequence"],
                *({"image_type": "RGB", "output_type": other} for other in ("BGR", "YCbCr")),
            ),
            *_each("gaussian_blur", ["signed"], *_BLURS),
            *_each("gaussian_blur", ["image", "sequence"], {"sigma": 4.0}),
            *_each("rotate", ["image", "sequence"], *_TURNS),
            Case("rotate", "sequence", {"angle": per_frame(_ANGLES), "keep_size": True, "fill_value": 0.0}),
            Case("rotate", "batch", {"angle": np.array([12.0, -33.0]), "keep_size": True, "fill_value": 0.0}),
            *_each(
                "warp_affine",
                ["image", "sequence"],
                {"matrix": _AFFINE, "fill_value": 42.0},
                {"matrix": _AFFINE, "inverse_map": False, "size": (100, 110)},
            ),
            Case("warp_affine", "sequence", {"matrix": per_frame([_AFFINE] * 4), "fill_value": 0.0}),
            *(
                Case(
                    "warp_perspective",
                    "image",
                    {"matrix": _PERSPECTIVE, "fill_value": 42.0, "pixel_origin": origin},
                    peer="experimental.warp_perspective",
                )
                for origin in ("corner", "center")
            ),
            Case(
                "warp_perspective",
                "sequence",
                {"matrix": _PERSPECTIVE, "inverse_map": False},
                {"border_mode": "replicate"},
                peer="experimental.warp_perspective",
            ),
        ],
    ),
    (
        _TIES,
        [
            *_each("rotate", ["image", "sequence"], {"angle": 31.0, "interp_type": "nearest"}),
            *_each(
                "warp_affine",
                ["image", "sequence"],
                {"matrix": _AFFINE, "fill_value": 42.0, "interp_type": "nearest"},
                {"matrix": _AFFINE, "inverse_map": False, "interp_type": "nearest"},
            ),
            Case(
                "warp_perspective",
                "sequence",
                {"matrix": _PERSPECTIVE, "fill_value": 42.0, "interp_type": "nearest"},
                peer="experimental.warp_perspective",
            ),
        ],
    ),
    (_TABLE, RESIZED),
]
