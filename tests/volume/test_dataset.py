"""readers.Volume: patches of images and labels, the same whatever reads them; each volume read once an epoch."""

from __future__ import annotations

import contextlib
import json
import os
import pickle
import shutil
import signal
import threading

import numpy as np
import pytest

import seqpipe
from seqpipe import ops
from seqpipe.errors import ManifestError, ParameterError, SourceError, SourceNotFoundError, StateError
from seqpipe.parts import Labels
from seqpipe.readers import Volume
from seqpipe.sampling import EpochOrder
from seqpipe.sampling.blocks import BlockOrder
from seqpipe.volume import save

SHAPES = [(12, 20, 24), (14, 18, 22), (10, 26, 20), (16, 16, 16), (11, 21, 19)]


def volume_of(shape, number, *, labels=False):
    """Each voxel tells its volume and its place, so that a patch tells where it was cut."""
    d, h, w = np.indices(shape)
    place = ((number * 32 + d) * 32 + h) * 32 + w
    affine = np.diag([1.0, 2.0, 3.0, 1.0])[:, [2, 1, 0, 3]]
    if not labels:
        return seqpipe.Sequence(place[..., None].astype(np.int32), "DHWC", affine=affine)
    mask = np.zeros(shape, np.uint8)
    mask[2:4, 3:6, 4:9] = 1
    mask[7, 9, 11] = 2
    return seqpipe.Sequence(mask[..., None], "DHWC", affine=affine)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    root = tmp_path_factory.mktemp("cases")
    for part in ("images", "labels"):
        (root / part).mkdir()
        for number, shape in enumerate(SHAPES):
            save(volume_of(shape, number, labels=part == "labels"), root / part / f"case{number}.nii.gz")
    return root


def make(folder, **options):
    plain = {
        "file_root": folder,
        "patch_size": (6, 8, 10),
        "patches_per_volume": 5,
        "shuffle": True,
        "seed": 7,
    }
    return Volume(**{**plain, **options})


def gist(batch):
    return {name: (part.data.tobytes(), part.indices.tolist()) for name, part in batch.items()}


def everything(dataset, batch_size=3, **options):
    return [gist(batch) for batch in dataset.batches(batch_size, **options)]


def test_image_and_label_are_cut_at_the_same_place_and_know_where_they_are(folder):
    with make(folder, sampler="balanced") as dataset:
        for batch in dataset.batches(4):
            image, label = batch["image"], batch["label"]
            assert image.shape[1:] == label.shape[1:] == (6, 8, 10, 1)
            for index, patch, mask in zip(image.indices, image, label, strict=True):
                number = int(index) // 5
                code = int(patch.data.flat[0])
                start = (code >> 10) & 31, (code >> 5) & 31, code & 31
                assert code >> 15 == number
                whole = volume_of(SHAPES[number], number).data
                cut = tuple(slice(s, s + p) for s, p in zip(start, (6, 8, 10), strict=True))
                assert np.array_equal(patch.data, whole[cut])
                assert np.array_equal(mask.data, volume_of(SHAPES[number], number, labels=True).data[cut])
                np.testing.assert_allclose(
                    patch.affine[:3, 3], [start[2], start[1] * 2, start[0] * 3], atol=1e-5
                )
                assert np.array_equal(patch.affine, mask.affine)


def test_samples_do_not_depend_on_threads_batches_or_calls(folder):
    with make(folder, threads=1) as one:
        wanted = [{n: p.data.tobytes() for n, p in sample.items()} for sample in one]
    for threads, size in ((2, 4), (4, 7), (8, 25)):
        with make(folder, threads=threads) as dataset:
            found = [sample for batch in dataset.batches(size) for sample in _singles(batch)]
            assert found == wanted
    with make(folder) as dataset:
        order = [request.index for request in dataset.requests()]
        assert [{n: p.data.tobytes() for n, p in dataset.sample(i).items()} for i in order] == wanted


def _singles(batch):
    parts = {name: list(part) for name, part in batch.items()}
    return [{n: parts[n][i].data.tobytes() for n in parts} for i in range(len(parts["image"]))]


