"""Finding inputs and writing whole files."""

from __future__ import annotations

import errno
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from seqpipe.cli import main
from seqpipe.cli.inputs import InputFile, find_inputs
from seqpipe.errors import OutputError, SeqpipeError
from seqpipe.writers.files import temporary_path, write_whole
from tests.support.media import ROOT, made

from .written import files


def touch(folder: Path, *names: str) -> None:
    for name in names:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).touch()


def test_a_folder_is_searched_through_in_order(tmp_path):
    touch(tmp_path, "b.mp4", "a.MKV", "x/y/c.webm", "note.txt", ".hidden.mp4", ".git/d.mp4", "mp4")
    found = list(find_inputs([str(tmp_path)]))
    assert [(item.stem, item.parent) for item in found] == [("a", "."), ("b", "."), ("c", "x/y")]
    assert [Path(item.path).name for item in found] == ["a.MKV", "b.mp4", "c.webm"]


def test_a_named_file_may_end_in_anything_and_need_not_exist():
    assert list(find_inputs(["data/clip.bin"])) == [InputFile("data/clip.bin", "clip.bin", "data")]


def test_a_url_is_left_alone():
    url = "https://host/day%201/my%20clip.mp4?key=1"
    assert list(find_inputs([url])) == [InputFile(url, "my clip.mp4", "day 1")]


def test_each_input_comes_once(tmp_path):
    touch(tmp_path, "a.mp4")
    paths = [str(tmp_path), str(tmp_path / "a.mp4"), f"{tmp_path}/./a.mp4", "s3://b/k.mp4", "s3://b/k.mp4"]
    assert [item.stem for item in find_inputs(paths)] == ["a", "k"]


def test_a_folder_without_videos_says_what_it_looked_for(tmp_path):
    touch(tmp_path, "note.txt")
    (error,) = find_inputs([str(tmp_path)])
    assert isinstance(error, SeqpipeError)
    assert str(error).startswith(
        f"{tmp_path}: there is no video in this folder, only 1 other file (.txt 1); allowed: files that end in .264,"
    )
    assert ".mp4" in str(error)


def test_a_folder_that_cannot_be_read_is_named(tmp_path, monkeypatch):
    def refuse(path, onerror, **_):
        onerror(PermissionError(errno.EACCES, "Permission denied", str(path)))
        return iter(())

    monkeypatch.setattr("os.walk", refuse)
    (error,) = find_inputs([str(tmp_path)])
    assert str(error) == f"{tmp_path}: the folder cannot be read (Permission denied)."


def test_a_file_is_written_whole_with_its_folders(tmp_path):
    assert write_whole(tmp_path / "a/b/c.bin", lambda file: file.write(b"12345")) == 5
    assert (tmp_path / "a/b/c.bin").read_bytes() == b"12345"
    assert files(tmp_path) == ["a/b/c.bin"]


@pytest.mark.parametrize("failure", [OSError(errno.ENOSPC, "No space left on device"), KeyboardInterrupt()])
def test_a_failed_write_leaves_the_old_file_and_nothing_else(tmp_path, failure):
    def write(file):
        file.write(b"half")
        raise failure

    (tmp_path / "x").write_bytes(b"old")
    with pytest.raises((OutputError, KeyboardInterrupt)):
        write_whole(tmp_path / "x", write)
    assert files(tmp_path) == ["x"]
    assert (tmp_path / "x").read_bytes() == b"old"


def test_a_file_is_replaced_and_not_overwritten(tmp_path):
    (tmp_path / "x").write_bytes(b"old")
    (tmp_path / "same").hardlink_to(tmp_path / "x")
    write_whole(tmp_path / "x", lambda file: file.write(b"new"))
    assert ((tmp_path / "x").read_bytes(), (tmp_path / "same").read_bytes()) == (b"new", b"old")


def test_a_full_disk_says_what_to_do(tmp_path):
    def write(file):
        raise OSError(errno.ENOSPC, "No space left on device")

    with pytest.raises(
        OutputError, match=r"cannot write .*x \(No space left on device\)\. Free space or choose"
    ):
        write_whole(tmp_path / "x", write)


def test_a_name_may_be_as_long_as_the_file_system_has_them(tmp_path):
    longest = "n" * os.pathconf(tmp_path, "PC_NAME_MAX")
    write_whole(tmp_path / longest, lambda file: file.write(b"x"))
    assert files(tmp_path) == [longest]
    with pytest.raises(
        OutputError, match=r"\(File name too long\)\. Use shorter names, by --out or --pattern"
    ):
        write_whole(tmp_path / f"{longest}n", lambda file: file.write(b"x"))


