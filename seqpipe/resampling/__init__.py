"""Resampling of volumes through mappings: affine and elastic, in NumPy (the reference), C and CUDA.

Imports ``array``, ``random`` and ``core`` alone: operators, volumes and DALI's functions resample by it.
"""

__all__: list[str] = []