def test_every_volume_is_read_once_an_epoch_and_patches_of_several_are_mixed(folder):
    with make(folder, open_volumes=2) as dataset:
        for epoch in range(3):
            dataset.set_epoch(epoch)
            order = [request.volume for request in dataset.requests()]
            assert sorted(order) == sorted([*range(5)] * 5)
            assert len(set(order[:10])) == 2
            assert order[:10] != sorted(order[:10])
            everything(dataset)
            assert dataset.stats()["volumes"] <= 5 * (epoch + 1)  # some are still there from the epoch before
        dataset.close()
        read = dataset.stats()["volumes"]
        everything(dataset)
        assert dataset.stats()["volumes"] == read + 5
    with make(folder, open_volumes=2, cache_gib=1) as dataset:
        for _ in range(3):
            everything(dataset)
        assert dataset.stats()["volumes"] == 5


def test_epochs_and_seeds_have_patches_and_orders_of_their_own(folder):
    with make(folder) as dataset:
        first = everything(dataset)
        assert everything(dataset) == first
        dataset.set_epoch(1)
        assert everything(dataset) != first
    with make(folder, seed=8) as other:
        assert everything(other) != first


@pytest.mark.parametrize("world", [2, 3])
@pytest.mark.parametrize("shuffle", [True, False])
def test_ranks_share_an_epoch(folder, world, shuffle):
    for epoch in range(2):
        found = []
        for rank in range(world):
            with make(folder, shard=(rank, world), shuffle=shuffle) as dataset:
                dataset.set_epoch(epoch)
                found += [request.index for request in dataset.requests()]
                assert len(dataset) == len(dataset.requests())
        assert sorted(found) == list(range(25))


def test_even_shards_get_equally_many(folder):
    lengths = set()
    for rank in range(3):
        with make(folder, shard=(rank, 3), even_shards=True) as dataset:
            lengths.add(len([1 for _ in dataset]))
    assert lengths == {10}


@pytest.mark.parametrize("last_batch", ["partial", "drop", "fill"])
def test_every_step_of_an_epoch_can_be_resumed(folder, last_batch):
    options = {"open_volumes": 2, "sampler": "balanced", "shard": (0, 2)}
    with make(folder, **options) as dataset:
        dataset.set_epoch(3)
        whole = dataset.batches(4, last_batch=last_batch)
        states, wanted = [], []
        for batch in whole:
            wanted.append(gist(batch))
            states.append(json.loads(json.dumps(whole.state_dict())))
    for place, state in enumerate(states):
        with make(folder, **options, threads=1) as dataset:
            batches = dataset.batches(4, last_batch=last_batch)
            batches.load_state_dict(state)
            assert dataset.epoch == 3
            if last_batch != "fill":
                assert [gist(batch) for batch in batches] == wanted[place + 1 :]


def test_every_step_of_single_samples_can_be_resumed(folder):
    with make(folder) as dataset:
        singles = dataset.samples()
        states, wanted = [], []
        for sample in singles:
            states.append(singles.state_dict())
            wanted.append((singles.index, sample["image"].data.tobytes()))
    with make(folder) as dataset:
        for place in range(0, 25, 3):
            singles = dataset.samples()
            singles.load_state_dict(states[place])
            assert [s["image"].data.tobytes() for s in singles] == [w for _, w in wanted[place + 1 :]]


def test_a_state_of_another_dataset_is_refused(folder):
    with make(folder) as one, make(folder, sampler="balanced") as other:
        state = one.batches(2).state_dict()
        with pytest.raises(StateError, match="sampler differs"):
            other.batches(2).load_state_dict(state)


def test_balanced_patches_hold_foreground_as_often_as_told(folder):
    with make(folder, sampler="balanced", foreground=1.0, patches_per_volume=40, patch_size=3) as dataset:
        centers = [batch["label"].data[:, 1, 1, 1, 0] for batch in dataset.batches(40)]
        values = np.concatenate(centers)
        assert (values > 0).all()
        assert 0.4 < (values == 2).mean() < 0.6  # each class as often, however few voxels it has
    with make(folder, sampler="balanced", foreground=0.0, patches_per_volume=40, patch_size=3) as dataset:
        assert (
            np.concatenate([b["label"].data[:, 1, 1, 1, 0] for b in dataset.batches(40)]) > 0
        ).mean() < 0.2


