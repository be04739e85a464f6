"""The note of an output folder, and what --resume makes of files that other options, or other exports, have left."""

from __future__ import annotations

import json
import shutil

import numpy as np
import pytest

from seqpipe import Sequence
from seqpipe.cli.record import OptionDigests, RecordEntry, internal_path, read_entries, record_options
from seqpipe.errors import OutputError
from seqpipe.volume import save
from tests.support.deep import deep
from tests.support.media import made

from .written import files

LIKE = OptionDigests("pixels", "frames")


def tree(folder):
    return {name: (folder / name).read_bytes() for name in files(folder)}


def export(run, out, *options):
    return run("export", made("h264"), "--out", out, "--num", 6, *options).stderr


@pytest.mark.parametrize(
    ("options", "named", "manifest"),
    [
        (["--size", "32x24"], "--size was not given and is 32x24", True),
        (["--quality", 20], "--quality was not given and is 20", False),
        deep(["--crop", "8:8:64:48"], "--crop was not given and is 8:8:64:48", True),
        deep(["--max-side", 40], "--max-side was not given and is 40", False),
        (["--num", 5], "--num was 6 and is 5", False),
        deep(["--start", "10f"], "--start was not given and is 10f", True),
        deep(["--format", "png"], "--format was jpg and is png", False),
        (
            ["--num", 5, "--dtype", "uint16", "--format", "png"],
            "--num was 6 and is 5, --dtype was uint8 and",
            True,
        ),
    ],
    ids=str,
)
def test_files_of_other_options_are_not_replaced(run, tmp_path, options, named, manifest):
    """They were, without a word: a typing error in a --resume cost a finished export."""
    same = ["--pattern", "{stem}/{index:06d}.img"]
    same += ["--manifest", tmp_path / "m.csv"] if manifest else []
    export(run, tmp_path / "o", *same)
    before = tree(tmp_path / "o") | tree(tmp_path)
    command = ["export", made("h264"), "--out", tmp_path / "o", "--num", 6, *same, *options]
    for dry in ([], ["--dry-run"]):
        said = run(*command, "--resume", *dry, code=2).stderr
        assert named in said
        assert "--overwrite" in said
        assert "another --out" in said
        assert tree(tmp_path / "o") | tree(tmp_path) == before
    assert "6 kept" in export(run, tmp_path / "o", *same, "--resume")
    run(*command, "--overwrite")
    run(*command[:3], tmp_path / "whole", *command[4:8], *options)
    expected = tree(tmp_path / "whole")
    assert tree(tmp_path / "o").items() >= expected.items()
    assert f"{len(expected)} kept" in run(*command, "--resume").stderr


def test_files_with_other_names_are_not_in_the_way(run, tmp_path):
    export(run, tmp_path / "o")
    assert "6 files written" in export(run, tmp_path / "o", "--format", "png", "--resume")
    assert "6 kept" in export(run, tmp_path / "o", "--format", "png", "--resume")


def test_an_interrupted_export_with_other_options_is_not_continued_with_these(run, tmp_path):
    """What is missing would be of one size, and what is there of another."""
    export(run, tmp_path / "o")
    names = files(tmp_path / "o")
    for name in names[:5]:
        (tmp_path / "o" / name).unlink()
    command = ["export", made("h264"), "--out", tmp_path / "o", "--num", 6, "--size", "32x24", "--resume"]
    assert "--size was not given and is 32x24" in run(*command, code=2).stderr
    assert files(tmp_path / "o") == names[5:]


def test_a_record_of_an_earlier_version_does_not_name_the_options(run, tmp_path):
    export(run, tmp_path / "o")
    path = internal_path(tmp_path / "o", "export.json")
    entries = json.loads(path.read_bytes())
    for entry in entries.values():
        del entry["typed"]
    path.write_text(json.dumps(entries))
    assert "6 kept" in export(run, tmp_path / "o", "--resume")
    command = ["export", made("h264"), "--out", tmp_path / "o", "--num", 6, "--size", "32x24", "--resume"]
    assert "made with other options: those of an earlier version." in run(*command, code=2).stderr


@pytest.mark.parametrize("manifest", [False, True])
def test_what_an_interrupted_overwrite_has_not_replaced_is_replaced_by_its_resume(run, tmp_path, manifest):
    """All that was there counted as whole, which it is, but of the older export."""
    more = ["--manifest", tmp_path / "m.jsonl"] if manifest else []
    export(run, tmp_path / "o", *more)
    shutil.copytree(tmp_path / "o", tmp_path / "older")
    export(run, tmp_path / "o", *more, "--size", "32x24", "--overwrite")
    expected = tree(tmp_path / "o")
    for name in list(expected)[3:]:
        shutil.copy2(tmp_path / "older" / name, tmp_path / "o" / name)
    if manifest:
        rows = (tmp_path / "m.jsonl").read_text().splitlines(keepends=True)
        (tmp_path / "m.jsonl").write_text("".join(rows[:3]))
    said = export(run, tmp_path / "o", *more, "--size", "32x24", "--resume")
    assert "3 files written" in said
    assert "3 kept" in said
    assert tree(tmp_path / "o") == expected


