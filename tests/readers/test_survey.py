"""Making a dataset once more: as quick as a register allows, and never by what is not so any more."""

from __future__ import annotations

import logging
import os
import shutil

import numpy as np
import pytest

from seqpipe.errors import FrameRangeError, SourceError, SourceNotFoundError, UnreadableSourceError
from seqpipe.readers import Range
from seqpipe.video.index import shared as register
from tests.support.datasets import assert_resumes, assert_true_frames, clips, gists, planned
from tests.support.media import made

NAMES = ("h264", "rotated_90", "start_10s", "ntsc", "vfr_webm", "ntsc_mkv", "odd_mpeg4")
REGULAR = NAMES[:4]

OPTIONS = {
    "windows": {"length": 5, "stride": 2, "step": 3},
    "clips": {"length": 4, "per_video": 2, "seed": 3},
    "count": {"count": 3},
    "rate": {"length": 4, "fps": 8},
    "random rate": {"length": 4, "fps": 11, "per_video": 2},
    "in seconds": {
        "length": 3,
        "ranges": [Range(start_s=0.5, end_s=1.4), None, Range(start_s=10.3), None],
    },
    "in frames": {"length": 3, "ranges": [Range(start_frame=7), Range(end_frame=30), None, None]},
    "cropped": {"length": 3, "crop": (2, 4, 40, 30), "short_side": 20, "min_frames": 40},
}


@pytest.fixture(autouse=True)
def short_lists_too(monkeypatch):
    monkeypatch.setattr(register, "_FEWEST_FILES", 1)


@pytest.fixture
def make(tmp_path):
    """Makes a dataset of copies of made videos, which a test may change."""
    folder = tmp_path / "videos"
    folder.mkdir()
    for name in NAMES:
        shutil.copy2(made(name), folder / f"{name}{made(name).suffix}")

    def call(names=REGULAR, source=None, **options):
        source = [folder / f"{name}{made(name).suffix}" for name in names] if source is None else source
        plain = {"shuffle": True, "threads": 2, "cache_dir": tmp_path / "cache"}
        plain |= {} if "count" in options else {"length": 4}
        return clips(source, **{**plain, **options})

    return call


@pytest.fixture
def no_index(monkeypatch):
    """No index is opened for a survey, nor the head of one."""
    for name in ("load_facts", "open_index"):
        monkeypatch.setattr(
            f"seqpipe.readers.survey.{name}", lambda *_, **__: pytest.fail("an index was opened")
        )


def samples_of_videos(dataset):
    """How many samples each video has."""
    return np.bincount([request.video for request in planned(dataset)]).tolist()


def told(dataset):
    """All that decides what a dataset gives."""
    requests = [
        (sample.index, sample.source, sample.frames.tolist(), sample.padding.tolist())
        for sample in planned(dataset, 1)
    ]
    of_video = {request.video: request.index for request in planned(dataset)}
    shapes = {video: dataset.sample(index)["image"].shape for video, index in of_video.items()}
    return requests, shapes, dataset.fingerprint, dataset.report()


@pytest.mark.parametrize("kind", OPTIONS)
def test_a_register_changes_nothing(make, kind, request):
    first = told(make(**OPTIONS[kind]))
    request.getfixturevalue("no_index")
    assert told(make(**OPTIONS[kind])) == first


@pytest.mark.parametrize("kind", ["windows", "rate", "random rate", "cropped"])
def test_each_video_gives_what_it_gives_alone(make, kind):
    alone = [make([name], **OPTIONS[kind]).size for name in NAMES]
    for _ in range(2):
        assert samples_of_videos(make(NAMES, **OPTIONS[kind])) == alone


@pytest.mark.parametrize("kind", ["rate", "random rate"])
def test_heads_of_indexes_tell_times_too(make, kind, tmp_path, monkeypatch):
    first = told(make(**OPTIONS[kind]))
    shutil.rmtree(tmp_path / "cache/registers")
    monkeypatch.setattr(
        "seqpipe.readers.survey.open_index", lambda *_, **__: pytest.fail("a whole index was read")
    )
    assert told(make(**OPTIONS[kind])) == first


