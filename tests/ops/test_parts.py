"""Samples of several parts: one draw moves images, labels, boxes, points and flow, each by the rule of its kind."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import ndimage

from seqpipe import Batch, Sequence, ops
from seqpipe.errors import ParameterError
from seqpipe.ops import Chain, apply
from seqpipe.parts import Boxes, Flow, Image, Labels, Metadata, Points, Sample
from seqpipe.pipeline import Graph, Input
from tests.support.operators import compare

RNG = np.random.default_rng(0)
AFFINE = np.diag([3.0, 2.0, 1.0, 1.0])
VOLUME = Sequence(RNG.normal(size=(6, 20, 30, 1)).astype(np.float32), "DHWC", affine=AFFINE)
SEGMENTED = Sequence(RNG.integers(0, 4, (6, 20, 30), dtype=np.uint8), "DHW", affine=AFFINE)
TURN = ops.Rotate(angle=(-40.0, 40.0), seed=3, fill_value=0.0)


def blocky(shape, classes, seed=0):
    """Labels whose classes form blobs."""
    noise = np.random.default_rng(seed).normal(size=(classes, *shape))
    return np.stack([ndimage.gaussian_filter(one, 2) for one in noise]).argmax(0).astype(np.uint8)


def test_all_parts_follow_one_draw_and_keep_what_they_know():
    points = np.array([[0.0, 10, 15], [5, 9.5, 14.5]])
    sample = {
        "t1": VOLUME,
        "t2": Image(VOLUME.with_pixels(VOLUME.data * 2, "DHWC")),
        "label": Labels(SEGMENTED, classes=4, interp="nearest"),
        "points": Points(points),
        "tips": Points(points @ AFFINE[:3, :3].T, unit="mm"),
        "boxes": Boxes(np.array([[1.0, 4, 6, 3, 12, 20]])),
    }
    for index in range(3):
        found = TURN(sample, index=index)
        assert isinstance(found, Sample)
        assert list(found) == list(sample)
        alone = TURN(VOLUME, index=index)
        compare(found["t1"].data, alone.data)
        compare(found["t2"].data.data, alone.data * 2)
        assert type(found["t1"]) is Sequence
        assert isinstance(found["t2"], Image)
        label = found["label"]
        assert (type(label), label.classes, label.interp) == (Labels, 4, "nearest")
        assert (label.data.layout, label.data.dtype) == ("DHW", np.uint8)
        for one in (found["t1"], found["t2"].data, label.data):
            np.testing.assert_array_equal(one.affine, alone.affine)
        moved = found["points"].data
        there = moved @ alone.affine[:3, :3].T + alone.affine[:3, 3]
        np.testing.assert_allclose(there, found["tips"].data, atol=1e-6)
        compare(found["tips"].data, sample["tips"].data)
        assert found["boxes"].data.shape == (1, 6)
        assert found["boxes"].data[0, [0, 3]].tolist() == [1, 3]


def test_a_chain_moves_samples_as_its_operators_do_one_by_one():
    chain = Chain(ops.Flip(horizontal=1, p=0.5), TURN, ops.Gamma(gamma=(0.5, 2.0), range="minmax"), TURN)
    sample = {"image": VOLUME, "label": Labels(SEGMENTED), "points": Points(np.array([[1.0, 2, 3]]))}
    for index in range(4):
        found = chain(sample, index=index, epoch=2)
        compare(found["image"].data, chain(VOLUME, index=index, epoch=2).data)
        step = sample
        for op in chain.ops:
            step = op(step, index=index, epoch=2)
        compare(found["label"].data.data, step["label"].data.data)
        compare(found["points"].data, step["points"].data)
        np.testing.assert_array_equal(found["label"].data.affine, found["image"].affine)


def test_a_composed_chain_moves_labels_by_its_one_mapping():
    chain = Chain(
        ops.Rotate(angle=30.0, fill_value=0.0), ops.Rotate(angle=-30.0, fill_value=0.0), fuse="compose"
    )
    found = chain({"image": VOLUME, "label": Labels(SEGMENTED, interp="nearest")})
    image = chain(VOLUME)
    np.testing.assert_allclose(found["image"].data, image.data, atol=1e-6)
    np.testing.assert_allclose(found["label"].data.affine, image.affine, atol=1e-9)
    middle = found["label"].data.data
    top, left = (np.array(middle.shape[1:]) - (20, 30)) // 2
    compare(middle[:, top : top + 20, left : left + 30], SEGMENTED.data)


@pytest.mark.parametrize("angle", [17.0, 45.0, -63.0])
def test_the_vote_is_the_greatest_of_one_hot_images_that_are_interpolated(angle):
    labels = blocky((3, 33, 41), 6)
    op = ops.Rotate(angle=angle, keep_size=True)
    hot = (labels[..., None] == np.arange(6)).astype(np.float32)
    shares = op(hot)
    found = op({"image": hot, "label": Labels(labels)})["label"].data
    known = op({"image": hot, "label": Labels(np.ones_like(labels))})["label"].data > 0
    best = shares.max(axis=-1)
    own = np.take_along_axis(shares, found[..., None].astype(np.int64), -1)[..., 0]
    assert (best - own)[known].max() < 1e-5
    assert (found[known] == shares.argmax(-1)[known]).mean() > 0.995
    assert {*np.unique(found)} <= {*np.unique(labels)} | {0}
    assert (found != op({"image": hot, "label": Labels(labels, interp="nearest")})["label"].data).any()


def test_labels_by_nearest_are_order_0_of_scipy():
    labels = blocky((40, 40), 5)
    op = ops.Resize(size=(80, 120), interp_type="linear")
    found = op({"image": labels, "label": Labels(labels, interp="nearest")}, layout="HW")["label"].data
    rows, columns = (np.arange(80) + 0.5) / 2 - 0.5, (np.arange(120) + 0.5) / 3 - 0.5
    wanted = ndimage.map_coordinates(
        labels, np.meshgrid(rows, columns, indexing="ij"), order=0, mode="nearest"
    )
    inner = np.s_[:, 1::3]
    compare(found[inner], wanted[inner])


def test_noise_differs_between_the_images_of_a_sample_and_parameters_do_not():
    zero = np.zeros((2, 8, 9, 1), np.float32)
    found = ops.GaussianNoise(stddev=1.0)({"a": zero, "b": zero, "c": zero})
    assert len({result.tobytes() for result in found.values()}) == 3
    bright = ops.Brightness(brightness=(0.5, 2.0))({"a": zero + 1, "b": zero + 1}, index=5)
    compare(bright["a"], bright["b"])


def test_images_of_several_types_share_a_draw():
    x = RNG.integers(0, 255, (3, 10, 12, 3), dtype=np.uint8)
    found = ops.Flip(p=0.5)({"a": x, "b": x.astype(np.float32), "m": Labels(x[..., 0])}, index=1)
    compare(found["b"], found["a"].astype(np.float32))
    compare(found["m"].data, found["a"][..., 0])


def test_batches_and_series_of_samples():
    batch = Batch.of([VOLUME, VOLUME, VOLUME], indices=[4, 9, 2])
    labels = Batch.of([SEGMENTED] * 3, indices=[4, 9, 2])
    op = ops.Rotate(angle=(-40.0, 40.0), keep_size=True, fill_value=0.0)
    found = op({"image": batch, "label": Labels(labels)})
    for n, index in enumerate((4, 9, 2)):
        one = op({"image": VOLUME, "label": Labels(SEGMENTED)}, index=index)
        compare(found["label"].data[n].data, one["label"].data.data)
        compare(found["image"][n].data, one["image"].data)
        np.testing.assert_array_equal(found["label"].data[n].affine, one["image"].affine)


def test_time_moves_labels_boxes_and_clocks():
    clip = Sequence(RNG.integers(0, 255, (6, 8, 9, 3), dtype=np.uint8), timestamps=np.arange(6.0))
    boxes = np.arange(24.0).reshape(6, 1, 4)
    mask = Sequence(clip.data[..., 0], "FHW", timestamps=np.arange(6.0))
    found = ops.Reverse()({"clip": clip, "mask": Labels(mask), "boxes": Boxes(boxes)})
    assert found["mask"].data.timestamps.tolist() == found["clip"].timestamps.tolist() == [5, 4, 3, 2, 1, 0]
    compare(found["boxes"].data, boxes[::-1])
    points = Points(np.array([[0.0, 3, 4]]))
    turned = ops.Reverse()({"image": VOLUME, "points": points})
    assert turned["points"].data.tolist() == [[5, 3, 4]]
    place = turned["points"].data[0] @ turned["image"].affine[:3, :3].T + turned["image"].affine[:3, 3]
    np.testing.assert_allclose(place, AFFINE[:3, :3] @ [0, 3, 4])


def test_flow_is_a_part():
    clip = RNG.integers(0, 255, (3, 8, 12, 3), dtype=np.uint8)
    flow = RNG.normal(size=(2, 8, 12, 2)).astype(np.float32)
    found = ops.Flip()({"clip": clip, "flow": Flow(flow)})["flow"].data
    np.testing.assert_allclose(found, flow[:, :, ::-1] * [-1, 1], atol=1e-6)


@pytest.mark.parametrize("op", [TURN, ops.RandomAffine3d(rotate=10.0), Chain(TURN, ops.Flip(horizontal=1))])
def test_metadata_is_handed_on_as_it_is(op):
    known = Metadata({"age": [63], "site": ["Guys"]})
    found = op({"about": known, "t1": VOLUME, "label": Labels(SEGMENTED)})
    assert list(found) == ["about", "t1", "label"]
    assert found["about"].data is known.data
    with pytest.raises(ParameterError, match=r"a sample of about( \(Metadata\))?"):
        op({"about": known})


def test_metadata_of_several_samples_goes_through_a_choice():
    images = RNG.integers(0, 256, (8, 2, 6, 7, 3), np.uint8)
    known = Metadata({"age": np.arange(8), "site": list("abcdefgh")})
    choice = ops.OneOf([ops.Invert(), None], seed=2)
    found = choice({"clip": images, "about": known}, index=range(8))
    assert found["about"] is known
    seen = [bool((new == 255 - old).all()) for new, old in zip(found["clip"], images, strict=True)]
    assert 0 < sum(seen) < 8


def test_flow_of_volumes_is_refused_by_operators_on_volumes():
    flow = Flow(np.zeros((5, 20, 30, 2), np.float32))
    with pytest.raises(
        ParameterError, match="motion is flow; allowed: images, labels, points, boxes and metadata"
    ):
        ops.RandomAffine3d(rotate=10.0)({"t1": VOLUME, "motion": flow})


def test_nodes_may_be_parts(tmp_path):
    x = RNG.integers(0, 255, (2, 3, 10, 12, 3), dtype=np.uint8)
    mask = x[..., 0]
    chain = Chain(ops.Flip(p=0.5), ops.Crop(crop=(6, 7)))
    nodes = chain({"image": Input("image"), "mask": Labels(Input("mask"), classes=256)})
    assert nodes["mask"].classes == 256
    graph = Graph(nodes["image"], nodes["mask"].data)
    wanted = chain({"image": x, "mask": Labels(mask)}, epoch=1, index=3, layout="NFHWC")
    for one in (graph, Graph.from_json(graph.to_json())):
        image, moved = one(image=x, mask=mask, epoch=1, index=3)
        compare(image, wanted["image"])
        compare(moved, wanted["mask"].data)


def test_tensors_stay_tensors(torch):
    x = torch.zeros(3, 10, 12, 3)
    found = ops.Rotate(angle=30.0)({"image": x, "mask": Labels(torch.ones(3, 10, 12).to(torch.uint8))})
    assert [type(found["image"]), type(found["mask"].data)] == [torch.Tensor] * 2
    assert found["mask"].data.shape == found["image"].shape[:3]


def test_kernels_move_samples_as_the_reference_does(emulated):
    sample = {"image": VOLUME.data, "label": Labels(SEGMENTED.data, interp="nearest")}
    for op in (ops.Flip(), ops.Crop(crop=(11, 13))):
        found = apply(op, sample, backend="cuda", device=emulated)
        wanted = apply(op, sample, backend="reference")
        compare(found["image"], wanted["image"])
        compare(found["label"].data, wanted["label"].data)


@pytest.mark.parametrize(
    ("sample", "said"),
    [
        ({"label": Labels(SEGMENTED)}, r"rotate: a sample of label \(Labels\); allowed: one image at least"),
        ({}, "rotate: a sample of no parts"),
        (
            {"a": VOLUME, "label": Labels(Sequence(SEGMENTED.data, "DHW", affine=AFFINE * [1, 1, 1.1, 1]))},
            r"(?s)rotate: label is shifted by up to .* voxels against the part before it: .*1\.1.*align",
        ),
        (
            {"a": VOLUME, "b": Sequence(VOLUME.data[:, :-1], "DHWC", affine=AFFINE)},
            r"rotate: b, images of float32 of shape \(6, 19, 30, 1\).*\(6, 20, 30, 1\)",
        ),
        (
            {"a": VOLUME, "label": Labels(SEGMENTED.data[:, :, :-1])},
            r"rotate: label, labels of uint8 of shape \(6, 20, 29\).*\(6, 20, 30, 1\)",
        ),
        (
            {"a": VOLUME.data, "p": Points(np.zeros((2, 3)), unit="mm")},
            "rotate: p in mm, for a volume whose affine is not known",
        ),
        ({"a": [VOLUME, VOLUME]}, "rotate: a list of images; allowed: an array, a Sequence, or a Batch"),
    ],
)
def test_parts_that_do_not_fit_are_refused_by_name(sample, said):
    layout = "DHWC" if isinstance(sample.get("a"), np.ndarray) else None
    with pytest.raises(ParameterError, match=said):
        ops.Rotate(angle=20.0)(sample, layout=layout)


def test_grids_are_only_asked_about_by_what_moves_pixels():
    other = Sequence(VOLUME.data[:, :-1], "DHWC", affine=AFFINE * 2)
    found = ops.Invert(range=(0, 1))({"a": VOLUME, "b": other})
    compare(found["b"].data, 1 - other.data)


def test_a_list_of_samples_is_each_sample_with_its_index():
    rng = np.random.default_rng(4)
    samples = [
        {"x": rng.integers(0, 256, (2, 8, 9, 3), np.uint8), "m": Labels(np.ones((2, 8, 9)))} for _ in range(3)
    ]
    for op in (TURN, Chain(ops.Flip(p=0.5), TURN)):
        found = op(samples, index=[4, 7, 9])
        for result, sample, index in zip(found, samples, (4, 7, 9), strict=True):
            alone = op(sample, index=index)
            assert np.array_equal(result["x"], alone["x"])
            assert result.history == alone.history
