"""Operators that change the size of images."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from ...core.cached import cached_property
from ...core.draws import BatchGenerator
from ...errors import ParameterError
from ..core.blocks import Block
from ..core.distributions import Flag
from ..core.parameters import param
from ..core.spec import Spec
from ..geometry.mapping import Mapping, scaling
from ..geometry.window import OutputSize, Windowed, mirrored, window_of
from .base import Scaled
from .crop_windows import CropWindows
from .sizes import Sized

__all__ = ["RandomResizedCrop", "Resize", "ResizeCropMirror"]


class Resize(Sized):
    """Resample images, or a window of them, to a size."""

    converted = ("scaling",)
    examples = (
        {"size": (4, 9)},
        {"resize_shorter": 8, "interp_type": "cubic"},
        {"size": (11, 3), "interp_type": "lanczos3", "dtype": "float32"},
        {"resize_x": 3, "antialias": False},
        {"size": (3, 5), "mode": "not_larger", "interp_type": "area"},
        {"size": (3, 5), "mode": "not_smaller", "interp_type": "gaussian"},
        {"resize_longer": 4, "interp_type": "nearest"},
        {"size": (6, 5), "roi_start": (0.5, 1.0), "roi_end": (4.0, 6.5)},
        {"size": (4, 3), "roi_start": (-20.0, 3.0), "roi_end": (2.0, 40.0), "interp_type": "cubic"},
        {"size": (7, 4), "interp_type": "cubic", "compat": "opencv"},
        {
            "size": (3, 10),
            "compat": "tf1",
            "roi_start": ((0.0, 0.3), 0.9),
            "roi_end": (0.8, 0.1),
            "roi_relative": True,
        },
    )
    errors = (
        (
            {},
            "resize: no size is given; allowed: one of size, resize_x or resize_y, resize_shorter, resize_longer",
        ),
        ({"size": (4, 4), "resize_x": 3}, "resize: size and resize_x or resize_y given; allowed: one of"),
        ({"resize_shorter": 4, "mode": "stretch"}, "mode='stretch' with resize_shorter; allowed: 'default'"),
        (
            {"size": (4, 4), "interp_type": "sinc"},
            "interp_type='sinc' is not valid; allowed: 'nearest', 'linear'",
        ),
        ({"resize_x": 0}, "resize_x=0 is not valid; allowed: a whole number of at least 1"),
        (
            {"size": (4, 4), "interp_type": "gaussian", "compat": "tf1"},
            "interp_type='gaussian' with compat='tf1'; allowed: 'nearest', 'linear', 'triangular', 'cubic', 'area'",
        ),
        (
            {"size": (4, 4), "roi_end": (1, 1)},
            "one of roi_start and roi_end is given; allowed: both, or none",
        ),
    )

    def mapping(self, p: Any, height: int, width: int) -> Mapping:
        """See :meth:`Geometry.mapping`; all of the images, or the region of interest."""
        return self.whole(p, height, width)


class ResizeCropMirror(Windowed, Sized):
    """Resample images to a size, crop a window of the result, and mirror it left to right, in one step.

    Only pixels within the window are computed; the result is that of the three operators, rounded once.
    """

    mirror: Flag = param(False, "mirror left to right")

    converted = ("scaling",)
    examples = (
        {"size": (9, 10), "crop": (4, 4), "mirror": True, "roi_start": (0.5, 1.0), "roi_end": (5.0, 6.5)},
        {
            "size": (9, 10),
            "crop": (4, 4),
            "crop_pos_x": (0.0, 1.0),
            "crop_pos_y": (0.0, 1.0),
            "seed": 3,
        },
        {"resize_shorter": 8, "mirror": True},
        {"resize_x": 5, "interp_type": "cubic", "compat": "opencv"},
        {"resize_longer": 6, "crop": (1, 1), "antialias": False},
        {
            "size": (6, 5),
            "crop": (2, 5),
            "crop_pos_y": 1.0,
            "roi_start": (-30.0, 0.0),
            "roi_end": (5.0, -9.0),
        },
    )
    errors = (
        ({"crop": (4, 4)}, "resize_crop_mirror: no size is given; allowed: one of size"),
        (
            {"size": (4, 4), "crop": 4},
            "crop=4 is not valid; allowed: 2 values, each a whole number of at least 1",
        ),
    )

    def mapping(self, p: Any, height: int, width: int) -> Mapping:
        """See :meth:`Geometry.mapping`.

        Raises:
            ParameterError: the window is larger than the resized images.
        """
        whole = self.whole(p, height, width)
        place = (float(p.crop_pos_x), float(p.crop_pos_y))
        window = window_of(self.crop, place, whole.height, whole.width, self.name)
        return mirrored(whole.then(window), left_right=bool(p.mirror))


class RandomResizedCrop(OutputSize, Scaled):
    """Crop a window of random area and aspect ratio, and resample it to a size.

    As in torchvision and DALI, the area is uniform and the logarithm of the aspect ratio is uniform; a window that does
    not fit is sampled again, and after the last attempt the largest centered one with an allowed ratio is used. Pixels
    outside of the window count within the filter's radius, as in Pillow's ``resize(box=…)``.
    """

    random_area: tuple[float, float] = param(
        (0.08, 1.0),
        "minimum and maximum area of the window, as a share of the image's",
        kind=float,
        size=2,
        lo=0,
        hi=1,
        drawn=False,
    )
    random_aspect_ratio: tuple[float, float] = param(
        (3 / 4, 4 / 3),
        "minimum and maximum ratio of the window's width to its height",
        kind=float,
        size=2,
        lo=0.001,
        hi=1000,
        drawn=False,
    )
    num_attempts: int = param(10, "maximum number of windows drawn", lo=1, hi=10_000, drawn=False)

    maps_rows = True
    samples_together = True
    derived: ClassVar[tuple[str | tuple[str, int], ...]] = (*Scaled.traits.derived, ("window", 4))
    converted = ("scaling",)
    examples = (
        {"size": (4, 6)},
        {"size": (6, 4), "random_area": (0.5, 0.9), "interp_type": "cubic", "seed": 5},
    )
    errors = (
        ({"size": (4, 0)}, "size=0 is not valid; allowed: a whole number of at least 1"),
        (
            {"random_area": (0.5, 0.2)},
            r"random_area=\(0.5, 0.2\) is reversed; allowed: \(least, greatest\)",
        ),
        ({"random_area": (0, 2)}, "random_area=2 is not valid; allowed: a number from 0 to 1"),
        ({"random_aspect_ratio": 1.0}, "random_aspect_ratio=1.0 is not valid; allowed: 2 values"),
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in ("random_area", "random_aspect_ratio"):
            least, greatest = getattr(self, name)
            if least > greatest:
                raise ParameterError(
                    f"{name}={(least, greatest)} is reversed",
                    source=self.name,
                    allowed="(least, greatest)",
                )

    @property
    def fixed_size(self) -> tuple[int, int] | None:
        """The parameter ``size``, if the operator acts on all samples."""
        return self.size if self.p == 1 and isinstance(self.size, tuple) else None

    def sample(self, rng: np.random.Generator | BatchGenerator, spec: Spec) -> dict[str, Any]:
        """Sample a window, or one for each frame."""
        frames = spec.frames if self.per_frame else None
        return {"window": self._windows.draw(rng, spec.height, spec.width, frames)}

    def mapping(self, p: Any, height: int, width: int) -> Mapping:
        """See :meth:`Geometry.mapping`."""
        window = np.asarray(p.window)
        # for one window, Python floats are faster
        left, top, columns, rows = window.astype(np.float64).T if window.ndim > 1 else window.tolist()
        size = self.size or (height, width)
        return Mapping(scaling(left, columns / size[1], top, rows / size[0]), *size)

    def extents(self, block: Block, samples: range, spec: Spec) -> set[tuple[int, int, int]]:
        """See :meth:`Declaration.extents`; the parameter ``size``, whatever is sampled."""
        if self.size is None or self.p < 1:
            return super().extents(block, samples, spec)
        return {(spec.frames, *self.size)}

    @cached_property
    def _windows(self) -> CropWindows:
        return CropWindows(self.random_area, self.random_aspect_ratio, self.num_attempts)
