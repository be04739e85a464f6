"""Exports of standard input: what comes through a pipe gives the files and the manifest of a file by name."""

from __future__ import annotations

import io
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time

import numpy as np
import pytest
from click.testing import CliRunner

from data_scripts.media_encode import run_ffmpeg
from seqpipe.cli import main
from seqpipe.cli.exporters import frames as frame_files
from tests.support.deep import deep, deep_but
from tests.support.interrupts import PROGRAM
from tests.support.media import ROOT, made

from .written import files, lines, numbers

CONTAINERS = [
    *(
        "h264_ts",
        "h264_faststart",
        "h264_fragmented",
        "h264_mkv",
        "h264_raw",
        "vp9_ivf",
        "joined",
        "edit_list_b",
    ),
    *(
        "hevc_ts",
        "hevc_raw",
        "av1_obu",
        "mpeg2_ps",
        "vp8_altref",
        "vp9",
        "vfr_mkv",
        "rotated_mkv",
        "h264_flv",
    ),
    *(
        "ts_wrap",
        "start_10s_ts",
        "h264",
        "with_audio",
        "mpeg4_avi",
        "theora",
        "gif",
        "h264_avi",
        "h264_refresh",
    ),
]
SELECTIONS = [
    ("h264_ts", "--fps", 60, "--duration", 0.7),
    ("vfr_mkv", "--fps", 9, "--start", 0.41, "--end", "40f"),
    ("h264_avi", "--fps", 30, "--end", 1),
    ("h264_ts", "--frames", "3,17,4,17"),
    ("vfr_mkv", "--at", "0.9,0,0:01.1"),
    ("h264_mkv", "--keyframes"),
    ("h264_ts", "--num", 10, "--end", "40f"),
    ("h264_ts", "--num", 3, "--start", 0.2, "--duration", "20f"),
    ("vfr_mkv", "--start", 0.4, "--duration", 0.5),
    ("h264_ts", "--start", "7f", "--end", 1.3),
    ("h264_ts", "--sequence-length", 4, "--stride", 2, "--step", 3, "--format", "npz"),
    ("h264_ts", "--sequence-length", 9, "--step", 12),
    (
        "h264_ts",
        "--sequence-length",
        4,
        "--start",
        0.3,
        "--pattern",
        "{sequence}/{position}-{frame}-{pts_ms}.{ext}",
    ),
    ("h264_ts", "--format", "png", "--dtype", "uint16", "--crop", "8:8:64:48", "--every", 5),
]
FLOWS = [
    ("--format", "flo"),
    ("--format", "mp4", "--every", 2),
    ("--format", "npz", "--sequence-length", 5),
    ("--format", "png", "--sequence-length", 5, "--end", "14f"),
    ("--format", "jpg", "--fps", 10),
    ("--format", "mp4", "--sequence-length", 9),
]
ALONE = ("source", "out", "seconds")


class Pipe(io.RawIOBase):
    """Bytes that come in pieces, as from a pipe; counts them."""

    def __init__(self, data: bytes, *, forever: bool = False) -> None:
        self.data, self.at, self.forever = data, 0, forever

    def readable(self) -> bool:
        return True

    def read1(self, size: int = -1) -> bytes:
        begin = self.at % len(self.data) if self.forever else self.at
        found = self.data[begin : begin + min(size, 5000)]
        self.at += len(found)
        return found

    def read(self, size: int = -1) -> bytes:
        return b"".join(iter(lambda: self.read1(size), b"")) if size < 0 else self.read1(size)


def exported(folder, given, *options, command="export"):
    """What an export writes, notes and tells; its exit code comes first."""
    out, manifest = folder / "o", folder / "m.jsonl"
    folder.mkdir(exist_ok=True)
    piped = not isinstance(given, (str, os.PathLike))
    path = "-" if piped else given
    arguments = (command, path, "--out", out, "--json", "--manifest", manifest, "--jobs", 2, *options)
    result = CliRunner().invoke(
        main, [str(argument) for argument in arguments], input=given if piped else None
    )
    assert isinstance(result.exception, (SystemExit, type(None))), result.exception
    told = [{k: v for k, v in line.items() if k not in ALONE} for line in lines(result.stdout)]
    rows = lines(manifest.read_text()) if manifest.exists() else []
    rows = [{k: v for k, v in row.items() if k not in ALONE} for row in rows]
    note = json.loads((out / ".seqpipe-export.json").read_text()) if out.exists() else {}
    notes = [(entry["pixels"], entry["frames"]) for entry in note.values()]
    written = {name: (out / name).read_bytes() for name in files(out)}
    return result.exit_code, written, rows, notes, told, result.stderr


