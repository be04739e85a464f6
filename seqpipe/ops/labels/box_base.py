"""OnBoxes: base of operators on bounding boxes relative to the size of the image."""

from __future__ import annotations

from typing import Any, ClassVar, Final, TypeVar

import numpy as np

from ...array import FloatArray, as_native, device_of
from ...errors import ParameterError
from ..call.dispatch import indices_of
from ..call.inputs import as_array, check_not_empty, like_container, like_library
from ..core.blocks import resolve, values_of
from ..core.declaration import Declaration, Takes
from ..core.deferred import or_node
from ..core.parameters import param
from ..core.spec import Spec

__all__ = ["OnBoxes"]

X = TypeVar("X")

_SAMPLE: Final = Spec(1, 1, 1, 4, "float64")  # boxes have no image, so each sample counts as one pixel
_TYPES: Final = ("f4", "f8")  # dtype.str without the byte order
_SLACK: Final = 1e-4  # relative to the image: tolerance for rounding at the borders


class OnBoxes(Declaration, register=False):
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
        given: Any = boxes
        parts = list(given) if isinstance(given, (list, tuple)) else [given]
        check_not_empty(self, parts)
        block = resolve(self, [_SAMPLE] * len(parts), epoch, indices_of(self, index, len(parts)))
        found = [self._moved(part, block.of(n, 1)[0]) for n, part in enumerate(parts)]
        result: Any = like_container(given, found) if isinstance(given, (list, tuple)) else found[0]
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
            raise ParameterError(
                f"boxes of {array.dtype} of shape {array.shape} on {device_of(array)}",
                source=self.name,
                allowed=f"{' or '.join(self.traits.dtypes)} (…, 4) in main memory",
            )
        found = np.array(array, np.float64)
        if not self.ltrb:
            found[..., 2:] += found[..., :2]
        sides = found[..., 2:] >= found[..., :2]
        # NaN fails both comparisons
        if array.size and not (found.min() >= -_SLACK and found.max() <= 1 + _SLACK and sides.all()):
            self._refuse(found)
        return found

    def like_boxes(self, corners: FloatArray, given: Any) -> Any:
        """Return boxes from left, top, right and bottom in the form and dtype of the given boxes."""
        found = corners.copy()
        if not self.ltrb:
            found[..., 2:] -= found[..., :2]
        return like_library(given, found.astype(as_native(given).dtype))

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
                raise ParameterError(
                    f"the box from left, top to right, bottom ({box}) {what}",
                    source=self.name,
                    allowed="0 to 1, relative to the width and height of the image",
                    advice="Divide pixels by the size of the image, and check ltrb",
                )
