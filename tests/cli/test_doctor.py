"""The doctor names what is there, what is missing, and what to do; nothing that is optional fails it."""

from __future__ import annotations

import json
import os
import re
import sys
from pathlib import Path

import av
import numpy as np
import pytest

import seqpipe
from seqpipe.cli.commands import doctor
from seqpipe.video.nvdec import cuvid
from seqpipe.video.probe import probe

from .written import lines


def told(run, *options, code=0):
    return {line["name"]: line for line in lines(run("doctor", "--json", *options, code=code).stdout)}


def test_it_tells_what_there_is(run, tmp_path):
    (tmp_path / "a.idx").write_bytes(bytes(1_000_000))
    found = told(run, "--cache-dir", tmp_path)
    assert found["seqpipe"]["value"].startswith(
        f"{seqpipe.__version__} in {Path(seqpipe.__file__).parent}, NumPy "
    )
    assert f"{len(os.sched_getaffinity(0))} cores" in found["CPU"]["value"]
    assert found["CPU decoders"]["value"] == f"FFmpeg {av.ffmpeg_version_info} in PyAV {av.__version__}"
    assert found["CPU decoders"]["ok"] is True
    assert found["Index cache"]["value"] == f"{tmp_path}: 1 files, 1.0 MB"
    assert f"{sys.version_info.major}.{sys.version_info.minor}" in found["Python"]["value"]


def test_a_part_that_is_there_has_its_version(run, monkeypatch):
    monkeypatch.setitem(doctor._PARTS, "numpy", ("everything", "core"))
    monkeypatch.setitem(doctor._PARTS, "json", ("the summary", "core"))
    found = told(run)
    assert (found["numpy"]["value"], found["numpy"]["ok"]) == (np.__version__, True)
    assert found["json"]["value"] == "installed"  # no package of this name
    assert found["numpy"]["advice"] == ""


def test_a_cache_that_may_not_be_looked_at_is_no_failure(run, tmp_path):
    (tmp_path / "round").symlink_to("round")
    assert told(run, "--cache-dir", tmp_path)["Index cache"]["value"].endswith(": 0 files, 0.0 MB")


def test_a_cache_that_cannot_be_written_is_named_and_no_failure(run, tmp_path):
    (tmp_path / "file").write_bytes(b"")
    for folder in (tmp_path / ("n" * 300), tmp_path / "file" / "cache"):
        found = told(run, "--cache-dir", folder)["Index cache"]
        assert found["ok"] is None
        assert found["value"].startswith(f"{folder}: the index cache cannot be written (")
        assert found["value"].endswith("; indexes are made anew by every program")
        assert "SEQPIPE_CACHE_DIR" in found["advice"]


def test_settings_of_the_environment_are_listed(run, monkeypatch):
    for name in [name for name in os.environ if name.startswith("SEQPIPE_")]:
        monkeypatch.delenv(name)
    assert told(run)["Environment"]["value"] == "no variable SEQPIPE_… is set"
    monkeypatch.setenv("SEQPIPE_VERIFY", "0")
    monkeypatch.setenv("SEQPIPE_PROCESSES", "4")
    assert told(run)["Environment"]["value"] == "SEQPIPE_PROCESSES=4, SEQPIPE_VERIFY=0"


def test_every_extra_is_looked_for():
    text = (Path(seqpipe.__file__).parents[1] / "pyproject.toml").read_text(encoding="utf-8")
    part = text.partition("[project.optional-dependencies]\n")[2].partition("\n[")[0]
    extras = set(re.findall(r"^([\w-]+) = ", part, re.MULTILINE)) - {"jpeg-cuda12", "jpeg-cuda13", "https"}
    assert len(extras) > 10
    assert extras == {extra for _, *extras in doctor._PARTS.values() for extra in extras}


def test_optional_parts_that_are_missing_come_with_the_command(run, monkeypatch):
    monkeypatch.setattr(doctor, "_installed", lambda _name: False)
    found = told(run)
    assert found["pyarrow"]["ok"] is None
    assert found["pyarrow"]["advice"] == "pip install 'seqpipe[parquet]'"
    assert found["cupy"]["advice"] == "pip install 'seqpipe[cuda12]' or 'seqpipe[cuda13]'"


@pytest.mark.parametrize(("named", "ok"), [("", None), (sys.executable, True)])
def test_a_compiler_is_optional(run, monkeypatch, named, ok):
    monkeypatch.setenv("SEQPIPE_CC", named)
    found = told(run)["C compiler"]
    assert found["ok"] is ok
    assert found["value"] == (
        named or "none; with one, small videos are decoded on a GPU about twice as fast"
    )
    assert ("SEQPIPE_CC" in found["advice"]) is (ok is None)


def test_a_decoder_that_must_be_there_fails_it(run, monkeypatch):
    monkeypatch.setattr(probe, "_DECODERS", ("h264", "no_such_decoder"))
    text = run("doctor", code=1).stdout
    assert "FAILS  CPU decoders:" in text
    assert "without no_such_decoder\n" in text
    assert "pip install --force-reinstall --no-deps av" in text


def test_no_driver_is_no_failure(run, monkeypatch):
    monkeypatch.setattr(cuvid, "_LIBRARY", "libnvcuvid-that-is-not-there.so.1")
    cuvid.load.cache_clear()
    found = told(run)
    cuvid.load.cache_clear()
    assert found["GPU"]["ok"] is None
    assert "libnvcuvid-that-is-not-there.so.1" in found["GPU"]["value"]
    assert "device='cpu'" in found["GPU"]["advice"]


@pytest.mark.gpu
def test_a_gpu_is_described(run):
    gpu = told(run)["cuda:0"]["value"]
    assert "NVDEC engines" in gpu
    assert "h264 4:2:0 8" in gpu
    assert json.dumps(gpu)
