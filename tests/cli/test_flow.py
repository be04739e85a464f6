"""``seqpipe flow``: the flow of the right frames, in every format, by the engine that exports."""

from __future__ import annotations

import json

import cv2
import numpy as np
import pytest

import seqpipe
from seqpipe import flow, fn
from seqpipe.video.convert.converter import Converter
from tests.support.ffmpeg import frame_times
from tests.support.media import made

from .written import files, lines

SMALL = ["--max-side", 96, "--preset", "fast"]
OUTPUT = seqpipe.OutputSpec(color="GRAY", max_side=96)


def wanted(frames, name="h264"):
    """The flow between frames, by the operator."""
    with seqpipe.open(made(name), output=OUTPUT) as video:
        return fn.optical_flow(video.frames(frames), preset="fast")


@pytest.mark.parametrize("format_name", ["flo", "png"])
def test_a_file_for_each_pair(run, tmp_path, format_name):
    run("flow", made("h264"), "--out", tmp_path / "o", "--format", format_name, "--end", "5f", *SMALL)
    assert files(tmp_path / "o") == [f"h264/{n:06d}.{format_name}" for n in range(4)]
    judge = wanted(range(5)).data
    for n in range(4):
        found = flow.read(tmp_path / "o" / f"h264/{n:06d}.{format_name}")
        assert np.abs(found - judge[n]).max() <= (1 / 128 + 1e-6 if format_name == "png" else 0)


def test_pairs_are_frames_that_were_taken_one_after_the_other(run, tmp_path):
    manifest = tmp_path / "m.jsonl"
    run("flow", made("h264"), "--out", tmp_path / "o", "--every", 20, "--manifest", manifest, *SMALL)
    rows = lines(manifest.read_text())
    assert [(row["frame"], row["length"], row["status"]) for row in rows] == [(0, 1, "done"), (20, 1, "done")]
    assert [row["pts_s"] for row in rows] == pytest.approx(frame_times(made("h264"))[:40:20], abs=1e-6)
    found = flow.read(tmp_path / "o" / rows[1]["output"])
    assert (found == wanted([20, 40]).data[0]).all()
    assert (rows[0]["height"], rows[0]["width"]) == found.shape[:2]
    assert [(tmp_path / "o" / row["output"]).stat().st_size for row in rows] == [row["bytes"] for row in rows]


def test_sequences(run, tmp_path):
    options = ["--sequence-length", 4, "--stride", 2, "--step", 20, "--end", "30f", *SMALL]
    run("flow", made("h264"), "--out", tmp_path / "one", "--format", "npz", *options)
    assert files(tmp_path / "one") == ["h264/000000.npz", "h264/000001.npz"]
    found = flow.read(tmp_path / "one" / "h264/000001.npz")
    judge = wanted([20, 22, 24, 26])
    assert (found.data == judge.data).all()
    assert found.frames.tolist() == [20, 22, 24]
    assert found.timestamps.tolist() == judge.timestamps.tolist()
    run("flow", made("h264"), "--out", tmp_path / "each", *options)
    assert files(tmp_path / "each") == [f"h264/{s:06d}/{p:06d}.flo" for s in range(2) for p in range(3)]
    assert (flow.read(tmp_path / "each" / "h264/000001/000002.flo") == judge.data[2]).all()


def test_options_reach_the_operator(run, tmp_path):
    run(
        *("flow", made("h264"), "--out", tmp_path, "--frames", "3,5", "--max-side", 96, "--output-grid", 4),
        *("--direction", "backward", "--backend", "farneback", "--preset", "slow"),
    )
    with seqpipe.open(made("h264"), output=OUTPUT) as video:
        judge = fn.optical_flow(
            video.frames([3, 5]), output_grid=4, direction="backward", backend="farneback", preset="slow"
        )
    assert (flow.read(tmp_path / "h264/000000.flo") == judge.data[0]).all()


