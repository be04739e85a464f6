"""infer: whole volumes in one call, with bounded memory; and what follows: cleaning, measures, saved labels."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest

import seqpipe
from seqpipe import Grid, Prepare, ops
from seqpipe.errors import ParameterError
from seqpipe.volume import save
from tests.support.volumes import needs

AFFINE = np.array([[0, 0, 0.7, 3], [0, 1.5, 0, -4], [2.0, 0, 0, 5], [0, 0, 0, 1]])


def volume(shape=(20, 26, 23), channels=1):
    rng = np.random.default_rng(3)
    data = rng.normal(size=(*shape, channels)).astype(np.float32)
    return seqpipe.Sequence(data, "DHWC", affine=AFFINE)


def scores_of(patches):
    """Two channels of each voxel alone."""
    return np.concatenate([patches, 2 * patches - 0.5], axis=-1)


@pytest.mark.parametrize("overlap", [0, 0.5, (0.25, 0.6, 0.0)])
@pytest.mark.parametrize("patch", [8, (7, 26, 5), (32, 32, 32)])
def test_a_model_of_voxels_gives_what_it_gives_for_the_whole(patch, overlap):
    whole = volume()
    found = seqpipe.infer(scores_of, whole, patch, overlap=overlap, scores=True, batch_size=3)
    np.testing.assert_allclose(found.data, scores_of(whole.data), atol=1e-5)
    np.testing.assert_array_equal(found.affine, AFFINE)
    labels = seqpipe.infer(scores_of, whole, patch, overlap=overlap, batch_size=3)
    near = np.abs(whole.data[..., 0] - 0.5) < 1e-4
    assert np.array_equal(labels.data[..., 0][~near], (whole.data[..., 0] > 0.5)[~near])
    assert labels.data.dtype == np.uint8
    assert labels.kind == "labels"


@pytest.mark.parametrize("weights", ["gaussian", "hann", "constant"])
def test_sums_are_those_of_aggregate(tmp_path, weights):
    """A model that depends on the position in the patch: weights and sums matter."""
    whole = volume((13, 21, 18))
    save(whole, tmp_path / "a.nii")
    ramp = np.arange(8, dtype=np.float32)[:, None, None, None]
    grid = seqpipe.volumes([tmp_path / "a.nii"], Grid((8, 9, 10), overlap=0.4)).batch(4)
    sums = seqpipe.Aggregate(grid, weights=weights)
    results = [result for batch in grid for result in sums.add(batch, batch["image"].numpy() * ramp)]
    found = seqpipe.infer(
        lambda x: x * ramp,
        tmp_path / "a.nii",
        (8, 9, 10),
        overlap=0.4,
        weights=weights,
        scores=True,
        batch_size=5,
    )
    np.testing.assert_allclose(found.data, results[0].output.data, atol=1e-5)


@pytest.mark.parametrize("is_smaller", [True, False])
@pytest.mark.parametrize(("patch", "margin"), [((9, 10, 8), 2), ((9, 30, 12), (0, 3, 1)), ((40, 40, 40), 1)])
def test_margins_of_patches_are_left_out(tmp_path, patch, margin, is_smaller):
    """A network without padding, which returns less than a patch, or one that is wrong at the borders of patches."""
    whole, margins = volume((13, 21, 18)), np.broadcast_to(margin, 3)
    save(whole, tmp_path / "a.nii")
    inner = (slice(None), *(slice(m, side - m) for m, side in zip(margins, patch, strict=True)))

    def model(patches):
        output = np.full_like(patches, np.nan)
        output[inner] = patches[inner]
        return output[inner] if is_smaller else output

    found = seqpipe.infer(model, whole, patch, margin=margin, scores=True, tta="w", batch_size=4)
    np.testing.assert_allclose(found.data, whole.data, atol=1e-5)
    grid = seqpipe.volumes([tmp_path / "a.nii"], Grid(patch, pad="edge", margin=margin)).batch(3)
    sums = seqpipe.Aggregate(grid)
    ((_, merged),) = [each for batch in grid for each in sums.add(batch, model(batch["image"].numpy()))]
    np.testing.assert_allclose(merged.data, whole.data, atol=1e-5)


def test_margins_need_a_patch_and_padding():
    with pytest.raises(ParameterError, match=r"margin=4 leaves nothing of a patch of \(8, 8, 8\)"):
        Grid(8, pad="edge", margin=4)
    with pytest.raises(ParameterError, match="margin=1 and pad='none' exclude one another"):
        Grid(8, margin=1)


def test_mirrored_patches_are_mirrored_back():
    whole = volume((12, 13, 14))
    assert np.allclose(
        seqpipe.infer(scores_of, whole, 8, tta="dhw", scores=True).data, scores_of(whole.data), atol=1e-5
    )
    calls = []

    def counting(patches):
        calls.append(len(patches))
        return patches * np.arange(8)[:, None, None, None]

    found = seqpipe.infer(counting, whole, (8, 13, 14), tta="d", overlap=0, scores=True)
    assert len(calls) == 2 * 2
    # averaged over both directions, the ramp is its mean; starts are 0 and 4, so that patches overlap in between
    np.testing.assert_allclose(found.data[:4], whole.data[:4] * 3.5, rtol=1e-5)
    with pytest.raises(ParameterError, match="letters of 'dhw'"):
        seqpipe.infer(counting, whole, 8, tta="xy")


def test_memory_is_bounded_by_slabs():
    whole = volume((256, 32, 32))
    channels = np.ones(40, np.float32)
    tracemalloc.start()
    seqpipe.infer(lambda x: x * channels, whole, (16, 32, 32), overlap=0.5)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 0.5 * whole.data.nbytes * 40


def test_torch_modules_run_as_for_evaluation(tmp_path):
    torch = needs("torch")
    whole = volume((10, 12, 14), channels=2)
    save(whole, tmp_path / "a.nii.gz")
    net = torch.nn.Sequential(
        torch.nn.Conv3d(2, 3, 3, padding=1), torch.nn.BatchNorm3d(3), torch.nn.Dropout(0.5)
    )
    found = seqpipe.infer(net, tmp_path / "a.nii.gz", (10, 12, 14), scores=True)
    assert net.training
    with torch.no_grad():
        want = net.eval()(torch.from_numpy(whole.data).permute(3, 0, 1, 2)[None])[0].permute(1, 2, 3, 0)
    np.testing.assert_allclose(found.data, want.numpy(), atol=1e-5)

    class Deep(torch.nn.Module):
        def forward(self, x):
            return [net(x), x]

    deep = seqpipe.infer(Deep(), whole, (10, 12, 14), scores=True)
    np.testing.assert_allclose(deep.data, found.data, atol=1e-5)


def test_labels_come_back_to_the_grid_of_the_file(tmp_path):
    depth, height, width = np.indices((16, 20, 24))
    ball = ((depth - 8) ** 2 + (height - 9) ** 2 + (width - 11) ** 2 < 36).astype(np.float32) * 100 + 50
    whole = seqpipe.Sequence(ball[..., None], "DHWC", affine=AFFINE[:, [0, 1, 2, 3]])
    save(whole, tmp_path / "a.nii.gz")
    head = ops.Window(lo=50.0, hi=150.0)
    found = seqpipe.infer(
        lambda x: np.concatenate([0 * x + 0.5, x], axis=-1),
        tmp_path / "a.nii.gz",
        (8, 8, 8),
        prepare=Prepare(spacing_mm=(1.0, 1.0, 1.0), orientation="LPS"),
        head=head,
    )
    np.testing.assert_allclose(found.affine, whole.affine, atol=1e-5)
    truth = seqpipe.Sequence((ball > 100).astype(np.uint8)[..., None], "DHWC", affine=whole.affine)
    (row,) = seqpipe.volume.measure(found, truth)
    assert row.dice > 0.97


def test_regions_and_outputs_of_other_shapes():
    whole = volume((8, 8, 8))
    found = seqpipe.infer(scores_of, whole, 8, regions={2: 0.0, 1: 1.0})
    first, second = np.moveaxis(scores_of(whole.data), -1, 0)
    assert np.array_equal(found.data[..., 0], np.where(second >= 1, 1, np.where(first >= 0, 2, 0)))
    with pytest.raises(ParameterError, match="there are 1 regions, and the model has 2 channels"):
        seqpipe.infer(scores_of, whole, 8, regions={1: 0.5})
    with pytest.raises(ParameterError, match=r"the model's output for patches of the shape .* has the shape"):
        seqpipe.infer(lambda x: x[:, :4], whole, 8)


def test_a_model_of_half_precision_gets_patches_of_its_dtype():
    torch = pytest.importorskip("torch")
    net = torch.nn.Conv3d(1, 2, 1)
    want = seqpipe.infer(net, volume(), 16, scores=True).data
    found = seqpipe.infer(net.bfloat16(), volume(), 16, scores=True)
    assert found.data.dtype == np.float32, "sums are float32"
    np.testing.assert_allclose(found.data, want, atol=0.05)


def test_images_of_a_case_are_channels_of_one_grid(tmp_path):
    rng = np.random.default_rng(0)
    values = {name: rng.random((7, 9, 8, 1)).astype(np.float32) for name in ("t1", "t2")}
    files = {name: tmp_path / f"{name}.nii" for name in values}
    for name, path in files.items():
        save(seqpipe.Sequence(values[name], "DHWC", affine=AFFINE), path)
    found = seqpipe.infer(lambda x: x, files, 4, scores=True)
    assert np.allclose(found.data, np.concatenate([*values.values()], axis=3), atol=1e-6)
    coarse = seqpipe.infer(lambda x: x[..., :2] > 0.5, files, 4, prepare=Prepare(spacing_mm=3.0))
    assert coarse.shape == (7, 9, 8, 1)
    save(seqpipe.Sequence(values["t2"][1:], "DHWC", affine=AFFINE), tmp_path / "t2.nii")
    with pytest.raises(ParameterError, match=r"'t2' has another grid than 't1'.*allowed: images of one grid"):
        seqpipe.infer(lambda x: x, files, 4)
