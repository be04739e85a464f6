"""Kernels run on the CPU: their sources compiled by g++, so that their arithmetic can be tested without a GPU."""

from __future__ import annotations

import ctypes
import hashlib
import os
import shutil
import subprocess
import threading
from pathlib import Path
from typing import Any

import pytest
from numpy.typing import NDArray

from seqpipe.kernel import Defines, Source, compile_options
from seqpipe.whole_file import replacing

__all__ = ["EmulatedDevice", "kernel_folder", "missing_compiler"]

_SHIM = Path(__file__).with_name("cuda_on_cpu.hpp")
# shared memory of a function that is inline would be one for the whole process, whatever its size in other kernels
_FLAGS = ["-std=c++17", "-O0", "-mfma", "-ffp-contract=off", "-fno-gnu-unique", "-w", "-shared", "-fPIC"]
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


def kernel_folder(factory: pytest.TempPathFactory) -> Path:
    """Where the kernels of a test run are kept, for all of its processes; skips where none can be compiled."""
    if missing := missing_compiler():
        pytest.skip(missing)
    own = factory.getbasetemp()
    folder = (own.parent if "PYTEST_XDIST_WORKER" in os.environ else own) / "kernels"
    folder.mkdir(exist_ok=True)
    return folder


class EmulatedDevice:
    """Takes a GPU's place; its memory is NumPy's. Any thread may launch: kernels run one by one.

    Args:
        folder: where libraries go; devices of several processes may share one.

    Attributes:
        launches: how many kernels it has run.
        argument_bytes: how long an argument may be, as on a GPU.
    """

    argument_bytes = 32764
    # of all devices of a process: a kernel has the numbers and stacks of its threads in variables of its library
    _turn = threading.Lock()

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._libraries: dict[Any, ctypes.CDLL] = {}
        self.launches = 0

    def launch(
        self,
        source: Source,
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

    def _library(self, source: Source, function: str, defines: Defines) -> ctypes.CDLL:
        options = compile_options(defines)[1:]
        key = hashlib.sha256(repr((source, function, options)).encode()).hexdigest()[:16]
        if key not in self._libraries:
            library = self._folder / f"{key}.so"
            if not library.exists():
                self._build(library, source, function, options)
            self._libraries[key] = ctypes.CDLL(str(library))
        return self._libraries[key]

    def _build(self, library: Path, source: Source, function: str, options: tuple[str, ...]) -> None:
        program = f'#include "{_SHIM}"\n{source.text}\n{_ENTRY.replace("FUNCTION", function)}'
        with replacing(library) as part:
            command = ["g++", *_FLAGS, *options, "-o", str(part), "-x", "c++", "-"]
            subprocess.run(command, input=program, text=True, check=True)
