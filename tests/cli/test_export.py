"""Exports end to end: the right frames, in the right files, with true records."""

from __future__ import annotations

import csv
import json
import shutil

import cv2
import fsspec
import numpy as np
import pytest
from PIL import Image

import seqpipe
from data_scripts.frame_code import read
from seqpipe.cli.manifest import read_rows
from tests.support.decoders import count_packets
from tests.support.deep import combined
from tests.support.ffmpeg import frame_times
from tests.support.media import entry, made
from tests.support.motion import shifted_video

from .written import files, lines, numbers


def rows(path):
    return lines(path.read_text())


@pytest.mark.parametrize(
    ("name", "jobs"),
    combined(["h264", "hevc_open_gop", "vp9_altref", "av1", "mpeg4_mp4", "rotated_90", "start_10s"], [3, 1]),
)
def test_every_frame_is_exported_in_order(run, tmp_path, name, jobs):
    run("export", made(name), "--out", tmp_path / "o", "--jobs", jobs, "--manifest", tmp_path / "m.jsonl")
    assert numbers(tmp_path / "o") == list(range(48))
    assert files(tmp_path / "o") == [f"{name}/{i:06d}.jpg" for i in range(48)]
    written = rows(tmp_path / "m.jsonl")
    assert [row["output"] for row in written] == files(tmp_path / "o")
    assert [row["pts_s"] for row in written] == pytest.approx(frame_times(made(name)), abs=1e-6)
    sizes = [(tmp_path / "o" / row["output"]).stat().st_size for row in written]
    assert [row["bytes"] for row in written] == sizes
    assert {row["status"] for row in written} == {"done"}


def test_sequences_in_which_something_moves(run, tmp_path):
    """A film that is still at first, beside one that stays so; the choice is part of what --resume compares."""
    moving = shifted_video(tmp_path / "a.mp4", [0] * 20 + [3 * k for k in range(20)])
    still = shifted_video(tmp_path / "b.mp4", [0] * 20)
    out, manifest = tmp_path / "o", tmp_path / "m.jsonl"
    command = ["export", moving, still, "--out", out, "--sequence-length", 5, "--format", "npz"]
    command += ["--manifest", manifest, "--cache-dir", tmp_path / "cache"]
    told = run(*command, "--min-motion", 20, code=1).stderr
    assert "b.mp4: none of its 4 sequences moves by 20 % of the longer side per second" in told
    assert "Use a smaller --min-motion" in told
    done = [row for row in rows(manifest) if row["status"] == "done"]
    assert [(row["output"], row["frame"]) for row in done] == [
        (f"a/{n:06d}.npz", frame) for n, frame in enumerate([20, 25, 30, 35])
    ]
    with np.load(out / "a/000000.npz") as first, seqpipe.open(moving) as video:
        assert (first["data"] == video[20:25].data).all()
    assert "--min-motion was 20 and is 0" in run(*command, "--min-motion", 0, "--resume", code=2).stderr
    run(*command, "--min-motion", 0, "--overwrite")
    assert len(files(out)) == 12
    assert sorted(row["frame"] for row in rows(manifest) if row["source"] == moving) == [*range(0, 40, 5)]


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (["--every", 10], [0, 10, 20, 30, 40]),
        (["--frames", "40,-1,3"], [3, 40, 47]),
        (["--num", 3], [8, 24, 40]),
        (["--at", "0:01, 0.3333,0.33334,0"], [0, 8, 25]),
        (["--keyframes"], [0, 24]),
        (["--start", "10f", "--end", "13f"], [10, 11, 12]),
        (["--start", "0:01.5", "--every", 3], [38, 41, 44, 47]),
        (["--start", "1.6", "--duration", "0:00:00.08"], [40, 41]),
        (["--fps", 5, "--end", "1"], [0, 5, 10, 15, 20]),
        (["--fps", "10/2", "--end", "1"], [0, 5, 10, 15, 20]),
        (["--frames", " 40, -1,3"], [3, 40, 47]),
    ],
)
def test_selections(run, tmp_path, options, expected):
    run("export", made("h264"), "--out", tmp_path, *options)
    assert numbers(tmp_path) == expected


@pytest.mark.parametrize("name", ["vfr", "vfr_mkv", "vfr_webm"])
def test_a_rate_goes_by_the_clock_of_an_uneven_video(run, tmp_path, name):
    run("export", made(name), "--out", tmp_path, "--fps", 8)
    times = np.array(frame_times(made(name)))
    shown = [int(np.searchsorted(times, times[0] + k / 8 + 1e-6, side="right")) - 1 for k in range(100)]
    found = numbers(tmp_path)
    assert found == shown[: len(found)]
    assert times[0] + len(found) / 8 == pytest.approx(times[-1], abs=1 / 8 + 0.1)


