"""Augmentation recipes of MONAI's tutorials on organs in CT (BTCV) and tumors in MR (BraTS)."""

from __future__ import annotations

from collections.abc import Sequence as Seq
from typing import Any

from .. import ops

__all__ = ["monai_brats", "monai_btcv"]


def monai_btcv(patch_size: Seq[int] = (96, 96, 96), *, seed: int = 0) -> ops.Chain:
    """Return the augmentation of the Swin UNETR and UNETR tutorials on BTCV: CT in Hounsfield units, 1.5 × 1.5 × 2 mm.

    Args:
        patch_size: (slices, rows, columns) of the uniformly placed patch.
        seed: seed of all operators.
    """
    return ops.Chain(
        *_cropped_and_flipped(patch_size, 0.1, seed),
        ops.Rot90(turns=(1, 3), p=0.1, seed=seed),
        ops.Window(lo=-175.0, hi=250.0),
        ops.BrightnessAdditive(offset=(-0.1, 0.1), p=0.5, seed=seed),
    )


def monai_brats(patch_size: Seq[int] = (224, 224, 144), *, seed: int = 0) -> ops.Chain:
    """Return the augmentation of the tutorials on BraTS: four channels of MR, 1 mm.

    Args:
        patch_size: (slices, rows, columns) of the uniformly placed patch.
        seed: seed of all operators.
    """
    return ops.Chain(
        *_cropped_and_flipped(patch_size, 0.5, seed),
        ops.ZScore(of="nonzero", keep_zeros=True),
        ops.BrightnessMultiplicative(factor=(0.9, 1.1), seed=seed),
        ops.BrightnessAdditive(offset=(-0.1, 0.1), seed=seed),
    )


def _cropped_and_flipped(patch_size: Seq[int], p: float, seed: int) -> list[Any]:
    """A uniformly placed crop, padded if the volume is smaller, and an independent mirror along each axis."""
    d, h, w = (int(n) for n in patch_size)
    along: list[dict[str, Any]] = [
        {"depth": True, "width": False},
        {"height": True, "width": False},
        {"width": True},
    ]
    crop = ops.Crop3d(size=(d, h, w), position=(0.0, 1.0), pad_mode="constant", seed=seed)
    return [crop, *(ops.Flip3d(**axis, p=p, seed=seed) for axis in along)]