def test_an_overwrite_with_the_same_options_replaces_all(run, tmp_path):
    export(run, tmp_path / "o")
    shutil.copytree(tmp_path / "o", tmp_path / "older")
    export(run, tmp_path / "o", "--overwrite")
    (name, *_) = files(tmp_path / "o")
    shutil.copy2(tmp_path / "older" / name, tmp_path / "o" / name)
    assert "1 file written" in export(run, tmp_path / "o", "--resume")


@pytest.mark.parametrize("manifest", [False, True])
def test_files_of_another_source_of_that_name_are_not_replaced(run, tmp_path, manifest):
    for name, folder in (("h264", "a"), ("vp9", "b")):
        (tmp_path / folder).mkdir()
        shutil.copy(made(name), tmp_path / folder / "x.mp4")
    options = ["--out", tmp_path / "o", "--num", 3]
    options += ["--manifest", tmp_path / "m.csv"] if manifest else []
    run("export", tmp_path / "a/x.mp4", *options)
    before = tree(tmp_path / "o")
    said = run("export", tmp_path / "b/x.mp4", *options, "--resume", code=2).stderr
    assert f"is not known to come from {tmp_path / 'b/x.mp4'}" in said
    assert tree(tmp_path / "o") == before
    if manifest:
        assert (tmp_path / "m.csv").read_text().count("a/x.mp4,done,x/00000") == 3


def test_exports_of_several_sources_are_noted_side_by_side(run, tmp_path):
    for name, size in (("h264", "32x24"), ("vp9", "64x48")):
        run("export", made(name), "--out", tmp_path / "o", "--num", 3, "--size", size)
    for name, size in (("h264", "32x24"), ("vp9", "64x48")):
        said = run(
            "export", made(name), "--out", tmp_path / "o", "--num", 3, "--size", size, "--resume"
        ).stderr
        assert "3 kept" in said


@pytest.mark.parametrize("content", [b"[]", b"{", b'{"a": {"pixels": 1}}', b""])
def test_files_that_nothing_is_known_of_are_not_replaced(run, tmp_path, content):
    """They may be the user's own."""
    export(run, tmp_path / "o")
    before = tree(tmp_path / "o")
    internal_path(tmp_path / "o", "export.json").write_bytes(content)
    command = ["export", made("h264"), "--out", tmp_path / "o", "--num", 6]
    assert "the folder's record does not have that source" in run(*command, "--resume", code=2).stderr
    assert tree(tmp_path / "o").items() >= {n: d for n, d in before.items() if n.endswith(".jpg")}.items()
    assert "6 files written" in run(*command, "--overwrite").stderr
    assert "6 kept" in run(*command, "--resume").stderr


@pytest.mark.parametrize(
    ("options", "named"),
    [
        (["--every", 2], "--every was not given and is 2"),
        (["--window", "40,400"], "--window was not given and is 40,400"),
        (["--axis", "coronal"], "--axis was axial and is coronal"),
    ],
    ids=str,
)
def test_slices_of_other_options_are_not_replaced(run, tmp_path, options, named):
    save(Sequence(np.arange(240, dtype=np.int16).reshape(4, 6, 10, 1), "DHWC"), tmp_path / "ct.nii.gz")
    command = ["export", tmp_path / "ct.nii.gz", "--out", tmp_path / "o"]
    run(*command)
    before = tree(tmp_path / "o")
    assert named in run(*command, *options, "--resume", code=2).stderr
    assert tree(tmp_path / "o") == before
    assert "4 kept" in run(*command, "--resume").stderr


def test_flow_of_other_options_is_not_replaced(run, tmp_path):
    command = ["flow", made("h264"), "--out", tmp_path / "o", "--num", 3, "--device", "cpu"]
    run(*command, "--preset", "fast")
    said = run(*command, "--preset", "slow", "--resume", code=2).stderr
    assert "--preset was fast and is slow" in said
    assert "2 kept" in run(*command, "--preset", "fast", "--resume").stderr


def test_a_dry_run_notes_nothing(run, tmp_path):
    export(run, tmp_path / "o", "--dry-run")
    assert not (tmp_path / "o").exists()


def test_an_entry_stands_for_as_long_as_the_options_are_the_same(tmp_path):
    record_options(tmp_path, ["a", "s3://b/c.mp4", "\udcff"], LIKE, replace=False)
    first = read_entries(tmp_path)
    assert {entry.is_of(LIKE) for entry in first.values()} == {True}
    assert "s3://b/c.mp4" in first
    record_options(tmp_path, ["a"], LIKE, replace=False)
    assert read_entries(tmp_path) == first
    record_options(tmp_path, ["a"], OptionDigests("pixels", "others"), replace=False)
    (changed,) = set(read_entries(tmp_path).values()) - set(first.values())
    assert changed.since_ns >= next(iter(first.values())).since_ns
    assert not changed.is_of(LIKE)
    assert isinstance(changed, RecordEntry)


def test_a_folder_below_a_file_is_refused(tmp_path):
    (tmp_path / "taken").touch()
    with pytest.raises(OutputError, match=r"cannot write .*taken/"):
        record_options(tmp_path / "taken", ["a"], LIKE, replace=False)


def test_an_export_makes_no_folder_of_its_own(run, tmp_path):
    """Folders are classes to those who train on the images, as in torchvision's ImageFolder."""
    export(run, tmp_path / "o")
    assert [path.name for path in tmp_path.joinpath("o").rglob("*") if path.is_dir()] == ["h264"]
