"""Operators on volumes: arrays ``DHWC``, sequences with an affine, and samples of several parts that move together.

Geometric operators state a mapping from voxels of the result to voxels of what they are given; neighbors in a chain
become one mapping, and each part is gathered once (``gather3.c``, ``gather3.cu`` in ``cuda``, NumPy beside them).
``plan`` says what is done to a sample before a voxel is looked at, ``host`` does it on the CPU sample by sample, and
``rounds`` on a GPU for all samples of a call in common launches; there, operators on intensities are ``stages`` of
``intensity3.cu``, or their NumPy form with CuPy.
Intensity operators act on images alone. May import the operator model (``core``, ``call``, ``cuda``), and of other
families ``noise``, for its numbers.
"""

__all__: list[str] = []
