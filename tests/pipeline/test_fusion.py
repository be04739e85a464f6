"""What of a chain a conversion does: where its pixels come from, and why it does no more."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

import seqpipe
from seqpipe import Dataset, ops
from seqpipe.ops import Chain, Op, Spec
from seqpipe.ops.compose.fused import planned
from seqpipe.pipeline.fusion import split
from seqpipe.readers import SampleRequest
from seqpipe.video.convert.output import OutputSpec
from tests.support.datasets import files
from tests.support.windows import scaled_window

SIZE = (61, 83)  # rows and columns


def samples(count: int, height: int = SIZE[0], width: int = SIZE[1]) -> list[SampleRequest]:
    """Samples of an epoch that are not in the order of their indices."""
    frames, padding = np.arange(3), np.zeros(3, np.bool_)
    return [
        SampleRequest(7 * n % 11, 0, "made", -1, frames, padding, (height, width, 3)) for n in range(count)
    ]


def made_by(output: OutputSpec, image: NDArray[np.float32]) -> NDArray[np.float64]:
    """What an output makes of a plane, by Pillow."""
    if output.size is not None:
        return scaled_window(image, output)
    y, x, height, width = output.crop or (0, 0, *image.shape)
    part = image[y : y + height, x : x + width].astype(float)
    return part[:, ::-1] if output.mirror else part


@st.composite
def moves(draw: st.DrawFn) -> list[Op]:
    """Crops and mirrors that may stand before or after a resize."""
    found: list[Op] = []
    for _ in range(draw(st.integers(0, 2))):
        seed = draw(st.integers(0, 3))
        if draw(st.booleans()):
            found.append(ops.Flip(p=draw(st.sampled_from([0.0, 0.5, 1.0])), seed=seed))
        else:
            side = 20 - 5 * len(found)
            place = draw(st.sampled_from([0.5, (0.0, 1.0)]))
            found.append(ops.Crop(crop=(side, side + 1), crop_pos_x=place, crop_pos_y=0.3, seed=seed))
    return found


@st.composite
def scalings(draw: st.DrawFn) -> list[Op]:
    size, seed = (draw(st.integers(21, 40)), draw(st.integers(22, 40))), draw(st.integers(0, 5))
    return draw(
        st.sampled_from(
            [
                [],
                [ops.Resize(size=size)],
                [ops.Resize(resize_shorter=size[0])],
                [ops.Resize(size=(60, 60), mode="not_larger", interp_type="triangular", compat="pillow")],
                [
                    ops.ResizeCropMirror(
                        resize_shorter=30, crop=(22, 23), crop_pos_x=(0.0, 1.0), mirror=True, seed=seed
                    )
                ],
                [ops.RandomResizedCrop(size=size, seed=seed)],
                [ops.RandomResizedCrop(size=size, random_area=(0.05, 0.1), seed=seed)],
            ]
        )
    )


@given(st.data(), st.integers(0, 5))
@settings(max_examples=50)
def test_windows_are_those_of_the_operators(data: st.DataObject, epoch: int) -> None:
    """Of each sample, judged by what their references make of a picture of floats, and by Pillow."""
    first = [ops.Crop(crop=(50, 60), crop_pos_y=(0.0, 1.0))] if data.draw(st.booleans()) else []
    drawn = [*first, *([ops.Flip(p=0.5)] if data.draw(st.booleans()) else []), *data.draw(scalings())]
    chain = Chain(*drawn, *data.draw(moves()), ops.Flip(p=0.5, seed=9))
    head = split(chain, OutputSpec(), "surface").head
    assert head is not None
    assert head.ops == chain.ops
    asked = samples(4)
    image = np.random.default_rng(epoch).uniform(0, 255, (*SIZE, 1)).astype(np.float32)
    wanted = chain(
        np.stack([image[None]] * 4),
        layout="NFHWC",
        epoch=epoch,
        index=[sample.index for sample in asked],
        backend="reference",
    )
    for output, result in zip(head(asked, epoch), wanted, strict=True):
        np.testing.assert_allclose(made_by(output, image[..., 0]), result[0, ..., 0], atol=0.01)


def test_a_sample_has_its_window_whoever_is_drawn_beside_it() -> None:
    head = split(Chain(ops.RandomResizedCrop(size=(9, 8)), ops.Flip(p=0.5)), OutputSpec(), "surface").head
    assert head is not None
    together = head(samples(5), 3)
    alone = [head([sample], 3)[0] for sample in samples(5)]
    assert together == alone
    assert len(set(together)) == 5
    assert head(samples(5), 4) != together


def test_what_is_planned_is_what_the_operators_draw() -> None:
    chain = Chain(ops.RandomResizedCrop(size=(9, 8)), ops.Flip(p=0.5), ops.Brightness(brightness=(0.5, 2.0)))
    steps = planned(chain.ops, [Spec(2, 30, 40, 3, "uint8")] * 4, 2, [5, 1, 8, 9])
    assert [step.op for step in steps] == list(chain.ops)
    assert [len(step.mappings) for step in steps] == [4, 4, 0]
    assert steps[1].specs == [Spec(2, 9, 8, 3, "uint8")] * 4
    grid = np.stack(np.meshgrid(np.arange(40.0), np.arange(30.0)), axis=-1).astype(np.float32)
    moved = ops.Flip(p=0.5)(np.stack([grid[None]] * 4), layout="NFHWC", epoch=2, index=[5, 1, 8, 9])
    flips = [mapping.matrix[0, 0] < 0 for mapping in steps[1].mappings]
    assert flips == [bool(sample[0, 0, 0, 0]) for sample in moved]
    assert 0 < sum(flips) < 4


RESIZED = ops.RandomResizedCrop(size=(9, 8))
NORMALIZED = ops.Normalize(mean=(1.0, 2.0, 3.0), stddev=4.0, dtype="float16")


@pytest.mark.parametrize(
    ("op", "reader", "reason"),
    [
        (ops.Brightness(brightness=1.5), {}, "the conversion has no such step"),
        (ops.Rotate(angle=10.0), {}, "the conversion has no such step"),
        (ops.Crop(crop=(4, 4), p=0.5), {}, "it applies to some samples only, with p=0.5"),
        (
            ops.RandomResizedCrop(size=(9, 8), per_frame=True),
            {},
            "its parameters have one value for each frame",
        ),
        (
            ops.Flip(horizontal=ops.per_frame([True, False])),
            {},
            "its parameters have one value for each frame",
        ),
        (ops.Flip(horizontal=[True, False]), {}, "its parameters have one value for each sample of a call"),
        (ops.Flip(vertical=True), {}, "it mirrors frames top to bottom"),
        (ops.Flip(vertical=ops.Choice([True, False])), {}, "it mirrors frames top to bottom"),
        (RESIZED, {"size": (50, 40)}, "frames are already resampled, and the conversion resamples once"),
        (RESIZED, {"short_side": 50}, "frames are already resampled"),
        (
            ops.Flip(),
            {"window": (0, 0, 9, 9), "size": (4, 4)},
            "the reader's own output has a window",
        ),
        (ops.Resize(size=(9, 8), interp_type="cubic"), {}, "with the antialiased linear filter only"),
        (ops.Resize(size=(9, 8), antialias=False), {}, "with the antialiased linear filter only"),
        (ops.Resize(size=(9, 8), compat="opencv"), {}, "it has the conventions of compat='opencv'"),
        (ops.Resize(size=(9, 8), dtype="float32"), {}, "its result is float32"),
        (
            ops.Resize(size=(9, 8), roi_start=(0, 0.5), roi_end=(9, 9)),
            {},
            "its window does not consist of whole pixels",
        ),
        (
            ops.Resize(resize_shorter=9, subpixel_scale=True),
            {},
            "its window does not consist of whole pixels",
        ),
        (ops.Resize(resize_shorter=(9, 12)), {}, "its size is sampled"),
        (ops.Normalize(axis_names="HW"), {}, "it computes statistics of its input"),
        (ops.Normalize(mean=1.0, stddev=2.0, shift=(0.0, 1.0)), {}, "its shift is sampled"),
        (ops.Normalize(mean=(1.0, 2.0), stddev=2.0), {}, "its mean and std are not those of 3 channels"),
        (NORMALIZED, {"color": "YCbCr"}, "the conversion does not normalize YCbCr"),
        (NORMALIZED, {"dtype": "float32"}, "the reader's values are floats already"),
        (
            ops.Normalize(mean=1.0, stddev=2.0, dtype="int16"),
            {},
            "its result is int16, and the conversion gives",
        ),
        (
            ops.Normalize(mean=1.0, stddev=2.0, scale=-1.0),
            {},
            "its factor is not in the range of the conversion",
        ),
        (ops.Normalize(mean=1.0, stddev=1e-7), {}, "its factor is not in the range of the conversion"),
        (ops.CropMirrorNormalize(mean=1.0), {}, ""),
        (ops.Cast(dtype="uint8"), {}, ""),
        (ops.Cast(dtype="int16"), {}, "its result is int16"),
    ],
)
def test_why_an_operator_is_not_taken(op: Op, reader: dict[str, Any], reason: str) -> None:
    parts = split(Chain(op), OutputSpec(**reader), "surface")
    assert reason in parts.reason
    assert (parts.head is None) == bool(reason)
    assert parts.tail == (Chain(op) if reason else None)


@pytest.mark.parametrize(
    ("chain", "taken", "reason"),
    [
        (Chain(RESIZED, RESIZED), 1, "frames are already resampled"),
        (Chain(NORMALIZED, RESIZED), 1, "it resamples values that another operator has changed"),
        (Chain(NORMALIZED, ops.Flip(), ops.Cast(dtype="float32")), 2, "rounded values to float16"),
        (Chain(ops.Cast(dtype="float32"), ops.Normalize(mean=1.0, stddev=2.0), ops.Flip()), 3, ""),
        (Chain(ops.Flip(), ops.Flip(vertical=True), ops.Flip()), 1, "top to bottom"),
        (Chain(ops.Flip(), ops.Crop(crop=(9, 9)), ops.Rotate(angle=3.0), fuse="compose"), 0, "one mapping"),
        (Chain(RESIZED, ops.Flip(), ops.Invert(), fuse="compose"), 2, "no such step"),
    ],
)
def test_how_far_the_head_goes(chain: Chain, taken: int, reason: str) -> None:
    parts = split(chain, OutputSpec(), "surface")
    assert len(parts.head.ops if parts.head else ()) == taken
    assert reason in parts.reason
    assert (parts.tail.ops if parts.tail else ()) == chain.ops[taken:]
    assert parts.tail is None or parts.tail.fuse == chain.fuse


@pytest.mark.parametrize(
    ("chain", "taken"),
    [
        (Chain(ops.Crop(crop=(9, 9)), ops.Flip(p=0.5), RESIZED), 2),
        (Chain(ops.Flip(p=0.5), NORMALIZED), 1),
        (Chain(ops.CropMirrorNormalize(crop=(9, 9), dtype="uint8", output_layout="CHW")), 1),
        (Chain(ops.CropMirrorNormalize(crop=(9, 9))), 0),
    ],
)
def test_what_is_exact(chain: Chain, taken: int) -> None:
    parts = split(chain, OutputSpec(), "exact")
    assert len(parts.head.ops if parts.head else ()) == taken
    assert ("conversion rounds once" in parts.reason) == (parts.tail is not None)
    assert split(chain, OutputSpec(), "none").head is None


def test_values_are_those_of_the_formula() -> None:
    chain = Chain(
        ops.Cast(dtype="float32"),
        ops.Normalize(mean=(10.0, 20.0, 30.0), stddev=(2.0, 4.0, 8.0), scale=3.0, shift=-1.0, epsilon=0.5),
        ops.CropMirrorNormalize(
            mean=0.5, std=2.0, scale=1.5, shift=0.25, dtype="float16", output_layout="CHW"
        ),
    )
    head = split(chain, OutputSpec(), "surface").head
    assert head is not None
    (output,) = head(samples(1), 0)
    assert (output.dtype, output.layout) == ("float16", "FCHW")
    values = np.array([0.0, 51.0, 255.0])
    wanted = chain(np.broadcast_to(values[:, None, None], (3, 1, 3)).astype(np.uint8), backend="reference")
    assert isinstance(output.mean, tuple)
    assert isinstance(output.std, tuple)
    found = (values[:, None] / 255 - output.mean) / output.std
    np.testing.assert_allclose(found.T, wanted[:, :, 0], rtol=1e-3)


def told(dataset: Dataset) -> str:
    """What a data set explains of its operators; the last line is of its parts."""
    *lines, parts = dataset.explain().splitlines()
    assert parts == "Operators change image; other parts are passed on."
    return "\n".join(lines)


def test_it_tells_what_is_done_where() -> None:
    ds = seqpipe.videos(files("h264"), 4)
    chain = Chain(
        RESIZED, ops.Flip(p=0.5), ops.Brightness(brightness=1.5), ops.GaussianBlur(sigma=1.0), ops.Invert()
    )
    assert told(ds.map(chain)) == (
        "1. random_resized_crop → flip: by the reader's conversion, straight from the decoded surface;"
        " colors are rounded, then resampled\n"
        "2. brightness: on the CPU\n"
        "3. gaussian_blur: on the CPU\n"
        "4. invert: on the CPU\n"
        "brightness is not part of the conversion: the conversion has no such step."
    )
    ds = replace(ds, source=replace(ds.source, device="cuda:0"))
    assert told(ds.map(chain)) == (
        "1. random_resized_crop → flip: by the reader's conversion, straight from the decoded surface;"
        " colors are rounded, then resampled\n"
        "2. brightness: one kernel\n"
        "3. gaussian_blur: one kernel\n"
        "4. invert: one kernel\n"
        "brightness is not part of the conversion: the conversion has no such step."
    )
    assert told(ds.map(chain).fuse("exact")) == (
        "1. random_resized_crop → flip → brightness: one kernel\n"
        "2. gaussian_blur: one kernel\n"
        "3. invert: one kernel\n"
        "random_resized_crop is not part of the conversion: it resamples rounded values, and the conversion rounds "
        "once; fuse='surface' allows that."
    )
    assert told(ds.map(ops.Flip(), NORMALIZED)) == (
        "1. flip → normalize: by the reader's conversion, straight from the decoded surface"
    )