@pytest.mark.parametrize("kind", ["windows", "rate"])
def test_uneven_clocks_are_looked_at_in_the_index(make, kind):
    first = told(make(NAMES, **OPTIONS[kind]))
    assert told(make(NAMES, **OPTIONS[kind])) == first


def test_a_register_learns_the_times_that_an_old_index_does_not_tell(make, monkeypatch, request):
    with monkeypatch.context() as patch:
        patch.setattr("seqpipe.video.index.cache.clock_of", lambda _: None)
        make()
    first = told(make(**OPTIONS["rate"]))
    request.getfixturevalue("no_index")
    assert told(make(**OPTIONS["rate"])) == first


def test_the_same_sample_comes_from_state_to_state(make):
    assert_resumes(lambda: make(batch=3))


def test_a_state_of_the_first_start_is_one_of_all_others(make):
    with make() as dataset:
        running = iter(dataset.batch(2))
        state, expected = next(running).state, gists(running)
    with make() as dataset:
        assert gists(dataset.batch(2).resume(state)) == expected


def test_a_changed_file_is_looked_at_again_once(make, tmp_path, request):
    before = make().size
    path = tmp_path / "videos/h264.mp4"
    path.write_bytes(
        made("h264_short").read_bytes() if "h264_short" in NAMES else made("joined").read_bytes()
    )
    with make(shuffle=False) as dataset:
        assert dataset.size == before + 6  # 72 frames instead of 48
        assert max(request.frames.max() for request in planned(dataset) if request.source == str(path)) == 71
    assert make().size == before + 6
    request.getfixturevalue("no_index")
    assert make().size == before + 6


def test_a_file_of_the_same_size_at_another_time_is_looked_at_again(make, tmp_path, monkeypatch):
    make()
    os.utime(tmp_path / "videos/h264.mp4", ns=(1, 1))
    looked = []
    monkeypatch.setattr(
        "seqpipe.readers.survey.load_facts",
        lambda _directory, stamp: looked.append(stamp[0].rpartition("/")[2]),
    )
    make()
    assert looked == ["h264.mp4"]


def test_a_file_that_is_gone_is_missed(make, tmp_path):
    make()
    (tmp_path / "videos/h264.mp4").unlink()
    with pytest.raises(SourceNotFoundError, match=r"h264\.mp4"):
        make()
    for _ in range(2):
        report = make(on_error="skip").report()
        assert [(loss.fate, loss.source.rpartition("/")[2]) for loss in report.losses] == [
            ("video left out", "h264.mp4")
        ]
    shutil.copy2(made("h264"), tmp_path / "videos")
    assert make().report().used == 4


@pytest.mark.parametrize(
    ("put", "fact"),
    [
        (lambda path: path.write_bytes(b""), "empty"),
        (lambda path: path.write_bytes(made("text").read_bytes()), "not a video"),
        (lambda path: (path.unlink(), path.mkdir()), "folder"),
    ],
    ids=["empty", "text", "folder"],
)
def test_what_is_no_video_any_more_is_told_as_ever(make, tmp_path, put, fact):
    make()
    put(tmp_path / "videos/rotated_90.mp4")
    for _ in range(2):  # what is known of the others does not hide it
        with pytest.raises(UnreadableSourceError, match=fact):
            make()
        (loss,) = make(on_error="skip").report().losses
        assert fact in loss.reason


