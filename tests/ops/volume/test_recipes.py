"""Recipes are plain chains; what they draw has the published ranges; adapters take what other libraries hand over."""

from __future__ import annotations

import json
import pickle

import numpy as np
import pytest

from seqpipe import ops, recipes
from seqpipe.errors import ParameterError
from seqpipe.ops import Chain
from seqpipe.parts import Labels, Sample


@pytest.mark.parametrize(
    "chain", [recipes.nnunet(), recipes.nnunet((16, 64, 64)), recipes.monai_btcv(), recipes.monai_brats()]
)
def test_recipes_print_go_to_json_and_can_be_edited(chain):
    assert Chain.from_json(chain.to_json()) == chain
    assert eval(repr(chain), vars(ops)) == chain
    assert len(chain.without(chain[0].name)) < len(chain)
    assert chain + chain != chain
    assert "one gather" in chain.explain()


def test_nnunet_has_its_order_and_probabilities():
    steps = [(op.name, op.p) for op in recipes.nnunet((64, 64, 64))]
    assert steps == [
        ("random_affine3d", 0.2), ("random_affine3d", 0.2), ("crop3d", 1.0), ("gaussian_noise3d", 0.1),
        ("gaussian_blur3d", 0.2), ("brightness_multiplicative", 0.15), ("contrast3d", 0.15), ("low_resolution", 0.25),
        ("gamma3d", 0.1), ("gamma3d", 0.3), ("flip3d", 1.0), ("replace_label", 1.0),
    ]  # fmt: skip


def drawn(chain, samples=400):
    """What each operator has drawn, where it acts, for many samples."""
    found = [[] for _ in chain]
    volume = np.zeros((3, 3, 3), np.float32)
    for index in range(samples):
        for place, entry in enumerate(chain({"image": volume}, index=index).history):
            if entry["drawn"]["acts"]:
                found[place].append(entry["drawn"])
    return found


def test_nnunet_draws_in_its_ranges():
    turn, scale, noise, _, _, _, _, _, _, mirror, _ = drawn(recipes.nnunet())
    assert 0.14 < len(turn) / 400 < 0.27
    angles = np.array([one["rotate"] for one in turn])
    assert (np.abs(angles) <= 30).all()
    assert np.abs(angles).max(axis=0).min() > 26
    zoom = 1 / np.array([one["scale"][0] for one in scale])
    assert 0.7 <= zoom.min() < 0.75
    assert 1.35 < zoom.max() <= 1.4 + 1e-6
    assert max(one["sigma"] for one in noise) <= 0.1
    assert 0.06 < len(noise) / 400 < 0.15
    # a mirror along no axis does not act
    halves = np.sum([[one[axis] for axis in ("depth", "height", "width")] for one in mirror], axis=0) / 400
    assert (np.abs(halves - 0.5) < 0.1).all()


def test_a_two_sided_factor_is_below_or_above_one_with_equal_chance():
    found = np.array(
        [ops.TwoSided(0.75, 1.5).draw(np.random.default_rng(n), (), whole=False) for n in range(4000)]
    )
    assert abs((found < 1).mean() - 0.5) < 0.03
    assert abs(found[found > 1].mean() - 1.25) < 0.01
    assert abs(found[found < 1].mean() - 0.875) < 0.01


def test_dummy_2d_leaves_slices_as_slices(rng):
    chain = recipes.nnunet((4, 32, 32))
    assert recipes.is_anisotropic((4, 32, 32))
    assert not recipes.is_anisotropic((12, 32, 32))
    space = Chain(*(op for op in chain if op.name in ("random_affine3d", "crop3d")))
    sure = Chain(*(type(op)(**{**op.settings(), "p": 1.0}) for op in space))
    assert "slice by slice, in the plane" in sure.explain(rng.random((6, 40, 40)).astype(np.float32))