def test_a_part_is_not_written_through_a_link(tmp_path):
    """A part's name is known beforehand: in a shared folder a link could lead it to any file of the user's."""
    target, path = tmp_path / "target", tmp_path / "frame.png"
    target.write_bytes(b"precious")
    temporary_path(path, "part").symlink_to(target)
    write_whole(path, lambda file: file.write(b"pixels"))
    assert (path.read_bytes(), target.read_bytes()) == (b"pixels", b"precious")


def test_files_that_a_search_passes_over_are_counted(tmp_path, capsys):
    touch(tmp_path, "a.mp4", "b.264", "c.265", "d.IVF", "e.obu", "f.y4m", "g.txt", "h.txt", "i.jpg", "j")
    found = [Path(item.path).name for item in find_inputs([str(tmp_path)])]
    assert found == ["a.mp4", "b.264", "c.265", "d.IVF", "e.obu", "f.y4m"]
    said = capsys.readouterr().err
    assert "4 other files (.txt 2, .jpg 1, without an ending 1) skipped" in said.replace("\n", " ")


@pytest.mark.parametrize("command", ["probe", "index"])
def test_a_dash_is_standard_input(command, tmp_path):
    """What looks at a whole file has a copy of it."""
    arguments = [sys.executable, "-m", "seqpipe", command, "-", "--json", "--cache-dir", str(tmp_path)]
    done = subprocess.run(
        arguments, input=made("h264_ts").read_bytes(), capture_output=True, cwd=ROOT, check=False
    )
    assert done.returncode == 0, done.stderr.decode()
    first = json.loads(done.stdout.splitlines()[0])
    assert first.get("frames", 48) == 48
    assert "seqpipe-stdin-" in first["source"]


def test_linked_folders_are_searched_but_not_in_circles(tmp_path):
    touch(tmp_path, "data/a/one.mp4", "data/b/two.mp4", "elsewhere/three.mp4")
    data = tmp_path / "data"
    (data / "c").symlink_to(tmp_path / "elsewhere")
    (data / "a/up").symlink_to("..")
    (data / "a/other").symlink_to(data / "b")  # and back: a circle that no link closes alone
    (data / "b/other").symlink_to(data / "a")
    names = [Path(item.path).relative_to(data).as_posix() for item in find_inputs([str(data)])]
    assert names == ["a/one.mp4", "a/other/two.mp4", "b/two.mp4", "b/other/one.mp4", "c/three.mp4"]


def test_a_quoted_pattern_names_the_files_that_match(tmp_path):
    touch(tmp_path, "b/y.mp4", "b/x.mp4", "b/c/z.mp4", "b/n.txt", "[1].mp4")
    assert [item.stem for item in find_inputs([f"{tmp_path}/b/*.mp4"])] == ["x", "y"]
    assert [item.stem for item in find_inputs([f"{tmp_path}/**/*.mp4"])] == ["[1]", "z", "x", "y"]
    assert [item.stem for item in find_inputs([f"{tmp_path}/[1].mp4"])] == ["[1]"]  # a name, not a pattern
    (error,) = find_inputs([f"{tmp_path}/*.mkv"])
    assert isinstance(error, SeqpipeError)
    assert str(error).startswith(f"{tmp_path}/*.mkv: no file matches this pattern. Check the path")


def test_a_short_write_of_numpy_says_that_the_disk_may_be_full(tmp_path):
    def write(file):
        raise OSError("6220800 requested and 65408 written")

    with pytest.raises(OutputError, match="the disk is full or cannot be written: 6220800 requested"):
        write_whole(tmp_path / "a.npy", write)


@pytest.mark.parametrize("text", [b"a b.mp4\n\nsub\n", b"\xef\xbb\xbfa b.mp4\r\nsub\r\n", b"a b.mp4\0sub\0"])
@pytest.mark.parametrize("piped", [False, True])
def test_paths_may_stand_in_a_file(tmp_path, monkeypatch, text, piped):
    monkeypatch.chdir(tmp_path)
    shutil.copyfile(made("h264"), "a b.mp4")
    Path("sub").mkdir()
    shutil.copyfile(made("h264"), "sub/c.mp4")
    Path("list").write_bytes(text)
    arguments = ["probe", "--json", "sub/c.mp4", "--files-from", "-" if piped else "list"]
    result = CliRunner().invoke(main, arguments, input=text if piped else None)
    assert [json.loads(line)["source"] for line in result.stdout.splitlines()] == ["sub/c.mp4", "a b.mp4"]
    Path("list").write_bytes(b"\n")
    result = CliRunner().invoke(main, ["probe", "--files-from", "list"])
    assert (result.exit_code, "list holds no path" in result.stderr) == (2, True)
    result = CliRunner().invoke(main, ["probe"])
    assert (result.exit_code, "Missing argument 'PATH...'" in result.stderr) == (2, True)
