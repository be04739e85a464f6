"""Operators on volumes: arrays ``DHWC``, sequences with an affine, and samples of several parts.

Geometric operators define a mapping from voxels of the result to voxels of the input; neighbors in a chain are composed
into one mapping, and each part is gathered once by :mod:`seqpipe.resampling`.
``plan`` determines the steps of a sample before any voxel is read; each step runs itself on the CPU, and ``gpu`` runs
them on a GPU, in common launches for all samples of a call. There, intensity operators are stages (``channels``) of
``intensity3.cu``, or their NumPy implementation on CuPy arrays.
Intensity operators change images only. May import the operator model (``core``, ``call``, ``cuda``), and of other
families ``noise``, for its random numbers.
"""

__all__: list[str] = []
