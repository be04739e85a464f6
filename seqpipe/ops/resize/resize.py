"""Operators that change the size of images."""

from __future__ import annotations

import math
from typing import Any, ClassVar, Final, Literal, TypeAlias

import numpy as np

from ...core.cached import cached_property
from ...random import BatchGenerator, ScalarGenerator
from ..core.blocks import Block
from ..core.distributions import Flag, Number
from ..core.parameters import param
from ..core.spec import Spec
from ..geometry.mapping import Mapping, OutputSize, Windowed, mirrored, scaling
from .base import Scaled

__all__ = ["RandomResizedCrop", "Resize", "ResizeCropMirror"]

Mode: TypeAlias = Literal["default", "stretch", "not_larger", "not_smaller"]
_SIZE_MODES: Final = ("default", "stretch", "not_larger", "not_smaller")
_MIN_WINDOW_PX: Final = 1e-3
_MAX_COORDINATE: Final = 1 << 24  # limit of coordinates, whose 64 bits have 32 bits of fraction
_SIZES: Final = {
    "size": ("size",),
    "resize_x or resize_y": ("resize_x", "resize_y"),
    "resize_shorter": ("resize_shorter",),
    "resize_longer": ("resize_longer",),
}
_WORDS: Final = 12  # random words of a sample: enough for five attempts, one of which nearly always fits