def test_labels_of_nnunet_have_no_outside_left(rng):
    chain = Chain(*(type(op)(**{**op.settings(), "p": 1.0}) for op in recipes.nnunet((24, 24, 24))))
    labels = rng.integers(0, 3, (20, 20, 20)).astype(np.uint8)
    done = chain({"image": rng.random((20, 20, 20)).astype(np.float32), "label": Labels(labels)})
    assert isinstance(done, Sample)
    assert done["label"].array.dtype == np.uint8
    assert set(np.unique(done["label"].array)) <= {0, 1, 2}
    assert done["image"].shape == (24, 24, 24)
    assert np.isfinite(done["image"]).all()


def test_a_history_goes_through_json(rng):
    sample = {"image": rng.random((20, 20, 20)).astype(np.float32)}
    chain = Chain(*(type(op)(**{**op.settings(), "p": 1.0}) for op in recipes.nnunet((16, 16, 16))))
    done = chain(sample, epoch=3, index=9)
    again = ops.replay(json.loads(json.dumps(done.history)), sample)
    assert np.array_equal(again["image"], done["image"])


def test_a_history_grows_from_call_to_call_and_is_a_list_that_can_be_changed(rng):
    sample = {"image": rng.random((6, 7, 8)).astype(np.float32)}
    first = ops.GaussianNoise3d(sigma=0.1, seed=1)(sample, epoch=1, index=4)
    second = ops.Flip3d(width=True)(first, epoch=2, index=5)
    entries = [(entry["op"]["op"], entry["epoch"], entry["index"]) for entry in second.history]
    assert entries == [("gaussian_noise3d", 1, 4), ("flip3d", 2, 5)]
    assert first.history == second.history[:1]
    second.history.pop()
    assert len(second.history) == 1
    assert pickle.loads(pickle.dumps(first)).history == first.history


def test_deep_supervision_is_nearest_exact(rng):
    torch = pytest.importorskip("torch")
    labels = rng.integers(0, 5, (2, 1, 12, 10, 9))
    scales = [(1, 1, 1), (1, 0.5, 0.5), (0.5, 0.25, 0.25)]
    found = recipes.deep_supervision(torch.from_numpy(labels), scales)
    for one, scale in zip(found, scales, strict=True):
        few = [round(n * s) for n, s in zip(labels.shape[2:], scale, strict=True)]
        judged = torch.nn.functional.interpolate(torch.from_numpy(labels).float(), few, mode="nearest-exact")
        assert torch.equal(one.float(), judged)
    for one, other in zip(recipes.deep_supervision(labels, scales), found, strict=True):
        assert np.array_equal(one, other.numpy())


def test_nnunet_transform_takes_a_data_loaders_dictionary(rng):
    torch = pytest.importorskip("torch")
    transform = recipes.NnunetTransform(recipes.nnunet((16, 16, 16)), [(1, 1, 1), (0.5, 0.5, 0.5)])
    image = torch.from_numpy(rng.random((2, 20, 20, 20)).astype(np.float32))
    segmentation = torch.from_numpy(rng.integers(0, 3, (1, 20, 20, 20)).astype(np.int16))
    found = transform(image=image, segmentation=segmentation, keys="case_3")
    assert found["image"].shape == (2, 16, 16, 16)
    assert found["image"].dtype == torch.float32
    assert [tuple(one.shape) for one in found["segmentation"]] == [(1, 16, 16, 16), (1, 8, 8, 8)]
    assert found["segmentation"][0].dtype == torch.int16
    assert found["keys"] == "case_3"
    placed = [transform(image=image, segmentation=segmentation, index=4, epoch=1)["image"] for _ in range(2)]
    assert torch.equal(*placed)
    with pytest.raises(ParameterError, match="NnunetTransform: a sample of data; allowed: image"):
        transform(data=image)


