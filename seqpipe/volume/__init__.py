"""Volumes: NIfTI, DICOM, NRRD, MetaImage, NPY, Zarr and stacks of images, with their affines.

``formats`` holds the file formats, ``resampling`` resamples to other grids and orientations, ``reader`` reads windows
of one volume, ``patches`` reads patches for training and inference. The package imports the vocabulary, ``sampling``
and ``video`` (byte sources, devices). Only this package imports file-format libraries.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..core.lazy import on_demand

if TYPE_CHECKING:
    from .export import to_monai, to_nibabel, to_sitk, to_torchio
    from .formats.label_files import LabelFiles
    from .formats.write import save
    from .info import VolumeInfo
    from .reader import VolumeReader
    from .resampling.align import align
    from .resampling.regrid import reorient, resample, to_canonical

_LAZY = {
    "LabelFiles": "formats.label_files",
    "VolumeInfo": "info",
    "VolumeReader": "reader",
    "align": "resampling.align",
    "reorient": "resampling.regrid",
    "resample": "resampling.regrid",
    "save": "formats.write",
    "to_canonical": "resampling.regrid",
    "to_monai": "export",
    "to_nibabel": "export",
    "to_sitk": "export",
    "to_torchio": "export",
}

__all__ = [
    "LabelFiles",
    "VolumeInfo",
    "VolumeReader",
    "align",
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
    __getattr__ = on_demand(
        __name__,
        _LAZY,
        {
            "GridAggregator": "seqpipe.Aggregate(grid)",
            "GridSampler": "grid = seqpipe.volumes(cases, seqpipe.Grid(size))",
        },
    )


def __dir__() -> list[str]:
    return __all__
