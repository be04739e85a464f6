"""``nvidia.dali.auto_aug.augmentations``: the augmentations of AutoAugment, RandAugment and TrivialAugment."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

import numpy as np

from ...errors import ParameterError
from ...ops.policies.published import MagnitudeRange
from .. import fn, types
from .core import Augmentation, augmentation

__all__ = [
    "auto_contrast",
    "brightness",
    "color",
    "contrast",
    "equalize",
    "identity",
    "invert",
    "poster_mask_uint8",
    "posterize",
    "rotate",
    "sharpness",
    "sharpness_kernel",
    "sharpness_kernel_shifted",
    "shear_x",
    "shear_y",
    "shift_enhance_range",
    "solarize",
    "solarize_add",
    "solarize_add_shift",
    "suite",
    "translate_x",
    "translate_x_no_shape",
    "translate_y",
    "translate_y_no_shape",
    "translations",
    "warp_x_param",
    "warp_y_param",
]

_WHITE = types.Constant(255, dtype=types.UINT8)


def warp_x_param(magnitude: Any) -> list[Any]:
    """Return a vector along the width."""
    return [magnitude, 0]


def warp_y_param(magnitude: Any) -> list[Any]:
    """Return a vector along the height."""
    return [0, magnitude]


def _warped(data: Any, matrix: Any, fill_value: Any, interp_type: Any) -> Any:
    return fn.warp_affine(
        data, matrix=matrix, fill_value=fill_value, interp_type=interp_type, inverse_map=False
    )


def _sheared(data: Any, shear: Any, fill_value: Any = 128, interp_type: Any = None) -> Any:
    return _warped(data, fn.transforms.shear(shear=shear), fill_value, interp_type)


def _moved(data: Any, offset: Any, fill_value: Any = 128, interp_type: Any = None) -> Any:
    return _warped(data, fn.transforms.translation(offset=offset), fill_value, interp_type)


def _moved_x(data: Any, rel_offset: Any, shape: Any, fill_value: Any = 128, interp_type: Any = None) -> Any:
    return _moved(data, rel_offset * shape[1], fill_value, interp_type)


def _moved_y(data: Any, rel_offset: Any, shape: Any, fill_value: Any = 128, interp_type: Any = None) -> Any:
    return _moved(data, rel_offset * shape[0], fill_value, interp_type)


_along_x = partial(Augmentation, randomly_negate=True, mag_to_param=warp_x_param)
_along_y = partial(Augmentation, randomly_negate=True, mag_to_param=warp_y_param)
shear_x = _along_x(_sheared, (0, 0.3), name="shear_x")
shear_y = _along_y(_sheared, (0, 0.3), name="shear_y")
translate_x = _along_x(_moved_x, (0.0, 1.0), name="translate_x")
translate_y = _along_y(_moved_y, (0.0, 1.0), name="translate_y")
translate_x_no_shape = _along_x(_moved, (0, 250), name="translate_x")
translate_y_no_shape = _along_y(_moved, (0, 250), name="translate_y")


def translations(
    use_shape: bool,
    default_translate_abs: float,
    default_translate_rel: float,
    max_translate_abs: Any = None,
    max_translate_rel: Any = None,
) -> list[Augmentation]:
    """Return translations along the width and the height.

    Args:
        use_shape: whether offsets are shares of the image's sides.
        default_translate_abs: largest offset in pixels, unless ``max_translate_abs`` is given.
        default_translate_rel: largest share, unless ``max_translate_rel`` is given.
        max_translate_abs: largest offset in pixels, or (along the height, along the width).
        max_translate_rel: largest share, likewise.

    Raises:
        ParameterError: the maximum is of the other kind.
    """
    if not isinstance(use_shape, bool):
        raise ParameterError(
            f"the `use_shape` is a flag that should be set to either True or False, got {use_shape}"
        )
    wrong, right = ("abs", "rel") if use_shape else ("rel", "abs")
    given = {"abs": max_translate_abs, "rel": max_translate_rel}
    if given[wrong] is not None:
        raise ParameterError(
            f"the argument `max_translate_{wrong}` cannot be used with{'' if use_shape else 'out'} image shapes",
            advice=f"You may use `max_translate_{right}` instead",
        )
    largest = default_translate_rel if use_shape else default_translate_abs
    largest = largest if given[right] is None else given[right]
    height, width = largest if isinstance(largest, (tuple, list)) else (largest, largest)
    x, y = (translate_x, translate_y) if use_shape else (translate_x_no_shape, translate_y_no_shape)
    return [x.augmentation((0, width)), y.augmentation((0, height))]


def _rotated(
    data: Any, angle: Any, fill_value: Any = 128, interp_type: Any = None, rotate_keep_size: bool = True
) -> Any:
    """Rotate by degrees."""
    return fn.rotate(
        data, angle=angle, fill_value=fill_value, interp_type=interp_type, keep_size=rotate_keep_size
    )


def shift_enhance_range(magnitude: Any) -> Any:
    """Return the factor of a change: 1 leaves an image as it is."""
    return 1 + magnitude


_enhancing = partial(augmentation, mag_range=(0, 0.9), randomly_negate=True, mag_to_param=shift_enhance_range)


@_enhancing
def brightness(data: Any, parameter: Any) -> Any:
    """Multiply all values by a factor."""
    return fn.brightness(data, brightness=parameter)


@_enhancing
def contrast(data: Any, parameter: Any) -> Any:
    """Multiply the differences to the mean luma by a factor, as Pillow does."""
    mean = fn.reductions.mean(data, axis_names="HW", keep_dims=True)
    luma = types.Constant(np.array([0.299, 0.587, 0.114], np.float32))
    center = fn.reductions.sum(mean * luma, axis_names="C", keep_dims=True)
    return fn.cast_like(center + (data - center) * parameter, data)


@_enhancing
def color(data: Any, parameter: Any) -> Any:
    """Multiply the saturation by a factor."""
    return fn.saturation(data, saturation=parameter)


def sharpness_kernel(magnitude: Any) -> Any:
    """Return the kernel that sharpens for magnitudes to 1, and smooths for those to -1."""
    smooth = np.array([[1, 1, 1], [1, 5, 1], [1, 1, 1]], np.float32) / 13
    same = np.zeros((3, 3), np.float32)
    same[1, 1] = 1
    return -magnitude * smooth + (1 + magnitude) * same


def sharpness_kernel_shifted(magnitude: Any) -> Any:
    """Return the kernel for magnitudes from 0 to 2, of which 1 leaves an image as it is."""
    return sharpness_kernel(magnitude - 1)


def _sharpened(data: Any, kernel: Any) -> Any:
    """Convolve with a kernel, also at the border, which Pillow leaves as it is."""
    return fn.experimental.filter(data, kernel)


def poster_mask_uint8(magnitude: Any) -> Any:
    """Return the mask of the bits to keep, at least one."""
    kept = min(max(int(np.round(magnitude)), 1), 8)
    return np.array(256 - 2 ** (8 - kept), np.uint8)


def _posterized(data: Any, mask: Any) -> Any:
    """Keep the highest bits."""
    return data & mask


def _solarized(data: Any, threshold: Any) -> Any:
    """Invert values from a threshold."""
    below = data < threshold
    return below * data + (below ^ True) * (_WHITE - data)


def solarize_add_shift(shift: Any) -> Any:
    """Return a number to add to dark values, below 128."""
    if shift >= 128:
        raise ParameterError(f"solarize_add by {shift}", allowed="shifts from 0 to 128")
    return np.uint8(shift)


def _with_added(data: Any, shift: Any) -> Any:
    """Add a number to values below 128."""
    dark = data < types.Constant(128, dtype=types.UINT8)
    return dark * (data + shift) + (dark ^ True) * data


@augmentation
def invert(data: Any, _: Any) -> Any:
    """Invert all values."""
    return _WHITE - data


@augmentation
def equalize(data: Any, _: Any) -> Any:
    """Equalize the histogram of each channel."""
    return fn.equalize(data)


@augmentation
def auto_contrast(data: Any, _: Any) -> Any:
    """Stretch each channel to all values."""
    low, high = (
        getattr(fn.reductions, name)(data, axis_names="HW", keep_dims=True) for name in ("min", "max")
    )
    differs = (high - low) > 0
    width = (high - low) * differs + _WHITE * (differs ^ True)
    return fn.cast_like((data - low * differs) * (255 / width), data)


@augmentation
def identity(data: Any, _: Any) -> Any:
    """Return the samples as they are."""
    return data


rotate = Augmentation(_rotated, (0, 30), randomly_negate=True, name="rotate")
sharpness = Augmentation(
    _sharpened,
    (0, 0.9),
    randomly_negate=True,
    mag_to_param=sharpness_kernel,
    param_device="auto",
    name="sharpness",
)
posterize = Augmentation(
    _posterized, (0, 4), mag_to_param=poster_mask_uint8, param_device="auto", name="posterize"
)
solarize = Augmentation(_solarized, (256, 0), param_device="auto", name="solarize")
solarize_add = Augmentation(
    _with_added, (0, 110), mag_to_param=solarize_add_shift, param_device="auto", name="solarize_add"
)


def suite(
    ranges: Mapping[str, MagnitudeRange],
    use_shape: bool,
    default_abs: float,
    default_rel: float,
    max_translate_abs: Any = None,
    max_translate_rel: Any = None,
) -> list[Augmentation]:
    """Return DALI's augmentations with the published magnitudes, by their names.

    Args:
        ranges: the magnitudes of each step.
        use_shape: whether translations are shares of the image's sides; for the other arguments see
            :func:`translations`.
        default_abs: largest translation in pixels by default.
        default_rel: largest translation as a share by default.
        max_translate_abs: largest translation in pixels.
        max_translate_rel: largest translation as a share.
    """
    made = translations(use_shape, default_abs, default_rel, max_translate_abs, max_translate_rel)
    for name, (first, last, signed) in ranges.items():
        one: Augmentation = globals()[name]
        if name.startswith("translate"):
            continue
        if one.mag_range is None:
            made.append(one)
            continue
        full = 256 if name == "solarize" else 1
        made.append(one.augmentation((first * full, last * full), signed))
    return made
