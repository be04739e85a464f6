"""C helpers, compiled when the wheel is built, else by the system's compiler on first use and cached on disk.

Every C function has an equivalent in Python, slower and with equal results, for machines that have neither.

A library runs with the rights of the process that loads it. One of the wheel is trusted as the package's code is. A
cached one is loaded only if this user or root owns it and nobody else can write to its folder. Each ends with the
checksum of its bytes, which shows that it is complete, and its name holds that of its source.
"""

from __future__ import annotations

import ctypes
import hashlib
import logging
import os
import platform
import re
import shutil
import tempfile
from collections.abc import Callable, Mapping
from functools import cache
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Final

from .whole_file import write_durably

__all__ = [
    "COMPILER",
    "SHIPPED",
    "buffer_of",
    "compile_all",
    "compile_library",
    "compiler",
    "library_sources",
    "load_functions",
    "load_native",
    "native_directory",
    "source_text",
]

COMPILER = "SEQPIPE_CC"
"""The environment variable that names the compiler; with "" nothing is compiled."""

SHIPPED = Path(__file__).with_name("compiled")
"""Where the libraries of a wheel lie; a checkout and a wheel built without a compiler have none."""

# no fused multiply-add: results must equal those of Python
_FLAGS = ("-O2", "-ffp-contract=off", "-shared", "-fPIC")
_LIBRARIES = ("-lm",)
_TIMEOUT_S = 300  # seconds of a loaded machine, where a source of four seconds takes minutes

buffer_of: Callable[[Any], Any] = (ctypes.c_char * 1).from_buffer
"""Return a writable array's memory as an argument for a C function; faster than ``array.ctypes.data``."""

_CHECKSUM_MARK = b"seqpipe sha256 "
_WRITABLE_BY_OTHERS = 0o022

_log = logging.getLogger(__name__)


def compiler() -> str | None:
    """Return the C compiler's path: ``SEQPIPE_CC``, else ``cc``, ``gcc`` or ``clang``; None if none is installed."""
    chosen = os.environ.get(COMPILER)
    names = ("cc", "gcc", "clang") if chosen is None else (chosen,)
    return next((path for name in names if name and (path := shutil.which(name))), None)


def native_directory() -> Path:
    """Return the folder of compiled libraries: in ``SEQPIPE_CACHE_DIR``, else in the platform's cache directory."""
    if environment := os.environ.get("SEQPIPE_CACHE_DIR"):
        return Path(environment) / "native"
    import platformdirs

    return Path(platformdirs.user_cache_dir("seqpipe")) / "native"


@cache
def load_native(package: str, name: str) -> ctypes.CDLL | None:
    """Load a C source's library, from the wheel or compiled; return None, and log why, if that fails."""
    try:
        shipped = SHIPPED / _library_name(name, source_text(package, name))
        if _is_complete(shipped):
            return ctypes.CDLL(str(shipped))
        directory = native_directory()
        if _is_private(directory):
            return ctypes.CDLL(str(compile_library(package, name, directory)))
        _log.info("%s is writable by other users: compiling %s anew in each process", directory, name)
        with tempfile.TemporaryDirectory(prefix="seqpipe-") as private:
            return ctypes.CDLL(str(compile_library(package, name, Path(private))))
    except OSError as error:
        _log.info("%s cannot be compiled, its Python equivalent is used instead: %s", name, error)
        return None


def load_functions(
    package: str, name: str, functions: Mapping[str, tuple[Any, ...]], *, quick: bool = False
) -> Any:
    """Load functions without a return value from a C source; None if it cannot be compiled, as :func:`load_native`."""
    library = load_native(package, name)
    if library is None:
        return None
    library = ctypes.PyDLL(library._name, handle=library._handle) if quick else library
    loaded = SimpleNamespace()
    for name_in_c, arguments in functions.items():
        # library[...] returns a new object each time; library.name is shared, and another thread could see it untyped
        function = library[f"seqpipe_{name_in_c}"]
        function.restype, function.argtypes = None, arguments
        setattr(loaded, function.__name__, function)
    return loaded


def compile_library(package: str, name: str, directory: Path) -> Path:
    """Return the path of a C source's library, compiled unless the directory holds an intact one."""
    source = source_text(package, name)
    library = directory / _library_name(name, source)
    if not _is_trusted(library):
        _compile(source, library)
    return library


