"""The note of an output folder, and what --resume makes of files that other options, or other exports, have left."""

from __future__ import annotations

import shutil

import pytest

from seqpipe.cli.job.record import OptionDigests, RecordEntry, internal_path, read_entries, record_options
from seqpipe.errors import OutputError
from tests.support.media import made

from .written import files

LIKE = OptionDigests("pixels", "frames")


def tree(folder):
    return {name: (folder / name).read_bytes() for name in files(folder)}


def export(run, out, *options):
    return run("export", made("h264"), "--out", out, "--num", 6, *options).stderr


@pytest.mark.parametrize("manifest", [False, True])
@pytest.mark.parametrize(
    "options",
    [
        ["--size", "32x24"],
        ["--quality", 20],
        ["--crop", "8:8:64:48"],
        ["--max-side", 40],
        ["--num", 5],
        ["--start", "10f"],
        ["--format", "png"],
    ],
    ids=str,
)
def test_files_of_other_options_are_made_anew(run, tmp_path, options, manifest):
    """They were kept: half of an export was of one size, and half of another."""
    same = ["--pattern", "{stem}/{index:06d}.img"]
    same += ["--manifest", tmp_path / "m.csv"] if manifest else []
    export(run, tmp_path / "o", *same)
    said = export(run, tmp_path / "o", *same, *options, "--resume")
    export(run, tmp_path / "whole", *same[:2], *options)
    assert manifest or "kept" not in said  # a manifest tells which files hold a frame that is wanted again
    expected = tree(tmp_path / "whole")
    assert tree(tmp_path / "o").items() >= expected.items()
    assert f"{len(expected)} kept" in export(run, tmp_path / "o", *same, *options, "--resume")


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
def test_files_of_another_source_of_that_name_are_made_anew(run, tmp_path, manifest):
    for name, folder in (("h264", "a"), ("vp9", "b")):
        (tmp_path / folder).mkdir()
        shutil.copy(made(name), tmp_path / folder / "x.mp4")
    options = ["--out", tmp_path / "o", "--num", 3]
    options += ["--manifest", tmp_path / "m.csv"] if manifest else []
    run("export", tmp_path / "a/x.mp4", *options)
    assert "3 files written" in run("export", tmp_path / "b/x.mp4", *options, "--resume").stderr
    if manifest:
        rows = (tmp_path / "m.csv").read_text()
        assert rows.count("b/x.mp4,done,x/00000") == 3
        assert "a/x.mp4" not in rows


def test_exports_of_several_sources_are_noted_side_by_side(run, tmp_path):
    for name, size in (("h264", "32x24"), ("vp9", "64x48")):
        run("export", made(name), "--out", tmp_path / "o", "--num", 3, "--size", size)
    for name, size in (("h264", "32x24"), ("vp9", "64x48")):
        said = run(
            "export", made(name), "--out", tmp_path / "o", "--num", 3, "--size", size, "--resume"
        ).stderr
        assert "3 kept" in said


def test_files_that_nothing_is_known_of_are_made_anew(run, tmp_path):
    export(run, tmp_path / "o")
    for content in (b"[]", b"{", b'{"a": {"pixels": 1}}', b""):
        internal_path(tmp_path / "o", "export.json").write_bytes(content)
        assert "6 files written" in export(run, tmp_path / "o", "--resume")
    assert "6 kept" in export(run, tmp_path / "o", "--resume")


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
