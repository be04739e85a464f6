"""DeviceConverter: surfaces in device memory to pixels there, one launch for up to 64 frames.

What it costs at least, by arithmetic for an H200 (4.8 TB/s): 1080p NV12 to RGB uint8 moves 3.1 MB in and 6.2 MB out,
1.9 µs a frame; to float32, 25 MB out, 5.8 µs; scaled to 224×224, 0.7 µs for the 3.1 MB that are read. Measured there:
6.0, 7.8 and 3.2 µs (tests/bench/RESULTS.md). An engine needs 1,300 µs for the same frame. Nothing but the kernel's
argument goes to the device: weights of filters are made there, so a crop never seen before costs a few dozen µs.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Hashable
from collections.abc import Sequence as Seq
from functools import cache
from typing import Any, Final

import numpy as np

from ...array import Array
from ...errors import ParameterError
from ...kernel import KernelDevice
from ..convert.output import OutputSpec
from ..convert.paint import converter_key
from ..probe.info import StreamInfo
from .conversion import FRAMES, KERNEL, THREADS, Conversion, SurfaceKind, is_aligned
from .device_surface import DeviceSurface

__all__ = ["Converters", "DeviceConverter", "converters_of"]

_KEPT: Final = 1024  # some KB each


class DeviceConverter:
    """Makes frames of the surfaces of one stream, as the CPU's ``Converter`` does.

    It rounds once, at the end; but pictures of full size that are uint8 and made of 8 bits are those of the CPU,
    whose interpolated chroma is rounded first. A frame that differs in size or format from the others is scaled to
    the same picture, by a launch of its own. It may be used by several threads, and holds nothing on the device.

    Args:
        info: the stream; its tags decide the color, its size the geometry.
        output: what the pictures are to be.
        device: the GPU's number, or what kernels run on.

    Raises:
        ParameterError: the crop leaves the picture; the message names its size.
        BackendError: CuPy is missing or does not fit the driver, or there is no such GPU.
    """

    def __init__(self, info: StreamInfo, output: OutputSpec, device: int | KernelDevice) -> None:
        self._info, self._output = info, output
        self._shape = output.frame_shape(info)
        self._dtype = np.dtype(output.dtype)
        self._device = KernelDevice(device) if isinstance(device, int) else device
        self._known: dict[SurfaceKind, Conversion] = {}
        self._handles: dict[SurfaceKind, int] = {}

    @property
    def shape(self) -> tuple[int, int, int]:
        """(rows, columns, channels) of a picture, or (channels, rows, columns) if the layout is FCHW."""
        return self._shape

    @property
    def dtype(self) -> np.dtype[Any]:
        """Type of a value."""
        return self._dtype

    def __call__(self, surfaces: Seq[DeviceSurface], outs: Seq[int | Array], stream: Any = None) -> None:
        """Queue the conversion of some surfaces; they must stay as they are until the stream has done it.

        Args:
            surfaces: frames of the stream.
            outs: for each, contiguous device memory of ``shape`` and ``dtype``: an array, or its address.
            stream: a CuPy stream; None for CuPy's current one.

        Raises:
            ParameterError: there are not as many outs as surfaces, or an array is not such memory.
            SourceError: the stream's color cannot be converted to the one that is asked for.
            BackendError: the kernel cannot be compiled.
        """
        if len(surfaces) != len(outs):
            raise ParameterError(
                f"{len(surfaces)} surfaces, but {len(outs)} outs", allowed="one out for each surface"
            )
        addresses = [self._address(out) for out in outs]
        for kind, places in _by_kind(surfaces).items():
            conversion = self._conversion(kind)
            for begin in range(0, len(places), FRAMES):
                part = places[begin : begin + FRAMES]
                job = conversion.argument([surfaces[i] for i in part], [addresses[i] for i in part])
                grid = conversion.grid(len(part))
                self._device.launch(KERNEL, "convert", conversion.defines, grid, THREADS, job, stream)

    def prepared(self, surface: DeviceSurface) -> tuple[Conversion, int]:
        """How surfaces like one are converted, and what the driver knows the kernel by that does it.

        Raises:
            SourceError: the stream's color cannot be converted to the one that is asked for.
            BackendError: the kernel cannot be compiled.
        """
        kind = SurfaceKind.of(surface)
        conversion = self._conversion(kind)
        if kind not in self._handles:
            self._handles[kind] = self._device.handle(KERNEL, "convert", conversion.defines)
        return conversion, self._handles[kind]

    def _conversion(self, kind: SurfaceKind) -> Conversion:
        if kind not in self._known:
            self._known[kind] = Conversion.of(self._info, self._output, kind)
        return self._known[kind]

    def _address(self, out: int | Array) -> int:
        if isinstance(out, int):
            address = out
        else:
            facts = getattr(out, "__cuda_array_interface__", None) or out.__array_interface__
            if out.shape != self._shape or out.dtype != self._dtype or facts.get("strides") is not None:
                raise ParameterError(
                    f"out has shape {out.shape} and dtype {out.dtype}",
                    allowed=f"contiguous memory of shape {self._shape} and dtype {self._dtype}",
                )
            address = int(facts["data"][0])
        if address % self._dtype.itemsize:
            raise ParameterError(
                f"out begins at {address:#x}", allowed=f"multiples of {self._dtype.itemsize} bytes"
            )
        return address


def _by_kind(surfaces: Seq[DeviceSurface]) -> dict[SurfaceKind, list[int]]:
    """The places of the surfaces of each kind; most share their shape, and so their kind is made out once."""
    alike: dict[tuple[int, bool], list[int]] = {}
    for place, surface in enumerate(surfaces):
        alike.setdefault((id(surface.shape), is_aligned(surface)), []).append(place)
    found: dict[SurfaceKind, list[int]] = {}
    for places in alike.values():
        found.setdefault(SurfaceKind.of(surfaces[places[0]]), []).extend(places)
    return found


class Converters:
    """The converters of one GPU, for all who paint there: the least recently used are given up.

    Args:
        device: the GPU's number.
    """

    def __init__(self, device: int) -> None:
        self._device = device
        self._known: OrderedDict[Hashable, DeviceConverter] = OrderedDict()
        self._lock = threading.Lock()

    def get(self, info: StreamInfo, output: OutputSpec) -> DeviceConverter:
        """The converter for a stream and an output; any thread may ask."""
        key = converter_key(info, output)
        with self._lock:
            if key not in self._known:
                self._known[key] = DeviceConverter(info, output, self._device)
                while len(self._known) > _KEPT:
                    self._known.popitem(last=False)
            self._known.move_to_end(key)
            return self._known[key]


@cache
def converters_of(device: int) -> Converters:
    """Those of a GPU."""
    return Converters(device)
