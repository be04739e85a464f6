"""``fn.clahe``, ``jitter``, ``experimental.remap``, ``dilate`` and ``erode``: judged by OpenCV and SciPy."""

from __future__ import annotations

import cv2
import numpy as np
import pytest
from scipy import ndimage

from seqpipe.dali import fn, types
from seqpipe.errors import ParameterError
from tests.dali.conftest import run

IMAGE = np.random.default_rng(3).integers(0, 256, (24, 37, 3)).astype(np.uint8)
CLIP = np.stack([IMAGE, IMAGE[::-1], 255 - IMAGE])
LAYOUTS = {2: "HW", 3: "HWC", 4: "FHWC"}


def node(*samples, layout=None):
    return fn.external_source(lambda: list(samples), layout=layout or LAYOUTS[samples[0].ndim])


def one(operator, sample=IMAGE, **options):
    (found,) = run(lambda: operator(node(sample), **options))[0]
    assert found.layout() == LAYOUTS[sample.ndim]
    return np.asarray(found.at(0))


def test_clahe_of_each_layout():
    gray = cv2.createCLAHE(2.0, (3, 4)).apply(np.ascontiguousarray(IMAGE[..., 0]))
    options = {"clip_limit": 2.0, "tiles_x": 3, "tiles_y": 4}
    assert np.array_equal(one(fn.clahe, IMAGE[..., :1], **options)[..., 0], gray)
    assert np.array_equal(one(fn.clahe, IMAGE[..., 0], **options), gray)
    assert np.array_equal(one(fn.clahe, luma_only=False, **options)[..., 0], gray)
    # of a gray image in three channels, only the lightness changes
    alike = one(fn.clahe, np.repeat(IMAGE[..., :1], 3, axis=-1), **options).astype(int)
    assert np.ptp(alike, axis=-1).max() <= 1
    clip = one(fn.clahe, CLIP, **options)
    assert all(
        np.array_equal(frame, one(fn.clahe, image, **options))
        for frame, image in zip(clip, CLIP, strict=True)
    )


@pytest.mark.parametrize(
    ("operator", "judge"), [("dilate", ndimage.maximum_filter), ("erode", ndimage.minimum_filter)]
)
def test_windows_of_width_and_height(operator, judge):
    function = getattr(fn.experimental, operator)
    wanted = judge(IMAGE, (3, 5, 1), mode="nearest")
    assert np.array_equal(one(function, mask_size=[5, 3]), wanted)
    assert np.array_equal(one(function, CLIP, mask_size=[5, 3])[0], wanted)
    assert np.array_equal(
        one(function, IMAGE[..., 0], mask_size=[5, 3], border_mode="replicate"), wanted[..., 0]
    )
    assert np.array_equal(one(function, iterations=2), judge(IMAGE, (5, 5, 1), mode="nearest"))
    # the anchor at the left edge: the window reaches to the right
    shifted = judge(IMAGE, (1, 3, 1), mode="nearest", origin=(0, -1, 0))
    assert np.array_equal(one(function, mask_size=[3, 1], anchor=[0, 0])[:, :-2], shifted[:, :-2])


@pytest.mark.parametrize(("name", "kind"), [("LINEAR", cv2.INTER_LINEAR), ("NN", cv2.INTER_NEAREST)])
def test_remap_by_places(name, kind):
    rng = np.random.default_rng(7)
    x, y = (rng.uniform(-3, side + 2, IMAGE.shape[:2]).astype(np.float32) for side in (37, 24))
    if name == "NN":
        x, y = np.floor(x), np.floor(y)

    def moved(images, **options):
        maps = node(x, layout="HW"), node(y, layout="HW")
        return fn.experimental.remap(images, *maps, interp=getattr(types, f"INTERP_{name}"), **options)

    def program():
        maps = {
            "mapx": node(x + np.float32(0.5), layout="HW"),
            "mapy": node(y + np.float32(0.5), layout="HW"),
        }
        return (
            moved(node(IMAGE), pixel_origin="center"),
            moved(node(CLIP), pixel_origin="center"),
            fn.experimental.remap(node(IMAGE), interp=getattr(types, f"INTERP_{name}"), **maps),
        )

    center, clip, corner = (np.asarray(part.at(0)) for part in run(program)[0])
    wanted = cv2.remap(IMAGE, x, y, kind, borderMode=cv2.BORDER_CONSTANT)
    # OpenCV rounds places to a 32nd of a pixel
    assert np.abs(center.astype(int) - wanted).max() <= (0 if name == "NN" else 9)
    assert np.array_equal(clip[0], center)
    assert np.abs(corner.astype(int) - center).max() <= 1