def test_classes_are_chosen_by_their_weights(folder):
    with make(
        folder, sampler="classes", class_weights={1: 3, 2: 1}, patches_per_volume=80, patch_size=3
    ) as dataset:
        values = np.concatenate([batch["label"].data[:, 1, 1, 1, 0] for batch in dataset.batches(80)])
        assert set(values.tolist()) == {1, 2}
        assert 0.68 < (values == 1).mean() < 0.82


def test_a_class_that_is_not_there_is_reported_and_patches_are_cut_anywhere(folder):
    with make(folder, sampler="classes", class_weights={9: 1}) as dataset:
        assert len(everything(dataset)) == 9
        report = dataset.report()
    assert report.counts["cut anywhere"] == 25
    assert "no voxel has one of the classes" in report.losses[0].reason


def test_weights_draw_voxels_as_often_as_they_say(folder):
    files = [{"image": folder / "images/case0.nii.gz", "map": folder / "labels/case0.nii.gz"}]
    with Volume(
        files=files, patch_size=1, patches_per_volume=400, sampler="weighted", weights="map", label_names=()
    ) as dataset:
        values = np.concatenate([batch["map"].data.ravel() for batch in dataset.batches(100)])
    assert set(values.tolist()) == {1, 2}
    assert abs((values == 2).mean() - 2 / 32) < 0.04  # 30 voxels of weight 1, one of weight 2


@pytest.mark.parametrize(
    ("options", "what"),
    [
        ({"sampler": "weighted", "weights": "map", "label_names": ()}, "weights"),
        ({"sampler": "classes", "label_names": ("map",)}, "labels"),
    ],
)
@pytest.mark.parametrize("shape", [(2, 12, 20, 24, 1), (12, 20, 24, 2)])
def test_weights_and_labels_with_several_values_for_a_voxel_are_refused(
    folder, tmp_path, options, what, shape
):
    affine = volume_of(SHAPES[0], 0).affine
    save(
        seqpipe.Sequence(np.ones(shape, np.uint8), "FDHWC"[-len(shape) :], affine=affine),
        tmp_path / "map.nii",
    )
    files = [{"image": folder / "images/case0.nii.gz", "map": tmp_path / "map.nii"}]
    with (
        Volume(files=files, patch_size=4, **options) as dataset,
        pytest.raises(SourceError, match=f"{what} .* are not a single volume; allowed: DHWC, one channel"),
    ):
        next(dataset.batches(1))


def test_whole_volumes_and_stacks_of_slices(folder):
    with Volume(file_root=folder) as dataset:
        (batch,) = dataset.batches(5)
        assert [part.shape for part in batch["image"]] == [(*shape, 1) for shape in SHAPES]
        with pytest.raises(ParameterError, match="different shapes"):
            _ = batch["image"].data
    with make(folder, patch_size=(5, 16, 16)) as dataset:
        assert next(dataset.batches(2))["image"].shape == (2, 5, 16, 16, 1)


def test_a_patch_larger_than_the_volume_is_refused_or_filled_up_as_asked(folder):
    with pytest.raises(
        ParameterError, match=r"patch_size=\(20, 8, 8\) is larger than the volume of 12×20×24 voxels"
    ):
        make(folder, patch_size=(20, 8, 8))
    with make(folder, patch_size=(20, 8, 8), pad_mode="constant", fill_value=-5, shuffle=False) as dataset:
        sample = dataset.sample(0)
        assert sample["image"].shape == (20, 8, 8, 1)
        assert (sample["image"].data[:4] == -5).all()
        assert (sample["image"].data[4:16] >= 0).all()
        assert (sample["label"].data[:4] == 0).all()
        np.testing.assert_allclose(sample["image"].affine[2, 3], -4 * 3)
    with pytest.raises(SourceError, match="none of 5 volumes can be opened"):
        make(folder, patch_size=(20, 8, 8), on_error="skip")


