"""Conversion of surfaces to pixels in device memory, up to 64 frames per launch.

Lower bounds by memory bandwidth on an H200 (4.8 TB/s): 1080p NV12 to RGB uint8 reads 3.1 MB and writes 6.2 MB, 1.9 µs
per frame; to float32 it writes 25 MB, 5.8 µs; scaled to 224×224, 0.7 µs for the 3.1 MB that are read. Measured: 6.0,
7.8 and 3.2 µs (benchmarks/RESULTS.md). An engine takes 1,300 µs to decode the frame. Only the kernel's argument is
copied to the device: filter weights are computed there, so a new crop costs a few dozen µs.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence as Seq
from functools import cache, partial
from typing import Any, Final

from ...array import Array
from ...core.kernel import KernelDevice
from ...errors import ParameterError
from ..convert.converter import ConverterCache, StreamConverter
from ..convert.output import OutputSpec
from ..probe.info import StreamInfo
from .conversion import FRAMES, KERNEL, THREADS, Conversion, SurfaceKind, is_aligned
from .device_surface import DeviceSurface

__all__ = ["Converters", "DeviceConverter", "converters_of"]

_CACHED_CONVERTERS: Final = 1024  # a few KB each


class DeviceConverter(StreamConverter):
    """Converts the surfaces of one stream to output frames, as the CPU's ``Converter`` does; thread-safe.

    Values are rounded once, at the end; except for unscaled uint8 frames of 8-bit surfaces, which equal those of the
    CPU, whose interpolated chroma is rounded first. A frame that differs in size or format from the others is scaled to
    the same output size, by a separate launch. The converter holds no device memory.

    Args:
        info: the stream; its tags determine the color, its size the geometry.
        output: the output specification.
        device: the GPU's number, or another device that runs kernels.

    Raises:
        ParameterError: the crop exceeds the frame; the message names its size.
        BackendError: CuPy is missing or does not fit the driver, or there is no such GPU.
    """

    def __init__(self, info: StreamInfo, output: OutputSpec, device: int | KernelDevice) -> None:
        super().__init__(info, output)
        self._device = KernelDevice(device) if isinstance(device, int) else device
        self._conversions: dict[SurfaceKind, Conversion] = {}
        self._handles: dict[SurfaceKind, int] = {}

    def __call__(self, surfaces: Seq[DeviceSurface], outs: Seq[int | Array], stream: Any = None) -> None:
        """Queue the conversion of surfaces, whose memory must stay valid until the CUDA stream has completed it."""
        if len(surfaces) != len(outs):
            raise ParameterError(
                f"{len(surfaces)} surfaces, but {len(outs)} outs", allowed="one out for each surface"
            )
        addresses = [self._address(out) for out in outs]
        for kind, indices in _by_kind(surfaces).items():
            conversion = self._conversion(kind)
            for begin in range(0, len(indices), FRAMES):
                part = indices[begin : begin + FRAMES]
                job = conversion.argument([surfaces[i] for i in part], [addresses[i] for i in part])
                grid = conversion.grid(len(part))
                self._device.launch(KERNEL, "convert", conversion.defines, grid, THREADS, job, stream)

    def prepared(self, kind: SurfaceKind) -> tuple[Conversion, int]:
        """Return the conversion of surfaces of a kind, and the driver's handle of its kernel."""
        conversion = self._conversion(kind)
        if kind not in self._handles:
            self._handles[kind] = self._device.handle(KERNEL, "convert", conversion.defines)
        return conversion, self._handles[kind]

    def _conversion(self, kind: SurfaceKind) -> Conversion:
        if kind not in self._conversions:
            self._conversions[kind] = Conversion.of(self._info, self._output, kind)
        return self._conversions[kind]

    def _address(self, out: int | Array) -> int:
        if isinstance(out, int):
            address = out
        else:
            facts = getattr(out, "__cuda_array_interface__", None) or out.__array_interface__
            self._check_out(out, contiguous=facts.get("strides") is None)
            address = int(facts["data"][0])
        if address % self._dtype.itemsize:
            raise ParameterError(
                f"out begins at {address:#x}", allowed=f"multiples of {self._dtype.itemsize} bytes"
            )
        return address


def _by_kind(surfaces: Seq[DeviceSurface]) -> dict[SurfaceKind, list[int]]:
    """Return the indices of the surfaces of each kind, which is computed once for surfaces that share their shape."""
    by_shape: dict[tuple[int, bool], list[int]] = {}
    for index, surface in enumerate(surfaces):
        by_shape.setdefault((id(surface.shape), is_aligned(surface)), []).append(index)
    by_kind: dict[SurfaceKind, list[int]] = {}
    for indices in by_shape.values():
        by_kind.setdefault(SurfaceKind.of(surfaces[indices[0]]), []).extend(indices)
    return by_kind


class Converters(ConverterCache[DeviceConverter]):
    """Cache of the converters of one GPU, shared by all painters.

    Args:
        device: the GPU's number.
    """

    def __init__(self, device: int) -> None:
        super().__init__(partial(DeviceConverter, device=device), _CACHED_CONVERTERS)
        self._lock = threading.Lock()

    def get(self, info: StreamInfo, output: OutputSpec) -> DeviceConverter:
        """Return the converter for a stream and an output; thread-safe."""
        with self._lock:
            return super().get(info, output)


@cache
def converters_of(device: int) -> Converters:
    """Return the converters of a GPU."""
    return Converters(device)
