"""Registers: what is known of a list of files, as long as they are as they were."""

from __future__ import annotations

import logging
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from seqpipe.video.index import shared as module
from seqpipe.video.index.shared import Register
from seqpipe.video.packet_index import Facts

FACTS = Facts(48, 128, 96, 90, True, -82592, 3600, 7, 3, 1, 90000)


@pytest.fixture(autouse=True)
def short_lists_too(monkeypatch):
    monkeypatch.setattr(module, "_FEWEST_FILES", 1)


@pytest.fixture
def paths(tmp_path):
    (tmp_path / "videos").mkdir()
    for number in range(5):
        (tmp_path / f"videos/{number} ü\udce9.mp4").write_bytes(b"x" * (number + 1))
    return [str(path) for path in sorted((tmp_path / "videos").iterdir())]


def known(paths):
    return {path: FACTS._replace(frames=number) for number, path in enumerate(paths)}


def stored(folder):
    (path,) = (folder / "registers").iterdir()
    return path


def test_what_comes_back_is_what_was_kept(paths, tmp_path):
    assert Register(tmp_path, paths).load() == {}
    Register(tmp_path, paths).save(known(paths))
    found = Register(tmp_path, paths[::-1] + paths[:2]).load()
    assert found == known(paths), "whatever the order, and however often one is listed"
    assert all(isinstance(facts.flipped, bool) for facts in found.values())
    assert Register(tmp_path, paths[:4]).load() == {}, "another list"
    assert Register(tmp_path / "other", paths).load() == {}


def test_what_was_not_found_is_not_known(paths, tmp_path):
    some = {path: facts for path, facts in known(paths).items() if facts.frames % 2}
    Register(tmp_path, paths).save(some)
    assert Register(tmp_path, paths).load() == some


def test_nothing_can_be_kept(paths, tmp_path, caplog):
    Register(tmp_path, paths).save({})
    assert Register(tmp_path, paths).load() == {}
    assert not caplog.records


def change_size(path):
    time = path.stat().st_mtime_ns
    path.write_bytes(path.read_bytes() + b"y")
    os.utime(path, ns=(time, time))


def change_time(path):
    time = path.stat().st_mtime_ns
    os.utime(path, ns=(time, time + 1))


def replace(path):
    other = path.with_suffix(".new")
    other.write_bytes(b"y" * path.stat().st_size)
    other.replace(path)


def remove(path):
    path.unlink()


def put_a_folder_there(path):
    time = path.stat().st_mtime_ns
    path.unlink()
    path.mkdir()
    os.utime(path, ns=(time, time))


def move_to_another_age(path):
    os.utime(path, ns=(0, 1 << 63))  # more than the register holds


CHANGES = [change_size, change_time, replace, remove, put_a_folder_there, move_to_another_age]


@pytest.mark.parametrize("change", CHANGES)
def test_what_has_changed_is_not_known_any_more(paths, tmp_path, change):
    Register(tmp_path, paths).save(known(paths))
    change(Path(paths[2]))
    register = Register(tmp_path, paths)
    rest = {path: facts for path, facts in known(paths).items() if path != paths[2]}
    assert register.load() == rest
    register.save(known(paths))
    usable = change in CHANGES[:3]
    assert (register.stamp(paths[2]) is not None) == usable
    assert Register(tmp_path, paths).load() == (known(paths) if usable else rest)


def test_a_file_that_changes_while_it_is_looked_at_is_looked_at_again(paths, tmp_path):
    register = Register(tmp_path, paths)
    change_time(Path(paths[0]))
    register.save(known(paths))
    assert set(Register(tmp_path, paths).load()) == set(paths[1:])


def test_a_stamp_is_that_of_the_index(paths, tmp_path):
    from seqpipe.video.source.source import open_source

    register = Register(tmp_path, paths)
    assert [register.stamp(path) for path in paths] == [open_source(path).stamp() for path in paths]
    assert register.stamp(str(tmp_path / "gone")) is None


@pytest.mark.parametrize("part", ["magic", "digest", "crc", "body", "short", "long", "empty", "another"])
def test_a_damaged_register_is_passed_over_and_said_so(paths, tmp_path, part, caplog):
    Register(tmp_path, paths).save(known(paths))
    path = stored(tmp_path)
    data = bytearray(path.read_bytes())
    if part == "another":
        Register(tmp_path / "other", paths[:4]).save(known(paths))
        data = stored(tmp_path / "other").read_bytes()
    elif part in ("short", "long", "empty"):
        data = {"short": data[:-1], "long": data + b"\0", "empty": b""}[part]
    else:
        data[{"magic": 0, "digest": 9, "crc": 29, "body": len(data) - 20}[part]] ^= 0x10
    path.write_bytes(data)
    with caplog.at_level(logging.WARNING):
        assert Register(tmp_path, paths).load() == {}
    assert "is damaged: indexes are opened instead" in caplog.text
    Register(tmp_path, paths).save(known(paths))
    assert Register(tmp_path, paths).load() == known(paths)


