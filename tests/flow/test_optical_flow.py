"""fn.optical_flow: motion that is known, every kind of input, clocks, refusals."""

from __future__ import annotations

import logging
import threading

import cv2
import numpy as np
import pytest

import seqpipe
from seqpipe import flow, fn, ops
from seqpipe.errors import BackendError, ParameterError
from seqpipe.flow import pairs as pairs_module
from seqpipe.flow.pairs import FlowWorkspace, dense_flow, flow_on_cpu
from seqpipe.ops import Flows
from seqpipe.ops.motion import optical_flow as optical_flow_module
from seqpipe.pipeline import Graph, Input
from seqpipe.sequence import Batch, Sequence
from tests.support import media
from tests.support.motion import SCENES, epe, inner, moved, texture


def pair(scene, size=(288, 368)):
    first, second, truth = moved(texture(*size), scene)
    return np.stack([first, second])[..., None], truth


def clip(frames=4, size=(64, 96), channels=3, seed=0):
    """Frames that move by (2, 1) each."""
    whole = texture(size[0] + 40, size[1] + 40, seed)
    cut = [whole[20 - k : 20 - k + size[0], 20 - 2 * k : 20 - 2 * k + size[1]] for k in range(frames)]
    return np.repeat(np.stack(cut)[..., None], channels, -1).astype(np.uint8)


# ------------------------------------------------------------------------------------------ exactness


@pytest.mark.parametrize("scene", SCENES)
@pytest.mark.parametrize(("preset", "most"), [("slow", 0.1), ("medium", 0.1), ("fast", 0.15)])
def test_dis_finds_known_motion(scene, preset, most):
    frames, truth = pair(scene)
    assert epe(inner(fn.optical_flow(frames, preset=preset)[0]), inner(truth)) < most


@pytest.mark.parametrize("scene", SCENES)
def test_farneback_finds_known_motion(scene):
    frames, truth = pair(scene)
    assert epe(inner(fn.optical_flow(frames, backend="farneback")[0], 32), inner(truth, 32)) < 0.5