def test_nnunet_augments_slices_for_networks_in_two_dimensions(rng):
    """nnU-Net's configuration 2d passes slices (C, H, W), and patch sizes, axes and scales of two numbers."""
    torch = pytest.importorskip("torch")
    chain = recipes.nnunet((24, 32), mirror=(True, False), dummy_2d=False)
    assert chain[0].rotate.lo[0] == -180.0
    assert recipes.nnunet((24, 40))[0].rotate.lo[0] == -15.0, "of oblong slices, as nnU-Net"
    transform = recipes.NnunetTransform(chain, [(1.0, 1.0), (0.5, 0.5)])
    image = torch.from_numpy(rng.random((2, 40, 44)).astype(np.float32))
    labels = torch.from_numpy(rng.integers(0, 3, (1, 40, 44)).astype(np.int16))
    found = transform(image=image, segmentation=labels, index=2)
    assert found["image"].shape == (2, 24, 32)
    assert [tuple(one.shape) for one in found["segmentation"]] == [(1, 24, 32), (1, 12, 16)]
    assert set(found["segmentation"][0].unique().tolist()) <= {0, 1, 2}
    for wrong in ((4,), (0, 4, 4), "abc", (1.5, 2, 3), 32):
        with pytest.raises(
            ParameterError, match=r"nnunet: patch_size=.* is not valid; allowed: slices, rows and"
        ):
            recipes.nnunet(wrong)
    assert recipes.nnunet(np.array([32, 32, 32])) == recipes.nnunet((32, 32, 32))


def test_dictionary_transform_keeps_types_and_says_what_was_done(rng):
    transform = recipes.DictionaryTransform(recipes.monai_brats((12, 12, 12)), ["t1"], ["seg"])
    data = {
        "t1": rng.random((4, 16, 16, 16)).astype(np.float32),
        "seg": np.ones((1, 16, 16, 16), np.uint8),
        "id": 3,
    }
    found = transform(data)
    assert found["t1"].shape == (4, 12, 12, 12)
    assert found["seg"].dtype == np.uint8
    assert found["id"] == 3
    assert json.loads(found["history"])[0]["op"]["op"] == "crop3d"
    hounsfield = (rng.random((1, 16, 16, 16)) * 900).astype(np.int16)
    scaled = recipes.DictionaryTransform(recipes.monai_btcv((12, 12, 12)))({"image": hounsfield})["image"]
    assert scaled.dtype == np.float32
    assert len(np.unique(scaled)) > 100, "a window of integers keeps its gray levels"
    with pytest.raises(ParameterError, match="DictionaryTransform: a sample of seg, id; allowed: with t1"):
        transform({"seg": data["seg"], "id": 3})


def test_the_dtypes_of_adapters_do_not_depend_on_the_draw(rng):
    """A loader collates samples of one dtype, also where a window acts on half of them."""
    torch = pytest.importorskip("torch")
    chain = Chain(ops.Window(lo=0.0, hi=900.0, p=0.5, seed=1))
    image = torch.from_numpy((rng.random((1, 8, 8, 8)) * 900).astype(np.int16))
    dictionary, nnunet = recipes.DictionaryTransform(chain), recipes.NnunetTransform(chain)
    for found in (
        [dictionary({"image": image, "index": n})["image"] for n in range(16)],
        [nnunet(image=image, index=n)["image"] for n in range(16)],
    ):
        assert {one.dtype for one in found} == {torch.float32}
        assert 0 < sum(torch.equal(one, image.float()) for one in found) < 16


@pytest.mark.peers
def test_a_meta_tensor_of_monai_keeps_its_affine(rng):
    monai = pytest.importorskip("monai.data")
    tensor = monai.MetaTensor(rng.random((1, 16, 16, 16)).astype(np.float32), affine=np.diag([2.0, 1, 1, 1]))
    found = recipes.DictionaryTransform(Chain(ops.Flip3d(depth=True, width=False)))({"image": tensor})[
        "image"
    ]
    assert isinstance(found, monai.MetaTensor)
    assert np.allclose(np.asarray(found.affine)[:3, 3], [30, 0, 0])
    tensor.meta["filename_or_obj"] = "ct.nii.gz"
    again = recipes.DictionaryTransform(Chain(ops.Flip3d(depth=True, width=False)))({"image": tensor})[
        "image"
    ]
    assert again.meta["filename_or_obj"] == "ct.nii.gz"
    assert np.allclose(np.asarray(again.affine)[:3, 3], [30, 0, 0])
    assert not np.asarray(tensor.affine)[:3, 3].any()


