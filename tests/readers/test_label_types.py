"""Labels of every type, and further columns, from manifests and lists to batches."""

from __future__ import annotations

import json

import numpy as np
import pytest

import seqpipe
from seqpipe import Segments, fn, ops, videos
from seqpipe.errors import ManifestError, ParameterError
from seqpipe.readers import Listing
from tests.support.datasets import clips, files

COLUMNS = ("subject", "age", "weight", "code")


def batch_of(source, **options):
    with clips(source, count=2, batch=4, **options) as dataset:
        (batch,) = dataset
    return batch


@pytest.mark.parametrize(
    ("labels", "options", "dtype", "wanted"),
    [
        ([[0, 2], [1]], {"label_type": "classes"}, "float32", [[1, 0, 1], [0, 1, 0]]),
        (
            ["run; jump", "-1"],
            {"label_type": "classes", "classes": ["jump", "run"]},
            "float32",
            [[1, 1], [0, 0]],
        ),
        (["0, 2", "1"], {"label_type": "classes"}, "float32", [[1, 0, 1], [0, 1, 0]]),
        (["a, b", "c"], {"label_type": "classes", "classes": ["c", "a, b"]}, "float32", [[0, 1], [1, 0]]),
        ([0.5, "2e1"], {"label_type": "number"}, "float32", [0.5, 20]),
        (["1 2.5", (3, 4)], {"label_type": "vector"}, "float32", [[1, 2.5], [3, 4]]),
        ([np.array([1.0, 2.0]), "[3, 4]"], {"label_type": "vector"}, "float32", [[1, 2], [3, 4]]),
        (["a dog runs", "007"], {"label_type": "text"}, "<U10", ["a dog runs", "007"]),
    ],
)
def test_labels_of_each_type(labels, options, dtype, wanted):
    batch = batch_of(files("h264", "vp9"), labels=labels, **options)
    assert batch["label"].dtype == dtype
    assert batch["label"].tolist() == wanted
    assert ops.Flip()(batch["image"]).labels.tolist() == wanted, "operators hand labels through"
    with clips(files("h264", "vp9"), labels=labels, count=2, **options).map(ops.Flip()) as dataset:
        assert [np.asarray(one["label"]).tolist() for one in dataset] == wanted
        (fused,) = dataset.batch(2)
    assert (fused["label"].dtype, fused["label"].tolist()) == (dtype, wanted)


@pytest.mark.parametrize(
    ("labels", "options", "said"),
    [
        (["x", "1"], {"label_type": "number"}, r"labels\[0\]: the label 'x' is not a number"),
        ([float("nan"), "1"], {"label_type": "number"}, "the label nan is not a number"),
        (["1 2", "3"], {"label_type": "vector"}, "a label of 1 numbers, after one of 2"),
        (
            ["run;fly", "run"],
            {"label_type": "classes", "classes": ["run"]},
            "the label 'fly' is not one of the classes",
        ),
        ([1, 2], {"label_type": "vectors"}, "label_type='vectors' is not valid; allowed: 'class', 'classes'"),
        (
            [1, 2],
            {"label_type": "text", "classes": ["a"]},
            "classes and label_type='text' exclude one another",
        ),
    ],
)
def test_labels_that_are_refused(labels, options, said):
    with pytest.raises(ParameterError, match=said):
        clips(files("h264", "vp9"), labels=labels, count=1, **options)


def test_a_folder_has_classes(tmp_path):
    with pytest.raises(ParameterError, match="label_type='text' and file_root exclude one another"):
        clips(tmp_path, count=1, label_type="text")


def test_further_columns_come_with_batches(tmp_path):
    one, two = files("h264", "vp9")
    path = tmp_path / "list.csv"
    path.write_text(
        f"path,subject,age,weight,code\n{one},anna,31,70.5,007\n{two},bert,8,20,010\n", encoding="utf-8"
    )
    batch = batch_of(path)
    assert {name: getattr(v, "tolist", lambda v=v: v)() for name, v in batch.items() if name in COLUMNS} == {
        "subject": ("anna", "bert"),
        "age": [31, 8],
        "weight": [70.5, 20.0],
        "code": ("007", "010"),
    }
    image = batch["image"]
    assert fn.resize(image, size=(20, 20)).columns["age"].tolist() == [31, 8]
    assert image[1].fields["code"] == "010"
    with clips(path, count=2).map(ops.Resize(size=(20, 20))) as dataset:
        assert [(one["subject"], one["age"]) for one in dataset] == [("anna", 31), ("bert", 8)]
        assert {*COLUMNS} <= {*dataset.types}


