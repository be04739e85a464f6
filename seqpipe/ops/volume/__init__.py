"""Operators on volumes: arrays ``DHWC``, sequences with an affine, and samples of several parts that move together.

Geometric operators state a mapping from voxels of the result to voxels of what they are given; neighbors in a chain
become one mapping, and each part is gathered once (``gather3.c``, ``gather3.cuh`` in ``cuda``, NumPy beside them).
Intensity operators act on images alone. May import the operator model (``core``, ``call``, ``cuda``), and of other
families ``noise``, for its numbers.
"""

__all__: list[str] = []
