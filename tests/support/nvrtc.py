"""CUDA sources compiled for any architecture, by NVRTC from its wheel; neither a GPU nor a driver is needed."""

from __future__ import annotations

import ctypes
import functools
import re
from collections.abc import Sequence as Seq
from importlib import metadata
from pathlib import Path
from typing import TypeVar

from seqpipe.core.kernel import CudaSource, Defines, compile_options

from .kept import kept

__all__ = ["ARCHITECTURES", "assert_compiles_well", "compiled", "missing_nvrtc", "spread"]

ARCHITECTURES = ("sm_75", "sm_80", "sm_86", "sm_89", "sm_90", "sm_100", "sm_120")

_Case = TypeVar("_Case")

_DISTRIBUTION = "nvidia-cuda-nvrtc"
_BESIDE_REGISTERS = re.compile(r"\b[1-9]\d* bytes (stack frame|spill)")


def missing_nvrtc() -> str:
    """Why there is no NVRTC, "" if there is."""
    return "" if _library_path() else f"no {_DISTRIBUTION} is installed"


def compiled(text: str, name: str, architecture: str, options: Seq[str]) -> tuple[bytes, str]:
    """The machine code of a source, and what the assembler says of it.

    Args:
        text: the source.
        name: for messages.
        architecture: such as ``sm_90``.
        options: further options.

    Raises:
        AssertionError: it does not compile; the message is NVRTC's.
    """
    # CuPy adds the last one to whatever it is asked for
    flags = (f"--gpu-architecture={architecture}", "--ptxas-options=-v", *options, "-ftz=true")
    version = metadata.version(_DISTRIBUTION)

    def make(part: Path) -> None:
        part.write_bytes(b"\0".join(_compile(text, name, flags)))

    log, _, code = kept("cubins", (version, text, name, flags), ".cubin", make).read_bytes().partition(b"\0")
    return code, log.decode()


def _compile(text: str, name: str, flags: Seq[str]) -> tuple[bytes, bytes]:
    """What the assembler says of a source, and its machine code."""
    library = _library()
    program = ctypes.c_void_p()
    _check(library.nvrtcCreateProgram(ctypes.byref(program), text.encode(), name.encode(), 0, None, None))
    try:
        options = (ctypes.c_char_p * len(flags))(*(flag.encode() for flag in flags))
        status = library.nvrtcCompileProgram(program, len(flags), options)
        log = _text(library.nvrtcGetProgramLogSize, library.nvrtcGetProgramLog, program).rstrip(b"\0")
        assert status == 0, f"{name} with {' '.join(flags)}:\n{log.decode()}"
        return log, _text(library.nvrtcGetCUBINSize, library.nvrtcGetCUBIN, program)
    finally:
        library.nvrtcDestroyProgram(ctypes.byref(program))


def assert_compiles_well(source: CudaSource, architecture: str, defines: Defines) -> None:
    """The source compiles without a warning, and what its threads know all stands in registers."""
    code, log = compiled(source.text, source.name, architecture, compile_options(defines))
    assert code.startswith(b"\x7fELF")
    assert "0 bytes spill stores, 0 bytes spill loads" in log
    assert not _BESIDE_REGISTERS.search(log), log
    assert "warning" not in log


def spread(cases: Seq[_Case]) -> list[tuple[str, _Case]]:
    """Pairs in which each architecture occurs, and each case: all of either with all of the other take minutes."""
    pairs = range(max(len(ARCHITECTURES), len(cases)))
    return [(ARCHITECTURES[i % len(ARCHITECTURES)], cases[i % len(cases)]) for i in pairs]


def _text(
    size_of: ctypes._NamedFuncPointer, get: ctypes._NamedFuncPointer, program: ctypes.c_void_p
) -> bytes:
    size = ctypes.c_size_t()
    _check(size_of(program, ctypes.byref(size)))
    buffer = ctypes.create_string_buffer(max(1, size.value))
    _check(get(program, buffer))
    return buffer.raw[: size.value]


def _check(status: int) -> None:
    assert status == 0, f"NVRTC gives error {status}"


@functools.cache
def _library() -> ctypes.CDLL:
    return ctypes.CDLL(_library_path())


@functools.cache
def _library_path() -> str:
    try:
        files = metadata.files(_DISTRIBUTION) or []
    except metadata.PackageNotFoundError:
        return ""
    libraries = [file for file in files if file.name.startswith("libnvrtc.so.")]
    return str(libraries[0].locate()) if libraries else ""
