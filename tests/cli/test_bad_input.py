"""What the command line says of what it cannot use, and that the rest is done all the same."""

from __future__ import annotations

import errno
import os
import shutil

import pytest

from seqpipe.writers import encoders as images
from tests.support.media import entry, made

from .written import files, lines, numbers

UNREADABLE = {
    "empty": "the file is empty (0 bytes)",
    "text": "this is not a video that FFmpeg can open",
    "audio_only": "the file has no video stream (it has audio)",
    "audio_cover": "the file has no video stream",
    "header_cut_mkv": "this is not a video that FFmpeg can open",
    "data_cut_moov": "this is not a video that FFmpeg can open",
}


@pytest.mark.parametrize("name", UNREADABLE)
def test_an_unreadable_input_is_named_and_the_others_are_exported(run, tmp_path, name):
    manifest = tmp_path / "m.jsonl"
    result = run(
        "export",
        made(name),
        made("h264"),
        "--out",
        tmp_path / "o",
        "--num",
        2,
        "--manifest",
        manifest,
        code=1,
    )
    assert f"Error: {made(name)}: {UNREADABLE[name]}" in result.stderr
    assert "1 of 2 sources failed" in result.stderr
    assert numbers(tmp_path / "o") == [12, 36]
    failed = [row for row in lines(manifest.read_text()) if row["status"] == "failed"]
    assert [row["source"] for row in failed] == [str(made(name))]
    assert UNREADABLE[name] in failed[0]["error"]


def test_a_missing_input_is_named(run, tmp_path):
    result = run("export", tmp_path / "gone.mp4", made("h264"), "--out", tmp_path / "o", "--num", 1, code=1)
    assert f"Error: {tmp_path / 'gone.mp4'}: no such file" in result.stderr
    assert len(numbers(tmp_path / "o")) == 1


UNSEEN = "n" * 300
"""What the file system does not even look at, as it does not look into a folder that is closed to the user."""


@pytest.mark.parametrize(
    "command", [["probe"], ["index"], ["export", "--out", "o"], ["export", "--out", "o", "--dry-run"]]
)
def test_an_input_that_may_not_be_looked_at_is_named(run, tmp_path, monkeypatch, command):
    monkeypatch.chdir(tmp_path)
    result = run(*command, UNSEEN, code=1)
    assert f"Error: {UNSEEN}: no such file (File name too long)" in result.stderr


@pytest.mark.parametrize(
    "options",
    [["--out", UNSEEN], ["--out", "o", "--manifest", f"{UNSEEN}/m.jsonl"], ["--out", f"o/{UNSEEN}"]],
)
def test_a_place_that_may_not_be_looked_at_is_an_error_of_the_output(run, tmp_path, monkeypatch, options):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "o").mkdir()
    result = run("export", made("h264"), "--num", 1, *options, code=1)
    assert "Error: cannot write " in result.stderr
    assert "(File name too long)" in result.stderr


@pytest.mark.parametrize("name", ["m.csv", "m.csv.journal.jsonl"])
def test_a_manifest_that_cannot_be_read_is_named(run, tmp_path, name):
    (tmp_path / name).symlink_to(name)
    options = ("--manifest", tmp_path / "m.csv", "--resume")
    result = run("export", made("h264"), "--out", tmp_path / "o", *options, code=1)
    assert f"Error: {tmp_path / name}: the manifest cannot be read (Too many levels" in result.stderr


def test_a_folder_without_videos_is_named(run, tmp_path):
    (tmp_path / "in").mkdir()
    (tmp_path / "in/readme.txt").touch()
    result = run("export", tmp_path / "in", "--out", tmp_path / "o", code=1)
    assert "there is no video in this folder, only 1 ot" in result.stderr
    assert "allowed: files that end in .264, .265, .3g2" in result.stderr


