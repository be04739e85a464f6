"""JPEG on a GPU: frames stay there until they are encoded, and what the GPU does not encode the CPU does.

Without a GPU nvImageCodec and the reader are replaced; what the replacements are given is looked at.
"""

from __future__ import annotations

import io
import logging
import os
import re
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
from PIL import Image, JpegImagePlugin

import seqpipe
from seqpipe.cli import request, work
from seqpipe.errors import BackendError
from seqpipe.video.device import Device
from seqpipe.writers import encoders as images
from seqpipe.writers import gpu_jpeg
from tests.support.media import made

from .fake_nvimgcodec import FakeCupy, FakeNvimgcodec, in_color
from .written import files, lines, numbers

FRAMES = 48


@pytest.fixture
def forgotten():
    """What was found out about the machine is forgotten, before and after."""
    kept = (gpu_jpeg._new_encoder, images._note)
    for found in kept:
        found.cache_clear()
    yield
    for found in kept:
        found.cache_clear()


@pytest.fixture
def codec(monkeypatch, forgotten):
    """nvImageCodec, replaced."""
    cupy = FakeCupy()
    found = FakeNvimgcodec(cupy)
    monkeypatch.setitem(sys.modules, "nvidia", ModuleType("nvidia"))
    monkeypatch.setitem(sys.modules, "nvidia.nvimgcodec", found)
    monkeypatch.setattr(gpu_jpeg, "load_cupy", lambda: cupy)
    return found


@pytest.fixture
def no_codec(monkeypatch, forgotten):
    """No nvImageCodec."""
    monkeypatch.setitem(sys.modules, "nvidia.nvimgcodec", None)


@pytest.fixture
def gpu(monkeypatch):
    """A GPU whose frames are NumPy's; gives the list of where streams were asked to deliver them."""
    asked = []

    class Reader(seqpipe.video.reader.VideoReader):
        def __init__(self, origin, **options):
            assert options.pop("device") == "cuda:0"
            super().__init__(origin, **options)

        def stream(self, wanted, *, host=False):
            asked.append("host" if host else "gpu")
            return super().stream(wanted)

    monkeypatch.setattr(work, "VideoReader", Reader)
    monkeypatch.setattr(request, "parse_devices", lambda _name: (Device("cuda", 0),))
    return asked


def told(caplog):
    return [
        record.getMessage()
        for record in caplog.records
        if record.name.startswith(("seqpipe.cli", "seqpipe.writers"))
    ]


def test_frames_stay_on_the_gpu_and_are_encoded_together(run, tmp_path, codec, gpu):
    run("export", made("h264"), "--out", tmp_path / "gpu", "--jobs", 3, "--manifest", tmp_path / "m.jsonl")
    assert gpu == ["gpu"]
    _, *calls = codec.calls
    assert [len(frames) for frames, _, _ in calls] == [16, 16, 16]
    for _, name, params in codec.calls:
        assert (name, params.quality_type.name, params.chroma_subsampling.name) == (
            "jpeg",
            "QUALITY",
            "CSS_420",
        )
    assert {params.quality_value for _, _, params in calls} == {95}
    assert numbers(tmp_path / "gpu") == list(range(FRAMES))
    rows = lines((tmp_path / "m.jsonl").read_text())
    assert [row["output"] for row in rows] == files(tmp_path / "gpu")
    assert [row["bytes"] for row in rows] == [
        (tmp_path / "gpu" / row["output"]).stat().st_size for row in rows
    ]
    run("export", made("h264"), "--out", tmp_path / "cpu", "--encode", "cpu")
    assert gpu == ["gpu", "host"]
    for name in files(tmp_path / "cpu"):
        assert (tmp_path / "cpu" / name).read_bytes() == (tmp_path / "gpu" / name).read_bytes()


def test_the_cpu_of_the_library_is_not_asked(run, tmp_path, codec, gpu):
    run("export", made("h264"), "--out", tmp_path, "--num", 1)
    assert {options["device_id"] for options in codec.encoders} == {0}
    for options in codec.encoders:
        assert {kind.name for kind in options["backends"]} == {"GPU_ONLY", "HYBRID_CPU_GPU", "HW_GPU_ONLY"}


def test_quality_is_passed_on(run, tmp_path, codec, gpu):
    run("export", made("h264"), "--out", tmp_path, "--num", 3, "--quality", 40)
    assert codec.calls[-1][2].quality_value == 40


def test_each_file_gets_its_own_frame(run, tmp_path, codec, gpu):
    options = ("--sequence-length", 4, "--stride", 3, "--step", 2, "--end", "20f", "--contact-sheet")
    run("export", made("h264"), "--out", tmp_path, *options)
    assert numbers(tmp_path) == [start + 3 * i for start in range(0, 11, 2) for i in range(4)]
    assert (tmp_path / "contact_sheet.html").stat().st_size > 10_000


@pytest.mark.parametrize("ending", ["png", "npy"])
def test_other_formats_take_frames_in_main_memory(run, tmp_path, codec, gpu, ending):
    run("export", made("h264"), "--out", tmp_path, "--num", 2, "--format", ending)
    assert (gpu, codec.encoders) == (["host"], [])