def test_colors(run, tmp_path):
    run("flow", made("h264"), "--out", tmp_path, "--format", "jpg", "--end", "3f", "--max-motion", 6, *SMALL)
    assert files(tmp_path) == ["h264/000000.jpg", "h264/000001.jpg"]
    shown = cv2.imread(str(tmp_path / "h264/000001.jpg"))[..., ::-1].astype(int)
    assert np.abs(shown - flow.to_rgb(wanted([1, 2]), 6).data[0]).mean() < 4


@pytest.mark.parametrize("name", ["h264", "vfr"])
def test_a_video_becomes_one_of_colors(run, tmp_path, name):
    run(
        *("flow", made(name), "--out", tmp_path, "--format", "mp4", "--manifest", tmp_path / "m.csv"),
        *("--max-motion", 6, "--contact-sheet", *SMALL),
    )
    assert files(tmp_path) == sorted(["contact_sheet.html", "m.csv", f"{name}.mp4"])
    with seqpipe.open(made(name)) as given, seqpipe.open(tmp_path / f"{name}.mp4") as film:
        assert len(film) == len(given) - 1
        times = np.array(frame_times(made(name)))[:-1]
        assert film.info.display_size[0] == 96
        found = film[:]
        assert found.timestamps == pytest.approx(times - times[0], abs=1e-4)
        judge = flow.to_rgb(wanted(range(len(given)), name), 6).data
        height, width = judge.shape[1:3]
        assert np.abs(found.data[:, :height, :width].astype(int) - judge).mean() < 6
    assert (tmp_path / "contact_sheet.html").read_text().count("<figure>") == 24


def test_no_colors_are_made_on_the_way(run, tmp_path, monkeypatch):
    """Nor for the contact sheet, so that what is written does not depend on it."""
    made_of, whole = [], Converter.__init__

    def noting(self, info, output, *others, **named):
        made_of.append(output.color)
        whole(self, info, output, *others, **named)

    monkeypatch.setattr(Converter, "__init__", noting)
    command = ["flow", made("h264"), "--end", "5f", "--contact-sheet", *SMALL]
    run(*command, "--out", tmp_path / "a")
    run(*command, "--out", tmp_path / "b", "--format", "mp4")
    assert set(made_of) == {"GRAY"}
    assert (tmp_path / "a/contact_sheet.html").read_text().count("<figure>") == 5


def test_resume_keeps_what_is_whole_and_was_made_alike(run, tmp_path):
    command = ["flow", made("h264"), "--out", tmp_path, "--end", "4f", *SMALL]
    run(*command)
    whole = {path: (tmp_path / path).read_bytes() for path in files(tmp_path)}
    (tmp_path / "h264/000001.flo").unlink()
    kept = (tmp_path / "h264/000000.flo").stat().st_mtime_ns
    run(*command, "--resume")
    assert {path: (tmp_path / path).read_bytes() for path in files(tmp_path)} == whole
    assert (tmp_path / "h264/000000.flo").stat().st_mtime_ns == kept
    other = run(*command, "--resume", "--backend", "farneback", code=2).stderr
    assert "--backend was auto and is farneback" in other
    assert (tmp_path / "h264/000000.flo").stat().st_mtime_ns == kept
    run(*command, "--overwrite", "--backend", "farneback")
    assert (tmp_path / "h264/000000.flo").stat().st_mtime_ns > kept
    assert (tmp_path / "h264/000000.flo").read_bytes() != whole["h264/000000.flo"]
    assert "exists already. Use --resume" in run(*command, code=2).stderr


def test_damaged_and_missing_inputs_are_named_and_the_others_go_on(run, tmp_path):
    manifest = tmp_path / "m.jsonl"
    inputs = [made("h264"), tmp_path / "none.mp4", made("empty")]
    told = run(
        *("flow", *inputs, "--out", tmp_path / "o", "--end", "3f", "--manifest", manifest, *SMALL), code=1
    ).stderr
    assert "none.mp4: " in told
    states = [(row["status"], row["output"]) for row in lines(manifest.read_text())]
    assert states.count(("failed", None)) == 2
    assert sorted(files(tmp_path / "o")) == ["h264/000000.flo", "h264/000001.flo"]


