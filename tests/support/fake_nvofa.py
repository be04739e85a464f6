"""The optical-flow engine for machines without one: a library in C, and a CuPy whose memory is NumPy's."""

from __future__ import annotations

import contextlib
import ctypes
import subprocess
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from seqpipe.core import native
from seqpipe.flow.nvofa import library

__all__ = ["CONTEXT", "declarations", "fake_cupy", "fake_library"]

CONTEXT = 0x1234
_C_TYPES = {
    ctypes.c_uint32: "uint32_t",
    ctypes.c_int32: "int32_t",
    ctypes.c_uint64: "uint64_t",
    ctypes.c_void_p: "void *",
}


def declarations() -> str:
    """The structures of :mod:`seqpipe.flow.nvofa.library` in C."""
    return "\n".join(
        _declaration(structure) for structure in library.STRUCTURES if structure is not library.StrideInfo
    ) + ("\n" + _declaration(library.StrideInfo))


def _declaration(structure: Any) -> str:
    fields = "".join(f"    {_field(name, kind)};\n" for name, kind in structure._fields_)
    return f"typedef struct {{\n{fields}}} {structure.__name__};"


def _field(name: str, kind: Any) -> str:
    if hasattr(kind, "_length_"):
        return f"{_field(name, kind._type_)}[{kind._length_}]"
    return f"{_C_TYPES.get(kind, kind.__name__)} {name}"


def fake_library(folder: Path) -> ctypes.CDLL:
    """The library, compiled; skips where there is no C compiler."""
    compiler = native.compiler()
    if compiler is None:
        pytest.skip("there is no C compiler")
    source = Path(__file__).with_suffix(".c").read_text(encoding="utf-8")
    made, text = folder / "libfake.so", source.replace("DECLARATIONS\n", f"{declarations()}\n", 1)
    text = text.replace("DECLARATIONS stands", "What follows stands")
    command = [compiler, "-shared", "-fPIC", "-O1", "-w", "-o", str(made), "-x", "c", "-"]
    subprocess.run(command, input=text.encode(), check=True, capture_output=True)
    return ctypes.CDLL(str(made))


class _Stream(contextlib.nullcontext):  # type: ignore[type-arg]
    def __init__(self, **_: Any) -> None:
        super().__init__()
        self.ptr = 0x77

    def record(self) -> Any:
        return SimpleNamespace(synchronize=lambda: None)

    def wait_event(self, event: Any) -> None:
        assert event is not None

    def synchronize(self) -> None:
        """Nothing is in flight."""


def _array(shape: Any, dtype: Any, pointer: Any, strides: Any) -> Any:
    memory = (ctypes.c_uint8 * pointer.size).from_address(pointer.address)
    return np.ndarray(shape, dtype, memory, strides=strides)


def _luma(*channels: Any) -> None:
    *colors, out = channels
    weighted = sum(c.astype(np.uint32) * w for c, w in zip(colors, (9798, 19235, 3735), strict=True))
    out[...] = (weighted + (1 << 14)) >> 15


def fake_cupy() -> Any:
    """What :mod:`seqpipe.flow.nvofa` takes of CuPy."""
    stream = _Stream()
    cuda = SimpleNamespace(
        Device=lambda _number: contextlib.nullcontext(),
        Stream=_Stream,
        MemoryPointer=lambda memory, _offset: memory,
        UnownedMemory=lambda address, size, _owner: SimpleNamespace(address=address, size=size),
        driver=SimpleNamespace(ctxGetCurrent=lambda: CONTEXT),
        get_current_stream=lambda: stream,
        runtime=SimpleNamespace(free=lambda _address: None),
    )
    same = {
        name: getattr(np, name)
        for name in ("asarray", "clip", "dtype", "empty", "multiply", "nan_to_num", "rint")
    }
    return SimpleNamespace(cuda=cuda, ndarray=_array, ElementwiseKernel=lambda *_: _luma, **same)
