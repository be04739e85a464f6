from __future__ import annotations

import subprocess
import sys
import threading
from dataclasses import replace

import av
import pytest

from data_scripts import make_videos, media_make
from data_scripts.frame_code import read
from data_scripts.make_videos import ITEMS, MANIFEST, main, make, sample
from data_scripts.media_encode import FFmpegError
from data_scripts.media_item import format_ranges, parse_ranges, read_manifest
from tests.support import media


def _listing(folder):
    return {path.name: path.stat().st_mtime_ns for path in folder.iterdir()}


def test_a_second_run_makes_nothing_and_changes_nothing(tmp_path):
    first = make(tmp_path, ["h264_flip_key"])
    before = _listing(tmp_path)
    assert set(before) == {"h264.mp4", "h264_flip_key.mp4", MANIFEST}
    assert make(tmp_path, ["h264_flip_key"]) == first
    assert _listing(tmp_path) == before


def test_only_what_is_missing_or_declared_anew_is_made_again(tmp_path, monkeypatch):
    make(tmp_path, ["h264_no_b", "mjpeg", "ffv1"])
    before = _listing(tmp_path)
    (tmp_path / "mjpeg.avi").unlink()
    item = ITEMS["ffv1"]
    monkeypatch.setitem(ITEMS, "ffv1", replace(item, encode=replace(item.encode, first=7)))
    entries = {entry.name: entry for entry in make(tmp_path, ["h264_no_b", "mjpeg", "ffv1"])}
    after = _listing(tmp_path)
    assert after["h264_no_b.mp4"] == before["h264_no_b.mp4"]
    assert after["ffv1.mkv"] > before["ffv1.mkv"]
    assert entries["ffv1"].numbers == tuple(range(7, 55))
    assert "mjpeg.avi" in after
    assert read_manifest(tmp_path / MANIFEST)["ffv1"] == entries["ffv1"]


@pytest.mark.parametrize(
    "name", ["h264", "hevc", "vp9_altref", "av1", "mpeg4_packed", "with_audio", "h264_no_vui"]
)
def test_the_bytes_of_a_file_are_the_same_every_time(tmp_path, name):
    make(tmp_path, [name])
    assert (tmp_path / ITEMS[name].file).read_bytes() == media.made(name).read_bytes()


def test_a_failure_on_the_way_leaves_neither_a_file_nor_a_part_of_one(tmp_path, monkeypatch):
    def fail(spec, target):
        target.write_bytes(b"half a file")
        raise FFmpegError("Unknown encoder 'libx264'")

    monkeypatch.setattr(media_make, "encode", fail)
    (entry,) = make(tmp_path, ["h264_no_b"])
    assert (entry.state, entry.note) == ("skipped", "Unknown encoder 'libx264'")
    assert list(_listing(tmp_path)) == [MANIFEST]


def test_an_interruption_leaves_the_older_file_whole(tmp_path, monkeypatch):
    make(tmp_path, ["mjpeg"])
    whole = (tmp_path / "mjpeg.avi").read_bytes()

    def interrupt(spec, target):
        target.write_bytes(b"half a file")
        raise KeyboardInterrupt

    item = ITEMS["mjpeg"]
    monkeypatch.setitem(ITEMS, "mjpeg", replace(item, encode=replace(item.encode, first=7)))
    monkeypatch.setattr(media_make, "encode", interrupt)
    with pytest.raises(KeyboardInterrupt):
        make(tmp_path, ["mjpeg"])
    assert (tmp_path / "mjpeg.avi").read_bytes() == whole
    assert set(_listing(tmp_path)) == {"mjpeg.avi", MANIFEST}


def test_what_was_skipped_is_told_with_its_reason_and_tried_again(tmp_path, monkeypatch, capsys):
    item = ITEMS["ffv1"]
    with monkeypatch.context() as patch:
        patch.setitem(ITEMS, "ffv1", replace(item, encode=replace(item.encode, encoder="no_such_encoder")))
        assert main(["--out", str(tmp_path), "--only", "ffv1"]) == 0
    assert "skipped ffv1: " in (said := capsys.readouterr().out)
    assert "Unknown encoder 'no_such_encoder'" in said
    assert [entry.state for entry in make(tmp_path, ["ffv1"])] == ["sound"]


def test_an_item_is_skipped_when_the_one_it_is_made_from_is(tmp_path, monkeypatch):
    item = ITEMS["h264"]
    monkeypatch.setitem(ITEMS, "h264", replace(item, encode=replace(item.encode, encoder="no_such_encoder")))
    (entry,) = make(tmp_path, ["rotated_90"])
    assert entry.state == "skipped"
    assert "h264.mp4" in entry.note


def test_an_unknown_name_is_refused(tmp_path):
    with pytest.raises(KeyError, match="no_such_item"):
        make(tmp_path, ["no_such_item"])
    with pytest.raises(SystemExit, match="2"):
        main(["--out", str(tmp_path), "--only", "no_such_item"])


@pytest.mark.deep  # .ci/run does it
def test_the_command_makes_a_sample_from_any_folder(tmp_path):
    target = tmp_path / "new" / "sample.mp4"
    script = media.ROOT / "data_scripts" / "make_videos.py"
    subprocess.run(
        [sys.executable, script, "--sample", target], cwd=tmp_path, check=True, capture_output=True
    )
    assert list(target.parent.iterdir()) == [target]
    with av.open(str(target)) as container:
        stream = container.streams.video[0]
        assert (stream.width, stream.height, stream.average_rate, stream.codec_context.name) == (
            640,
            360,
            30,
            "h264",
        )
        assert [read(frame.to_ndarray(format="gray")) for frame in container.decode(stream)] == list(
            range(90)
        )


def test_the_sample_needs_no_ffmpeg_command(tmp_path, monkeypatch):
    monkeypatch.setattr(media_make, "run_ffmpeg", None)
    monkeypatch.setattr(make_videos, "make", None)
    monkeypatch.setitem(sys.modules, "imageio_ffmpeg", None)
    monkeypatch.setenv("PATH", "")
    sample(tmp_path / "sample.mp4", size=(96, 64), seconds=1)
    assert (tmp_path / "sample.mp4").stat().st_size > 1000


def test_two_makers_at_once_do_not_disturb_each_other(tmp_path):
    makers = [threading.Thread(target=make, args=(tmp_path, ["h264_no_b"])) for _ in range(2)]
    for maker in makers:
        maker.start()
    for maker in makers:
        maker.join()
    assert (tmp_path / "h264_no_b.mp4").read_bytes() == media.made("h264_no_b").read_bytes()
    assert set(_listing(tmp_path)) == {"h264_no_b.mp4", MANIFEST}


def test_ranges_are_written_and_read():
    assert format_ranges((0, 1, 2, 5, 7, 8)) == "0-2,5,7-8"
    assert parse_ranges("0-2,5,7-8") == (0, 1, 2, 5, 7, 8)
    assert (format_ranges(()), parse_ranges("")) == ("", ())


def test_a_manifest_of_another_form_counts_as_none(tmp_path):
    (tmp_path / MANIFEST).write_text("name\tsomething\nh264\telse\n")
    assert read_manifest(tmp_path / MANIFEST) == {}
    assert read_manifest(tmp_path / "none.tsv") == {}