def both(tmp_path, path, *options, command="export"):
    """An export of a file's bytes through a pipe, and one of the file by name."""
    named = tmp_path / f"stdin{path.suffix}"
    shutil.copyfile(path, named)
    piped = exported(tmp_path / "piped", Pipe(path.read_bytes()), *options, command=command)
    return piped, exported(tmp_path / "named", named, *options, "--device", "cpu", command=command)


@pytest.fixture(autouse=True)
def own_cache(monkeypatch, tmp_path):
    monkeypatch.setenv("SEQPIPE_CACHE_DIR", str(tmp_path / "cache"))


def assert_same(piped, named):
    assert piped[1:5] == named[1:5]
    assert piped[0] == named[0] == 0
    assert len(piped[1]) == len(piped[2]) > 0


@pytest.mark.parametrize("name", deep_but(CONTAINERS[:8:2], CONTAINERS))
def test_files_manifest_and_note_are_those_of_a_file_by_name(name, tmp_path):
    assert_same(*both(tmp_path, made(name), "--short-side", 32))


def test_uncompressed_frames_are_those_of_a_file_by_name(tmp_path):
    path = tmp_path / "film.y4m"
    run_ffmpeg("-i", str(made("h264_ts")), "-pix_fmt", "yuv420p", str(path))
    assert_same(*both(tmp_path, path, "--every", 5))


@pytest.mark.parametrize(
    ("name", "options"),
    [
        (name, options) if place % 2 == 0 else deep(name, options)
        for place, (name, *options) in enumerate(SELECTIONS)
    ],
    ids=lambda one: str(one)[:40],
)
def test_selections_are_those_of_a_file_by_name(name, options, tmp_path):
    assert_same(*both(tmp_path, made(name), *options))


@pytest.mark.parametrize(
    "options", [one if one in FLOWS[1:3] else deep(one) for one in FLOWS], ids=lambda one: str(one)[:40]
)
def test_flow_is_that_of_a_file_by_name(options, tmp_path):
    piped, named = both(tmp_path, made("h264_ts"), "--short-side", 48, *options, command="flow")
    if "npz" not in options:
        assert_same(piped, named)
        return
    assert piped[1].keys() == named[1].keys()
    for name, data in piped[1].items():  # which names its source
        one, other = (np.load(io.BytesIO(content))["flow"] for content in (data, named[1][name]))
        np.testing.assert_array_equal(one, other)
    rows = [[{**row, "bytes": 0} for row in export[2]] for export in (piped, named)]
    assert rows[0] == rows[1]


@pytest.mark.parametrize("name", ["data_cut_ts", "data_cut_mkv", "data_cut_fragmented"])
def test_a_pipe_that_ends_in_the_middle_leaves_what_is_whole_and_says_so(name, tmp_path):
    (code, written, rows, *_, said), named = both(tmp_path, made(name))
    assert code == named[0] == 1
    assert 20 < len(written) <= len(named[1])
    assert written == {name: named[1][name] for name in written}
    assert rows[:-1] == named[2][: len(written)]
    assert rows[-1]["status"] == "failed"
    assert rows[-1]["error"] in said


@pytest.mark.parametrize(
    ("options", "count"),
    [
        (["--end", "10f"], 10),
        (["--num", 10, "--end", "40f"], 10),
        (["--frames", "2,30"], 2),
        (["--duration", 0.4], 10),
    ],
)
@pytest.mark.deep
def test_a_writer_that_never_ends_is_left_when_all_is_there(options, count, tmp_path):
    pipe = Pipe(made("h264_ts").read_bytes(), forever=True)
    code, written, *_ = exported(tmp_path, pipe, *options)
    assert (code, len(written)) == (0, count)
    assert pipe.at < 6 << 20  # FFmpeg looks at 5 MB of such a stream before it says what is in it


