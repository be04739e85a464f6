"""The recipe of nnU-Net beside batchgeneratorsv2: the same distributions, and given what is drawn the same images.

``pip install --no-deps batchgeneratorsv2`` and run ``pytest -m peers tests/peers/test_batchgenerators.py``.
"""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from seqpipe import ops, recipes
from seqpipe.ops.core.blocks import resolve, values_of
from seqpipe.ops.core.spec import Spec
from seqpipe.ops.volume.plan import SampledParameters
from seqpipe.ops.volume.state import VoxelGrid
from seqpipe.resampling.mapping import Mapping3

pytestmark = pytest.mark.peers
COUNT = 10_000
SIZE = (32, 32, 32)
LEAST = (
    1e-3  # of a p value: with 10 comparisons one in a hundred runs would fail, and draws are always the same
)


@pytest.fixture(scope="module")
def peers():
    """What nnU-Net v2 builds in ``nnUNetTrainer.get_training_transforms``, by the names of our operators."""
    torch = pytest.importorskip("torch")
    pytest.importorskip("batchgeneratorsv2", reason="pip install --no-deps batchgeneratorsv2")
    from batchgeneratorsv2.transforms.intensity.brightness import MultiplicativeBrightnessTransform
    from batchgeneratorsv2.transforms.intensity.contrast import BGContrast, ContrastTransform
    from batchgeneratorsv2.transforms.intensity.gamma import GammaTransform
    from batchgeneratorsv2.transforms.intensity.gaussian_noise import GaussianNoiseTransform
    from batchgeneratorsv2.transforms.noise.gaussian_blur import GaussianBlurTransform
    from batchgeneratorsv2.transforms.spatial.low_resolution import SimulateLowResolutionTransform
    from batchgeneratorsv2.transforms.spatial.mirroring import MirrorTransform

    np.random.seed(1)  # noqa: NPY002  what batchgeneratorsv2 draws from
    torch.manual_seed(1)
    return {
        "gaussian_noise3d": GaussianNoiseTransform((0, 0.1), 1, synchronize_channels=True),
        "gaussian_blur3d": GaussianBlurTransform((0.5, 1.0), False, False, 0.5),
        "flip3d": MirrorTransform((0, 1, 2)),
        "brightness_multiplicative": MultiplicativeBrightnessTransform(BGContrast((0.75, 1.25)), False, 1),
        "contrast3d": ContrastTransform(BGContrast((0.75, 1.25)), True, False, 1),
        "low_resolution": SimulateLowResolutionTransform((0.5, 1), False, True, None, None, 0.5),
        "gamma3d": GammaTransform(BGContrast((0.7, 1.5)), 0, False, 1, 1),
        "inverted": GammaTransform(BGContrast((0.7, 1.5)), 1, False, 1, 1),
    }


def operators():
    """The recipe's operators that act always, by name."""
    found = {}
    for op in recipes.nnunet():
        name = "inverted" if op.name == "gamma3d" and op.invert else op.name
        found.setdefault(name, []).append(type(op)(**{**op.settings(), "p": 1.0}))
    return found


def parameters(op):
    """What an operator draws for the first channel of many samples; None where it leaves it alone."""
    block = resolve(op, [Spec(*SIZE, 1, "float32")] * COUNT, 0, range(COUNT))
    drawn = [SampledParameters(**vars(values_of(row))) for row in block.rows]
    return [op.of_channel(p, 0) for p in drawn] if hasattr(op, "of_channel") else drawn


def alike(ours, theirs):
    assert len(ours) > 0.4 * COUNT
    assert stats.ks_2samp(ours, theirs).pvalue > LEAST