def test_key_frames_are_decoded_alone(run, tmp_path, monkeypatch):
    fed = count_packets(monkeypatch)
    run("export", made("h264_short_gops"), "--out", tmp_path, "--keyframes")
    assert numbers(tmp_path) == list(range(0, 48, 4))
    assert len(fed) == 12


def test_lossless_formats_are_exact(run, tmp_path):
    with seqpipe.open(made("h264")) as video:
        exact = video.frames([5, 20])
    for ending in ("png", "tiff", "npy", "npz"):
        run("export", made("h264"), "--out", tmp_path, "--format", ending, "--frames", "5,20")
    for place in range(2):
        stem = tmp_path / f"h264/{place:06d}"
        picture = cv2.imread(f"{stem}.png", cv2.IMREAD_COLOR)[..., ::-1]
        np.testing.assert_array_equal(picture, exact.numpy()[place])
        with Image.open(f"{stem}.tiff") as tiff:
            np.testing.assert_array_equal(np.asarray(tiff), exact.numpy()[place])
        np.testing.assert_array_equal(np.load(f"{stem}.npy"), exact.numpy()[place])
        with np.load(f"{stem}.npz") as archive:
            np.testing.assert_array_equal(archive["data"], exact.numpy()[place])
            assert archive["frames"].tolist() == [exact.frames[place]]
            assert archive["timestamps"].tolist() == [exact.timestamps[place]]


@pytest.mark.parametrize(("ending", "most"), [("jpg", 3.0), ("webp", 5.0)])
def test_lossy_pictures_are_near_and_quality_matters(run, tmp_path, ending, most):
    with seqpipe.open(made("h264")) as video:
        exact = video[5].numpy().astype(float)
    means, sizes = [], []
    for quality in (95, 20):
        out = tmp_path / str(quality)
        run("export", made("h264"), "--out", out, "--format", ending, "--frames", 5, "--quality", quality)
        path = out / f"h264/000000.{ending}"
        means.append(np.abs(cv2.imread(str(path))[..., ::-1] - exact).mean())
        sizes.append(path.stat().st_size)
    assert means[0] < most
    assert means[0] < means[1]
    assert sizes[0] > 1.5 * sizes[1]


def test_sixteen_bits_are_kept_when_asked_for(run, tmp_path):
    output = seqpipe.OutputSpec(dtype="uint16")
    with seqpipe.open(made("hevc_10"), output=output) as video:
        exact = video[7].numpy()
    for ending in ("png", "tiff", "npy"):
        options = ("--format", ending, "--dtype", "uint16", "--frames", 7)
        run("export", made("hevc_10"), "--out", tmp_path, *options, "--contact-sheet", "--overwrite")
    for ending in ("png", "tiff"):
        picture = cv2.imread(str(tmp_path / f"hevc_10/000000.{ending}"), cv2.IMREAD_UNCHANGED)[..., ::-1]
        assert exact.dtype == picture.dtype == np.uint16
        np.testing.assert_array_equal(picture, exact)
    np.testing.assert_array_equal(np.load(tmp_path / "hevc_10/000000.npy"), exact)


@pytest.mark.parametrize(("step", "jobs"), combined([1, 5, 8, 20], [2, 1]))
def test_sequences_as_arrays(run, tmp_path, step, jobs):
    options = ("--sequence-length", 4, "--stride", 2, "--step", step, "--start", "3f", "--format", "npz")
    run(
        "export",
        made("h264"),
        "--out",
        tmp_path / "o",
        *options,
        "--jobs",
        jobs,
        "--manifest",
        tmp_path / "m.jsonl",
    )
    starts = range(3, 42, step)
    assert files(tmp_path / "o") == [f"h264/{i:06d}.npz" for i in range(len(starts))]
    times = frame_times(made("h264"))
    for place, start in enumerate(starts):
        frames = [start + 2 * i for i in range(4)]
        with np.load(tmp_path / f"o/h264/{place:06d}.npz") as archive:
            assert archive["frames"].tolist() == frames
            assert [read(picture) for picture in archive["data"]] == frames
            assert archive["timestamps"].tolist() == pytest.approx([times[n] for n in frames], abs=1e-6)
    written = rows(tmp_path / "m.jsonl")
    assert [(row["sequence"], row["frame"], row["length"]) for row in written] == [
        (place, start, 4) for place, start in enumerate(starts)
    ]


def test_sequences_of_one_frame_keep_their_axis(run, tmp_path):
    run("export", made("h264"), "--out", tmp_path, "--sequence-length", 1, "--step", 30, "--format", "npy")
    assert np.load(tmp_path / "h264/000001.npy").shape == (1, 96, 128, 3)


