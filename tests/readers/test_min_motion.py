"""min_motion: sequences only of the parts of videos where something moves."""

from __future__ import annotations

import logging
import pickle

import numpy as np
import pytest

import seqpipe
from seqpipe.readers import Range, frame_values
from seqpipe.readers.frame_values import FrameMotion
from seqpipe.video.index.open import IndexOptions
from tests.support.datasets import assert_resumes, clips, planned
from tests.support.media import made
from tests.support.motion import shifted_video

STILL, MOVING, SPEED_PX = 20, 30, 3
PER_SECOND = 100 * SPEED_PX * 25 / 160
"""What a motion of 3 pixels a frame is in percent of 160 pixels per second, at 25 frames per second."""


@pytest.fixture(scope="module")
def moving(tmp_path_factory):
    """A video whose first part is still, one whose last part is, and one that is still throughout."""
    folder = tmp_path_factory.mktemp("clips")
    offsets = [SPEED_PX * k for k in range(MOVING)]
    return [
        shifted_video(folder / "starts.mp4", [0] * STILL + offsets),
        shifted_video(folder / "stops.mp4", offsets + [offsets[-1]] * STILL),
        shifted_video(folder / "still.mp4", [0] * (STILL + MOVING)),
    ]


@pytest.fixture
def make(moving, tmp_path):
    def call(source=moving[:2], **options):
        plain = {"length": 5, "min_motion": 20, "cache_dir": tmp_path / "cache"}
        return clips(source, **{**plain, **options})

    return call


def starts(samples):
    """The first frames of samples by the names of their files."""
    found = {}
    for sample in samples:
        found.setdefault(sample.source.rpartition("/")[2], []).append(int(sample.frames[0]))
    return {name: sorted(numbers) for name, numbers in found.items()}


def test_motion_is_that_of_the_video(moving, tmp_path):
    values = FrameMotion(IndexOptions(tmp_path)).of(moving[0])
    assert len(values) == STILL + MOVING
    assert (values[: STILL - 1] < 1).all()
    assert np.abs(values[STILL:-1] / PER_SECOND - 1).max() < 0.15
    assert np.isnan(values[-1])


def test_windows_come_from_where_something_moves_alone(make):
    with make() as dataset:
        assert starts(planned(dataset)) == {
            "starts.mp4": [20, 25, 30, 35, 40, 45],
            "stops.mp4": [0, 5, 10, 15, 20, 25],
        }
        assert len(dataset) == dataset.size == 12
    with make(min_motion=0) as dataset:
        assert dataset.size == 20
    with make(min_motion=20, stride=2, pad="edge") as dataset:
        assert starts(planned(dataset))["starts.mp4"] == [20, 30, 40]


@pytest.mark.parametrize("seed", range(3))
def test_random_clips_come_from_there_too(make, seed):
    with make(per_video=8, seed=seed, shuffle=True) as dataset:
        for epoch in range(3):
            found = starts(planned(dataset, epoch))
            assert len(found["starts.mp4"]) == len(found["stops.mp4"]) == 8
            assert min(found["starts.mp4"]) >= STILL - 3
            assert max(found["stops.mp4"]) <= MOVING - 2
        assert planned(dataset, 0)[0].frames.tolist() != planned(dataset, 1)[0].frames.tolist()


def test_even_clips_are_spread_over_what_moves(make):
    with make(per_video=2, starts="even", min_motion=40) as dataset:
        assert starts(planned(dataset)) == {"starts.mp4": [20, 45], "stops.mp4": [0, 25]}


def test_ranges_hold(make, moving):
    with make([moving[0], moving[0]], ranges=[Range(end_frame=30), Range(start_frame=40)]) as dataset:
        assert [int(sample.frames[0]) for sample in planned(dataset)] == [20, 25, 40, 45]


def test_resuming_and_sharding_keep_the_samples(make):
    assert_resumes(lambda: make(shuffle=True, seed=4, batch=5))
    with make(shuffle=True) as dataset:
        whole = sorted((one.index, one.frames.tolist()) for one in planned(dataset, 1))
    parts = []
    for rank in range(3):
        with make(shuffle=True, shard=(rank, 3)) as dataset:
            parts += [(one.index, one.frames.tolist()) for one in planned(dataset, 1)]
    assert sorted(parts) == whole
    with make() as one, make(min_motion=21) as other:
        assert one.fingerprint != other.fingerprint