@pytest.mark.parametrize("sound", [0, 2])
def test_the_colors_of_a_damaged_video_are_not_left_behind(run, tmp_path, monkeypatch, sound):
    from seqpipe.cli.exporters import flow
    from seqpipe.errors import DamagedSourceError

    whole, calls = flow.FlowEncoder.colored, []

    def damaged(self, frames):
        calls.append(frames)
        if len(calls) > sound:
            raise DamagedSourceError("it is damaged from here on", source="a.mp4")
        return whole(self, frames)

    monkeypatch.setattr(flow.FlowEncoder, "colored", damaged)
    manifest = tmp_path / "m.jsonl"
    run("flow", made("h264"), "--out", tmp_path, "--format", "mp4", "--manifest", manifest, *SMALL, code=1)
    assert files(tmp_path) == ["m.jsonl"]
    (row,) = lines(manifest.read_text())
    assert (row["status"], row["error"], row["length"]) == ("lost", "it is damaged from here on", 47)


def test_dry_run(run, tmp_path):
    shown = run("flow", made("h264"), "--out", tmp_path / "o", "--dry-run", "--end", "9f", *SMALL).stdout
    assert "8 files of 96x" in shown
    assert "about" in shown
    shown = run(
        "flow", made("h264"), "--out", tmp_path / "o", "--dry-run", "--json", "--format", "mp4"
    ).stdout
    plan, summary = map(json.loads, shown.splitlines())
    assert (plan["files"], plan["first"]) == (1, "h264.mp4")
    assert summary["bytes"] is None
    assert not (tmp_path / "o").exists()


@pytest.mark.parametrize(
    ("options", "code", "said"),
    [
        (
            ["--frames", "3"],
            1,
            "a single frame is selected, and motion needs two; allowed: two frames or more",
        ),
        (["--sequence-length", 1], 1, "a single frame is selected"),
        (["--output-grid", 3], 2, "output_grid=3 is not valid; allowed: 1, 2, 4"),
        (["--preset", "best"], 2, "preset='best' is not valid; allowed: 'slow', 'medium', 'fast'"),
        (
            ["--max-motion", 3],
            2,
            "max_motion=3.0 means nothing for flo, which holds the vectors; allowed: jpg or mp4",
        ),
        (
            ["--quality", 3, "--format", "png"],
            2,
            "quality=3 means nothing for png; allowed: jpg with a quality",
        ),
        (["--format", "gif"], 2, "format='gif' is not valid; allowed: 'flo', 'png', 'npz', 'jpg', 'mp4'"),
    ],
)
def test_refusals(run, tmp_path, options, code, said):
    told = run("flow", made("h264"), "--out", tmp_path / "o", *options, code=code).stderr
    assert said in " ".join(told.split())
    assert files(tmp_path) == []


def test_without_an_engine_it_is_named(run, tmp_path):
    from tests.support.gpu import missing_gpu

    if not missing_gpu():
        pytest.skip("there is a GPU")
    command = [
        "flow",
        made("h264"),
        "--out",
        tmp_path / "o",
        "--backend",
        "nvofa",
        "--device",
        "cpu",
        "--end",
        "3f",
    ]
    assert "Give --backend auto or --backend dis" in run(*command, code=1).stderr


def test_a_volume_has_no_motion(run, tmp_path):
    from seqpipe.volume import save

    save(seqpipe.Sequence(np.zeros((4, 5, 6, 1), np.int16), "DHWC", affine=np.eye(4)), tmp_path / "a.nii.gz")
    told = run(
        "flow", made("h264"), tmp_path / "a.nii.gz", "--out", tmp_path / "o", "--end", "3f", *SMALL, code=1
    )
    assert "a.nii.gz: this is a NIfTI volume, not a video" in told.stderr
    assert files(tmp_path / "o") == ["h264/000000.flo", "h264/000001.flo"]
