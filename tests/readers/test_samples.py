"""The samples of a dataset: the right frames of the right videos, for every sampler, judged by the pixels."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

import seqpipe
from seqpipe import Clip, Segments, videos
from seqpipe.readers import Range
from tests.support.datasets import assert_true_frames, clips, files, frames_of, images, planned, shown

MIXED = ("h264", "hevc_open_gop", "vp9_altref", "av1", "mpeg2_ts", "edit_list", "h264_ts_second")


def windows(first, end, length, stride, step):
    """A model written otherwise: all starts, and those that fit."""
    every = [list(range(s, s + length * stride, stride))[:length] for s in range(first, end, step)]
    return [w for w in every if w[-1] < end]


def test_windows_of_many_codecs_show_the_frames_they_name():
    with videos(files(*MIXED), Clip(5, stride=3, step=9)) as dataset:
        sequences = images(dataset)
    lengths = [48, 48, 48, 48, 48, 29, 24]
    model = [
        (path, w) for path, n in zip(files(*MIXED), lengths, strict=True) for w in windows(0, n, 5, 3, 9)
    ]
    assert [(s.source, s.frames.tolist()) for s in sequences] == model
    for sequence in sequences:
        assert_true_frames(sequence)
        assert sequence.shape == (5, 96, 128, 3)
        assert sequence.layout == "FHWC"


def test_default_step_tiles_the_video():
    with videos(files("h264"), Clip(4, stride=2)) as dataset:
        assert frames_of(dataset) == windows(0, 48, 4, 2, 8)
        assert [shown(s) for s in images(dataset)] == windows(0, 48, 4, 2, 8)


def test_random_clips_differ_by_epoch_and_are_the_same_again():
    with videos(files("h264", "vp9"), Clip(4, stride=5, per_video=3), seed=4) as dataset:
        first, second = frames_of(dataset, 0), frames_of(dataset, 1)
        assert len(dataset) == len(first) == 6
        assert first != second
        assert frames_of(dataset, 0) == first
        for clip in first + second:
            assert np.diff(clip).tolist() == [5, 5, 5]
            assert clip[0] >= 0
            assert clip[-1] < 48
        later = images(dataset.epoch(1))
        assert [s.frames.tolist() for s in later] == second
        for sequence in later:
            assert_true_frames(sequence)


def test_a_clip_depends_on_seed_epoch_and_index_alone():
    paths = files("h264", "vp9", "hevc", "av1", "vp8")
    options = {"length": 3, "stride": 2, "per_video": 4, "seed": 11}
    plain = {r.index: r.frames.tolist() for r in planned(clips(paths, **options), 3)}
    other = {}
    for rank in range(3):
        part = clips(paths, shuffle=True, shard=(rank, 3), threads=4, **options)
        other |= {r.index: r.frames.tolist() for r in planned(part, 3)}
    assert other == plain
    assert {r.index: r.frames.tolist() for r in planned(clips(paths, **{**options, "seed": 12}), 3)} != plain


@pytest.mark.parametrize("mode", ["random", "center"])
def test_segments_take_one_frame_of_each_part(mode):
    with videos(files("h264", "h264_ts_second"), Segments(6, where=mode)) as dataset:
        for sequence, count in zip(images(dataset), (48, 24), strict=True):
            parts = [frame * 6 // count for frame in sequence.frames]
            assert parts == list(range(6))
            assert_true_frames(sequence)
        assert (frames_of(dataset, 0) == frames_of(dataset, 1)) == (mode == "center")


def test_linspace_takes_the_first_and_the_last_frame():
    with videos(files("h264", "h264_ts_second"), Segments(5, where="linspace")) as dataset:
        for sequence, count in zip(images(dataset), (48, 24), strict=True):
            wanted = np.floor(np.linspace(0, count - 1, 5) + 0.5).astype(int)
            assert sequence.frames.tolist() == wanted.tolist()
            assert_true_frames(sequence)


def test_frame_rate_goes_by_the_clock_of_uneven_videos():
    names = ("vfr", "h264", "ntsc_mkv", "start_10s_ts")
    with videos(files(*names), Clip(6, fps=10, step=6)) as dataset:
        place = Counter()
        for sequence in images(dataset):
            with seqpipe.open(sequence.source) as video:
                times = video.timestamps
            # positions 6 w … 6 w + 5 of a clock of 10 Hz that starts with the video; a millisecond, the coarsest
            # tick, so that rounded times count as equal
            at = times[0] + (6 * place[sequence.source] + np.arange(6)) / 10 + 1e-3
            place[sequence.source] += 1
            assert sequence.frames.tolist() == (np.searchsorted(times, at, side="right") - 1).tolist()
            assert_true_frames(sequence)
        assert {s.source for s in images(dataset)} == set(files(*names))


def test_random_clips_at_a_frame_rate():
    with videos(files("vfr", "h264"), Clip(4, fps=5, per_video=2)) as dataset:
        for sequence in images(dataset):
            assert_true_frames(sequence)
            assert np.diff(sequence.timestamps).mean() == pytest.approx(0.2, abs=0.06)


def test_ranges_in_frames_and_seconds():
    ranges = [
        Range(start_frame=10, end_frame=20),
        None,
        Range(start_s=0.4, end_s=0.8),
        Range(start_s=10.4, end_s=10.8),
    ]
    paths = files("h264", "vp9", "h264", "start_10s_mkv")
    with clips(paths, ranges=ranges, length=2, stride=2, step=2) as dataset:
        by_video = {}
        for request in planned(dataset):
            by_video.setdefault(request.video, []).append(request.frames.tolist())
        assert by_video == {
            0: windows(10, 20, 2, 2, 2),
            1: windows(0, 48, 2, 2, 2),
            2: windows(10, 20, 2, 2, 2),  # 25 frames a second: 0.4 s is frame 10, 0.8 s the first one behind
            3: windows(10, 20, 2, 2, 2),
        }
        assert shown(dataset.sample(0)["image"]) == [10, 12]


@pytest.mark.parametrize("part", [Range(start_s=0.4, end_s=1.2), Range(start_frame=10, end_frame=30)])
def test_a_frame_rate_within_a_range(part):
    with clips(files("h264"), ranges=[part], length=4, fps=5, pad="edge") as dataset:
        (sequence,) = images(dataset)
    assert shown(sequence) == [10, 15, 20, 25]


def test_a_range_in_seconds_ends_in_the_middle_of_a_frame():
    part = Range(start_s=0.4, end_s=0.41)  # frame 10 is shown until 0.44 s, but is used until 0.41 s only
    options = {"length": 2, "fps": 50, "pad": "constant"}
    (request,) = planned(clips(files("h264"), ranges=[part], **options))
    assert request.frames.tolist() == [10, -1]


@pytest.mark.parametrize("mode", ["edge", "constant", "reflect", "wrap"])
def test_padding_stays_inside_of_the_range(mode):
    options = {"length": 6, "stride": 2, "pad": mode, "fill": 77}
    part = Range(start_frame=5, end_frame=12)  # frames 5 7 9 11 and two of padding
    with clips(files("h264"), ranges=[part], step=12, **options) as dataset:
        (sequence,) = images(dataset)
    assert sequence.frames.tolist() == [5, 7, 9, 11, -1, -1]
    assert np.isnan(sequence.timestamps[4:]).all()
    if mode == "constant":
        assert (sequence.data[4:] == 77).all()
    else:
        assert shown(sequence) == np.pad([5, 7, 9, 11], (0, 2), mode=mode).tolist()


def test_shuffle_and_shards_give_everything_once_in_every_epoch():
    paths = files("h264", "vp9", "hevc", "av1")
    options = {"length": 4, "stride": 1, "shuffle": True, "seed": 3}
    whole = clips(paths, **options)
    for stick in (False, True):
        kept = []
        for epoch in range(3):
            parts = [clips(paths, shard=(rank, 5), stick=stick, **options) for rank in range(5)]
            indices = [[r.index for r in planned(part, epoch)] for part in parts]
            assert (
                sorted(index for part in indices for index in part)
                == list(range(whole.size))
                == list(range(48))
            )
            assert {len(part) for part in indices} <= {9, 10}
            assert [len(part.epoch(epoch)) for part in parts] == [len(part) for part in indices]
            kept.append([set(part) for part in indices])
        assert (kept[0] == kept[1] == kept[2]) == stick


def test_even_shards_have_equal_lengths():
    options = {"length": 5, "shard": (1, 4), "even": True}
    dataset = clips(files("h264"), **options)
    assert (dataset.size, [len(list(dataset.epoch(epoch))) for epoch in range(3)]) == (9, [3] * 3)


def test_samples_are_chosen_without_decoding(monkeypatch):
    dataset = videos(files("h264", "vp9"), Clip(8, per_video=5), shuffle=True).batch(4)
    monkeypatch.setattr("seqpipe.video.engine.engine.Engine.submit", lambda *_: pytest.fail("decoded"))
    assert sorted(request.index for request in planned(dataset, 7)) == list(range(dataset.size))
    assert len(dataset) == len(dataset.epoch(7)) == 3
    assert dataset.epoch(7).state_dict()["epoch"] == 7


def test_sample_by_index_ignores_rank_and_order():
    paths = files("h264", "vp9")
    rank = videos(paths, Clip(8), shuffle=True, seed=9).shard(1, 3)
    assert rank.size == 12
    plain = images(videos(paths, Clip(8)))
    for index in (0, 7, 11):
        sample = rank.sample(index)["image"]
        assert (sample.source, shown(sample)) == (plain[index].source, shown(plain[index]))
    for index in (12, -1, 1.5, "1"):
        with pytest.raises(seqpipe.ParameterError, match=rf"index={index!r} is not valid; allowed: 0 to 11"):
            rank.sample(index)
    assert rank.read([11, 0])["image"].sources == (plain[11].source, plain[0].source)


def test_videos_that_are_too_short_are_reported_and_left_out():
    paths = files("h264", "h264_ts_second", "vp9")
    said = (
        r"^1 of 3 videos are too short and left out: length=10 with stride=3 needs 28 frames\. Give "
        r"pad='edge' .*report\(\) names them"
    )
    with pytest.warns(UserWarning, match=said) as warned:
        dataset = videos(paths, Clip(10, stride=3))
    assert [warning.filename for warning in warned] == [__file__]
    assert [r.source for r in planned(dataset)] == [paths[0], paths[2]]
    (loss,) = dataset.report().losses
    assert (loss.source, loss.fate) == (paths[1], "too short")
    assert loss.reason == "it has 24 frames; length=10 with stride=3 needs 28 frames"
    assert dataset.report().counts == {"too short": 1}
    filtered = videos(paths, Clip(2, min_frames=30))
    assert filtered.report().losses[0].reason.startswith("it has 24 frames; min_frames=30 are required")
    assert {r.source for r in planned(filtered)} == {paths[0], paths[2]}


def test_sequences_know_their_label_and_index():
    """Without them, who iterates over a dataset cannot train on it."""
    with clips(files("h264", "vp9"), labels=[4, 9], length=16, shuffle=True) as dataset:
        wanted = [(one.label, one.index, one.source) for one in planned(dataset)]
        assert [(one.label, one.index, one.source) for one in images(dataset)] == wanted
        assert [(one["label"], one["index"], *one.sources) for one in dataset] == wanted
        alone = dataset.sample(dataset.size - 1)
        assert (alone["label"], alone["index"], alone.sources) == (9, dataset.size - 1, (files("vp9")[0],))
        (batch,) = dataset.batch(100)
        assert list(zip(batch["label"], batch["index"], batch.sources, strict=True)) == wanted
        assert [(one.label, one.index, one.source) for one in batch["image"]] == wanted
