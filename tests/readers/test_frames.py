"""Folders of frames as a dataset: the lists that name them, their images, and what is shared with videos."""

from __future__ import annotations

import pickle

import cv2
import numpy as np
import pytest

from seqpipe import Clip, OutputSpec, Segments, fn, folders, ops
from seqpipe.errors import (
    ManifestError,
    ParameterError,
    SourceNotFoundError,
    StateError,
    UnreadableSourceError,
)
from seqpipe.readers import published
from tests.support.datasets import assert_resumes, clips, gist, gists, images, planned

COUNTS = {"jump/one": 12, "jump/two b": 9, "run/three": 20}


def image(folder, number, shape=(24, 32)):
    rng = np.random.default_rng([number, *folder.encode()])
    return cv2.resize(rng.integers(0, 256, (6, 8, 3), np.uint8), shape[::-1])


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    found = tmp_path_factory.mktemp("rawframes")
    for folder, count in COUNTS.items():
        (found / folder).mkdir(parents=True)
        for number in range(1, count + 1):
            cv2.imwrite(str(found / folder / f"img_{number:05}.png"), image(folder, number)[..., ::-1])
    lines = [f"{folder} {count} {n}" for n, (folder, count) in enumerate(COUNTS.items())]
    (found / "list.txt").write_text("\n".join(lines) + "\n")
    return found


def frames(root, **options):
    given = {"template": "img_{:05}.png", "length": 4, "stride": 2}
    return clips(published.rawframes(root / "list.txt"), folder=True, **{**given, **options})


def all_of(dataset, size=2):
    return [
        (one.source, one.frames.tolist(), one.data) for batch in images(dataset.batch(size)) for one in batch
    ]


