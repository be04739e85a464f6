"""Scenes of videos: the adaptive rule, data sets that are split by it, and PySceneDetect as a judge."""

from __future__ import annotations

import numpy as np
import pytest

import seqpipe
from seqpipe import Clip, Decode, Sequence, Whole
from seqpipe.errors import ParameterError
from seqpipe.readers import frame_content
from seqpipe.readers.frame_content import FrameContent, scene_starts, unlike_before
from seqpipe.video.index.open import IndexOptions
from tests.support.media import shared_media


def starts_one_by_one(change, threshold=3.0, least=15.0, window=2, shortest=15):
    """The rule as PySceneDetect's documentation words it, frame by frame."""
    starts = [0]
    for frame in range(window, len(change) - window):
        around = [change[frame + d] for d in range(-window, window + 1) if d]
        average = sum(around) / len(around)
        ratio = change[frame] / average if average > 1e-5 else (255 if change[frame] >= least else 0)
        if ratio >= threshold and change[frame] >= least and frame - starts[-1] >= shortest:
            starts.append(frame)
    return starts


def test_scenes_begin_where_a_frame_changes_more_than_its_neighbors():
    random = np.random.default_rng(0)
    for count in (1, 4, 5, 6, 200):
        change = random.exponential(4, count)
        change[random.integers(0, count, count // 12)] = 60
        change[0] = np.nan
        assert scene_starts(change).tolist() == starts_one_by_one(np.nan_to_num(change))
    assert scene_starts(np.full(50, 100.0)).tolist() == [0], "a camera that always moves"
    assert scene_starts(np.eye(1, 50, 20)[0] * 100).tolist() == [0, 20]
    assert scene_starts(np.empty(0)).tolist() == []


def test_repeated_looks_are_not_unlike():
    looks = np.array([7, 7, 6, 4, 7, 0xFF00, 0xFF00], np.uint64)
    assert unlike_before(looks, 0).tolist() == [True, False, True, True, True, True, False]
    assert unlike_before(looks, 1).tolist() == [True, False, False, True, True, True, False]


@pytest.fixture(scope="module")
def film(tmp_path_factory):
    """Scenes of 20, 30 and 24 frames."""
    folder = tmp_path_factory.mktemp("films")
    colors = np.repeat(
        np.array([[200, 30, 30], [30, 200, 30], [30, 30, 200]], np.uint8), [20, 30, 24], axis=0
    )
    pixels = np.broadcast_to(colors[:, None, None], (74, 48, 64, 3)).copy()
    Sequence(pixels, "FHWC", timestamps=np.arange(74) / 25).save(folder / "film.mp4")
    return folder / "film.mp4"


def test_a_data_set_of_scenes_is_computed_once(film, tmp_path, monkeypatch):
    decode = Decode(cache_dir=tmp_path)
    scenes = seqpipe.videos(film, Whole(), split="scenes", decode=decode)
    assert [len(one["frames"]) for one in scenes] == [20, 30, 24]
    monkeypatch.setattr(FrameContent, "_compute", lambda *_: pytest.fail("it was computed again"))
    (tmp_path / "list.csv").write_text(f"path,start_frame,end_frame\n{film},10,60\n{film},60,74\n")
    ranges = seqpipe.videos(tmp_path / "list.csv", Whole(), split="scenes", decode=decode)
    assert [one["frames"][[0, -1]].tolist() for one in ranges] == [[10, 19], [20, 49], [50, 59], [60, 73]]


def test_a_function_finds_scenes(film, tmp_path):
    decode = Decode(cache_dir=tmp_path)
    found = seqpipe.videos(film, Clip(10, step=10), split=lambda video: [len(video) // 2], decode=decode)
    assert sorted({one["frames"][0].item() for one in found}) == [0, 10, 20, 37, 47, 57]
    with pytest.raises(
        ParameterError, match=r"the detector returned frame 74.*allowed: numbers of frames, 0 to 73"
    ):
        seqpipe.videos(film, 10, split=lambda video: [len(video)], decode=decode)
    with pytest.raises(ParameterError, match="split='cuts' is not valid"):
        seqpipe.videos(film, 10, split="cuts", decode=decode)


def test_a_video_that_cannot_be_read_meets_the_policy(film, tmp_path):
    (tmp_path / "broken.mp4").write_bytes(b"nothing")
    listed = [film, tmp_path / "broken.mp4"]
    kept = seqpipe.videos(listed, Whole(), split="scenes", on_error="skip", decode=Decode(cache_dir=tmp_path))
    assert len(kept) == 3
    assert [loss.source for loss in kept.report().losses] == [str(tmp_path / "broken.mp4")]


@pytest.mark.peers
def test_cuts_are_those_of_pyscenedetect(tmp_path):
    scenedetect = pytest.importorskip("scenedetect")
    path = shared_media() / "video/codec/vp8_tears_of_steel_70s.webm"
    video, manager = scenedetect.open_video(str(path)), scenedetect.SceneManager()
    manager.add_detector(scenedetect.AdaptiveDetector())
    manager.detect_scenes(video)
    content = FrameContent(IndexOptions(str(tmp_path), None, None)).of(str(path))
    expected = [first.frame_num for first, _ in manager.get_scene_list()]
    assert len(expected) > 10
    assert frame_content.scene_starts(content["change"]).tolist() == expected
