"""Flow moves with its frames: to warp by the moved flow is to move what was warped."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import ndimage

from seqpipe import flow, fn, ops
from seqpipe.errors import ParameterError
from seqpipe.ops import REGISTRY, per_frame
from seqpipe.ops.geometry.base import Geometry
from seqpipe.pipeline import Graph, Input
from seqpipe.sequence import Batch, Sequence
from tests.support.motion import epe, inner, moved, texture
from tests.support.together import together

SIZE = (90, 120)


def scene(name="rotation"):
    """Two frames as floats, and the flow between them."""
    first, second, truth = moved(texture(SIZE[0] + 48, SIZE[1] + 48, 5), name)
    return np.stack([first, second])[..., None].astype(np.float32), truth[None]


def warped(frames, field):
    """The first frame, made of the second; NaN where the flow is unknown or leads outside."""
    return flow.warp(frames[1:], field, fill_value=np.nan)


OPS = [
    ops.Flip(),
    ops.Flip(horizontal=False, vertical=True),
    ops.Crop(crop=(50, 70), crop_pos_x=0.3, crop_pos_y=0.8),
    ops.Resize(size=(135, 150)),
    ops.Resize(size=(60, 100)),
    ops.Rotate(angle=25, keep_size=True, fill_value=0),
    ops.Rotate(angle=90),
    ops.WarpAffine(matrix=(1.1, 0.2, -4.0, -0.1, 0.9, 7.0), fill_value=0),
    ops.Pad(axis_names="HW", align=16, fill_value=0),
    ops.RandomResizedCrop(size=(64, 64), seed=3),
]


@pytest.mark.parametrize("op", OPS, ids=repr)
@pytest.mark.parametrize("name", ["translation", "rotation", "swirl"])
def test_to_warp_by_the_moved_flow_is_to_move_what_was_warped(op, name):
    frames, field = scene(name)
    both = together(op)(frames, flow=field, index=4)
    found = warped(both.image, both.flow)[0]
    judge = op(warped(frames, field), index=4)[0]
    known = np.isfinite(found) & np.isfinite(judge)
    assert known.mean() > 0.5
    # between pixels twice, on either side; what is resampled loses some detail
    assert np.abs(found - judge)[known].mean() < 2.5
    still = both.image[1][..., 0] - judge[..., 0]
    assert np.abs(found - judge)[known].mean() < 0.5 * np.abs(still[known[..., 0]]).mean()


NOTHING_LEFT = {("resize", 8), ("resize_crop_mirror", 4), ("resize_crop_mirror", 5)}
"""Examples of which less than two rows or columns of the image are left."""
MOVERS = [
    pytest.param(name, arguments, id=f"{name}-{number}")
    for name, kind in sorted(REGISTRY.items())
    if issubclass(kind, Geometry)
    for number, arguments in enumerate(kind.traits.examples)
    if (name, number) not in NOTHING_LEFT
]


@pytest.mark.parametrize(("name", "arguments"), MOVERS)
def test_flow_leads_where_points_go(name, arguments):
    """Of every operator that moves pixels, policies among them: flow is the way between two places that move along."""
    known = np.concatenate([ways_apart(name, arguments, seed) for seed in range(3)])
    assert len(known) > 15
    # perspective does not move flow in straight lines between pixels
    assert known.max() < (0.5 if name == "warp_perspective" else 1e-3)


def ways_apart(name, arguments, seed):
    """How far the moved flow is from the way between two points that were moved, at many places where it is known."""
    rng, (height, width) = np.random.default_rng(seed), (24, 32)
    turn, shift = rng.normal(0, 0.05, (2, 2)), rng.normal(0, 2, 2)
    y, x = np.mgrid[:height, :width]
    field = (np.stack([x + 0.5, y + 0.5], -1) @ turn + shift)[
        None
    ]  # linear: exact between its own values too
    field[:, [0, -1]] = field[:, :, [0, -1]] = np.nan  # beyond the outermost centers it would be repeated
    start = rng.uniform((0.5, 0.5), (width - 0.5, height - 0.5), (3000, 2))
    points = np.concatenate([start, start + start @ turn + shift])
    frames = rng.integers(0, 256, (2, height, width, 3), dtype=np.uint8)
    found = together(REGISTRY[name](**arguments))(frames, flow=field, points=points, index=seed)
    sides = found.image.shape[1:3] if found.image.shape[-1] == 3 else found.image.shape[2:]
    assert found.flow.shape == (1, *sides, 2)
    start, end = np.split(found.points, 2)
    inside = ((start >= 0.5) & (start <= np.array(sides[::-1]) - 0.5)).all(-1)
    places, way = (start[inside] - 0.5).T[::-1], (end - start)[inside]
    flows = [ndimage.map_coordinates(found.flow[0, ..., n], places, order=1) for n in range(2)]
    apart = np.abs(np.stack(flows, -1) - way).max(-1)
    return apart[np.isfinite(apart)]


def test_whole_pixels_move_exactly():
    rng = np.random.default_rng(0)
    frames, field = rng.random((3, 8, 10, 1), np.float32), rng.normal(0, 2, (2, 8, 10, 2)).astype(np.float32)
    field[0, 0, 0] = np.nan
    mirrored = together(ops.Flip())(frames, flow=field).flow
    assert np.array_equal(mirrored, field[:, :, ::-1] * np.float32([-1, 1]), equal_nan=True)
    upside = together(ops.Flip(horizontal=False, vertical=True))(frames, flow=field).flow
    assert np.array_equal(upside, field[:, ::-1] * np.float32([1, -1]), equal_nan=True)
    cut = together(ops.Crop(crop=(4, 6), crop_pos_x=0.0, crop_pos_y=1.0))(frames, flow=field).flow
    assert np.abs(cut - field[:, 4:, :6]).max() < 1e-6
    double = together(ops.Resize(size=(16, 20)))(frames, flow=np.full((2, 8, 10, 2), (1, 2), np.float32)).flow
    assert np.allclose(double, (2, 4))
    quarter = together(ops.Rotate(angle=90))(frames, flow=field).flow
    turned = np.rot90(field, 1, (1, 2))
    assert np.allclose(quarter, np.stack([turned[..., 1], -turned[..., 0]], -1), atol=1e-5, equal_nan=True)


@given(
    st.integers(20, 60),
    st.integers(20, 60),
    st.sampled_from([1, 2, 4]),
    st.floats(-180, 180),
    st.floats(0.4, 2.5),
)
@settings(max_examples=40)
def test_an_even_motion_turns_and_scales_as_the_plane_does(height, width, grid, angle, scale):
    cells = -(-height // grid), -(-width // grid)
    field = np.full((1, *cells, 2), (3.0, -1.0))
    turn = np.deg2rad(angle)
    matrix = scale * np.array([[np.cos(turn), -np.sin(turn)], [np.sin(turn), np.cos(turn)]])
    shift = np.array([width, height]) / 2 @ (np.eye(2) - matrix.T)
    op = ops.WarpAffine(
        matrix=tuple(np.column_stack([matrix, shift]).ravel()), inverse_map=False, fill_value=0
    )
    found = together(op)(np.zeros((2, height, width, 1), np.uint8), flow=field).flow
    known = np.isfinite(found[..., 0])
    assert found.shape == field.shape
    assert known[:, cells[0] // 2, cells[1] // 2].all()
    assert np.allclose(found[known], matrix @ (3, -1), atol=1e-5)


def test_flow_of_frames_moved_is_the_flow_moved():
    """What is computed of the moved frames, beside what was computed before."""
    frames, _ = scene("zoom")
    frames = np.rint(frames).astype(np.uint8)
    op = ops.Rotate(angle=12, keep_size=True, fill_value=0)
    both = together(op)(frames, flow=fn.optical_flow(frames))
    again = fn.optical_flow(both.image)
    assert epe(inner(both.flow, 30), inner(again, 30)) < 0.15


@pytest.mark.parametrize("grid", [2, 4])
def test_flow_on_a_grid(grid):
    frames, _ = scene("swirl")
    small = fn.optical_flow(np.rint(frames).astype(np.uint8), output_grid=grid)
    whole = fn.optical_flow(np.rint(frames).astype(np.uint8))
    op = ops.Flip()
    found = together(op)(frames, flow=small).flow
    assert found.shape == small.shape
    dense = together(op)(frames, flow=whole).flow
    assert epe(flow.upsample(found, SIZE)[0, 8:-8, 8:-8], dense[0, 8:-8, 8:-8]) < 0.2


def test_each_frame_by_itself():
    """A shift of the second frame alone is a motion of everything."""
    frames, field = np.zeros((3, 12, 14, 1), np.uint8), np.zeros((2, 12, 14, 2), np.float32)
    op = ops.Flip(horizontal=per_frame([0, 1, 0]))
    found = together(op)(frames, flow=field).flow
    columns = np.arange(14)
    assert (found[0, 5, :, 0] == 13 - 2 * columns).all()
    assert (found[1, 5, :, 0] == 13 - 2 * columns).all()
    with pytest.raises(
        ParameterError, match="each frame is moved independently, but there are 3 flows for 3 frames"
    ):
        together(op)(frames, flow=np.zeros((3, 12, 14, 2), np.float32))


def test_kinds_of_flow(torch):
    frames = np.stack([np.arange(8 * 10, dtype=np.uint8).reshape(8, 10, 1)] * 3)
    field = np.random.default_rng(1).integers(-90, 90, (2, 8, 10, 2)).astype(np.int16)
    field[0, 0, 0] = -32768
    fixed = together(ops.Flip())(frames, flow=field).flow
    assert fixed.dtype == np.int16
    assert (fixed[..., 1] == field[:, :, ::-1, 1]).all()
    assert fixed[0, 0, -1].tolist() == [-32768, -32768]
    floats = field.astype(np.float32)
    known = together(ops.Flip())(frames, flow=Sequence(floats, frames=[4, 5])).flow
    assert known.frames.tolist() == [4, 5]
    tensor = together(ops.Flip())(torch.from_numpy(frames), flow=torch.from_numpy(floats)).flow
    assert isinstance(tensor, torch.Tensor)
    assert (tensor.numpy() == known.data).all()
    op = ops.Flip(p=0.5, seed=1)
    batch = Batch.of([Sequence(frames, frames=[0, 1, 2])] * 6, indices=range(6))
    motion = Batch.of([Sequence(floats, frames=[0, 1])] * 6, indices=range(6))
    both = together(op)(batch, flow=motion)
    signs = [bool((one.data == floats).all()) for one in both.flow]
    assert signs == [bool((one.data == frames).all()) for one in both.image]
    assert 0 < sum(signs) < 6
    listed = together(op)(batch, flow=[floats] * 6).flow
    assert isinstance(listed, list)
    stacked = together(op)(batch, flow=np.stack([floats] * 6)).flow
    assert (stacked == np.stack(listed)).all()
    assert (together(ops.Brightness(brightness=2.0))(frames, flow=floats).flow == floats).all()
    nodes = together(ops.Flip())(Input("x"), flow=Input("flow"))
    graph = Graph(nodes.image, nodes.flow)
    assert (graph(x=frames, flow=floats)[-1] == known.data).all()


@pytest.mark.parametrize(
    ("op", "field", "said"),
    [
        (
            ops.Flip(),
            np.zeros((4, 8, 10, 2)),
            r"flip: flow of shape \(4, 8, 10, 2\) for 3 frames; allowed: \(F",
        ),
        (ops.Flip(), np.zeros((2, 8, 10, 3)), r"flip: an array of shape \(2, 8, 10, 3\) is not a flow"),
        (ops.Flip(), np.zeros((2, 7, 10, 2)), "flip: a flow of 7×10 vectors for frames of 8×10 pixels"),
        (ops.Reverse(), np.zeros((2, 8, 10, 2)), "reverse: flow with an operator that moves frames"),
    ],
)
def test_refusals(op, field, said):
    with pytest.raises(ParameterError, match=f"^{said}"):
        together(op)(np.zeros((3, 8, 10, 1), np.uint8), flow=field)
