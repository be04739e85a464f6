"""What tests keep between runs is made once for each content, and what is left to ``deep`` loses no value."""

from __future__ import annotations

import itertools
import os
import subprocess
import sys
from pathlib import Path

import platformdirs
import pytest

from tests.support import ffmpeg
from tests.support import kept as kept_module
from tests.support.deep import combined, deep_but
from tests.support.kept import kept, kept_folder


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(platformdirs, "user_cache_dir", lambda name: str(tmp_path / name))
    for function in ("_folder", "_forget_old"):
        monkeypatch.setattr(kept_module, function, getattr(kept_module, function).__wrapped__)
    return tmp_path / "seqpipe" / "tests" / "kernels"


def test_the_same_content_is_made_once(cache: Path) -> None:
    made: list[Path] = []

    def make(part: Path) -> None:
        made.append(part)
        part.write_text("x")

    content = "g++ 12", ["-O0"], "source"
    first = kept("kernels", content, ".so", make)
    assert kept("kernels", ("g++ 12", ["-O0"], "source"), ".so", make) == first
    assert len(made) == 1
    others = {kept("kernels", other, ".so", make) for other in (("g++ 13", ["-O0"], "source"), "source")}
    assert len({first, *others}) == len(made) == 3
    assert sorted(cache.iterdir()) == sorted({first, *others})


def test_what_fails_leaves_nothing(cache: Path) -> None:
    def fail(part: Path) -> None:
        part.write_text("half")
        raise RuntimeError("no compiler")

    with pytest.raises(RuntimeError, match="no compiler"):
        kept("kernels", "source", ".so", fail)
    assert list(cache.iterdir()) == []


def test_what_no_run_has_asked_for_in_a_month_goes(cache: Path) -> None:
    old, old_folder = kept("kernels", "old", ".so", Path.touch), kept_folder("kernels", "old")
    (old_folder / "made.mp4").touch()
    for path in (old, old_folder):
        os.utime(path, (0, 0))
    new = kept("kernels", "new", ".so", Path.touch)
    assert list(cache.iterdir()) == [new]


def test_a_folder_belongs_to_its_content_and_stays_while_it_is_asked_for(cache: Path) -> None:
    one, other = (kept_folder("kernels", content) for content in ("one", "other"))
    assert sorted(cache.iterdir()) == sorted({one, other})
    (one / "made.mp4").touch()
    os.utime(one, (0, 0))
    assert list(kept_folder("kernels", "one").iterdir()) == [one / "made.mp4"]


def test_ffmpeg_is_asked_once_for_the_same_bytes(
    cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[bytes] = []

    def run(*arguments: str, stdin: bytes = b"") -> subprocess.CompletedProcess[bytes]:
        asked.append(Path(arguments[1]).read_bytes() + stdin)
        return subprocess.CompletedProcess(arguments, int(asked[-1] == b"bad"), b"\n\0" + asked[-1], b"said")

    monkeypatch.setattr(ffmpeg, "_run", run)
    monkeypatch.setattr(ffmpeg, "_exe", lambda: sys.executable)
    one, same, other, bad = (tmp_path / f"{name}.mp4" for name in ("one", "same", "other", "bad"))
    for path, data in ((one, b"x"), (same, b"x"), (other, b"y"), (bad, b"bad")):
        path.write_bytes(data)
    for path in (one, same, other, one):
        assert ffmpeg.said("-i", str(path)) == (b"\n\0" + path.read_bytes(), "said")
    assert asked == [b"x", b"y"]
    assert ffmpeg.said("-i", str(one), stdin=b"z") == (b"\n\0xz", "said")
    for _ in range(2):
        assert ffmpeg.said("-i", str(bad)) == (b"\n\0bad", "said")
    assert asked[2:] == [b"xz", b"bad", b"bad"], "what fails is asked again"


def test_what_ffmpeg_writes_is_copied(cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    written: list[str] = []

    def run_ffmpeg(*arguments: str) -> None:
        written.append(arguments[-2])
        Path(arguments[-1]).write_text(arguments[-2])

    monkeypatch.setattr(ffmpeg, "run_ffmpeg", run_ffmpeg)
    monkeypatch.setattr(ffmpeg, "_exe", lambda: sys.executable)
    path = tmp_path / "out.mp4"
    for content in ("a", "a", "b"):
        ffmpeg.write(path, content)
        assert path.read_text() == content
        path.write_text("changed by the test that asked for it")
    assert written == ["a", "b"]


def test_few_combinations_have_every_value_and_none_is_lost() -> None:
    axes = "abc", (1, 2, 3, 4, 5), (None, True)
    cases = combined(*axes)
    assert {case.values for case in cases} == set(itertools.product(*axes))
    usual = [case.values for case in cases if not case.marks]
    assert len(usual) == 5
    assert [set(column) for column in zip(*usual, strict=True)] == [set(axis) for axis in axes]
    shortened = deep_but([("b", 2)], itertools.product("ab", (1, 2)))
    assert shortened[-1] == ("b", 2)
    assert [case.values for case in shortened[:-1]] == [("a", 1), ("a", 2), ("b", 1)]
