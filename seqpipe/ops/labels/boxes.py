"""Operators on boxes and points."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, ClassVar, Final, NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt

from ...array import Array, FloatArray, as_native, device_of, namespace
from ...core.cached import cached_property
from ...random import stream_index, streams
from ..call.backends import on_device_of
from ..call.inputs import as_array, check_not_empty, like_container, like_library
from ..core.blocks import resolve, values_of
from ..core.declaration import Declaration, Takes
from ..core.deferred import or_node
from ..core.distributions import Flag, Number, PerFrame
from ..core.nodes import DataNode, parts_of
from ..core.parameters import ANY, param
from ..core.sampling import indices_of
from ..core.spec import MOVED_DTYPES, Spec, cast_coordinates
from .box_windows import centered, overlaps

__all__ = ["BbFlip", "BboxPaste", "BoxCrop", "CoordTransform", "RandomBboxCrop"]

_WHOLE_IMAGE: Final = np.array([0.0, 0.0, 1.0, 1.0])
_ORIGIN_COLUMNS: Final = np.array([0, 1, 0, 1])  # origin of the window for each side of a box
_END_COLUMNS: Final = np.array([2, 3, 2, 3])
_WINDOWS_AT_ONCE: Final = 64  # windows that are tested together, of those for one threshold
X = TypeVar("X")
_SAMPLE: Final = Spec(1, 1, 1, 4, "float64")  # boxes have no image, so each sample counts as one pixel
_TYPES: Final = ("f4", "f8")  # dtype.str without the byte order
_SLACK: Final = 1e-4  # relative to the image: tolerance for rounding at the borders


class _OnBoxes(Declaration, register=False):
    """Base of operators on boxes relative to the image: 0 is its left and top, 1 its right and bottom."""

    takes: ClassVar[Takes] = "boxes"
    dtypes: ClassVar[tuple[str, ...]] = ("float32", "float64")
    by_frame: ClassVar[bool] = False

    ltrb: bool = param(
        False,
        "whether boxes are left, top, right and bottom; otherwise left, top, width and height",
        drawn=False,
    )

    @or_node
    def __call__(self, boxes: X, *, epoch: int = 0, index: Any = None) -> X:
        """Transform boxes.

        Args:
            boxes: ``(…, 4)`` of one sample, from 0 to 1, in main memory; or a list with an array for each sample.
            epoch: epoch that random parameters are sampled for.
            index: index of the first sample within its dataset, or of each sample; sampled parameters depend on it.

        Returns:
            The boxes, of the same type and in their own memory.

        Raises:
            ParameterError: the array does not hold boxes, or they are not relative to the image.
        """
        values: Any = boxes
        parts = list(values) if isinstance(values, (list, tuple)) else [values]
        check_not_empty(self, parts)
        block = resolve(self, [_SAMPLE] * len(parts), epoch, indices_of(self, index, len(parts)))
        moved = [self._moved(part, block.of(n, 1)[0]) for n, part in enumerate(parts)]
        result: Any = like_container(values, moved) if isinstance(values, (list, tuple)) else moved[0]
        return result  # type: ignore[no-any-return]  # of the type of the input

    def corners(self, boxes: Any) -> FloatArray:
        """Return boxes as left, top, right and bottom, ``(…, 4)``.

        Raises:
            ParameterError: the array does not hold boxes, or they are not relative to the image.
        """
        array = boxes if type(boxes) is np.ndarray else as_array(self, boxes)
        if (
            device_of(array) != "cpu"
            or array.dtype.str[1:] not in _TYPES
            or not array.ndim
            or array.shape[-1] != 4
        ):
            raise self.refusal(
                f"boxes of {array.dtype} of shape {array.shape} on {device_of(array)}",
                allowed=f"{' or '.join(self.traits.dtypes)} (…, 4) in main memory",
            )
        result = np.array(array, np.float64)
        if not self.ltrb:
            result[..., 2:] += result[..., :2]
        sides = result[..., 2:] >= result[..., :2]
        # NaN fails both comparisons
        if array.size and not (result.min() >= -_SLACK and result.max() <= 1 + _SLACK and sides.all()):
            self._refuse(result)
        return result

    def like_boxes(self, corners: FloatArray, boxes: Any) -> Any:
        """Return boxes from left, top, right and bottom in the form and dtype of the given boxes."""
        result = corners.copy()
        if not self.ltrb:
            result[..., 2:] -= result[..., :2]
        return like_library(boxes, result.astype(as_native(boxes).dtype))

    def _moved(self, boxes: Any, row: np.void) -> Any:
        corners = self.corners(boxes)
        if not row["acts"]:
            return like_library(boxes, np.array(as_native(boxes)))
        return self.like_boxes(self.reference(corners, values_of(row)), boxes)

    def _refuse(self, corners: FloatArray) -> None:
        beyond = ~((corners >= -_SLACK) & (corners <= 1 + _SLACK)).all(axis=-1)
        turned = (corners[..., 2:] < corners[..., :2]).any(axis=-1)
        for wrong, what in ((beyond, "is not within the image"), (turned, "ends before it begins")):
            if wrong.any():
                box = ", ".join(f"{value:g}" for value in corners[wrong][0])
                raise self.refusal(
                    f"the box from left, top to right, bottom ({box}) {what}",
                    allowed="0 to 1, relative to the width and height of the image",
                    advice="Divide pixels by the size of the image, and check ltrb",
                )


class BbFlip(_OnBoxes):
    """Mirror boxes, as :class:`Flip` mirrors their images.

    ``x`` becomes ``1 - x``; the left and the right side are exchanged.
    """

    horizontal: Flag = param(True, "mirror left to right", identity=False)
    vertical: Flag = param(False, "mirror top to bottom", identity=False)

    examples = (
        {"ltrb": True},
        {"horizontal": False, "vertical": True},
        {"vertical": True, "p": 0.5, "seed": 3},
    )

    def reference(self, x: Array, p: Any) -> Array:
        """Mirror the sides."""
        result = x.copy()
        for axis, flag in enumerate((p.horizontal, p.vertical)):
            if flag:
                result[..., [axis, axis + 2]] = 1 - x[..., [axis + 2, axis]]
        return result


class BboxPaste(_OnBoxes):
    """Move boxes like their image on a larger canvas.

    ``out = in / ratio + paste * (1 - 1 / ratio)``, along each axis.
    """

    ratio: Number = param(1.0, "size of the canvas relative to the image", lo=1, identity=1.0)
    paste_x: Number = param(0.5, "horizontal position of the image, from 0 (left) to 1 (right)", lo=0, hi=1)
    paste_y: Number = param(0.5, "vertical position of the image, from 0 (top) to 1 (bottom)", lo=0, hi=1)

    examples = (
        {"ratio": 2.0, "ltrb": True},
        {"ratio": (1.0, 4.0), "paste_x": (0.0, 1.0), "paste_y": (0.0, 1.0), "seed": 4},
    )

    def reference(self, x: Array, p: Any) -> Array:
        """Compute the formula."""
        ratio = float(p.ratio)
        margin = (1 - 1 / ratio) * np.array([p.paste_x, p.paste_y, p.paste_x, p.paste_y], np.float64)
        return x / ratio + margin


class BoxCrop(NamedTuple):
    """Result of :class:`RandomBboxCrop`; for a list of samples, arrays with a row for each, and lists.

    Attributes:
        anchor: x and y of the window's top left corner, relative to the image; float32.
        shape: width and height of the window, likewise.
        boxes: boxes whose center is in the window, clipped to it, relative to the window.
        labels: labels of these boxes; None without labels.
    """

    anchor: npt.NDArray[np.float32]
    shape: npt.NDArray[np.float32]
    boxes: Any
    labels: Any


class RandomBboxCrop(_OnBoxes):
    """Sample a window that overlaps enough with the boxes, as SSD does.

    It samples one of the thresholds, or no crop; then windows, until one overlaps with the boxes by the threshold and
    contains the center of a box. After ``num_attempts`` windows it samples another threshold, after
    ``total_num_attempts`` it takes the whole image. Source: W. Liu and others, "SSD: Single shot multibox detector",
    2016, section 2.2; ``fn.crop`` or ``fn.slice`` crops the image.
    """

    aspect_ratio: tuple[float, float] = param(
        (1.0, 1.0),
        "minimum and maximum ratio of width to height",
        lo=1e-3,
        size=2,
        ordered=True,
        kind=float,
        drawn=False,
    )
    scaling: tuple[float, float] = param(
        (1.0, 1.0),
        "minimum and maximum width and height, relative to the image",
        lo=1e-3,
        hi=1,
        size=2,
        ordered=True,
        kind=float,
        drawn=False,
    )
    thresholds: tuple[float, ...] = param(
        (0.0,), "minimum overlaps to choose from", kind=float, lo=0, hi=1, size=ANY
    )
    threshold_type: str = param(
        "iou",
        "measure of overlap: intersection over union, or intersection over the box's area",
        choices=("iou", "overlap"),
    )
    all_boxes_above_threshold: bool = param(
        True, "whether all boxes must reach the overlap; otherwise one box is enough", drawn=False
    )
    allow_no_crop: bool = param(True, "whether the whole image may be drawn instead of a window", drawn=False)
    p: float = param(1.0, "always 1; allow_no_crop keeps the whole image", lo=1, hi=1, drawn=False)
    num_attempts: int = param(
        1, "maximum number of windows drawn for one threshold", lo=1, hi=10_000, drawn=False
    )
    total_num_attempts: int = param(300, "maximum number of windows drawn", lo=1, hi=10_000, drawn=False)
    ltrb: bool = param(
        True,
        "whether boxes are left, top, right and bottom; otherwise left, top, width and height",
        drawn=False,
    )

    examples = (
        {
            "aspect_ratio": (0.5, 2.0),
            "scaling": (0.3, 1.0),
            "thresholds": (0.0, 0.1, 0.3, 0.5, 0.7, 0.9),
            "num_attempts": 40,
        },
        {"scaling": (0.1, 0.9), "allow_no_crop": False, "threshold_type": "overlap", "ltrb": False},
    )

    @or_node
    def __call__(self, boxes: Any, labels: Any = None, *, epoch: int = 0, index: Any = None) -> BoxCrop:  # type: ignore[override]  # it returns more than boxes
        """Sample a window, and return the boxes within it.

        Args:
            boxes: ``(K, 4)`` of one sample, from 0 to 1, in main memory; or a list with an array for each sample.
            labels: ``(K, …)``, for each box; or a list with an array for each sample.
            epoch: epoch that the window is sampled for.
            index: index of the first sample within its dataset, or of each sample; the window depends on it.

        Raises:
            ParameterError: the array does not hold boxes relative to the image, or labels do not fit the boxes.
        """
        if not isinstance(boxes, (list, tuple)):
            return self._sample(boxes, labels, epoch, indices_of(self, index, 1)[0])
        check_not_empty(self, boxes)
        count = len(boxes) if labels is None else len(labels) if hasattr(labels, "__len__") else "no"
        if count != len(boxes):
            raise self.refusal(f"labels of {count} samples", allowed=f"{len(boxes)}, as many as boxes")
        all_labels = [None] * len(boxes) if labels is None else labels
        indices = indices_of(self, index, len(boxes))
        each = zip(boxes, all_labels, indices, strict=True)
        samples = [self._sample(box, label, epoch, n) for box, label, n in each]
        anchors, shapes, *rest = zip(*samples, strict=True)
        return BoxCrop(
            np.stack(anchors), np.stack(shapes), list(rest[0]), None if labels is None else list(rest[1])
        )

    def results(self, node: DataNode) -> BoxCrop:
        """Return a node for each value."""
        each: Any = parts_of(node, BoxCrop._fields)
        return BoxCrop(*each)

    def reference(self, x: Array, p: Any) -> Array:
        """Return boxes relative to the window ``p.window``, clipped to it."""
        begin, size = p.window[_ORIGIN_COLUMNS], p.window[_END_COLUMNS] - p.window[_ORIGIN_COLUMNS]
        result: Array = np.minimum(np.maximum((x - begin) / size, 0), 1)
        return result

    def _sample(self, boxes: Any, labels: Any, epoch: int, index: int) -> BoxCrop:
        corners = self.corners(boxes)
        names = None if labels is None else as_array(self, labels)
        if corners.ndim != 2 or (names is not None and names.shape[:1] != corners.shape[:1]):
            count = "no" if names is None else len(names) if names.ndim else "unnumbered"
            raise self.refusal(
                f"boxes of shape {corners.shape} with {count} labels",
                allowed="(K, 4), and a label for each if there are labels",
            )
        for rng in streams(self.seed, self.stream_name, stream_index(epoch, "epoch", self.name), (index,)):
            window = self._window(corners, rng)
        kept = centered(corners, window[None])[0]
        moved = self.like_boxes(self.reference(corners[kept], SimpleNamespace(window=window)), boxes)
        left = None if names is None else like_library(labels, names[kept])
        return BoxCrop(
            window[:2].astype(np.float32), (window[2:] - window[:2]).astype(np.float32), moved, left
        )

    def _window(self, boxes: FloatArray, rng: np.random.Generator) -> FloatArray:
        """Sample a window: left, top, right and bottom."""
        choices = [*self.thresholds, *([None] if self.allow_no_crop else [])]
        for begin in range(0, self.total_num_attempts, self.num_attempts):
            threshold = choices[rng.integers(len(choices))]
            if threshold is None:
                return _WHOLE_IMAGE
            left = min(self.num_attempts, self.total_num_attempts - begin)
            for count in (*[_WINDOWS_AT_ONCE] * (left // _WINDOWS_AT_ONCE), left % _WINDOWS_AT_ONCE):
                result = self._windows.first(rng.random((count, 4)), boxes, threshold) if count else None
                if result is not None:
                    return result
        return _WHOLE_IMAGE

    @cached_property
    def _windows(self) -> _BboxWindows:
        of_both = self.threshold_type == "iou"
        return _BboxWindows(self.scaling, self.aspect_ratio, of_both, self.all_boxes_above_threshold)


class _BboxWindows(NamedTuple):
    """Distribution of the candidate windows, and the required overlap.

    Attributes:
        scaling: least and greatest width and height relative to the image.
        aspect_ratio: least and greatest ratio of width to height.
        of_both: whether the overlap is relative to the union (IoU); otherwise to the area of the box.
        each: whether all boxes must overlap enough; otherwise one of them.
    """

    scaling: tuple[float, float]
    aspect_ratio: tuple[float, float]
    of_both: bool
    each: bool

    def first(self, drawn: FloatArray, boxes: FloatArray, threshold: float) -> FloatArray | None:
        """Return the first window that overlaps enough, as left, top, right, bottom; None if none does."""
        windows = self._candidates(drawn)
        suitable = self._suitable(boxes, windows, threshold)
        if not suitable.any():
            return None
        result: FloatArray = windows[suitable.argmax()]
        return result

    def _candidates(self, drawn: FloatArray) -> FloatArray:
        """Return the windows ``(M, 4)`` whose aspect ratio is allowed."""
        least, most = self.aspect_ratio
        lo, hi = self.scaling
        sizes = lo + (hi - lo) * drawn[:, :2]
        if least == most:  # two independent sides would never have this ratio
            sizes[:, 1] = sizes[:, 0] / least
        ratio, height = sizes[:, 0] / sizes[:, 1], sizes[:, 1]
        fits = (
            (least <= ratio * (1 + 1e-12)) & (ratio <= most * (1 + 1e-12)) & (lo <= height) & (height <= hi)
        )
        sizes = sizes[fits]
        begin = drawn[fits, 2:] * (1 - sizes)
        windows: FloatArray = np.concatenate((begin, begin + sizes), axis=-1)
        return windows

    def _suitable(self, boxes: FloatArray, windows: FloatArray, threshold: float) -> npt.NDArray[np.bool_]:
        """Return which windows overlap enough; all, if there are no boxes."""
        if not len(boxes):
            return np.ones(len(windows), np.bool_)
        shared = overlaps(boxes, windows, of_both=self.of_both) >= threshold
        enough = shared.all(axis=-1) if self.each else shared.any(axis=-1)
        return np.asarray(enough & centered(boxes, windows).any(axis=-1))


_MATRICES: Final = {"M": (2, 2), "MT": (2, 3)}


class CoordTransform(Declaration):
    """Transform points by an affine map: ``out = M in + T``, as in DALI.

    ``MT`` combines ``M`` and, as its last column, ``T``. Matrices are arrays, or their rows one after the other; a
    number is that multiple of the identity, and for ``T`` the same translation along both axes.
    """

    M: Number | None = param(None, "the matrix, 2×2; None for the identity", kind=float, size=4)
    T: Number | None = param(None, "translation; None for 0", kind=float, size=2)
    MT: Number | None = param(
        None, "matrix and translation in one 2×3 matrix, instead of M and T", kind=float, size=6
    )
    dtype: str | None = param(
        "float32", "dtype of the result; None for that of the input", choices=MOVED_DTYPES[1:], optional=True
    )

    takes: ClassVar[Takes] = "points"
    dtypes: ClassVar[tuple[str, ...]] = MOVED_DTYPES[1:]
    examples = (
        {"T": (1.5, -2.0)},
        {"M": ((0.9, 1.1), (-0.1, 0.1), (-0.1, 0.1), (0.9, 1.1)), "p": 0.5, "seed": 2},
        {"MT": ((0.0, -1.0, 10.0), (1.0, 0.0, 0.0))},
    )
    errors = (
        ({"M": 2.0, "MT": 2.0}, "coord_transform: M and MT given; allowed: M and T, or MT"),
        ({"T": (1.0, 2.0), "MT": 1.0}, "coord_transform: T and MT given; allowed: M and T, or MT"),
    )

    def __post_init__(self) -> None:
        for name, (rows, columns) in _MATRICES.items():
            object.__setattr__(self, name, _in_a_row(getattr(self, name), rows, columns))
        shift: Any = self.T
        if isinstance(shift, (int, float)) and not isinstance(shift, bool):
            object.__setattr__(self, "T", (shift, shift))
        super().__post_init__()
        present = [name for name in ("M", "T") if getattr(self, name) is not None]
        if present and self.MT is not None:
            raise self.refusal(f"{present[0]} and MT given", allowed="M and T, or MT")

    @or_node
    def __call__(self, points: X, *, epoch: int = 0, index: Any = None) -> X:
        """Transform points.

        Args:
            points: ``(…, 2)`` of one sample, x and y, a NumPy, CuPy or torch array; the first axis counts frames if
                parameters differ between frames. Or a list with an array for each sample.
            epoch: epoch that random parameters are sampled for.
            index: index of the first sample within its dataset, or of each sample; sampled parameters depend on it.

        Returns:
            The points, of the same type and in their own memory.

        Raises:
            ParameterError: the array does not hold points.
        """
        values: Any = points
        many = isinstance(values, (list, tuple))
        parts = list(values) if many else [values]
        check_not_empty(self, parts)
        arrays = [self._points(part) for part in parts]
        specs = [Spec(len(array) if array.ndim > 1 else 1, 1, 1, 2, array.dtype.name) for array in arrays]
        block = resolve(self, specs, epoch, indices_of(self, index, len(parts)))
        moved = []
        for n, (part, array, spec) in enumerate(zip(parts, arrays, specs, strict=True)):
            with on_device_of(array):
                moved.append(like_library(part, self._moved(array, block.of(n, spec.frames))))
        result: Any = like_container(values, moved) if many else moved[0]
        return result  # type: ignore[no-any-return]  # of the type of the input

    def _moved(self, array: Array, rows: npt.NDArray[Any]) -> Array:
        """Transform the points of a sample, by one map or by one for each frame."""
        parts = [array] if len(rows) == 1 else array
        moved = [self.reference(x, values_of(row)) for x, row in zip(parts, rows, strict=True)]
        whole = moved[0] if len(rows) == 1 else namespace(array).stack(moved)
        return self._typed(whole.reshape(array.shape), array)

    def reference(self, x: Array, p: Any) -> Array:
        """Compute the formula in double precision."""
        if not p.acts:
            return x.astype(np.float64)
        library = namespace(x)
        matrix, shift = (library.asarray(part) for part in self._map(p))
        return x @ matrix.T + shift

    def _map(self, p: Any) -> tuple[FloatArray, FloatArray]:
        """Return the matrix and the translation."""
        if self.MT is not None:
            both = np.asarray(p.MT, np.float64).reshape(2, 3)
            return both[:, :2], both[:, 2]
        matrix = np.eye(2) if self.M is None else np.asarray(p.M, np.float64).reshape(2, 2)
        return matrix, np.zeros(2) if self.T is None else np.asarray(p.T, np.float64)

    def _points(self, points: Any) -> Array:
        array = as_array(self, points)
        if array.dtype.name not in self.traits.dtypes or not array.ndim or array.shape[-1] != 2:
            raise self.refusal(
                f"points of {array.dtype} of shape {tuple(array.shape)}", allowed="numbers (…, 2)"
            )
        return array

    def _typed(self, values: Array, points: Array) -> Array:
        return cast_coordinates(values, np.dtype(self.dtype or points.dtype))


def _in_a_row(value: Any, rows: int, columns: int) -> Any:
    """Return a matrix with its rows one after the other; any other value unchanged."""
    if isinstance(value, PerFrame):
        return PerFrame(_in_a_row(value.values, rows, columns))
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        return tuple(value if on_diagonal else 0.0 for on_diagonal in np.eye(rows, columns).ravel())
    if (
        isinstance(value, (tuple, list))
        and len(value) == rows
        and all(np.size(row) == columns for row in value)
    ):
        return tuple(part for row in value for part in row)
    if isinstance(getattr(value, "shape", None), tuple) and tuple(value.shape[-2:]) == (rows, columns):
        return value.reshape(*value.shape[:-2], rows * columns)
    return value