def test_every_flipped_bit_is_noticed(paths, tmp_path):
    Register(tmp_path, paths).save(known(paths))
    path = stored(tmp_path)
    data = path.read_bytes()
    for place in range(len(data)):
        broken = bytearray(data)
        broken[place] ^= 1 << place % 8
        path.write_bytes(broken)
        assert Register(tmp_path, paths).load() == {}, place


def test_a_cache_that_cannot_be_used_costs_nothing_but_time(paths, tmp_path, caplog):
    (tmp_path / "cache").write_text("in the way")
    with caplog.at_level(logging.INFO):
        Register(tmp_path / "cache", paths).save(known(paths))
    assert "cannot be written" in caplog.text
    assert Register(tmp_path / "cache", paths).load() == {}
    Register(tmp_path, paths).save(known(paths))
    path = stored(tmp_path)
    path.unlink()
    path.mkdir()
    assert Register(tmp_path, paths).load() == {}
    assert "cannot be read" in caplog.text


def test_another_version_of_indexes_has_registers_of_its_own(paths, tmp_path, monkeypatch):
    Register(tmp_path, paths).save(known(paths))
    monkeypatch.setattr(module, "INDEX_FORMAT", 10**6)
    assert Register(tmp_path, paths).load() == {}


def test_few_files_have_none(paths, tmp_path, monkeypatch):
    monkeypatch.setattr(module, "_FEWEST_FILES", 6)
    Register(tmp_path, paths).save(known(paths))
    assert not (tmp_path / "registers").exists()


def test_those_that_were_used_last_are_kept(paths, tmp_path, monkeypatch):
    monkeypatch.setattr(module, "_MOST_REGISTERS", 3)
    lists = [paths[:1], paths[:2], paths[:3], paths[:4]]
    for age, listed in enumerate(lists[:3]):
        Register(tmp_path, listed).save(known(paths))
        newest = max((tmp_path / "registers").iterdir(), key=lambda path: path.stat().st_mtime_ns)
        os.utime(newest, ns=(0, 1_000_000 + age))
    assert Register(tmp_path, lists[0]).load()  # now it is the youngest of the three
    Register(tmp_path, lists[3]).save(known(paths))
    assert [bool(Register(tmp_path, listed).load()) for listed in lists] == [True, False, True, True]
    monkeypatch.setattr(module, "_MOST_REGISTER_BYTES", 1)
    Register(tmp_path, paths).save(known(paths))
    assert len(list((tmp_path / "registers").iterdir())) == 1
    assert Register(tmp_path, paths).load() == known(paths)


WRITER = """
import sys
from pathlib import Path
from seqpipe.video.index import shared as register
from seqpipe.video.packet_index import Facts
register._FEWEST_FILES = 1
folder, frames, *paths = sys.argv[1:]
for _ in range(200):
    register.Register(Path(folder), paths).save({path: Facts(int(frames), 128, 96, 0, False) for path in paths})
"""


@pytest.mark.deep
def test_processes_do_not_disturb_each_other(tmp_path):
    paths = []
    for number in range(20):
        path = tmp_path / f"{number}.mp4"
        path.write_bytes(b"x")
        paths.append(str(path))
    cache = tmp_path / "cache"
    Register(cache, paths).save({path: Facts(1, 128, 96, 0, False) for path in paths})
    command = [sys.executable, "-c", WRITER, str(cache)]
    writers = [subprocess.Popen([*command, str(frames), *paths]) for frames in (1, 2)]
    looks = set()
    while any(writer.poll() is None for writer in writers):
        found = Register(cache, paths).load()
        assert len(found) == len(paths), "a register is whole at any time"
        looks.add(tuple(sorted({facts.frames for facts in found.values()})))
    assert [writer.returncode for writer in writers] == [0, 0]
    assert looks <= {(1,), (2,)}
    assert len(list((cache / "registers").iterdir())) == 1, "nothing is left behind"
    shutil.rmtree(cache)
    assert Register(cache, paths).load() == {}
