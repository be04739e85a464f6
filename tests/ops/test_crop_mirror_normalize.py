"""crop_mirror_normalize against NumPy in float64 and torch, every layout that it makes, and what stays in place."""

from __future__ import annotations

import numpy as np
import pytest

from seqpipe import Batch, Sequence, fn
from seqpipe.errors import ParameterError
from seqpipe.ops import Chain, CropMirrorNormalize, Flip, Resize
from tests.support.operators import compare

MEAN, STD = (123.7, 116.3, 103.5), (58.4, 57.1, 57.4)


def clip(shape=(4, 9, 12, 3), dtype="uint8"):
    return np.random.default_rng(2).integers(0, 256, shape).astype(dtype)


@pytest.mark.parametrize("layout", ["CHW", "HWC"])
def test_the_formula(anywhere, layout):
    x = clip((9, 12, 3))
    op = CropMirrorNormalize(
        crop=(5, 6),
        crop_pos_x=1.0,
        mirror=True,
        mean=MEAN,
        std=STD,
        scale=2.0,
        shift=0.25,
        output_layout=layout,
    )
    found = anywhere(op, x)
    window = x[2:7, 6:][:, ::-1].astype(np.float64)
    wanted = 2 * (window - MEAN) / STD + 0.25
    assert found.dtype == np.float32
    np.testing.assert_allclose(found, wanted.transpose(2, 0, 1) if layout == "CHW" else wanted, atol=2e-6)
    assert found.flags.c_contiguous


@pytest.mark.parametrize(
    ("given", "shape", "axes"),
    [
        ("HWC", (9, 12, 3), (2, 0, 1)),
        ("FHWC", (4, 9, 12, 3), (0, 3, 1, 2)),
        ("NHWC", (4, 9, 12, 3), (0, 3, 1, 2)),
        ("NFHWC", (2, 4, 9, 12, 3), (0, 1, 4, 2, 3)),
    ],
)
def test_layouts_there_and_back(anywhere, given, shape, axes):
    x = clip(shape)
    there = anywhere(CropMirrorNormalize(output_layout="CHW", dtype="uint8"), x, layout=given)
    compare(there, x.transpose(axes))
    back = anywhere(
        CropMirrorNormalize(output_layout="HWC", dtype="uint8"), there, layout=given.replace("HWC", "CHW")
    )
    compare(back, x)


def test_layouts_without_a_choice():
    flat = clip((9, 12))
    compare(fn.crop_mirror_normalize(flat, output_layout="CHW", dtype="uint8"), flat)
    with pytest.raises(
        ParameterError,
        match=r"crop_mirror_normalize: output_layout='CHW' of a volume of layout DHWC; allowed",
    ):
        fn.crop_mirror_normalize(clip(), layout="DHWC", output_layout="CHW")


def test_a_sequence_and_a_batch_know_their_layout():
    sequence = Sequence(clip(), "FHWC", source="a.mp4")
    op = CropMirrorNormalize(mean=MEAN, std=STD, output_layout="CHW", dtype="float16")
    found = op(sequence)
    assert (found.layout, found.shape, found.source) == ("FCHW", (4, 3, 9, 12), "a.mp4")
    for batch in (Batch.of([sequence] * 2), Batch((sequence, sequence))):
        made = op(batch)
        assert made.layout == "NFCHW"
        compare(made.data, np.stack([found.data] * 2))
        compare(made.sequences[1].data, found.data)


def test_a_chain_goes_on_in_the_new_layout(place):
    x = clip((2, 4, 9, 12, 3))
    arrange = CropMirrorNormalize(output_layout="CHW", dtype="uint8")
    chain = Chain(Resize(size=(6, 7)), arrange, Flip(), Resize(size=(6, 5)))
    backend = {"emulated": "cuda"}.get(place.name)
    if place.name == "gpu":
        pytest.skip("the other places go the same way")
    found = chain(x, backend=backend, device=place.device)
    wanted = fn.resize(fn.flip(fn.resize(x, size=(6, 7))), size=(6, 5))
    compare(found, np.ascontiguousarray(wanted.transpose(0, 1, 4, 2, 3)))
    whole = Chain(arrange, Flip())(Sequence(x[0], "FHWC"))
    compare(whole.data, x[0][:, :, ::-1].transpose(0, 3, 1, 2))


@pytest.mark.parametrize("channels", [1, 2, 4, 7])
def test_channels(place, channels):
    x = clip((5, 6, channels))
    found = place(CropMirrorNormalize(mean=100.0, std=4.0), x)
    compare(found, ((x.astype(np.float32) - 100) * np.float32(0.25)).astype(np.float32))
    if channels in (2, 4):
        means = tuple(range(channels))
        compare(place(CropMirrorNormalize(mean=means), x), (x - np.float32(means)).astype(np.float32))


def test_numbers_that_do_not_fit_the_channels_are_refused():
    said = r"crop_mirror_normalize: {} has {} values, for pixels of {}; allowed: {}"
    for name, count, channels, allowed in (
        ("mean", 2, 3, "1, or 3"),
        ("std", 3, 1, "1"),
        ("mean", 5, 5, "1"),
    ):
        with pytest.raises(ParameterError, match=said.format(name, count, channels, allowed)):
            fn.crop_mirror_normalize(clip((4, 4, channels)), **{name: (1.0,) * count})
    with pytest.raises(
        ParameterError, match=r"crop_mirror_normalize: crop=\(10, 3\) of images of 9×12 pixels"
    ):
        fn.crop_mirror_normalize(clip(), crop=(10, 3))
