"""Labels: marked by datasets, never blended by operators, of any numbers; unmarked ones are asked about."""

from __future__ import annotations

import pickle

import numpy as np
import pytest

import seqpipe
from seqpipe import Patch, Sequence, ops
from seqpipe.errors import ParameterError, SourceError
from seqpipe.parts import Image, Labels, Metadata
from seqpipe.volume import save

AFFINE = np.diag([2.0, 1.5, 1.5, 1.0])
CLASSES = {0, 2, 7}
INTERPOLATING = [
    ops.RandomAffine3d(rotate=(8.0, 12.0), seed=1),
    ops.Chain(ops.RandomAffine3d(rotate=(8.0, 12.0)), ops.GaussianNoise3d(sigma=5.0)),
    ops.Rotate(angle=17.0),
    ops.Resize(size=(17, 23)),
    ops.Chain(ops.Rotate(angle=17.0), ops.Brightness(brightness=2.0)),
]


def _classes(shape=(12, 20, 24), numbers=(0, 2, 7), dtype=np.uint8):
    blocks = np.random.default_rng(0).choice(np.array(numbers, dtype), (3, 5, 6))
    return np.kron(blocks, np.ones((4, 4, 4), dtype))[..., None].astype(dtype)


@pytest.fixture
def cases(tmp_path):
    """Two cases of an image and a label."""
    for number in range(2):
        labels = np.roll(_classes(), number, axis=1)
        save(Sequence(labels * np.int16(20), "DHWC", affine=AFFINE), tmp_path / f"image{number}.nii.gz")
        save(Sequence(labels, "DHWC", affine=AFFINE), tmp_path / f"label{number}.nii.gz")
    return [{n: tmp_path / f"{n}{number}.nii.gz" for n in ("image", "label")} for number in range(2)]


def _batch(dataset):
    return next(iter(dataset.batch(2)))


def _voxels(parts):
    return {name: parts[name] for name in ("image", "label")}


def _values(part):
    part = part.data if isinstance(part, Labels) else part
    return set(np.unique(part.numpy()).tolist())


@pytest.mark.parametrize("op", INTERPOLATING, ids=repr)
def test_labels_of_batches_and_samples_get_no_new_classes(cases, op):
    dataset = seqpipe.volumes(cases)
    batch = _batch(dataset)
    assert (batch["image"].kind, batch["label"].kind) == ("image", "labels")
    moved = op(_voxels(batch))
    assert _values(moved["label"]) <= CLASSES
    assert not _values(moved["image"]) <= {20 * number for number in CLASSES}
    assert moved["label"].kind == "labels"
    for sample in (dataset.sample(1), next(iter(dataset)), pickle.loads(pickle.dumps(dataset.sample(0)))):
        assert _values(op(_voxels(sample))["label"]) <= CLASSES
    mapped = _batch(dataset.map(*op.ops) if isinstance(op, ops.Chain) else dataset.map(op))
    assert mapped["label"].kind == "labels"
    assert np.array_equal(mapped["label"].numpy(), moved["label"].numpy())


@pytest.mark.parametrize("op", INTERPOLATING, ids=repr)
def test_labels_alone_move_as_with_their_image(cases, op):
    batch = _batch(seqpipe.volumes(cases))
    moved, alone = op(_voxels(batch))["label"], op(batch["label"])
    assert alone.kind == "labels"
    assert np.array_equal(alone.numpy(), moved.numpy())
    one = op(batch["label"][0])
    assert np.array_equal(one.numpy(), moved.numpy()[0])
    several = op(list(batch["label"]))
    assert np.array_equal(several[1].numpy(), moved.numpy()[1])


def test_labels_of_different_sizes_move_alone(cases, tmp_path):
    save(Sequence(_classes()[:, :16], "DHWC", affine=AFFINE), tmp_path / "image1.nii.gz")
    save(Sequence(_classes()[:, :16], "DHWC", affine=AFFINE), tmp_path / "label1.nii.gz")
    batch = _batch(seqpipe.volumes(cases))
    assert batch["label"].stacked is None
    for op in (ops.Rotate(angle=17.0), ops.RandomAffine3d(rotate=(0.0, 0.0, 17.0))):
        found = op(batch["label"])
        assert {value for one in found for value in _values(one)} <= CLASSES


def test_labels_are_arrays_as_before(cases):
    label = _batch(seqpipe.volumes(cases))["label"]
    assert np.array_equal(label.numpy(), label.data)
    assert label.numpy().shape == (2, 12, 20, 24, 1)
    assert "labels" in repr(label[0])


