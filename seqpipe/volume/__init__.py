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
    from .labels.clean import fill_holes, keep_largest, remove_small, to_labels, to_regions
    from .labels.dicom_seg_file import save_dicom_seg
    from .labels.measure import LabelMeasures, measure, write_table
    from .reader import VolumeReader
    from .regrid import align, reorient, resample, to_canonical

_LAZY = {
    "LabelFiles": "formats.label_files",
    "LabelMeasures": "labels.measure",
    "VolumeInfo": "info",
    "VolumeReader": "reader",
    "align": "regrid",
    "fill_holes": "labels.clean",
    "keep_largest": "labels.clean",
    "measure": "labels.measure",
    "remove_small": "labels.clean",
    "reorient": "regrid",
    "resample": "regrid",
    "save": "formats.write",
    "save_dicom_seg": "labels.dicom_seg_file",
    "to_canonical": "regrid",
    "to_labels": "labels.clean",
    "to_monai": "export",
    "to_nibabel": "export",
    "to_regions": "labels.clean",
    "to_sitk": "export",
    "to_torchio": "export",
    "write_table": "labels.measure",
}

__all__ = [
    "LabelFiles",
    "LabelMeasures",
    "VolumeInfo",
    "VolumeReader",
    "align",
    "fill_holes",
    "keep_largest",
    "measure",
    "remove_small",
    "reorient",
    "resample",
    "save",
    "save_dicom_seg",
    "to_canonical",
    "to_labels",
    "to_monai",
    "to_nibabel",
    "to_regions",
    "to_sitk",
    "to_torchio",
    "write_table",
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