@pytest.mark.parametrize("name", ["h264_flip_key", "h264_flip_disposable", "data_cut_mp4", "data_cut_mkv"])
@pytest.mark.parametrize("jobs", [1, 2])
def test_damage_loses_frames_by_name_and_never_gives_wrong_ones(run, tmp_path, name, jobs):
    options = (
        "--manifest",
        tmp_path / "m.jsonl",
        "--pattern",
        "{frame:03d}.{ext}",
        "--jobs",
        jobs,
        "--contact-sheet",
    )
    result = run("export", made(name), "--out", tmp_path / "o", *options, code=1)
    rows = lines((tmp_path / "m.jsonl").read_text())
    lost = [row["frame"] for row in rows if row["status"] == "lost"]
    done = [row["frame"] for row in rows if row["status"] == "done"]
    assert [int(path[:3]) for path in files(tmp_path / "o") if path.endswith("jpg")] == done
    assert numbers(tmp_path / "o") == done
    truth = entry(name)
    missing = set(range(48)) - set(done)
    assert missing >= set(truth.lost)
    assert f"Error: {made(name)}: " in result.stderr
    if lost:
        assert f"{len(lost)} lost" in result.stderr
        assert "cannot be decoded" in result.stderr
    if len(rows) - len(done) - len(lost):
        assert "is truncated" in result.stderr
    assert missing == set(lost) or "is truncated" in result.stderr