@pytest.fixture
def broken(folder, tmp_path):
    images = [folder / f"images/case{n}.nii.gz" for n in range(4)]
    whole = images[1].read_bytes()
    cut = tmp_path / "cut.nii.gz"
    cut.write_bytes(whole[: len(whole) * 2 // 3])
    images[1] = cut
    return images, [folder / f"labels/case{n}.nii.gz" for n in range(4)]


def test_a_truncated_volume_is_raised_left_out_or_replaced_and_reported(broken):
    images, labels = broken
    options = {"patch_size": 6, "patches_per_volume": 3, "shuffle": True}
    with Volume(files=images, labels=labels, on_error="skip", **options) as dataset:
        found = [index for batch in dataset.batches(4) for index in batch["image"].indices.tolist()]
        assert sorted(found) == [0, 1, 2, 6, 7, 8, 9, 10, 11]
        (loss,) = dataset.report().losses
        assert (loss.fate, loss.times, loss.source) == ("sample left out", 3, str(images[1]))
        assert "the file ends after" in loss.reason
    with Volume(files=images, labels=labels, on_error="substitute", **options) as dataset:
        found = [index for batch in dataset.batches(4) for index in batch["image"].indices.tolist()]
        assert len(found) == 12
        assert not set(found) & {3, 4, 5}
    with Volume(files=images, labels=labels, **options) as dataset:
        errors, got = 0, 0
        batches = dataset.batches(1)
        while True:
            try:
                got += len(next(batches)["image"])
            except StopIteration:
                break
            except SourceError as error:
                errors += str(images[1]) in str(error)
        assert (errors, got) == (3, 9)


def test_a_volume_that_cannot_be_opened_is_left_out(broken, tmp_path):
    images, labels = broken
    (tmp_path / "text.nii").write_text("not a volume")
    images[1] = tmp_path / "text.nii"
    with pytest.raises(SourceError, match="this is not a volume"):
        Volume(files=images, labels=labels, patch_size=6)
    with Volume(files=images, labels=labels, patch_size=6, on_error="skip") as dataset:
        assert dataset.total == 3
        assert "3 of 4 volumes" in repr(dataset.report())
        assert dataset.report().losses[0].fate == "volume left out"


def test_image_and_label_on_different_grids_are_shown_or_aligned(folder, tmp_path):
    image = folder / "images/case0.nii.gz"
    moved = volume_of((12, 20, 24), 0, labels=True)
    affine = moved.affine.copy()
    affine[0, 3] += 1.0  # one column to the right
    save(seqpipe.Sequence(moved.data, "DHWC", affine=affine), tmp_path / "label.nii.gz")
    with pytest.raises(SourceError, match=r"different grids: 12×20×24.*\(0\.00, .*12×20×24.*\(1\.00, "):
        Volume(files=[image], labels=[tmp_path / "label.nii.gz"], patch_size=6)
    with Volume(files=[image], labels=[tmp_path / "label.nii.gz"], align="first") as dataset:
        label = dataset.sample(0)["label"].data[..., 0]
        assert np.array_equal(label[:, :, 1:], moved.data[:, :, :-1, 0])


def test_orientation_and_spacing_are_applied_first(folder):
    with Volume(file_root=folder, orientation="LPS", spacing_mm=(3, 4, 2), dtype="float32") as dataset:
        sample = dataset.sample(0)
        assert sample["image"].orientation == sample["label"].orientation == "LPS"
        assert sample["image"].spacing_mm == pytest.approx((3, 4, 2), abs=1e-5)
        assert (sample["image"].dtype, sample["label"].dtype) == (np.float32, np.uint8), "labels keep theirs"
        assert set(np.unique(sample["label"].data)) <= {0, 1, 2}


def test_folds_split_subjects_and_nobody_twice(folder):
    whole = {case.key for case in Volume(file_root=folder).cases}
    held_out = []
    for number in range(3):
        try:
            with Volume(file_root=folder, fold=(number, 3), validation=True) as held:
                keys = {case.key for case in held.cases}
        except ParameterError:
            keys = set()
        held_out += keys
        with Volume(file_root=folder, fold=(number, 3)) as training:
            assert {case.key for case in training.cases} == whole - keys
    assert sorted(held_out) == sorted(whole)


def test_images_of_one_label_are_parts_as_in_folders_of_nnunet(folder, tmp_path):
    for name in ("imagesTr", "labelsTr"):
        (tmp_path / name).mkdir()
    for number in range(2):
        shutil.copy(folder / f"labels/case{number}.nii.gz", tmp_path / f"labelsTr/ct_{number}.nii.gz")
        for channel in range(2):
            image = tmp_path / f"imagesTr/ct_{number}_{channel:04d}.nii.gz"
            shutil.copy(folder / f"images/case{number}.nii.gz", image)
    with make(tmp_path, sampler="balanced") as dataset:
        assert [case.subject for case in dataset.cases] == ["ct_0", "ct_1"]
        batch = next(dataset.batches(4))
    assert list(batch) == ["image_0000", "image_0001", "label"]
    assert np.array_equal(batch["image_0000"].data, batch["image_0001"].data)
    for number in range(2):
        (tmp_path / f"imagesTr/ct_{number}_0001.nii.gz").unlink()
    assert list(make(tmp_path).cases[0].parts) == ["image", "label"]
    (tmp_path / "labelsTr/ct_1.nii.gz").unlink()
    with pytest.raises(SourceNotFoundError, match="there is no label for the image 'ct_1_0000'"):
        make(tmp_path)


@pytest.mark.parametrize("fold", [(0, 3, 1), (3, 3), (-1, 3), (0.5, 3), [0, 3], 3])
def test_folds_that_are_none(folder, fold):
    with pytest.raises(
        ParameterError, match=r"fold=.* is not valid; allowed: .number, count. with 0 ≤ number"
    ):
        Volume(file_root=folder, fold=fold)
    with pytest.raises(ParameterError, match="validation needs a fold"):
        Volume(file_root=folder, validation=True)


@pytest.mark.parametrize("weights", [{}, {-1: 0.0}, {0: -0.5}, {1: 0.0}, {1: float("nan")}])
def test_class_weights_that_are_none(folder, weights):
    with pytest.raises(
        ParameterError, match=r"class_weights=.* is not valid; allowed: classes → weights of at least 0"
    ):
        make(folder, sampler="classes", class_weights=weights)


def test_a_map_of_no_weight_is_reported_and_patches_are_cut_anywhere(folder, tmp_path):
    image = seqpipe.open(folder / "images/case0.nii.gz").sequence()
    save(image.with_pixels(np.zeros(image.shape, np.float32), "DHWC"), tmp_path / "w.nii.gz")
    files = [{"image": str(folder / "images/case0.nii.gz"), "map": str(tmp_path / "w.nii.gz")}]
    with Volume(files=files, patch_size=6, sampler="weighted", weights="map") as dataset:
        assert dataset.sample(0)["image"].shape[:3] == (6, 6, 6)
        assert "all weights are 0: patches are cut anywhere" in str(dataset.report())


@pytest.mark.parametrize("options", [{}, {"orientation": "LPS", "spacing_mm": (2.0, 2.0, 2.5)}])
def test_the_modalities_of_a_4d_file_become_channels_and_are_augmented_with_labels(folder, tmp_path, options):
    one, label = volume_of(SHAPES[0], 0), volume_of(SHAPES[0], 0, labels=True)
    save(seqpipe.Sequence(np.stack([one.data, -one.data]), "FDHWC", affine=one.affine), tmp_path / "i.nii")
    save(label, tmp_path / "l.nii")
    files = [{"image": tmp_path / "i.nii", "label": tmp_path / "l.nii"}]
    given = {
        "files": files,
        "patch_size": (4, 5, 6),
        "patches_per_volume": 3,
        "sampler": "balanced",
        **options,
    }
    with Volume(**given) as series, Volume(**given, series_as_channels=True, cache_dir=tmp_path) as dataset:
        for number in range(2 * dataset.total):
            wanted, found = (one.sample(number % 3, parts=True) for one in (series, dataset))
            assert (wanted["image"].layout, found["image"].layout) == ("FDHWC", "DHWC")
            for channel in range(2):
                assert np.array_equal(
                    found["image"].data[..., channel], wanted["image"].data[channel, ..., 0]
                )
            assert np.array_equal(found["label"].data.data, wanted["label"].data.data)
            assert np.array_equal(found["image"].affine, wanted["image"].affine)
        moved = ops.Chain(ops.Flip(), ops.Flip3d(depth=True))(found)
    assert np.array_equal(moved["image"].data, found["image"].data[::-1, :, ::-1])
    assert np.array_equal(moved["label"].data.data, found["label"].data.data[::-1, :, ::-1])


def test_a_manifest_names_parts_and_subjects(folder, tmp_path):
    path = folder / "cases.csv"
    path.write_text("image,label,subject\nimages/case0.nii.gz,labels/case0.nii.gz,Ann\n", encoding="utf-8")
    with Volume(manifest=path, patch_size=6) as dataset:
        assert dataset.cases[0].subject == "Ann"
        assert set(dataset.sample(0)) == {"image", "label"}
    path.write_text("image,label\nimages/case0.nii.gz\n", encoding="utf-8")
    with pytest.raises(ManifestError, match="line 2"):
        Volume(manifest=path)
    path.unlink()


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"sampler": "balanced", "label_names": ()}, "needs labels"),
        ({"patch_size": None}, "patches_per_volume needs patch_size"),
        ({"sampler": "weighted"}, "do not go together"),
        ({"class_weights": {1: 1}}, "class_weights are for sampler='classes'"),
        ({"sampler": "classes", "class_weights": {1: 0}}, "one of them above 0"),
        ({"patch_size": 0}, "patch_size=0 is not valid"),
        ({"fold": (3, 3)}, "fold=(3, 3) is not valid"),
        ({"validation": True}, "validation needs a fold"),
        ({"files": []}, "exclude one another"),
        ({"subjects": ["a"]}, "subjects and file_root exclude one another"),
        ({"labels": ["a.nii"]}, "labels and file_root exclude one another"),
        ({"file_root": None, "files": [{}]}, "files[0]={} names no files"),
        ({"orientation": "XYZ"}, "orientation='XYZ' is not valid"),
        ({"shard": (2, 2)}, "shard=(2, 2) is not valid"),
        ({"open_volumes": 0}, "open_volumes=0 is not valid"),
    ],
)
def test_arguments_that_do_not_fit_are_refused(folder, options, said):
    with pytest.raises(ParameterError) as caught:
        make(folder, **options)
    assert said in str(caught.value)


