"""Clips with their channels first, as readers and operators make them, and as operators take them."""

from __future__ import annotations

import numpy as np
import pytest

from seqpipe import fn, ops
from seqpipe.errors import ParameterError
from seqpipe.pipeline import Augmented, Pipeline, read
from tests.support.datasets import clips, files

MEAN, STD = (120.0, 110.0, 100.0), (60.0, 58.0, 57.0)


def reader(**options):
    return clips(files("h264", "hevc"), length=4, step=16, **options)


def assert_same(found, wanted):
    """The second of these has its channels last."""
    assert found.layout == "NCFHW"
    assert found[0].layout == "CFHW"
    assert found.data.flags.c_contiguous
    np.testing.assert_array_equal(found.numpy(), wanted.numpy().transpose(0, 4, 1, 2, 3))
    np.testing.assert_array_equal(found[1].numpy(), found.numpy()[1])
    assert found.frames.tolist() == wanted.frames.tolist()


@pytest.mark.parametrize("options", [{}, {"color": "GRAY"}, {"dtype": "float32", "mean": 0.5, "std": 0.2}])
def test_a_reader_delivers_them(options):
    with reader(**options) as plain, reader(layout="CFHW", **options) as first:
        (wanted,), (found,) = plain.batch(8), first.batch(8)
        assert_same(found, wanted)
        sample = first.sample(2)
        assert (sample.layout, len(sample)) == ("CFHW", 4)
        np.testing.assert_array_equal(sample.numpy(), found[2].numpy())
        np.testing.assert_array_equal([one.numpy() for one in first], found.numpy())


def test_padding_and_masks():
    options = {"files": files("h264", "hevc"), "length": 60, "pad": "constant", "fill": 9}
    with clips(**options) as plain, clips(layout="CFHW", **options) as first:
        (wanted,), (found,) = plain.batch(2, ragged="pad"), first.batch(2, ragged="pad")
    np.testing.assert_array_equal(found.numpy(), wanted.numpy().transpose(0, 4, 1, 2, 3))
    np.testing.assert_array_equal(found.mask, wanted.mask)
    assert not found.mask.all()


CHAINS = {
    "last": ops.Chain(
        ops.RandomResizedCrop(size=(40, 48), seed=3),
        ops.Flip(p=0.5),
        ops.CropMirrorNormalize(mean=MEAN, std=STD, output_layout="CFHW"),
    ),
    "transposed": ops.Chain(
        ops.Flip(p=0.5),
        ops.CropMirrorNormalize(mean=MEAN, std=STD),
        ops.Transpose(output_layout="CFHW"),
    ),
}


@pytest.mark.parametrize("name", CHAINS)
def test_a_chain_ends_with_them(name):
    chain = CHAINS[name]
    bare = ops.Chain(*(one for one in chain.ops[:-1]), ops.CropMirrorNormalize(mean=MEAN, std=STD))
    bare = ops.Chain(*chain.ops[:-1]) if name == "transposed" else bare
    with Augmented(reader(), chain) as dataset, Augmented(reader(), bare) as last:
        (found,), (wanted,) = dataset.batch(8), last.batch(8)
    assert found.layout == "NCFHW"
    assert found.shape[1:3] == (3, 4)
    np.testing.assert_allclose(found.numpy(), wanted.numpy().transpose(0, 4, 1, 2, 3), atol=1.001 / 57)


def test_a_chain_on_a_reader_of_such_clips_is_fused_as_far_as_it_keeps_them():
    chain = ops.Chain(
        ops.RandomResizedCrop(size=(40, 48), seed=3), ops.Flip(p=0.5), ops.Brightness(brightness=1.2)
    )
    with Augmented(reader(layout="CFHW"), chain) as dataset, Augmented(reader(), chain) as last:
        assert dataset.explain().startswith("1. random_resized_crop → flip: by the reader's conversion")
        (found,), (wanted,) = dataset.batch(8), last.batch(8)
    assert_same(found, wanted)
    turned = ops.Chain(ops.CropMirrorNormalize(crop=(40, 40), output_layout="HWC"))
    with Augmented(reader(layout="CFHW"), turned) as dataset:
        assert "its result has the layout FHWC" in dataset.explain()
        (found,) = dataset.batch(8)
        assert found.layout == "NFHWC"


def test_a_pipeline_knows_their_type():
    clip = read(reader(layout="CFHW"), 8)
    with Pipeline(fn.resize(clip.pixels, size=(20, 24)), clip.pixels) as pipe:
        assert str(pipe.types[1]).startswith("images CFHW uint8 (3×4×96×128)")
        small, whole = next(pipe)
    assert (small.layout, small.shape, whole.shape) == ("NCFHW", (6, 3, 4, 20, 24), (6, 3, 4, 96, 128))


def test_what_is_refused():
    with pytest.raises(ParameterError, match="layout='NCFHW' is not valid; allowed: 'FHWC', 'FCHW', 'CFHW'"):
        reader(layout="NCFHW")
    with pytest.raises(ParameterError, match="output_layout='CFHW' of images of layout HWC"):
        fn.crop_mirror_normalize(np.zeros((4, 4, 3), np.uint8), output_layout="CFHW")