@pytest.mark.parametrize(
    ("name", "ours", "theirs"),
    [
        ("gaussian_noise3d", "sigma", "sigmas"),
        ("brightness_multiplicative", "factor", "multipliers"),
        ("contrast3d", "factor", "multipliers"),
        ("gamma3d", "gamma", "gamma"),
        ("inverted", "gamma", "gamma"),
        ("low_resolution", "factor", "scales"),
    ],
)
def test_parameters_have_the_same_distribution(peers, name, ours, theirs):
    import torch

    image = torch.zeros((1, 2, 2, 2))
    found = [peers[name].get_parameters(image=image)[theirs] for _ in range(COUNT)]
    judged = [float(np.ravel(one)[0]) for one in found if one is not None and np.ravel(one).size]
    (op,) = operators()[name]
    drawn = [float(np.ravel(getattr(p, ours))[0]) for p in parameters(op) if p is not None]
    alike(drawn, judged)
    assert abs(len(drawn) - len(judged)) < 5 * np.sqrt(COUNT) / 2 + 1, "as many channels are left alone"


def test_blurs_have_the_same_distribution_along_every_axis(peers):
    import torch

    image = torch.zeros((1, 2, 2, 2))
    found = [peers["gaussian_blur3d"].get_parameters(image=image)["sigmas"] for _ in range(COUNT)]
    judged = np.array([sigmas[0] for sigmas in found if sigmas])
    (op,) = operators()["gaussian_blur3d"]
    drawn = np.array([p.sigma for p in parameters(op) if p is not None])
    assert abs(len(drawn) - len(judged)) < 5 * np.sqrt(COUNT) / 2, "as many channels are left alone"
    for axis in range(3):
        alike(drawn[:, axis], judged[:, axis])
    # each axis has a draw of its own
    assert np.abs(np.corrcoef(drawn.T) - np.corrcoef(judged.T)).max() < 0.08


def test_mirrors_have_the_same_distribution(peers):
    found = [peers["flip3d"].get_parameters()["axes"] for _ in range(COUNT)]
    judged = np.bincount([sum(1 << axis for axis in axes) for axes in found], minlength=8)
    (op,) = operators()["flip3d"]
    drawn = np.bincount(
        [int(p.depth) + 2 * int(p.height) + 4 * int(p.width) for p in parameters(op)], minlength=8
    )
    assert judged.min() > 0
    assert stats.chi2_contingency([drawn, judged]).pvalue > LEAST


@pytest.mark.parametrize("axes", [(), (0,), (1, 2), (0, 1, 2)])
def test_a_mirrored_image_is_the_same(peers, axes):
    import torch

    volume = np.random.default_rng(2).normal(size=(5, 6, 7)).astype(np.float32)
    judged = peers["flip3d"].apply({"image": torch.from_numpy(volume)[None]}, axes=list(axes))["image"]
    depth, height, width = (axis in axes for axis in range(3))
    found = ops.Flip3d(depth=depth, height=height, width=width)(volume) if axes else volume
    assert np.array_equal(found, judged[0].numpy())


@pytest.mark.parametrize("sigma", [(0.5, 0.7, 1.0), (1.0, 1.0, 0.5)])
def test_a_blurred_image_is_the_same_but_for_how_far_the_kernel_goes(peers, sigma):
    import torch

    volume = np.random.default_rng(2).normal(size=(18, 19, 20)).astype(np.float32)
    given = {"apply_to_channel": torch.tensor([True]), "sigmas": [list(sigma)]}
    image = torch.from_numpy(volume)[None].clone()
    judged = peers["gaussian_blur3d"].apply({"image": image}, **given)["image"][0].numpy()
    found = ops.GaussianBlur3d(sigma=sigma)(volume)
    inner = (slice(4, -4),) * 3  # torch mirrors without the voxel at the border
    assert np.abs(found - judged)[inner].max() < 3e-3 * np.ptp(volume)