def test_columns_that_are_named_as_parts_get_a_prefix(tmp_path):
    one, two = files("h264", "vp9")
    path = tmp_path / "list.csv"
    path.write_text(f"path,label,frames,video,image,index\n{one},4,300,x,a.png,8\n{two},5,50,y,b.png,9\n")
    with clips(path, count=2, batch=2) as dataset:
        (batch,) = dataset
        (alone, _) = clips(path, count=2)
    assert batch["frames"].shape == (2, 2)
    assert (batch["video"].tolist(), batch["index"].tolist()) == ([0, 1], [0, 1])
    columns = {name: list(batch[f"column_{name}"]) for name in ("frames", "video", "image", "index")}
    assert columns == {"frames": [300, 50], "video": ["x", "y"], "image": ["a.png", "b.png"], "index": [8, 9]}
    assert (alone["column_frames"], alone["column_video"], alone["column_image"]) == (300, "x", "a.png")
    assert {*batch} - {"image"} <= {*dataset.types}


def test_further_columns_of_json(tmp_path):
    one, two = files("h264", "vp9")
    rows = [
        {"path": one, "label": [0.5, 1], "boxes": [[0, 0, 1, 1]], "note": None, "ok": True},
        {"path": two, "label": [2, 3], "boxes": [[0, 0, 1, 1], [0.5, 0, 1, 1]], "note": "x", "ok": False},
    ]
    path = tmp_path / "list.jsonl"
    path.write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    batch = batch_of(path, label_type="vector")
    assert batch["label"].tolist() == [[0.5, 1], [2, 3]]
    assert [boxes.shape for boxes in batch["boxes"]] == [(1, 4), (2, 4)]
    assert batch["note"] == (None, "x")
    assert batch["ok"].tolist() == [True, False]
    with pytest.raises(ManifestError, match=r"line 1: the label \[0.5, 1\] is not a whole number"):
        videos(path, Segments(1))


def listing(count=200, subjects=23):
    names = [f"/v/{n}.mp4" for n in range(count)]
    found = seqpipe.listing(files=names, labels=[n % 4 for n in range(count)])
    made = [one._replace(fields={"subject": n % subjects}) for n, one in enumerate(found)]
    return Listing(tuple(made))


def names_of(part):
    return {entry.name for entry in part}


def test_parts_have_no_group_in_common_and_depend_on_the_seed():
    whole = listing()
    train, val, test = whole.split((0.7, 0.2, 0.1), seed=3, by="subject")
    assert names_of(train) | names_of(val) | names_of(test) == names_of(whole)
    groups = [{entry.fields["subject"] for entry in part} for part in (train, val, test)]
    assert not groups[0] & groups[1]
    assert not groups[2] & (groups[0] | groups[1])
    assert abs(len(train) - 140) < 10
    again = Listing(whole.entries[::-1]).split((0.7, 0.2, 0.1), seed=3, by="subject")
    assert names_of(again[0]) == names_of(train), "the order of files does not matter"
    assert names_of(whole.split((0.7, 0.3), seed=4, by="subject")[0]) != names_of(train)


def test_a_stratified_part_has_all_classes_alike():
    part = listing().subset(0.1, seed=1, stratified=True)
    assert np.bincount([entry.label for entry in part]).tolist() == [5, 5, 5, 5]
    assert names_of(part) < names_of(listing().subset(0.2, seed=1, stratified=True)), "a larger part holds it"
    assert len(listing().where(lambda entry: entry.label == 2)) == 50


def test_videos_that_are_added_hardly_change_a_split():
    before = names_of(listing(200).split((0.8, 0.2), seed=0)[1])
    after = names_of(listing(220).split((0.8, 0.2), seed=0)[1])
    assert len(before - after) <= 6


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda x: x.split((0.7, 0.7)), r"shares=\[0.7, 0.7\] is not valid; allowed: positive numbers"),
        (lambda x: x.split(()), r"shares=\[\] is not valid"),
        (
            lambda x: x.split((0.5, 0.5), by="person"),
            "by='person' is no field; allowed: label, path, subject",
        ),
        (lambda x: x.subset(0.5, by="subject", stratified=True), "the group 0 has items of 0 and of "),
    ],
)
def test_splits_that_are_refused(call, said):
    with pytest.raises(ParameterError, match=said):
        call(listing())


def test_a_reader_of_a_part():
    parts = seqpipe.listing(files=files("h264", "hevc", "vp9"), labels=[0, 1, 2]).split((0.4, 0.6), seed=0)
    seen = []
    for part in parts:
        with videos(part, Segments(1)).batch(3) as dataset:
            seen += [label for batch in dataset for label in batch["label"].tolist()]
    assert sorted(seen) == [0, 1, 2]
    with pytest.raises(ParameterError, match="files is empty"):
        videos([], Segments(1))
    with pytest.raises(ParameterError, match="the listing is empty"):
        videos(parts[0].where(lambda _: False), Segments(1))
