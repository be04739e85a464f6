"""The augmentation that nnU-Net v2 trains with."""

from __future__ import annotations

from collections.abc import Sequence as Seq
from typing import Any, Final

from .. import ops
from ..errors import ParameterError

__all__ = ["is_anisotropic", "nnunet"]

_ANISOTROPIC: Final = (
    3  # times as many columns or rows as slices, from which slices are augmented as pictures
)
_COIN: Final = ops.Choice((0.0, 1.0))


def is_anisotropic(patch_size: Seq[int]) -> bool:
    """Whether nnU-Net augments patches of a size slice by slice ("dummy 2-D")."""
    return max(patch_size) / patch_size[0] > _ANISOTROPIC


def nnunet(
    patch_size: Seq[int] | None = None,
    *,
    dummy_2d: bool | None = None,
    mirror: Seq[bool] = (True, True, True),
    seed: int = 0,
) -> ops.Chain:
    """The recipe of nnU-Net v2: its order, probabilities and ranges, for images that are z-scored.

    Patches are read from the whole volume: what a turn needs beyond the patch is there, so no larger crop is cut first.

    Args:
        patch_size: slices, rows and columns of a patch from the middle of what is given; None for all of it. Put a
            ``Crop3d`` with a place of your own in front for patches elsewhere.
        dummy_2d: whether slices stay slices; None as nnU-Net decides it from the patch size.
        mirror: along which axes (slices, rows, columns) patches are mirrored.
        seed: of all draws.

    Raises:
        ParameterError: these are not three numbers.
    """
    for name, given in (("patch_size", patch_size), ("mirror", mirror)):
        if given is not None and len(given) != 3:
            raise ParameterError(
                f"{name}={given!r} is not valid", source="nnunet", allowed="three: slices, rows, columns"
            )
    if dummy_2d is None:
        dummy_2d = patch_size is not None and is_anisotropic(patch_size)
    turn = ((-180.0, 180.0), (0.0, 0.0), (0.0, 0.0)) if dummy_2d else (-30.0, 30.0)
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
    mirrored: dict[str, Any] = {axis: _COIN for axis, on in zip(axes, mirror, strict=True) if on}
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
