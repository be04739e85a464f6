"""Several GPUs in one machine: each reader, operator and export uses the one it was told to, whichever is current."""

from __future__ import annotations

import threading

import cv2
import numpy as np
import pytest
from click.testing import CliRunner

import seqpipe
from seqpipe import Clip, ops, videos
from seqpipe.cli import main
from seqpipe.ops import apply
from tests.support.datasets import assert_true_frames, images
from tests.support.media import made

pytestmark = pytest.mark.gpu
NAMES = ("h264", "hevc_open_gop", "vp9", "h264_long_gop")


@pytest.fixture(autouse=True)
def _two_gpus():
    import cupy

    count = cupy.cuda.runtime.getDeviceCount()
    if count < 2:
        pytest.skip(f"this machine has {count} GPU, these tests need two")
    cupy.cuda.Device(0).use()
    yield
    assert cupy.cuda.runtime.getDevice() == 0


def dataset(device):
    paths = [str(made(name)) for name in NAMES]
    return videos(paths, Clip(8, step=4), device=device, shuffle=True, seed=3)


@pytest.mark.parametrize("number", [0, 1])
def test_frames_are_on_the_gpu_that_was_asked_for(number):
    device = f"cuda:{number}"
    with dataset(device) as there, dataset("cpu") as here:
        for ours, theirs in zip(images(there.batch(4)), images(here.batch(4)), strict=True):
            assert ours.device == device
            assert ours.data.device.id == number
            assert ours.torch().device.index == number
            assert np.array_equal(ours.frames, theirs.frames)
            for sequence in ours:
                assert_true_frames(sequence)


def test_a_single_reader_uses_the_other_gpu():
    with seqpipe.open(made("h264"), device="cuda:1") as reader:
        found = reader[4:20:3]
        assert found.device == "cuda:1"
        assert_true_frames(found)


def test_threads_that_read_on_different_gpus_do_not_disturb_each_other():
    faults = []

    def read(device):
        try:
            with dataset(device) as there:
                for _ in range(2):
                    for sequence in images(there):
                        assert sequence.device == device
                        assert_true_frames(sequence)
        except BaseException as error:
            faults.append(error)
            raise

    threads = [threading.Thread(target=read, args=(f"cuda:{number}",)) for number in (0, 1, 0, 1)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert faults == []


@pytest.mark.parametrize(
    "op", [ops.Flip(), ops.Resize(size=(9, 11)), ops.Equalize(), ops.GaussianBlur(sigma=1.5)], ids=repr
)
def test_operators_run_where_the_images_are(op):
    import cupy

    x = np.random.default_rng(0).integers(0, 256, (3, 24, 32, 3), dtype=np.uint8)
    with cupy.cuda.Device(1):
        there = cupy.asarray(x)
    found = op(there)
    assert found.device.id == 1
    with cupy.cuda.Device(1):
        assert np.array_equal(found.get(), apply(op, x, backend="reference"))


def test_an_export_spreads_over_all_gpus(tmp_path):
    folders = {name: tmp_path / name.replace(":", "_") for name in ("cpu", "cuda:all", "cuda:1")}
    for device, folder in folders.items():
        inputs = [str(made(name)) for name in NAMES]
        options = ["--out", str(folder), "--device", device, "--format", "png", "--every", "5"]
        result = CliRunner().invoke(main, ["export", *inputs, *options])
        assert result.exit_code == 0, result.output
    wanted = sorted(path.relative_to(folders["cpu"]) for path in folders["cpu"].rglob("*.png"))
    assert len(wanted) > 2 * len(NAMES)
    for device in ("cuda:all", "cuda:1"):
        assert sorted(path.relative_to(folders[device]) for path in folders[device].rglob("*.png")) == wanted
        for name in wanted:
            ours, theirs = (cv2.imread(str(folders[where] / name)).astype(int) for where in (device, "cpu"))
            assert np.abs(ours - theirs).mean() <= 0.5
