"""nvImageCodec and CuPy for machines without a GPU: frames are NumPy's, simplejpeg encodes them, all is recorded."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from enum import Enum
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import simplejpeg

__all__ = ["FakeCupy", "FakeNvimgcodec"]


class FakeCupy:
    """Stands where the module ``cupy`` does; knows which device and stream are the current ones.

    Attributes:
        current: them, innermost last.
    """

    def __init__(self) -> None:
        self.current: list[object] = []
        self.cuda = SimpleNamespace(
            Device=lambda number: self._entered(f"cuda:{number}"),
            Stream=lambda *, non_blocking: FakeStream(self, non_blocking),
            get_current_stream=lambda: SimpleNamespace(synchronize=lambda: None),
        )
        self.asarray = np.asarray

    @contextlib.contextmanager
    def _entered(self, thing: object) -> Iterator[None]:
        self.current.append(thing)
        try:
            yield
        finally:
            self.current.remove(thing)


class FakeStream:
    """A stream of its own."""

    def __init__(self, cupy: FakeCupy, non_blocking: bool) -> None:
        assert non_blocking
        self._cupy, self.ptr = cupy, id(self)

    def __enter__(self) -> FakeStream:
        self._cupy.current.append(self)
        return self

    def __exit__(self, *_error: object) -> None:
        self._cupy.current.remove(self)


class FakeNvimgcodec(ModuleType):
    """Stands where the module ``nvidia.nvimgcodec`` does.

    Attributes:
        encoders: the arguments of each encoder that was made.
        calls: for each time it was asked to encode, the frames, the codec, and the parameters.
        code: makes the content of a file of a frame and a quality, None where the GPU could not; may raise.
    """

    __version__ = "0.9.0"
    QualityType = Enum("QualityType", "QUALITY LOSSLESS")
    ChromaSubsampling = Enum("ChromaSubsampling", "CSS_420 CSS_444")
    BackendKind = Enum("BackendKind", "CPU_ONLY GPU_ONLY HYBRID_CPU_GPU HW_GPU_ONLY")

    def __init__(self, cupy: FakeCupy) -> None:
        super().__init__("nvidia.nvimgcodec")
        self.cupy = cupy
        self.encoders: list[dict[str, Any]] = []
        self.calls: list[tuple[list[Any], str, SimpleNamespace]] = []
        self.code: Callable[[Any, int], bytes | None] = in_color
        self.Backend = lambda kind: kind
        self.EncodeParams = SimpleNamespace

    def as_image(self, frame: Any, *, cuda_stream: int) -> Any:
        assert any(getattr(entered, "ptr", None) == cuda_stream for entered in self.cupy.current)
        return frame

    def Encoder(self, **options: Any) -> FakeEncoder:
        self.encoders.append(options)
        return FakeEncoder(self)


class FakeEncoder:
    """Encodes by simplejpeg."""

    def __init__(self, module: FakeNvimgcodec) -> None:
        self._module = module

    def encode(
        self, images: list[Any], codec: str, *, params: SimpleNamespace, cuda_stream: int
    ) -> list[Any]:
        self._module.as_image(None, cuda_stream=cuda_stream)
        self._module.calls.append((images, codec, params))
        found = [self._module.code(image, params.quality_value) for image in images]
        return [None if content is None else memoryview(content) for content in found]


def in_color(frame: Any, quality: int) -> bytes:
    """As export does it."""
    content: bytes = simplejpeg.encode_jpeg(np.ascontiguousarray(frame), quality, "RGB", "420", fastdct=False)
    return content
