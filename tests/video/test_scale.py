"""Scaling inside the conversion, against Pillow and against pictures whose scaled form is known exactly."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import Any

import av
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from PIL import Image

from seqpipe.video.convert.color import chroma_offset, resolve
from seqpipe.video.convert.scale import PlaneScaler
from seqpipe.video.convert.surface import Surface
from tests.support import media
from tests.support.deep import deep, deep_but
from tests.support.pictures import differences, exact_rgb, frame_info, made, picture, surface_format


def by_pillow(values: NDArray[Any], size: tuple[int, int]) -> NDArray[np.float64]:
    """Each channel scaled in floating point by Pillow's BILINEAR."""
    channels = [
        Image.fromarray(np.ascontiguousarray(values[..., k], np.float32)) for k in range(values.shape[2])
    ]
    return np.stack(
        [np.asarray(c.resize(size, Image.Resampling.BILINEAR), np.float64) for c in channels], axis=-1
    )


def inner(values: NDArray[Any]) -> NDArray[Any]:
    """Without the edges, where Pillow leaves out what swscale repeats."""
    return values[2:-2, 2:-2]


# ------------------------------------------------------------------------------------------ planes


@pytest.mark.parametrize("size", [(113, 64), (64, 113), (320, 31), (40, 180), (320, 179), (500, 400), (7, 5)])
@pytest.mark.parametrize("bits", [8, 16])
def test_a_plane_is_scaled_as_pillow_does(size: tuple[int, int], bits: int) -> None:
    plane = picture(
        320, 180, form := surface_format("gray", bits), resolve(frame_info(320, 180, form))
    ).planes[0]
    scaled = PlaneScaler()(plane, size)
    assert scaled.shape == size[::-1]
    assert scaled.dtype == plane.dtype
    unit = 2 ** (bits - 8)
    mean, _, most = differences(inner(scaled), inner(by_pillow(plane[..., None], size)[..., 0]))
    assert mean < 0.3 * unit
    assert most < 2 * unit


def test_a_plane_of_the_right_size_is_left_alone() -> None:
    plane = np.zeros((18, 32), np.uint8)
    assert PlaneScaler()(plane, (32, 18)) is plane


def by_definition(samples: int, pixels: int) -> NDArray[Any]:
    """The share of each sample in each pixel: a triangle, widened to shrink; the last one stands for those beyond."""
    shares, step = np.zeros((pixels, samples)), samples / pixels
    reach = max(1.0, step)
    for pixel in range(pixels):
        center = (pixel + 0.5) * step - 0.5
        for place in range(-2 * samples - 2, 3 * samples + 3):
            shares[pixel, min(max(place, 0), samples - 1)] += max(0.0, 1 - abs(place - center) / reach)
    return shares / shares.sum(axis=1, keepdims=True)


# rows and columns, before and after; of the last ones swscale makes one axis, whose edges are somewhat others
EXTREME = [
    *(((rows, 40), (9, 40)) for rows in (1, 2, 3, 4, 7, 15)),
    *(((40, columns), (40, pixels)) for columns in (2, 3, 9) for pixels in (1, 5, 12)),
    *(
        ((samples, 20), (pixels, 20))
        for samples, pixels in ((50, 1), (64, 2), (300, 3), (850, 10), (1700, 20))
    ),
    ((3, 1168), (227, 4)),
    ((2, 3), (1, 1)),
    ((1, 2031), (168, 1)),
]
IN_PART = [((3, 200), (30, 90)), ((200, 1000), (90, 10)), ((200, 9), (90, 3))]


@pytest.mark.parametrize(("dtype", "deep"), [(np.uint8, False), (np.uint8, True), (np.uint16, True)])
@pytest.mark.parametrize(("shape", "wanted"), deep_but([*EXTREME[::3], *IN_PART], EXTREME + IN_PART))
def test_what_swscale_makes_wrong_is_right(
    shape: tuple[int, int], wanted: tuple[int, int], dtype: Any, deep: bool
) -> None:
    """It took the nearest of two or three samples, moved what it shrank by far, and refused some."""
    unit = 256 if dtype == np.uint16 else 1
    levels = np.random.default_rng(1).integers(0, 256 * unit, shape).astype(dtype)
    if (shape, wanted) in IN_PART:
        rows, columns = np.indices(shape)
        levels = np.rint(unit * (rows / shape[0] + columns / shape[1]) * 127).astype(dtype)
    scaled = PlaneScaler()(levels, wanted[::-1], deep=deep)
    assert scaled.dtype == (np.uint16 if deep else dtype)
    down, across = (by_definition(*sizes) for sizes in zip(shape, wanted, strict=True))
    apart = np.abs(scaled / (256 if deep else 1) - down @ (levels / unit) @ across.T)
    assert apart.max() < (1.6 if (shape, wanted) in IN_PART else 0.01 if deep else 0.51)


