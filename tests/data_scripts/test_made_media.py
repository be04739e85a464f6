from __future__ import annotations

import itertools

import av
import pytest

from data_scripts.frame_code import read
from data_scripts.make_videos import ITEMS
from data_scripts.media_item import read_manifest
from tests.support import ffmpeg, media
from tests.support.deep import deep_but

# Items in which several frames share a timestamp, or the clock begins again.
_CLOCK_REPEATS = {"duplicate_pts", "duplicate_pts_mp4", "joined"}


def test_every_item_can_be_made_here_and_is_in_the_manifest():
    assert [entry.note for entry in media.entries().values() if entry.state == "skipped"] == []
    assert list(read_manifest(media.MADE_DIR / "manifest.tsv")) == list(ITEMS)


def _read_by_pyav(path):
    with av.open(str(path)) as container:
        frames = list(container.decode(video=0))
        return [read(frame.to_ndarray(format="rgb24")) for frame in frames], frames


# what the judge shows is proven of all, and test_exact.py that PyAV's pixels are the judge's
@pytest.mark.parametrize("name", deep_but(media.names("sound")[::6], media.names("sound")))
def test_pyav_shows_the_numbers_of_a_sound_item_in_presentation_order(name):
    expected = media.entry(name)
    numbers, frames = _read_by_pyav(media.made(name))
    assert tuple(numbers) == expected.numbers
    assert {(frame.format.name, frame.width, frame.height) for frame in frames} == {
        (expected.pix_fmt, expected.width, expected.height)
    }


@pytest.mark.parametrize("name", deep_but(media.names("sound")[::3], media.names("sound")))
def test_the_judge_shows_the_same_numbers_without_complaint(name):
    path, expected = media.made(name), media.entry(name)
    judged = ffmpeg.judge(path)
    assert judged.complaints == ()
    assert (judged.pix_fmt, judged.width, judged.height) == (
        expected.pix_fmt,
        expected.width,
        expected.height,
    )
    planes = ffmpeg.all_planes(path)
    assert tuple(read(arrays[0]) for arrays in planes) == expected.numbers
    times = ffmpeg.frame_times(path)
    rising = all(first < second for first, second in itertools.pairwise(times))
    assert rising == (name not in _CLOCK_REPEATS)


@pytest.mark.parametrize("name", media.names("damaged"))
def test_a_damaged_item_differs_from_its_twin_in_the_lost_frames_alone(name):
    entry = media.entry(name)
    twin = media.entry(entry.twin)
    assert entry.lost
    assert set(entry.lost) < set(entry.numbers)
    clean = dict(zip(twin.numbers, ffmpeg.judge(media.made(entry.twin)).frames, strict=True))
    found = {frame.time_s: frame.md5 for frame in ffmpeg.judge(media.made(name)).frames}
    for number in sorted(set(entry.numbers) - set(entry.lost)):
        assert found[clean[number].time_s] == clean[number].md5


@pytest.mark.parametrize("name", media.names("unreadable"))
def test_an_unreadable_item_gives_no_video_frame(name):
    with pytest.raises((av.FFmpegError, StopIteration, IndexError)):
        _first_frame(media.made(name))
    with pytest.raises(ffmpeg.FFmpegError, match="gives no frame"):
        ffmpeg.judge(media.made(name))


def _first_frame(path):
    with av.open(str(path)) as container:
        own = (s for s in container.streams.video if not s.disposition & s.disposition.attached_pic)
        # to decode what it has no decoder for is the end of a process with PyAV 17
        stream = next(s for s in own if s.codec_context is not None)
        return next(container.decode(stream))


def test_the_mixed_item_changes_its_size():
    _, frames = _read_by_pyav(media.made("resized"))
    assert [(frame.width, frame.height) for frame in (frames[0], frames[-1])] == [(128, 96), (176, 100)]
    assert len(frames) == media.entry("resized").frames