def test_label_names_are_a_list_of_parts(folder):
    """A name by itself was taken as its letters, and one misspelled as none: labels were then resampled as images."""
    with pytest.raises(ParameterError, match=r"^label_names='label' is not valid; allowed: a list of names"):
        make(folder, label_names="label")
    with pytest.raises(
        ParameterError, match=r"label_names has 'lable', which is not a part; allowed: image, label"
    ):
        make(folder, label_names=["lable"])
    with make(folder, label_names=["label"]) as dataset:
        assert sorted(dataset.samples(parts=True).__next__()) == ["image", "label"]


def test_lines_of_a_manifest_are_counted_as_editors_do(folder, tmp_path):
    """Quoted line breaks and blank lines shifted the number."""
    path = tmp_path / "m.csv"
    path.write_text('image,note\n\n"a\nb.nii",x\nc.nii,\n')
    with pytest.raises(ManifestError, match=r"m\.csv: line 5: \['c\.nii', ''\] does not fill 2 columns"):
        Volume(manifest=path)


def test_a_fork_does_not_wait_for_locks_that_another_thread_held(folder, monkeypatch):
    """The child waited for ever if the threads had not been started yet."""
    locks, lock_of = [], threading.Lock
    with monkeypatch.context() as patch:
        patch.setattr(threading, "Lock", lambda: (locks.append(lock_of()), locks[-1])[1])
        dataset = make(folder)
    with dataset:
        assert len(locks) >= 2, "of the threads, and of the volumes that are kept"
        with contextlib.ExitStack() as held:
            for lock in locks:
                held.enter_context(lock)
            child = os.fork()
            if not child:
                signal.alarm(20)
                os._exit(len(next(iter(dataset.batches(2)))) != 2)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def test_labels_that_are_not_whole_numbers_are_refused(folder, tmp_path):
    mask = volume_of(SHAPES[0], 0, labels=True)
    save(seqpipe.Sequence(mask.data + np.float32(0.5), "DHWC", affine=mask.affine), tmp_path / "half.nii.gz")
    dataset = Volume(files=[folder / "images/case0.nii.gz"], labels=[tmp_path / "half.nii.gz"])
    with dataset, pytest.raises(SourceError, match=r"the label 0\.5 is not a whole number"):
        dataset.sample(0)


