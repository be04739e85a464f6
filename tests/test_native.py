"""C sources: compiled once, kept, and done without where there is no compiler."""

from __future__ import annotations

import ctypes
import logging
import os
import shutil
import subprocess
from importlib import resources
from pathlib import Path

import pytest

from seqpipe.core import native

SOURCE = ("seqpipe.video.nvdec", "feeder.c")
SOURCES = (
    SOURCE,
    ("seqpipe.core", "philox.c"),
    ("seqpipe.video.bitstream", "h264.c"),
    ("seqpipe.video.tables", "blocks.c"),
    ("seqpipe.ops.compression", "jpeg.c"),
    ("seqpipe.ops.noise", "noise.c"),
    ("seqpipe.video.convert", "colors.c"),
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


@needs_compiler
@pytest.mark.parametrize("damage", [None, "cut", "of another source"])
def test_the_library_of_a_wheel_is_loaded_if_it_is_whole_and_of_this_source(
    damage: str | None, load, tmp_path, monkeypatch
) -> None:
    """Whoever owns it: the wheel's Python is loaded from there as well."""
    folder = tmp_path / "wheel"
    monkeypatch.setattr(native, "SHIPPED", folder)
    shipped = native.compile_library(*SOURCE, folder)
    if damage == "cut":
        shipped.write_bytes(shipped.read_bytes()[:-1])
    elif damage:
        shipped.rename(shipped.with_name(f"feeder-0123456789abcdef-{os.uname().machine}.so"))
    shipped.parent.chmod(0o777)
    monkeypatch.setenv(native.COMPILER, "")
    library = load(*SOURCE)
    assert library is None if damage else library._name == str(shipped)
    assert not list(tmp_path.glob("native/*"))


@needs_compiler
def test_all_sources_that_become_libraries_are_compiled_for_a_wheel(tmp_path) -> None:
    """Those that others include are part of these; a program of the CI loads each from the wheel."""
    root = Path(native.__file__).parents[1]
    assert {path.name for path in native.library_sources(root)} >= {"philox.c", "gather_f32.c", "fused_run.c"}
    assert not {path.name for path in native.library_sources(root)} & {
        "gather.c",
        "gather_axes.c",
        "feeder.c",
    }
    (tmp_path / "one.c").write_text('#include "two.c"\n')
    (tmp_path / "two.c").write_text("int seqpipe_two(void) { return 2; }\n")
    (library,) = native.compile_all(tmp_path, tmp_path / "made")
    assert ctypes.CDLL(str(library)).seqpipe_two() == 2


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
    assert "feeder.c cannot be compiled, its Python equivalent is used instead: " in caplog.text
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
    whole = native.compile_library(*SOURCE, tmp_path / "elsewhere")
    kept = tmp_path / "native" / whole.name
    kept.parent.mkdir()
    kept.write_bytes(native._with_checksum(b"no library"))
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


@needs_compiler
@pytest.mark.parametrize("damage", ["cut", "flipped", "empty", "no checksum"])
def test_a_damaged_library_is_compiled_anew(damage, load, tmp_path) -> None:
    """One that a power cut had left short killed the process by SIGBUS."""
    kept = native.compile_library(*SOURCE, tmp_path / "native")
    whole = kept.read_bytes()
    broken = {
        "cut": whole[: len(whole) // 2],
        "flipped": whole[:3000] + bytes([whole[3000] ^ 1]) + whole[3001:],
        "empty": b"",
        "no checksum": whole[: -native._CHECKSUM_BYTES],
    }
    kept.write_bytes(broken[damage])
    assert isinstance(load(*SOURCE), ctypes.CDLL)
    assert kept.read_bytes() == whole


@needs_compiler
def test_a_library_that_others_may_have_written_is_not_loaded(load, tmp_path, monkeypatch) -> None:
    kept = native.compile_library(*SOURCE, tmp_path / "native")
    kept.chmod(0o666)
    assert not native._is_trusted(kept)
    assert native.compile_library(*SOURCE, tmp_path / "native") == kept
    assert kept.stat().st_mode & 0o777 == 0o644 & ~_umask()
    monkeypatch.setattr(native.os, "getuid", lambda: 12345)
    assert native._is_trusted(kept) == (kept.stat().st_uid == 0)


@needs_compiler
def test_a_link_is_not_followed(tmp_path) -> None:
    elsewhere = native.compile_library(*SOURCE, tmp_path / "elsewhere")
    folder = tmp_path / "native"
    folder.mkdir()
    (folder / elsewhere.name).symlink_to(elsewhere)
    made = native.compile_library(*SOURCE, folder)
    assert not made.is_symlink()


@needs_compiler
def test_in_a_directory_of_others_nothing_is_loaded_or_kept(load, tmp_path, monkeypatch, caplog) -> None:
    """It is compiled for this process alone."""
    folder = tmp_path / "native"
    planted = native.compile_library(*SOURCE, folder)
    planted.write_bytes(native._with_checksum(b"no library"))
    real = Path.stat

    def stat(path: Path, **options: object) -> object:
        found = real(path, **options)
        if path != folder:
            return found
        return type("Stat", (), {"st_uid": found.st_uid + 1 or 1, "st_mode": found.st_mode})

    monkeypatch.setattr(Path, "stat", stat)
    with caplog.at_level(logging.INFO, logger="seqpipe"):
        assert isinstance(load(*SOURCE), ctypes.CDLL)
    assert "is writable by other users" in caplog.text
    assert planted.read_bytes() == native._with_checksum(b"no library")


@needs_compiler
def test_a_directory_made_under_an_open_umask_is_closed_to_others(load, tmp_path) -> None:
    folder = tmp_path / "native"
    folder.mkdir()
    folder.chmod(0o777)
    assert isinstance(load(*SOURCE), ctypes.CDLL)
    assert folder.stat().st_mode & 0o777 == 0o755


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