@pytest.mark.parametrize("scene", SCENES)
@pytest.mark.parametrize("name", ["juggle.mp4", "hevc10_hlg", "tears_of_steel"])
def test_dis_finds_known_motion_of_photographs(name, scene):
    """Of real frames with texture all over; a bare wall tells of no motion."""
    path = next(media.shared_media() / row["file"] for row in media.shared_manifest() if name in row["file"])
    with seqpipe.open(path, output=seqpipe.OutputSpec(color="GRAY", max_side=640)) as video:
        photo = video[len(video) // 3].data[..., 0].astype(np.float32)
    first, second, truth = moved(photo, scene)
    found = fn.optical_flow(np.stack([first, second])[..., None])[0]
    assert epe(inner(found), inner(truth)) < 0.1


def test_sign_and_axes_are_those_of_opencv():
    """What moves to the right has a positive x, what moves down a positive y; forward is from the earlier frame."""
    found = fn.optical_flow(clip())
    assert found.shape == (3, 64, 96, 2)
    assert np.abs(np.median(found, (0, 1, 2)) - (2, 1)).max() < 0.1
    back = fn.optical_flow(clip(), direction="backward")
    assert np.abs(np.median(back, (0, 1, 2)) - (-2, -1)).max() < 0.1
    two = fn.optical_flow(clip(), stride=2)
    assert two.shape == (2, 64, 96, 2)
    assert np.abs(np.median(two, (0, 1, 2)) - (4, 2)).max() < 0.1
    gray = cv2.cvtColor(clip()[0], cv2.COLOR_RGB2GRAY), cv2.cvtColor(clip()[1], cv2.COLOR_RGB2GRAY)
    judge = cv2.DISOpticalFlow.create(cv2.DISOPTICAL_FLOW_PRESET_MEDIUM).calc(*gray, None)
    assert (found[0] == judge).all()


def test_both_directions_agree_and_what_is_hidden_is_found():
    """A square moves over a still background: its way is hidden, and what it leaves comes to light."""
    ground, square = texture(160, 200, 3).astype(np.uint8), texture(50, 50, 4).astype(np.uint8)
    frames = np.stack([ground, ground])
    frames[0, 60:110, 60:110], frames[1, 60:110, 68:118] = square, square
    found = fn.optical_flow(frames[..., None], direction="both", occlusion=True)
    assert isinstance(found, Flows)
    assert found.cost is None
    assert np.abs(np.median(found.forward[0, 70:100, 70:100], (0, 1)) - (8, 0)).max() < 0.2
    assert np.abs(np.median(found.backward[0, 70:100, 78:108], (0, 1)) - (-8, 0)).max() < 0.2
    hidden = found.occlusion[0, ..., 0]
    assert hidden.dtype == bool
    assert hidden[65:105, 111:117].mean() > 0.7
    assert hidden[20:50].mean() < 0.02
    assert (hidden == flow.occlusion(found.forward, found.backward)[0]).all()


def test_cost_is_high_where_nothing_fits():
    frames = clip(2, (96, 128))
    frames[1, 30:60, 40:80] = np.random.default_rng(0).integers(0, 256, (30, 40, 1))
    found = fn.optical_flow(frames, cost=True, output_grid=4)
    assert found.cost.shape == (1, 24, 32, 1)
    assert found.cost.dtype == np.uint8
    assert found.backward_cost is None
    assert found.cost[0, 9:13, 12:18].mean() > 5 * found.cost[0, 17:, 22:].mean() + 5


@pytest.mark.parametrize("grid", [2, 4])
@pytest.mark.parametrize("size", [(64, 96), (61, 93), (30, 50)])
def test_a_cell_has_the_mean_of_its_pixels(grid, size):
    frames = clip(2, size)
    whole, found = fn.optical_flow(frames)[0], fn.optical_flow(frames, output_grid=grid)[0]
    assert found.shape == (-(-size[0] // grid), -(-size[1] // grid), 2)
    full = size[0] // grid, size[1] // grid
    means = whole[: full[0] * grid, : full[1] * grid].reshape(full[0], grid, full[1], grid, 2).mean((1, 3))
    assert np.abs(found[: full[0], : full[1]] - means).max() < 1e-4


@pytest.mark.parametrize("preset", ["slow", "medium", "fast"])
@pytest.mark.parametrize("method", ["dis", "farneback"])
def test_small_frames(method, preset):
    for size in ((1, 1), (5, 7), (12, 40), (31, 33)):
        found = fn.optical_flow(clip(2, size), backend=method, preset=preset)
        assert found.shape == (1, *size, 2)
        assert np.isfinite(found).all()


def test_results_do_not_depend_on_earlier_pairs():
    """An object of OpenCV 5 that is used again begins from an earlier start, and from memory of other sizes."""
    first, second = clip(2)[..., 0]
    fresh = dense_flow("dis", "medium", first, second)
    start = np.random.default_rng(0).normal(0, 5, (64, 96, 2)).astype(np.float32)
    kept = start.copy()
    assert (dense_flow("dis", "medium", first, second, start) != fresh).any()
    assert (start == kept).all()
    dense_flow("dis", "medium", *clip(2, (160, 120))[..., 0])
    assert (dense_flow("dis", "medium", first, second) == fresh).all()


@pytest.mark.parametrize("preset", ["slow", "medium", "fast"])
def test_memory_that_is_kept_from_pair_to_pair_changes_nothing(preset):
    """Frames that move, that differ altogether, and of other sizes, one after the other, beside a call for each."""
    workspace, rng = FlowWorkspace(), np.random.default_rng(0)
    sizes = [(256, 288), (64, 80), (270, 480), (30, 300), (300, 257)]
    for seed in range(20):
        size = sizes[rng.integers(len(sizes))]
        first, second = clip(2, size, seed=seed)[..., 0]
        if seed % 3 == 2:
            second = rng.integers(0, 256, size, dtype=np.uint8)
        start = rng.normal(0, 5, (*size, 2)).astype(np.float32) if seed % 4 == 3 else None
        found = dense_flow("dis", preset, first, second, start, workspace)
        assert (found == dense_flow("dis", preset, first, second, start)).all(), (seed, size)
    assert {shape for *_, shape in workspace.cache} == {(256, 288), (270, 480), (300, 257)}


@pytest.mark.parametrize("method", ["dis", "farneback"])
def test_hints_help_with_large_motion(method):
    """A motion too large for what a method searches, found from a hint of the whole of it."""
    whole = texture(200, 400, 7).astype(np.uint8)
    frames = np.stack([whole[40:160, 100:260], whole[40:160, 30:190]])[..., None]
    truth = np.broadcast_to(np.float32([70, 0]), (1, 120, 160, 2))
    bare = fn.optical_flow(frames, backend=method, preset="fast")
    for grid in (1, 4, 8):
        hints = truth[:, ::grid, ::grid]
        found = fn.optical_flow(frames, hints=hints, backend=method, preset="fast")
        left = np.s_[0, 16:-16, 16:70]
        assert epe(found[left], truth[left]) < 0.5 * epe(bare[left], truth[left])


def test_temporal_hints_follow_a_sequence():
    frames = clip(5)
    found = fn.optical_flow(frames, temporal_hints=True)
    bare = fn.optical_flow(frames)
    assert (found[0] == bare[0]).all()
    for pair in range(1, len(found)):
        assert (
            found[pair] == fn.optical_flow(frames[pair : pair + 2], hints=found[pair - 1 : pair])[0]
        ).all()
        assert (found[pair] != bare[pair]).any()
    assert np.abs(np.median(found, (0, 1, 2)) - (2, 1)).max() < 0.1
    again = fn.optical_flow(np.stack([frames, frames]), temporal_hints=True)
    assert (again == found).all()


# ------------------------------------------------------------------------------------------ kinds of input


def test_every_layout_and_library(torch):
    frames = clip(3, channels=1)
    wanted = fn.optical_flow(frames)
    assert (fn.optical_flow(frames[..., 0], layout="FHW") == wanted).all()
    assert (
        fn.optical_flow(frames.transpose(0, 3, 1, 2), layout="FCHW") == wanted.transpose(0, 3, 1, 2)
    ).all()
    assert (fn.optical_flow(np.stack([frames, frames[::-1]]))[0] == wanted).all()
    tensor = fn.optical_flow(torch.from_numpy(frames))
    assert isinstance(tensor, torch.Tensor)
    assert (tensor.numpy() == wanted).all()
    several = fn.optical_flow([frames, frames[:2]], direction="both")
    assert isinstance(several, Flows)
    assert [one.shape[0] for one in several.forward] == [2, 1]
    assert (several.forward[0] == wanted).all()


def test_kinds_of_pixels():
    gray = clip(2, channels=1)
    wanted = fn.optical_flow(gray)
    assert (fn.optical_flow(np.repeat(gray, 3, -1)) == wanted).all()  # equal values are gray
    luma = np.concatenate([gray, 255 - gray, gray // 2], -1)
    assert (fn.optical_flow(luma, image_type="YCbCr") == wanted).all()
    colors = np.random.default_rng(0).integers(0, 256, (2, 64, 96, 3), dtype=np.uint8)
    assert (fn.optical_flow(colors) == fn.optical_flow(colors[..., ::-1], image_type="BGR")).all()


def test_clock_and_padding_of_a_sequence():
    frames, times = [4, 6, 8, -1], [0.4, 0.6, 0.8, np.nan]
    given = Sequence(clip(4), source="a.mp4", frames=frames, timestamps=times)
    found = fn.optical_flow(given)
    assert found.frames.tolist() == [4, 6, 8]
    assert found.timestamps.tolist() == [0.4, 0.6, 0.8]
    assert found.source == "a.mp4"
    assert found.layout == "FHWC"
    assert np.isfinite(found.data[:2]).all()
    assert np.isnan(found.data[2]).all()
    fixed = fn.optical_flow(given, dtype="int16")
    assert fixed.dtype == np.int16
    assert (fixed.data[2] == -32768).all()
    assert np.abs(fixed.data[:2] / 32 - found.data[:2]).max() <= 1 / 64 + 1e-6
    wide = fn.optical_flow(given, stride=2)
    assert wide.frames.tolist() == [4, 6]
    assert np.isnan(wide.data[1]).all()


def test_a_volume_keeps_its_space():
    affine = np.diag([3.0, 1.0, 1.0, 1.0])
    found = fn.optical_flow(Sequence(clip(4, channels=1), "DHWC", affine=affine), output_grid=2)
    assert found.layout == "DHWC"
    assert found.affine.tolist() == [[3, 0, 0, 0], [0, 2, 0, 0.5], [0, 0, 2, 0.5], [0, 0, 0, 1]]


def test_batches():
    sequences = [Sequence(clip(3, seed=s), frames=[s, s + 1, s + 2]) for s in range(2)]
    batch = Batch.of(sequences, labels=[7, 8], indices=[1, 2])
    found = fn.optical_flow(batch, output_grid=4)
    assert found.shape == (2, 2, 16, 24, 2)
    assert found.labels.tolist() == [7, 8]
    assert found.frames.tolist() == [[0, 1], [1, 2]]
    assert (found[1].data == fn.optical_flow(sequences[1], output_grid=4).data).all()
    ragged = fn.optical_flow(Batch.of([sequences[0], Sequence(clip(2), frames=[0, 1])], labels=[1, 2]))
    assert [len(one) for one in ragged] == [2, 1]
    mask = np.ones((2, 3, 64, 96), bool)
    mask[1, 2] = False
    mask[:, :, :, 93:] = False
    masked = fn.optical_flow(Batch(batch.sequences, stacked=batch.stacked, mask=mask), output_grid=4)
    assert masked.mask.shape == (2, 2, 16, 24)
    assert masked.mask[0, 0, 0].tolist() == [True] * 23 + [False]
    assert not masked.mask[1, 1].any()


def test_a_graph_gives_flow_and_the_first_frame():
    """The program of a talk: read sequences, compute flow, keep the first frame."""
    frames = Input("frames")
    graph = Graph(fn.optical_flow(frames, output_grid=4), *fn.element_extract(frames, element_map=0))
    motion, first = graph(frames=clip()[None])
    assert motion.shape == (1, 3, 16, 24, 2)
    assert (first[0] == clip()[0]).all()


def test_the_number_of_threads_changes_nothing():
    frames = clip(6, (120, 160))
    before = ops.threads()
    try:
        ops.set_threads(1)
        alone = fn.optical_flow(frames)
        ops.set_threads(4)
        assert (fn.optical_flow(frames) == alone).all()
    finally:
        ops.set_threads(None)
    assert ops.threads() == before


def test_short_sequences_of_different_sizes_are_done_side_by_side(monkeypatch):
    given = [Sequence(clip(2, (40 + 8 * k, 64), seed=k), frames=[k, k + 1]) for k in range(6)]
    wanted = [fn.optical_flow(one).data for one in given]
    workers, dense = set(), pairs_module.dense_flow
    two = threading.Event()

    def noting(*rest):
        workers.add(threading.get_ident())
        if len(workers) > 1:
            two.set()
        assert two.wait(60), "one thread does all of them"
        return dense(*rest)

    monkeypatch.setattr(pairs_module, "dense_flow", noting)
    try:
        ops.set_threads(3)
        listed, ragged = fn.optical_flow(given), fn.optical_flow(Batch.of(given))
        with pytest.raises(ParameterError, match="stride=1 in a sequence of 1"):
            fn.optical_flow([*given, clip(1)])
    finally:
        ops.set_threads(None)
    for first, second, judge in zip(listed, ragged, wanted, strict=True):
        assert (first.data == judge).all()
        assert (second.data == judge).all()
    assert [int(one.frames[0]) for one in listed] == list(range(6))


@pytest.mark.parametrize("layout", ["FHWC", "NFHWC", "FCHW"])
def test_threads_fill_the_result_itself(layout, monkeypatch):
    """Memory is slow: what the calling thread cleared and copied by itself took as long as four threads' DIS."""
    kept = []

    def keeping(*given):
        kept.append(flow_on_cpu(*given))
        return kept[-1]

    monkeypatch.setattr(optical_flow_module, "flow_on_cpu", keeping)
    frames = clip(4, channels=1)
    given = {"FHWC": frames, "NFHWC": frames[None], "FCHW": frames.transpose(0, 3, 1, 2)}[layout]
    found = fn.optical_flow(given, layout=layout)
    assert np.shares_memory(found, kept[0].forward) == (layout != "FCHW")
    assert found.flags.c_contiguous


# ------------------------------------------------------------------------------------------ refusals


HINTS = np.zeros((1, 20, 20, 2), np.float32)


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda: fn.optical_flow(clip(1)), r"stride=1 in a sequence of 1; allowed: sequences of two frames"),
        (lambda: fn.optical_flow(clip(3), stride=3), "stride=3 in a sequence of 3; allowed: up to 2"),
        (lambda: fn.optical_flow(clip()[0], layout="HWC"), "images of layout HWC, which has no frames"),
        (lambda: fn.optical_flow(clip().astype(np.float32)), "values of type float32; allowed: uint8"),
        (lambda: fn.optical_flow(clip()[..., :2]), r"pixels of 2 values; allowed: 1 \(gray\) or 3"),
        (lambda: fn.optical_flow(clip()[:, :0]), r"shape \(4, 0, 96, 3\) holds no pixels"),
        (lambda: fn.optical_flow([]), "a list of no arrays; allowed: one or more"),
        (lambda: fn.optical_flow("a.mp4"), "an object of type str is not an array"),
        (
            lambda: fn.optical_flow(clip(2), hints=HINTS),
            "a flow of 20×20 vectors for frames of 64×96 pixels; allowed: 64×96, 32×48, 16×24, 8×12",
        ),
        (
            lambda: fn.optical_flow(clip(3), hints=HINTS),
            r"hints of shape \(1, 20, 20, 2\); allowed: \(2, h, w, 2\)",
        ),
        (lambda: fn.optical_flow(clip(2), hints=HINTS[..., 0]), "is not a flow; allowed: shapes"),
        (lambda: fn.optical_flow([clip(2)], hints=HINTS), "hints for a list. Call it for each sample"),
    ],
)
def test_refusals(call, said):
    with pytest.raises(ParameterError, match=f"^optical_flow: .*{said}|^{said}"):
        call()


def test_without_a_gpu_the_engine_is_named():
    from tests.support.gpu import missing_gpu

    if not missing_gpu():
        pytest.skip("there is a GPU")
    with pytest.raises(BackendError, match=r"optical_flow: .*Give backend='auto' or backend='dis'"):
        fn.optical_flow(clip(2), backend="nvofa")


def test_in_main_memory_auto_is_dis(caplog):
    with caplog.at_level(logging.INFO):
        assert (fn.optical_flow(clip(2)) == fn.optical_flow(clip(2), backend="dis")).all()
    assert not caplog.records


def test_padded_windows_of_a_data_set():
    """The last window of a video reaches past its end."""
    output = seqpipe.OutputSpec(color="GRAY", max_side=64)
    with seqpipe.videos(str(media.made("h264")), seqpipe.Clip(20, pad="edge"), output=output) as ds:
        last = fn.optical_flow([*ds][-1]["image"], preset="fast")
    real = last.frames >= 0
    assert 0 < real.sum() < len(real)
    known = np.isfinite(last.data).all((1, 2, 3))
    assert known.tolist() == [*real[1:].tolist(), False], "what has no second frame is unknown"


def test_a_graph_computes_flow_and_keeps_the_first_frame():
    output = seqpipe.OutputSpec(max_side=64)
    with seqpipe.videos(str(media.made("h264")), seqpipe.Clip(4, step=20), output=output).batch(2) as ds:
        whole = next(iter(ds))["image"]
        batch = next(
            iter(
                ds.fuse("exact").graph(
                    lambda parts: {
                        "flow": fn.optical_flow(parts["image"], output_grid=4, preset="fast"),
                        "first": fn.element_extract(parts["image"], element_map=0)[0],
                    }
                )
            )
        )
    assert (np.asarray(batch["flow"]) == fn.optical_flow(whole, output_grid=4, preset="fast").data).all()
    assert (np.asarray(batch["first"]) == whole.data[:, 0]).all()
    assert (batch["image"].numpy() == whole.numpy()).all()