class _Sized(Scaled, register=False):
    """Base of operators with the size parameters of DALI, for images or a region of interest.

    A sampled side is an integer, one for all frames of a sequence; samples whose results differ in size must be a list.
    """

    size: tuple[int, int] | None = param(
        None, "(height, width); 0 for a side that keeps the aspect ratio", kind=int, size=2, lo=0, drawn=False
    )
    resize_x: Number | None = param(None, "width of the result", kind=int, unit="px", lo=1, by_frame=False)
    resize_y: Number | None = param(None, "height of the result", kind=int, unit="px", lo=1, by_frame=False)
    resize_shorter: Number | None = param(
        None,
        "length of the shorter side; the other keeps the aspect ratio",
        kind=int,
        unit="px",
        lo=1,
        by_frame=False,
    )
    resize_longer: Number | None = param(
        None,
        "length of the longer side; the other keeps the aspect ratio",
        kind=int,
        unit="px",
        lo=1,
        by_frame=False,
    )
    mode: Mode = param(
        "default",
        "how sides are combined; default: as given, a missing side keeps the aspect ratio; stretch: a missing"
        " side keeps its length; not_larger, not_smaller: the aspect ratio is kept, and no side is larger or"
        " smaller than given",
        choices=_SIZE_MODES,
    )
    max_size: int | None = param(None, "maximum length of a side", kind=int, unit="px", lo=1, drawn=False)
    subpixel_scale: bool = param(
        False,
        "whether a rounded side keeps its scale, so that the result shows slightly more or less than the whole image;"
        " the default of DALI",
        drawn=False,
    )
    roi_start: Number | None = param(
        None, "top and left of the window to resize; None for the whole image", kind=float, size=2
    )
    roi_end: Number | None = param(
        None,
        "bottom and right of the window; if they are less than the start, the result is mirrored",
        kind=float,
        size=2,
    )
    roi_relative: bool = param(
        False, "whether the window is relative to the image's size instead of in pixels", drawn=False
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        present = [
            key for key, names in _SIZES.items() if any(getattr(self, name) is not None for name in names)
        ]
        if len(present) != 1 or self.size == (0, 0):
            raise self.refusal(
                f"{' and '.join(present)} given" if len(present) > 1 else "no size is given",
                allowed=f"one of {', '.join(_SIZES)}",
            )
        if self.mode != "default" and present[0] in ("resize_shorter", "resize_longer"):
            raise self.refusal(f"mode={self.mode!r} with {present[0]}", allowed="'default'")
        if (self.roi_start is None) != (self.roi_end is None):
            raise self.refusal("one of roi_start and roi_end is given", allowed="both, or none")

    def whole(self, p: Any, height: int, width: int) -> Mapping:
        """Return the mapping that resizes images, or their region of interest.

        Args:
            p: parameters of one image or sequence.
            height: rows of the images.
            width: columns of the images.

        Raises:
            ParameterError: the window is empty.
        """
        window = self._window(p, height, width)
        sides = self._sides(p, *(abs(end - start) for start, end in window))
        (top, down, rows), (left, across, columns) = (
            self._axis(start, end, side) for (start, end), side in zip(window, sides, strict=True)
        )
        return Mapping(scaling(left, across, top, down), rows, columns)

    @property
    def may_leave(self) -> bool:
        """See :attr:`Scaled.may_leave`."""
        return self.roi_start is not None

    def leaves(self, p: Any, height: int, width: int) -> tuple[bool, bool]:
        """See :meth:`Scaled.leaves`."""
        whole = self.whole(p, height, width)
        first, last = whole.matrix @ [0.5, 0.5, 1], whole.matrix @ [whole.width - 0.5, whole.height - 0.5, 1]
        columns, rows = (
            not 0 <= min(first[n], last[n]) <= max(first[n], last[n]) <= length
            for n, length in enumerate((width, height))
        )
        return columns, rows

    def _axis(self, start: float, end: float, side: float) -> tuple[float, float, int]:
        """Return source start, source pixels per pixel, and number of pixels of an axis."""
        # rounds halves up, with a tolerance for the last bits, to at least 1
        rounded = max(1, math.floor(side + 0.5 + 1e-9))
        step = (end - start) / (side if self.subpixel_scale else rounded)
        return (start + end) / 2 - step * rounded / 2 if self.subpixel_scale else start, step, rounded

    def _window(self, p: Any, height: int, width: int) -> tuple[tuple[float, float], tuple[float, float]]:
        """Return top and bottom, and left and right of the region of interest in pixels."""
        if self.roi_start is None:
            return (0.0, height), (0.0, width)
        units = (height, width) if self.roi_relative else (1, 1)
        rows, columns = (
            (float(p.roi_start[n]) * unit, float(p.roi_end[n]) * unit) for n, unit in enumerate(units)
        )
        least, most = min(abs(b - a) for a, b in (rows, columns)), max(map(abs, (*rows, *columns)))
        if least < _MIN_WINDOW_PX or most > _MAX_COORDINATE:
            raise self.refusal(
                f"a window of rows {rows[0]:g} to {rows[1]:g} and columns {columns[0]:g} to {columns[1]:g}",
                allowed=f"windows with sides of at least {_MIN_WINDOW_PX} pixels, up to {_MAX_COORDINATE} pixels away",
            )
        return rows, columns

    def _sides(self, p: Any, height: float, width: float) -> tuple[float, float]:
        """Return height and width of the result before rounding."""
        mode, wanted = self._wanted(p)
        source = (height, width)
        ratios = [side / old for side, old in zip(wanted, source, strict=True) if side]
        if mode in ("not_larger", "not_smaller"):
            ratio = min(ratios) if mode == "not_larger" else max(ratios)
            limit = min(1.0, self.max_size / (max(source) * ratio)) if self.max_size else 1.0
            return height * ratio * limit, width * ratio * limit
        absent = 1.0 if mode == "stretch" else ratios[0]
        rows, columns = (
            min(side or old * absent, self.max_size or math.inf)
            for side, old in zip(wanted, source, strict=True)
        )
        return rows, columns

    def _wanted(self, p: Any) -> tuple[Mode, tuple[int, int]]:
        if self.resize_shorter is not None:
            return "not_smaller", (p.resize_shorter, p.resize_shorter)
        if self.resize_longer is not None:
            return "not_larger", (p.resize_longer, p.resize_longer)
        return self.mode, self.size or (p.resize_y, p.resize_x)


class Resize(_Sized):
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


class ResizeCropMirror(Windowed, _Sized):
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
    errors = (({"crop": (4, 4)}, "resize_crop_mirror: no size is given; allowed: one of size"),)

    def mapping(self, p: Any, height: int, width: int) -> Mapping:
        """See :meth:`Geometry.mapping`.

        Raises:
            ParameterError: the window is larger than the resized images.
        """
        whole = self.whole(p, height, width)
        window = self.window_of(p, whole.height, whole.width)
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
        ordered=True,
        lo=0,
        hi=1,
        drawn=False,
    )
    random_aspect_ratio: tuple[float, float] = param(
        (3 / 4, 4 / 3),
        "minimum and maximum ratio of the window's width to its height",
        kind=float,
        size=2,
        ordered=True,
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
    def _windows(self) -> _CropWindows:
        return _CropWindows(self.random_area, self.random_aspect_ratio, self.num_attempts)


class _CropWindows:
    """Distribution of windows.

    Args:
        area: least and greatest area relative to the images.
        ratio: least and greatest ratio of width to height.
        attempts: most windows that are sampled; then the largest centered one with an allowed ratio is used.
    """

    def __init__(self, area: tuple[float, float], ratio: tuple[float, float], attempts: int) -> None:
        (least, most), (lo, hi) = area, map(math.log, ratio)
        self._ranges = least, most - least, lo, hi - lo
        self._ratio, self._attempts = ratio, attempts

    def draw(
        self, rng: np.random.Generator | BatchGenerator, height: int, width: int, frames: int | None
    ) -> Any:
        """Sample left, top, width and height of a window, or of one for each frame."""
        if not isinstance(rng, BatchGenerator):
            return self._some(ScalarGenerator.of(rng), height, width, frames)
        return np.array([self._some(generator, height, width, frames) for generator in rng.each(_WORDS)])

    def _some(self, numbers: ScalarGenerator, height: int, width: int, frames: int | None) -> Any:
        if frames is None:
            return self._one(numbers, height, width)
        return [self._one(numbers, height, width) for _ in range(frames)]

    def _one(self, numbers: ScalarGenerator, height: int, width: int) -> tuple[int, int, int, int]:
        least, more, log_least, log_more = self._ranges
        for _ in range(self._attempts):
            area = height * width * (least + more * numbers.random())
            ratio = math.exp(log_least + log_more * numbers.random())
            columns, rows = round(math.sqrt(area * ratio)), round(math.sqrt(area / ratio))
            if 0 < columns <= width and 0 < rows <= height:
                left = numbers.below(width - columns + 1)
                return left, numbers.below(height - rows + 1), columns, rows
        lo, hi = self._ratio
        columns = max(1, min(width, round(height * hi)))
        rows = max(1, min(height, round(width / lo)))
        return (width - columns) // 2, (height - rows) // 2, columns, rows
