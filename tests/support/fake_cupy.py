"""CuPy for machines without a GPU: it hands out NumPy's memory, but no more than a GPU of a given size has."""

from __future__ import annotations

import contextlib
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np

__all__ = ["FakeCupy"]


class FakeCupy(ModuleType):
    """Stands where the module ``cupy`` does; what was allocated is never given back by itself.

    Attributes:
        total: bytes of the GPU.
        used: bytes of it that someone holds.
        idle: bytes of these that CuPy's pool holds for later.
        events: what was asked of it, in order.
    """

    def __init__(self, total: int) -> None:
        super().__init__("cupy")
        self.total, self.used, self.idle = total, 0, 0
        self.events: list[str] = []
        self.starts = True
        runtime = SimpleNamespace(
            CUDARuntimeError=FakeRuntimeError,
            driverGetVersion=lambda: 13000,
            runtimeGetVersion=lambda: 13000,
            getDeviceCount=lambda: 1,
            getDevice=lambda: 0,
            memGetInfo=lambda: (self.total - self.used, self.total),
            free=self._free,
        )
        self.cuda = SimpleNamespace(
            runtime=runtime,
            Device=lambda _number: contextlib.nullcontext(),
            Stream=SimpleNamespace(null=contextlib.nullcontext()),
        )

    def empty(self, shape: tuple[int, ...], dtype: Any) -> Any:
        array = np.empty(shape, dtype)
        self.events.append("empty")
        if self.used + array.nbytes > self.total:
            raise FakeOutOfMemoryError
        self.used += array.nbytes
        return array

    def get_default_memory_pool(self) -> Any:
        return SimpleNamespace(free_all_blocks=self._free_all_blocks)

    def _free_all_blocks(self) -> None:
        self.events.append("free_all_blocks")
        self.used, self.idle = self.used - self.idle, 0

    def _free(self, _address: int) -> None:
        if not self.starts:
            raise FakeRuntimeError(2)


class FakeOutOfMemoryError(MemoryError):
    """As CuPy's."""


class FakeRuntimeError(RuntimeError):
    """As CuPy's."""

    def __init__(self, status: int) -> None:
        super().__init__(f"status {status}")
        self.status = status
