"""Manifests: what is written is read again, whatever the run's end."""

from __future__ import annotations

import builtins
import csv
import errno
import io
import json
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from seqpipe.cli.manifest import Manifest, ManifestRow, manifest_exists, manifest_format, read_rows
from seqpipe.errors import BackendError, ManifestError, OutputError, ParameterError

DONE = ManifestRow(
    source="a b.mp4",
    status="done",
    output="a b/000000.jpg",
    frame=7,
    length=1,
    pts=7007,
    pts_s=0.23356666666666667,
    width=128,
    height=96,
    bytes=4242,
)
LOST = replace(
    DONE, status="lost", output="a b/000001.jpg", frame=8, sequence=0, bytes=None, error='it is "lost", so'
)
FAILED = ManifestRow(source="new\nline,\r\udcff日.mp4", status="failed", error="empty")
ROWS = [DONE, LOST, FAILED]
ENDINGS = ["jsonl", "csv", "parquet"]


@pytest.fixture(autouse=True)
def _parquet(request):
    if "parquet" in request.node.name:
        pytest.importorskip("pyarrow", reason="a parquet manifest needs pyarrow")


def write(path, rows, kept=()):
    heard = []
    manifest = Manifest(path, kept, listener=heard.append)
    for row in rows:
        manifest.add(row)
    return manifest, heard


@pytest.mark.parametrize("ending", ENDINGS)
def test_rows_come_back(tmp_path, ending):
    path = tmp_path / f"m.{ending}"
    manifest, heard = write(path, ROWS[1:], kept=ROWS[:1])
    manifest.close()
    escaped = (
        replace(FAILED, source=FAILED.source.replace("\udcff", "\\udcff")) if ending == "parquet" else FAILED
    )
    assert read_rows(path) == [DONE, LOST, escaped]
    assert heard == ROWS[1:]
    assert [child.name for child in tmp_path.iterdir()] == [path.name]


@pytest.mark.parametrize("ending", ENDINGS)
def test_a_killed_run_leaves_its_rows_and_half_a_line_does_not_matter(tmp_path, ending):
    path = tmp_path / f"m.{ending}"
    manifest, _ = write(path, ROWS)
    (journal,) = tmp_path.iterdir()
    with journal.open("ab") as file:
        file.write(DONE.to_json().encode()[:40])
    assert manifest_exists(path)
    assert read_rows(path) == ROWS
    manifest.close()


def test_jsonl_is_one_object_a_line_in_ascii(tmp_path):
    manifest, _ = write(tmp_path / "m.jsonl", ROWS)
    manifest.close()
    text = (tmp_path / "m.jsonl").read_bytes().decode("ascii")
    assert [json.loads(line)["status"] for line in text.splitlines()] == ["done", "lost", "failed"]


def test_csv_is_read_by_the_standard_library(tmp_path):
    manifest, _ = write(tmp_path / "m.csv", [DONE, LOST])
    manifest.close()
    with (tmp_path / "m.csv").open(newline="") as file:
        first, second = csv.DictReader(file)
    assert (first["frame"], first["pts_s"], first["error"]) == ("7", "0.23356666666666667", "")
    assert second["error"] == 'it is "lost", so'


def test_parquet_has_types(tmp_path):
    parquet = pytest.importorskip("pyarrow.parquet")
    manifest, _ = write(tmp_path / "m.parquet", [DONE])
    manifest.close()
    schema = parquet.read_schema(tmp_path / "m.parquet")
    assert [str(schema.field(name).type) for name in ("source", "pts", "pts_s")] == [
        "string",
        "int64",
        "double",
    ]


@given(st.lists(st.sampled_from(ROWS), max_size=6), st.integers(0, 2000))
def test_a_cut_anywhere_keeps_the_whole_lines(tmp_path_factory, rows, cut):
    path = tmp_path_factory.mktemp("m") / "m.jsonl"
    data = "".join(f"{row.to_json()}\n" for row in rows).encode()[:cut]
    path.write_bytes(data)
    assert read_rows(path) == rows[: data.count(b"\n")]


def test_no_manifest_listens_all_the_same():
    manifest, heard = write(None, [DONE])
    manifest.close()
    assert heard == [DONE]


def test_no_file_has_no_rows(tmp_path):
    assert read_rows(tmp_path / "m.csv") == []
    assert not manifest_exists(tmp_path / "m.csv")


@pytest.mark.parametrize("name", ["m", "m.txt", "m.json"])
def test_an_unknown_ending_lists_the_known(tmp_path, name):
    with pytest.raises(ParameterError, match=r"allowed: \.jsonl, \.csv or \.parquet"):
        manifest_format(tmp_path / name)


def test_parquet_without_pyarrow_names_the_extra(tmp_path, monkeypatch):
    original = builtins.__import__

    def without(name, *rest):
        if name.startswith("pyarrow"):
            raise ImportError(name)
        return original(name, *rest)

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(BackendError, match=r"pip install 'seqpipe\[parquet\]', or choose"):
        manifest_format(tmp_path / "m.parquet")


BROKEN = [
    ("m.jsonl", b"{}\n", "line 1 lacks columns; it needs source, status"),
    ("m.jsonl", DONE.to_json().encode() + b"\n{oops\n", "line 2 is not JSON"),
    ("m.jsonl", b"[1]\n", "line 1 is not a JSON object"),
    ("m.jsonl", DONE.to_json().replace("4242", '"big"').encode() + b"\n", "line 1 has bytes='big'"),
    ("m.jsonl", DONE.to_json().replace('"done"', '"fine"').encode() + b"\n", "line 1 has status='fine'"),
    ("m.csv", b"file,label\na,1\n", "line 1 lacks columns; it needs"),
    ("m.csv", b"", "line 1 lacks columns; it needs"),
]


@pytest.mark.parametrize(("name", "content", "said"), BROKEN)
def test_a_line_that_is_none_is_named(tmp_path, name, content, said):
    (tmp_path / name).write_bytes(content)
    with pytest.raises(ManifestError, match=said) as caught:
        read_rows(tmp_path / name)
    assert str(tmp_path / name) in str(caught.value)
    assert "--overwrite" in str(caught.value)


def test_a_file_that_is_no_parquet_is_named(tmp_path):
    pytest.importorskip("pyarrow")
    (tmp_path / "m.parquet").write_bytes(b"x" * 100)
    with pytest.raises(ManifestError, match="is not parquet"):
        read_rows(tmp_path / "m.parquet")


class FullDisk(io.BytesIO):
    full = True

    def write(self, _):
        if self.full:
            raise OSError(errno.ENOSPC, "No space left on device")

    close = flush = lambda self: self.write(b"")  # as a buffer does that could not be written


def test_a_full_disk_is_an_error_of_the_output(tmp_path):
    manifest, _ = write(tmp_path / "m.jsonl", [DONE])
    manifest._journal.close()
    disk = manifest._journal = FullDisk()
    with pytest.raises(
        OutputError, match=r"m\.jsonl \(No space left on device\)\. Free space or .*; --resume"
    ):
        manifest.add(LOST)
    with pytest.raises(
        OutputError, match=r"m\.jsonl \(No space left on device\)\. Free space or .*; --resume"
    ):
        manifest.close()
    manifest.close()
    assert read_rows(tmp_path / "m.jsonl") == [DONE]
    disk.full = False  # else its end would be told of in another test