def test_the_metadata_of_a_tensor_are_kept_and_its_affine_moves(rng, torch):
    """What MONAI's MetaTensor has, where that is not installed."""

    class MetaTensor(torch.Tensor):
        def as_tensor(self):
            return self.as_subclass(torch.Tensor)

        def copy_meta_from(self, other):
            self.affine, self.file = other.affine, other.file

    image = MetaTensor(torch.from_numpy(rng.random((1, 16, 8, 9)).astype(np.float32)))
    image.affine, image.file = torch.eye(4), "ct.nii.gz"
    found = recipes.DictionaryTransform(Chain(ops.Flip3d(depth=True, width=False)))({"image": image})["image"]
    assert (type(found), found.file) == (MetaTensor, "ct.nii.gz")
    assert found.affine[0].tolist() == [-1, 0, 0, 15]
    assert torch.equal(image.affine, torch.eye(4))


@pytest.mark.peers
def test_a_subject_of_torchio_comes_back_as_one(rng):
    torchio, torch = pytest.importorskip("torchio"), pytest.importorskip("torch")
    subject = torchio.Subject(
        image=torchio.ScalarImage(tensor=torch.rand(1, 12, 13, 14), affine=np.diag([2.0, 1, 1, 1])),
        label=torchio.LabelMap(
            tensor=(torch.rand(1, 12, 13, 14) > 0.5).float(), affine=np.diag([2.0, 1, 1, 1])
        ),
    )
    found = recipes.on_subject(
        Chain(ops.RandomAffine3d(rotate=20.0), ops.Flip3d(depth=True, width=False)), subject, index=3
    )
    assert isinstance(found, torchio.Subject)
    assert found.image.shape == subject.image.shape
    assert set(found.label.data.unique().tolist()) <= {0.0, 1.0}
    assert not np.allclose(found.image.affine, subject.image.affine)


class _Image:
    """What :func:`on_subject` needs of an image of TorchIO, where that is not installed."""

    def __init__(self, data, affine, kind):
        self.data, self.affine, self.type = data, affine, kind

    def set_data(self, data):
        self.data = data


class _Subject(dict):
    """What a subject of TorchIO is, where that is not installed: a dictionary whose images are attributes, too."""

    def __init__(self, **images):
        super().__init__(**images)
        self.update_attributes()

    def update_attributes(self):
        self.__dict__.update(self)


def test_images_of_a_subject_are_changed_as_attributes_too(rng):
    image = _Image(rng.random((1, 8, 9, 10)).astype(np.float32), np.diag([2.0, 1, 1, 1]), "intensity")
    subject = _Subject(t1=image)
    found = recipes.on_subject(Chain(ops.Flip3d(depth=True, width=False)), subject)
    assert found.t1 is found["t1"]
    assert np.array_equal(found.t1.data, image.data[:, ::-1])
    assert subject.t1 is image


def test_what_has_the_form_of_a_subject_is_one(rng):
    image = _Image(rng.random((1, 8, 9, 10)).astype(np.float32), np.diag([2.0, 1, 1, 1]), "intensity")
    label = _Image(np.ones((1, 8, 9, 10), np.uint8), np.diag([2.0, 1, 1, 1]), "label")
    found = recipes.on_subject(
        Chain(ops.Flip3d(depth=True, width=False)), {"image": image, "label": label, "age": 40}
    )
    assert np.array_equal(found["image"].data, image.data[:, ::-1])
    assert found["image"].affine[0, 3] == 14
    assert found["age"] == 40
