"""Exports that were stopped and gone on with: tree and manifest end up as if nothing had been."""

from __future__ import annotations

import itertools
import os
import random
import shutil
import signal
import subprocess
import sys
import time

import pytest

from seqpipe.cli.manifest import manifest_exists, read_rows
from seqpipe.cli.record import OptionDigests, finished
from tests.support.deep import deep_but
from tests.support.interrupts import PROGRAM
from tests.support.media import made

from .written import files, lines

NAMES = ["h264", "vp9", "h264_flip_disposable", "hevc"]


def command(folder, ending, *more):
    inputs = [str(made(name)) for name in NAMES]
    manifest = ("--manifest", f"{folder}/m.{ending}")
    return ["export", *inputs, "--out", f"{folder}/o", *manifest, "--contact-sheet", "--jobs", "2", *more]


def start(arguments):
    return subprocess.Popen(
        [sys.executable, "-c", PROGRAM, *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def tree(folder):
    return {name: (folder / name).read_bytes() for name in files(folder)}


def table(path):
    return sorted(map(str, read_rows(path)))


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """The tree and the manifest of an export that nobody interrupted."""
    folder = tmp_path_factory.mktemp("whole")
    process = start(command(folder, "jsonl"))
    process.communicate()
    assert process.returncode == 1  # one source has a lost frame
    return tree(folder / "o"), table(folder / "m.jsonl")


def wait_for_files(folder, count, process):
    """Until so many pictures are there."""
    deadline = time.monotonic() + 60
    while len(files(folder / "o")) < count and time.monotonic() < deadline and process.poll() is None:
        time.sleep(0.002)
    return process.poll() is None


@pytest.mark.parametrize(
    ("kill", "ending"),
    deep_but(
        [(signal.SIGKILL, "csv")],
        itertools.product([signal.SIGINT, signal.SIGTERM, signal.SIGKILL], ["jsonl", "csv"]),
    ),
)
def test_a_stopped_export_is_gone_on_with_exactly(tmp_path, whole, kill, ending):
    rng = random.Random(f"{kill}{ending}{os.getpid()}{time.time_ns()}")
    more = ()
    for _ in range(3):
        process = start(command(tmp_path, ending, *more))
        running = wait_for_files(tmp_path, rng.randrange(1, 150), process)
        process.send_signal(kill)
        _, said = process.communicate(timeout=60)
        if running and kill != signal.SIGKILL and process.returncode == 130:
            assert "Interrupted. No file is incomplete; repeat the command with --resume to continue." in said
            assert "Traceback" not in said
            assert not [name for name in files(tmp_path / "o") if name.endswith(".part")]
        # what a killed process leaves: the file that it was writing, and locks that are free
        left = {n: data for n, data in tree(tmp_path / "o").items() if not n.endswith((".part", ".lock"))}
        assert left.items() <= whole[0].items(), "a file that is there is whole"
        if manifest_exists(tmp_path / f"m.{ending}"):
            told = {row.output for row in read_rows(tmp_path / f"m.{ending}") if row.status == "done"}
            assert told <= set(left), "a row stands for a file that is there"
        more = ("--resume",)
    process = start(command(tmp_path, ending, "--resume"))
    process.communicate(timeout=60)
    assert process.returncode == 1
    assert tree(tmp_path / "o") == whole[0]
    assert table(tmp_path / f"m.{ending}") == whole[1]
    assert sorted(path.name for path in tmp_path.iterdir()) == [f"m.{ending}", "o"]


def test_an_interrupt_is_obeyed_at_once(tmp_path):
    options = ("--format", "png", "--size", "2000x1500", "--jobs", "1")
    process = start(["export", str(made("h264")), "--out", str(tmp_path / "o"), *options])
    assert wait_for_files(tmp_path, 2, process)
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=60)
    assert process.returncode == 130
    assert len(files(tmp_path / "o")) < 10


def test_resume_does_nothing_twice_and_mends_what_is_wrong(run, tmp_path):
    export = ("export", made("h264"), "--out", tmp_path / "o", "--manifest", tmp_path / "m.jsonl")
    run(*export)
    before, told = tree(tmp_path / "o"), table(tmp_path / "m.jsonl")
    stamps = {path: path.stat().st_mtime_ns for path in (tmp_path / "o/h264").iterdir()}
    cut, gone, unknown = (tmp_path / f"o/h264/{n:06d}.jpg" for n in (3, 20, 30))
    cut.write_bytes(cut.read_bytes()[:100])
    gone.unlink()
    rows = (tmp_path / "m.jsonl").read_text().splitlines(keepends=True)
    (tmp_path / "m.jsonl").write_text("".join(row for row in rows if unknown.name not in row) + rows[5][:50])
    result = run(*export, "--resume")
    assert "2 files written" in result.stderr
    assert "46 kept" in result.stderr
    assert tree(tmp_path / "o") == before
    assert table(tmp_path / "m.jsonl") == told
    again = {path for path in stamps if path.stat().st_mtime_ns != stamps[path]}
    assert again == {cut, gone}


def test_resume_works_without_a_manifest(run, tmp_path):
    export = ("export", made("h264"), "--out", tmp_path / "o")
    run(*export)
    before = tree(tmp_path / "o")
    (tmp_path / "o/h264/000007.jpg").unlink()
    assert "1 file written" in run(*export, "--resume").stderr
    assert tree(tmp_path / "o") == before


def test_resume_before_anything_was_done_is_an_export(run, tmp_path):
    run(
        "export",
        made("h264"),
        "--out",
        tmp_path / "o",
        "--num",
        2,
        "--resume",
        "--manifest",
        tmp_path / "m.csv",
    )
    assert len(read_rows(tmp_path / "m.csv")) == 2


def test_files_of_another_selection_are_not_replaced(run, tmp_path):
    """They were, so that a typing error in a --resume cost a finished export."""
    export = ("export", made("h264"), "--out", tmp_path / "o", "--manifest", tmp_path / "m.jsonl")
    run(*export, "--every", 10)
    assert "--every was 10 and is 12" in run(*export, "--every", 12, "--resume", code=2).stderr
    assert [row.frame for row in read_rows(tmp_path / "m.jsonl")] == [0, 10, 20, 30, 40]


def test_a_longer_range_is_added_to_an_export_with_a_manifest(run, tmp_path):
    export = ("export", made("h264"), "--out", tmp_path / "o", "--manifest", tmp_path / "m.jsonl")
    run(*export, "--end", "10f")
    assert "5 files written" in run(*export, "--end", "15f", "--resume").stderr
    assert [row.frame for row in read_rows(tmp_path / "m.jsonl")] == list(range(15))


def test_a_sheet_that_shows_the_same_is_not_decoded_again(run, tmp_path, monkeypatch):
    """Its thumbnails were, which takes minutes for a folder of films."""
    export = ["export", made("h264"), made("vp9"), "--out", tmp_path / "o", "--contact-sheet"]
    run(*export)
    sheet = tmp_path / "o/contact_sheet.html"
    before, stamp = tree(tmp_path / "o"), sheet.stat().st_mtime_ns
    with monkeypatch.context() as patch:
        patch.setattr("seqpipe.cli.work.VideoReader", None)  # nothing is opened for decoding
        assert "0 files written" in run(*export, "--resume").stderr
    assert sheet.stat().st_mtime_ns == stamp
    run(*export, "--resume", "--sheet-grid", "2x1")
    assert sheet.read_text().count("<figure>") == 4
    run(*export, "--resume")
    assert tree(tmp_path / "o") == before
    sheet.unlink()
    run(*export, "--resume")
    assert tree(tmp_path / "o") == before
    (tmp_path / "o/vp9/000003.jpg").unlink()
    stamp = sheet.stat().st_mtime_ns
    run(*export, "--resume")
    assert tree(tmp_path / "o") == before
    assert sheet.stat().st_mtime_ns > stamp


def test_rows_of_other_sources_stay(run, tmp_path):
    options = ("--out", tmp_path / "o", "--manifest", tmp_path / "m.csv", "--num", 2)
    run("export", made("h264"), *options)
    run("export", made("vp9"), *options, "--resume")
    assert [row.output for row in read_rows(tmp_path / "m.csv")] == [
        "h264/000000.jpg",
        "h264/000001.jpg",
        "vp9/000000.jpg",
        "vp9/000001.jpg",
    ]


@pytest.mark.parametrize("ending", ["jsonl", "csv", "parquet"])
def test_a_name_that_is_not_utf8_is_the_same_in_every_manifest(run, tmp_path, ending):
    """Parquet cannot hold it: its rows were taken for another source's, and stood there twice."""
    if ending == "parquet":
        pytest.importorskip("pyarrow", reason="a parquet manifest needs pyarrow")
    source = tmp_path / "\udcffa.mp4"
    shutil.copy(made("h264"), source)
    export = ("export", source, "--out", tmp_path / "o", "--num", 2, "--manifest", tmp_path / f"m.{ending}")
    run(*export)
    before = table(tmp_path / f"m.{ending}")
    assert "2 kept" in run(*export, "--resume").stderr
    assert table(tmp_path / f"m.{ending}") == before
    (file, _) = (tmp_path / "o/\udcffa").iterdir()
    file.write_bytes(b"cut")
    assert "1 file written" in run(*export, "--resume").stderr


def test_a_dry_run_of_a_resume_counts_what_is_left(run, tmp_path):
    run("export", made("h264"), "--out", tmp_path, "--every", 2)
    (tmp_path / "h264/000004.jpg").unlink()
    result = run("export", made("h264"), "--out", tmp_path, "--every", 2, "--resume", "--dry-run", "--json")
    assert [line["files"] for line in lines(result.stdout)] == [1, 1]


def test_nothing_is_finished_without_plans(tmp_path):
    assert finished([], tmp_path, [], OptionDigests("", "")).kept == []
    shutil.rmtree(tmp_path)
    assert finished([], tmp_path, [], OptionDigests("", "")).files == []


def test_rows_stand_for_their_files_where_the_record_is_lost(run, tmp_path):
    export = ("export", made("h264"), "--out", tmp_path / "o", "--num", 2, "--manifest", tmp_path / "m.csv")
    run(*export)
    (record,) = (path for path in (tmp_path / "o").iterdir() if path.is_file())
    record.unlink()
    assert "2 kept" in run(*export, "--resume").stderr
