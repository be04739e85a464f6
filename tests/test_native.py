"""C sources: compiled once, kept, and done without where there is no compiler."""

from __future__ import annotations

import ctypes
import logging
import shutil
import subprocess
from importlib import resources
from pathlib import Path

import pytest

from seqpipe import native

SOURCE = ("seqpipe.video.nvdec", "feeder.c")
SOURCES = (
    SOURCE,
    ("seqpipe", "philox.c"),
    ("seqpipe.ops.labels", "bbox_windows.c"),
    ("seqpipe.ops.resize", "crop_windows.c"),
    ("seqpipe.ops.compression", "jpeg.c"),
    ("seqpipe.ops.noise", "noise.c"),
)

needs_compiler = pytest.mark.skipif(native.compiler() is None, reason="no C compiler")


@pytest.fixture
def load(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> object:
    """Loads with an empty directory, past what this process has loaded already."""
    monkeypatch.setenv("SEQPIPE_CACHE_DIR", str(tmp_path))
    return native.load_native.__wrapped__


@needs_compiler
@pytest.mark.parametrize("source", SOURCES, ids=lambda source: source[1])
@pytest.mark.parametrize("compiler", ["gcc", "clang"])
def test_the_source_has_nothing_that_a_strict_compiler_minds(
    compiler: str, source: tuple[str, str], tmp_path: Path
) -> None:
    """As C11, on whatever compiler is here."""
    if not shutil.which(compiler):
        pytest.skip(f"no {compiler}")
    text = resources.files(source[0]).joinpath(source[1]).read_bytes()
    flags = ["-std=c11", "-Wall", "-Wextra", "-Wshadow", "-Wconversion", "-Wno-sign-conversion", "-Werror"]
    command = [compiler, *flags, "-O2", "-shared", "-fPIC", "-o", str(tmp_path / "x.so"), "-x", "c", "-"]
    done = subprocess.run(command, input=text, capture_output=True, check=False)
    assert done.returncode == 0, done.stderr.decode()


@needs_compiler
def test_a_source_is_compiled_once(load, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The second process finds what the first has compiled, and needs no compiler."""
    assert isinstance(load(*SOURCE), ctypes.CDLL)
    monkeypatch.setenv(native.COMPILER, "")
    assert isinstance(load(*SOURCE), ctypes.CDLL)
    assert [path.suffix for path in (tmp_path / "native").iterdir()] == [".so"]


@pytest.mark.parametrize(
    ("compiler", "said"), [("", "no C compiler"), ("no-such-compiler", "no C compiler"), ("false", "")]
)
def test_without_a_compiler_that_works_there_is_none(
    load, compiler, said, tmp_path, monkeypatch, caplog
) -> None:
    """The log says why, and nothing is left behind."""
    monkeypatch.setenv(native.COMPILER, compiler)
    with caplog.at_level(logging.INFO, logger="seqpipe"):
        assert load(*SOURCE) is None
    assert "feeder.c is not compiled, its Python form is used instead: " in caplog.text
    assert said in caplog.text
    assert not list(tmp_path.glob("native/*"))


def test_a_directory_that_cannot_be_written_is_no_error(tmp_path, monkeypatch) -> None:
    """There is a file where the directory should be."""
    (tmp_path / "native").write_text("")
    monkeypatch.setenv("SEQPIPE_CACHE_DIR", str(tmp_path))
    assert native.load_native.__wrapped__(*SOURCE) is None


@needs_compiler
def test_what_is_kept_but_cannot_be_loaded_is_no_error(load, tmp_path) -> None:
    """Something else that came to lie in its place."""
    whole = native.compiled(*SOURCE, tmp_path / "elsewhere")
    kept = tmp_path / "native" / whole.name
    kept.parent.mkdir()
    kept.write_bytes(b"no library")
    assert load(*SOURCE) is None


@needs_compiler
def test_what_a_caller_says_of_a_function_holds_for_that_caller_alone() -> None:
    """Threads that load one library at once shared its functions, and one could be called before it had its types."""
    one, other = (
        native.load_functions("seqpipe.ops.noise", "noise.c", {"salt": types})
        for types in ((ctypes.c_int64,), ())
    )
    assert one.seqpipe_salt.argtypes == (ctypes.c_int64,)
    assert other.seqpipe_salt.argtypes == ()