@pytest.mark.parametrize("count", [50, deep(1500)])
def test_extreme_sizes_of_all_kinds_are_made(count: int) -> None:
    """Which swscale would refuse, among others."""
    off = 0 if int(av.__version__.partition(".")[0]) >= 18 else 2  # 17 cannot ask swscale to round accurately
    rng = np.random.default_rng(5)
    for sizes in np.exp2(rng.uniform(0, 11, (count, 4))).astype(int).tolist():
        rows, columns, height, width = sizes
        if rows * columns < 100_000 > height * width:
            scaled = PlaneScaler()(np.full((rows, columns), 77, np.uint8), (width, height))
            assert np.abs(scaled.astype(int) - 77).max() <= off


@pytest.mark.parametrize("dtype", [np.uint8, np.uint16])
def test_any_view_is_scaled_like_its_copy(dtype: type[np.uint8] | type[np.uint16]) -> None:
    rng = np.random.default_rng(0)
    whole = rng.integers(0, 256, (60, 90), np.uint8).astype(dtype)
    scaler = PlaneScaler()
    for view in (whole[7:50, 11:80], whole[::-1], whole[:, ::2], whole[:, ::-1], whole.T):
        np.testing.assert_array_equal(scaler(view, (31, 17)), PlaneScaler()(view.copy(), (31, 17)))