@pytest.mark.parametrize("number", [0, 1])
def test_turns_and_scales_have_the_same_distribution(peers, number):
    import torch
    from batchgeneratorsv2.transforms.spatial.spatial import SpatialTransform

    limit = 30 / 360 * 2 * np.pi
    peer = SpatialTransform(
        SIZE, patch_center_dist_from_border=0, random_crop=False, p_elastic_deform=0,
        p_rotation=1 - number, rotation=(-limit, limit), p_scaling=number, scaling=(0.7, 1.4),
        p_synchronize_scaling_across_axes=1,
    )  # fmt: skip
    image = torch.zeros((1, *SIZE))
    theirs = np.stack([peer.get_parameters(image=image)["affine"] for _ in range(COUNT)])[:, :3, :3]
    op = operators()["random_affine3d"][number]
    ours = np.stack([op.moved(Mapping3(SIZE), p, VoxelGrid(SIZE)).matrix[:3, :3] for p in parameters(op)])
    # of a turn the angle, of a scale the volume: neither depends on the order of axes
    of = (lambda m: np.linalg.det(m)) if number else (lambda m: np.trace(m, axis1=1, axis2=2))
    alike(of(ours), of(theirs))


@pytest.mark.parametrize(
    "name", ["brightness_multiplicative", "contrast3d", "low_resolution", "gamma3d", "inverted"]
)
def test_given_what_is_drawn_images_are_the_same(peers, name):
    import torch

    rng = np.random.default_rng(2)
    volume = rng.normal(size=(12, 13, 14)).astype(np.float32)
    value = torch.tensor([0.8])
    index = torch.tensor([0])
    yes = torch.tensor([True])
    parameters = {
        "brightness_multiplicative": {"apply_to_channel": index, "multipliers": value},
        "contrast3d": {"apply_to_channel": index, "multipliers": value},
        "low_resolution": {"apply_to_channel": index, "scales": torch.full((1, 3), 0.8)},
        "gamma3d": {"apply_to_channel": index, "gamma": value, "retain_stats": yes, "invert_image": ~yes},
        "inverted": {"apply_to_channel": index, "gamma": value, "retain_stats": yes, "invert_image": yes},
    }[name]
    judged = (
        peers[name].apply({"image": torch.from_numpy(volume)[None].clone()}, **parameters)["image"][0].numpy()
    )
    (op,) = operators()[name]
    which = "gamma" if "gamma" in op.settings() else "factor"
    given = {**op.settings(), which: 0.8, "p_channel": 1.0}
    assert np.abs(type(op)(**given)(volume) - judged).max() < 1e-4 * np.ptp(judged)


def test_a_turned_patch_is_the_same_image():
    """By the matrix that batchgeneratorsv2 reads with; its voxels' places are the same, but for the border."""
    torch = pytest.importorskip("torch")
    pytest.importorskip("batchgeneratorsv2")
    from batchgeneratorsv2.transforms.spatial.spatial import SpatialTransform

    from seqpipe.resampling.gather import gather

    size = (20, 20, 20)
    peer = SpatialTransform(
        size, patch_center_dist_from_border=0, random_crop=False, p_elastic_deform=0, p_rotation=1,
        rotation=(-0.5, 0.5), p_scaling=1, scaling=(0.7, 1.4), p_synchronize_scaling_across_axes=1,
    )  # fmt: skip
    np.random.seed(3)  # noqa: NPY002  what batchgeneratorsv2 draws from
    volume = np.random.default_rng(4).normal(size=size).astype(np.float32)
    given = torch.from_numpy(volume)[None]
    drawn = peer.get_parameters(image=given)
    judged = peer.apply({"image": given.clone()}, **drawn)["image"][0].numpy()
    linear, center = np.asarray(drawn["affine"])[:3, :3], (np.array(size) - 1) / 2
    matrix = np.eye(4)
    matrix[:3, :3], matrix[:3, 3] = linear, center - linear @ center
    found = gather(volume[..., None], Mapping3(size, matrix), "linear", 0.0)[..., 0]
    inner = (slice(6, -6),) * 3  # grid_sample's border is mixed otherwise
    assert np.abs(found - judged)[inner].max() < 1e-3 * np.ptp(volume)


def test_the_order_is_the_published_one():
    assert [op.name for op in recipes.nnunet()] == [
        "random_affine3d", "random_affine3d", "gaussian_noise3d", "gaussian_blur3d", "brightness_multiplicative",
        "contrast3d", "low_resolution", "gamma3d", "gamma3d", "flip3d", "replace_label",
    ]  # fmt: skip
    assert isinstance(recipes.nnunet(), ops.Chain)