def test_nothing_is_copied_and_files_are_written_as_frames_come(tmp_path, monkeypatch):
    pipe, at_first = Pipe(made("h264_raw").read_bytes() * 16), []
    monkeypatch.setattr(tempfile, "NamedTemporaryFile", None)
    write = frame_files.write_whole
    monkeypatch.setattr(frame_files, "write_whole", lambda *args: (at_first.append(pipe.at), write(*args))[1])
    _, written, *_ = exported(tmp_path, pipe, "--every", 10)
    assert at_first[0] < len(pipe.data) / 2 < at_first[-1]
    assert len(written) == -(-48 * 16 // 10)


@pytest.mark.deep
def test_memory_does_not_grow_with_the_stream(tmp_path):
    data, peaks = made("h264_raw").read_bytes(), []
    options = ("--every", "48", "--jobs", "1", "--overwrite", "--out", str(tmp_path / "o"))
    program = """
import atexit
from seqpipe.__main__ import main
from tests.support.memory import peak_kib
atexit.register(lambda: print(peak_kib()))
main()
"""
    command = [sys.executable, "-c", program, "export", "-", *options]
    for times in (8, 24):
        done = subprocess.run(command, input=data * times, capture_output=True, check=True, cwd=ROOT)
        peaks.append(int(done.stdout.split()[-1]))
    assert len(files(tmp_path / "o")) == 24
    assert peaks[1] - peaks[0] < 8 << 10  # KiB; three times as many frames


@pytest.mark.deep
def test_the_reader_waits_for_a_slow_writer(tmp_path):
    data = made("h264_ts").read_bytes()
    command = [sys.executable, "-m", "seqpipe", "export", "-", "--every", "4", "--out", str(tmp_path / "o")]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stderr=subprocess.PIPE, cwd=ROOT) as program:
        for begin in range(0, len(data), len(data) // 5):
            time.sleep(0.1)
            program.stdin.write(data[begin : begin + len(data) // 5])
            program.stdin.flush()
        _, said = program.communicate(timeout=60)
    assert program.returncode == 0, said
    assert numbers(tmp_path / "o") == [*range(0, 48, 4)]


@pytest.mark.deep
def test_an_interrupt_ends_the_wait_for_a_writer(tmp_path):
    command = [sys.executable, "-c", PROGRAM, "export", "-", "--out", str(tmp_path / "o"), "--jobs", "1"]
    data = made("h264_raw").read_bytes()
    with subprocess.Popen(command, stdin=subprocess.PIPE, stderr=subprocess.PIPE, cwd=ROOT) as program:
        program.stdin.write(data * 40)
        program.stdin.flush()
        until = time.monotonic() + 60
        while len(files(tmp_path / "o")) < 10 and time.monotonic() < until:
            time.sleep(0.05)
        program.send_signal(signal.SIGINT)
        program.wait(timeout=60)
        said = program.stderr.read().decode()
    assert program.returncode == 130, said
    assert "No file is incomplete" in said
    assert not [name for name in files(tmp_path / "o") if not name.endswith(".jpg")]


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--num", 3], "num=3 requires the number of frames"),
        (["--num", 3, "--end", 2], "such as --start 100f --end 400f or --duration 300f"),
        (["--frames", "3,-1"], "--frames -1 counts from the end"),
        (["--sequence-length", 4, "--min-motion", 2], "--min-motion requires reading the video twice"),
        (["--scenes"], "--scenes requires reading the video twice"),
        (["--resume"], "--resume requires a file: a stream cannot be read again"),
        (["--dry-run"], "--dry-run requires a file"),
        (["--contact-sheet"], "--contact-sheet requires a file"),
        pytest.param(
            *(["--device", "cuda:0"], "device='cuda:0' is not possible for standard input"),
            marks=pytest.mark.gpu,
        ),
    ],
)
def test_what_needs_seeking_is_refused_by_name_before_anything_is_read(options, said, tmp_path):
    pipe = Pipe(made("h264_ts").read_bytes())
    code, written, *_, told = exported(tmp_path, pipe, *options)
    assert (code, written) == (2, {})
    assert said in told
    assert "stream to a file" in told
    assert pipe.at <= 5000


def test_other_inputs_are_refused_beside_a_stream(tmp_path):
    code, _, *_, said = exported(tmp_path, Pipe(b""), made("h264_ts"))
    assert code == 2
    assert "standard input is exported alone" in said


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--frames", "3,700"], "frame 700 is not in the video; allowed: 0 to 47"),
        (["--start", 20], "no frame begins in the range from 20 s; allowed: 0 to 1.880 s"),
        (["--sequence-length", 4, "--stride", 20], "fits into 48 frames"),
        (["--num", 5, "--end", "400f"], "frame 120 is not in the video; allowed: 0 to 47"),
        (["--crop", "0:0:999:9"], "crop"),
    ],
)
def test_what_is_not_in_the_stream_is_said_at_its_end(options, said, tmp_path):
    code, _, rows, *_, told = exported(tmp_path, Pipe(made("h264_ts").read_bytes()), *options)
    assert code == 1
    assert said in told
    assert rows[-1]["status"] == "failed"