def test_remap_by_frames_and_refusals():
    rows, columns = np.indices(IMAGE.shape[:2], np.float32)
    x = np.stack([columns, columns[:, ::-1], columns])
    y = np.stack([rows, rows, rows[::-1]])

    def program():
        maps = node(x, layout="FHW"), node(y, layout="FHW")
        return fn.experimental.remap(node(CLIP), *maps, pixel_origin="center")

    (found,) = run(program)[0]
    assert np.array_equal(found.at(0), np.stack([CLIP[0], CLIP[1][:, ::-1], CLIP[2][::-1]]))
    for arguments, message in (
        ({"mapx": x[0]}, "there are 1 maps; allowed: mapx and mapy"),
        (
            {"mapx": x[0, :5], "mapy": y[0, :5]},
            r"maps of shape \(5, 37\) and \(5, 37\) for images of \(24, 37\)",
        ),
        ({"mapx": x[0], "mapy": y[0], "pixel_origin": "top"}, "pixel_origin='top' is not valid"),
        ({"mapx": x[0], "mapy": y[0], "interp": types.INTERP_CUBIC}, "interp='cubic'; allowed"),
    ):

        def refused(arguments=arguments):
            nodes = {
                key: node(value, layout="HW") if isinstance(value, np.ndarray) else value
                for key, value in arguments.items()
            }
            return fn.experimental.remap(node(IMAGE), **nodes)

        with pytest.raises(ParameterError, match=message):
            run(refused)


def test_jitter_moves_values_within_its_degree():
    height, width = 40, 50
    rows, columns = np.indices((height, width))
    places = np.stack([rows, columns, rows], axis=-1).astype(np.uint8)
    found = one(fn.jitter, places, nDegree=4, seed=5).astype(int)
    moved = found - places
    inner = moved[4:-4, 4:-4]
    assert set(np.unique(inner)) == set(range(-2, 3))
    assert abs(np.bincount((inner[..., 0] + 2).ravel()) / inner[..., 0].size - 0.2).max() < 0.05
    assert not np.array_equal(moved[..., 0], moved[..., 2]), "channels are drawn apart"
    assert (found.min(), found.max()) == (0, width - 1)
    assert np.array_equal(found, one(fn.jitter, places, nDegree=4, seed=5))
    assert not np.array_equal(found, one(fn.jitter, places, nDegree=4, seed=6))
    assert np.array_equal(one(fn.jitter, places, mask=0), places)
    clip = one(fn.jitter, np.stack([places, places]), seed=5)
    assert np.array_equal(clip[0], clip[1]), "one draw for all frames"


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda x: fn.clahe(x, clip_limit=2.0),
            "an argument is missing; allowed: clip_limit, tiles_x and tiles_y",
        ),
        (lambda x: fn.clahe(x, clip_limit=2.0, tiles_x=2, tiles_y=2, bins=128), "bins=128; allowed: 256"),
        (
            lambda x: fn.clahe(fn.cast(x, dtype=types.FLOAT), clip_limit=2.0, tiles_x=2, tiles_y=2),
            "images of float32 with .*3.* channels; allowed: uint8",
        ),
        (lambda x: fn.experimental.dilate(x, border_mode="wrap"), "border_mode='wrap' is not valid"),
        (
            lambda x: fn.jitter(fn.transpose(x, perm=[2, 0, 1])),
            "samples of layout 'CHW'; allowed: HWC or FHWC",
        ),
        (
            lambda x: fn.experimental.erode(fn.transpose(x, perm=[2, 0, 1])),
            "allowed layouts HW, .* samples of layout 'CHW'",
        ),
    ],
)
def test_refusals(call, message):
    with pytest.raises(ParameterError, match=message):
        run(lambda: call(node(IMAGE)))


@pytest.mark.parametrize("position", [(0, 0), (0, 1), (1, 0), (1, 1)])
def test_raw_images_become_those_that_they_were_made_of(position):
    flat = np.broadcast_to(np.uint8([200, 120, 40]), (8, 10, 3))
    color = np.full((2, 2), 1)
    color[1 - position[0], 1 - position[1]] = 2  # tiles begin in the second row and column
    color[position] = 0
    raw = np.take_along_axis(flat, np.tile(color, (4, 5))[..., None], -1)[..., 0]
    assert np.array_equal(one_raw(raw, blue_position=position), flat)
    assert np.array_equal(one_raw(raw, blue_position=position, algorithm="edgeaware_ocv"), flat)
    with pytest.raises(ParameterError, match="must lie within 2x2 tile"):
        one_raw(raw, blue_position=(2, 0))


def one_raw(raw, **options):
    (found,) = run(lambda: fn.debayer(node(np.ascontiguousarray(raw)), **options))[0]
    assert found.layout() == "HWC"
    return found.at(0)
