"""The augmentation of MONAI's tutorials on organs in CT (BTCV) and tumors in MR (BraTS)."""

from __future__ import annotations

from collections.abc import Sequence as Seq
from typing import Any

from .. import ops

__all__ = ["monai_brats", "monai_btcv"]


def monai_btcv(patch_size: Seq[int] = (96, 96, 96), *, seed: int = 0) -> ops.Chain:
    """That of the Swin UNETR and UNETR tutorials on BTCV, for CT in Hounsfield units, of 1.5 × 1.5 × 2 mm.

    Args:
        patch_size: slices, rows and columns, at a place of which every one is alike.
        seed: of all draws.
    """
    d, h, w = (int(n) for n in patch_size)
    flips = _flips(0.1, seed)
    return ops.Chain(
        ops.Crop3d(size=(d, h, w), place=(0.0, 1.0), pad=True, seed=seed),
        *flips,
        ops.Rot90(turns=(1, 3), p=0.1, seed=seed),
        ops.Window(lo=-175.0, hi=250.0),
        ops.BrightnessAdditive(offset=(-0.1, 0.1), p=0.5, seed=seed),
    )


def monai_brats(patch_size: Seq[int] = (224, 224, 144), *, seed: int = 0) -> ops.Chain:
    """That of the tutorials on BraTS, for four channels of MR of 1 mm.

    Args:
        patch_size: slices, rows and columns, at a place of which every one is alike.
        seed: of all draws.
    """
    d, h, w = (int(n) for n in patch_size)
    flips = _flips(0.5, seed)
    return ops.Chain(
        ops.Crop3d(size=(d, h, w), place=(0.0, 1.0), pad=True, seed=seed),
        *flips,
        ops.ZScore(of="nonzero", keep_zeros=True),
        ops.BrightnessMultiplicative(factor=(0.9, 1.1), seed=seed),
        ops.BrightnessAdditive(offset=(-0.1, 0.1), seed=seed),
    )


def _flips(p: float, seed: int) -> list[ops.Flip3d]:
    """A mirror along each axis, each by itself."""
    along: list[dict[str, Any]] = [{"depth": True}, {"height": True}, {"width": True}]
    return [ops.Flip3d(**axis, p=p, seed=seed) for axis in along]