def test_a_sequence_with_a_lost_frame_is_lost(run, tmp_path):
    (bad,) = entry("h264_flip_disposable").lost
    options = ("--sequence-length", 4, "--format", "npz", "--manifest", tmp_path / "m.jsonl")
    run("export", made("h264_flip_disposable"), "--out", tmp_path / "o", *options, code=1)
    rows = lines((tmp_path / "m.jsonl").read_text())
    assert [row["sequence"] for row in rows if row["status"] == "lost"] == [bad // 4]
    assert len(files(tmp_path / "o")) == 11


def test_raise_stops_at_the_first_error(run, tmp_path):
    result = run(
        "export", made("empty"), made("h264"), "--out", tmp_path / "o", "--on-error", "raise", code=1
    )
    assert result.stderr.startswith(f"Error: {made('empty')}: the file is empty")
    assert not (tmp_path / "o").exists()
    options = ("--on-error", "raise", "--jobs", 1)
    run("export", made("h264_flip_key"), made("h264"), "--out", tmp_path / "o", *options, code=1)
    assert len(numbers(tmp_path / "o" / "h264_flip_key")) >= 20


SELECTIONS = [
    (["--frames", f"0,{10**20}"], f"frame {10**20} is not in the video; allowed: 0 to 47, or -48 to -1"),
    (["--frames", "0,99"], "frame 99 is not in the video; allowed: 0 to 47, or -48 to -1"),
    (
        ["--start", "2"],
        "no frame begins in the range from 2 s; allowed: 0 to 1.920 s from the first frame on",
    ),
    (["--start", "48f"], "no frame begins in the range from 48f"),
    (["--sequence-length", 49], "no sequence of 49 frames with a stride of 1 fits into 48 frames"),
    (["--crop", "100:0:40:40"], "crop"),
    (["--size", "16256x16256"], "frames of 16256x16256 pixels are too large; allowed: (width + 128)"),
    (["--short-side", "20000"], "frames of 26667x20000 pixels are too large"),
    (
        ["--size", "20000x10", "--format", "webp"],
        "its frames of 20000x10 do not fit into webp; allowed: at most 16383",
    ),
]


@pytest.mark.parametrize(("options", "said"), SELECTIONS)
def test_what_the_video_does_not_have_fails_that_video(run, tmp_path, options, said):
    result = run("export", made("h264"), "--out", tmp_path / "o", *options, code=1)
    assert f"Error: {made('h264')}: " in result.stderr
    assert said in result.stderr
    assert files(tmp_path) == []


USAGE = [
    ([], "Missing option '--out'"),
    (["--out", ""], "out='' is empty; allowed: a folder; '.' for the current one"),
    (
        ["--out", "o", "--pattern", ".seqpipe-export.json", "--num", "1"],
        "would have the name .seqpipe-export.json, as the record of the options of this folder is",
    ),
    (["--out", "o", "--fps", "0"], "fps=0 is not valid; allowed: a number from 0.000001 to 10000 Hz"),
    (["--out", "o", "--every", "0"], "every=0 is not valid; allowed: a whole number of at least 1"),
    (["--out", "o", "--num", "1.5"], "num=1.5 is not valid; allowed: a whole number from 1 to 10000000"),
    (
        ["--out", "o", "--num", "1000000000000"],
        "num=1000000000000 is not valid; allowed: a whole number from 1",
    ),
    (["--out", "o", "--frames", "9" * 5000], "does not have the form a,b,c"),
    (["--out", "o", "--size", f"{'9' * 5000}x1"], "does not have the form WxH"),
    (["--out", "o", "--start", f"{'9' * 5000}f"], "is not a time; allowed: seconds"),
    (["--out", "o", "--end", f"{'9' * 5000}:00"], "is not a time; allowed: seconds"),
    (["--out", "o", "--device", f"cuda:{'9' * 5000}"], "is unknown; allowed: 'cpu', 'cuda'"),
    (
        ["--out", "o", "--pattern", "{index:01000000000000d}.{ext}"],
        "has a width above the length of file names",
    ),
    (["--out", "o", "--sequence-length", "0"], "sequence_length=0 is not valid"),
    (["--out", "o", "--sequence-length", "4", "--stride", "0"], "stride=0 is not valid"),
    (["--out", "o", "--sequence-length", "4", "--step", "x"], "step='x' is not valid"),
    (["--out", "o", "--quality", "101"], "quality=101 is not valid; allowed: a whole number from 1 to 100"),
    (["--out", "o", "--jobs", "0"], "jobs=0 is not valid; allowed: a whole number from 1 to 4096"),
    (
        ["--out", "o", "--format", "bmp"],
        "format='bmp' is not valid; allowed: 'jpg', 'png', 'tiff', 'webp', 'npy', 'npz'",
    ),
    (["--out", "o", "--frames", "1,b"], "'1,b' does not have the form a,b,c"),
    (["--out", "o", "--size", "60"], "'60' does not have the form WxH, such as 640x360"),
    (["--out", "o", "--size", "0x60"], "does not have the form WxH"),
    (["--out", "o", "--size", "99999x60"], "size"),
    (["--out", "o", "--crop", "0:0:0:10"], "does not have the form x:y:w:h"),
    (["--out", "o", "--start", "1:99"], "'1:99' is not a time"),
    (["--out", "o", "--start", "2", "--end", "1"], "end=1 s is not after start=2 s"),
    (["--out", "o", "--fps", "1", "--every", "2"], "--fps and --every exclude one another"),
    (["--out", "o", "--stride", "2"], "belong to --sequence-length"),
    (["--out", "o", "--size", "9x9", "--max-side", "9"], "size and max_side exclude one another"),
    (["--out", "o", "--pattern", "{nr}.jpg"], "has the unknown field {nr}; allowed: the fields {name}"),
    (["--out", "o", "--pattern", "../{index}.jpg"], "does not name a file below the output folder"),
    (["--out", "o", "--pattern", "{stem}.{ext}"], "two files would have the name h264.jpg: frame 0 of"),
    (["--out", "o", "--pattern", "%04d.jpg"], "tell the frames apart, such as {index:04d} for %04d"),
    (
        ["--out", "o", "--num", 99, "--pattern", "{frame}.jpg"],
        "can tell the files apart with {index}; now it is",
    ),
    (
        ["--out", "o", "--pattern", "{index}.png"],
        "ends in .png, but the format is jpg; allowed: an ending of jpg",
    ),
    (["--out", "-"], "out='-' is no folder: files are not written to standard output"),
    (["--out", "o", "--fps", "1/0"], "fps='1/0' is not valid"),
    (["--out", "o", "--quality", "101"], "allowed: a whole number from 1 to 100."),
    (
        ["--out", "o", "--manifest", "o/m.jsonl", "--pattern", "m.jsonl", "--num", "1"],
        "frame 24 would have the name m.jsonl, as the manifest is. Give another --pattern",
    ),
    (
        ["--out", "o", "--manifest", "o/m.csv", "--pattern", "m.csv.journal.jsonl", "--num", "1"],
        "would have the name m.csv.journal.jsonl, as the manifest is",
    ),
    (
        ["--out", "./o/", "--contact-sheet", "--pattern", "contact_sheet.html", "--num", "1"],
        "would have the name contact_sheet.html, as the contact sheet is",
    ),
    (["--out", "o", "--format", "png", "--quality", "5"], "quality=5 means nothing for png"),
    (["--out", "o", "--dtype", "uint16"], "dtype='uint16' does not fit into jpg"),
    (["--out", "o", "--manifest", "m.txt"], "unknown ending 'txt'; allowed: .jsonl, .csv or .parquet"),
    (["--out", "o", "--resume", "--overwrite"], "--resume and --overwrite exclude one another"),
    (
        ["--out", "o", "--to", "webdataset", "--format", "mp4"],
        "--to webdataset and --format mp4 exclude one another",
    ),
    (["--out", "o", "--device", "tpu"], "device='tpu' is unknown"),
    (["--out", "o", "--on-error", "ignore"], "'ignore' is not one of 'skip', 'raise'"),
]


@pytest.mark.parametrize(("options", "said"), USAGE)
def test_wrong_usage_is_told_before_anything_is_written(run, tmp_path, monkeypatch, options, said):
    monkeypatch.chdir(tmp_path)
    result = run("export", made("h264"), *options, code=2)
    assert said in " ".join(result.stderr.split())
    assert result.stdout == ""
    assert files(tmp_path) == []


def test_a_gpu_that_is_not_there(run, tmp_path):
    result = run("export", made("h264"), "--out", tmp_path / "o", "--device", "cuda:99", code=1)
    assert any(said in result.stderr for said in ("cupy is not installed", "CUDA", "no device cuda:99"))
    result = run("export", made("h264"), "--out", tmp_path / "o", "--device", "gpu", code=2)
    assert "device='gpu' is unknown; allowed: 'cpu', 'cuda', 'cuda:N', 'auto', 'cuda:all'" in result.stderr


def test_colliding_names_name_both_sources(run, tmp_path):
    for folder in "ab":
        (tmp_path / folder).mkdir()
        shutil.copyfile(made("h264"), tmp_path / folder / "x.mp4")
    result = run("export", tmp_path / "a", tmp_path / "b", "--out", tmp_path / "o", "--num", 1, code=2)
    said = f"x/000000.jpg: frame 24 of {tmp_path}/a/x.mp4 and frame 24 of {tmp_path}/b/x.mp4"
    assert said in result.stderr
    assert (
        "Pass one folder that contains both, and use a --pattern that can tell the sources" in result.stderr
    )
    assert "tell the sources apart with {parent}" in result.stderr
    assert not (tmp_path / "o").exists()
    named = ("--pattern", "{parent}_{stem}.{ext}")
    run("export", tmp_path, "--out", tmp_path / "p", "--num", 1, *named)
    assert files(tmp_path / "p") == ["a_x.jpg", "b_x.jpg"]
    run("export", tmp_path / "a/x.mp4", tmp_path / "b/x.mp4", "--out", tmp_path / "o", "--num", 1, *named)
    assert files(tmp_path / "o") == ["a_x.jpg", "b_x.jpg"]


def test_endings_tell_files_of_one_stem_apart(run, tmp_path):
    for name in ("h264", "h264_mkv"):
        shutil.copyfile(made(name), (tmp_path / "x").with_suffix(made(name).suffix))
    result = run("export", tmp_path, "--out", tmp_path / "o", "--num", 1, code=2)
    assert "Give a --pattern that can tell the sources apart with {name}; now it is" in result.stderr
    run("export", tmp_path, "--out", tmp_path / "o", "--num", 1, "--pattern", "{name}.{ext}")
    assert files(tmp_path / "o") == ["x.mkv.jpg", "x.mp4.jpg"]


@pytest.mark.parametrize(
    "there", ["h264/000001.jpg", "contact_sheet.html", "../m.csv", "../m.csv.journal.jsonl"]
)
def test_what_is_there_is_not_replaced_unasked(run, tmp_path, there):
    place = tmp_path / "o" / there
    place.parent.mkdir(parents=True, exist_ok=True)
    (tmp_path / "o").mkdir(exist_ok=True)
    place.write_text("precious")
    options = ("--num", 2, "--contact-sheet", "--manifest", tmp_path / "m.csv")
    result = run("export", made("h264"), "--out", tmp_path / "o", *options, code=2)
    assert "exists already. Use --resume to continue, or --overwrite to replace files." in result.stderr
    assert place.read_text() == "precious"
    assert len(files(tmp_path)) == 1


def test_a_file_in_the_place_of_the_folder_is_an_error_of_the_output(run, tmp_path):
    (tmp_path / "o").touch()
    result = run("export", made("h264"), "--out", tmp_path / "o", code=1)
    expected = (
        f"Error: cannot write {tmp_path}/o ({tmp_path}/o is a file, not a folder). Choose another --out.\n"
    )
    assert result.stderr == expected


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_read_only_folder_is_an_error_of_the_output(run, tmp_path):
    (tmp_path / "o").mkdir(mode=0o500)
    result = run("export", made("h264"), "--out", tmp_path / "o", code=1)
    assert "(Permission denied). Free space or choose a writable folder" in result.stderr


@pytest.mark.parametrize("jobs", [1, 3])
def test_a_full_disk_ends_the_export_and_resume_goes_on(run, tmp_path, monkeypatch, jobs):
    written = []

    def fill(pixels, quality):
        written.append(quality)
        if len(written) > 10:
            raise OSError(errno.ENOSPC, "No space left on device")
        return original(pixels, quality)

    original = images._jpeg
    monkeypatch.setattr(images, "_jpeg", fill)
    options = ("--manifest", tmp_path / "m.jsonl", "--jobs", jobs)
    result = run("export", made("h264"), made("vp9"), "--out", tmp_path / "o", *options, code=1)
    assert "(No space left on device). Free space or choose a writable folder" in result.stderr
    assert result.stderr.startswith("10 files written to")
    assert len(files(tmp_path / "o")) == len((tmp_path / "m.jsonl").read_text().splitlines()) == 10
    monkeypatch.undo()
    run("export", made("h264"), made("vp9"), "--out", tmp_path / "o", *options, "--resume")
    assert numbers(tmp_path / "o") == 2 * list(range(48))


def test_a_resume_with_a_broken_manifest_names_the_line(run, tmp_path):
    (tmp_path / "m.jsonl").write_text("{}\n")
    options = ("--manifest", tmp_path / "m.jsonl", "--resume")
    result = run("export", made("h264"), "--out", tmp_path / "o", *options, code=1)
    assert f"{tmp_path / 'm.jsonl'}: line 1 lacks columns; it needs" in result.stderr


def test_a_stale_and_a_damaged_index_do_no_harm(run, tmp_path):
    video, cache = tmp_path / "x.mp4", tmp_path / "cache"
    shutil.copyfile(made("h264"), video)
    export = ("export", video, "--out", tmp_path / "o", "--cache-dir", cache, "--overwrite")
    run(*export)
    shutil.copyfile(made("h264_long_gop"), video)
    run(*export)
    assert numbers(tmp_path / "o") == list(range(75))
    (stored,) = (path for path in cache.rglob("*") if path.is_file())
    stored.write_bytes(stored.read_bytes()[:-50])
    run(*export)
    assert numbers(tmp_path / "o") == list(range(75))


@pytest.mark.parametrize("debug", [False, True])
def test_tracebacks_are_for_those_who_ask(run, tmp_path, monkeypatch, debug):
    if debug:
        monkeypatch.setenv("SEQPIPE_DEBUG", "1")
        with pytest.raises(OSError, match="cannot write"):
            run("export", made("h264"), "--out", made("h264"))
    else:
        assert "Traceback" not in run("export", made("h264"), "--out", made("h264"), code=1).stderr