@pytest.mark.parametrize(
    ("low", "high", "dtype"),
    [
        (0, 255, "uint8"),
        (0, 256, "int16"),
        (-1, 255, "int16"),
        (0, 40_000, "uint16"),
        (-1, 40_000, "int32"),
        (0, 70_000, "int32"),
        (0, 2**31, "int64"),
        (-(2**31) - 1, 0, "int64"),
    ],
)
@pytest.mark.parametrize("stored", [np.float64, np.int64])
def test_labels_take_few_bytes_and_keep_their_values(tmp_path, low, high, dtype, stored):
    values = np.full((4, 5, 6), low, stored)
    values[1, 2, 3] = high
    for name in ("image", "label"):
        np.save(tmp_path / f"{name}.npy", values)
    with Volume(files=[tmp_path / "image.npy"], labels=[tmp_path / "label.npy"]) as dataset:
        found = dataset.sample(0)["label"].data
    assert found.dtype == dtype
    assert np.array_equal(found[..., 0], values)


def test_a_dataset_goes_on_in_another_process(folder):
    dataset = make(folder)
    wanted = everything(dataset)
    again = pickle.loads(pickle.dumps(dataset.batches(3)))
    assert [gist(batch) for batch in again] == wanted
    dataset.close()
    assert everything(dataset) == wanted
    dataset.close()