AT_THE_END_OF_MEMORY = """
import ctypes, itertools, mmap
import numpy as np
from seqpipe.video.convert.scale import PlaneScaler

page = mmap.PAGESIZE
memory = np.frombuffer(mmap.mmap(-1, 2 * page), np.uint8)
behind = ctypes.c_void_p(memory.ctypes.data + page)
assert ctypes.CDLL(None).mprotect(behind, ctypes.c_size_t(page), 0) == 0
sizes = list(itertools.product((1, 2, 3, 5, 15, 16, 17, 30), (2, 3, 7)))
for columns, dtype, size in itertools.product((*range(1, 33), 59, 99), (np.uint8, np.uint16), sizes):
    plane = memory[:page].view(dtype)[-3 * columns :].reshape(3, columns)
    PlaneScaler()(plane, size)
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no mprotect")
def test_nothing_is_read_beyond_a_plane() -> None:
    """Rows of 1, 2 or 3 samples, and others scaled to one or two columns, were read on from; here that is a crash."""
    done = subprocess.run([sys.executable, "-c", AT_THE_END_OF_MEMORY], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


# ------------------------------------------------------------------------------------------ pictures


@st.composite
def scalings(draw: st.DrawFn) -> dict[str, Any]:
    chroma = draw(st.sampled_from(["4:2:0", "4:2:2", "4:4:0", "4:4:4", "4:1:1"]))
    width, height = draw(st.integers(60, 200)), draw(st.integers(60, 200))
    crop = None
    if draw(st.booleans()):
        w, h = draw(st.integers(40, width)), draw(st.integers(40, height))
        crop = (draw(st.integers(0, width - w)), draw(st.integers(0, height - h)), w, h)
    return {
        "form": surface_format(chroma, 16),
        "size_in": (width, height),
        "location": draw(st.integers(1, 6)),
        "crop": crop,
        "size": (draw(st.integers(4, 260)), draw(st.integers(4, 260))),
    }


@given(scalings())
@settings(max_examples=60)
def test_a_ramp_stays_in_place(case: dict[str, Any]) -> None:
    """Linear filters leave a ramp nearly as it is, so every pixel tells from where in the picture it came."""
    form, (width, height) = case["form"], case["size_in"]
    info = frame_info(width, height, form, chroma_location=case["location"])
    offset_x, offset_y = chroma_offset(resolve(info), form)

    def ramp(x: NDArray[Any], y: NDArray[Any]) -> NDArray[np.float64]:
        return 12000.0 + 100 * x[None, :] + 70 * y[:, None]

    chroma_x = np.arange(-(-width >> form.shift_x)) * (1 << form.shift_x) + offset_x
    chroma_y = np.arange(-(-height >> form.shift_y)) * (1 << form.shift_y) + offset_y
    planes = [ramp(np.arange(width), np.arange(height)), ramp(chroma_x, chroma_y), ramp(chroma_x, chroma_y)]
    surface = Surface(0, tuple(np.rint(plane).astype(np.uint16) for plane in planes), form)

    size = case["size"]
    scaled = made(surface, info, color="YCbCr", dtype="uint16", crop=case["crop"], size=size)

    x, y, w, h = case["crop"] or (0, 0, width, height)
    columns = x + (np.arange(size[0]) + 0.5) * w / size[0] - 0.5
    rows = y + (np.arange(size[1]) + 0.5) * h / size[1] - 0.5
    # away from the edges by what a filter may reach
    reach_x, reach_y = 2 * max(1, w / size[0]) + 5, 2 * max(1, h / size[1]) + 5
    sound_x = (columns > x + reach_x) & (columns < x + w - 1 - reach_x)
    sound_y = (rows > y + reach_y) & (rows < y + h - 1 - reach_y)
    part = scaled[sound_y][:, sound_x].astype(float)
    expected = ramp(columns[sound_x], rows[sound_y])[..., None]
    # a pixel to the right is 100, one down 70: a sampled triangle moves a ramp by up to 0.09 of a pixel
    assert np.abs(part - expected).max(initial=0) < 0.09 * 170


# the limit is for 99.9 % of the values; higher where chroma is scaled without the luma grid
SIZES: list[tuple[dict[str, Any], float]] = [
    ({"size": (160, 90)}, 3),
    ({"size": (70, 70)}, 3),
    ({"short_side": 50}, 3),
    ({"max_side": 250}, 3),
    ({"size": (400, 300)}, 3),
    ({"crop": (31, 11, 161, 121), "size": (40, 30)}, 3),
    ({"crop": (30, 10, 224, 160), "size": (56, 40)}, 7),
    ({"size": (40, 22)}, 4),
    ({"crop": (31, 11, 40, 40), "size": (80, 60)}, 3),
]


@pytest.mark.parametrize("bits", [8, 10])
@pytest.mark.parametrize("location", [1, 2, 3])
@pytest.mark.parametrize(("output", "limit"), SIZES)
def test_scaled_pictures_against_pillow(
    output: dict[str, Any], limit: float, location: int, bits: int
) -> None:
    info = frame_info(320, 180, form := surface_format("4:2:0", bits), chroma_location=location)
    surface = picture(320, 180, form, resolve(info))
    scaled = made(surface, info, **output)
    # scaling and the matrix may change places, but what leaves the cube of RGB is cut off only once, at the end
    whole = exact_rgb(surface, resolve(info), 8, clip=False)
    x, y, w, h = output.get("crop", (0, 0, 320, 180))
    judged = np.clip(by_pillow(whole[y : y + h, x : x + w], (scaled.shape[1], scaled.shape[0])), 0, 255)
    mean, most, _ = differences(inner(scaled), inner(judged))
    assert mean < 0.75
    assert most < limit


@pytest.mark.parametrize(
    ("name", "output"),
    [
        ("codec/h264_1080p50.mov", {"short_side": 256}),
        ("codec/h264_1080p50.mov", {"size": (224, 224)}),
        ("actions/juggling_soccer_ball/juggle.mp4", {"short_side": 256}),
        ("actions/juggling_soccer_ball/juggle.mp4", {"size": (1600, 900)}),
    ],
)
def test_real_frames_against_pillow(name: str, output: dict[str, Any]) -> None:
    with av.open(str(media.shared_media() / "video" / name)) as container:
        surface = Surface.of(next(container.decode(video=0)), 0)
    info = frame_info(surface.width, surface.height, surface.format)
    scaled = made(surface, info, **output)
    whole = exact_rgb(surface, resolve(info), 8, clip=False)
    judged = np.clip(by_pillow(whole, (scaled.shape[1], scaled.shape[0])), 0, 255)
    mean, most, worst = differences(inner(scaled), inner(judged))
    assert mean < 0.7
    assert most < 3
    assert worst < 8


def test_a_size_does_not_depend_on_the_kind_of_output() -> None:
    info = frame_info(320, 180)
    surface = picture(320, 180, surface_format(), resolve(info))
    rgb = made(surface, info, short_side=45)
    assert rgb.shape == (45, 80, 3)
    np.testing.assert_array_equal(made(surface, info, short_side=45, color="BGR"), rgb[..., ::-1])
    gray = made(surface, info, short_side=45, color="GRAY")
    luma = made(surface, info, short_side=45, color="YCbCr")[..., 0].astype(float)
    # code values were rounded when they were scaled, what gray is made of was not; libswscale of PyAV 17 has another
    # code value in 9 % of these, and the same gray
    off = 0.5 if av.library_versions["libswscale"] >= (9, 5, 102) else 0.65
    expected = np.clip((luma - 16) * 255 / 219, 0, 255)
    assert np.abs(gray[..., 0] - expected).max() <= 0.5 + off * 255 / 219 + 0.01
