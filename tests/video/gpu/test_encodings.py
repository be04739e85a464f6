"""Frames of every structure of prediction on a GPU are the CPU's, however they are asked for."""

from __future__ import annotations

import numpy as np
import pytest

import seqpipe
from seqpipe.errors import BackendError
from seqpipe.video.device import Device
from seqpipe.video.engine.engine import Engine, engine_for
from seqpipe.video.engine.gpu_backends import gpu_decode_backends
from seqpipe.video.index.open import open_index
from seqpipe.video.nvdec import feeder
from seqpipe.video.nvdec.hardware import exact_refusal, refusal
from seqpipe.video.plan import Request
from tests.support.datasets import clips, images
from tests.support.deep import deep
from tests.support.encodings import SHOWN_AGAIN, assert_all_frames_alike, encoding, encodings
from tests.support.software_gpu import SoftwareGpu

QUICK = ("vp9_hidden_split",)
SOFTWARE = [
    pytest.param(name, marks=() if name in QUICK else pytest.mark.deep)
    for name in encodings("h264", "hevc", "vp9")
    if name
    not in {"h264_lossless", "hevc_12", "vp9_hidden_12", *SHOWN_AGAIN}  # the software GPU has them not
]


@pytest.fixture
def software_gpu(emulated, monkeypatch):
    """The GPU's stand-in."""
    if feeder.native() is None:
        pytest.skip("no C compiler")
    gpu = SoftwareGpu(emulated.device)
    gpu.install(monkeypatch)
    yield gpu
    gpu.remove()


@pytest.mark.parametrize("name", SOFTWARE)
def test_every_frame_is_the_cpus_behind_the_software_gpu(software_gpu, name):
    path = encoding(name)
    backends, allocate = gpu_decode_backends(0, "nvdec", 1)
    with Engine(1, processes=0) as cpu, Engine(1, backends=backends, allocate=allocate) as gpu:
        assert_all_frames_alike(path, cpu, gpu, single=4, crop=(74, 136, 32, 48))


def refused(path, *, by=exact_refusal):
    """Why the GPU does not decode a file, or ""."""
    cupy = pytest.importorskip("cupy")
    cupy.cuda.Device(0).use()
    cupy.cuda.runtime.free(0)  # so that this thread has the GPU's context
    return by(0, open_index(str(path)).info)


@pytest.mark.gpu
@pytest.mark.parametrize("name", encodings())
def test_every_frame_is_the_cpus(name):
    path = encoding(name)
    with (
        Engine(2, processes=0) as cpu,
        engine_for(Device("cuda", 0), decode="auto", threads=None, cache_dir=None) as gpu,
    ):
        assert_all_frames_alike(path, cpu, gpu)
        taken = set(gpu.stats()["frames"])
        assert "cpu" in taken if name in SHOWN_AGAIN else taken == ({"cpu"} if refused(path) else {"nvdec"})


@pytest.mark.gpu
@pytest.mark.parametrize("decode", ["nvdec", "mixed"])
@pytest.mark.parametrize("name", encodings("vp8", "vp9"))
def test_every_frame_is_the_cpus_on_engines_alone_and_on_both(name, decode):
    path = encoding(name)
    # the engines alone decode VP8 too, whose damage they do not report
    if reason := refused(path, by=refusal if decode == "nvdec" else exact_refusal):
        pytest.skip(reason)
    if name in SHOWN_AGAIN and decode == "nvdec":
        with (
            seqpipe.open(path, device="cuda", decode="nvdec") as video,
            pytest.raises(BackendError, match=r"show an earlier frame again .*decode='auto' or 'cpu'"),
        ):
            video.frames(range(len(video)))
        return
    with (
        Engine(2, processes=0) as cpu,
        engine_for(Device("cuda", 0), decode=decode, threads=None, cache_dir=None) as gpu,
    ):
        assert_all_frames_alike(path, cpu, gpu)


@pytest.mark.gpu
@pytest.mark.parametrize("name", encodings())
def test_a_data_set_gives_the_cpus_frames(name):
    options = {"length": 6, "stride": 2, "step": 5, "shuffle": True, "seed": 1, "threads": 2}
    files = [str(encoding(name))]
    on_gpu, on_host = (clips(files, device=device, **options) for device in ("cuda", "cpu"))
    batches = list(zip(images(on_gpu.batch(4)), images(on_host.batch(4)), strict=True))
    assert batches
    for theirs, ours in batches:
        assert np.array_equal(theirs.frames, ours.frames)
        apart = np.abs(theirs.numpy().astype(np.int16) - ours.numpy())
        assert apart.max() <= (4 if name.endswith("_sizes") else 1)
        assert apart.mean() <= 0.1


@pytest.mark.parametrize("name", ["vp9_shown_again", deep("vp9_hidden_shown_split")])
def test_a_gpu_alone_refuses_frames_that_are_shown_again(software_gpu, name):
    backends, allocate = gpu_decode_backends(0, "nvdec", 1)
    path = encoding(name)
    with Engine(1, backends=backends, allocate=allocate) as gpu:
        (found,) = gpu.read([Request(str(path), np.arange(len(open_index(str(path)))))])
    assert isinstance(found, BackendError)
    assert "show an earlier frame again" in str(found)
