"""The programs in examples/ run, and do what they say."""

from __future__ import annotations

import importlib.util
import re
import shutil
import subprocess
import sys
from pathlib import Path

import cv2
import numpy as np
import pytest

import seqpipe
from data_scripts import make_sets
from data_scripts.make_motion import make_motion
from seqpipe.volume import LabelFiles, save
from tests.support.media import sampled

EXAMPLES = Path(__file__).resolve().parents[1] / "examples"


@pytest.fixture(scope="module")
def video(tmp_path_factory):
    path = tmp_path_factory.mktemp("examples") / "a clip.mp4"
    return shutil.copy(sampled((320, 180)), path)


@pytest.fixture
def first_run():
    spec = importlib.util.spec_from_file_location("first_run", EXAMPLES / "first_run.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def run(name, *arguments):
    words = [sys.executable, str(EXAMPLES / name), *map(str, arguments)]
    return subprocess.run(words, capture_output=True, encoding="utf-8", timeout=120)


def output(name, *arguments):
    done = run(name, *arguments)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_export_frames(video, tmp_path):
    printed = output("export_frames.py", video, tmp_path / "out", "--count", 5)
    files = sorted((tmp_path / "out").iterdir())
    assert [file.stem for file in files] == ["000009", "000027", "000045", "000063", "000081"]
    assert len(printed.splitlines()) == 5
    with seqpipe.open(video) as reader:
        for file in files:
            expected = reader[int(file.stem)].data
            assert abs(cv2.imread(str(file))[..., ::-1].astype(int) - expected).mean() < 6


def test_frames_at_times(video):
    printed = output("frames_at_times.py", video, 0, 0.5, 1.25)
    assert re.findall(r"frame (\d+) \(on since ([\d.]+) s\)", printed) == [
        ("0", "0.000"),
        ("15", "0.500"),
        ("37", "1.233"),
    ]


def test_frames_at_times_outside_of_the_video(video):
    done = run("frames_at_times.py", video, 99)
    assert done.returncode == 1
    assert "a clip.mp4" in done.stderr
    assert "99" in done.stderr
    assert "Traceback" not in done.stderr


def test_train_loop(video):
    printed = output("train_loop.py", video).splitlines()
    # 90 frames hold (90 - 15) // 16 + 1 = 5 windows of 8 frames, stride 2: batches of 2, 2 and 1.
    assert printed[0].startswith("5 sequences")
    assert sum(line.startswith("epoch 0") for line in printed) == 3
    assert sum(line.startswith("epoch 1") for line in printed) == 3, "one before the new start, two after it"
    starts = [
        sorted(
            int(n)
            for line in printed
            if f"epoch {epoch} " in line
            for n in re.search(r"\[([\d ]+)\]", line)[1].split()
        )
        for epoch in range(2)
    ]
    assert starts == [[0, 16, 32, 48, 64]] * 2


def test_augment_while_decoding(video):
    printed = output("augment_while_decoding.py", video)
    ways = re.findall(
        r"fuse='(\w+)'\n(?:\d\. .*\n)+(?:.* is not part of the conversion: .*\n)?Operators .*\n\s+5 sequences in .*"
        r" at most ([\d.]+) levels",
        printed,
    )
    assert [way for way, _ in ways] == ["none", "exact", "surface"]
    apart = [float(levels) for _, levels in ways]
    assert apart[:2] == [0, 0]
    assert 0 < apart[2] <= 1
    assert (
        printed.count("1. random_resized_crop → flip → crop_mirror_normalize: by the reader's conversion")
        == 1
    )


def test_graph_of_nodes():
    printed = output("graph_of_nodes.py")
    before, after = (
        [
            re.findall(r"\d+", line.partition(" of ")[0])
            for line in printed.splitlines()
            if f"levels {when}:" in line
        ]
        for when in ("before", "after")
    )
    assert before == [["19", "45", "75", "127"]] * 2
    assert all(abs(int(level) - 110) < 8 for line in after for level in line)
    angles = re.findall(r"epoch \d: angles (.*)", printed)
    assert len(set(angles)) == 2, "each epoch has its own"
    assert "brightness → flip: one kernel; parameters from" in printed
    assert "by the graph from JSON: equal" in printed
    assert "refused: Graph: the input 'masks' is missing" in printed


def test_first_run_exports_the_video_that_it_is_given(first_run, video, tmp_path, monkeypatch, capfd):
    monkeypatch.setattr(first_run, "OUT", tmp_path)
    monkeypatch.setattr(first_run, "environment", lambda: Path(sys.executable))
    for _ in range(2):
        first_run.main([str(video)])
        assert len(list((tmp_path / "a clip").rglob("*.jpg"))) == 12
        assert (tmp_path / "a clip" / "contact_sheet.html").is_file()
    assert "+ " in capfd.readouterr().out, "it says what it does"


@pytest.mark.deep  # .ci/run does it
def test_first_run_makes_a_sample_once(first_run, tmp_path, monkeypatch, capfd):
    monkeypatch.setattr(first_run, "OUT", tmp_path / "out")
    monkeypatch.setattr(first_run, "environment", lambda: Path(sys.executable))
    first_run.main([])
    assert len(list((tmp_path / "out" / "sample").rglob("*.jpg"))) == 12
    assert "making a sample" in capfd.readouterr().out
    first_run.main([])
    assert "making a sample" not in capfd.readouterr().out


def test_first_run_ends_with_the_code_of_what_failed(first_run, tmp_path, monkeypatch, capfd):
    monkeypatch.setattr(first_run, "OUT", tmp_path)
    monkeypatch.setattr(first_run, "environment", lambda: Path(sys.executable))
    with pytest.raises(SystemExit) as ended:
        first_run.main([str(tmp_path / "absent.mp4")])
    assert ended.value.code == 1
    assert "absent.mp4" in capfd.readouterr().err


def test_environment_is_made_once(first_run, tmp_path, monkeypatch, capfd):
    python = tmp_path / "bin" / "python"
    python.parent.mkdir()
    python.write_text("#!/bin/sh\nexit 0\n")  # stands for an environment whose pip works
    python.chmod(0o755)
    commands = []
    monkeypatch.setenv("SEQPIPE_VENV", str(tmp_path))
    monkeypatch.setattr(first_run, "run", lambda *words: commands.append([str(word) for word in words]))

    assert first_run.environment("test") == python
    upgrade, install = commands
    assert upgrade[-1] == "pip>=25.1"
    assert "--editable" in install
    assert install[-1].endswith("pyproject.toml:test")
    for group in ("test", None):
        assert first_run.environment(group) == python
        assert len(commands) == 2, "nothing is installed twice"
        assert "is up to date" in capfd.readouterr().out
    first_run.environment("dev")
    assert "--editable" not in commands[-1]
    (tmp_path / "seqpipe-base.installed").write_text("by another pyproject.toml")
    first_run.environment()
    assert "--editable" in commands[-1]
    assert "--group" not in commands[-1]


@pytest.mark.deep  # .ci/run does it
def test_environment_is_made_where_there_is_none(first_run, tmp_path, monkeypatch):
    monkeypatch.setenv("SEQPIPE_VENV", str(tmp_path / "new"))
    monkeypatch.setattr(first_run, "run", lambda *_: None)
    python = first_run.environment()
    done = subprocess.run(
        [python, "-m", "pip", "--version"], capture_output=True, encoding="utf-8", check=True
    )
    assert str(tmp_path / "new") in done.stdout


@pytest.mark.deep
def test_two_stream(torch):
    printed = output("two_stream.py")
    assert "32 videos of the classes down, left, right, up" in printed
    assert "frames Batch((4, 56, 56, 3) NHWC uint8 on cpu)" in printed
    assert "flow Batch((4, 4, 56, 56, 2) NFHWC float32 on cpu)" in printed
    frame, flow, both = map(
        int, re.search(r"frame (\d+)%, by the flow (\d+)%, by both (\d+)%", printed).groups()
    )
    assert frame < 60 < 80 < min(flow, both), "the classes differ in their motion alone"


@pytest.mark.peers
@pytest.mark.parametrize(
    ("name", "library"), [("drop_in_monai.py", "monai"), ("drop_in_torchio.py", "torchio")]
)
def test_chains_stand_in_the_place_of_other_libraries_transforms(name, library, tmp_path):
    pytest.importorskip(library)
    rng = np.random.default_rng(0)
    labels = (rng.random((40, 40, 40, 1)) > 0.9).astype(np.uint8)
    for values, file in ((labels * 100 + 5.0, "image"), (labels, "label")):
        part = seqpipe.Sequence(
            values.astype(np.float32 if file == "image" else np.uint8), "DHWC", affine=np.eye(4)
        )
        save(part, tmp_path / f"{file}.nii.gz")
    printed = output(name, tmp_path / "image.nii.gz", tmp_path / "label.nii.gz").splitlines()
    assert len(printed) == (2 if library == "monai" else 4)
    assert all(re.search(r"\[0(\.0)?, 1(\.0)?\]$", line) for line in printed), printed


@pytest.fixture(scope="module")
def hospitals(tmp_path_factory):
    pytest.importorskip("torch")
    pytest.importorskip("highdicom")
    folder = make_sets.hospitals(tmp_path_factory.mktemp("hospitals"), count=2, held_out=2)
    return folder / "train.csv", folder / "held_out.csv"


@pytest.mark.deep
def test_train_slices_learns(hospitals, tmp_path):
    printed = output("train_slices.py", *hospitals, tmp_path, "--epochs", 2)
    first, second, score = (float(number) for number in re.findall(r"(?:loss|Dice) (-?[\d.]+)", printed))
    assert second < first
    assert score > 0.2


@pytest.mark.deep
def test_train_segmentation_writes_segmentations_and_tables(hospitals, tmp_path):
    printed = output("train_segmentation.py", *hospitals, tmp_path, "--epochs", 1)
    assert re.findall(r"(\w+): held-out Dice [01]\.\d+", printed) == ["plain", "augmented"]
    series = hospitals[1].parent / "held_out0"  # empty slices are not stored
    with seqpipe.open(LabelFiles(tmp_path / "plain-held_out0.dcm", like=series)) as labels:
        assert labels.info.grid == (40, 48, 48)
    rows = (tmp_path / "augmented.csv").read_text("utf-8").splitlines()
    assert len(rows) == 1 + 2 * 2 + 2, "two classes of two cases, and their means"


@pytest.mark.deep
def test_segment_folder_goes_from_a_folder_to_a_table(tmp_path):
    pytest.importorskip("torch")
    folder = make_sets.decathlon(tmp_path, count=6)
    printed = output("segment_folder.py", folder, tmp_path / "out", "--epochs", 2)
    scores = re.findall(r"(ball_\d), class (\d): Dice ([01]\.\d+)", printed)
    held_out = {case for case, _, _ in scores}
    assert held_out
    assert len(scores) == 2 * len(held_out)
    for case in held_out:
        with (
            seqpipe.open(tmp_path / f"out/{case}.nii.gz") as labels,
            seqpipe.open(folder / f"labelsTr/{case}.nii.gz") as truth,
        ):
            assert labels.info.same_grid(truth.info)
    assert (tmp_path / "out/table.csv").is_file()


@pytest.mark.deep
@pytest.mark.parametrize(("task", "modalities"), [("spleen", 1), ("brats", 4), ("brain", 1)])
def test_segmentation_tutorials_learn_and_write_labels(tmp_path, task, modalities):
    pytest.importorskip("torch")
    folder = make_sets.decathlon(tmp_path, modalities=modalities)
    options = ["--epochs", 6, "--size", 16]
    printed = output("segmentation_tutorials.py", task, folder, tmp_path / "out", *options)
    assert float(re.search(rf"{task}: Dice ([01]\.\d+)", printed)[1]) > 0.3
    rows = (tmp_path / "out/table.csv").read_text("utf-8").splitlines()
    case = rows[1].split(",")[0]
    with (
        seqpipe.open(tmp_path / f"out/{case}.nii.gz") as labels,
        seqpipe.open(folder / f"labelsTr/{case}.nii.gz") as truth,
    ):
        assert labels.info.same_grid(truth.info)


@pytest.mark.deep
def test_train_action_goes_on_as_if_it_had_not_stopped(tmp_path):
    pytest.importorskip("torch")
    make_motion(tmp_path / "videos", 2)
    options = ["--videos", tmp_path / "videos", "--epochs", 2]
    whole = output("train_action.py", tmp_path / "whole", *options).splitlines()
    first = output("train_action.py", tmp_path / "parts", *options, "--stop-after", 3).splitlines()
    second = output("train_action.py", tmp_path / "parts", *options).splitlines()
    assert whole[0] == first[0] == "4 videos of 4 classes: down, left, right, up"
    assert first[-1].startswith("epoch 1 sample 8 loss ")
    assert second[1] == "goes on in epoch 1 behind sample 8"
    assert first[1:] + second[2:] == whole[1:]
    assert len([line for line in whole if "held-out videos" in line]) == 2
