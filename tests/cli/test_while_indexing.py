"""Exports of videos that were never read: files are written from the first packet on, and are those of the plan."""

from __future__ import annotations

import json
from dataclasses import replace
from itertools import islice

import pytest
from click.testing import CliRunner

from seqpipe.cli import main
from seqpipe.cli.exporters import frames as frame_files
from seqpipe.cli.request import ExportRequest
from seqpipe.errors import SourceError
from seqpipe.video import stream as first_pass
from seqpipe.video.index import build
from tests.support.deep import deep_but
from tests.support.media import made

from .written import files, lines

SCANNED = [
    "h264_ts",
    "hevc_ts",
    "h264_raw",
    "hevc_raw",
    "mpeg2_ps",
    "mpeg2_ts",
    "mpeg2_mkv",
    "mpeg2_interlaced",
    "mpeg1",
    "mpeg4_avi",
    "mpeg4_mp4",
    "theora",
    "gif",
    "apng",
    "vp8_altref",
    "vp9_ivf",
    "av1_obu",
    "png",
    "raw_nv12",
    "h264_refresh",
    "h264_flv",
    "h264_avi",
    "h264_ts_second",
    "start_10s_ts",
    "ts_wrap",
    "negative_pts",
    "duplicate_pts",
    "joined",
    "mpeg4_one_b",
    "mpeg4_packed",
    "resized",
    "audio_ts",
    "text",
    "header_cut_ts",
    "data_cut_mp4",
    "data_cut_ts",
    "data_cut_avi",
    "mpeg4_mp4_flip_reference",
    "h264_lost_key",
    "hevc_lost_key",
    "vp9_mp4_lost_reference",
]


def exported(folder, path, *options):
    """What an export writes, notes and tells; its exit code comes first."""
    out, manifest = folder / "o", folder / "m.jsonl"
    arguments = ("export", path, "--out", out, "--json", "--manifest", manifest, "--jobs", 2, *options)
    result = CliRunner().invoke(main, [str(argument) for argument in arguments])
    assert isinstance(result.exception, (SystemExit, type(None))), result.exception
    *_, told = lines(result.stdout)
    told.pop("seconds"), told.pop("out")
    note = json.loads((out / ".seqpipe-export.json").read_text()) if out.exists() else {}
    for entry in note.values():
        entry.pop("since_ns")
    written = {name: (out / name).read_bytes() for name in files(out)}
    return result.exit_code, written, lines(manifest.read_text()), note, told


@pytest.fixture
def first_passes(monkeypatch):
    """How many frames each first pass gave."""
    found, frames = [], first_pass.FirstPass.frames

    def counted(self):
        found.append(0)
        for frame in frames(self):
            found[-1] += 1
            yield frame

    monkeypatch.setattr(first_pass.FirstPass, "frames", counted)
    return found


def both(tmp_path, monkeypatch, path, *options):
    """An export of a video that was never read, and one of the same that is indexed already."""
    one = exported(tmp_path / "one", path, *options)
    with monkeypatch.context() as only:
        only.setattr(ExportRequest, "is_sequential", False)
        other = exported(tmp_path / "other", path, *options)
    return one, other


@pytest.fixture(autouse=True)
def own_cache(monkeypatch, tmp_path):
    monkeypatch.setenv("SEQPIPE_CACHE_DIR", str(tmp_path / "cache"))
    (tmp_path / "one").mkdir()
    (tmp_path / "other").mkdir()


@pytest.mark.parametrize("name", deep_but(SCANNED[::4], SCANNED))
def test_files_manifest_and_note_are_those_of_an_indexed_video(name, tmp_path, monkeypatch, first_passes):
    one, other = both(tmp_path, monkeypatch, made(name), "--short-side", 32)
    assert one == other
    if name in ("h264_ts", "hevc_ts", "mpeg2_ps", "vp9_ivf", "h264_flv", "start_10s_ts"):
        assert first_passes == [len(one[1])]  # all of them


@pytest.mark.parametrize(
    "options",
    [
        ["--every", 7],
        ["--sequence-length", 4, "--stride", 2, "--step", 3, "--format", "npz"],
        ["--sequence-length", 5, "--step", 2, "--format", "npy"],
        ["--sequence-length", 4, "--duration", "1.1", "--format", "npz"],
        ["--end", "20f", "--pattern", "{frame}-{index}.{ext}"],
        ["--duration", "0.5", "--format", "npy", "--dtype", "uint16"],
        ["--duration", "100"],
        ["--every", 3, "--crop", "8:8:64:48"],
    ],
)
def test_selections_are_those_of_an_indexed_video(options, tmp_path, monkeypatch, first_passes):
    one, other = both(tmp_path, monkeypatch, made("h264_ts"), *options)
    assert one == other
    assert one[0] == 0
    assert len(first_passes) == 1


@pytest.mark.parametrize(
    "options",
    [
        *(["--start", "0.5"], ["--fps", 5], ["--num", 3], ["--frames", "3,-1"], ["--keyframes"]),
        ["--sequence-length", 4],
        *(["--contact-sheet"], ["--pattern", "{pts_ms}.{ext}"], ["--overwrite"], ["--dry-run"]),
    ],
)
def test_what_follows_from_the_whole_index_waits_for_it(run, options, tmp_path, first_passes):
    run("export", made("h264_ts"), "--out", tmp_path / "o", *options)
    assert not first_passes


