"""C sources, compiled by the system's compiler when first used, and kept in the cache directory.

What is written in C here is also written in Python, for machines without a compiler: slower, with the same results.

A library runs with the rights of whoever loads it. So one from the cache is loaded only if it is this user's or root's,
in a folder where nobody else may write, and ends with the checksum of its bytes, as it does once it is written whole.
"""

from __future__ import annotations

import ctypes
import hashlib
import logging
import os
import platform
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from .source_text import source_text
from .whole_file import write_durably

__all__ = [
    "COMPILER",
    "buffer_of",
    "compile_library",
    "compiler",
    "load_functions",
    "load_native",
    "native_directory",
]

COMPILER = "SEQPIPE_CC"
"""The environment variable that names the compiler; empty to do without."""

# every product and sum is rounded by itself, as in Python
_FLAGS = ("-O2", "-ffp-contract=off", "-shared", "-fPIC")
_LIBRARIES = ("-lm",)
_LONGEST_S = 60

buffer_of: Callable[[Any], Any] = (ctypes.c_char * 1).from_buffer
"""The memory of a writable array as an argument of a C function, in less time than NumPy's own way takes."""

_MARK = b"seqpipe sha256 "
_OTHERS_WRITE = 0o022

_log = logging.getLogger(__name__)


def compiler() -> str | None:
    """The C compiler's path: ``SEQPIPE_CC``, else ``cc``, ``gcc`` or ``clang``; None if there is none."""
    chosen = os.environ.get(COMPILER)
    names = ("cc", "gcc", "clang") if chosen is None else (chosen,)
    return next((path for name in names if name and (path := shutil.which(name))), None)


def native_directory() -> Path:
    """Where compiled sources are kept: in ``SEQPIPE_CACHE_DIR``, else in the platform's cache directory."""
    if environment := os.environ.get("SEQPIPE_CACHE_DIR"):
        return Path(environment) / "native"
    import platformdirs

    return Path(platformdirs.user_cache_dir("seqpipe")) / "native"


@cache
def load_native(package: str, name: str) -> ctypes.CDLL | None:
    """A C source of the package as a library; None, with a line in the log, where it cannot be compiled or loaded.

    Args:
        package: the package whose folder the source lies in.
        name: its file's name.
    """
    try:
        directory = native_directory()
        if _is_ours(directory):
            return ctypes.CDLL(str(compile_library(package, name, directory)))
        _log.info("%s may be written by others: %s is compiled anew in each process", directory, name)
        with tempfile.TemporaryDirectory(prefix="seqpipe-") as private:
            return ctypes.CDLL(str(compile_library(package, name, Path(private))))
    except (OSError, subprocess.SubprocessError) as error:
        said = getattr(error, "stderr", None) or error
        _log.info("%s is not compiled, its Python form is used instead: %s", name, said)
        return None


def load_functions(
    package: str, name: str, functions: Mapping[str, tuple[Any, ...]], *, quick: bool = False
) -> Any:
    """The functions of a C source of the package, which give nothing back; None as of :func:`load_native`.

    Args:
        package: the package whose folder the source lies in.
        name: its file's name.
        functions: the types of their arguments, by their names without the ``seqpipe_`` that begins them.
        quick: whether they end so soon that other threads of Python need not run meanwhile.
    """
    library = load_native(package, name)
    if library is None:
        return None
    library = ctypes.PyDLL(library._name, handle=library._handle) if quick else library
    found = SimpleNamespace()
    for function, arguments in functions.items():
        # Of this call alone: as an attribute another thread could replace it by one that has no types yet.
        own = library[f"seqpipe_{function}"]
        own.restype, own.argtypes = None, arguments
        setattr(found, own.__name__, own)
    return found


def compile_library(package: str, name: str, directory: Path) -> Path:
    """The library made of a C source; compiled if it is not in the directory yet, or not sound there.

    Raises:
        FileNotFoundError: there is no compiler.
        OSError: the directory cannot be written.
        subprocess.SubprocessError: the compiler fails, or does not end.
    """
    source = source_text(package, name).encode()
    digest = hashlib.sha256(source + repr(_FLAGS).encode()).hexdigest()[:16]
    library = directory / f"{Path(name).stem}-{digest}-{platform.machine()}.so"
    if not _is_sound(library):
        _compile(source, library)
    return library


def _is_ours(directory: Path) -> bool:
    """Whether nobody but this user and root can put a file into a directory; it is made if need be."""
    directory.mkdir(parents=True, exist_ok=True, mode=0o700)
    found = directory.stat()
    if found.st_uid == os.getuid() and found.st_mode & _OTHERS_WRITE:
        directory.chmod(found.st_mode & ~_OTHERS_WRITE & 0o7777)  # made under an open umask
        found = directory.stat()
    return found.st_uid in (os.getuid(), 0) and not found.st_mode & _OTHERS_WRITE


def _is_sound(library: Path) -> bool:
    """Whether a library is there, as it was written, by this user or root."""
    try:
        descriptor = os.open(
            library, os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_CLOEXEC", 0)
        )
    except OSError:
        return False
    with os.fdopen(descriptor, "rb") as file:
        found = os.fstat(descriptor)
        trusted = found.st_uid in (os.getuid(), 0) and not found.st_mode & _OTHERS_WRITE
        return trusted and _sealed((data := file.read())[:-_SEAL_BYTES]) == data


def _sealed(code: bytes) -> bytes:
    """A library with its checksum behind it, where the loader does not look."""
    return code + _MARK + hashlib.sha256(code).digest()


_SEAL_BYTES = len(_sealed(b""))


def _compile(source: bytes, library: Path) -> None:
    path = compiler()
    if path is None:
        raise FileNotFoundError(f"no C compiler; install gcc, or name one in {COMPILER}")
    library.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    with tempfile.TemporaryDirectory(prefix="seqpipe-") as private:
        made = Path(private, library.name)
        command = [path, *_FLAGS, "-o", str(made), "-x", "c", "-", *_LIBRARIES]
        subprocess.run(command, input=source, check=True, capture_output=True, timeout=_LONGEST_S)
        write_durably(library, _sealed(made.read_bytes()), 0o644)
