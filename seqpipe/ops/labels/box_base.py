"""Boxes: operators on bounding boxes alone, in parts of an image's size."""

from __future__ import annotations

from typing import Any, ClassVar, Final, TypeVar

import numpy as np

from ...array import FloatArray, as_native, device_of
from ...errors import ParameterError
from ..call.dispatch import indices_of
from ..call.inputs import admitted, check_some, gathered, like
from ..core.blocks import resolve, values_of
from ..core.declaration import Declaration, Takes
from ..core.deferred import or_node
from ..core.parameters import param
from ..core.spec import Spec

__all__ = ["OnBoxes"]

X = TypeVar("X")

_SAMPLE: Final = Spec(1, 1, 1, 4, "float64")  # boxes are drawn for as if each sample were one pixel
_TYPES: Final = ("f4", "f8")  # as NumPy's types have it after the order of their bytes
_SLACK: Final = 1e-4  # of the image: what rounding may have moved a box beyond the borders


class OnBoxes(Declaration, register=False):
    """An operator on boxes in parts of the image: 0 is its left and its top, 1 its right and its bottom."""

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
        """The boxes of the result.

        Args:
            boxes: ``(…, 4)`` of one sample, from 0 to 1, in main memory; or a list with one for each sample.
            epoch: the epoch that random parameters are drawn for.
            index: the index of the first sample within its dataset, or of each one; draws depend on it.

        Returns:
            What came in, of the same type, in memory of its own.

        Raises:
            ParameterError: these are not boxes, or not in parts of the image.
        """
        given: Any = boxes
        parts = list(given) if isinstance(given, (list, tuple)) else [given]
        check_some(self, parts)
        block = resolve(self, [_SAMPLE] * len(parts), epoch, indices_of(self, index, len(parts)))
        found = [self._moved(part, block.of(n, 1)[0]) for n, part in enumerate(parts)]
        result: Any = gathered(given, found) if isinstance(given, (list, tuple)) else found[0]
        return result  # type: ignore[no-any-return]  # of the type of what was given

    def corners(self, boxes: Any) -> FloatArray:
        """Boxes as left, top, right and bottom, ``(…, 4)``.

        Raises:
            ParameterError: these are not boxes, or not in parts of the image.
        """
        array = boxes if type(boxes) is np.ndarray else admitted(self, boxes)
        if (
            device_of(array) != "cpu"
            or array.dtype.str[1:] not in _TYPES
            or not array.ndim
            or array.shape[-1] != 4
        ):
            raise ParameterError(
                f"boxes of {array.dtype} of shape {array.shape} on {device_of(array)}",
                source=self.name,
                allowed=f"{' or '.join(self.traits.dtypes)} (…, 4) in main memory",
            )
        found = np.array(array, np.float64)
        if not self.ltrb:
            found[..., 2:] += found[..., :2]
        sides = found[..., 2:] >= found[..., :2]
        # NaN is neither
        if array.size and not (found.min() >= -_SLACK and found.max() <= 1 + _SLACK and sides.all()):
            self._refuse(found)
        return found

    def formed(self, corners: FloatArray, given: Any) -> Any:
        """Boxes of left, top, right and bottom as those that were given have it."""
        found = corners.copy()
        if not self.ltrb:
            found[..., 2:] -= found[..., :2]
        return like(given, found.astype(as_native(given).dtype))

    def _moved(self, boxes: Any, row: np.void) -> Any:
        corners = self.corners(boxes)
        if not row["acts"]:
            return like(boxes, np.array(as_native(boxes)))
        return self.formed(self.reference(corners, values_of(row)), boxes)

    def _refuse(self, corners: FloatArray) -> None:
        beyond = ~((corners >= -_SLACK) & (corners <= 1 + _SLACK)).all(axis=-1)
        turned = (corners[..., 2:] < corners[..., :2]).any(axis=-1)
        for wrong, what in ((beyond, "is not within the image"), (turned, "ends before it begins")):
            if wrong.any():
                box = ", ".join(f"{value:g}" for value in corners[wrong][0])
                raise ParameterError(
                    f"the box from left, top to right, bottom ({box}) {what}",
                    source=self.name,
                    allowed="0 to 1, parts of the width and the height of the image",
                    advice="Divide pixels by the size of the image, and look whether ltrb is meant",
                )
