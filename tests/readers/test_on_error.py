"""What cannot be read: raised, left out or substituted; never in silence, and never with wrong frames."""

from __future__ import annotations

import shutil

import numpy as np
import pytest

from seqpipe import Clip, Decode, Segments, videos
from seqpipe.errors import (
    DamagedSourceError,
    ParameterError,
    SourceError,
    SourceNotFoundError,
    UnreadableSourceError,
)
from seqpipe.readers import Loss, Range
from tests.support.datasets import assert_true_frames, clips, files, gists, images, planned
from tests.support.media import entry, made, made_all

UNREADABLE = (
    "empty",
    "text",
    "audio_only",
    "audio_cover",
    "no_frames",
    "header_cut_mp4",
    "header_cut_mkv",
    "header_cut_ts",
)
UNREADABLE += ("unknown_codec_mp4", "data_cut_moov", "bytes")
# Damage that libavcodec shows no sign of is the decoding's concern; here, losses that are known to be seen.
DAMAGED = (
    "h264_flip_key",
    "h264_flip_reference",
    "h264_flip_disposable",
    "h264_lost_key",
    "h264_lost_reference",
)
DAMAGED += (
    "hevc_lost_key",
    "hevc_lost_disposable",
    "vp9_mp4_lost_reference",
    "av1_lost_reference",
    "mpeg4_mp4_lost_key",
)
DAMAGED += ("data_cut_mp4", "data_cut_mkv", "data_cut_ts", "data_cut_webm", "data_cut_avi")
# A packet of zeros does not tell whether others needed it, so all that may have is given up.
CAUTIOUS = ("hevc_lost_disposable",)


def pixels_of(name):
    """Windows of 4 frames of a sound item by their first frame."""
    with videos(files(name), Clip(4)) as dataset:
        return {int(s.frames[0]): s.numpy().tobytes() for s in images(dataset)}


@pytest.mark.parametrize("name", UNREADABLE)
def test_a_file_that_cannot_be_opened_is_raised_or_reported(name):
    paths = files("h264", name, "vp9")
    with pytest.raises(UnreadableSourceError) as caught:
        videos(paths, Segments(2))
    assert caught.value.source == paths[1]
    assert str(caught.value).startswith(paths[1])
    for policy in ("skip", "substitute"):
        with videos(paths, Segments(2), on_error=policy) as dataset:
            (batch,) = dataset.batch(4)
        assert batch.sources == (paths[0], paths[2])
        (loss,) = dataset.report().losses
        assert (loss.source, loss.fate, loss.reason) == (paths[1], "video left out", caught.value.fact)
        assert repr(dataset.report()).startswith("Report(2 of 3 videos, 2 samples; 1 × video left out)\n")
        assert paths[1] in repr(dataset.report())


def test_a_missing_path_and_a_folder(tmp_path):
    with pytest.raises(SourceNotFoundError, match=r"gone\.mp4: no such file"):
        videos([made("h264"), tmp_path / "gone.mp4"], Segments(2))
    with pytest.raises(UnreadableSourceError, match=r"this is a folder.*seqpipe\.videos.*seqpipe\.folders"):
        videos([tmp_path], Segments(2))


def test_no_video_that_can_be_used():
    with pytest.raises(
        UnreadableSourceError, match=r"none of the 2 videos can be used; the first one: .*seqpipe probe"
    ):
        videos(files("text", "empty"), Segments(2), on_error="skip")


@pytest.mark.parametrize(
    ("part", "said"),
    [
        (Range(start_frame=48), r"the range from frame 48 to 48 is not in the video; allowed: 0 to 48"),
        (Range(end_frame=49), r"the range from frame 0 to 49 is not in the video"),
        (Range(start_s=9.0), r"no frame begins from start_s=9\.0 up to end_s=None"),
    ],
)
def test_ranges_outside_of_the_video(part, said):
    paths = files("h264", "vp9")
    with pytest.raises(SourceError, match=said) as caught:
        clips(paths, ranges=[None, part], count=2)
    assert caught.value.source == paths[1]
    kept = clips(paths, ranges=[None, part], count=2, on_error="skip")
    assert [loss.source for loss in kept.report().losses] == [paths[1]]