def test_windows_of_a_list(root):
    with frames(root) as dataset:
        assert len(dataset) == sum(1 + (count - 7) // 8 for count in COUNTS.values())
        found = all_of(dataset)
        for source, numbers, pixels in found:
            folder = source.removeprefix(f"{root}/")
            np.testing.assert_array_equal(pixels, [image(folder, n + 1) for n in numbers])
        assert [numbers for _, numbers, _ in found][-2:] == [[0, 2, 4, 6], [8, 10, 12, 14]]
        assert [int(one) for batch in dataset.batch(9) for one in batch["label"]] == [0, 1, 2, 2]
        assert np.isnan(next(iter(dataset))["timestamps"]).all()
        assert dataset.stats()["frames"]["cpu"] > 0
        assert repr(dataset) == "folders(3 folders, 4 samples, Clip(length=4, stride=2))"


def test_images_by_name_and_class_folders(root):
    with folders(root, Clip(4, stride=2)) as dataset:
        assert dataset.classes == ("jump", "run")
        with frames(root) as listed:
            for (_, numbers, pixels), (_, others, same) in zip(all_of(dataset), all_of(listed), strict=True):
                assert numbers == others
                np.testing.assert_array_equal(pixels, same)
    with folders(root / "jump", Clip(9)) as dataset:
        assert [one["label"] for one in dataset] == [-1, -1]
    with folders([root / "run/three"], Segments(4, where="center"), labels=[7]) as dataset:
        (one,) = images(dataset)
        assert (one.label, one.frames.tolist()) == (7, [2, 7, 12, 17])


def test_numbers_without_leading_zeros_are_counted_not_spelled(tmp_path):
    for number in range(12):
        cv2.imwrite(str(tmp_path / f"frame{number}.png"), np.full((4, 4, 3), number, np.uint8))
    with folders([tmp_path], Clip(12)) as dataset:
        (one,) = images(dataset)
        assert one.numpy()[:, 0, 0, 0].tolist() == list(range(12))


def test_outputs_are_those_of_videos(root):
    whole = dict(pairs(frames(root)))
    with frames(root, crop=(4, 6, 10, 12), mirror=True, color="BGR") as dataset:
        for key, pixels in pairs(dataset):
            np.testing.assert_array_equal(pixels, whole[key][:, 4:14, 6:18][:, :, ::-1, ::-1])
    with frames(root, dtype="float32", mean=(0.1, 0.2, 0.3), std=0.5, layout="FCHW") as dataset:
        for key, pixels in pairs(dataset):
            expected = (whole[key] / 255 - (0.1, 0.2, 0.3)) / 0.5
            np.testing.assert_allclose(pixels, expected.transpose(0, 3, 1, 2), atol=1e-5)
    with frames(root, size=(12, 16)) as dataset:
        for key, pixels in pairs(dataset):
            expected = fn.resize(whole[key], size=(12, 16), interp_type="linear")
            assert np.abs(pixels.astype(int) - expected).max() <= 1
    with frames(root, color="GRAY") as dataset:
        for key, pixels in pairs(dataset):
            expected = [cv2.cvtColor(one, cv2.COLOR_RGB2GRAY)[..., None] for one in whole[key]]
            assert np.abs(pixels.astype(int) - expected).max() <= 1


def pairs(dataset):
    return [((source, tuple(numbers)), pixels) for source, numbers, pixels in all_of(dataset)]


def test_padding_of_the_last_frames(root):
    with frames(root, pad="constant", fill=9, stride=4) as dataset:
        last = all_of(dataset)[-1]
        assert last[1] == [16, -1, -1, -1]
        assert (last[2][1:] == 9).all()
        np.testing.assert_array_equal(last[2][0], image("run/three", 17))
    with frames(root, pad="edge", stride=4) as dataset:
        last, wanted = all_of(dataset)[-1], planned(dataset)[-1]
        assert wanted.padding.tolist() == [False, True, True, True]
        np.testing.assert_array_equal(last[2][3], image("run/three", wanted.frames[3] + 1))


def test_an_epoch_is_resumed_and_divided_as_that_of_videos(root):
    options = {"per_video": 3, "stride": 1, "shuffle": True, "seed": 4, "batch": 2}
    assert_resumes(lambda: frames(root, **options))
    with frames(root, **options) as dataset:
        running = dataset.epoch(2)
        begun = [gist(next(running)) for _ in range(2)]
        rest = gists(running)
        assert sum(len(one[0]) for one in (*begun, *rest)) == 9
        state = next(iter(dataset)).state
    with pickle.loads(pickle.dumps(frames(root, **options))) as dataset:
        assert gists(dataset.epoch(2)) == [*begun, *rest]
    other = clips(root, folder=True, length=4, **options)
    with other, pytest.raises(StateError):
        other.resume(state)
    ranks = [frames(root, **options, shard=(rank, 2)) for rank in range(2)]
    assert sorted(index for rank in ranks for one in rank for index in one["index"]) == list(range(9))


def test_workers_of_a_loader_divide_the_batches(root):
    torch = pytest.importorskip("torch")
    with frames(root, per_video=4, batch=2) as dataset:
        tensors = dataset.torch(layout="NCFHW")
        alone = [batch["image"] for batch in tensors]
        loader = torch.utils.data.DataLoader(tensors, batch_size=None, num_workers=2)
        shared = [batch["image"] for batch in loader]
    assert [one.shape for one in alone] == [(2, 3, 4, 24, 32)] * 6
    assert all(torch.equal(one, other) for one, other in zip(alone, shared, strict=True))


def test_operators_and_graphs_take_it_as_videos(root):
    crop = ops.RandomResizedCrop(size=(10, 10), seed=2)
    with frames(root) as dataset:
        plain = {one.index: one.data for one in images(dataset)}
        for one, other in zip(images(dataset.map(crop)), images(dataset.map(crop).fuse("none")), strict=True):
            assert one.shape == other.shape == (4, 10, 10, 3)
            assert np.abs(one.data.astype(int) - other.data).max() <= 2
        turned = dataset.graph(lambda x: {"image": fn.flip(x["image"]), "raw": x["image"]})
        (batch,) = turned.batch(4)
        for index, one, raw in zip(batch["index"].tolist(), batch["image"], batch["raw"], strict=True):
            np.testing.assert_array_equal(one.data, plain[index][:, :, ::-1])
            np.testing.assert_array_equal(raw.data, plain[index])


@pytest.mark.parametrize("on_error", ["skip", "substitute"])
def test_a_damaged_image_costs_its_sample(root, tmp_path, on_error):
    for number in range(1, 13):
        (tmp_path / f"{number:02}.png").write_bytes((root / f"jump/one/img_{number:05}.png").read_bytes())
    (tmp_path / "06.png").write_bytes(b"no image")
    with folders([tmp_path], Clip(4), on_error=on_error) as dataset:
        found = all_of(dataset)
        assert [numbers for _, numbers, _ in found if 5 in numbers] == []
        assert len(found) == (2 if on_error == "skip" else 3)
        assert "06.png" in str(dataset.report())
    with folders([tmp_path], Clip(4)) as dataset:
        running = iter(dataset.batch(1))
        next(running)
        with pytest.raises(UnreadableSourceError, match=r"06\.png: these 8 bytes are not an image"):
            next(running)
        assert next(running)["frames"].tolist() == [[8, 9, 10, 11]]


def test_fewer_images_than_the_list_says(root, tmp_path):
    (tmp_path / "list.txt").write_text(f"{root}/jump/one 16 0\n")
    listing = published.rawframes(tmp_path / "list.txt")
    for template, told in (
        (None, "there is no frame 12; allowed: 0 to 11"),
        ("img_{:05}.png", "img_00013.png"),
    ):
        with folders(listing, Clip(8), template=template) as dataset:
            running = iter(dataset.batch(1))
            next(running)
            with pytest.raises(Exception, match=told):
                next(running)


def test_counting_by_the_template_ends_at_a_gap(root, tmp_path):
    for number in (0, 1, 2, 4):
        (tmp_path / f"f{number}.png").write_bytes((root / "jump/one/img_00001.png").read_bytes())
    with folders([tmp_path], Clip(1), template="f{}.png", first_number=0) as dataset:
        assert len(dataset) == 3


def test_lists(tmp_path):
    for name in ("a", "b c", "12"):
        (tmp_path / name).mkdir()
    path = tmp_path / "list.txt"
    path.write_text("a 10 3\nb c/\t7 1\n12 5 0\n")
    assert [(one.key, one.part.end_frame, one.label) for one in published.rawframes(path)] == [
        ("a", 10, 3),
        ("b c", 7, 1),
        ("12", 5, 0),
    ]
    path.write_text("a 10\n")
    assert published.rawframes(path).entries[0].label == -1
    path.write_text("a 10 3 5\nb c 7\n")
    several = published.rawframes(path, several=True)
    assert [(one.part.end_frame, one.label) for one in several] == [(10, (3, 5)), (7, ())]
    path.write_text("a 10 3\nd 4 1\n")
    with pytest.raises(SourceNotFoundError, match="'d' of line 2 is not there"):
        published.rawframes(path)
    with pytest.warns(UserWarning, match="1 of 2 videos"):
        assert len(published.rawframes(path, missing="skip")) == 1
    for line in ("a", "a 0 3"):
        path.write_text(f"{line}\n")
        with pytest.raises(
            ManifestError, match=r"line 1.*is no folder of frames; allowed: folder total_frames label"
        ):
            published.rawframes(path)


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (
            {"template": "img.png"},
            "template='img.png' is not valid; allowed: the name of a file with one field",
        ),
        ({"template": "{}_{}.png"}, "template='{}_{}.png' is not valid"),
        ({"fps": 5.0}, "Clip: fps needs times, and folders of frames have none"),
        ({"min_motion": 2.0}, "Clip: min_motion needs times"),
        ({"together": True, "per_video": 2}, "Clip: together has no meaning for single images"),
        ({"labels": [1]}, "labels and a listing exclude one another"),
        ({"length": 30}, "no video is long enough"),
    ],
)
def test_what_is_refused(root, options, told):
    with pytest.raises(ParameterError, match=told):
        frames(root, **options)


def test_a_folder_without_frames_is_refused_or_left_out(root, tmp_path):
    with pytest.raises(SourceNotFoundError, match=r"the folder has no frames; .*Give template=…"):
        folders([tmp_path], Clip(1))
    with pytest.raises(SourceNotFoundError, match="the folder of frames cannot be listed"):
        folders([tmp_path / "gone"], Clip(1))
    with folders([tmp_path, root / "jump/one"], Clip(1), on_error="skip") as dataset:
        assert len(dataset) == 12
        assert dataset.source.output == OutputSpec()
