"""seqpipe as the video decoder of transformers and of vLLM, which choose frames by their own rules.

Sources: transformers 5.24 (``video_utils.load_video``), vLLM (``vllm.multimodal.video.VIDEO_LOADER_REGISTRY``).
"""

from __future__ import annotations

import math
from importlib import import_module
from typing import Any, cast

import numpy as np

from ..array import IntArray, to_torch
from ..errors import BackendError, FrameRangeError
from ..video.device import parse_device
from ..video.reader import VideoReader

__all__ = ["register_transformers", "register_vllm"]


def register_transformers(name: str = "seqpipe", *, device: str = "cpu") -> None:
    """Make seqpipe a backend of transformers' ``load_video``: ``load_video(path, fps=2, backend="seqpipe")``.

    Video processors of models always ask for the backend "torchcodec", so ``register_transformers("torchcodec")`` makes
    them read through seqpipe, where torchcodec is installed. Frames are a uint8 tensor (F, H, W, 3) on the CPU, and a
    tensor (F, 3, H, W) on the device for "torchcodec", as that backend gives them.

    Args:
        name: name of the backend; an existing one is replaced.
        device: "cpu", "cuda", "cuda:N", or "auto".

    Raises:
        BackendError: transformers is not installed.
        ParameterError: the device is unknown.
    """
    utilities = _imported("transformers.video_utils", "transformers")
    place = str(parse_device(device))

    def read(video: Any, sample_indices_fn: Any, **options: Any) -> tuple[Any, Any]:
        with VideoReader(video, device=place) as reader:
            metadata = utilities.VideoMetadata(
                total_num_frames=len(reader),
                fps=reader.fps,
                duration=reader.duration,
                video_backend="seqpipe",
                height=reader.height,
                width=reader.width,
            )
            indices = sample_indices_fn(metadata=metadata, **options)
            metadata.frames_indices = indices
            frames = to_torch(reader.frames(_numbers(indices, len(reader))).data)
        return frames.permute(0, 3, 1, 2) if name == "torchcodec" else frames, metadata

    utilities.VIDEO_DECODERS[name] = read


def register_vllm(name: str = "seqpipe", *, base: str | None = None) -> None:
    """Make seqpipe a video loader of vLLM, which ``VLLM_VIDEO_LOADER_BACKEND=seqpipe`` or ``video_backend`` chooses.

    Call it in a plugin (entry point ``vllm.general_plugins``), so that vLLM's own processes have it too. Frames are
    uint8 (F, H, W, 3) in main memory, as vLLM's loaders give them.

    Args:
        name: name of the loader; an existing one is replaced.
        base: a loader whose rule chooses the frames, such as "qwen3_vl"; None for ``num_frames`` frames from the first
            to the last, or ``fps`` per second, whichever are fewer.

    Raises:
        BackendError: vLLM is not installed, or has no loader ``base``.
    """
    video = _imported("vllm.multimodal.video", "vllm")
    registry = video.VIDEO_LOADER_REGISTRY
    if base is not None and base not in registry.name2class:
        raise BackendError(
            f"vLLM has no video loader {base!r}", allowed=", ".join(sorted(registry.name2class)) or "none"
        )
    parent: Any = video.VideoLoader if base is None else registry.name2class[base]

    def load_bytes(
        cls: Any,
        data: bytes,
        num_frames: int = -1,
        fps: float = -1,
        max_duration: float = 300,
        **options: Any,
    ) -> tuple[Any, dict[str, Any]]:
        with VideoReader(data) as reader:
            total, rate, duration_s = len(reader), reader.fps or 0.0, reader.duration or 0.0
            if base is None:
                indices: Any = _spread(total, duration_s, num_frames, fps)
            else:
                source = video.VideoSourceMetadata(total, rate, duration_s)
                target = video.VideoTargetMetadata(num_frames, fps, max_duration)
                source = cls._prepare_source(source)
                indices = cls.compute_frames_index_to_sample(source=source, target=target, **options)
            numbers = _numbers(indices, total)
            frames = np.asarray(reader.frames(numbers).data)
        return frames, {
            "total_num_frames": total,
            "fps": rate,
            "duration": duration_s,
            "video_backend": name,
            "frames_indices": numbers,
            "do_sample_frames": len(numbers) == total,
        }

    registry.register(name)(
        type("SeqpipeVideoLoader", (parent,), {"load_bytes": classmethod(cast("Any", load_bytes))})
    )


def _spread(total: int, duration_s: float, num_frames: int, fps: float) -> IntArray:
    """Return frames from the first to the last, as vLLM's default loader chooses them."""
    count = min(num_frames, total) if num_frames > 0 else total
    if fps > 0:
        count = min(count, math.floor(duration_s * fps))
    return np.linspace(0, total - 1, max(1, count), dtype=np.int64)


def _numbers(indices: Any, total: int) -> list[int]:
    """Return frame numbers that a rule has chosen."""
    numbers: list[int] = np.asarray(indices).astype(np.int64).tolist()
    if not numbers or min(numbers) < 0 or max(numbers) >= total:
        raise FrameRangeError(f"the rule has chosen the frames {numbers}", allowed=f"0 to {total - 1}")
    return numbers


def _imported(module: str, package: str) -> Any:
    try:
        return import_module(module)
    except ImportError as error:
        raise BackendError(
            f"{package} cannot be imported: {error}", advice=f"Install it: pip install {package}"
        ) from error