def test_a_copy_in_another_process_gives_the_same(make):
    with make(shuffle=True) as dataset, pickle.loads(pickle.dumps(dataset)) as copy:
        assert [one.frames.tolist() for one in planned(copy)] == [
            one.frames.tolist() for one in planned(dataset)
        ]


def test_a_still_video_is_left_out_and_counted(make, moving):
    said = r"1 of 3 videos are too still and left out: no sequence of theirs moves by min_motion=20 % of the"
    with pytest.warns(UserWarning, match=said), make(moving) as dataset:
        (loss,) = dataset.report().losses
    assert (loss.source, loss.fate) == (moving[2], "too still")
    assert (
        loss.reason == "no sequence of its 50 frames moves by min_motion=20 % of the longer side per second"
    )
    assert dataset.report().counts == {"too still": 1}
    with pytest.warns(UserWarning, match="1 of 3 videos are too short .* 1 of 3 videos are too still"):
        make([moving[0], moving[2], str(made("h264_ts_second"))], length=25, min_motion=5).close()


def test_nothing_that_moves_is_an_error(make, moving):
    said = "no video moves enough: no sequence of 1 that are long enough moves by min_motion=20 %"
    with pytest.raises(seqpipe.ParameterError, match=f"{said}.*Give a smaller min_motion"):
        make(moving[2:])
    with pytest.raises(seqpipe.ParameterError, match="has 50 frames, but length=60 with stride=1 needs 60"):
        make(moving[2:], length=60)


def test_motion_is_computed_once_and_kept_beside_the_index(make, moving, tmp_path, monkeypatch):
    with make(moving[:1]) as dataset:
        first = starts(planned(dataset))
    with monkeypatch.context() as patch:
        patch.setattr(frame_values, "_motion_of", lambda _: pytest.fail("the motion was computed again"))
        with make(moving[:1]) as dataset:
            assert starts(planned(dataset)) == first
    (kept,) = (tmp_path / "cache").rglob("*.motion")
    assert kept.stat().st_size < 4 * (STILL + MOVING) + 400
    assert kept.with_suffix(".idx").exists()
    content = kept.read_bytes()
    for damaged in (
        b"",
        content[:-1],
        content[:-4] + b"\x00\x00\x00\x00",
        b"[]\n" + content,
        b"\xff" + content,
    ):
        kept.write_bytes(damaged)
        with make(moving[:1]) as dataset:
            assert starts(planned(dataset)) == first
        assert kept.read_bytes() == content


def test_a_cache_that_cannot_be_written_is_said_once(make, moving, tmp_path, caplog):
    (tmp_path / "cache").write_text("no folder")
    with caplog.at_level(logging.WARNING), make() as dataset:
        assert dataset.size == 12
    about = [record.message for record in caplog.records if "cached" in record.message]
    assert len(about) == 1, about
    assert "values of the frames of videos cannot be cached" in about[0]


def test_changed_videos_are_measured_again(make, moving, tmp_path):
    path = tmp_path / "a.mp4"
    shifted_video(path, [0] * 10 + [3 * k for k in range(10)])
    with make([str(path)]) as dataset:
        assert starts(planned(dataset)) == {"a.mp4": [10, 15]}
    shifted_video(path, [3 * k for k in range(11)] + [30] * 10)
    with make([str(path)]) as dataset:
        assert starts(planned(dataset)) == {"a.mp4": [0, 5]}


def test_frames_that_are_lost_have_no_motion(tmp_path):
    path = made("h264_lost_key")
    values = FrameMotion(IndexOptions(tmp_path)).of(str(path))
    with seqpipe.open(path) as video:
        lost = [number for number in range(len(video)) if not _readable(video, number)]
    assert lost
    assert np.isnan(values[lost]).all()
    assert np.isfinite(values).any()


def _readable(video, number):
    try:
        return bool(len(video[number].data))
    except seqpipe.DamagedSourceError:
        return False


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"fps": 10}, "min_motion=20 and fps=10 exclude each other: min_motion goes by frame numbers"),
        ({"step": 4, "per_video": 2}, "Clip: per_video=2 and step=4 exclude each other"),
        ({"min_motion": -1}, "min_motion=-1 is not valid; allowed: a number from 0"),
    ],
)
def test_refusals(make, options, said):
    with pytest.raises(seqpipe.ParameterError, match=said):
        make(**options)
