"""``seqpipe index``."""

from __future__ import annotations

import shutil

import pytest

from seqpipe import Clip, Decode, videos
from seqpipe.video.index import shared as register
from tests.support.media import made

from .written import files, lines


@pytest.mark.parametrize("jobs", [1, 3])
def test_a_folder_is_indexed_once(run, tmp_path, jobs):
    for name in ("h264", "vp9", "data_cut_mp4"):
        (tmp_path / "in/deep").mkdir(parents=True, exist_ok=True)
        shutil.copy(made(name), tmp_path / "in/deep")
    arguments = ("index", tmp_path / "in", "--cache-dir", tmp_path / "cache", "--jobs", jobs)
    first = run(*arguments, "--json")
    *told, summary = lines(first.stdout)
    assert summary == {"type": "summary", "built": 3, "fresh": 0, "failed": 0}
    by_name = {line["source"].rpartition("/")[2]: line for line in told}
    assert (by_name["h264.mp4"]["frames"], by_name["h264.mp4"]["status"]) == (48, "built")
    assert "the file is truncated" in by_name["data_cut_mp4.mp4"]["error"]
    assert "Warning: " in first.stderr
    assert len(files(tmp_path / "cache")) == 3
    assert lines(run(*arguments, "--json").stdout)[-1] == summary | {"built": 0, "fresh": 3}
    (tmp_path / "in/deep/vp9.webm").touch()
    (tmp_path / "in/deep/vp9.webm").write_bytes(made("vp9_altref").read_bytes())
    assert lines(run(*arguments, "--json").stdout)[-1] == summary | {"built": 1, "fresh": 2}


def test_what_datasets_keep_is_no_index(run, tmp_path, monkeypatch):
    monkeypatch.setattr(register, "_FEWEST_FILES", 1)
    video, cache = shutil.copy(made("h264"), tmp_path), tmp_path / "cache"
    arguments = ("index", video, "--cache-dir", cache, "--json")
    assert lines(run(*arguments).stdout)[-1]["built"] == 1
    videos([video], Clip(4), decode=Decode(cache_dir=cache))
    index, kept = files(cache)
    assert kept.startswith("registers/")
    told = {line["name"]: line for line in lines(run("doctor", "--json", "--cache-dir", cache).stdout)}
    size = sum((cache / name).stat().st_size for name in (index, kept))
    assert told["Index cache"]["value"] == f"{cache}: 2 files, {size / 1e6:.1f} MB"
    assert lines(run(*arguments).stdout)[-1]["fresh"] == 1
    (cache / index).unlink()
    assert lines(run(*arguments).stdout)[-1]["built"] == 1, "a register is no index"


def test_failures_are_named_and_counted(run, tmp_path):
    (tmp_path / "none").mkdir()
    paths = (made("text"), made("h264"), tmp_path / "gone.mp4", tmp_path / "none")
    result = run("index", *paths, "--cache-dir", tmp_path / "cache", "--json", code=1)
    *told, summary = lines(result.stdout)
    assert [line["status"] for line in told] == ["failed", "built", "failed", "failed"]
    assert [line["source"] for line in told] == list(map(str, paths))
    assert summary == {"type": "summary", "built": 1, "fresh": 0, "failed": 3}
    assert result.stderr.count("Error: ") == 3
    assert "1 built, 0 fresh, 3 failed." in result.stderr


def test_a_register_is_of_no_single_stream(run, tmp_path):
    result = run("index", made("h264"), "--register", tmp_path / "r", "--stream", "0", code=2)
    assert "a register holds the best video of each file. Leave out --stream or --register" in result.stderr
    assert not (tmp_path / "r").exists()


def test_stdout_is_silent(run, tmp_path):
    assert run("index", made("h264"), "--cache-dir", tmp_path).stdout == ""


def test_a_cache_that_cannot_be_written_is_an_error_before_any_work(run, tmp_path):
    (tmp_path / "file").touch()
    blocked = tmp_path / "file" / "below"
    failed = run("index", made("h264"), "--cache-dir", blocked, code=1)
    assert f"{blocked}: the index cache cannot be written (Not a directory). Set" in failed.stderr
    assert failed.stdout == ""


def test_a_cache_that_is_whole_need_not_be_written(run, tmp_path, monkeypatch):
    run("index", made("h264"), "--cache-dir", tmp_path)
    monkeypatch.setattr("seqpipe.video.index.cache.check_writable", None)
    assert "0 built, 1 fresh, 0 failed." in run("index", made("h264"), "--cache-dir", tmp_path).stderr


def test_verifying_tells_what_is_damaged(run, tmp_path):
    options = ("--json", "--cache-dir", tmp_path)
    (plain, _) = lines(run("index", made("h264_flip_key"), *options).stdout)
    assert (plain["frames"], plain["lost"]) == (48, 0)
    result = run("index", "--verify", made("h264_flip_key"), made("h264"), *options)
    damaged, sound, _ = lines(result.stdout)
    assert (damaged["frames"], damaged["lost"]) == (48, 24)
    assert sound["lost"] == 0
    assert "24 of 48 frames are damaged" in result.stderr
    assert [damaged["status"], sound["status"]] == ["built", "built"], "what was not verified is not fresh"
    assert lines(run("index", "--verify", made("h264"), *options).stdout)[-1]["fresh"] == 1
    assert lines(run("index", made("h264"), *options).stdout)[-1]["fresh"] == 1