def fails(_frame, _quality):
    raise RuntimeError("out of memory, for example")


BAD = {
    "does not": lambda _frame, _quality: None,
    "fails": fails,
    "is cut": lambda frame, quality: in_color(frame, quality)[:-40],
    "is empty": lambda _frame, _quality: b"",
}


@pytest.mark.parametrize("how", BAD)
def test_what_the_gpu_does_not_encode_the_cpu_does(run, tmp_path, codec, gpu, caplog, how):
    caplog.set_level(logging.INFO)
    gpu_jpeg.gpu_jpeg(0)
    codec.code = BAD[how]
    run(
        "export", made("h264"), "--out", tmp_path, "--jobs", 1
    )  # of two at once, both may ask before either is told
    assert numbers(tmp_path) == list(range(FRAMES))
    assert len(codec.calls) == 2, "after the trial it is asked once about a size that it refuses"
    said = [text for text in told(caplog) if "because cuda:0 does not encode 128x96" in text]
    assert len(said) == 1
    assert said[0].startswith(str(made("h264")))


def test_only_what_the_gpu_leaves_out_is_done_by_the_cpu(run, tmp_path, codec, gpu, monkeypatch):
    gpu_jpeg.gpu_jpeg(0)
    written = iter(range(FRAMES))
    codec.code = lambda frame, quality: None if next(written) % 3 else in_color(frame, quality)
    by_cpu = []
    jpeg = images._jpeg
    monkeypatch.setattr(images, "_jpeg", lambda pixels, quality: by_cpu.append(1) or jpeg(pixels, quality))
    run("export", made("h264"), "--out", tmp_path, "--end", "16f")
    assert len(by_cpu) == 10
    assert numbers(tmp_path) == list(range(16))


def test_gray_deep_and_tiny_frames_are_not_given_to_it(codec):
    gpu = gpu_jpeg.gpu_jpeg(0)
    color = np.zeros((8, 8, 3), np.uint8)
    given = [color[..., :1], color.astype(np.uint16), color, color[..., 0], color[:7]]
    assert [content is not None for content in gpu(given, 90)] == [False, False, True, False, False]
    assert len(codec.calls[-1][0]) == 1


def test_nobody_else_encodes_when_the_gpu_must(run, tmp_path, codec, gpu):
    gpu_jpeg.gpu_jpeg(0)
    codec.code = BAD["does not"]
    text = run("export", made("h264"), "--out", tmp_path, "--encode", "gpu", code=1).stderr
    assert f"Error: {made('h264')}: " in text
    assert "does not encode its frames of 128x96 as jpg" in text
    assert "--encode auto" in text
    assert files(tmp_path) == []


def test_without_the_library_the_cpu_encodes_and_it_is_said_once(run, tmp_path, no_codec, gpu, caplog):
    caplog.set_level(logging.INFO)
    for place in range(2):
        run("export", made("h264"), made("vp9"), "--out", tmp_path / str(place), "--num", 3)
        assert len(numbers(tmp_path / str(place))) == 6
    assert set(gpu) == {"host"}
    (said,) = told(caplog)
    assert "jpg is encoded on the CPU for cuda:0, because nvImageCodec is not installed" in said


def test_without_the_library_a_gpu_that_must_encode_is_an_error(run, tmp_path, no_codec, gpu):
    text = run("export", made("h264"), "--out", tmp_path / "o", "--encode", "gpu", code=1).stderr
    assert "nvImageCodec is not installed" in text
    assert "pip install 'seqpipe[jpeg-cuda12]' or 'seqpipe[jpeg-cuda13]'" in text
    assert not (tmp_path / "o").exists()


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--format", "png"), "no GPU encodes png"),
        (("--device", "cpu"), "encode='gpu' needs frames that are decoded for a GPU"),
    ],
)
def test_a_gpu_that_cannot_be_asked_is_wrong_usage(run, tmp_path, codec, options, said):
    text = run("export", made("h264"), "--out", tmp_path, "--encode", "gpu", *options, code=2).stderr
    assert said in text


TRIALS = {
    "does not encode JPEG on cuda:0": BAD["does not"],
    "cannot encode on cuda:0: out of memory": fails,
    "encodes a test picture wrongly on cuda:0, by": lambda frame, quality: in_color(
        frame[..., ::-1], quality
    ),
}


@pytest.mark.parametrize("said", TRIALS)
def test_a_library_that_does_not_work_is_found_out_at_once(run, codec, said):
    codec.code = TRIALS[said]
    for _ in range(2):
        with pytest.raises(BackendError, match=said):
            gpu_jpeg.gpu_jpeg(0)
    assert len(codec.calls) == 1
    finding = doctors(run)
    assert finding["ok"] is None
    assert said in finding["value"]


def doctors(run):
    found = {line["name"]: line for line in lines(run("doctor", "--json").stdout)}
    return found["JPEG on a GPU"]


def test_the_doctor_names_it(run, codec):
    assert doctors(run) == {
        "type": "finding",
        "name": "JPEG on a GPU",
        "value": "nvImageCodec 0.9.0 encodes jpg for export",
        "ok": True,
        "advice": "",
    }