def test_sequences_as_pictures_lie_in_folders(run, tmp_path):
    run(
        "export",
        made("h264"),
        "--out",
        tmp_path,
        "--sequence-length",
        3,
        "--stride",
        4,
        "--step",
        6,
        "--end",
        "21f",
    )
    assert files(tmp_path) == [f"h264/{s:06d}/{i:06d}.jpg" for s in range(3) for i in range(3)]
    assert numbers(tmp_path) == [0, 4, 8, 6, 10, 14, 12, 16, 20]


def test_the_pattern_names_the_files(run, tmp_path):
    pattern = "{stem}-{frame}_{pts_ms}.{index}.{ext}"
    run("export", made("start_10s"), "--out", tmp_path, "--frames", "1,25", "--pattern", pattern)
    times = frame_times(made("start_10s"))
    stamps = [round(times[n] * 1000) for n in (1, 25)]
    assert files(tmp_path) == [f"start_10s-1_{stamps[0]}.0.jpg", f"start_10s-25_{stamps[1]}.1.jpg"]


@pytest.mark.parametrize(
    ("options", "size"),
    [
        (["--size", "60x50"], (60, 50)),
        (["--short-side", 48], (64, 48)),
        (["--max-side", 32], (32, 24)),
        (["--crop", "8:4:100:50"], (100, 50)),
        (["--crop", "8:4:100:50", "--max-side", 50], (50, 25)),
    ],
)
def test_geometry(run, tmp_path, options, size):
    run(
        "export",
        made("h264"),
        "--out",
        tmp_path / "o",
        "--num",
        1,
        *options,
        "--manifest",
        tmp_path / "m.jsonl",
    )
    picture = cv2.imread(str(tmp_path / "o/h264/000000.jpg"))
    assert picture.shape[1::-1] == size
    (row,) = rows(tmp_path / "m.jsonl")
    assert (row["width"], row["height"]) == size


def test_many_files_at_once_give_the_same_tree(run, tmp_path):
    names = ["h264", "vp9", "mpeg2_ts", "rotated_270", "mjpeg", "odd_h264_444"]
    paths = [made(name) for name in names]
    for jobs in (1, 4):
        out = tmp_path / str(jobs)
        run(
            "export",
            *paths,
            "--out",
            out,
            "--jobs",
            jobs,
            "--every",
            5,
            "--contact-sheet",
            "--manifest",
            out / "m.csv",
        )
    one, four = tmp_path / "1", tmp_path / "4"
    assert files(one) == files(four)
    for name in set(files(one)) - {"m.csv"}:
        assert (one / name).read_bytes() == (four / name).read_bytes(), name
    for name in names:
        assert numbers(four / name) == list(range(0, entry(name).frames, 5))
    assert sorted(map(str, read_rows(one / "m.csv"))) == sorted(map(str, read_rows(four / "m.csv")))


ODD = [
    "a b",
    "c:d",
    "100%d%s",
    "new\nline",
    "Überß日本",
    "-dash",
    "{curly}",
    '<b>&"x',
    "[red]r",
    "file:z",
    "bad\udcff",
]


