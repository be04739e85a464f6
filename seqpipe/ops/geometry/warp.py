"""Operators that warp images by affine and projective maps with interpolation."""

from __future__ import annotations

import math
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from ..core.distributions import Number
from ..core.parameters import param
from ..core.spec import Spec
from .mapping import Mapping
from .warped import Warped

__all__ = ["Rotate", "WarpAffine", "WarpPerspective"]


class WarpAffine(Warped):
    """Warp images by an affine map.

    ``out(x, y) = in(m11 x + m12 y + m13, m21 x + m22 y + m23)``, where the corner of the first pixel is at (0, 0). With
    ``unit="mm"``, x and y are millimeters along the columns and rows of a volume's slices, by the spacing of its
    affine, so that a rotation is one of the anatomy, whatever the shape of voxels.
    """

    matrix: Number = param(
        (1.0, 0.0, 0.0, 0.0, 1.0, 0.0),
        "2×3 matrix of the map: m11, m12, m13, m21, m22, m23",
        kind=float,
        size=6,
    )
    inverse_map: bool = param(
        True,
        "whether the matrix maps the result to the source; False if it maps the source to the result",
        drawn=False,
    )

    unit: Literal["pixel", "mm"] = param(
        "pixel", "unit of x and y; mm requires sequences with an affine", choices=("pixel", "mm")
    )

    maps_rows = True
    derived = ("whole", ("steps", 2))
    examples = (
        {"matrix": (0.9, 0.2, -1.0, -0.1, 1.1, 0.5), "size": (4, 6), "fill_value": 42.0},
        {
            "matrix": ((0.8, 1.2), (-0.2, 0.2), (-1.0, 1.0), (-0.2, 0.2), (0.8, 1.2), (-1.0, 1.0)),
            "inverse_map": False,
            "interp_type": "cubic",
            "seed": 4,
        },
        {"matrix": (0.5, 0.0, 0.3, 0.1, 0.5, 0.0), "interp_type": "nearest", "dtype": "float32"},
    )

    def mapping(self, p: Any, height: int, width: int) -> Mapping:
        """See :meth:`Geometry.mapping`."""
        maps = np.shape(p.matrix)[:-1]
        matrix = np.zeros((*maps, 3, 3))
        matrix[..., :2, :] = np.reshape(p.matrix, (*maps, 2, 3))
        matrix[..., 2, 2] = 1
        if self.unit == "mm":
            steps = np.ones((*maps, 3))
            steps[..., :2] = p.steps
            matrix *= steps[..., None, :] / steps[..., :, None]
        return self.mapped(matrix, height, width, inverse_map=self.inverse_map)

    def derive(self, rows: npt.NDArray[Any], spec: Spec) -> dict[str, Any]:
        """Derive whether results are integers, and the length of a column and of a row in the unit.

        Raises:
            ParameterError: the unit is mm, and the spacing is unknown.
        """
        if self.unit == "mm" and spec.spacing is None:
            raise self.refusal(
                "matrix in mm, for images whose spacing is not known",
                allowed='sequences with an affine, or unit="pixel"',
                advice="Pass Sequence(data, layout, affine=…), whose columns have the length of a voxel in mm",
            )
        steps = (1.0, 1.0) if spec.spacing is None else spec.spacing[:0:-1]
        return {**super().derive(rows, spec), "steps": steps}