def compile_all(root: Path, directory: Path) -> list[Path]:
    """Compile every C source below the folder ``root`` that no other includes; return the libraries' paths."""
    libraries = []
    for path in library_sources(root):
        source = _expanded(path.parent, path.name)
        libraries.append(directory / _library_name(path.name, source))
        _compile(source, libraries[-1])
    return libraries


def library_sources(root: Path) -> list[Path]:
    """Return the C sources below a folder that become libraries: those that no other includes."""
    sources = sorted(root.rglob("*.c"))
    included = {
        path.with_name(name) for path in sources for name in _INCLUDE.findall(path.read_text("utf-8"))
    }
    return [path for path in sources if path not in included]


def _library_name(name: str, source: str) -> str:
    digest = hashlib.sha256(source.encode() + repr(_FLAGS).encode()).hexdigest()[:16]
    return f"{Path(name).stem}-{digest}-{platform.machine()}.so"


def _is_private(directory: Path) -> bool:
    """Create a directory if needed; return whether only this user and root can add files to it."""
    directory.mkdir(parents=True, exist_ok=True, mode=0o700)
    status = directory.stat()
    if status.st_uid == os.getuid() and status.st_mode & _WRITABLE_BY_OTHERS:
        directory.chmod(status.st_mode & ~_WRITABLE_BY_OTHERS & 0o7777)  # created under an open umask
        status = directory.stat()
    return _is_safe(status)


def _is_safe(status: os.stat_result) -> bool:
    """Return whether this user or root owns a file or folder, and nobody else can write to it."""
    return status.st_uid in (os.getuid(), 0) and not status.st_mode & _WRITABLE_BY_OTHERS


def _is_trusted(library: Path) -> bool:
    """Return whether a library exists, was written by this user or root, and is complete."""
    try:
        descriptor = os.open(
            library, os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_CLOEXEC", 0)
        )
    except OSError:
        return False
    with os.fdopen(descriptor, "rb") as file:
        return _is_safe(os.fstat(descriptor)) and _ends_with_checksum(file.read())


def _is_complete(library: Path) -> bool:
    """Return whether a library exists and is complete."""
    return library.is_file() and _ends_with_checksum(library.read_bytes())


def _ends_with_checksum(data: bytes) -> bool:
    return _with_checksum(data[:-_CHECKSUM_BYTES]) == data


def _with_checksum(code: bytes) -> bytes:
    """Append a library's checksum; the loader ignores bytes after the last section."""
    return code + _CHECKSUM_MARK + hashlib.sha256(code).digest()


_CHECKSUM_BYTES = len(_with_checksum(b""))


def _compile(source: str, library: Path) -> None:
    path = compiler()
    if path is None:
        raise FileNotFoundError(f"no C compiler; install gcc, or name one in {COMPILER}")
    import subprocess  # imported late: most libraries are compiled already

    library.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    with tempfile.TemporaryDirectory(prefix="seqpipe-") as private:
        built = Path(private, library.name)
        command = [path, *_FLAGS, "-o", str(built), "-x", "c", "-", *_LIBRARIES]
        try:
            subprocess.run(
                command, input=source.encode(), check=True, capture_output=True, timeout=_TIMEOUT_S
            )
        except subprocess.SubprocessError as error:
            said = (getattr(error, "stderr", None) or b"").decode(errors="replace")
            raise OSError(f"{path} fails: {said or error}") from error
        write_durably(library, _with_checksum(built.read_bytes()), 0o644)


_INCLUDE: Final = re.compile(r'^#include "(\w+\.(?:cuh|c))"$', re.MULTILINE)


def source_text(package: str, name: str, folder: str = "") -> str:
    """Return a source with its ``#include "…"`` lines replaced by those files, since compilers get no include paths."""
    # by the package's path: importlib.resources is slow to import
    return _expanded(Path(import_module(package).__path__[0], folder), name)


def _expanded(folder: Path, name: str) -> str:
    text = folder.joinpath(name).read_text(encoding="utf-8")
    return _INCLUDE.sub(lambda match: _expanded(folder, match[1]), text)
