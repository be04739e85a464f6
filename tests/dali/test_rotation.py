"""``fn.rotate`` of volumes around an axis, against SciPy; sizes of the results are DALI 2.4's."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import ndimage

from seqpipe.dali import fn, types
from seqpipe.errors import ParameterError
from tests.dali.conftest import run

VOLUME = np.random.default_rng(5).random((12, 16, 20, 1)).astype(np.float32)


def rotated(volume=VOLUME, layout="DHWC", **options):
    def turned():
        return fn.rotate(fn.external_source(lambda: [volume], layout=layout), **options)

    (found,) = run(turned)[0]
    assert found.layout() == layout
    return np.asarray(found.at(0))


@pytest.mark.parametrize(
    ("axis", "plane", "sign"), [((1, 0, 0), (0, 1), -1), ((0, 3, 0), (0, 2), 1), ((0, 0, 1), (1, 2), -1)]
)
@pytest.mark.parametrize("angle", [30.0, -75.0, 90.0])
def test_rotations_around_the_axes_of_the_volume(axis, plane, sign, angle):
    """The signs are those of right-handed rotations of x, y, z, which are the columns, rows and slices."""
    found = rotated(angle=angle, axis=axis, fill_value=0.25, keep_size=True)
    wanted = ndimage.rotate(
        VOLUME[..., 0], sign * angle, plane, reshape=False, order=1, mode="grid-constant", cval=0.25
    )
    assert np.abs(found[..., 0] - wanted).max() < 1e-4


def test_the_border_is_repeated_without_a_fill_value():
    found = rotated(angle=20.0, axis=(0, 0, 1), keep_size=True)
    wanted = ndimage.rotate(VOLUME[..., 0], -20.0, (1, 2), reshape=False, order=1, mode="nearest")
    assert np.abs(found[..., 0] - wanted).max() < 1e-4


@pytest.mark.parametrize(
    ("axis", "shape"),
    [
        ((1, 0, 0), (20, 20, 20)),
        ((0, 1, 0), (22, 16, 24)),
        ((0, 0, -2), (12, 24, 26)),
        ((1, 1, 1), (22, 26, 28)),
    ],
)
def test_the_result_shows_the_whole_volume(axis, shape):
    assert rotated(angle=30.0, axis=axis, fill_value=0.0).shape == (*shape, 1)
    back = rotated(
        rotated(angle=120.0, axis=(1, 1, 1), fill_value=0), angle=-120.0, axis=(1, 1, 1), size=(12, 16, 20)
    )
    assert np.abs(back - VOLUME).max() < 1e-3, "a third of a turn around the diagonal permutes the axes"


def test_types_layouts_and_nodes():
    labels = (VOLUME * 9).astype(np.uint8)
    options = {"angle": 90.0, "axis": (0, 0, 1), "interp_type": types.INTERP_NN}
    assert np.array_equal(rotated(labels, **options), np.rot90(labels, axes=(2, 1)))
    channels = np.moveaxis(labels, -1, 0)
    assert np.array_equal(rotated(channels, "CDHW", **options), np.rot90(channels, axes=(3, 2)))
    assert np.array_equal(rotated(labels[..., 0], "DHW", **options), np.rot90(labels[..., 0], axes=(2, 1)))
    assert rotated(labels, angle=30.0, axis=(1, 2, 3), dtype=types.FLOAT).dtype == np.float32

    def turned():
        volumes = fn.external_source(lambda: [VOLUME] * 2, layout="DHWC")
        angle = fn.external_source(lambda: np.float32([0, 90]))
        axis = fn.external_source(lambda: np.float32([[1, 0, 0], [0, 0, 1]]))
        return fn.rotate(volumes, angle=angle, axis=axis)

    (found,) = run(turned, batch_size=2)[0]
    assert np.array_equal(found.at(0), VOLUME)
    assert np.array_equal(found.at(1), np.rot90(VOLUME, axes=(2, 1)))


def test_boxes_enclose_what_was_in_them():
    image = np.zeros((40, 60, 1), np.float32)
    image[8:20, 12:33] = 1
    box = np.float32([[12 / 60, 8 / 40, 33 / 60, 20 / 40]])

    def turned(angle, **options):
        def program():
            pixels = fn.external_source(lambda: [image], layout="HWC")
            labels = fn.external_source(lambda: [np.int32([[7]])])
            boxes = fn.external_source(lambda: [box])
            keeps = {"keep_size": options.get("keep_size", False)}
            return (
                fn.rotate(pixels, angle=angle, fill_value=0, **keeps),
                *fn.bbox_rotate(boxes, labels, angle=angle, input_shape=pixels.shape(), **options),
            )

        return [part.at(0) for part in run(program)[0]]

    for angle in (25.0, 90.0, -130.0):
        pixels, boxes, labels = turned(angle)
        rows, columns = np.nonzero(pixels[..., 0] > 0.05)
        height, width = pixels.shape[:2]
        wanted = [columns.min(), rows.min(), columns.max() + 1, rows.max() + 1]
        assert np.abs(boxes[0] * [width, height, width, height] - wanted).max() < 1.5
        assert labels.tolist() == [[7]]
    assert turned(0.0, keep_size=True)[1] == pytest.approx(box)
    boxes, labels = turned(90.0, keep_size=True, remove_threshold=1.0)[1:]
    assert (boxes.shape, labels.shape) == ((1, 4), (1, 1))
    for options, message in (
        ({"mode": "most"}, "mode='most' is not valid; allowed: 'expand', 'fixed', 'halfway'"),
        ({"bbox_layout": "WHxy"}, "bbox_layout='WHxy' is not valid"),
        ({"size": (3, 4), "keep_size": True}, "what size"),
    ):
        with pytest.raises(ParameterError, match=message):
            turned(3.0, **options)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"angle": 3.0, "axis": (0, 0, 0)}, r"axis=\[0, 0, 0\]; allowed: x, y and z, not all 0"),
        ({"axis": (0, 0, 1)}, "angle is missing"),
        (
            {"angle": 3.0, "axis": (0, 0, 1), "interp_type": types.INTERP_CUBIC},
            "interp_type='cubic'; allowed",
        ),
        (
            {"angle": 3.0, "axis": (0, 0, 1), "size": (3, 4)},
            "size has 2 values; allowed: slices, rows and columns",
        ),
        (
            {"angle": 3.0, "axis": (0, 0, 1), "size": (3, 4, 5), "keep_size": True},
            "keep_size and size are given",
        ),
    ],
)
def test_refusals(options, message):
    with pytest.raises(ParameterError, match=message):
        rotated(**options)
