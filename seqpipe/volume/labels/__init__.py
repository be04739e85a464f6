"""Predicted labels: cleaning by SciPy, measures beside a truth, and DICOM segmentations of them."""

__all__: list[str] = []
