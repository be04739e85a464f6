"""Volumes: NIfTI, DICOM, NRRD, MetaImage, NPY, Zarr and stacks of pictures, with their place in space.

This package may import the vocabulary, ``sampling`` and ``video`` (where bytes come from, threads); it is seen by
``readers`` and everything below. File-format libraries are named here alone.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..lazy import on_demand

if TYPE_CHECKING:
    from .export import to_monai, to_nibabel, to_sitk, to_torchio
    from .grid import GridAggregator, GridSampler
    from .info import VolumeInfo
    from .reader import VolumeReader
    from .regrid import resample
    from .turned import reorient, to_canonical
    from .write import save

_LAZY = {
    "GridAggregator": "grid",
    "GridSampler": "grid",
    "VolumeInfo": "info",
    "VolumeReader": "reader",
    "reorient": "turned",
    "resample": "regrid",
    "save": "write",
    "to_canonical": "turned",
    "to_monai": "export",
    "to_nibabel": "export",
    "to_sitk": "export",
    "to_torchio": "export",
}

__all__ = [
    "GridAggregator",
    "GridSampler",
    "VolumeInfo",
    "VolumeReader",
    "reorient",
    "resample",
    "save",
    "to_canonical",
    "to_monai",
    "to_nibabel",
    "to_sitk",
    "to_torchio",
]

if not TYPE_CHECKING:
    __getattr__ = on_demand(__name__, _LAZY)


def __dir__() -> list[str]:
    return __all__
