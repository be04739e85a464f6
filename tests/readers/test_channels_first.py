"""Clips with their channels first, as operators make them, and as tensors are made of them."""

from __future__ import annotations

import numpy as np
import pytest

from seqpipe import fn, ops
from seqpipe.errors import ParameterError
from tests.support.datasets import clips, files, images

MEAN, STD = (120.0, 110.0, 100.0), (60.0, 58.0, 57.0)
PLAIN = ops.CropMirrorNormalize(mean=MEAN, std=STD)


def make(**options):
    return clips(files("h264", "hevc"), **{"length": 4, "step": 16, "batch": 8, **options})


@pytest.mark.parametrize("options", [{}, {"color": "GRAY"}, {"dtype": "float32", "mean": 0.5, "std": 0.2}])
@pytest.mark.parametrize("layout", ["FHWC", "FCHW"])
def test_tensors_have_them_from_any_layout(torch, options, layout):
    with make(**options) as plain, make(**options, layout=layout) as given:
        (wanted,), (found,) = images(plain), given.torch(layout="NCFHW")
        (batch,) = given
    assert found["image"].is_contiguous()
    np.testing.assert_array_equal(found["image"].numpy(), wanted.numpy().transpose(0, 4, 1, 2, 3))
    np.testing.assert_array_equal(batch.torch("NCFHW")["image"].numpy(), found["image"].numpy())
    assert found["frames"].tolist() == wanted.frames.tolist()


def test_padding_and_masks(torch):
    options = {"length": 60, "step": 60, "pad": "constant", "fill": 9, "ragged": "pad", "batch": 2}
    with make(**options) as plain, make(**options, layout="FCHW") as first:
        (wanted,), (found,) = plain, first.torch(layout="NCFHW")
    pixels = wanted["image"].numpy()
    np.testing.assert_array_equal(found["image"].numpy(), pixels.transpose(0, 4, 1, 2, 3))
    np.testing.assert_array_equal(found["mask"].numpy(), wanted["mask"])
    assert not wanted["mask"].all()


CHAINS = {
    "last": ops.Chain(
        ops.RandomResizedCrop(size=(40, 48), seed=3),
        ops.Flip(p=0.5),
        ops.CropMirrorNormalize(mean=MEAN, std=STD, output_layout="CFHW"),
    ),
    "transposed": ops.Chain(ops.Flip(p=0.5), PLAIN, ops.Transpose(output_layout="CFHW")),
}


@pytest.mark.parametrize("name", CHAINS)
def test_a_chain_ends_with_them(name):
    chain = CHAINS[name]
    bare = ops.Chain(*chain.ops[:-1]) if name == "transposed" else ops.Chain(*chain.ops[:-1], PLAIN)
    with make() as dataset:
        (found,), (wanted,) = images(dataset.map(chain)), images(dataset.map(bare))
        one = dataset.map(chain).sample(2)["image"]
    assert found.layout == "NCFHW"
    assert found.shape[1:3] == (3, 4)
    np.testing.assert_allclose(found.numpy(), wanted.numpy().transpose(0, 4, 1, 2, 3), atol=1.001 / 57)
    assert (one.layout, len(one)) == ("CFHW", 4)
    np.testing.assert_array_equal(one.numpy(), found[2].numpy())
    np.testing.assert_array_equal(found[1].numpy(), found.numpy()[1])


def test_a_chain_that_needs_channels_last_makes_them_so():
    turned = ops.Chain(ops.CropMirrorNormalize(crop=(40, 40), output_layout="HWC"))
    with make(layout="FCHW") as first, make() as plain:
        (found,), (wanted,) = images(first.map(turned)), images(plain.map(turned))
    assert found.layout == "NFHWC"
    np.testing.assert_array_equal(found.numpy(), wanted.numpy())


def test_a_graph_gives_them_beside_others():
    def build(parts):
        whole = fn.transpose(parts["image"], output_layout="CFHW")
        return {"image": fn.resize(parts["image"], size=(20, 24)), "whole": whole}

    with make() as dataset:
        (batch,) = dataset.graph(build)
        (plain,) = images(dataset)
    assert (batch["image"].layout, batch["image"].shape) == ("NFHWC", (6, 4, 20, 24, 3))
    assert (batch["whole"].layout, batch["whole"].shape) == ("NCFHW", (6, 3, 4, 96, 128))
    np.testing.assert_array_equal(batch["whole"].numpy(), plain.numpy().transpose(0, 4, 1, 2, 3))


def test_what_is_refused(torch):
    for layout in ("CFHW", "NFHWC"):
        with pytest.raises(ParameterError, match=rf"layout='{layout}' is not valid; allowed: 'FHWC', 'FCHW'"):
            make(layout=layout)
    with pytest.raises(
        ParameterError, match="layout='FCHW' is not valid; allowed: 'NFHWC', 'NFCHW', 'NCFHW'"
    ):
        make().torch(layout="FCHW")
    with pytest.raises(ParameterError, match="output_layout='CFHW' of images of layout HWC"):
        fn.crop_mirror_normalize(np.zeros((4, 4, 3), np.uint8), output_layout="CFHW")