@pytest.mark.parametrize("on_error", ["raise", "skip", "substitute"])
def test_a_file_that_may_not_be_read_meets_the_policy_when_it_is_read(make, on_error, monkeypatch):
    make()
    real = os.open

    def refuse(path, *arguments, **options):
        if str(path).endswith("h264.mp4"):
            raise PermissionError(13, "Permission denied")
        return real(path, *arguments, **options)

    monkeypatch.setattr("seqpipe.video.source.source.os.open", refuse)
    with make(on_error=on_error, length=16) as dataset:
        total, found, errors = dataset.size, [], []
        running = iter(dataset)
        while dataset.size > len(found) + len(errors):
            try:
                found.append(next(running)["image"])
            except StopIteration:
                break
            except SourceError as error:
                errors.append(str(error))
    for sequence in found:
        assert_true_frames(sequence)
    assert all("Permission denied" in error for error in errors)
    given = {"raise": (total - 3, 3), "skip": (total - 3, 0), "substitute": (total, 0)}
    assert (len(found), len(errors)) == given[on_error]


def test_damaged_files_are_found_when_they_are_decoded(tmp_path):
    options = {"source": [made("h264_flip_key"), made("h264")], "length": 8, "cache_dir": tmp_path}
    reports = []
    for _ in range(2):
        with clips(on_error="skip", **options) as dataset:
            list(dataset)
            reports.append(dataset.report())
    assert reports[0] == reports[1]
    assert reports[0].losses


def test_ranges_outside_of_a_video_are_told_as_ever(make):
    make()
    with pytest.raises(FrameRangeError, match="not in the video"):
        make(ranges=[None, Range(end_frame=99), None, None])
    with pytest.raises(FrameRangeError, match="no frame begins"):
        make(ranges=[None, Range(start_s=99), None, None])


def test_a_damaged_register_is_made_anew(make, tmp_path, caplog):
    first = told(make())
    (path,) = (tmp_path / "cache/registers").iterdir()
    sound = path.read_bytes()
    path.write_bytes(sound[:-30] + bytes(30))
    with caplog.at_level(logging.WARNING):
        assert told(make()) == first
    assert "is damaged" in caplog.text
    assert path.read_bytes() == sound


def test_indexes_that_are_gone_are_built_when_they_are_needed(make, tmp_path):
    with make() as dataset:
        expected = gists(dataset.batch(4))
    for folder in (tmp_path / "cache").glob("??"):
        shutil.rmtree(folder)
    with make() as dataset:
        assert gists(dataset.batch(4)) == expected
    assert len(list((tmp_path / "cache").glob("??/*.idx"))) == len(REGULAR)


def test_a_folder_and_a_manifest_use_it_too(make, tmp_path, request):
    (tmp_path / "list.csv").write_text(
        "path,label,start_frame\n" + "".join(f"videos/{name}.mp4,1,{n}\n" for name in REGULAR for n in (0, 5))
    )
    options = {"length": 4, "cache_dir": tmp_path / "cache"}
    first = told(clips(tmp_path / "list.csv", **options))
    folder = told(clips(tmp_path / "videos", **options))
    request.getfixturevalue("no_index")
    assert told(clips(tmp_path / "list.csv", **options)) == first
    assert told(clips(tmp_path / "videos", **options)) == folder


def test_remote_files_are_asked_each_time(make):
    fsspec = pytest.importorskip("fsspec")
    memory = fsspec.filesystem("memory")
    memory.pipe("/survey/h264.mp4", made("h264").read_bytes())
    files = ["memory://survey/h264.mp4", made("h264")]
    assert make(source=files).size == make(source=files).size == 24
    memory.rm("/survey/h264.mp4")
    with pytest.raises(SourceNotFoundError, match="memory://"):
        make(source=files)


def test_relative_names_are_those_of_the_folder_one_is_in(make, tmp_path, monkeypatch):
    for name, item in (("a", "h264"), ("b", "joined")):
        (tmp_path / name).mkdir()
        shutil.copy(made(item), tmp_path / name / "clip")
    lengths = []
    for folder in ("a", "b", "a"):
        monkeypatch.chdir(tmp_path / folder)
        dataset = make(source=["clip", "./clip", f"{tmp_path}/a/clip"])
        lengths.append(samples_of_videos(dataset))
    assert lengths == [[12, 12, 12], [18, 18, 12], [12, 12, 12]]
