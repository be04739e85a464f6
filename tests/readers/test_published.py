"""Lists of data sets as they are published, small ones of each form, with videos that are links to a made one."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from seqpipe import Clip, Segments, videos
from seqpipe.errors import FrameRangeError, ManifestError, ParameterError, SourceNotFoundError
from seqpipe.readers import Range, published
from tests.support.media import made


def put(root, *names):
    for name in names:
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.symlink_to(made("h264"))
    return root


def written(path, text):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return path


def gist(listing):
    return [(entry.key, entry.label, entry.part) for entry in listing]


KINETICS = (
    "label,youtube_id,time_start,time_end,split\n"
    "riding a bike,-0abc,10,20,train\n"
    '"abseiling, outdoors",12345678901,0,3,train\n'
    "riding a bike,whole,1,2,train\n"
)


def test_kinetics_cut_and_whole_with_their_ranges(tmp_path):
    root = put(
        tmp_path / "videos",
        "riding a bike/-0abc_000010_000020.mp4",
        "12345678901_000000_000003.mkv",
        "whole.webm",
    )
    listing = published.kinetics(written(tmp_path / "train.csv", KINETICS), root)
    assert listing.classes == ("abseiling, outdoors", "riding a bike")
    assert gist(listing) == [
        ("riding a bike/-0abc_000010_000020.mp4", 1, None),
        ("12345678901_000000_000003.mkv", 0, None),
        ("whole.webm", 1, Range(start_s=1, end_s=2)),
    ]
    known = {"youtube_id": "12345678901", "time_start": 0, "time_end": 3, "split": "train"}
    assert listing.entries[1].fields == known
    with videos(listing, Clip(4, step=4), on_error="raise") as dataset:
        (last,) = [one for one in dataset if one["youtube_id"] == "whole"][-1:]
        assert last["timestamps"].max() < 2
        assert last["label"] == 1


def test_videos_of_kinetics_that_are_gone(tmp_path):
    path = written(tmp_path / "train.csv", KINETICS)
    put(tmp_path, "whole.mp4")
    with pytest.raises(
        SourceNotFoundError,
        match=r"riding a bike/-0abc_000010_000020' of line 2 is not there.*missing='skip'",
    ):
        published.kinetics(path)
    with pytest.warns(UserWarning, match=r"2 of 3 videos of .*train.csv are not there and left out, such as"):
        listing = published.kinetics(path, missing="skip")
    assert gist(listing) == [("whole.mp4", 1, Range(start_s=1, end_s=2))]
    with pytest.raises(SourceNotFoundError, match="none of the 3 videos is there"):
        published.kinetics(path, tmp_path / "elsewhere", missing="skip")


def test_kinetics_without_labels_or_columns(tmp_path):
    put(tmp_path, "a_000001_000002.mp4")
    bare = "youtube_id,time_start,time_end\na,1,2\n"
    assert gist(published.kinetics(written(tmp_path / "test.csv", bare))) == [
        ("a_000001_000002.mp4", -1, None)
    ]
    with pytest.raises(ManifestError, match=r"line 1: there is no column 'time_start'"):
        published.kinetics(written(tmp_path / "bad.csv", "youtube_id\na\n"))
    with pytest.raises(ManifestError, match=r"line 2: 'x' is not a number"):
        published.kinetics(written(tmp_path / "bad.csv", "youtube_id,time_start,time_end\na,x,2\n"))


@pytest.mark.parametrize(
    "text", ["a b/one.mp4 3\ntwo.mp4 0\n", "a b/one.mp4,3\ntwo.mp4,0\n", "a b/one.mp4\t3\n\ntwo.mp4\t0"]
)
def test_lists_without_a_header(tmp_path, text):
    put(tmp_path, "a b/one.mp4", "two.mp4")
    listing = published.video_list(written(tmp_path / "train.txt", text))
    assert gist(listing) == [("a b/one.mp4", 3, None), ("two.mp4", 0, None)]


def test_absolute_paths_several_labels_and_names(tmp_path):
    put(tmp_path, "one.mp4", "two.mp4")
    text = f"{tmp_path}/one.mp4 3 1\ntwo.mp4\n"
    listing = published.video_list(written(tmp_path / "list.txt", text), several=True)
    assert [entry.label for entry in listing] == [(3, 1), -1]
    with videos(listing, Segments(2)) as dataset:
        (batch,) = dataset.batch(2)
    assert batch["label"].tolist() == [[0, 1, 0, 1], [0, 0, 0, 0]]
    named = written(tmp_path / "named.txt", "one.mp4;playing a guitar\ntwo.mp4;run\n")
    listing = published.video_list(named, separator=";", classes=["run", "playing a guitar"])
    assert [entry.label for entry in listing] == [1, 0]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (
            "one.mp4 120 3\n",
            r"line 1: two numbers follow the path.*list of folders of frames is read by rawframes.*several=True",
        ),
        ("one.mp4 0\none.mp4 run\n", r"line 2: the label 'run' is not a whole number"),
        ("\n\n", "the file names no video"),
    ],
)
def test_bad_lists_without_a_header(tmp_path, text, said):
    put(tmp_path, "one.mp4")
    with pytest.raises(ManifestError, match=said):
        published.video_list(written(tmp_path / "list.txt", text))


def test_ucf101(tmp_path):
    names = ["ApplyEyeMakeup/v_ApplyEyeMakeup_g08_c01.avi", "YoYo/v_YoYo_g25_c03.avi"]
    put(tmp_path / "UCF-101", *names)
    written(tmp_path / "splits/classInd.txt", "1 ApplyEyeMakeup\n2 Biking\n3 YoYo\n")
    train = written(tmp_path / "splits/trainlist01.txt", f"{names[0]} 1\r\n{names[1]} 3\r\n")
    test = written(tmp_path / "splits/testlist01.txt", "\n".join(names))
    for path in (train, test):
        listing = published.ucf101(path, tmp_path / "UCF-101")
        assert gist(listing) == [(names[0], 0, None), (names[1], 2, None)]
        assert [dict(entry.fields) for entry in listing] == [
            {"group": 8, "clip": 1},
            {"group": 25, "clip": 3},
        ]


def test_hmdb51(tmp_path):
    put(tmp_path / "videos", "run/a b.avi", "run/c.avi", "wave/d.avi", "wave/e.avi")
    written(tmp_path / "splits/run_test_split1.txt", "a b.avi 1 \nc.avi 2 \n")
    written(tmp_path / "splits/wave_test_split1.txt", "d.avi 1 \ne.avi 0 \n")
    written(tmp_path / "splits/wave_test_split2.txt", "d.avi 2 \n")
    listing = published.hmdb51(tmp_path / "splits", tmp_path / "videos")
    assert (listing.classes, gist(listing)) == (
        ("run", "wave"),
        [("run/a b.avi", 0, None), ("wave/d.avi", 1, None)],
    )
    assert gist(published.hmdb51(tmp_path / "splits", tmp_path / "videos", part="test")) == [
        ("run/c.avi", 0, None)
    ]
    with pytest.raises(ParameterError, match=r"part='val' is not valid; allowed: 'train', 'test', 'unused'"):
        published.hmdb51(tmp_path / "splits", tmp_path / "videos", part="val")
    with pytest.raises(SourceNotFoundError, match=r"no file \*_test_split3.txt"):
        published.hmdb51(tmp_path / "splits", tmp_path / "videos", number=3)


def test_something_something(tmp_path):
    put(tmp_path / "videos", "78687.webm", "42326.webm")
    written(
        tmp_path / "labels.json",
        json.dumps({"Opening something": "0", "Holding something next to something": "1"}),
    )
    rows = [
        {
            "id": "78687",
            "label": "holding potato next to bottle",
            "template": "Holding [something] next to [something]",
            "placeholders": ["potato", "bottle"],
        },
        {
            "id": "42326",
            "label": "opening a door",
            "template": "Opening [something]",
            "placeholders": ["a door"],
        },
    ]
    listing = published.something_something(
        written(tmp_path / "train.json", json.dumps(rows)), tmp_path / "videos"
    )
    assert gist(listing) == [("78687.webm", 1, None), ("42326.webm", 0, None)]
    with videos(listing, Segments(2)) as dataset:
        (batch,) = dataset.batch(2)
    assert {name: batch[name] for name in ("id", "text", "placeholders")} == {
        "id": ("78687", "42326"),
        "text": ("holding potato next to bottle", "opening a door"),
        "placeholders": (["potato", "bottle"], ["a door"]),
    }
    unlabeled = written(tmp_path / "test.json", json.dumps([{"id": "78687"}]))
    assert gist(published.something_something(unlabeled, tmp_path / "videos")) == [("78687.webm", -1, None)]
    odd = written(tmp_path / "odd.json", json.dumps([{**rows[0], "template": "Throwing [something]"}]))
    with pytest.raises(
        ManifestError, match=r"odd.json: line 1: the label 'Throwing something' is not one of the classes"
    ):
        published.something_something(odd, tmp_path / "videos")


AVA = """film,0902,0.1,0.2,0.3,0.4,12,7
film,0902,0.1,0.2,0.3,0.4,80,7
film,0902,0.5,0.5,1.0,1.0,12,8
film,0901,0.0,0.0,1.0,1.0,1,7
"""


def test_ava(tmp_path):
    put(tmp_path / "videos", "film.mkv")
    path = written(tmp_path / "ava_val.csv", AVA)
    excluded = written(tmp_path / "excluded.csv", "film,0901\n")
    listing = published.ava(path, tmp_path / "videos", duration_s=1.0, starts_at_s=901, excluded=excluded)
    (entry,) = listing
    assert (entry.key, entry.part, entry.label) == ("film.mkv", Range(start_s=0.5, end_s=1.5), (11, 79))
    with videos(listing, Clip(4, per_video=1, starts="even")) as dataset:
        (batch,) = dataset.batch(1)
    assert 0.9 < batch["timestamps"].mean() < 1.1
    assert np.flatnonzero(batch["label"][0]).tolist() == [11, 79]
    assert batch["timestamp"].tolist() == [902]
    np.testing.assert_allclose(batch["boxes"], [[[0.1, 0.2, 0.3, 0.4], [0.5, 0.5, 1, 1]]])
    assert [np.flatnonzero(row).tolist() for row in batch["actions"][0]] == [[11, 79], [11]]
    assert batch["persons"].tolist() == [[7, 8]]
    with pytest.raises(ManifestError, match=r"line 1: the action 81; allowed: 1 to 80"):
        published.ava(written(tmp_path / "bad.csv", "film,1,0,0,1,1,81,1\n"), tmp_path / "videos")


def test_a_file_that_is_not_there():
    with pytest.raises(SourceNotFoundError, match="no such manifest"):
        published.video_list(Path("nowhere.txt"))


def test_times_that_are_no_finite_numbers_are_named(tmp_path):
    """They ended in a ValueError of int()."""
    for text in ("nan", "inf"):
        path = written(
            tmp_path / "a.csv", f"label,youtube_id,time_start,time_end,split\nrun,a,{text},3,train\n"
        )
        with pytest.raises(ManifestError, match=rf"a\.csv: line 2: '{text}' is not a number"):
            published.kinetics(path)


def test_a_field_that_csv_cannot_read_is_named(tmp_path):
    """It ended in csv.Error."""
    path = written(tmp_path / "a.csv", "label,youtube_id,time_start,time_end\n" + "x" * 140_000 + ",a,1,2\n")
    with pytest.raises(ManifestError, match=r"a\.csv: line 2: the line cannot be read"):
        published.kinetics(path)


@pytest.mark.parametrize("numbers", [("0", "2"), ("0", "0"), ("1", "2")])
def test_templates_are_numbered_without_gaps(tmp_path, numbers):
    """Labels were the places of the templates, not the numbers that the file gives them."""
    index = dict(zip(("Holding something", "Moving something"), numbers, strict=True))
    written(tmp_path / "labels.json", json.dumps(index))
    path = written(tmp_path / "train.json", json.dumps([{"id": 1, "template": "Holding [something]"}]))
    with pytest.raises(ManifestError, match="the numbers of the templates are not 0 to 1"):
        published.something_something(path, tmp_path, missing="skip")


def test_folders_as_mmaction_renames_them(tmp_path):
    text = "label,youtube_id,time_start,time_end,split\nplaying (loud) drums,-0abc,10,20,train\n"
    root = put(tmp_path / "videos", "playing_-loud-_drums/-0abc_000010_000020.mp4")
    listing = published.kinetics(written(tmp_path / "train.csv", text), root)
    assert listing.classes == ("playing (loud) drums",)
    assert gist(listing) == [("playing_-loud-_drums/-0abc_000010_000020.mp4", 0, None)]


def test_a_list_of_paths_with_blanks_and_without_labels(tmp_path):
    put(tmp_path, "my video.mp4", "b.mp4")
    listing = published.video_list(written(tmp_path / "test.txt", "my video.mp4\nb.mp4\n"))
    assert gist(listing) == [("my video.mp4", -1, None), ("b.mp4", -1, None)]


@pytest.mark.parametrize("text", ["path,label", "video label", "filename\tclass"])
def test_a_header_that_should_not_be_there(tmp_path, text):
    put(tmp_path, "a.mp4")
    path = written(tmp_path / "list.csv", f"{text}\na.mp4,1\n")
    with pytest.raises(ManifestError, match=r"line 1: .* seems to be a header; .*files that end in \.csv"):
        published.video_list(path, missing="skip")


def test_lists_and_files_that_lack_something_say_what_to_give(tmp_path):
    put(tmp_path, "A/v_A_g01_c01.avi", "film.mp4")
    with pytest.raises(SourceNotFoundError, match=r"no file .*classInd\.txt\. Give index=…"):
        published.ucf101(written(tmp_path / "trainlist01.txt", "A/v_A_g01_c01.avi 1\n"))
    listing = published.ava(written(tmp_path / "ava.csv", "film,902,0.1,0.1,0.9,0.9,3,0\n"), tmp_path)
    with pytest.raises(FrameRangeError, match=r"AVA's clock reads 0 s where the file begins \(starts_at_s\)"):
        videos(listing, Clip(2))
