"""Matroska far away: frames by time come by the cues, without a pass over the file, and are those of a local file."""

from __future__ import annotations

import numpy as np
import pytest

import seqpipe
from seqpipe.errors import FrameRangeError
from seqpipe.video import reader
from tests.support import ffmpeg
from tests.support.deep import deep_but
from tests.support.media import made

NAMES = ["h264_mkv", "hevc_mkv", "vp9", "vfr_mkv", "vfr_webm", "rotated_mkv", "audio_first"]
OPEN_GOPS = ("-bf", "3", "-g", "12", "-sc_threshold", "0")
ENCODERS = {
    "h264": ("-c:v", "libx264", *OPEN_GOPS, "-x264-params", "open-gop=1:b-pyramid=normal"),
    "hevc": ("-c:v", "libx265", *OPEN_GOPS, "-x265-params", "log-level=none:open-gop=1:no-scenecut=1"),
    "vp9": (
        "-c:v",
        "libvpx-vp9",
        "-g",
        "12",
        "-auto-alt-ref",
        "1",
        "-lag-in-frames",
        "8",
        "-deadline",
        "realtime",
    ),
    "av1": ("-c:v", "libaom-av1", "-g", "12", "-cpu-used", "8", "-usage", "realtime"),
}


@pytest.fixture(scope="module", params=deep_but(["h264", "vp9"], ENCODERS))
def film(request, tmp_path_factory):
    """A film of many groups of pictures, in clusters of their own."""
    path = tmp_path_factory.mktemp("films") / f"{request.param}.mkv"
    drawn = ("-f", "lavfi", "-i", "testsrc2=s=256x192:r=25", "-t", "6", "-pix_fmt", "yuv420p")
    ffmpeg.write(path, *drawn, *ENCODERS[request.param])
    return path


def put(data: bytes, name: str) -> str:
    import fsspec

    url = f"memory://cues/{name}"
    with fsspec.open(url, "wb") as target:
        target.write(data)
    return url


@pytest.mark.parametrize("name", deep_but(["hevc_mkv", "vfr_webm"], NAMES))
def test_frames_by_time_are_those_of_the_local_file(name, tmp_path, monkeypatch):
    _assert_same_at_all_times(made(name), tmp_path, monkeypatch)


def test_frames_between_key_frames_are_those_of_the_local_file(film, tmp_path, monkeypatch):
    _assert_same_at_all_times(film, tmp_path, monkeypatch)


def _assert_same_at_all_times(path, cache, monkeypatch):
    here = seqpipe.open(path, cache_dir=cache)
    monkeypatch.setattr(reader, "open_index", lambda *_, **__: pytest.fail("all of it was read"))
    far = seqpipe.open(put(path.read_bytes(), path.name), cache_dir=cache)
    counted = {"source", "frame_count", "start_s", "duration_s", "has_b_frames"}
    known = {name: value for name, value in far.info.to_json().items() if name not in counted}
    assert known == {name: value for name, value in here.info.to_json().items() if name not in counted}
    assert far.info.frame_count is None
    assert "frames" not in repr(far)
    times = np.concatenate([here.timestamps, here.timestamps[:-1] + np.diff(here.timestamps) * 0.7])
    random = np.random.default_rng(1)
    for some in (*np.array_split(random.permutation(times), 6), times[:1], times[[5, 5, 3]]):
        got, expected = far.at(some), here.at(some)
        np.testing.assert_array_equal(got.timestamps, expected.timestamps)
        np.testing.assert_array_equal(got.numpy(), expected.numpy())
        assert got.frames is None
    far.close()
    here.close()


@pytest.mark.parametrize("ask", [len, lambda video: video[3], lambda video: video.at([1e6])])
def test_what_needs_numbers_reads_all_of_it_once_and_says_so(ask, film, tmp_path, caplog):
    if film.stem not in ("h264", "vp9"):
        pytest.skip("one of each form is enough")
    data = film.read_bytes()
    with seqpipe.open(put(data, film.name), cache_dir=tmp_path) as video:
        video.at([3.0])
        assert not caplog.records
        before = video.stats()
        try:
            ask(video)
        except FrameRangeError as error:
            assert "1000000.000000 s is not in the video" in str(error)  # noqa: PT017  of one of them alone
        read = video.stats()["bytes_read"] - before["bytes_read"]
        assert read < 1.5 * len(data) + (1 << 20)
        assert [record.message.partition(": ")[2] for record in caplog.records] == [
            f"all of it ({len(data) / 1e6:.0f} MB) is read once to number its frames"
        ]
        assert video.at([3.0]).frames.tolist() == [75]
        assert video.info.frame_count == 150
    caplog.clear()
    with seqpipe.open(f"memory://cues/{film.name}", cache_dir=tmp_path) as video:
        assert len(video) == 150  # its index is kept
        assert not caplog.records


def test_a_window_by_time_costs_its_part_of_the_file(tmp_path):
    path = tmp_path / "long.mkv"
    drawn = ("-f", "lavfi", "-i", "testsrc2=s=640x480:r=25", "-t", "40")
    ffmpeg.write(path, *drawn, *ENCODERS["h264"], "-crf", "10")
    size = path.stat().st_size
    with seqpipe.open(put(path.read_bytes(), path.name), cache_dir=tmp_path) as video:
        opened = video.stats()
        assert opened["requests"] <= 4
        video.at(20 + np.arange(8) / 25)
        read = {name: value - opened[name] for name, value in video.stats().items()}
        assert read["requests"] <= 2
        assert opened["bytes_read"] + read["bytes_read"] < size / 8
        assert 0 < read["bytes_needed"] <= read["bytes_read"]


def test_wrong_bytes_give_the_frames_of_the_file_or_of_its_scan(film, tmp_path, monkeypatch):
    """Cues and headers that lie never lead to a frame that another reading would not give."""
    if film.stem not in ("h264", "vp9"):
        pytest.skip("one of each form is enough")
    data, random, by_time = film.read_bytes(), np.random.default_rng(5), 0
    cues = data.rindex(b"\x1c\x53\xbb\x6b")
    heads = [at for at in range(len(data)) if data.startswith(b"\xa3", at)][:40]
    for place in [
        *random.integers(cues, cues + 200, 12),
        *random.integers(0, 400, 6),
        *random.choice(heads, 8),
    ]:
        broken = bytearray(data)
        broken[min(int(place) + int(random.integers(0, 4)), len(data) - 1)] ^= int(
            random.choice([1, 4, 16, 128])
        )
        path = tmp_path / "broken.mkv"
        path.write_bytes(broken)
        got, expected = (_at(origin, tmp_path) for origin in (put(bytes(broken), "broken.mkv"), path))
        by_time += got is not None and got.frames is None
        if got is not None and expected is not None:
            same = np.isin(got.timestamps, expected.timestamps)
            np.testing.assert_array_equal(got.numpy()[same], expected.numpy()[same])
    assert by_time > 5


def _at(origin, cache):
    try:
        with seqpipe.open(origin, cache_dir=cache / str(hash(origin))) as video:
            return video.at([0.5, 2.98, 3.0, 4.5])
    except seqpipe.SeqpipeError:
        return None
