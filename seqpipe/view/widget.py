"""NiiVue in notebooks: volumes in the browser's GPU, with labels over images."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import numpy as np

from ..array import to_numpy
from ..core.lazy import import_optional
from ..errors import ParameterError
from ..parts import Image, Labels, as_part
from ..sequence import Batch, Sequence
from ..volume.formats.write import nifti_bytes
from ..volume.reader import VolumeReader
from ..volume.slice_images import window_of
from .legend import Legend

__all__ = ["niivue"]

_HEIGHT: Final = 480
_TRANSPARENT: Final = (0, 0, 0, 0)


def niivue(
    shown: Any,
    *,
    names: Mapping[int, str] | None = None,
    window: tuple[float, float] | None = None,
    opacity: float = 0.45,
    height: int = _HEIGHT,
) -> Any:
    """Return an ``ipyniivue.NiiVue`` widget of volumes at full resolution, the labels over the images.

    Args:
        shown: a volume: a sequence or a reader; or a sample: a mapping of names to volumes and parts.
        names: names of classes, by class number.
        window: values shown as black and white; by default percentiles 0.5 to 99.5 of each image.
        opacity: opacity of labels, 0 to 1.
        height: height of the widget in pixels.

    Raises:
        BackendError: ipyniivue is not installed.
        ParameterError: there is no volume with an affine, or a batch, or an argument is out of bounds.
    """
    library = import_optional("ipyniivue", "niivue")
    parts = shown if isinstance(shown, Mapping) else {"image": shown}
    images, masks = [], []
    for name, value in parts.items():
        volume = _volume(name, value)
        if volume is None:
            continue
        if isinstance(as_part(value), Labels):
            masks.append(_labels_of(library, name, volume, names, opacity))
        else:
            low, high = window or window_of(to_numpy(volume.data))
            data = nifti_bytes(volume)
            images.append(library.Volume(name=f"{name}.nii", data=data, cal_min=low, cal_max=high))
    if not images and not masks:
        raise ParameterError(
            f"{', '.join(map(str, parts)) or 'an empty sample'}: no volume with an affine",
            source="niivue",
            allowed="DHW, DHWC or FDHWC with an affine",
            advice="show() without a viewer shows clips, images and arrays",
        )
    widget = library.NiiVue(height=height)
    widget.load_volumes(images + masks)
    return widget


def _volume(name: str, value: Any) -> Sequence | None:
    """Return a part's volume, scaled; None if it is something else, such as points or a path."""
    if isinstance(value, VolumeReader):
        return value.sequence().scaled()
    part = as_part(value) if isinstance(value, (Batch, Sequence)) or hasattr(value, "data") else None
    data = getattr(part, "data", None)
    if isinstance(data, Batch):
        raise ParameterError(
            f"{name} is a batch of {len(data)}",
            source="niivue",
            allowed="one sample",
            advice="batch.sample(0)",
        )
    if not isinstance(part, (Image, Labels)) or not isinstance(data, Sequence):
        return None
    is_volume = data.layout in ("DHW", "DHWC", "FDHWC") and data.affine is not None
    return data.scaled() if is_volume else None


def _labels_of(
    library: Any, name: str, volume: Sequence, names: Mapping[int, str] | None, opacity: float
) -> Any:
    """Return labels as a volume with the colors of pages, and a transparent background."""
    legend = Legend(to_numpy(volume.data), volume.source or name, names=names)
    colors = [_TRANSPARENT, *((*bytes.fromhex(one.color[1:]), 255) for one in legend.classes)]
    red, green, blue, alpha = np.array(colors).T.tolist()
    result = library.Volume(name=f"{name}.nii", data=nifti_bytes(volume), opacity=opacity)
    result.set_colormap_label(
        {
            "R": red,
            "G": green,
            "B": blue,
            "A": alpha,
            "I": [0, *(one.value for one in legend.classes)],
            "labels": ["", *(one.name or str(one.value) for one in legend.classes)],
        }
    )
    return result
