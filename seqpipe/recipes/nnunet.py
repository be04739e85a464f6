"""Augmentation recipe of nnU-Net v2."""

from __future__ import annotations

from collections.abc import Sequence as Seq
from typing import Any, Final

import numpy as np

from .. import ops
from ..core.param import choice
from ..errors import ParameterError

__all__ = ["is_anisotropic", "nnunet", "nnunet_normalization"]

_ANISOTROPIC: Final = 3  # ratio of the longest side to the slices above which slices are augmented as images
_LONG_PATCH_RATIO: Final = 1.5  # ratio of the sides of a patch of one slice above which it is rotated less
_LONG_TURN: Final = 15.0
_MASKED: Final = 0.75  # share of a volume that is not 0 at its borders, below which zeros are left out
_SCHEME: Final = choice("scheme", "Normalization of whole volumes", ("zscore", "ct"))
_COIN: Final = ops.Choice((0.0, 1.0))


def is_anisotropic(patch_size: Seq[int]) -> bool:
    """Return whether nnU-Net augments patches of a size slice by slice ("dummy 2-D")."""
    return max(patch_size) / patch_size[0] > _ANISOTROPIC


def nnunet(
    patch_size: Seq[int] | Any = None,
    *,
    dummy_2d: bool | None = None,
    mirror: Seq[bool] = (True, True, True),
    seed: int = 0,
) -> ops.Chain:
    """Return the augmentation of nnU-Net v2, with its order, probabilities and ranges, for z-scored images.

    Patches are read from the whole volume, so that rotations need no larger crop before.

    Args:
        patch_size: slices, rows and columns of a centered patch, or rows and columns for networks on slices; None for
            the whole input. For patches elsewhere, put a ``Crop3d`` with another position in front. Or a
            :class:`seqpipe.Fingerprint`: patches of its size are the whole input.
        dummy_2d: whether to augment slice by slice; None derives it from the patch size, as nnU-Net does.
        mirror: whether patches are mirrored along slices, rows and columns, or along rows and columns.
        seed: seed of all operators.

    Raises:
        ParameterError: an argument does not have three values, or two, or a side is not a whole number from 1.
    """
    planned = getattr(patch_size, "patch_size", None)
    if planned is not None:  # a fingerprint
        dummy_2d = is_anisotropic(planned) if dummy_2d is None else dummy_2d
        patch_size = None
    for name, value, least in (("patch_size", patch_size, 1), ("mirror", mirror, 0)):
        if value is not None and not _is_extent(value, least):
            raise ParameterError(
                f"{name}={value!r} is not valid",
                source="nnunet",
                allowed="slices, rows and columns, or rows and columns",
            )
    most = 180.0
    if patch_size is not None and len(patch_size) == 2:
        most = _LONG_TURN if max(patch_size) > _LONG_PATCH_RATIO * min(patch_size) else most
        patch_size, dummy_2d = (1, *patch_size), True
    if len(mirror) == 2:
        mirror = (False, *mirror)
    if dummy_2d is None:
        dummy_2d = patch_size is not None and is_anisotropic(patch_size)
    turn = ((-most, most), (0.0, 0.0), (0.0, 0.0)) if dummy_2d else (-30.0, 30.0)
    scale = ops.Reciprocal(0.7, 1.4)
    size = ops.RandomAffine3d(scale=scale, isotropic=True, in_plane=dummy_2d, p=0.2, label_fill=-1, seed=seed)
    space: list[Any] = [ops.RandomAffine3d(rotate=turn, p=0.2, label_fill=-1, seed=seed), size]
    if patch_size is not None:
        d, h, w = (int(n) for n in patch_size)
        space.append(ops.Crop3d(size=(d, h, w), pad_mode="constant", label_fill=-1))
    each: dict[str, Any] = {"per_channel": True, "seed": seed}
    around = ops.TwoSided(0.75, 1.25)
    power: dict[str, Any] = {"gamma": ops.TwoSided(0.7, 1.5), "range": "minmax", "retain_stats": True, **each}
    axes = ("depth", "height", "width")
    mirrored: dict[str, Any] = {axis: _COIN if on else False for axis, on in zip(axes, mirror, strict=True)}
    return ops.Chain(
        *space,
        ops.GaussianNoise3d(sigma=(0.0, 0.1), p=0.1, seed=seed),
        ops.GaussianBlur3d(sigma=(0.5, 1.0), p=0.2, p_channel=0.5, **each),
        ops.BrightnessMultiplicative(factor=around, p=0.15, **each),
        ops.Contrast3d(factor=around, preserve_range=True, p=0.15, **each),
        ops.LowResolution(factor=(0.5, 1.0), in_plane=dummy_2d, p=0.25, p_channel=0.5, **each),
        ops.Gamma3d(invert=True, p=0.1, **power),
        ops.Gamma3d(p=0.3, **power),
        ops.Flip3d(**mirrored, seed=seed),
        ops.ReplaceLabel(label=-1, by=0),
    )


def nnunet_normalization(facts: Any, scheme: str = "zscore") -> ops.Chain:
    """Return nnU-Net's normalization of whole volumes, for :func:`seqpipe.prepared`.

    Args:
        facts: the :class:`seqpipe.Fingerprint` of the data set.
        scheme: ``"zscore"``: mean 0 and deviation 1 of each channel of a volume, of the voxels that are not 0 if more
            than a quarter of the volumes is 0 at their borders, as in nnU-Net; ``"ct"``: values of one channel, cut off
            at the 0.5th and 99.5th percentile of the data set's labeled voxels, minus their mean, by their deviation.

    Raises:
        ParameterError: the scheme is unknown, or channels have different windows.
    """
    _SCHEME.check(scheme)
    if scheme == "zscore":
        masked = facts.foreground_share < _MASKED
        return ops.Chain(ops.ZScore(of="nonzero" if masked else "all", keep_zeros=masked))
    if len(facts.channels) != 1:
        raise ParameterError(
            f"scheme='ct' and {len(facts.channels)} channels exclude one another",
            source="nnunet_normalization",
            allowed="one channel",
        )
    (intensity,) = facts.intensities.values()
    std = max(intensity.std, 1e-8)
    # the window's result is 0 to 1
    return ops.Chain(
        ops.Window(lo=intensity.p00_5, hi=intensity.p99_5),
        ops.BrightnessMultiplicative(factor=(intensity.p99_5 - intensity.p00_5) / std),
        ops.BrightnessAdditive(offset=(intensity.p00_5 - intensity.mean) / std),
    )


def _is_extent(value: Any, least: int) -> bool:
    """Return whether a value is a list of two or three whole numbers from the least one."""
    if not hasattr(value, "__len__") or len(value) not in (2, 3):
        return False
    return all(isinstance(n, (int, np.integer, np.bool_)) and n >= least for n in value)