def test_labels_come_as_parts_so_that_operators_move_them_by_vote(folder):
    with make(folder, sampler="balanced") as dataset:
        sample = next(dataset.samples(parts=True))
        assert isinstance(sample["label"], Labels)
        plain = dataset.sample(sample["image"].index)
        assert np.array_equal(sample["label"].array, plain["label"].data)
        assert isinstance(dataset.sample(3, parts=True)["label"], Labels)
        moved = seqpipe.ops.RandomAffine3d(rotate=(-20, 20), seed=1)(dataset.sample(3, parts=True))
        assert set(np.unique(moved["label"].array)) <= {0, 1, 2}


@pytest.mark.parametrize("compression", ["none", "lz4"])
def test_read_volumes_are_kept_on_disk_and_found_until_their_file_changes(folder, tmp_path, compression):
    if compression == "lz4":
        pytest.importorskip("blosc2", reason="blosc2 is not installed: it compresses volumes on disk")
    options = {
        "cache_compression": compression,
        "orientation": "LPS",
        "spacing_mm": 2.0,
        "dtype": "float32",
        "sampler": "balanced",
        "patch_size": 4,
    }
    with make(folder, **options) as dataset:
        wanted = everything(dataset)
    kept = tmp_path / "kept"
    with make(folder, **options, cache_dir=kept) as dataset:
        assert everything(dataset) == wanted
    files = sorted(kept.iterdir())
    assert len(files) == 10
    times = {path: path.stat().st_mtime_ns for path in files}
    files[0].write_bytes(b"damaged")
    files[1].write_bytes(files[1].read_bytes()[:-5])
    with make(folder, **options, cache_dir=kept) as dataset:
        assert everything(dataset) == wanted
    assert sorted(kept.iterdir()) == files
    assert all(path.stat().st_mtime_ns > times[path] for path in files)  # used
    image = tmp_path / "a.nii.gz"
    save(volume_of(SHAPES[0], 0), image)
    with Volume(files=[image], cache_dir=kept) as dataset:
        first = dataset.sample(0)["image"].data
    save(volume_of(SHAPES[0], 3), image)
    with Volume(files=[image], cache_dir=kept, cache_dir_gib=0) as dataset:
        assert not np.array_equal(dataset.sample(0)["image"].data, first)
    assert len(list(kept.iterdir())) == 1  # the budget leaves the newest


def test_blocks_give_every_patch_once_and_keep_volumes_together():
    for volumes, per, block, world in ((7, 3, 2, 1), (5, 4, 3, 2), (1, 1, 4, 1), (9, 2, 4, 3)):
        for epoch in range(2):
            orders = [
                BlockOrder(
                    volumes=EpochOrder(size=volumes, seed=3, shuffle=True, shard=(rank, world)),
                    per_volume=per,
                    block=block,
                )
                for rank in range(world)
            ]
            found = np.concatenate([order.samples(epoch) for order in orders])
            assert sorted(found.tolist()) == list(range(volumes * per))
            for order in orders:
                own = order.samples(epoch) // per
                for first in range(0, len(own), block * per):
                    assert len(set(own[first : first + block * per].tolist())) <= block
                for some in (np.arange(len(own))[::2], np.arange(0)):
                    assert np.array_equal(order.samples(epoch, some), order.samples(epoch)[some])
    with pytest.raises(ParameterError, match="position=9 is not valid"):
        BlockOrder(volumes=EpochOrder(size=3), per_volume=3).samples(0, np.array([9]))
