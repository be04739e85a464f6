"""Which videos a dataset consists of, and their labels: lists, class folders, manifests."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pytest

import seqpipe
from seqpipe import Clip, Segments, videos
from seqpipe.errors import (
    ManifestError,
    ParameterError,
    SourceError,
    SourceNotFoundError,
    UnreadableSourceError,
)
from seqpipe.readers import Range
from seqpipe.readers.labels import LabelParser
from seqpipe.readers.listing import list_folder
from seqpipe.readers.manifest import read_manifest
from seqpipe.video.source.names import VIDEO_ENDINGS
from tests.support.datasets import assert_true_frames, clips, files, planned
from tests.support.media import made


def labels_of(dataset):
    """The labels by file name, as batches give them."""
    found = {}
    for batch in dataset.batch(4):
        found |= {
            Path(s).name: label for s, label in zip(batch.sources, batch["label"].tolist(), strict=True)
        }
    return found


def tree(root, names):
    for name in names:
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if name.endswith("/"):
            path.mkdir()
        else:
            path.symlink_to(made("h264"))
    return str(root)


def test_a_link_to_a_folder_above_gives_no_video_twice(tmp_path):
    root = tree(tmp_path / "root", ["a/one.mp4", "b/c/two.mp4"])
    (tmp_path / "root" / "b" / "up").symlink_to(root)
    (tmp_path / "root" / "b" / "c" / "here").symlink_to(".")
    (tmp_path / "root" / "b" / "beside").symlink_to(tmp_path / "root" / "a")
    found = list_folder(root, LabelParser(("a", "b"))).entries
    names = [entry.name.removeprefix(f"{root}/") for entry in found]
    assert names == ["a/one.mp4", "b/beside/one.mp4", "b/c/two.mp4"]


# --- lists


def test_labels_of_a_list_as_numbers_and_names():
    paths = files("h264", "vp9", "av1")
    dataset = clips(paths, labels=[7, -1, "3"], count=1)
    assert labels_of(dataset) == {"h264.mp4": 7, "vp9.webm": -1, "av1.mp4": 3}
    named = clips(paths, labels=["run", " jump ", 1], classes=["jump", "run"], count=1)
    assert labels_of(named) == {"h264.mp4": 1, "vp9.webm": 0, "av1.mp4": 1}
    assert named.classes == ("jump", "run")


def test_files_without_labels_have_minus_one():
    assert labels_of(videos([made("h264")], Segments(1))) == {"h264.mp4": -1}


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"labels": [1]}, r"labels has 1 entries, but there are 2 files; allowed: one for each file"),
        (
            {"labels": [1, "dog"]},
            r"h264\.mp4: labels\[1\]: the label 'dog' is not a whole number; .*give classes",
        ),
        ({"labels": [1, 2.5]}, r"the label 2\.5 is not a whole number"),
        ({"labels": [1, True]}, r"the label True is not a whole number"),
        ({"labels": [1, 1 << 70]}, r"does not fit into 64 bits"),
        ({"labels": [0, "jmup"], "classes": ["run", "jump"]}, r"'jmup'.*Did you mean 'jump'\?"),
        (
            {"labels": [0, 2], "classes": ["run", "jump"]},
            r"the label 2 is not the number of a class; .* or 0 to 1",
        ),
        ({"classes": ["run", "run"]}, r"classes names 'run' twice"),
        ({"classes": "run"}, r"classes='run' is not valid; allowed: a list of class names"),
        ({"classes": []}, r"classes=\[\] is not valid"),
        ({"classes": ["run", 3]}, r"the class 3 is not valid"),
        ({"ranges": [None]}, r"ranges has 1 entries, but there are 2 files"),
        ({"ranges": [None, (1, 2)]}, r"h264\.mp4: ranges\[1\]=\(1, 2\) is not valid; .*readers\.Range"),
    ],
)
def test_bad_labels_classes_and_ranges_of_a_list(given, said):
    with pytest.raises(ParameterError, match=said):
        clips(files("h264", "h264"), count=1, **given)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"files": "a.mp4"}, r"files='a\.mp4' is one file; .*Write files=\[…\]"),
        ({"files": []}, r"files is empty"),
        ({"files": [3]}, r"3 is not a path or URL; allowed: paths and URLs"),
        ({"files": ["a\0b"]}, r"is not a path or URL"),
        ({}, r"there is nothing to read; allowed: one of files, file_root, manifest"),
        ({"files": ["a.mp4"], "manifest": "m.csv"}, r"files and manifest exclude one another"),
        (
            {"files": ["a"], "manifest": "m.csv", "file_root": "."},
            r"files and file_root and manifest exclude",
        ),
        (
            {"file_root": ".", "labels": [1]},
            r"labels and file_root exclude one another.*The folders are the labels",
        ),
        (
            {"manifest": "m.csv", "ranges": [None]},
            r"ranges and manifest exclude one another.*A manifest has columns",
        ),
    ],
)
def test_sources_that_are_none_or_too_many(given, said):
    with pytest.raises(ParameterError, match=said):
        seqpipe.listing(**given)


def test_bad_ranges():
    for given, said in (
        ({"start_s": 2.0, "end_s": 2.0}, r"start_s=2, end_s=2 is an empty range; allowed: start_s < end_s"),
        ({"start_frame": 5, "end_frame": 4}, r"start_frame=5, end_frame=4 is an empty range"),
        ({"start_frame": 5, "end_s": 4}, r"start_frame and end_s cannot be mixed"),
        ({"start_frame": -1}, r"start_frame=-1 is not valid; allowed: a whole number of at least 0 frames"),
        ({"end_s": float("nan")}, r"end_s=nan is not valid"),
    ):
        with pytest.raises(ParameterError, match=said):
            Range(**given)


# --- folders


def test_class_folders_are_sorted_and_searched_through(tmp_path):
    names = [
        "zebra/a.mp4",
        "ant/deep/er/c.MP4",
        "ant/b.mkv",
        "ant/.hidden.mp4",
        "ant/notes.txt",
        ".git/x.mp4",
    ]
    listing = list_folder(tree(tmp_path, names), LabelParser(None))
    assert listing.classes == ("ant", "zebra")
    assert [(e.key, e.label) for e in listing.entries] == [
        ("ant/b.mkv", 0),
        ("ant/deep/er/c.MP4", 0),
        ("zebra/a.mp4", 1),
    ]
    dataset = videos(tmp_path, Segments(2))
    assert dataset.classes == ("ant", "zebra")
    assert labels_of(dataset) == {"b.mkv": 0, "c.MP4": 0, "a.mp4": 1}


def test_a_class_list_decides_numbers_and_leaves_other_folders_out(tmp_path):
    root = tree(tmp_path, ["ant/a.mp4", "bee/b.mp4", "cat/c.mp4", "dog/"])
    listing = list_folder(root + "/", LabelParser(["cat", "dog", "ant"]))
    assert [(e.key, e.label) for e in listing.entries] == [("cat/c.mp4", 0), ("ant/a.mp4", 2)]


def test_a_folder_of_videos_has_no_labels(tmp_path):
    root = tree(tmp_path, ["b.mp4", "a.webm", "notes/"])
    listing = list_folder(root, LabelParser(None))
    assert [(e.key, e.label) for e in listing.entries] == [("a.webm", -1), ("b.mp4", -1)]


@pytest.mark.parametrize(
    ("names", "classes", "kind", "said"),
    [
        (
            [],
            None,
            UnreadableSourceError,
            r"there is no video in this folder; allowed: files that end in \.264, \.265, ",
        ),
        (["ant/"], None, UnreadableSourceError, r"there is no video in this folder"),
        (["ant/a.txt"], ["ant"], UnreadableSourceError, r"there is no video in this folder"),
        (["ant/a.mp4", "bee/"], None, UnreadableSourceError, r"no video in the class folder 'bee'.*classes="),
        (["ant/a.mp4"], ["ant", "bee"], SourceNotFoundError, r"no folder for the class 'bee'; allowed: ant"),
        (["ant/a.mp4", "b.mp4"], None, SourceError, r"both class folders and videos \('b\.mp4', …\)"),
    ],
)
def test_bad_folders(tmp_path, names, classes, kind, said):
    with pytest.raises(kind, match=said) as caught:
        list_folder(tree(tmp_path, names), LabelParser(classes))
    assert caught.value.source == str(tmp_path)


def test_a_root_that_is_no_folder(tmp_path):
    with pytest.raises(SourceNotFoundError, match=r"n: no such folder \(File name too long\)\. For single"):
        list_folder(str(tmp_path / ("n" * 300)), LabelParser(None))
    with pytest.raises(SourceNotFoundError, match=r"nowhere: no such folder.*files=\[…\]"):
        seqpipe.listing(file_root=tmp_path / "nowhere")
    with pytest.raises(SourceNotFoundError, match=r"h264\.mp4: this is a file"):
        seqpipe.listing(file_root=made("h264"))


def test_endings_are_sorted_and_lower_case():
    assert list(VIDEO_ENDINGS) == sorted(e.lower() for e in VIDEO_ENDINGS)
    assert {".mp4", ".webm", ".mkv", ".avi", ".mov"} < set(VIDEO_ENDINGS)


# --- manifests

ODD_NAMES = ["a b.mp4", "c,d.mp4", 'quo"te.mp4', "new\nline.mp4", "größe_視頻.mp4", "per%cent:colon.mp4"]


def quoted(name):
    return '"' + name.replace('"', '""') + '"'


@pytest.fixture
def odd_folder(tmp_path):
    tree(tmp_path / "videos", ODD_NAMES)
    return tmp_path


@pytest.mark.parametrize("kind", ["csv", "tsv", "jsonl"])
def test_paths_of_every_kind_in_every_format(odd_folder, kind):
    rows = [(f"videos/{name}", number) for number, name in enumerate(ODD_NAMES)]
    if kind == "jsonl":
        text = "".join(json.dumps({"path": p, "label": n}, ensure_ascii=n % 2 == 0) + "\n" for p, n in rows)
    else:
        mark = {"csv": ",", "tsv": "\t"}[kind]
        text = (
            mark.join(["label", " path ", "note"])
            + "\n\n"
            + "".join(f"{n}{mark}{quoted(p)}{mark}x\n" for p, n in rows)
        )
    manifest = odd_folder / f"list.{kind}"
    manifest.write_text(text, encoding="utf-8-sig")
    with videos(manifest, Segments(2)) as dataset:
        assert labels_of(dataset) == {name: number for number, name in enumerate(ODD_NAMES)}
        assert [request.source for request in planned(dataset)] == [
            str(odd_folder / path) for path, _ in rows
        ]


def test_ranges_absolute_paths_and_class_names(tmp_path):
    manifest = tmp_path / "list.csv"
    path = made("h264")
    manifest.write_text(
        "path,label,start_frame,end_frame,start_s,end_s,youtube_id\n"
        f"{path},run,10,20,,,x1\n{path},jump,,,0.4,,x2\n{path},1,,,,,x3\n"
    )
    with clips(manifest, classes=["run", "jump"], length=10) as dataset:
        spans = {}
        for batch in dataset.batch(3):
            for sequence, label in zip(batch["image"], batch["label"], strict=True):
                spans.setdefault(int(label), []).append((int(sequence.frames[0]), int(sequence.frames[-1])))
                assert_true_frames(sequence)
    assert spans == {0: [(10, 19)], 1: [(10, 19), (20, 29), (30, 39), (0, 9), (10, 19), (20, 29), (30, 39)]}


def test_urls_and_keys_of_a_manifest(tmp_path):
    manifest = tmp_path / "list.jsonl"
    manifest.write_text(
        '{"path": "s3://bucket/a.mp4"}\n\n{"path": "sub/b.mp4", "label": null, "end_s": null}\n'
    )
    listing = read_manifest(str(manifest), LabelParser(None))
    assert [e.name for e in listing.entries] == ["s3://bucket/a.mp4", str(tmp_path / "sub/b.mp4")]
    assert [e.key for e in listing.entries] == ["s3://bucket/a.mp4", "sub/b.mp4"]
    assert [(e.label, e.part) for e in listing.entries] == [(-1, None), (-1, None)]


BAD_TABLES = [
    (
        "path,label\na.mp4,1\nb.mp4,dog\n",
        r"m\.csv: line 3: the label 'dog' is not a whole number; .*give classes",
    ),
    (
        "path,label\na.mp4,\n",
        r"line 2: the label '' is not a whole number; allowed: whole numbers, -1 for no label",
    ),
    ("path,label\na.mp4,3.0\n", r"line 2: the label '3\.0' is not a whole number"),
    ('path,label\nc.mp4,1\n"a\nb.mp4",x\n', r"line 3: the label 'x'"),
    ('path,label\n"a\nb.mp4",1\nc.mp4,x\n', r"line 4: the label 'x'"),
    (
        "file,label\na.mp4,1\n",
        r"line 1: there is no column 'path', only 'file', 'label'; allowed: path, label, .* comma",
    ),
    ("a.mp4 1\nb.mp4 2\n", r"line 1: there is no column 'path', only 'a\.mp4 1'"),
    ("path,lable\na.mp4,1\n", r"line 1: the column 'lable' is unknown; .*Did you mean 'label'\?"),
    ("path,Start_S\na.mp4,1\n", r"line 1: the column 'Start_S' is unknown; .*Did you mean 'start_s'\?"),
    ("path,path\na.mp4,1\n", r"line 1: the column 'path' occurs twice"),
    ("path,end_frame\na.mp4,1_0\n", r"line 2: end_frame='1_0' is not valid; allowed: a whole number"),
    ("path,end_frame\na.mp4,٣٠\n", r"line 2: end_frame='٣٠' is not valid; allowed: a whole number"),
    ("path,label\na.mp4,1,2\n", r"line 2: the line has 3 fields, but the header names 2"),
    ("path,label\na.mp4\n", r"line 2: the line has 1 fields"),
    ("path,label\n,1\n", r"line 2: the path is empty"),
    ("path,start_s,end_s\na.mp4,2,2\n", r"line 2: start_s=2, end_s=2 is an empty range"),
    ("path,start_frame,end_s\na.mp4,2,3\n", r"line 2: start_frame and end_s cannot be mixed"),
    ("path,start_frame\na.mp4,1.5\n", r"line 2: start_frame=1\.5 is not valid; allowed: a whole number"),
    (
        "path,end_s\na.mp4,soon\n",
        r"line 2: end_s='soon' is not valid; allowed: a number s or None|line 2: end_s='soon'",
    ),
    ('path\n"a.mp4\n', r"line 2: the line cannot be read"),
    ("path,label\n", r"the manifest lists no video"),
    ("", r"the manifest lists no video"),
]
BAD_LINES = [
    ('{"path": "a.mp4"}\n{"path": "b.mp4",}\n', r"m\.jsonl: line 2: the line is not JSON"),
    ('{"path": "a.mp4", "path": "b.mp4"}\n', r"m\.jsonl: line 1: the column 'path' occurs twice"),
    ("[" * 200_000, r"m\.jsonl: line 1: the line cannot be read \(maximum recursion depth"),
    (
        '{"path": "a.mp4", "label": ' + "1" * 5000 + "}",
        r"m\.jsonl: line 1: the line cannot be read \(Exceeds",
    ),
    (
        '{"path": "a.mp4", "label": "' + "1" * 5000 + '"}',
        r"m\.jsonl: line 1: the label 1+ does not fit into 64 bits",
    ),
    ('{"path": "a.mp4"}\n["b.mp4"]\n', r"line 2: the line holds a list; allowed: an object"),
    ('{"path": "a.mp4"}\n\n{"label": 3}\n', r"line 3: there is no column 'path', only 'label'"),
    ('{"path": 7}\n', r"line 1: the path 7 is not valid"),
    ('{"path": "a.mp4", "label": true}\n', r"line 1: the label True is not a whole number"),
    ('{"path": "a.mp4", "label": 1.0}\n', r"line 1: the label 1\.0 is not a whole number"),
    ('{"path": "a.mp4", "stat_s": 1}\n', r"line 1: the column 'stat_s' is unknown; .*'start_s'"),
    ('{"path": "a.mp4", "start_frame": -2}\n', r"line 1: start_frame=-2 is not valid"),
]


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [("m.csv", *row) for row in BAD_TABLES] + [("m.jsonl", *row) for row in BAD_LINES],
)
def test_bad_manifests_name_the_line(tmp_path, name, text, said):
    manifest = tmp_path / name
    manifest.write_text(text, encoding="utf-8")
    with pytest.raises(ManifestError, match=said) as caught:
        videos(manifest, Segments(1))
    assert caught.value.source == str(manifest)


def test_a_manifest_in_another_encoding(tmp_path):
    manifest = tmp_path / "m.csv"
    manifest.write_bytes("path,label\na.mp4,1\ngröße.mp4,2\n".encode("latin-1"))
    with pytest.raises(ManifestError, match=r"line 3: the text is not UTF-8"):
        videos(manifest, Segments(1))


def test_a_manifest_that_is_no_manifest(tmp_path):
    with pytest.raises(SourceNotFoundError, match=r"gone\.csv: no such manifest"):
        videos(tmp_path / "gone.csv", Segments(1))
    with pytest.raises(
        ManifestError, match=r"'\.txt' is not the ending of a manifest; allowed: \.csv, \.tsv, "
    ):
        seqpipe.listing(manifest=tmp_path / "list.txt")
    (tmp_path / "dir.csv").mkdir()
    with pytest.raises(ManifestError, match=r"dir\.csv: the manifest cannot be read"):
        videos(tmp_path / "dir.csv", Segments(1))


def test_a_missing_file_names_its_line(tmp_path):
    manifest = tmp_path / "m.csv"
    manifest.write_text(f"path\n{made('h264')}\nsub/gone.mp4\n")
    with pytest.raises(
        SourceNotFoundError, match=r"sub/gone\.mp4: no such file.*line 3 of .*m\.csv; relative paths"
    ):
        videos(manifest, Segments(1))
    kept = videos(manifest, Segments(1), on_error="skip")
    (loss,) = kept.report().losses
    assert (len(kept), loss.source, loss.fate) == (1, str(tmp_path / "sub/gone.mp4"), "video left out")


def test_files_of_a_folder_that_are_passed_over_are_counted(tmp_path):
    for name in ("cat/a.264", "cat/b.txt", "dog/c.ivf", "dog/deep/d.jpg", "e.csv"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_bytes(b"")
    listing = list_folder(str(tmp_path), LabelParser(None))
    assert [entry.key for entry in listing.entries] == ["cat/a.264", "dog/c.ivf"]
    assert listing.skipped == {".txt": 1, ".jpg": 1, ".csv": 1}
    (tmp_path / "cat" / "a.264").unlink()
    with pytest.raises(
        UnreadableSourceError, match=r"class folder 'cat', only 1 other file \(\.txt 1\); allowed"
    ):
        list_folder(str(tmp_path), LabelParser(None))


# --- listings as values


def listing_of_classes(tmp_path, counts):
    root = tree(tmp_path, [f"{name}/{n}.mp4" for name, count in counts.items() for n in range(count)])
    return seqpipe.listing(root)


def test_parts_and_sums_of_listings(tmp_path):
    whole = listing_of_classes(tmp_path, {"cat": 3, "dog": 2})
    assert [entry.key for entry in whole[1:4]] == ["cat/1.mp4", "cat/2.mp4", "dog/0.mp4"]
    assert whole[-1].key == "dog/1.mp4"
    assert whole[:2] + whole[2:] == whole
    assert repr(whole) == "Listing(5 videos, 2 classes ('cat', 'dog'))"
    numbers = seqpipe.listing(["x.mp4"], labels=["0.5"], label_type="number")
    assert repr(numbers) == "Listing(1 videos, no classes, label_type='number')"
    other = seqpipe.listing(["x.mp4"], labels=["dog"], classes=["dog", "cat"])
    with pytest.raises(ParameterError, match=r"classes of the listings differ: .* same classes=\[…\]"):
        whole + other
    with pytest.raises(TypeError):
        whole + 1


@pytest.mark.parametrize("by", ["label", lambda entry: entry.name.split("/")[-2]])
def test_a_balanced_listing_repeats_small_classes(tmp_path, by):
    whole = listing_of_classes(tmp_path, {"ant": 5, "bee": 2, "cow": 1})
    even = whole.balanced(seed=3, by=by)
    assert even.entries[:8] == whole.entries, "nothing is lost, and the order stays"
    assert Counter(entry.label for entry in even) == {0: 5, 1: 5, 2: 5}
    assert sorted(Counter(entry.key for entry in even if entry.label == 1).values()) == [2, 3]
    assert even == whole.balanced(seed=3, by=by)
    last = {whole.balanced(seed=seed).entries[-5].key for seed in range(8)}
    assert last == {"bee/0.mp4", "bee/1.mp4"}, "either bee is the one more"
    with videos(even, Clip(2, per_video=1)) as dataset:
        assert Counter(s.label for s in planned(dataset)) == {0: 5, 1: 5, 2: 5}
        bees = [s.frames.tolist() for s in planned(dataset) if s.source.endswith("bee/0.mp4")]
        assert len({tuple(frames) for frames in bees}) == len(bees), "each occurrence has its own clip"


def test_labels_may_be_a_tensor(torch):
    dataset = clips(files("h264", "vp9"), labels=torch.tensor([1, 0]), count=1)
    assert [request.label for request in planned(dataset)] == [1, 0]
