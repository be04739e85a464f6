"""export --to: shards hold what single files would, and jobs and repeated runs give the same shards."""

from __future__ import annotations

import json
import shutil
import signal
import subprocess
import sys
import tarfile
import time

import pytest

from tests.support.media import made

from .written import files, lines


@pytest.fixture(scope="module")
def clips(tmp_path_factory):
    folder = tmp_path_factory.mktemp("in")
    for number in range(5):
        source = made("vp9" if number % 2 else "h264")
        shutil.copy(source, folder / f"{number}.v1{source.suffix}")
    return folder


@pytest.fixture
def export(run, clips, tmp_path):
    def export(out, *options, code=0):
        paths = ("--out", tmp_path / out, "--cache-dir", tmp_path / "cache", "--device", "cpu")
        return run("export", clips, *paths, *options, code=code)

    return export


def _tree(folder):
    return {name: (folder / name).read_bytes() for name in files(folder) if not name.startswith(".seqpipe/")}


def _members(folder):
    found = {}
    for path in sorted(folder.glob("*.tar")):
        with tarfile.open(path) as tar:
            found |= {member.name: tar.extractfile(member).read() for member in tar}
    return found


def test_frames_are_those_of_files(export, tmp_path):
    export("files", "--num", 3, "--quality", 80)
    export("tars", "--num", 3, "--quality", 80, "--to", "webdataset", "--per-shard", 2)
    pictures = {name: data for name, data in _members(tmp_path / "tars").items() if name.endswith(".jpg")}
    assert pictures == _tree(tmp_path / "files")
    assert [path.name for path in sorted((tmp_path / "tars").glob("*.tar"))] == [
        f"shard-00000{n}.tar" for n in range(3)
    ]
    rows = [json.loads(line) for line in (tmp_path / "tars/manifest.jsonl").read_text().splitlines()]
    assert [f"{row['key']}.jpg" for row in rows] == sorted(pictures)
    assert rows[0]["frame"] == 8


def test_a_sequence_is_one_sample(export, tmp_path):
    parquet = pytest.importorskip("pyarrow.parquet")
    options = ("--sequence-length", 4, "--step", 20)
    export("files", *options)
    export("tars", *options, "--to", "webdataset")
    members = [name for name in _members(tmp_path / "tars") if name.endswith(".jpg")]
    assert len(members) == len(files(tmp_path / "files"))
    assert members[:4] == [f"0.v1/000000.{n:03d}.jpg" for n in range(4)]
    export("parquet", *options, "--to", "parquet")
    rows = parquet.read_table(tmp_path / "parquet/shard-000000.parquet").to_pylist()
    assert [picture for row in rows for picture in row["image"]] == list(_tree(tmp_path / "files").values())


def test_jobs_and_repeated_runs_give_the_same_shards(export, run, clips, tmp_path):
    options = ("--num", 2, "--to", "webdataset", "--per-shard", 1)
    export("whole", *options)
    export("parts", *options, "--shard", "1/3")
    assert not (tmp_path / "parts/manifest.jsonl").exists()
    for number in range(2):
        export("parts", *options, "--shard", f"{number}/2", "--resume")
    assert _tree(tmp_path / "parts") == _tree(tmp_path / "whole")
    told = lines(export("parts", *options, "--resume", "--json").stdout)
    assert (told[-1]["done"], told[-1]["kept"]) == (0, 5)
    error = export("parts", *options, code=1).stderr
    assert "5 of 5 parts of these samples are written already. --resume writes what is missing" in error
    error = export("parts", *options, "--resume", "--quality", 50, code=1).stderr
    assert "other options" in error
    assert "'--quality': '50'" in error
    another = ("export", clips / "0.v1.mp4", "--out", tmp_path / "parts", "--device", "cpu", *options)
    assert "inputs was 5 and is 1" in run(*another, "--shard", "0/3", "--resume", code=1).stderr
    export("parts", *options, "--quality", 50, "--overwrite")
    assert len(_tree(tmp_path / "parts")) == 6


def test_a_killed_export_is_continued(export, clips, tmp_path):
    arguments = [
        "export",
        str(clips),
        "--out",
        str(tmp_path / "out"),
        "--to",
        "webdataset",
        "--per-shard",
        "1",
    ]
    arguments += ["--cache-dir", str(tmp_path / "cache"), "--device", "cpu", "--jobs", "1", "--format", "png"]
    with subprocess.Popen(
        [sys.executable, "-m", "seqpipe", *arguments], stderr=subprocess.DEVNULL
    ) as process:
        until = time.monotonic() + 60
        while not (tmp_path / "out/.seqpipe/units/000000.jsonl").exists():
            assert time.monotonic() < until
            time.sleep(0.001)
        process.send_signal(signal.SIGKILL)
    export("out", "--to", "webdataset", "--per-shard", "1", "--format", "png", "--resume")
    export("whole", "--to", "webdataset", "--per-shard", "1", "--format", "png")
    assert _tree(tmp_path / "out") == _tree(tmp_path / "whole")


def test_failures_are_rows(run, clips, tmp_path):
    options = ("--num", 2, "--to", "webdataset", "--device", "cpu", "--json")
    result = run("export", made("text"), clips / "0.v1.mp4", "--out", tmp_path / "out", *options, code=1)
    told = lines(result.stdout)
    assert [line.get("status") for line in told] == ["failed", "done", "done", None]
    assert told[1]["output"] == "shard-000000.tar"
    assert result.stderr.count("Error: ") == 1
    rows = [json.loads(line) for line in (tmp_path / "out/manifest.jsonl").read_text().splitlines()]
    assert rows[0].keys() == {"source", "error"}
    raising = (
        made("text"),
        clips / "0.v1.mp4",
        "--out",
        tmp_path / "raised",
        *options,
        "--on-error",
        "raise",
    )
    assert "this is not a video" in run("export", *raising, code=1).stderr
    assert _tree(tmp_path / "raised") == {}


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--manifest", "a.csv"), "--manifest is for single files"),
        (("--contact-sheet",), "--contact-sheet is for single files"),
        (("--dry-run",), "--dry-run is for single files"),
        (("--format", "npz"), "--format npz is not for frames in shards"),
        (("--per-shard", "0"), "per_shard=0 is not valid"),
    ],
)
def test_options_that_shards_lack(export, options, said):
    assert said in export("out", "--to", "webdataset", *options, code=2).stderr


def test_files_go_into_folders_alone(run, clips):
    error = run("export", clips, "--out", "s3://bucket/x", "--num", 1, code=2).stderr
    assert "out='s3://bucket/x' is no folder" in error
