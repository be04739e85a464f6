"""Benches: where kernels run in tests, on a GPU or emulated, with surfaces put there and pictures taken back."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from seqpipe.core.kernel import KernelDevice
from seqpipe.video.convert.surface import Surface
from seqpipe.video.cuda.device_surface import DeviceSurface, SurfaceShape

from .emulated import EmulatedDevice

__all__ = ["Bench", "CudaBench", "EmulatedBench"]


class Bench:
    """A place for kernels; it keeps what is put there.

    Attributes:
        device: what a converter is given.
    """

    def __init__(self, device: KernelDevice) -> None:
        self.device = device
        self._kept: list[Any] = []

    def array(self, array: NDArray[Any]) -> Any:
        """The array on the device."""
        raise AssertionError(f"this bench has no memory for {array.nbytes} bytes")

    def numpy(self, array: Any) -> NDArray[Any]:
        """It back from there."""
        raise AssertionError(f"this bench has no memory, so not {array!r}")

    def address(self, array: Any) -> int:
        facts = getattr(array, "__cuda_array_interface__", None) or array.__array_interface__
        return int(facts["data"][0])

    def surface(
        self, surface: Surface, *, interleaved: bool = False, high: bool = False, pitch: int = 256
    ) -> DeviceSurface:
        """The surface on the device, with rubbish in the padding columns.

        Args:
            surface: the planes.
            interleaved: whether to put Cb and Cr into one plane.
            high: whether to put the samples into the high bits.
            pitch: what the bytes of a row are a multiple of.
        """
        form, planes = surface.format, list(surface.planes)
        shift = 16 - form.bits if high else 0
        if interleaved:
            both = np.stack(planes[1:], axis=-1)
            planes[1:] = [both.reshape(both.shape[0], -1)]
        stored = [self.array(_padded(plane << shift, pitch)) for plane in planes]
        self._kept += stored
        pitches = [int(plane.strides[0]) for plane in stored]
        addresses = tuple(self.address(plane) for plane in stored)
        size = surface.width, surface.height
        shape = SurfaceShape(pitches[0], *size, form, interleaved, shift, pitches[-1])
        return shape.surface(surface.number, addresses)


class EmulatedBench(Bench):
    """Kernels compiled by g++, memory of NumPy."""

    def __init__(self) -> None:
        super().__init__(EmulatedDevice())

    def array(self, array: NDArray[Any]) -> Any:
        return array.copy()

    def numpy(self, array: Any) -> NDArray[Any]:
        result: NDArray[Any] = array
        return result


class CudaBench(Bench):
    """The machine's first GPU."""

    def __init__(self) -> None:
        super().__init__(KernelDevice(0))

    def array(self, array: NDArray[Any]) -> Any:
        import cupy

        return cupy.asarray(array)

    def numpy(self, array: Any) -> NDArray[Any]:
        result: NDArray[Any] = array.get()
        return result


def _padded(plane: NDArray[Any], pitch: int) -> NDArray[Any]:
    rows, columns = plane.shape
    wide = -(-columns * plane.itemsize // pitch) * pitch // plane.itemsize
    stored = np.random.default_rng(0).integers(0, 255, (rows, wide)).astype(plane.dtype)
    stored[:, :columns] = plane
    return stored