def test_files_that_are_there_are_replaced_on_demand_alone(tmp_path):
    data = made("h264_ts").read_bytes()
    first = exported(tmp_path, Pipe(data), "--every", 9)
    (tmp_path / "m.jsonl").unlink()
    code, written, *_, said = exported(tmp_path, Pipe(data), "--every", 9)
    assert (code, written) == (2, first[1])
    assert "000000.jpg exists already. Use --overwrite" in said
    assert exported(tmp_path, Pipe(data), "--every", 9, "--overwrite")[:3] == first[:3]
    code, *_, said = exported(tmp_path, Pipe(data), "--out", tmp_path / "p")
    assert code == 2
    assert "m.jsonl exists already" in said


def test_names_that_collide_are_refused_before_anything_is_written(tmp_path):
    code, written, *_, said = exported(
        tmp_path, Pipe(made("h264_ts").read_bytes()), "--pattern", "same.{ext}"
    )
    assert (code, written) == (2, {})
    assert "same.jpg" in said


def test_an_mp4_whose_index_is_last_is_named_at_once(tmp_path):
    pipe = Pipe(b"\0\0\0\x10ftypisom\0\0\0\0" + (1 << 30).to_bytes(4, "big") + b"mdat" + bytes(1 << 20))
    result = CliRunner().invoke(main, ["export", "-", "--out", str(tmp_path)], input=pipe)
    assert result.exit_code == 1
    assert "has its index (moov) behind its data" in result.stderr
    assert "ffmpeg -movflags +faststart" in result.stderr
    assert pipe.at < 20_000


def test_an_empty_pipe_is_named(tmp_path):
    result = CliRunner().invoke(main, ["export", "-", "--out", str(tmp_path)], input=b"")
    assert result.exit_code == 1
    assert (
        "Error: standard input: it is empty (0 bytes). The program that writes into the pipe" in result.stderr
    )


def test_a_volume_through_a_pipe_is_exported_as_a_file_is(tmp_path):
    path = tmp_path / "stdin.npy"
    np.save(path, np.arange(4 * 16 * 20, dtype=np.int16).reshape(4, 16, 20))
    piped = exported(tmp_path / "piped", Pipe(path.read_bytes()), "--window", "600,1300")
    named = exported(tmp_path / "named", path, "--window", "600,1300")
    assert piped[:3] == named[:3]
    assert len(piped[1]) == 4


def test_a_file_on_standard_input_is_opened_as_a_file(tmp_path):
    """A redirection, unlike a pipe, can be sought: nothing is refused."""
    command = [sys.executable, "-m", "seqpipe", "export", "-", "--num", "3", "--out", str(tmp_path / "o")]
    with made("h264_ts").open("rb") as file:
        subprocess.run(command, stdin=file, check=True, cwd=ROOT, capture_output=True)
    assert files(tmp_path / "o") == [f"stdin/00000{n}.jpg" for n in range(3)]
    assert numbers(tmp_path / "o") == [8, 24, 40]