class WarpPerspective(Warped):
    """Warp images by a projective map.

    ``out(x, y) = in(u / w, v / w)`` with ``(u, v, w) = matrix (x, y, 1)``.

    Like OpenCV, a result shows the source on both sides of the vanishing line, whatever the sign of ``w``. A box that
    crosses it extends to infinity; the transformed box is the smallest one around its visible part, clipped to the
    result, and 0, 0, 0, 0 if nothing is visible.
    """

    matrix: Number = param(
        (1.0, 0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0, 1.0), "3×3 matrix of the map, row by row", kind=float, size=9
    )
    inverse_map: bool = param(
        True,
        "whether the matrix maps the result to the source; False if it maps the source to the result",
        drawn=False,
    )
    pixel_origin: Literal["corner", "center"] = param(
        "corner",
        "point of the first pixel that has the coordinates (0, 0); center is OpenCV's convention",
        choices=("corner", "center"),
    )

    perspective = True
    examples = (
        {"matrix": (0.9, 0.2, -1.0, -0.1, 1.1, 0.5, 0.01, -0.02, 1.0), "size": (6, 5), "fill_value": 9.0},
        {
            "matrix": (1.0, 0.0, (-1.0, 1.0), 0.0, 1.0, (-1.0, 1.0), (-0.02, 0.02), (-0.02, 0.02), 1.0),
            "interp_type": "cubic",
            "pixel_origin": "center",
            "inverse_map": False,
            "seed": 4,
        },
    )

    def mapping(self, p: Any, height: int, width: int) -> Mapping:
        """See :meth:`Geometry.mapping`."""
        mapping = self.mapped(
            np.asarray(p.matrix, np.float64).reshape(3, 3), height, width, inverse_map=self.inverse_map
        )
        if self.pixel_origin == "corner":
            return mapping
        to_corner = np.array([[1, 0, 0.5], [0, 1, 0.5], [0, 0, 1]])
        return Mapping(to_corner @ mapping.matrix @ np.linalg.inv(to_corner), mapping.height, mapping.width)


class Rotate(Warped):
    """Rotate images around their center.

    Unless a size is given or kept, the result is large enough to show the whole image. As in DALI, its sides are then
    even if those of the image are, so that the center stays a pixel or a corner of four.

    The slices of a volume with an affine are rotated in millimeters: with anisotropic pixels, their content is neither
    sheared nor stretched, and the spacing stays.
    """

    angle: Number = param(0.0, "angle, counter-clockwise", unit="degrees")
    keep_size: bool = param(False, "whether the result keeps the size of the image", drawn=False)

    derived = ("whole", "aspect")
    exclusive = (("keep_size", "size"),)
    examples = (
        {"angle": 30.0, "size": (6, 8), "fill_value": 0.0},
        {"angle": (-20.0, 20.0), "keep_size": True, "seed": 1},
        {"angle": 75.0, "interp_type": "cubic"},
        {"angle": 90.0},
    )

    def mapping(self, p: Any, height: int, width: int) -> Mapping:
        """See :meth:`Geometry.mapping`; the center of the result is that of the image."""
        angle = float(p.angle)
        cosine, sine = math.cos(math.radians(angle)), math.sin(math.radians(angle))
        if angle % 90 == 0:
            cosine, sine = round(cosine), round(sine)
        aspect = float(p.aspect) or 1.0  # 0 while no sample is known that determines it
        size = (height, width) if self.keep_size else self.size or _canvas(angle, height, width, aspect)
        x, y = size[1] / 2, size[0] / 2
        right, down = sine * aspect, sine / aspect
        matrix = np.array(
            [
                [cosine, -right, width / 2 - cosine * x + right * y],
                [down, cosine, height / 2 - down * x - cosine * y],
                [0, 0, 1],
            ],
            np.float64,
        )
        return Mapping(matrix, *size)

    def derive(self, rows: npt.NDArray[Any], spec: Spec) -> dict[str, Any]:
        """Derive whether results are integers, and the ratio of row to column spacing."""
        _, down, across = spec.spacing or (1, 1, 1)
        return {**super().derive(rows, spec), "aspect": down / across}


def _canvas(angle: float, height: int, width: int, aspect: float) -> tuple[int, int]:
    """Return height and width that show all of a rotated image, by DALI's rule."""
    # float32 as in DALI, where its last bit decides at 45 degrees
    turn = float(np.float32(angle) * np.float32(math.pi / 180))
    cosine, sine = abs(math.cos(turn)), abs(math.sin(turn))
    # up to a hundredth of a pixel is cropped rather than adding a row or column
    columns = math.ceil(cosine * width + sine * height * aspect - 0.01)
    rows = math.ceil(cosine * height + sine * width / aspect - 0.01)
    across, down = (width, height) if sine <= cosine else (height, width)
    return rows + (rows - down) % 2, columns + (columns - across) % 2
