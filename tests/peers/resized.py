"""Cases of resizing in which both do the same: without what lies beyond the border of images, where they differ."""

from __future__ import annotations

from typing import Any, Final

from tests.peers.dali import Case

__all__ = ["RESIZED", "SIDES"]

SIDES: Final = [(31, 40), (100, 151), (33, 150), (67, 93)]
_SIZES: Final = [
    {"resize_x": 50},
    {"resize_y": 40},
    {"resize_shorter": 32},
    {"resize_shorter": 101},
    {"resize_longer": 50},
    {"resize_shorter": 60, "max_size": 64},
    {"resize_x": 50, "mode": "stretch"},
    {"resize_x": 50, "mode": "not_larger"},
    {"size": (50, 50), "mode": "not_larger"},
    {"size": (50, 50), "mode": "not_smaller"},
    {"size": (50, 50), "mode": "not_smaller", "max_size": 60},
    {"size": (0, 50)},
    {"size": (0, 50), "mode": "stretch"},
    {"size": (90, 40), "max_size": 70},
]
_WINDOW: Final = {"roi_start": (3.25, 10.5), "roi_end": (50.75, 80.0)}


def _each(operator: str, pictures: list[str], *arguments: dict[str, Any], **changes: Any) -> list[Case]:
    return [Case(operator, picture, one, changes) for picture in pictures for one in arguments]


RESIZED: Final = [
    *(
        Case("resize", "image", {"size": size, "interp_type": kind, "antialias": False})
        for kind in ("linear", "triangular", "cubic", "lanczos3")
        for size in SIDES
    ),
    *_each("resize", ["sequence", "gray"], {"size": (57, 50), "antialias": False}),
    *_each("resize", ["image"], *({**size, "antialias": False} for size in _SIZES), subpixel_scale=False),
    *_each(
        "resize",
        ["image"],
        *({**size, "antialias": False, "subpixel_scale": True} for size in _SIZES),
    ),
    *(
        Case(
            "resize",
            "image",
            {"size": (23, 40), **_WINDOW, "interp_type": kind, "antialias": antialias},
        )
        for kind in ("nearest", "linear", "cubic")
        for antialias in (True, False)
    ),
    *_each(
        "resize",
        ["image", "sequence"],
        *(
            {**window, "size": (23, 40), "antialias": False}
            for window in (
                {"roi_start": (50.0, 80.0), "roi_end": (3.0, 10.0)},
                {"roi_start": (-10.0, 0.2), "roi_end": (200.0, 90.0)},
                {"roi_start": (0.1, 0.2), "roi_end": (0.7, 0.9), "roi_relative": True},
            )
        ),
        {"size": (23, 9), "roi_start": (-300.0, 30.0), "roi_end": (20.0, 60.0)},
        {"resize_shorter": 32, **_WINDOW, "antialias": False, "subpixel_scale": True},
        {
            "size": (32, 60),
            "mode": "not_larger",
            **_WINDOW,
            "antialias": False,
            "subpixel_scale": True,
        },
    ),
    *_each(
        "resize_crop_mirror",
        ["sequence"],
        {
            "size": (61, 79),
            "crop": (40, 44),
            "crop_pos_x": 0.2,
            "crop_pos_y": 0.9,
            "antialias": False,
        },
    ),
    Case(
        "resize_crop_mirror",
        "image",
        {"resize_shorter": 50, "crop": (40, 44), "mirror": True, "antialias": False},
        {"mirror": 1, "subpixel_scale": False},
    ),
]