def test_names_that_collide_are_refused_before_anything_is_written(run, tmp_path):
    run("export", made("h264_ts"), "--out", tmp_path / "o", "--pattern", "same.{ext}", code=2)
    assert not (tmp_path / "o").exists()


def test_the_first_file_is_written_before_the_last_packet_is_read(run, tmp_path, monkeypatch):
    read, at_first = [], []
    demuxed, write = build.Scan._demuxed, frame_files.write_whole
    monkeypatch.setattr(build.Scan, "_demuxed", lambda self: map(noted, demuxed(self)))
    monkeypatch.setattr(
        frame_files, "write_whole", lambda *args: (at_first.append(len(read)), write(*args))[1]
    )

    def noted(packet):
        read.append(packet.size)
        return packet

    run("export", made("h264_ts"), "--out", tmp_path / "o", "--jobs", 1)
    assert at_first[0] < 12 < len(read) == 48
    monkeypatch.setattr(build.Scan, "__init__", None)  # the index is in the cache
    run("export", made("h264_ts"), "--out", tmp_path / "o", "--resume")


def test_reading_stops_behind_the_range(run, tmp_path, monkeypatch):
    read, demuxed = [], build.Scan._demuxed
    monkeypatch.setattr(build.Scan, "_demuxed", lambda self: map(noted, demuxed(self)))

    def noted(packet):
        read.append(packet.size)
        return packet

    run("export", made("h264_ts"), "--out", tmp_path / "o", "--duration", "0.2", "--jobs", 1)
    assert len(files(tmp_path / "o")) == 5
    assert len(read) < 20


def test_a_film_far_away_is_read_once(tmp_path, monkeypatch, first_passes, caplog):
    import fsspec

    path, url = made("h264_mkv"), "memory://ahead/h264_mkv.mkv"
    with fsspec.open(url, "wb") as target:
        target.write(path.read_bytes())
    one, other = both(tmp_path, monkeypatch, url, "--every", 3)
    assert one == other
    assert first_passes == [48]
    assert not caplog.records
    (tmp_path / "here").mkdir()
    here = exported(tmp_path / "here", path, "--every", 3)
    assert {name.partition("/")[2]: data for name, data in one[1].items()} == {
        name.partition("/")[2]: data for name, data in here[1].items()
    }


def test_an_interrupted_export_is_resumed(run, tmp_path, monkeypatch):
    path, (out, manifest) = made("h264_ts"), (tmp_path / "o", tmp_path / "m.jsonl")
    write, left = frame_files.write_whole, iter(range(10))

    def interrupted(*args):
        if next(left, None) is None:
            raise KeyboardInterrupt
        return write(*args)

    monkeypatch.setattr(frame_files, "write_whole", interrupted)
    said = run("export", path, "--out", out, "--manifest", manifest, "--jobs", 1, code=130)
    assert "10 files written" in said.stderr
    monkeypatch.setattr(frame_files, "write_whole", write)
    before = {name: (out / name).stat().st_mtime_ns for name in files(out)}
    said = run("export", path, "--out", out, "--manifest", manifest, "--resume")
    assert "38 files written" in said.stderr
    assert "10 kept" in said.stderr
    assert len(lines(manifest.read_text())) == len(files(out)) == 48
    assert {name: (out / name).stat().st_mtime_ns for name in before} == before


def test_files_that_the_index_does_not_bear_out_are_written_anew(tmp_path, monkeypatch):
    frames = first_pass.FirstPass.frames

    def wrong(self):
        for number, (frame, pts) in enumerate(frames(self)):
            yield frame, pts + (number == 5)

    with monkeypatch.context() as lies:
        lies.setattr(first_pass.FirstPass, "frames", wrong)
        one = exported(tmp_path / "one", made("h264_ts"))
    other = exported(tmp_path / "other", made("h264_ts"))
    assert one[:2] == other[:2]
    assert sorted(map(str, one[2])) == sorted(map(str, other[2]))


def test_files_that_the_index_has_no_frame_for_are_removed(tmp_path, monkeypatch):
    index = first_pass.FirstPass.index

    def fewer(self, **settings):
        found = index(self, **settings)
        found.packets.shown[found.packets.frame_packet[-3:]] = False
        return replace(found, packets=replace(found.packets))

    with monkeypatch.context() as lies:
        lies.setattr(first_pass.FirstPass, "index", fewer)
        code, written, rows, *_ = exported(tmp_path / "one", made("h264_ts"))
    assert (code, len(written)) == (0, 45)
    assert [row["output"] for row in rows] == list(written)


def test_a_source_that_breaks_off_leaves_whole_files(run, tmp_path, monkeypatch):
    frames = first_pass.FirstPass.frames

    def broken(self):
        yield from islice(frames(self), 7)
        raise SourceError("cannot be read (the line is dead)", source="x")

    monkeypatch.setattr(first_pass.FirstPass, "frames", broken)
    code, written, rows, *_ = exported(tmp_path / "one", made("h264_ts"))
    assert (code, len(written)) == (1, 7)
    assert [row["status"] for row in rows] == ["done"] * 7 + ["failed"]