def test_a_mark_can_be_set_and_taken_away(cases):
    label = _batch(seqpipe.volumes(cases))["label"]
    image = label.of_kind("image")
    assert not _values(ops.Resize(size=(17, 23))(image)) <= CLASSES
    assert not _values(ops.Resize(size=(17, 23))({"x": Image(label)})["x"].data) <= CLASSES
    again = Labels(image).data
    assert (again.kind, again[0].kind) == ("labels", "labels")
    with pytest.raises(ParameterError, match="kind='mask'"):
        Sequence(np.zeros((2, 3, 4, 1)), "DHWC", kind="mask")


@pytest.mark.parametrize("name", ["label", "mask", "seg", "tumor_mask", "Segmentation", "seg-1"])
@pytest.mark.parametrize("op", INTERPOLATING, ids=repr)
def test_integers_named_as_labels_are_asked_about(op, name):
    labels = Sequence(_classes(), "DHWC", affine=AFFINE)
    image = labels.with_pixels(labels.data.astype(np.float32), "DHWC")
    for value in (labels, seqpipe.Batch.of([labels])):
        base = image if value is labels else seqpipe.Batch.of([image])
        with pytest.raises(ParameterError, match=rf"'{name}' holds integers.*Labels\(…\).*Image\(…\)"):
            op({"image": base, name: value})
        assert _values(op({"image": base, name: Labels(value)})[name]) <= CLASSES
        op({"image": base, name: Image(value)})
        op({"image": base, name: value.of_kind("labels")})
        op({"image": base, "second": value})
    op({"image": image, name: image})  # probabilities


def test_operators_that_move_whole_voxels_ask_nothing():
    labels = Sequence(_classes(), "DHWC", affine=AFFINE)
    sample = {"image": labels, "label": labels}
    for op in (
        ops.Flip(horizontal=True),
        ops.Flip3d(depth=True, width=False),
        ops.Crop(crop=(8, 8)),
        ops.Resize(size=(17, 23), interp_type="nearest"),
    ):
        assert _values(op(sample)["label"]) <= CLASSES
    ops.Chain(ops.Flip(), ops.Only("image", ops.GaussianBlur(sigma=1.0)))(sample)
    ops.Rotate(angle=3.0)({"image": labels, "label": Metadata(3)})


def test_samples_are_not_mixed_with_unmarked_labels():
    labels = _classes()
    sample = {"image": labels.astype(np.float32), "label": labels}
    with pytest.raises(ParameterError, match="'label' holds integers"):
        ops.Mixup(num_classes=8)([sample, sample], [0, 1], layout="DHWC")
    with pytest.raises(ParameterError, match="labels of voxels without their images"):
        ops.Mixup(num_classes=8)(seqpipe.Batch.of([Sequence(labels, "DHWC", kind="labels")] * 2), [0, 1])


def _case(folder, numbers, name="label", dtype=np.int32, data=None):
    labels = _classes(numbers=numbers, dtype=dtype) if data is None else data
    save(Sequence(np.zeros(labels.shape, np.int16), "DHWC", affine=AFFINE), folder / "image.nii.gz")
    save(Sequence(labels, "DHWC", affine=AFFINE), folder / f"{name}.nii.gz")
    return {"image": folder / "image.nii.gz", "label": folder / f"{name}.nii.gz"}


@pytest.mark.parametrize("around", ["balanced", "classes"])
@pytest.mark.parametrize("numbers", [(0, 11101, 12175), (-1, 0, 3), (0, 4096), (-5, -1, 70_000)])
def test_patches_are_cut_around_classes_of_any_number(tmp_path, around, numbers):
    options = {"foreground": 1.0} if around == "balanced" else {"class_weights": {numbers[-1]: 1.0}}
    case = _case(tmp_path, numbers)
    dataset = seqpipe.volumes(case, Patch(3, per_volume=20, around=around, pad="edge", **options))
    hits = [one["label"].data for one in dataset]
    middles = [int(one[1, 1, 1, 0]) for one in hits]
    whole = seqpipe.volumes(case).sample(0)["label"]
    assert set(np.unique(whole.data).tolist()) == set(numbers)
    assert all((one > 0).any() if around == "balanced" else (one == numbers[-1]).any() for one in hits)
    assert sum(middle > 0 for middle in middles) > 10


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (_classes(dtype=np.float32) + np.float32(0.3), "is not a whole number"),
        (np.full((12, 20, 24, 1), np.nan, np.float32), "nan is not a whole number"),
        (np.arange(70_000, dtype=np.int32).reshape(10, 70, 100, 1), "70,000 different labels"),
        (_classes().astype(np.complex64), "labels are of complex64"),
    ],
)
@pytest.mark.parametrize("on_error", ["raise", "skip", "substitute"])
def test_a_file_whose_labels_cannot_be_used_is_named_and_obeys_on_error(tmp_path, data, said, on_error):
    for folder in ("bad", "good"):
        (tmp_path / folder).mkdir()
    bad, good = _case(tmp_path / "bad", (), "broken", data=data), _case(tmp_path / "good", (0, 1))
    dataset = seqpipe.volumes([bad, good], Patch(8, around="balanced"), on_error=on_error)
    if on_error == "raise":
        with pytest.raises(SourceError, match=rf"bad/broken\.nii\.gz.*{said}"):
            list(dataset.batch(1))
        return
    found = list(dataset.batch(1))
    assert len(found) == (1 if on_error == "skip" else 2)
    (loss,) = dataset.report().losses
    assert said in loss.reason


