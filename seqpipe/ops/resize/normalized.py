"""CropMirrorNormalize: crop, mirror, normalize and transpose in one operator."""

from __future__ import annotations

from typing import Any, ClassVar, Final, Literal

import numpy as np
import numpy.typing as npt

from ...array import Array
from ..core.distributions import Flag
from ..core.parameters import ANY, param
from ..core.spec import COMPUTED_DTYPES, Spec, ValueMap
from ..core.traits import Body
from ..geometry.base import Geometry
from ..geometry.mapping import Mapping, Windowed, mirrored

__all__ = ["CropMirrorNormalize"]

_MAX_OWN_MEANS: Final = 4  # most channels with means of their own
_ROW: Final = np.dtype(
    [
        ("acts", np.int32),
        ("left", np.int32),
        ("top", np.int32),
        ("step", np.int32),
        ("mean", np.float32, _MAX_OWN_MEANS),
        ("gain", np.float32, _MAX_OWN_MEANS),
        ("shift", np.float32),
    ]
)


class CropMirrorNormalize(Windowed, Geometry):
    """Crop a window out of images, mirror it left to right, and normalize its values; then change dtype and layout.

    ``out = scale * (in - mean) / std + shift``, for each channel.
    """

    mirror: Flag = param(False, "mirror left to right")
    mean: tuple[float, ...] = param((0.0,), "mean to subtract, for each channel", kind=float, size=ANY)
    std: tuple[float, ...] = param(
        (1.0,), "standard deviation to divide by, for each channel", kind=float, size=ANY, lo=1e-12
    )
    scale: float = param(1.0, "factor of the quotient", drawn=False)
    shift: float = param(0.0, "offset added at the end", drawn=False)
    dtype: str = param("float32", "dtype of the result", choices=COMPUTED_DTYPES)
    output_layout: Literal["CHW", "HWC", "CFHW"] | None = param(
        None,
        "order of the result's last three axes, or last four of clips; None for that of the input",
        choices=("CHW", "HWC", "CFHW"),
    )

    dtypes: ClassVar[tuple[str, ...]] = COMPUTED_DTYPES
    values: ClassVar[Literal["computed", "moved"]] = "computed"
    keeps_size: ClassVar[bool] = False
    whole_pixels: ClassVar[bool] = True
    takes_raw: ClassVar[bool] = True
    converted = ("moving", "values")
    kernel_row = _ROW
    body: ClassVar[Body | None] = Body(
        "normalized",
        "const int k = min(channel, 3);  // with more than four channels, all have the same\n"
        "value = (value - row.mean[k]) * row.gain[k] + row.shift;",
    )
    derived = (("means", _MAX_OWN_MEANS), ("gains", _MAX_OWN_MEANS))
    derived_from = ()
    examples = (
        {
            "crop": (3, 4),
            "mean": 120.0,
            "std": 60.0,
            "scale": 64.0,
            "dtype": "uint8",
        },
        {
            "crop": (4, 4),
            "crop_pos_x": (0.0, 1.0),
            "crop_pos_y": (0.0, 1.0),
            "mirror": True,
            "mean": 127.5,
            "std": 127.5,
            "dtype": "float16",
            "seed": 2,
        },
        {"std": 255.0, "shift": -0.5},
    )

    def value_map(self) -> ValueMap:
        """See :meth:`Op.value_map`."""
        return ValueMap(self.dtype, self.mean, self.std, self.scale, self.shift)

    def result_dtype(self, dtype: str) -> str:  # noqa: ARG002  a parameter states it
        """Return the parameter ``dtype``."""
        return self.dtype

    def result_layout(self, layout: str) -> str:
        """Return the layout with the axes in the order of ``output_layout``; unchanged without channels.

        Raises:
            ParameterError: the layout is a volume's or an image's, and the order does not fit it.
        """
        if self.output_layout is None or "C" not in layout:
            return layout
        if "F" in layout and "D" not in layout:
            batch = layout[: layout.startswith("N")]
            return batch + (self.output_layout if self.output_layout == "CFHW" else f"F{self.output_layout}")
        if self.output_layout == "CFHW":
            raise self.refusal(
                f"output_layout='CFHW' of images of layout {layout}", allowed="'CHW', 'HWC', None"
            )
        if self.output_layout == "CHW" and "D" in layout:
            raise self.refusal(f"output_layout='CHW' of a volume of layout {layout}", allowed="'HWC', None")
        return layout.replace("CHW", "HWC").replace("HWC", self.output_layout)

    def derive(self, rows: npt.NDArray[Any], spec: Spec) -> dict[str, Any]:  # noqa: ARG002  equal for all rows
        """Derive mean and factor of up to four channels; if there are more, all have the same.

        Raises:
            ParameterError: there is neither one value for each channel nor one for all.
        """
        for name in ("mean", "std"):
            count = len(getattr(self, name))
            if count not in (1, spec.channels) or count > _MAX_OWN_MEANS:
                own = f", or {spec.channels}" if 1 < spec.channels <= _MAX_OWN_MEANS else ""
                raise self.refusal(
                    f"{name} has {count} values, for pixels of {spec.channels}", allowed=f"1{own}"
                )
        means, stds = (
            np.resize(np.asarray(values, np.float32), _MAX_OWN_MEANS) for values in (self.mean, self.std)
        )
        return {"means": means, "gains": np.float32(self.scale) / stds}

    def mapping(self, p: Any, height: int, width: int) -> Mapping:
        """See :meth:`Geometry.mapping`.

        Raises:
            ParameterError: the window is larger than the images.
        """
        return mirrored(self.window_of(p, height, width), left_right=bool(p.mirror))

    def kernel_rows(self, rows: npt.NDArray[Any], spec: Spec) -> npt.NDArray[Any]:
        """Return the kernel rows."""
        result = np.zeros(len(rows), _ROW)
        matrices = self.mappings(rows, spec).matrices
        result["acts"], result["mean"], result["gain"] = rows["acts"], rows["means"], rows["gains"]
        result["step"], result["top"] = matrices[:, 0, 0], matrices[:, 1, 2]
        result["left"] = matrices[:, 0, 2] - (result["step"] < 0)
        result["shift"] = self.shift
        return result

    def cpu(self, x: Array, p: Any) -> Array:
        """Look values of uint8 up in a table of the results of all 256; others are computed within the window."""
        import cv2

        part = self._window(x, p)
        channels = part.shape[3]
        if part.dtype != np.uint8 or channels > _MAX_OWN_MEANS:
            return self._normalized((part[:, :, ::-1] if p.mirror else part).astype(np.float32), p)
        levels = np.arange(256, dtype=np.float32).reshape(256, 1, 1).repeat(channels, 2)
        table = self._normalized(levels, p)
        result = np.empty(part.shape, np.float32)
        for frame, values in zip(part, result, strict=True):
            cv2.LUT(frame, table, values)
        return result[:, :, ::-1] if p.mirror else result

    def reference(self, x: Array, p: Any) -> Array:
        """Crop the window, and compute the formula."""
        part = self._window(x, p)
        return self._normalized(part[:, :, ::-1] if p.mirror else part, p)

    def _window(self, x: Array, p: Any) -> Array:
        """Return the pixels of the window, not mirrored."""
        window = self.window_of(p, *x.shape[1:3])
        left, top = window.matrix[:2, 2].astype(int)
        return x[:, top : top + window.height, left : left + window.width]

    def _normalized(self, x: Array, p: Any) -> Array:
        """Return the formula of values whose last axis is the channels."""
        own = slice(0, x.shape[-1] if x.shape[-1] <= _MAX_OWN_MEANS else 1)
        return (x - p.means[own]) * p.gains[own] + np.float32(self.shift)
