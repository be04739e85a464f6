"""What is drawn: the same arguments on both sides, to be compared as distributions."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from tests.peers.dali import given

__all__ = ["CHOICES", "COORDINATES", "DRAWN", "GRAY", "MANY", "WINDOW"]

MANY: Final = 1500

_Y, _X = np.mgrid[:30, :40] + 0.5
COORDINATES: Final = np.stack([_X, _Y], axis=-1).astype(np.float32)
"""An image whose values say where they are, so that a resized window of it says where that was."""
WINDOW: Final[dict[str, Any]] = {
    "size": (8, 8),
    "random_area": (0.1, 0.9),
    "random_aspect_ratio": (0.5, 2.0),
    "antialias": False,
}
CHOICES: Final[dict[str, Any]] = {
    "aspect_ratio": (0.5, 2.0),
    "scaling": (0.3, 1.0),
    "thresholds": (0.0, 0.1, 0.3, 0.5, 0.7, 0.9),
    "num_attempts": 40,
    "total_num_attempts": 300,
    "all_boxes_above_threshold": False,
}
GRAY: Final = np.full((200, 200, 3), 100, np.float32)


def _asked(
    operator: str, samples: list[Any], layout: str | None, arguments: dict[str, Any]
) -> dict[str, Any]:
    return {
        "operator": operator,
        "inputs": [samples],
        "layouts": [layout],
        "arguments": arguments,
        "per_sample": {},
        "per_frame": {},
    }


DRAWN: Final = {
    "random_resized_crop": _asked("random_resized_crop", [COORDINATES] * MANY, "HWC", WINDOW),
    "random_bbox_crop": _asked(
        "random_bbox_crop", [given("boxes")[:4]] * MANY, None, {**CHOICES, "quiet": True}
    ),
    "gaussian_noise": _asked("noise.gaussian", [GRAY], "HWC", {"mean": 3.0, "stddev": 20.0}),
    "shot_noise": _asked("noise.shot", [GRAY], "HWC", {"factor": 7.0}),
    "salt_and_pepper_noise": _asked(
        "noise.salt_and_pepper",
        [GRAY],
        "HWC",
        {"prob": 0.3, "salt_vs_pepper": 0.25, "salt_val": 255.0, "pepper_val": 0.0},
    ),
}
