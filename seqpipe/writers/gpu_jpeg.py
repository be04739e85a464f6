"""JPEG encoding on a GPU by nvImageCodec: frames in GPU memory become the bytes of files."""

from __future__ import annotations

import atexit
import contextlib
import importlib
import logging
import os
import queue
import tempfile
import threading
from collections.abc import Iterator
from collections.abc import Sequence as Seq
from functools import cache
from types import ModuleType
from typing import Any, Final

import numpy as np

from ..array import Array
from ..core.kernel import load_cupy
from ..errors import BackendError
from ..video.engine.engine import available_cores

__all__ = ["GpuJpeg", "gpu_jpeg", "nvimgcodec_version"]

_EXTRAS: Final = "pip install 'seqpipe[jpeg-cuda12]' or 'seqpipe[jpeg-cuda13]', after your driver"
# the batch size of a stream of frames
_TOGETHER = 16
# one thread encodes while another copies results
_CODERS = 2
# On an H200, nvJPEG encodes a picture of one pixel of value 123 as 118.
_LEAST_SIDE = 8
_TRIAL_QUALITY, _TRIAL_LEVELS = 95, 4.0

_log = logging.getLogger(__name__)


class GpuJpeg:
    """JPEG encoders of one GPU, for 8-bit RGB. Safe to use from any thread.

    Args:
        device: the GPU's number.

    Attributes:
        together: the best number of frames for one call.
        threads: the number of threads worth using.

    Raises:
        BackendError: nvImageCodec or CuPy is missing, or cannot encode on this GPU.
    """

    together: Final = _TOGETHER
    threads: Final = _CODERS + 1  # one more thread writes files meanwhile

    def __init__(self, device: int) -> None:
        self._codec = _load()
        self._cupy = load_cupy()
        self._device = device
        self._refused: set[tuple[int, ...]] = set()
        self._lock = threading.Lock()
        self._coders: queue.SimpleQueue[tuple[Any, Any]] = queue.SimpleQueue()
        try:
            for _ in range(_CODERS):
                self._coders.put(self._coder())
            self._try()
        except BackendError:
            raise
        except Exception as error:  # versions of the library raise different errors
            raise BackendError(
                f"nvImageCodec {nvimgcodec_version()} cannot encode on cuda:{device}: {error}",
                advice=f"It must fit the driver, and needs nvJPEG: {_EXTRAS}",
            ) from error

    def __call__(self, frames: Seq[Array], quality: int, source: str = "") -> list[bytes | None]:
        """Encode frames, 4:2:0."""
        fit = [index for index, frame in enumerate(frames) if self._fits(frame)]
        coded: list[bytes | None] = [None] * len(frames)
        if not fit:
            return coded
        try:
            encoded = self._encode([frames[index] for index in fit], quality)
        except (RuntimeError, ValueError, MemoryError) as error:
            encoded = [None] * len(fit)
            _log.info("%s: nvImageCodec fails on cuda:%d: %s", source, self._device, error)
        for index, content in zip(fit, encoded, strict=True):
            coded[index] = content
            if content is None:
                self._refuse(frames[index], source)
        return coded

    def close(self) -> None:
        """Release the encoders."""
        with contextlib.suppress(queue.Empty):
            while True:
                self._coders.get_nowait()

    def _fits(self, frame: Array) -> bool:
        """Return whether the GPU encodes a frame."""
        shape = tuple(frame.shape)
        known = shape[2:] == (3,) and frame.dtype == np.uint8
        return known and min(shape[:2]) >= _LEAST_SIDE and shape not in self._refused

    def _refuse(self, frame: Array, source: str) -> None:
        """Stop encoding frames of this size on the GPU."""
        shape = tuple(frame.shape)
        with self._lock:
            first = shape not in self._refused
            self._refused.add(shape)
        if first:
            size = f"{shape[1]}x{shape[0]}"
            _log.info(
                "%s: encoded on the CPU, because cuda:%d does not encode %s", source, self._device, size
            )

    def _encode(self, frames: Seq[Array], quality: int) -> list[bytes | None]:
        """Return the JPEG of each frame; None where the GPU has none."""
        codec = self._codec
        params = codec.EncodeParams(
            quality_type=codec.QualityType.QUALITY,
            quality_value=quality,
            chroma_subsampling=codec.ChromaSubsampling.CSS_420,
        )
        coder, stream = self._coders.get()
        try:
            # Arrays are read on the current CUDA stream. On the default stream, encoders and allocations would
            # synchronize with one another.
            with self._cupy.cuda.Device(self._device), stream:
                images = [codec.as_image(frame, cuda_stream=stream.ptr) for frame in frames]
                encoded = coder.encode(images, "jpeg", params=params, cuda_stream=stream.ptr)
        finally:
            self._coders.put((coder, stream))
        contents = [None if image is None else bytes(image) for image in encoded]
        return [content if content and _is_whole(content) else None for content in contents]

    def _coder(self) -> tuple[Any, Any]:
        """An encoder and its stream."""
        codec, kinds = self._codec, self._codec.BackendKind
        # not CPU_ONLY: slower than the CPU encoder used here
        backends = [codec.Backend(kind) for kind in (kinds.GPU_ONLY, kinds.HYBRID_CPU_GPU, kinds.HW_GPU_ONLY)]
        with self._cupy.cuda.Device(self._device):
            coder = codec.Encoder(
                device_id=self._device,
                max_num_cpu_threads=min(_TOGETHER, available_cores()),
                backends=backends,
            )
            return coder, self._cupy.cuda.Stream(non_blocking=True)

    def _try(self) -> None:
        """Encode a test picture, and check the result."""
        import simplejpeg

        rows, columns = np.indices((48, 64))
        picture = np.stack([rows * 4, columns * 3, 255 - rows * 2 - columns], axis=2).astype(np.uint8)
        with self._cupy.cuda.Device(self._device):
            frame = self._cupy.asarray(picture)
            self._cupy.cuda.get_current_stream().synchronize()
        (content,) = self._encode([frame], _TRIAL_QUALITY)
        if content is None:
            raise BackendError(
                f"nvImageCodec {nvimgcodec_version()} does not encode JPEG on cuda:{self._device}",
                advice=f"It needs nvJPEG: {_EXTRAS}",
            )
        off = np.abs(simplejpeg.decode_jpeg(content).astype(np.float64) - picture).mean()
        if off > _TRIAL_LEVELS:
            raise BackendError(
                f"nvImageCodec {nvimgcodec_version()} encodes a test picture wrongly on cuda:{self._device}, "
                f"by {off:.1f} levels on average",
                advice="Install another version, or encode on the CPU",
            )


