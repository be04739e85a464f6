"""Pixels moved in whole words are those that NumPy moves, at whatever bytes rows and images begin."""

from __future__ import annotations

import numpy as np
import pytest

from seqpipe.ops import Crop, Flip, Pad, Paste, Reverse, Slice
from tests.support.operators import compare, cupy

KINDS = [("uint8", channels) for channels in (1, 2, 3, 4)] + [("uint16", 3), ("float32", 3), ("float64", 3)]
WHOLE = [("uint8", 3), ("uint16", 3), ("float32", 3), ("float64", 3)]
SIZES = [(5, 7), (3, 12), (4, 13), (1, 1), (6, 2)]
MODES = ("edge", "reflect", "symmetric", "wrap")


def some(dtype, channels, size, frames=3):
    """Two clips, no two bytes of a clip's row alike."""
    count = 2 * frames * size[0] * size[1] * channels * np.dtype(dtype).itemsize
    levels = np.random.default_rng(0).integers(0, 256, count, np.uint8)
    x = levels.view(dtype).reshape(2, frames, *size, channels)
    return x if x.dtype.kind != "f" else np.nan_to_num(x)


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("kind", KINDS)
def test_images_of_any_width_are_mirrored(place, kind, size):
    x = some(*kind, size)
    compare(place(Flip(), x), x[..., ::-1, :])
    compare(place(Flip(vertical=[0, 1]), x), np.stack([x[0][:, :, ::-1], x[1][:, ::-1, ::-1]]))


@pytest.mark.parametrize("kind", WHOLE)
def test_windows_begin_at_any_byte(place, kind):
    x = some(*kind, (9, 11))
    for left in range(4):
        compare(
            place(Crop(crop=(6, 7), crop_pos_x=left / 4, crop_pos_y=1.0), x), x[:, :, 3:, left : left + 7]
        )
        reach = {"start": (float(left), 2.0), "end": (9.0, 8.0)}
        compare(place(Slice(**reach), x), x[:, :, 2:8, left:9])


@pytest.mark.parametrize("given", ["odd address", "rows apart", "turned round", "by channel"])
@pytest.mark.parametrize(
    "op", [Flip(), Reverse(), Crop(crop=(5, 6)), Pad(shape=(9, 14), fill_value=7.0)], ids=repr
)
def test_images_lie_in_memory_of_any_kind(place, op, given):
    x = some("uint8", 3, (6, 10))
    library = cupy() if place.name == "gpu" else np
    apart = library.zeros(x.size + 1, np.uint8)[1:].reshape(x.shape)
    if given == "rows apart":
        apart = library.zeros((2, 3, 7, 13, 3), np.uint8)[:, :, 1:, 2:12]
    elif given == "turned round":
        apart = library.zeros(x.shape, np.uint8)[:, :, ::-1, ::-1]
    elif given == "by channel":
        apart = library.moveaxis(library.zeros((2, 3, 3, 6, 10), np.uint8), 2, 4)
    apart[...] = library.asarray(x)
    compare(place(op, apart), place(op, x))


@pytest.mark.parametrize("kind", WHOLE)
def test_levels_lie_around_images(place, kind):
    x = some(*kind, (4, 5))
    levels = (1.0, 20.0, 200.0)
    for across, width in ((0.0, 12), (0.5, 13), (1.0, 14)):
        found = place(Pad(shape=(7, width), pad_pos_x=across, pad_pos_y=0.5, fill_value=levels), x)
        wanted = np.empty((2, 3, 7, width, 3), x.dtype)
        wanted[...] = levels
        left = int(across * (width - 5) + 0.5)
        wanted[:, :, 2:6, left : left + 5] = x
        compare(found, wanted)
    found = place(Paste(ratio=2.0, paste_x=[0.0, 0.7], fill_value=9.0), x)
    for result, part, left in zip(found, x, (0, 3), strict=True):
        assert (np.delete(result, np.s_[left : left + 5], 2) == 9).all()
        compare(result[:, 2:6, left : left + 5], part)


@pytest.mark.parametrize("mode", MODES)
def test_borders_are_numpys(place, mode):
    x = some("uint8", 3, (6, 9))
    found = place(Pad(shape=(11, 16), pad_pos_x=0.5, pad_pos_y=0.5, pad_mode=mode), x)
    compare(found, np.pad(x, ((0, 0), (0, 0), (3, 2), (4, 3), (0, 0)), mode))


@pytest.mark.parametrize("kind", WHOLE)
def test_frames_of_any_size_change_places(place, kind):
    for size in SIZES:
        x = some(*kind, size, frames=4)
        compare(place(Reverse(), x), x[:, ::-1])
