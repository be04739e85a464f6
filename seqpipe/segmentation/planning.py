"""Spacing, patch size, batch size and topology of a U-Net for a data set, by the rules of nnU-Net's planner.

F. Isensee et al., nnU-Net: a self-configuring method for deep learning-based biomedical image segmentation, Nature
Methods 18, 2021, and version 2 of its planner: the largest patch, of the shape of the median volume, whose feature maps
fit into the memory of a GPU.
"""

from __future__ import annotations

import math
from collections.abc import Sequence as Seq
from dataclasses import dataclass
from typing import Final

import numpy as np

from ..array import FloatArray

__all__ = ["NetworkPlan", "planned", "target_spacing"]

_ANISOTROPIC: Final = 3.0
_LOW_PERCENTILE: Final = 10
_START_SIDE: Final = 256
_LEAST_SIDE: Final = 4
_FEATURES: Final = 32
_MOST_FEATURES: Final = 320
_CONVOLUTIONS: Final = 2
_MAPS_OF_8_GIB: Final = 560_000_000
_BATCH_OF_8_GIB: Final = 2
_SHARE_OF_DATA: Final = 0.05


@dataclass(frozen=True)
class NetworkPlan:
    """A U-Net and its patches.

    Attributes:
        spacing_mm: spacing of slices, rows and columns that volumes are resampled to.
        median_shape: median of the volumes' shapes in this spacing.
        patch_size: slices, rows and columns.
        batch_size: patches of a batch.
        strides: stride of each stage, along slices, rows and columns.
        kernels: size of the convolutions of each stage.
        features: channels of each stage.
        memory_gib: estimated memory of training; 8 GiB are 560 million values of feature maps in a batch of 2.
    """

    spacing_mm: tuple[float, float, float]
    median_shape: tuple[int, int, int]
    patch_size: tuple[int, int, int]
    batch_size: int
    strides: tuple[tuple[int, ...], ...]
    kernels: tuple[tuple[int, ...], ...]
    features: tuple[int, ...]
    memory_gib: float


def target_spacing(spacings: Seq[Seq[float]], shapes: Seq[Seq[int]]) -> tuple[float, float, float]:
    """Return the spacing that volumes are resampled to.

    It is the median; along an axis that is three times coarser than the others and has three times fewer voxels, it is
    the 10th percentile, but not less than the others'.
    """
    every = np.array(spacings, dtype=np.float64)
    target, size = np.median(every, axis=0), np.median(np.array(shapes, dtype=np.float64), axis=0)
    worst = int(target.argmax())
    others = [axis for axis in range(3) if axis != worst]
    coarse = target[worst] > _ANISOTROPIC * max(target[others])
    if coarse and size[worst] * _ANISOTROPIC < min(size[others]):
        low = float(np.percentile(every[:, worst], _LOW_PERCENTILE))
        target[worst] = max(low, float(max(target[others])) + 1e-5)
    depth, height, width = target.tolist()
    return depth, height, width


def planned(
    spacing: Seq[float], median_shape: Seq[float], cases: int, *, classes: int, gpu_gib: float = 8.0
) -> NetworkPlan:
    """Return the plan for volumes of a spacing and median shape."""
    shape = np.array(median_shape, dtype=np.float64)
    finer = 1 / np.array(spacing, dtype=np.float64)
    start = np.rint(finer * (_START_SIDE**3 / finer.prod()) ** (1 / 3))
    patch, strides, kernels = _topology(spacing, np.minimum(start, shape).astype(int).tolist())
    budget = _MAPS_OF_8_GIB * gpu_gib / 8
    while _feature_maps(patch, strides, classes) > budget:
        axis = int(np.argsort(np.array(patch) / shape)[-1])
        smaller = [*patch]
        smaller[axis] -= math.prod(stride[axis] for stride in strides)
        # a smaller patch may have fewer stages, so that it is divisible by less
        _, fewer, _ = _topology(spacing, smaller)
        patch[axis] -= math.prod(stride[axis] for stride in fewer)
        patch, strides, kernels = _topology(spacing, patch)
    maps = _feature_maps(patch, strides, classes)
    of_data = round(shape.prod() * cases * _SHARE_OF_DATA / math.prod(patch))
    batch = max(min(round(budget / maps * _BATCH_OF_8_GIB), of_data), _BATCH_OF_8_GIB)
    features = tuple(min(_FEATURES * 2**stage, _MOST_FEATURES) for stage in range(len(strides)))
    gib = 8 * maps * batch / (_MAPS_OF_8_GIB * _BATCH_OF_8_GIB)
    return NetworkPlan(
        (float(spacing[0]), float(spacing[1]), float(spacing[2])),
        (int(shape[0]), int(shape[1]), int(shape[2])),
        (patch[0], patch[1], patch[2]),
        batch,
        tuple(map(tuple, strides)),
        tuple(map(tuple, kernels)),
        features,
        round(gib, 2),
    )


def _topology(spacing: Seq[float], patch: Seq[int]) -> tuple[list[int], list[list[int]], list[list[int]]]:
    """Return the patch size, padded to be divisible, and the strides and kernels of each stage.

    Axes are halved while they have 8 voxels or more, and are at most twice as coarse as the finest one; convolutions
    leave out an axis until the others are as coarse.
    """
    steps, sizes = np.array(spacing, dtype=np.float64), np.array(patch)
    strides, kernels, kernel = [[1, 1, 1]], [], np.ones(3, int)
    while True:
        valid = np.flatnonzero(sizes >= 2 * _LEAST_SIDE)
        if len(valid):
            valid = valid[steps[valid] / steps[valid].min() < 2]
        if not len(valid) or (len(valid) == 1 and sizes[valid[0]] < 3 * _LEAST_SIDE):
            break
        kernel[steps / steps.min() < 2] = 3
        stride = np.ones(3, int)
        stride[valid] = 2
        steps, sizes = steps * stride, -(-sizes // stride)
        strides.append(stride.tolist())
        kernels.append(kernel.tolist())
    divisor = np.prod(strides, axis=0)
    padded: list[int] = (-(-np.array(patch) // divisor) * divisor).tolist()
    return padded, strides, [*kernels, [3, 3, 3]]


def _feature_maps(patch: Seq[int], strides: Seq[Seq[int]], classes: int) -> float:
    """Return the number of values in the feature maps of a plain U-Net for one patch, with deep supervision."""
    sizes: list[FloatArray] = []
    size = np.array(patch, dtype=np.float64)
    for stride in strides:
        size = size / stride
        sizes.append(size)
    features = [min(_FEATURES * 2**stage, _MOST_FEATURES) for stage in range(len(strides))]
    total: float = sum(
        _CONVOLUTIONS * count * float(at.prod()) for count, at in zip(features, sizes, strict=True)
    )
    for count, at in zip(features[:-1], sizes[:-1], strict=True):
        # two convolutions, the transposed one in front, and the scores
        total += ((_CONVOLUTIONS + 1) * count + classes) * float(at.prod())
    return total