def test_a_crop_that_leaves_one_picture_costs_only_that_video():
    paths = files("wide_h264", "odd_vp9")
    kept = clips(paths, crop=(0, 0, 90, 120), count=2, on_error="skip")
    assert [r.source for r in planned(kept)] == paths[:1]
    assert kept.report().losses[0].reason.startswith("crop of 120x90 pixels at x=0, y=0")


@pytest.mark.parametrize("name", DAMAGED)
def test_skipping_keeps_all_that_is_sound(name):
    found = entry(name)
    paths = files(found.twin, name, found.twin)
    with clips(paths, length=4, on_error="skip", threads=2) as dataset:
        batches = list(dataset.batch(5))
        report = dataset.report()
    assert sum(batch.lost for batch in batches) <= sum(loss.times for loss in report.losses)
    sound = pixels_of(found.twin)
    given = {0: [], 1: [], 2: []}
    for batch in batches:
        for sequence, video in zip(batch["image"], batch["video"].tolist(), strict=True):
            assert sequence.source == paths[video]
            given[video].append(int(sequence.frames[0]))
            assert sequence.numpy().tobytes() == sound[given[video][-1]], f"{name} frame {given[video][-1]}"
    assert given[0] == given[2] == sorted(sound)
    free = [start for start in sorted(sound) if not set(range(start, start + 4)) & set(found.lost)]
    if name in CAUTIOUS:
        assert set(given[1]) <= set(free)
    else:
        assert given[1] == free
    assert given[1]
    # what the index knows to be missing makes no samples; every other loss is named
    missing = sum(request.video == 1 for request in planned(dataset)) - len(given[1])
    assert report.counts == ({"sample left out": missing} if missing else {})
    for loss in report.losses:
        assert (loss.source, loss.times) == (paths[1], missing)
        assert set(loss.frames) & set(found.lost)


def test_the_damaged_items_are_all_known():
    assert set(DAMAGED) <= {found.name for found in made_all("damaged")}


def outcomes(running):
    """Indices of each batch or sample, or "error", and the errors."""
    given, errors = [], []
    while True:
        try:
            one = next(running)
        except DamagedSourceError as error:
            errors.append(error)
            given.append("error")
        except StopIteration:
            return given, errors
        else:
            given.append(np.asarray(one["index"]).tolist())


def test_raising_comes_at_its_batch_and_iteration_goes_on():
    paths = files("h264", "h264_lost_key", "vp9")  # frames 24 to 47 of the second are lost
    with videos(paths, Clip(12)) as dataset:  # 4 samples each; 6 and 7 are lost
        running = iter(dataset.batch(3))
        given, errors = outcomes(running)
        assert given == [[0, 1, 2], [3, 4, 5], "error", [9, 10, 11]]
        assert running.state_dict()["history"] == [[1, 12]]
        assert [error.source for error in errors] == [paths[1]]
        assert set(errors[0].lost) <= set(range(24, 48))
        assert dataset.report().counts == {"sample raised": 2}


def test_the_state_after_an_error_is_behind_it():
    with videos(files("h264_lost_key", "vp9"), Clip(12)) as dataset:
        running = iter(dataset.batch(4))
        with pytest.raises(DamagedSourceError):
            next(running)
        state = running.state_dict()
        assert [batch["index"].tolist() for batch in dataset.batch(3).resume(state)] == [[4, 5, 6], [7]]
        assert [batch["index"].tolist() for batch in running] == [[4, 5, 6, 7]]


def test_raising_of_single_samples_costs_only_the_lost_one():
    with videos(files("h264_lost_key", "vp9"), Clip(12), decode=Decode(threads=3)) as dataset:
        running = iter(dataset)
        given, errors = outcomes(running)
        assert given == [0, 1, "error", "error", 4, 5, 6, 7]
        assert len(errors) == 2
        for read in (lambda: dataset.sample(2), lambda: dataset.read([0, 2])):
            with pytest.raises(DamagedSourceError):
                read()