def test_odd_names_work_everywhere(run, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in ODD:
        shutil.copyfile(made("h264"), f"{name}.mp4")
    options = ("--frames", 7, "--contact-sheet", "--manifest", "o/m.csv")
    result = run("export", "--out", "o", *options, "--json", "--", *(f"{name}.mp4" for name in ODD))
    assert numbers(tmp_path / "o") == [7] * len(ODD)
    *outputs, summary = lines(result.stdout)
    assert sorted(row["source"] for row in outputs) == sorted(f"{name}.mp4" for name in ODD)
    assert sorted(row["output"] for row in outputs) == sorted(f"{name}/000000.jpg" for name in ODD)
    assert (summary["done"], summary["failed"]) == (len(ODD), 0)
    with (tmp_path / "o/m.csv").open(newline="", encoding="utf-8", errors="surrogateescape") as file:
        assert {row["source"] for row in csv.DictReader(file)} == {f"{name}.mp4" for name in ODD}
    again = run("export", "--out", "o", *options, "--resume", "--", *(f"{name}.mp4" for name in ODD))
    assert "0 files written to o in" in again.stderr
    assert f"{len(ODD)} kept" in again.stderr


def test_a_url_is_an_input_like_any_other(run, tmp_path):
    url = "memory://clips/day 1/x.mp4"
    fsspec.filesystem("memory").pipe("/clips/day 1/x.mp4", made("h264").read_bytes())
    gone = "memory://clips/gone.mp4"
    options = ("--every", 20, "--pattern", "{parent}/{stem}-{index}.{ext}")
    result = run("export", url, gone, "--out", tmp_path, *options, code=1)
    assert files(tmp_path) == ["day 1/x-0.jpg", "day 1/x-1.jpg", "day 1/x-2.jpg"]
    assert numbers(tmp_path) == [0, 20, 40]
    assert f"Error: {gone}: no such object" in result.stderr


def test_a_folder_keeps_its_shape_with_parent(run, tmp_path):
    for place in ("a/x.mp4", "b/c/x.mp4", "x.mp4"):
        (tmp_path / "in" / place).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(made("h264"), tmp_path / "in" / place)
    out = tmp_path / "o"
    run("export", tmp_path / "in", "--out", out, "--num", 1, "--pattern", "{parent}/{stem}.{ext}")
    assert files(out) == ["a/x.jpg", "b/c/x.jpg", "x.jpg"]


def test_stdout_is_silent_and_json_is_alone_on_it(run, tmp_path):
    assert run("export", made("h264"), "--out", tmp_path / "a", "--num", 2).stdout == ""
    *outputs, summary = lines(
        run("export", made("h264"), "--out", tmp_path / "b", "--num", 2, "--json").stdout
    )
    assert [row["type"] for row in outputs] == ["output", "output"]
    assert [row["frame"] for row in outputs] == [12, 36]
    assert summary | {"seconds": 0} == {
        "type": "summary",
        "sources": 1,
        "done": 2,
        "kept": 0,
        "lost": 0,
        "failed": 0,
        "seconds": 0,
        "out": str(tmp_path / "b"),
    }


def test_a_dry_run_writes_nothing_and_says_what_would_be(run, tmp_path):
    out = tmp_path / "o"
    shown = run(
        "export",
        made("h264"),
        made("vp9"),
        "--out",
        out,
        "--every",
        4,
        "--manifest",
        tmp_path / "m.csv",
        "--dry-run",
    )
    assert list(tmp_path.iterdir()) == []
    first, second, total = shown.stdout.splitlines()
    assert first == f"{made('h264')}: 12 files of 128x96, h264/000000.jpg … h264/000011.jpg"
    assert second.startswith(f"{made('vp9')}: 12 files of 128x96, vp9/000000.jpg")
    assert total.startswith("24 files, about 0.1 MB, would be written to")
    plan, summary = lines(
        run("export", made("h264"), "--out", out, "--format", "npy", "--dry-run", "--json").stdout
    )
    assert (plan["files"], plan["first"], plan["width"]) == (48, "h264/000000.npy", 128)
    run("export", made("h264"), "--out", out, "--format", "npy")
    actual = sum((out / name).stat().st_size for name in files(out))
    assert summary["bytes"] == actual


def test_overwrite_replaces(run, tmp_path):
    run("export", made("h264"), "--out", tmp_path, "--frames", 3, "--manifest", tmp_path / "m.jsonl")
    run(
        "export",
        made("h264"),
        "--out",
        tmp_path,
        "--frames",
        4,
        "--manifest",
        tmp_path / "m.jsonl",
        "--overwrite",
    )
    assert numbers(tmp_path) == [4]
    assert [row["frame"] for row in rows(tmp_path / "m.jsonl")] == [4]


@pytest.mark.parametrize("ending", ["jsonl", "csv", "parquet"])
def test_manifests_say_the_same_in_every_format(run, tmp_path, ending):
    if ending == "parquet":
        pytest.importorskip("pyarrow")
    found, export = [], ("export", made("h264_flip_disposable"), made("empty"), "--out", tmp_path / "o")
    for manifest in (tmp_path / f"m.{ending}", tmp_path / "n.jsonl"):
        run(*export, "--manifest", manifest, "--overwrite", code=1)
        found.append(sorted(map(str, read_rows(manifest))))
    assert found[0] == found[1]
    assert len(found[0]) == 49


def test_json_of_the_manifest_and_of_stdout_agree(run, tmp_path):
    manifest = tmp_path / "m.jsonl"
    result = run(
        "export", made("h264"), "--out", tmp_path / "o", "--num", 4, "--manifest", manifest, "--json"
    )
    told = [json.loads(line) for line in result.stdout.splitlines()][:-1]
    assert [{**row, "type": "output"} for row in rows(manifest)] == told


def test_what_a_folder_holds_besides_is_told_once(run, tmp_path):
    (tmp_path / "in").mkdir()
    shutil.copy(made("h264"), tmp_path / "in")
    (tmp_path / "in/note.txt").touch()
    result = run("export", tmp_path / "in", "--out", tmp_path / "o", "--num", 1)
    assert result.stderr.count("1 other file (.txt 1) skipped") == 1
    assert "1 file written to" in result.stderr