def gpu_jpeg(device: int) -> GpuJpeg:
    """The JPEG encoders of a GPU, created and tested once per process."""
    encoder = _new_encoder(device)
    if isinstance(encoder, BackendError):
        raise encoder
    return encoder


@cache
def _new_encoder(device: int) -> GpuJpeg | BackendError:
    """Return the encoder of a GPU, or why there is none."""
    try:
        gpu = GpuJpeg(device)
    except BackendError as error:
        return error
    atexit.register(gpu.close)  # before the driver shuts down
    return gpu


def nvimgcodec_version() -> str:
    """The version of nvImageCodec, or "" if it has none."""
    return str(getattr(_load(), "__version__", ""))


def _load() -> ModuleType:
    """Import nvImageCodec."""
    try:
        with _quiet():
            return importlib.import_module("nvidia.nvimgcodec")
    except (ImportError, OSError) as error:
        raise BackendError(
            "nvImageCodec is not installed, or incomplete", advice=f"Install it: {_EXTRAS}"
        ) from error


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Send what C libraries write to stderr to the log: nvImageCodec prints a warning for each missing plug-in."""
    try:
        stderr = os.dup(2)
    except OSError:  # the file does not exist
        yield
        return
    try:
        with tempfile.TemporaryFile() as file:
            os.dup2(file.fileno(), 2)
            try:
                yield
            finally:
                os.dup2(stderr, 2)
                file.seek(0)
                if message := file.read().decode(errors="replace").strip():
                    _log.debug("nvImageCodec: %s", message)
    finally:
        os.close(stderr)


def _is_whole(content: bytes) -> bool:
    """Whether the bytes begin and end as a JPEG file does."""
    return content.startswith(b"\xff\xd8") and content.endswith(b"\xff\xd9")
