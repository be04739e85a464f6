"""seqpipe as the decoder of transformers and vLLM: frames that their rules choose, in the form that they expect.

Neither is installed in CI: the modules below have what seqpipe uses of transformers 5.24 and vLLM's registry.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from types import ModuleType
from typing import Any, NamedTuple

import numpy as np
import pytest

import seqpipe
from seqpipe import BackendError, FrameRangeError, ParameterError
from tests.support.media import made

torch = pytest.importorskip("torch")
from seqpipe.torch import register_transformers, register_vllm  # noqa: E402  needs torch


@dataclass
class VideoMetadata:
    total_num_frames: int
    fps: float | None = None
    width: int | None = None
    height: int | None = None
    duration: float | None = None
    video_backend: str | None = None
    frames_indices: Any = None


class Registry:
    def __init__(self):
        self.name2class = {}

    def register(self, name):
        return lambda cls: self.name2class.setdefault(name, cls)


class Source(NamedTuple):
    total_frames_num: int
    original_fps: float
    duration: float


class Target(NamedTuple):
    num_frames: int
    fps: float
    max_duration: float


class Loader:
    @classmethod
    def _prepare_source(cls, source):
        return source


class LastFrames(Loader):
    @classmethod
    def compute_frames_index_to_sample(cls, source, target, skipped=0):
        return list(range(source.total_frames_num))[-target.num_frames - skipped :]


@pytest.fixture
def libraries(monkeypatch):
    """The modules of transformers and vLLM."""
    parts = ("transformers", "transformers.video_utils", "vllm", "vllm.multimodal", "vllm.multimodal.video")
    modules = {name: ModuleType(name) for name in parts}
    for name, module in modules.items():
        monkeypatch.setitem(sys.modules, name, module)
    utilities, video = modules["transformers.video_utils"], modules["vllm.multimodal.video"]
    utilities.VIDEO_DECODERS, utilities.VideoMetadata = {}, VideoMetadata
    video.VIDEO_LOADER_REGISTRY, video.VideoLoader = Registry(), Loader
    video.VideoSourceMetadata, video.VideoTargetMetadata = Source, Target
    video.VIDEO_LOADER_REGISTRY.register("last")(LastFrames)
    return utilities, video


@pytest.mark.parametrize(("name", "layout"), [("seqpipe", "FHWC"), ("torchcodec", "FCHW")])
def test_transformers_gets_the_frames_of_its_rule(libraries, name, layout):
    utilities, _ = libraries
    register_transformers(name)
    path = str(made("h264"))
    frames, metadata = utilities.VIDEO_DECODERS[name](path, every, step=7)
    with seqpipe.open(path) as video:
        numbers = list(range(0, len(video), 7))
        assert (metadata.total_num_frames, metadata.fps) == (len(video), video.fps)
        assert (metadata.height, metadata.width) == (video.height, video.width)
        wanted = video.frames(numbers).numpy()
    assert frames.dtype == torch.uint8
    assert list(metadata.frames_indices) == numbers
    np.testing.assert_array_equal(
        frames.numpy(), wanted if layout == "FHWC" else wanted.transpose(0, 3, 1, 2)
    )


def every(metadata, step):
    return range(0, metadata.total_num_frames, step)


@pytest.mark.parametrize(
    ("options", "count"),
    [({}, None), ({"num_frames": 5}, 5), ({"num_frames": 9, "fps": 2}, 4), ({"fps": 0.1}, 1)],
)
def test_vllm_gets_frames_from_the_first_to_the_last(libraries, options, count):
    _, video = libraries
    register_vllm()
    data = made("h264").read_bytes()
    frames, metadata = video.VIDEO_LOADER_REGISTRY.name2class["seqpipe"].load_bytes(data, **options)
    with seqpipe.open(data) as reader:
        if options.get("fps") == 2:
            count = min(9, int(reader.duration * 2))
        numbers = np.linspace(0, len(reader) - 1, count or len(reader), dtype=int)
        np.testing.assert_array_equal(frames, reader.frames(numbers.tolist()).numpy())
    assert metadata["frames_indices"] == numbers.tolist()
    assert metadata["do_sample_frames"] == (count is None)


def test_vllm_gets_the_frames_of_another_loaders_rule(libraries):
    _, video = libraries
    register_vllm("own", base="last")
    loader = video.VIDEO_LOADER_REGISTRY.name2class["own"]
    frames, metadata = loader.load_bytes(made("h264").read_bytes(), num_frames=2, skipped=1)
    total = metadata["total_num_frames"]
    assert metadata["frames_indices"] == [total - 3, total - 2, total - 1]
    assert len(frames) == 3
    assert issubclass(loader, LastFrames)


def test_what_cannot_be_loaded_is_named(libraries):
    utilities, _ = libraries
    register_transformers()
    with pytest.raises(FrameRangeError, match=r"the rule has chosen the frames \[999999\]; allowed: 0 to"):
        utilities.VIDEO_DECODERS["seqpipe"](str(made("h264")), lambda **_: [999999])
    with pytest.raises(ParameterError, match="device='gpu' is unknown"):
        register_transformers(device="gpu")
    with pytest.raises(BackendError, match="vLLM has no video loader 'first'; allowed: last"):
        register_vllm(base="first")


def test_a_library_that_is_missing_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "transformers", None)
    monkeypatch.setitem(sys.modules, "vllm", None)
    with pytest.raises(BackendError, match="Install it: pip install transformers"):
        register_transformers()
    with pytest.raises(BackendError, match="Install it: pip install vllm"):
        register_vllm()
