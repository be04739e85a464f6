"""Volumes as a data set: patches of images and labels, the same whatever reads them; each volume read once an epoch.

What holds for every source (states, ranks, copies, forks) is in ``tests/dataset``.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import threading

import numpy as np
import pytest

import seqpipe
from seqpipe import Cache, Grid, Patch, Prepare, ops
from seqpipe.errors import ManifestError, ParameterError, SourceError, SourceNotFoundError, StateError
from seqpipe.volume import save

SHAPES = [(12, 20, 24), (14, 18, 22), (10, 26, 20), (16, 16, 16), (11, 21, 19)]
SIZE = (6, 8, 10)


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


def make(source, *, size=SIZE, per_volume=5, shuffle=True, seed=7, **options):
    """A data set of patches; options are those of a patch and of the data set."""
    of_patch = {n: options.pop(n) for n in Patch.__dataclass_fields__ if n in options}
    return seqpipe.volumes(
        source, Patch(size, per_volume=per_volume, **of_patch), shuffle=shuffle, seed=seed, **options
    )


def gist(batch):
    return {name: batch[name].data.tobytes() for name in ("image", "label")}


def everything(dataset, batch_size=3, epoch=0):
    return [gist(batch) for batch in dataset.batch(batch_size).epoch(epoch)]


def test_image_and_label_are_cut_at_the_same_place_and_know_where_they_are(folder):
    with make(folder, around="balanced").batch(4) as dataset:
        for batch in dataset:
            image, label = batch["image"], batch["label"]
            assert image.shape[1:] == label.shape[1:] == (*SIZE, 1)
            assert batch["volume"].tolist() == [index // 5 for index in batch["index"]]
            for number, patch, mask in zip(batch["volume"].tolist(), image, label, strict=True):
                code = int(patch.data.flat[0])
                start = (code >> 10) & 31, (code >> 5) & 31, code & 31
                assert code >> 15 == number
                whole = volume_of(SHAPES[number], number).data
                cut = tuple(slice(s, s + p) for s, p in zip(start, SIZE, strict=True))
                assert np.array_equal(patch.data, whole[cut])
                assert np.array_equal(mask.data, volume_of(SHAPES[number], number, labels=True).data[cut])
                np.testing.assert_allclose(
                    patch.affine[:3, 3], [start[2], start[1] * 2, start[0] * 3], atol=1e-5
                )
                assert np.array_equal(patch.affine, mask.affine)


def test_samples_do_not_depend_on_threads(folder):
    wanted = everything(make(folder, cache=Cache(threads=1)))
    for threads in (2, 8):
        with make(folder, cache=Cache(threads=threads)) as dataset:
            assert everything(dataset) == wanted


def test_workers_of_a_loader_share_the_cores(folder, monkeypatch):
    monkeypatch.setattr("seqpipe.readers.fetch.available_cores", lambda: 8)
    started = []
    monkeypatch.setattr(
        "seqpipe.readers.volumes.fetch.Workers", lambda threads, _name: started.append(threads)
    )
    source = make(folder).source
    source.share_cores(4)
    source.fetcher.engine.get()
    assert started == [2]


def test_every_volume_is_read_once_an_epoch_and_patches_of_several_are_mixed(folder):
    with make(folder, mix=2) as dataset:
        for epoch in range(3):
            order = [int(sample["volume"]) for sample in dataset.epoch(epoch)]
            assert sorted(order) == sorted([*range(5)] * 5)
            assert len(set(order[:10])) == 2
            assert order[:10] != sorted(order[:10])
            assert dataset.stats()["volumes"] <= 5 * (epoch + 1)  # some are still there from the epoch before
        dataset.close()
        read = dataset.stats()["volumes"]
        everything(dataset)
        assert dataset.stats()["volumes"] == read + 5
    with make(folder, mix=2, cache=Cache(gib=1)) as dataset:
        for epoch in range(3):
            everything(dataset, epoch=epoch)
        assert dataset.stats()["volumes"] == 5


def test_epochs_and_seeds_have_patches_and_orders_of_their_own(folder):
    with make(folder) as dataset:
        first = everything(dataset)
        assert everything(dataset) == first
        assert everything(dataset, epoch=1) != first
    assert everything(make(folder, seed=8)) != first


def test_a_state_of_another_dataset_is_refused(folder):
    state = next(iter(make(folder).batch(2))).state
    with pytest.raises(StateError, match="patches differs"):
        make(folder, around="balanced").batch(2).resume(state)


def _centers(dataset, size):
    return np.concatenate([batch["label"].data[:, 1, 1, 1, 0] for batch in dataset.batch(size)])


def test_balanced_patches_hold_foreground_as_often_as_told(folder):
    values = _centers(make(folder, around="balanced", foreground=1.0, per_volume=40, size=3), 40)
    assert (values > 0).all()
    assert 0.4 < (values == 2).mean() < 0.6  # each class as often, however few voxels it has
    values = _centers(make(folder, around="balanced", foreground=0.0, per_volume=40, size=3), 40)
    assert (values > 0).mean() < 0.2


def test_no_patch_is_centered_on_voxels_without_annotation(folder):
    """Label 0 is taken for those without annotation: 31 voxels of 1 and 2 are left."""
    values = _centers(make(folder, around="balanced", foreground=0.0, per_volume=40, size=3, ignore=0), 40)
    assert set(values.tolist()) <= {1, 2}
    assert (values == 2).mean() < 0.15, "as often as voxels have it"
    values = _centers(make(folder, around="balanced", foreground=1.0, per_volume=20, size=3, ignore=1), 20)
    assert set(values.tolist()) == {2}
    values = _centers(make(folder, around="classes", per_volume=20, size=3, ignore=2), 20)
    assert 2 not in values
    with pytest.raises(ParameterError, match="ignore is for around='balanced' and 'classes'"):
        Patch(3, ignore=1)


def test_patches_are_centered_on_regions_that_overlap(tmp_path):
    masks = np.zeros((8, 9, 10, 2), np.uint8)
    masks[1:7, 1:8, 1:9, 0] = masks[4, 5, 6, 1] = 1
    save(seqpipe.Sequence(masks, "DHWC", affine=np.eye(4)), tmp_path / "label.nii.gz")
    save(
        seqpipe.Sequence(masks[..., :1].astype(np.float32), "DHWC", affine=np.eye(4)),
        tmp_path / "image.nii.gz",
    )
    files = [{name: tmp_path / f"{name}.nii.gz" for name in ("image", "label")}]
    for around, weights in (("balanced", None), ("classes", {1: 1, 2: 1})):
        taken = make(
            files, size=1, per_volume=60, around=around, foreground=1.0, class_weights=weights
        ).batch(60)
        values = np.concatenate([batch["label"].data.reshape(-1, 2) for batch in taken])
        assert (values[:, 0] == 1).all()
        assert 0.3 < values[:, 1].mean() < 0.7, "each region as often, however small it is"


def test_classes_are_chosen_by_their_weights(folder):
    values = _centers(make(folder, around="classes", class_weights={1: 3, 2: 1}, per_volume=80, size=3), 80)
    assert set(values.tolist()) == {1, 2}
    assert 0.68 < (values == 1).mean() < 0.82


def test_a_class_that_is_not_there_is_reported_and_patches_are_cut_anywhere(folder):
    with make(folder, around="classes", class_weights={9: 1}) as dataset:
        assert len(everything(dataset)) == 9
        report = dataset.report()
    assert report.counts["cut anywhere"] == 25
    assert "no voxel has one of the classes" in report.losses[0].reason


def _of_map(folder, path, label_names=()):
    return seqpipe.cases([{"image": folder / "images/case0.nii.gz", "map": path}], label_names=label_names)


def test_weights_draw_voxels_as_often_as_they_say(folder):
    given = _of_map(folder, folder / "labels/case0.nii.gz")
    with make(given, size=1, per_volume=400, around="weighted", weights="map").batch(100) as dataset:
        values = np.concatenate([batch["map"].data.ravel() for batch in dataset])
    assert set(values.tolist()) == {1, 2}
    assert abs((values == 2).mean() - 2 / 32) < 0.04  # 30 voxels of weight 1, one of weight 2


_WEIGHTS, _CLASSES = {"around": "weighted", "weights": "map"}, {"around": "classes"}


@pytest.mark.parametrize(
    ("options", "label_names", "what", "shape"),
    [
        (_WEIGHTS, (), "weights", (2, 12, 20, 24, 1)),
        (_WEIGHTS, (), "weights", (12, 20, 24, 2)),
        (_CLASSES, ("map",), "labels", (2, 12, 20, 24, 1)),
    ],
)
def test_weights_of_several_values_for_a_voxel_and_series_of_labels_are_refused(
    folder, tmp_path, options, label_names, what, shape
):
    affine = volume_of(SHAPES[0], 0).affine
    save(
        seqpipe.Sequence(np.ones(shape, np.uint8), "FDHWC"[-len(shape) :], affine=affine),
        tmp_path / "map.nii",
    )
    given = _of_map(folder, tmp_path / "map.nii", label_names)
    with (
        make(given, size=4, **options) as dataset,
        pytest.raises(SourceError, match=f"{what} .* are not a single volume; allowed: DHWC, one channel"),
    ):
        dataset.sample(0)


def test_a_case_that_does_not_fit_into_memory_is_named(folder, monkeypatch):
    monkeypatch.setattr("seqpipe.readers.volumes.case.main_memory_bytes", lambda: 1000)
    for call in (seqpipe.fingerprint, lambda source: seqpipe.volumes(source).sample(0)):
        with pytest.raises(
            SourceError, match=r"the case takes .* GiB; allowed: up to the main memory of 9\.31e-07"
        ):
            call(folder)


def test_whole_volumes_and_stacks_of_slices(folder):
    with seqpipe.volumes(folder).batch(5) as dataset:
        (batch,) = dataset
        assert [part.shape for part in batch["image"]] == [(*shape, 1) for shape in SHAPES]
        with pytest.raises(ParameterError, match="different shapes"):
            _ = batch["image"].data
    batch = next(iter(make(folder, size=(5, 16, 16)).batch(2)))
    assert batch["image"].shape == (2, 5, 16, 16, 1)


def test_a_patch_larger_than_the_volume_is_refused_or_filled_up_as_asked(folder):
    with pytest.raises(
        ParameterError, match=r"size=\(20, 8, 8\) is larger than the volume of 12×20×24 voxels"
    ):
        make(folder, size=(20, 8, 8))
    with make(folder, size=(20, 8, 8), pad="constant", fill=-5) as dataset:
        sample = dataset.sample(0)
        assert sample["image"].shape == (20, 8, 8, 1)
        assert (sample["image"].data[:4] == -5).all()
        assert (sample["image"].data[4:16] >= 0).all()
        assert (sample["label"].data[:4] == 0).all()
        np.testing.assert_allclose(sample["image"].affine[2, 3], -4 * 3)
    with pytest.raises(SourceError, match="none of 5 volumes can be opened"):
        make(folder, size=(20, 8, 8), on_error="skip")


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
    given = seqpipe.cases(images, labels=labels)
    with make(given, size=6, per_volume=3, on_error="skip") as dataset:
        found = [index for batch in dataset.batch(4) for index in batch["index"].tolist()]
        assert sorted(found) == [0, 1, 2, 6, 7, 8, 9, 10, 11]
        (loss,) = dataset.report().losses
        assert (loss.fate, loss.times, loss.source) == ("sample left out", 3, str(images[1]))
        assert "the file ends after" in loss.reason
    with make(given, size=6, per_volume=3, on_error="substitute") as dataset:
        found = [index for batch in dataset.batch(4) for index in batch["index"].tolist()]
        assert len(found) == 12
        assert not set(found) & {3, 4, 5}
    with make(given, size=6, per_volume=3).batch(1) as dataset:
        errors, got, batches = 0, 0, dataset.epoch(0)
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
    given = seqpipe.cases(images, labels=labels)
    with pytest.raises(SourceError, match="this is not a volume"):
        seqpipe.volumes(given, 6)
    with seqpipe.volumes(given, 6, on_error="skip") as dataset:
        assert dataset.size == 3
        assert "3 of 4 volumes" in repr(dataset.report())
        assert dataset.report().losses[0].fate == "volume left out"


def test_image_and_label_on_different_grids_are_shown_or_aligned(folder, tmp_path):
    moved = volume_of((12, 20, 24), 0, labels=True)
    affine = moved.affine.copy()
    affine[0, 3] += 1.0  # one column to the right
    save(seqpipe.Sequence(moved.data, "DHWC", affine=affine), tmp_path / "label.nii.gz")
    files = [{"image": folder / "images/case0.nii.gz", "label": tmp_path / "label.nii.gz"}]
    with pytest.raises(SourceError, match=r"different grids: 12×20×24.*\(0\.00, .*12×20×24.*\(1\.00, "):
        seqpipe.volumes(files, 6)
    with seqpipe.volumes(files, prepare=Prepare(align="first")) as dataset:
        label = dataset.sample(0)["label"].data[..., 0]
        assert np.array_equal(label[:, :, 1:], moved.data[:, :, :-1, 0])


def test_orientation_and_spacing_are_applied_first(folder):
    prepare = Prepare(orientation="LPS", spacing_mm=(3, 4, 2), dtype="float32")
    with seqpipe.volumes(folder, prepare=prepare) as dataset:
        sample = dataset.sample(0)
        assert sample["image"].orientation == sample["label"].orientation == "LPS"
        assert sample["image"].spacing_mm == pytest.approx((3, 4, 2), abs=1e-5)
        assert (sample["image"].dtype, sample["label"].dtype) == (np.float32, np.uint8), "labels keep theirs"
        assert set(np.unique(sample["label"].data)) <= {0, 1, 2}


def test_folds_split_subjects_and_nobody_twice(folder):
    listed = seqpipe.cases(folder)
    whole, held_out = {case.key for case in listed}, []
    for number in range(3):
        try:
            keys = {case.key for case in listed.fold(number, 3, validation=True)}
        except ParameterError:
            keys = set()
        held_out += keys
        assert {case.key for case in listed.fold(number, 3)} == whole - keys
    assert sorted(held_out) == sorted(whole)


def test_images_of_one_label_are_parts_as_in_folders_of_nnunet(folder, tmp_path):
    for name in ("imagesTr", "labelsTr"):
        (tmp_path / name).mkdir()
    for number in range(2):
        shutil.copy(folder / f"labels/case{number}.nii.gz", tmp_path / f"labelsTr/ct_{number}.nii.gz")
        for channel in range(2):
            image = tmp_path / f"imagesTr/ct_{number}_{channel:04d}.nii.gz"
            shutil.copy(folder / f"images/case{number}.nii.gz", image)
    assert [case.subject for case in seqpipe.cases(tmp_path)] == ["ct_0", "ct_1"]
    batch = next(iter(make(tmp_path, around="balanced").batch(4)))
    assert list(batch) == ["image_0000", "image_0001", "label", "volume", "index"]
    assert np.array_equal(batch["image_0000"].data, batch["image_0001"].data)
    for number in range(2):
        (tmp_path / f"imagesTr/ct_{number}_0001.nii.gz").unlink()
    assert list(seqpipe.cases(tmp_path).entries[0].parts) == ["image", "label"]
    (tmp_path / "labelsTr/ct_1.nii.gz").unlink()
    with pytest.raises(SourceNotFoundError, match="there is no label for the image 'ct_1_0000'"):
        seqpipe.cases(tmp_path)


@pytest.mark.parametrize("fold", [(3, 3), (-1, 3), (0.5, 3)])
def test_folds_that_are_none(folder, fold):
    with pytest.raises(ParameterError, match=r"fold\(.* is not valid; allowed: whole numbers, 0 ≤ number"):
        seqpipe.cases(folder).fold(*fold)


@pytest.mark.parametrize("weights", [{}, {-1: 0.0}, {0: -0.5}, {1: 0.0}, {1: float("nan")}])
def test_class_weights_that_are_none(weights):
    with pytest.raises(
        ParameterError, match=r"class_weights=.* is not valid; allowed: classes → weights of at least 0"
    ):
        Patch(6, around="classes", class_weights=weights)


def test_a_map_of_no_weight_is_reported_and_patches_are_cut_anywhere(folder, tmp_path):
    image = seqpipe.open(folder / "images/case0.nii.gz").sequence()
    save(image.with_pixels(np.zeros(image.shape, np.float32), "DHWC"), tmp_path / "w.nii.gz")
    given = _of_map(folder, tmp_path / "w.nii.gz")
    with make(given, size=6, around="weighted", weights="map") as dataset:
        assert dataset.sample(0)["image"].shape[:3] == (6, 6, 6)
        assert "all weights are 0: patches are cut anywhere" in str(dataset.report())


@pytest.mark.parametrize("options", [{}, {"orientation": "LPS", "spacing_mm": (2.0, 2.0, 2.5)}])
def test_the_modalities_of_a_4d_file_become_channels_and_are_augmented_with_labels(folder, tmp_path, options):
    one, label = volume_of(SHAPES[0], 0), volume_of(SHAPES[0], 0, labels=True)
    save(seqpipe.Sequence(np.stack([one.data, -one.data]), "FDHWC", affine=one.affine), tmp_path / "i.nii")
    save(label, tmp_path / "l.nii")
    files = [{"image": tmp_path / "i.nii", "label": tmp_path / "l.nii"}]
    given = {"source": files, "size": (4, 5, 6), "per_volume": 3, "around": "balanced"}
    as_channels = Prepare(**options, series_as_channels=True)
    with (
        make(**given, prepare=Prepare(**options)) as series,
        make(**given, prepare=as_channels, cache=Cache(dir=tmp_path)) as dataset,
    ):
        for number in range(2 * dataset.size):
            wanted, found = (one.sample(number % 3) for one in (series, dataset))
            assert (wanted["image"].layout, found["image"].layout) == ("FDHWC", "DHWC")
            for channel in range(2):
                assert np.array_equal(
                    found["image"].data[..., channel], wanted["image"].data[channel, ..., 0]
                )
            assert np.array_equal(found["label"].data, wanted["label"].data)
            assert np.array_equal(found["image"].affine, wanted["image"].affine)
        moved = dataset.map(ops.Flip(), ops.Flip3d(depth=True, width=False)).sample(2)
    assert np.array_equal(moved["image"].data, found["image"].data[::-1, :, ::-1])
    assert np.array_equal(moved["label"].data, found["label"].data[::-1, :, ::-1])


def test_a_manifest_names_parts_and_subjects(folder):
    path = folder / "cases.csv"
    path.write_text("image,label,subject\nimages/case0.nii.gz,labels/case0.nii.gz,Ann\n", encoding="utf-8")
    assert seqpipe.cases(path).entries[0].subject == "Ann"
    assert set(seqpipe.volumes(path, 6).sample(0)) == {"image", "label", "volume", "index"}
    path.write_text("image,label\nimages/case0.nii.gz\n", encoding="utf-8")
    with pytest.raises(ManifestError, match="line 2"):
        seqpipe.cases(path)
    path.unlink()


@pytest.mark.parametrize(
    ("made", "said"),
    [
        (lambda f: make(f / "images", around="balanced"), "volumes: around='balanced' needs labels"),
        (lambda f: make(f, around="weighted", weights="map"), "weights='map' is not a part"),
        (lambda f: make(f, around="weighted"), "do not go together"),
        (lambda f: make(f, class_weights={1: 1}), "class_weights are for around='classes'"),
        (lambda f: make(f, size=0), "size=0 is not valid"),
        (lambda f: make(f, size=(1, 2)), "size=(1, 2) is not valid"),
        (lambda f: make(f, mix=0), "mix=0 is not valid"),
        (lambda f: make(f, pad="mirror"), "pad='mirror' is not valid"),
        (lambda f: make(f, around="middle"), "around='middle' is not valid; allowed: 'uniform', 'balanced'"),
        (lambda f: make(f, prepare=Prepare(orientation="XYZ")), "orientation='XYZ' is not valid"),
        (lambda _f: Grid(4, overlap=(0.5, 0.5)), "overlap=(0.5, 0.5) is not valid"),
        (lambda _f: Grid(4, overlap=1), "overlap=1 is not valid"),
        (lambda f: seqpipe.volumes(f, Grid(40)), "size=(40, 40, 40) is larger than the volume of 12×20×24"),
        (
            lambda f: seqpipe.volumes(f, Grid(4), prepare=Prepare(crop_above=0)),
            "crop_above and Grid exclude one another",
        ),
        (lambda f: seqpipe.volumes(f, "all"), "allowed: Whole(), Patch(size, …), Grid(size, …), or a size"),
        (lambda f: seqpipe.volumes(f, on_error="stop"), "on_error='stop' is not valid"),
        (lambda _f: seqpipe.cases([{}]), "files[0]={} names no files"),
        (lambda f: seqpipe.cases(f, files=["a.nii"]), "source and files exclude one another"),
        (lambda f: seqpipe.cases(file_root=f, subjects=["a"]), "subjects and file_root exclude one another"),
        (lambda f: seqpipe.cases(f, labels=["a.nii"]), "labels and file_root exclude one another"),
        (lambda f: seqpipe.volumes(seqpipe.cases(f)[9:]), "there is no volume"),
    ],
)
def test_arguments_that_do_not_fit_are_refused(folder, made, said):
    with pytest.raises(ParameterError) as caught:
        made(folder)
    assert said in str(caught.value)


def test_label_names_are_a_list_of_parts(folder):
    """A name by itself was taken as its letters, and one misspelled as none: labels were then resampled as images."""
    with pytest.raises(ParameterError, match=r"^label_names='label' is not valid; allowed: a list of names"):
        seqpipe.cases(folder, label_names="label")
    with pytest.raises(
        ParameterError, match=r"label_names has 'lable', which is not a part; allowed: image, label"
    ):
        seqpipe.cases(folder, label_names=["lable"])
    types = seqpipe.volumes(seqpipe.cases(folder, label_names=["image"]), 4).types
    assert [types[name].kind for name in ("image", "label")] == ["labels", "images"]


def test_lines_of_a_manifest_are_counted_as_editors_do(tmp_path):
    """Quoted line breaks and blank lines shifted the number."""
    path = tmp_path / "m.csv"
    path.write_text('image,note\n\n"a\nb.nii",x\nc.nii,\n')
    with pytest.raises(ManifestError, match=r"m\.csv: line 5: \['c\.nii', ''\] does not fill 2 columns"):
        seqpipe.cases(path)


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
                os._exit(len(next(iter(dataset.batch(2)))["image"]) != 2)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def test_labels_that_are_not_whole_numbers_are_refused(folder, tmp_path):
    mask = volume_of(SHAPES[0], 0, labels=True)
    save(seqpipe.Sequence(mask.data + np.float32(0.5), "DHWC", affine=mask.affine), tmp_path / "half.nii.gz")
    files = [{"image": folder / "images/case0.nii.gz", "label": tmp_path / "half.nii.gz"}]
    with pytest.raises(SourceError, match=r"the label 0\.5 is not a whole number"):
        seqpipe.volumes(files).sample(0)


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
    dataset = seqpipe.volumes([{name: tmp_path / f"{name}.npy" for name in ("image", "label")}])
    found = dataset.sample(0)["label"].data
    assert found.dtype == dtype
    assert np.array_equal(found[..., 0], values)
    # a window that is read alone has the dtype of the whole
    crop = ops.Crop3d(size=(2, 2, 2), position=0.0)
    cut = dataset.map(crop).sample(0)["label"].data
    assert cut.dtype == dtype
    assert np.array_equal(cut, found[:2, :2, :2])


def test_labels_are_moved_by_vote(folder):
    with make(folder, around="balanced") as dataset:
        assert dataset.sample(3)["label"].kind == "labels"
        moved = dataset.map(ops.RandomAffine3d(rotate=(-20, 20), seed=1)).sample(3)
        assert set(np.unique(moved["label"].data)) <= {0, 1, 2}


@pytest.mark.parametrize("compression", ["none", "lz4"])
def test_read_volumes_are_kept_on_disk_and_found_until_their_file_changes(folder, tmp_path, compression):
    if compression == "lz4":
        pytest.importorskip("blosc2", reason="blosc2 is not installed: it compresses volumes on disk")
    prepare = Prepare(orientation="LPS", spacing_mm=2.0, dtype="float32")
    options = {"prepare": prepare, "around": "balanced", "size": 4}
    with make(folder, **options) as dataset:
        wanted = everything(dataset)
    kept = tmp_path / "kept"
    options["cache"] = Cache(dir=kept, compression=compression)
    with make(folder, **options) as dataset:
        assert everything(dataset) == wanted
    files = sorted(kept.iterdir())
    assert len(files) == 10
    times = {path: path.stat().st_mtime_ns for path in files}
    files[0].write_bytes(b"damaged")
    files[1].write_bytes(files[1].read_bytes()[:-5])
    with make(folder, **options) as dataset:
        assert everything(dataset) == wanted
    assert sorted(kept.iterdir()) == files
    assert all(path.stat().st_mtime_ns > times[path] for path in files)  # used
    image = tmp_path / "a.nii.gz"
    save(volume_of(SHAPES[0], 0), image)
    with seqpipe.volumes(image, cache=Cache(dir=kept)) as dataset:
        first = dataset.sample(0)["image"].data
    save(volume_of(SHAPES[0], 3), image)
    with seqpipe.volumes(image, cache=Cache(dir=kept, dir_gib=0)) as dataset:
        assert not np.array_equal(dataset.sample(0)["image"].data, first)
    assert len(list(kept.iterdir())) == 1  # the budget leaves the newest


CROPPED = {
    "crop": (ops.Crop3d(size=(4, 5, 6), position=(0.0, 1.0)),),
    "crops": (ops.Crop3d(size=(6, 8, 10)), ops.Crop3d(size=(3, 4, 5), position=(0.0, 1.0))),
    "and flips": (
        ops.Crop3d(size=(4, 5, 6), position=(0.0, 1.0)),
        ops.Flip3d(width=True, p=0.5),
        ops.GaussianNoise3d(sigma=5.0),
    ),
    "a crop of each": (
        ops.Crop3d(size=(4, 5, 6), position=(0.0, 1.0), seed=3),
        ops.Gamma3d(gamma=(0.7, 1.5), range="minmax"),
    ),
}


@pytest.mark.parametrize("chain", CROPPED.values(), ids=CROPPED)
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"prepare": Prepare(orientation="LPS", dtype="float32"), "cache": Cache(gib=1)},
        {"prepare": Prepare(crop_above=2000)},
        {"take": Patch((8, 9, 10), per_volume=2, around="balanced"), "shuffle": True},
    ],
)
def test_a_leading_crop_is_read_alone_and_changes_no_bit(folder, chain, options):
    fused = seqpipe.volumes(folder, **options).map(*chain)
    assert fused.explain().startswith("1. crop3d")
    assert "by the reader" in fused.explain().splitlines()[0]
    after = seqpipe.volumes(folder, **options).map(*chain).fuse("none")
    assert "crop3d is not part of reading: fuse='none'" in after.explain()
    for one, two in zip(fused.batch(2).epoch(1), after.batch(2).epoch(1), strict=True):
        for name in ("image", "label"):
            assert one[name].data.dtype == two[name].data.dtype
            assert np.array_equal(one[name].data, two[name].data)
            for cut, whole in zip(one[name], two[name], strict=True):
                np.testing.assert_allclose(cut.affine, whole.affine, rtol=1e-14)
    assert np.array_equal(fused.sample(3, epoch=2)["image"].data, after.sample(3, epoch=2)["image"].data)
    assert fused.stats()["voxels"] <= after.stats()["voxels"]


def test_a_crop_of_whole_volumes_reads_its_voxels_and_no_others(folder):
    dataset = seqpipe.volumes(folder).map(ops.Crop3d(size=(4, 5, 6), position=(0.0, 1.0))).batch(2)
    assert "reads its box of each volume alone" in dataset.explain()
    everything_of = list(dataset)
    assert sum(len(batch["image"]) for batch in everything_of) == 5
    assert dataset.stats() == {"volumes": 5, "voxels": 5 * 2 * 4 * 5 * 6}
    assert dataset.source.plan(0, np.arange(2), dataset.absorbed.heads).nbytes == 2 * 2 * 4 * 120


@pytest.mark.parametrize(
    ("options", "chain", "said"),
    [
        ({}, [ops.Crop3d(size=(4, 5, 6), pad_mode="edge")], "pad_mode='edge' may add voxels"),
        ({}, [ops.Crop3d(size=(4, 5, 6), p=0.5)], "it applies to some samples only, with p=0.5"),
        (
            {},
            [ops.Crop3d(size=(4, 5, 6)), ops.RandomAffine3d(rotate=(-9, 9))],
            "random_affine3d is composed with it into one gather",
        ),
        (
            {},
            [ops.Crop3d(size=(4, 5, 6)), ops.Crop3d(size=(8, 8, 8), pad_mode="edge")],
            "crop3d is composed with it into one gather",
        ),
        (
            {},
            [ops.Crop3d(size=(4, 5, 6)), ops.Pad3d(before=(1, 1, 1))],
            "pad3d is composed with it into one gather",
        ),
        ({"prepare": Prepare(spacing_mm=2.0)}, [ops.Crop3d(size=(2, 2, 2))], "volumes are resampled"),
        ({"take": Patch(30, pad="edge")}, [ops.Crop3d(size=(2, 2, 2))], "patches are padded"),
    ],
)
def test_a_crop_that_would_change_values_is_not_part_of_reading(folder, options, chain, said):
    dataset = seqpipe.volumes(folder, **options).map(*chain)
    assert f"crop3d is not part of reading: {said}" in dataset.explain()
    plain, call = seqpipe.volumes(folder, **options), ops.Chain(*chain)
    found, parts = dataset.sample(1, epoch=3), plain.sample(1, epoch=3)
    wanted = call({name: parts[name] for name in ("image", "label")}, epoch=3, index=1)
    assert np.array_equal(found["image"].data, wanted["image"].data)


def test_a_crop_larger_than_a_volume_is_raised_in_its_turn(folder):
    epoch = seqpipe.volumes(folder).map(ops.Crop3d(size=(12, 16, 16))).batch(1).epoch(0)
    assert next(epoch)["image"].shape == (1, 12, 16, 16, 1)
    next(epoch)
    with pytest.raises(ParameterError, match=r"crop3d: size=\(12, 16, 16\) of a volume of 10 × 26 × 20"):
        next(epoch)
    assert next(epoch)["index"].tolist() == [3]


@pytest.mark.parametrize(
    ("module", "name", "instead"),
    [
        ("readers", "Volume", "seqpipe.volumes"),
        ("volume", "GridSampler", r"seqpipe.volumes\(cases, seqpipe.Grid\(size\)\)"),
        ("volume", "GridAggregator", "seqpipe.Aggregate"),
    ],
)
def test_names_that_are_gone_tell_what_replaces_them(module, name, instead):
    with pytest.raises(AttributeError, match=f"has no attribute '{name}'; use .*{instead}"):
        getattr(getattr(seqpipe, module), name)
    with pytest.raises(ImportError, match=f"has no attribute '{name}'; use .*{instead}"):
        exec(f"from seqpipe.{module} import {name}")
