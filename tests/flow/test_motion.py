"""Warping, occlusion, statistics, the grid: beside SciPy and NumPy, and on real clips."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import ndimage

import seqpipe
from seqpipe import flow, fn
from seqpipe.errors import ParameterError
from seqpipe.sequence import Sequence
from tests.support import media
from tests.support.deep import deep
from tests.support.motion import moved, texture


def test_warp_is_the_interpolation_of_scipy():
    rng = np.random.default_rng(0)
    frames, field = rng.random((2, 20, 30, 3)), rng.normal(0, 4, (2, 20, 30, 2))
    found = flow.warp(frames, field)
    filled = flow.warp(frames, field, fill_value=-1)
    y, x = np.mgrid[:20, :30]
    for k in range(2):
        at = y + field[k, ..., 1], x + field[k, ..., 0]
        inside = (at[0] >= 0) & (at[0] <= 19) & (at[1] >= 0) & (at[1] <= 29)
        for c in range(3):
            wanted = ndimage.map_coordinates(frames[k, ..., c], at, order=1, mode="nearest")
            assert np.abs(found[k, ..., c] - wanted).max() < 1e-5
            assert np.abs(filled[k, ..., c] - wanted)[inside].max() < 1e-5
    far = (at[0] < -0.6) | (at[0] > 19.6) | (at[1] < -0.6) | (at[1] > 29.6)
    assert (filled[1][far] == -1).all()


def test_warp_of_whole_numbers_and_unknown_flow(torch):
    frame = np.array([[[10], [13]], [[20], [24]]], np.uint8)
    half = np.full((2, 2, 2), 0.5, np.float32)
    assert flow.warp(frame, half)[..., 0].tolist() == [
        [17, 18],
        [22, 24],
    ]  # 16.75, 18.5, 22, 24: half to even
    half[0, 0] = np.nan
    assert flow.warp(frame, half)[0, 0, 0] == 0
    assert flow.warp(frame, half, fill_value=9)[0, 0, 0] == 9
    assert np.isnan(flow.warp(frame.astype(np.float32), half)[0, 0, 0])
    found = flow.warp(torch.from_numpy(frame), half)
    assert isinstance(found, torch.Tensor)
    given = Sequence(frame[None], frames=[4])
    assert flow.warp(given, half[None]).frames.tolist() == [4]


def test_warp_by_the_true_flow_gives_the_first_frame():
    first, second, truth = moved(texture(200, 240), "swirl")
    found = flow.warp(second[..., None], truth)[..., 0]
    assert np.abs(found[20:-20, 20:-20].astype(int) - first[20:-20, 20:-20]).mean() < 1.5


def clips():
    """The sound clips of the shared media."""
    files = [row["file"] for row in media.shared_manifest()]
    return [name for name in files if not any(word in name for word in ("corrupt", "4k60"))]


@pytest.mark.parametrize("every", [6, deep(1)])
def test_warp_lowers_the_error_on_real_clips(every):
    tried = 0
    for name in clips()[::every]:
        with seqpipe.open(media.shared_media() / name, output=seqpipe.OutputSpec(max_side=480)) as video:
            start = len(video) // 3
            frames = video[start : start + 3].data
        changes = np.abs(frames[1:].astype(int) - frames[:-1]).mean()
        if not changes:
            continue  # a still scene
        found = fn.optical_flow(frames)
        left = np.abs(flow.warp(frames[1:], found).astype(int) - frames[:-1]).mean()
        assert left < changes, name
        tried += 1
    assert tried >= 20 // every


def test_occlusion_of_flow_on_a_grid():
    there = np.zeros((2, 8, 10, 2), np.float32)
    there[..., 0] = 8  # two cells of 4 pixels to the right
    back = -there
    found = flow.occlusion(there, back, (32, 40))
    assert found.shape == (2, 8, 10)
    assert found[..., 8:].all()  # they leave the frame
    assert not found[..., :8].any()
    back[:, 3, 5] = 5
    found = flow.occlusion(there, back, (32, 40))
    assert found[0, 3].tolist() == [False] * 3 + [True] + [False] * 4 + [True] * 2
    there[0, 1, 1] = np.nan
    assert flow.occlusion(there, back, (32, 40))[0, 1, 1]


def test_statistics_leave_out_what_is_unknown():
    field = np.zeros((3, 2, 2, 2), np.float32)
    field[0, 0] = (3, 4)
    field[1, 0, 0] = np.nan
    field[2] = np.nan
    found = flow.statistics(Sequence(field))
    assert found.mean.tolist()[:2] == [2.5, 0]
    assert np.isnan(found.mean[2])
    assert found.max.tolist()[:2] == [5, 0]
    assert found.std[0] == 2.5
    assert found.moving.tolist()[:2] == [0.5, 0]
    assert flow.statistics(field, threshold=5).moving[0] == 0
    alone = flow.statistics(field[0])
    assert (alone.median, alone.p95) == (2.5, 5)


@given(st.integers(1, 40), st.integers(1, 40), st.sampled_from([1, 2, 4, 8]))
def test_upsampling_an_even_motion_leaves_it(height, width, grid):
    rows, columns = -(-height // grid), -(-width // grid)
    field = np.broadcast_to(np.float32([1.5, -2]), (2, rows, columns, 2))
    found = flow.upsample(field, (height, width))
    assert found.shape == (2, height, width, 2)
    assert (found == np.float32([1.5, -2])).all()
    assert flow.grid_of((rows, columns), (height, width)) <= grid


def test_upsampling_goes_between_the_centres_of_cells():
    """A motion that grows with the place, as of a zoom, stays what it is at each pixel."""
    x = np.arange(32, dtype=np.float32)
    dense = np.stack(np.broadcast_arrays(0.1 * x, np.float32(0)), -1)[None].repeat(16, 0)
    cells = dense.reshape(4, 4, 8, 4, 2).mean((1, 3))
    found = flow.upsample(cells, (16, 32))
    assert np.abs(found - dense)[:, 2:-2].max() < 1e-5


X, FLOW = np.zeros((2, 8, 8, 1), np.uint8), np.zeros((2, 8, 8, 2), np.float32)


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (
            lambda: flow.warp(X, FLOW[:1]),
            r"warp: frames of shape \(2, 8, 8, 1\) on cpu and a flow of shape \(1, 8, 8, 2\) on cpu; "
            r"allowed: a flow \(…, H, W, 2\)",
        ),
        (
            lambda: flow.warp(Sequence(X[..., 0], "FHW"), FLOW),
            "warp: frames of layout FHW; allowed: layouts that",
        ),
        (
            lambda: flow.occlusion(FLOW, FLOW[:1]),
            r"occlusion: forward flow of shape \(2, 8, 8, 2\) and backward",
        ),
        (lambda: flow.upsample(FLOW, (50, 50)), "upsample: a flow of 8×8 vectors for frames of 50×50 pixels"),
        (lambda: flow.statistics(X), r"statistics: an array of shape \(2, 8, 8, 1\) is not a flow"),
    ],
)
def test_refusals(call, said):
    with pytest.raises(ParameterError, match=f"^{said}"):
        call()
