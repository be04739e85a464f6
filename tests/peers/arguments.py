"""Arguments of DALI 2.4's operators that ours have not, and defaults that are others."""

from __future__ import annotations

from typing import Final

__all__ = ["ABSENT", "DEFAULTS", "OF_ALL"]

OF_ALL: Final = {
    *("device", "name", "preserve", "seed"),
    *("bytes_per_sample_hint", "minibatch_size", "temp_buffer_hint"),
}
"""What all of DALI's operators have, or what no result depends on."""

ABSENT: Final = {
    "axes": "axes have names here: axis_names",
    "axis": "of a turn in space; slices are turned one by one",
    "axis_names": "of erase, which knows images only; there it must be said for sequences",
    "bbox_layout": "ltrb says which of two it is; DALI calls that deprecated",
    "bbox_prune_threshold": "a box stays if its center is in the window, as in SSD",
    "border": "pad_mode, with the names of seqpipe.core.padding",
    "border_mode": "fill_value=None repeats the border; there is no other than those two",
    "crop_d": "of volumes, whose slices are frames",
    "crop_h": "crop has both sides",
    "crop_pos_z": "of volumes",
    "crop_shape": "of random_bbox_crop: sides are parts of the image",
    "crop_w": "crop has both sides",
    "depthwise": "reverse turns frames round",
    "dtype": "of crop and slice, which move values as they are; cast changes them",
    "enable_external_hints": "of optical_flow: NVOFA needs none",
    "enable_temporal_hints": "temporal_hints",
    "fill_values": "fill_value of slice and pad; the window of crop lies within the image",
    "hint_grid": "of optical_flow, likewise",
    "image_type": "of colors, which are RGB here; color_space_conversion makes them so",
    "input_shape": "of random_bbox_crop: ratios are those of parts of the image",
    "mag_filter": "interp_type is for both directions",
    "min_filter": "likewise",
    "mode": "of filter: the result is as large as the image",
    "n_channels": "as many as the image has",
    "normalized_anchor": "start or rel_start says it",
    "normalized_shape": "likewise",
    "out_of_bounds_policy": "pad_mode and trim of slice; the window of crop lies within the image",
    "output_bbox_indices": "give the indices as labels",
    "pad_output": "channels are those of the image",
    "quiet": "nothing is said",
    "resize_z": "of volumes, whose slices are frames",
    "rounding": "halves up, which is DALI's default",
    "save_attrs": "an image's size is in its shape",
    "shape_layout": "of random_bbox_crop: there are no shapes",
}
"""By their names; and what there is in place of them."""

DEFAULTS: Final = {
    "brightness_contrast.contrast_center": "0.5 there stands for half of the range, as None does here",
    "contrast.contrast_center": "likewise",
    "crop_mirror_normalize.output_layout": "there CHW, here that which is given",
    "filter.anchor": "-1 there stands for the middle, as None does here",
    "hsv.dtype": "there uint8, here the type that is given",
    "median_blur.window_size": "there one for each axis",
    "optical_flow.output_grid": "there the grid of the hardware, here a vector for each pixel",
    "optical_flow.preset": "a number there, a name here",
    "random_bbox_crop.total_num_attempts": "there it may search without end",
    "random_resized_crop.random_aspect_ratio": "4 / 3 there has six digits",
    "resize.subpixel_scale": "see the differences",
    "resize_crop_mirror.subpixel_scale": "likewise",
}
"""Defaults that are not DALI's, as far as it has one."""