def test_the_doctor_says_what_brings_it(run, no_codec):
    finding = doctors(run)
    assert finding["ok"] is None
    assert "jpg is encoded on the CPU" in finding["value"]
    assert "seqpipe[jpeg-cuda13]" in finding["advice"]


def test_what_a_library_says_as_it_is_loaded_goes_to_the_log(capfd, caplog):
    caplog.set_level(logging.DEBUG)
    with gpu_jpeg._quiet():
        os.write(2, b"Failed to load nvtiff library!\n")
    os.write(2, b"heard\n")
    assert capfd.readouterr().err == "heard\n"
    assert "nvImageCodec: Failed to load nvtiff library!" in told(caplog)


def test_threads_take_turns_with_two_encoders(codec):
    gpu = gpu_jpeg.gpu_jpeg(0)
    at_once, seen = threading.Semaphore(2), []

    def code(frame, quality):
        assert at_once.acquire(blocking=False), "an encoder was used by two threads"
        seen.append(threading.get_ident())
        time.sleep(0.002)
        at_once.release()
        return in_color(frame, quality)

    codec.code = code
    frames = [np.full((16, 16, 3), level, np.uint8) for level in range(0, 240, 10)]
    with ThreadPoolExecutor(6) as pool:
        found = list(pool.map(lambda frame: gpu([frame], 95)[0], frames))
    assert found == [in_color(frame, 95) for frame in frames]
    assert len(set(seen)) > 1


def test_the_extras_that_are_advised_exist():
    named = re.findall(r"seqpipe\[([\w-]+)\]", gpu_jpeg._EXTRAS)
    project = (Path(__file__).resolve().parents[2] / "pyproject.toml").read_text()
    assert len(named) == 2
    assert all(f"\n{name} = [" in project for name in named)


def psnr(picture, exact):
    error = np.mean((picture.astype(np.float64) - exact) ** 2)
    return 10 * np.log10(255**2 / error)


@pytest.mark.gpu
@pytest.mark.parametrize("quality", [95, 60])
@pytest.mark.parametrize("name", ["h264", "odd_h264_444", "rotated_90", "hevc_10", "vp9"])
def test_files_of_the_gpu_are_as_good_as_those_of_the_cpu(run, tmp_path, monkeypatch, name, quality):
    pytest.importorskip("nvidia.nvimgcodec")
    options = ("--frames", "3,20,40", "--quality", quality, "--device", "cuda")
    run("export", made(name), "--out", tmp_path / "cpu", *options, "--encode", "cpu")
    monkeypatch.delattr(images, "_jpeg")  # whoever falls back fails
    run("export", made(name), "--out", tmp_path / "gpu", *options, "--encode", "gpu")
    with seqpipe.open(made(name)) as video:
        exact = video.frames([3, 20, 40]).numpy()
    assert files(tmp_path / "gpu") == files(tmp_path / "cpu")
    for place, file in enumerate(files(tmp_path / "gpu")):
        theirs, ours = ((tmp_path / folder / file).read_bytes() for folder in ("cpu", "gpu"))
        with Image.open(io.BytesIO(ours)) as picture:
            assert picture.mode == "RGB"
            assert JpegImagePlugin.get_sampling(picture) == 2, "4:2:0"
            found = np.asarray(picture)
        with Image.open(io.BytesIO(theirs)) as picture:
            expected = np.asarray(picture)
        assert found.shape == exact[place].shape
        assert psnr(found, exact[place]) > psnr(expected, exact[place]) - 1
        assert len(ours) == pytest.approx(len(theirs), rel=0.2)


@pytest.mark.gpu
@pytest.mark.parametrize("size", [(1, 1), (7, 5), (33, 17), (640, 8), (4000, 3000)])
def test_any_size_becomes_a_picture(run, tmp_path, size):
    pytest.importorskip("nvidia.nvimgcodec")
    options = ("--num", 2, "--size", f"{size[0]}x{size[1]}", "--device", "cuda")
    run("export", made("h264"), "--out", tmp_path, *options)
    with seqpipe.open(made("h264"), output=seqpipe.OutputSpec(size=size[::-1])) as video:
        exact = video.frames([12, 36]).numpy()
    for place, file in enumerate(files(tmp_path)):
        found, expected = (
            np.asarray(Image.open(io.BytesIO(content))).astype(np.float64)
            for content in ((tmp_path / file).read_bytes(), in_color(exact[place], 95))
        )
        assert found.shape == exact[place].shape
        assert np.abs(found - exact[place]).mean() < np.abs(expected - exact[place]).mean() + 3


@pytest.mark.gpu
def test_many_sources_share_the_encoders_of_a_gpu(run, tmp_path):
    pytest.importorskip("nvidia.nvimgcodec")
    names = ["h264", "vp9", "h264_short_gops", "hevc_open_gop", "start_10s", "h264_many_b"]
    run("export", *map(made, names), "--out", tmp_path, "--jobs", 6, "--device", "cuda", "--encode", "gpu")
    for name in names:
        assert numbers(tmp_path / name) == list(range(FRAMES)), name