def test_weights_that_are_none_obey_on_error(tmp_path):
    for folder, low in (("bad", -1.0), ("good", 1.0)):
        (tmp_path / folder).mkdir()
        image = Sequence(np.full((9, 9, 9, 1), low, np.float32), "DHWC", affine=AFFINE)
        save(image, tmp_path / folder / "image.nii.gz")
        save(image, tmp_path / folder / "map.nii.gz")
    files = [{n: tmp_path / folder / f"{n}.nii.gz" for n in ("image", "map")} for folder in ("bad", "good")]
    take = Patch(3, around="weighted", weights="map")
    with pytest.raises(SourceError, match=r"bad/map\.nii\.gz.*negative"):
        list(seqpipe.volumes(files, take).batch(1))
    assert len(list(seqpipe.volumes(files, take, on_error="skip").batch(1))) == 1


@pytest.mark.parametrize(
    ("data", "scale"),
    [
        (_classes(numbers=(0, 1, 3), dtype=np.float32) * np.float32(1.0000153), None),
        (np.rint(_classes(numbers=(0, 1, 3), dtype=np.float32) / 0.0275).astype(np.uint8), (0.0275, 0.0)),
        (np.rint(_classes(numbers=(0, 1, 3), dtype=np.float32) / 0.001).astype(np.int16), (0.00100001, 0.0)),
    ],
)
def test_quantized_labels_are_rounded_to_their_class_with_a_note(tmp_path, data, scale):
    case = _case(tmp_path, (), data=data[..., :1])
    save(Sequence(data, "DHWC", affine=AFFINE, scale=scale), case["label"])
    dataset = seqpipe.volumes(case, Patch(8, around="balanced"))
    (batch,) = dataset.batch(1)
    assert _values(batch["label"]) <= {0, 1, 3}
    whole = seqpipe.volumes(case).sample(0)["label"]
    assert np.array_equal(whole.data, _classes(numbers=(0, 1, 3)))
    (loss,) = dataset.report().losses
    assert (loss.fate, loss.source) == ("labels rounded", str(case["label"]))
    assert "they are rounded" in loss.reason


def test_probabilities_in_bytes_are_no_labels(tmp_path):
    levels = np.random.default_rng(0).integers(0, 256, (6, 7, 8, 1)).astype(np.uint8)
    case = _case(tmp_path, (), data=levels)
    save(Sequence(levels, "DHWC", affine=AFFINE, scale=(1 / 255, 0.0)), case["label"])
    with pytest.raises(SourceError, match="is not a whole number"):
        seqpipe.volumes(case).sample(0)


@pytest.mark.parametrize(
    ("one", "two", "common"),
    [
        (np.int16, np.float32, np.float32),
        (np.int16, np.uint16, np.int32),
        (np.uint8, np.int16, np.int16),
        (np.int32, np.float32, np.float32),
        (np.float32, np.float64, np.float64),
    ],
)
def test_a_batch_has_one_dtype(tmp_path, one, two, common):
    arrays = [np.full((3, 4, 5, 1), n + 5, kind) for n, kind in enumerate((one, two))]
    for number, array in enumerate(arrays):
        save(Sequence(array, "DHWC", affine=AFFINE), tmp_path / f"{number}.nii.gz")
        save(Sequence(array, "DHWC", affine=AFFINE), tmp_path / f"{number}_label.nii.gz")
    files = [tmp_path / f"{number}.nii.gz" for number in range(2)]
    labels = [tmp_path / f"{number}_label.nii.gz" for number in range(2)]
    (batch,) = seqpipe.volumes(seqpipe.cases(files, labels=labels)).batch(2)
    assert batch["image"].data.dtype == common
    assert np.array_equal(batch["image"].data, np.stack([array.astype(common) for array in arrays]))
    assert batch["label"].data.shape == (2, 3, 4, 5, 1)
    assert batch["label"].kind == "labels"


def test_a_batch_of_different_dtypes_says_so():
    batch = seqpipe.Batch.of(
        [Sequence(np.zeros((2, 3, 4, 1), kind), "DHWC") for kind in (np.int16, np.float32)]
    )
    with pytest.raises(ParameterError, match=r"different types .*int16, float32"):
        _ = batch.data
