"""Kernels run on the CPU: their sources compiled by g++, so that their arithmetic can be tested without a GPU."""

from __future__ import annotations

import ctypes
import functools
import shutil
import subprocess
import threading
from pathlib import Path
from typing import Any

import pytest
from numpy.typing import NDArray

from seqpipe.core.kernel import CudaSource, Defines, compile_options

from .kept import kept

__all__ = ["EmulatedDevice", "missing_compiler"]

_SHIM = Path(__file__).with_name("cuda_on_cpu.hpp")
# shared memory of a function that is inline would be one for the whole process, whatever its size in other kernels
_FLAGS = [
    "-std=c++17",
    "-O0",  # -Og would run in two thirds of the time, but compile hundreds of kernels in one and a half times
    "-mfma",
    "-mf16c",
    "-ffp-contract=off",
    "-fno-gnu-unique",
    "-w",
    "-shared",
    "-fPIC",
]
_ENTRY = """
static const void* argument;
template <class A> static void call(void (*kernel)(A)) { kernel(*(const A*)argument); }
static void entered() { call(FUNCTION); }
extern "C" void run(const void* given, const int* grid, int threads) {
    argument = given;
    run_grid(grid, threads, entered);
}
"""


def missing_compiler() -> str:
    """Why kernels cannot be emulated here, "" if they can."""
    return "" if shutil.which("g++") else "no g++ to compile kernels for the CPU with"


@functools.cache
def _compiler() -> tuple[str, str]:
    """What it says of itself, and the text that stands before every kernel; skips where there is none."""
    if missing := missing_compiler():
        pytest.skip(missing)
    version = subprocess.run(["g++", "--version"], capture_output=True, text=True, check=True).stdout
    return version, _SHIM.read_text(encoding="utf-8")


class EmulatedDevice:
    """Takes a GPU's place; its memory is NumPy's. Any thread may launch: kernels run one by one.

    Attributes:
        launches: how many kernels it has run.
        argument_bytes: how long an argument may be, as on a GPU.
    """

    argument_bytes = 32764
    # of all devices of a process: a kernel has the numbers and stacks of its threads in variables of its library
    _turn = threading.Lock()

    def __init__(self) -> None:
        _compiler()
        self._libraries: dict[Any, ctypes.CDLL] = {}
        self.launches = 0

    def launch(
        self,
        source: CudaSource,
        function: str,
        defines: Defines,
        grid: tuple[int, int, int],
        block: int,
        argument: NDArray[Any],
        stream: Any,  # noqa: ARG002  a device has streams
    ) -> None:
        blocks = (ctypes.c_int * 3)(*grid)
        with self._turn:
            self.launches += 1
            library = self._library(source, function, defines)
            library.run(ctypes.c_void_p(argument.ctypes.data), blocks, ctypes.c_int(block))

    def _library(self, source: CudaSource, function: str, defines: Defines) -> ctypes.CDLL:
        key = source, function, tuple(sorted(defines.items()))
        if key not in self._libraries:
            version, shim = _compiler()
            program = f"{shim}\n{source.text}\n{_ENTRY.replace('FUNCTION', function)}"
            command = ["g++", *_FLAGS, *compile_options(defines)[1:], "-x", "c++", "-"]

            def build(part: Path) -> None:
                subprocess.run([*command, "-o", str(part)], input=program, text=True, check=True)

            path = kept("kernels", (version, command, program), ".so", build)
            self._libraries[key] = ctypes.CDLL(str(path))
        return self._libraries[key]