def test_a_batch_that_lost_all_is_passed_over():
    with videos(files("h264_lost_key", "vp9"), Clip(12), on_error="skip") as dataset:
        running = iter(dataset.batch(2))
        assert [batch["index"].tolist() for batch in running] == [[0, 1], [4, 5], [6, 7]]
        assert running.state_dict()["history"] == [[1, 8]]
        assert [(batch["index"].tolist(), batch.lost) for batch in dataset.batch(3)] == [
            ([0, 1], 1),
            ([4, 5], 1),
            ([6, 7], 0),
        ]


def test_single_samples_leave_lost_ones_out():
    with videos(files("h264_lost_key", "vp9"), Clip(12), on_error="skip") as dataset:
        assert [sample["index"] for sample in dataset] == [0, 1, 4, 5, 6, 7]
        with pytest.raises(ParameterError, match=r"sample 2 cannot be read.*report\(\)"):
            dataset.sample(2)
        assert dataset.read([1, 2, 5])["index"].tolist() == [1, 5]


def test_a_substitute_is_a_sample_of_another_video():
    paths, labels = files("h264_lost_key", "vp9", "av1"), [7, 8, 9]
    with clips(paths, labels=labels, length=12, on_error="substitute", threads=3, batch=4) as dataset:
        batches = list(dataset)
        assert [batch["index"].tolist() for batch in batches[1:]] == [[4, 5, 6, 7], [8, 9, 10, 11]]
        assert batches[0]["index"].tolist()[:2] == [0, 1]
        assert set(batches[0]["index"].tolist()[2:]) <= set(range(4, 12))
        assert dataset.report().counts == {"sample substituted": 2}
        for batch in batches:
            videos_of = [index // 4 for index in batch["index"].tolist()]
            assert batch["video"].tolist() == videos_of
            assert batch["label"].tolist() == [labels[video] for video in videos_of]
            assert batch.sources == tuple(paths[video] for video in videos_of)
            for sequence, pixels in zip(batch["image"], batch["image"].numpy(), strict=True):
                assert_true_frames(sequence)
                assert np.array_equal(pixels, sequence.numpy()), "the array has the substitute too"


def test_a_sound_sample_of_the_same_video_comes_second():
    paths = files("mpeg4_mp4_lost_key", "vp9")  # frames 10 to 23 are lost: samples 0 and 1, not 2 and 3
    with videos(paths, Clip(12), on_error="substitute") as dataset:
        given = next(iter(dataset.batch(4)))["index"].tolist()
        assert set(given[:2]) <= {4, 5, 6, 7}
        assert given[2:] == [2, 3]
    with videos(paths[:1], Clip(12), on_error="substitute") as dataset:
        given = next(iter(dataset.batch(4)))["index"].tolist()
        assert set(given[:2]) <= {2, 3}
        assert given[2:] == [2, 3]


def test_substitutes_do_not_depend_on_batches_threads_ranks_or_history():
    paths = files("h264_lost_key", "odd_vp9", "hevc_lost_key", "av1")

    def given(**options):
        common = {"length": 12, "shuffle": True, "seed": 2, "on_error": "substitute"}
        with clips(paths, **common, **options) as dataset:
            return [
                pair
                for batch in dataset
                for pair in zip(batch["index"].tolist(), batch["label"].tolist(), strict=True)
            ]

    expected = given(batch=16)
    assert len(expected) == 16
    for options in ({"threads": 4, "batch": 3}, {"batch": 1}, {"batch": 5, "ragged": "pad"}):
        assert given(**options) == expected
    assert sorted(pair for rank in range(3) for pair in given(batch=2, shard=(rank, 3))) == sorted(expected)


def test_where_no_other_video_is_left_the_same_one_serves():
    with videos(files("h264_lost_key"), Clip(12), on_error="substitute") as dataset:
        (batch,) = dataset.batch(4)
        assert batch["index"].tolist()[:2] == [0, 1]
        assert set(batch["index"].tolist()[2:]) <= {0, 1}
    with videos(files("h264_lost_key"), Clip(40), on_error="substitute") as dataset:
        assert list(dataset.batch(2)) == []
        assert dataset.report().counts == {"sample left out": 1}


def test_a_file_that_goes_away_after_the_dataset_was_made(tmp_path):
    here, gone = tmp_path / "here.mp4", tmp_path / "gone.mp4"
    for path in (here, gone):
        shutil.copy(made("h264"), path)
    for options in ({"length": 12}, {"length": 12, "fps": 25}):
        shutil.copy(made("h264"), gone)
        with clips([gone, here], on_error="skip", **options) as dataset:
            gone.unlink()
            (batch,) = dataset.batch(8)
            assert batch.sources == (str(here),) * 4
            (loss,) = dataset.report().losses
            assert (loss.source, loss.fate, loss.times) == (str(gone), "sample left out", 4)
            assert loss.reason.startswith("no such file")


def test_a_video_that_cannot_be_read_either_is_no_substitute(tmp_path):
    lost, gone, sound = made("h264_lost_key"), tmp_path / "gone.mp4", made("vp9")
    shutil.copy(made("h264"), gone)
    options = {"length": 12, "fps": 25, "on_error": "substitute"}
    with clips([lost, gone, sound], **options) as dataset:
        gone.unlink()
        (batch,) = dataset.batch(len(dataset))
    assert set(batch.sources) == {str(lost), str(sound)}
    assert len(batch["index"]) == len(dataset)


def test_a_file_that_comes_back_is_read(tmp_path):
    """That its clock could not be read was kept, for as long as the same samples were asked for."""
    video = tmp_path / "a.mp4"
    shutil.copy(made("h264"), video)
    with videos([video], Clip(4, fps=25)) as dataset:
        video.unlink()
        with pytest.raises(SourceNotFoundError):
            next(iter(dataset.batch(99)))
        shutil.copy(made("h264"), video)
        assert len(next(iter(dataset.batch(99)))["index"]) == 12


@pytest.mark.parametrize("name", ["h264_long_gop", "vfr"])  # more frames; as many, over a longer time
def test_a_file_whose_clock_is_another_one_by_now_is_named(tmp_path, name):
    """It was an error of a parameter, which named no file."""
    video = tmp_path / "a.mp4"
    shutil.copy(made(name), video)
    with videos([video], Clip(4, fps=25)) as dataset:
        shutil.copy(made("h264"), video)
        said = r"a\.mp4: the video no longer contains sample \d+: .*create the dataset again"
        with pytest.raises(SourceError, match=said):
            list(dataset.batch(8))


def test_stale_and_damaged_indexes_are_built_anew(tmp_path):
    video, cache = tmp_path / "a.mp4", tmp_path / "cache"
    shutil.copy(made("h264"), video)
    options = {"source": [video], "length": 8, "cache_dir": cache}
    with clips(**options) as dataset:  # at its end it has written what it has learned
        expected = gists(dataset.batch(3))
    (index,) = cache.rglob("*.idx")
    index.write_bytes(index.read_bytes()[:100])
    assert gists(clips(**options).batch(3)) == expected
    shutil.copy(made("h264_ts_second"), video)
    assert clips(**options).size == 3


def test_the_report_stays_small():
    with videos(files("h264_lost_key", "vp9"), Clip(4), on_error="skip") as dataset:
        for epoch in dataset.batch(8).epochs(3):
            list(epoch)
        (loss,) = dataset.report().losses
    assert loss.times == 18
    assert loss.frames == tuple(range(24, 48))
    assert str(loss).startswith(f"{made('h264_lost_key')}: sample left out ×18: ")
    assert str(loss).endswith("; 24 frames in all")


@pytest.mark.parametrize(
    ("times", "frames", "text"),
    [
        (1, (3, 4), "a.mp4: sample left out: no picture"),
        (2, (3, 4), "a.mp4: sample left out ×2: no picture; 2 frames in all"),
        (2, (), "a.mp4: sample left out ×2: no picture"),
    ],
)
def test_a_loss_of_several_samples_tells_their_number_and_frames(times, frames, text):
    loss = Loss(source="a.mp4", fate="sample left out", reason="no picture", frames=frames, times=times)
    assert str(loss) == text
