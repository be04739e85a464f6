"""Registers that a team shares: right wherever they are, and never trusted where they are not."""

from __future__ import annotations

import json
import logging
import os
import shutil
import signal
import sqlite3
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

import seqpipe
from seqpipe.cli import main
from seqpipe.errors import OutputError, SourceNotFoundError
from seqpipe.video.index.build import build_index
from seqpipe.video.index.open import open_index
from seqpipe.video.index.shared import REGISTER_NAME, SharedRegister, find_register
from seqpipe.video.packet_index import Facts
from seqpipe.video.source.source import open_source
from tests.support.datasets import clips, images
from tests.support.media import made

ROOT = Path(__file__).resolve().parents[2]
NAMES = ("h264", "vp9", "vfr", "h264_ts")


@pytest.fixture
def folder(tmp_path):
    folder = tmp_path / "set"
    (folder / "a class").mkdir(parents=True)
    for name in NAMES:
        shutil.copy2(made(name), folder / "a class" / made(name).name)
    return folder


def videos(folder):
    return sorted(path for path in folder.rglob("*") if path.is_file() and path.name != REGISTER_NAME)


def run(*arguments, cache):
    found = CliRunner().invoke(main, ["index", *map(str, arguments), "--cache-dir", str(cache)])
    return found.exit_code, found.stderr, [json.loads(line) for line in found.stdout.splitlines()]


def registered(folder, cache):
    register = folder / REGISTER_NAME
    code, said, _ = run(folder, "--register", register, cache=cache)
    assert code == 0, said
    return register


def known(register, paths):
    shared = SharedRegister(str(register))
    sources = [open_source(str(path)) for path in paths]
    return [shared.index(source, source.stamp()) for source in sources]


def assert_same(index, other):
    assert index.info.frame_count == other.info.frame_count
    np.testing.assert_array_equal(index.timestamps, other.timestamps)
    for name in ("pts", "size", "offset", "checksum", "key", "reference", "shown"):
        np.testing.assert_array_equal(getattr(index.packets, name), getattr(other.packets, name))


def no_building(monkeypatch):
    for way in ("index.build.build_index", "index.from_tables.index_of_tables"):
        monkeypatch.setattr(f"seqpipe.video.{way}", lambda *_, **__: pytest.fail("an index was built"))


def test_what_comes_back_is_what_was_put_in(folder, tmp_path):
    register = registered(folder, tmp_path / "cache")
    for path, index in zip(videos(folder), known(register, videos(folder)), strict=True):
        assert_same(index, build_index(open_source(str(path))))
    stamps = [open_source(str(path)).stamp() for path in videos(folder)]
    facts = SharedRegister(str(register)).facts(stamps)
    assert facts == {str(path): Facts.of(build_index(open_source(str(path)))) for path in videos(folder)}


def test_whatever_opens_videos_looks_into_it(folder, tmp_path, monkeypatch):
    register = registered(folder, tmp_path / "cache")
    no_building(monkeypatch)
    options = ["--cache-dir", str(tmp_path / "empty"), "--register", str(register)]
    for path in videos(folder):
        with seqpipe.open(path, register=register, cache_dir=tmp_path / "empty") as video:
            assert len(video) == len(video.index)
        told = CliRunner().invoke(main, ["probe", str(path), "--packets", "--json", *options])
        assert told.exit_code == 0, told.output
        assert len(told.stdout.splitlines()) == len(video.index.packets) + 1
        out = tmp_path / f"out {path.name}"
        done = CliRunner().invoke(main, ["export", str(path), "--every", "20", "--out", str(out), *options])
        assert done.exit_code == 0, done.output
        assert len(list(out.rglob("*.jpg"))) == -(-len(video) // 20)
    with pytest.raises(SourceNotFoundError, match=r"no such register.*seqpipe index --register"):
        seqpipe.open(path, register=tmp_path / "none")


def test_a_folder_may_be_moved_and_copied_without_its_times(folder, tmp_path, monkeypatch):
    registered(folder, tmp_path / "cache")
    moved = tmp_path / "elsewhere" / "moved"
    moved.parent.mkdir()
    folder.rename(moved)
    copied = tmp_path / "copied"
    shutil.copytree(moved, copied, copy_function=shutil.copy)
    for path in videos(copied):
        os.utime(path, ns=(1, 1))
    no_building(monkeypatch)
    for place in (moved, copied):
        for path in videos(place):
            index = open_index(path, cache_dir=tmp_path / "other", register=str(place / REGISTER_NAME))
            assert index.info.source == str(path)
            assert index.packets.whole
    assert not list((tmp_path / "other").rglob("*.idx")), "each user's cache would hold all of it again"


def test_data_sets_find_it_in_their_folder(folder, tmp_path, monkeypatch):
    with clips(folder, length=4, cache_dir=tmp_path / "plain") as plain:
        expected = [image.numpy() for image in images(plain)]
    register = registered(folder, tmp_path / "cache")
    no_building(monkeypatch)
    with clips(folder, length=4, cache_dir=tmp_path / "new") as found:
        for image, pixels in zip(images(found), expected, strict=True):
            assert (image.numpy() == pixels).all()
    named = register.rename(tmp_path / "named.register")
    with pytest.raises(pytest.fail.Exception, match="an index was built"):
        clips(folder, length=4, cache_dir=tmp_path / "newer")
    named.rename(folder / "any name")
    with clips(folder, length=4, register=folder / "any name", cache_dir=tmp_path / "newest") as given:
        assert len(given) == len(expected)


def test_a_file_that_changed_is_not_taken_for_the_one_registered(folder, tmp_path):
    register = registered(folder, tmp_path / "cache")
    path = folder / "a class" / made("h264").name
    data = bytearray(path.read_bytes())
    data[100] ^= 1
    path.write_bytes(data)
    os.utime(path, ns=(1, 1))
    assert known(register, [path]) == [None]
    source = open_source(str(path))
    assert SharedRegister(str(register)).facts([source.stamp()]) == {}


def test_a_second_run_goes_on_where_the_first_one_was(folder, tmp_path):
    register = folder / REGISTER_NAME
    first = videos(folder)[:2]
    assert run(*first, "--register", register, cache=tmp_path / "cache")[0] == 0
    _, _, lines = run(folder, "--register", register, "--json", cache=tmp_path / "other")
    statuses = {line["source"]: line["status"] for line in lines if line["type"] == "index"}
    assert statuses == {str(path): "fresh" if path in first else "built" for path in videos(folder)}


def test_several_processes_add_to_one(folder, tmp_path):
    register = folder / REGISTER_NAME
    command = [sys.executable, "-m", "seqpipe", "index", "--register", str(register)]
    running = [
        subprocess.Popen([*command, str(path), "--cache-dir", str(tmp_path / path.name)], cwd=ROOT)
        for path in videos(folder)[:2]
    ]
    assert [process.wait(60) for process in running] == [0] * len(running)
    assert None not in known(register, videos(folder)[:2])


def test_a_writer_that_is_killed_leaves_it_sound(folder, tmp_path):
    register = folder / REGISTER_NAME
    program = (
        "import sys, time\n"
        "from seqpipe.video.index.shared import SharedRegister\n"
        "from seqpipe.video.index.build import build_index\n"
        "from seqpipe.video.source.source import open_source\n"
        "source = open_source(sys.argv[2])\n"
        "index, register = build_index(source), SharedRegister(sys.argv[1], add=True)\n"
        "while True:\n"
        "    register.add(source, source.stamp(), index)\n"
        "    register._write()\n"
        "    print('written', flush=True)\n"
    )
    path = videos(folder)[0]
    command = [sys.executable, "-c", program, str(register), str(path)]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        time.sleep(0.05)
        process.send_signal(signal.SIGKILL)
    assert known(register, [path])[0] is not None
    assert run(folder, "--register", register, cache=tmp_path / "cache")[0] == 0


def test_a_transaction_that_a_killed_writer_began_is_undone(folder, tmp_path):
    register = registered(folder, tmp_path / "cache")
    copies = tmp_path / "copies"
    with closing(sqlite3.connect(register, isolation_level=None)) as connection:
        connection.execute("PRAGMA cache_size = 1")  # pages go to the file before the transaction ends
        connection.execute("BEGIN")
        connection.execute("UPDATE files SET facts = facts || 'x'")
        connection.execute("UPDATE indexes SET packed = zeroblob(100000)")
        # what is on the disk when the writer is killed here
        shutil.copytree(folder, copies)
        connection.execute("ROLLBACK")
    assert copies.joinpath(REGISTER_NAME + "-journal").stat().st_size > 0
    found = known(copies / REGISTER_NAME, [copies / path.relative_to(folder) for path in videos(folder)])
    assert None not in found


@pytest.mark.parametrize("damage", ["facts", "packed", "text", "empty", "cut"])
def test_what_is_damaged_is_built_anew(folder, tmp_path, damage, caplog):
    register = registered(folder, tmp_path / "cache")
    path = folder / "a class" / made("h264").name
    if damage in ("facts", "packed"):
        with sqlite3.connect(register) as connection:
            if damage == "facts":
                connection.execute("UPDATE files SET facts = replace(facts, '[', '[1')")
            connection.execute("UPDATE indexes SET packed = zeroblob(length(packed))")
        connection.close()
    else:
        data = register.read_bytes()
        register.write_bytes(
            {"text": b"no database" * 1000, "empty": b"", "cut": data[: len(data) // 2]}[damage]
        )
    expected = build_index(open_source(str(path)))
    with caplog.at_level(logging.WARNING):
        index = open_index(path, cache_dir=tmp_path / "new", whole=True, register=str(register))
        assert_same(index, expected)
        with clips(folder, length=4, cache_dir=tmp_path / "newer") as found:
            assert len(found) == len(expected) // 4 + sum(
                len(open_index(other)) // 4 for other in videos(folder) if other != path
            )
    assert str(register) in caplog.text


def test_what_cannot_be_written_or_found_is_named(tmp_path):
    with pytest.raises(OutputError, match=r"none.x: the register cannot be written.*Name a register"):
        SharedRegister(str(tmp_path / "none" / "x"), add=True)
    (tmp_path / "text").write_text("not a database, but long enough to be read as one" * 10)
    with pytest.raises(OutputError, match="the register cannot be written"):
        SharedRegister(str(tmp_path / "text"), add=True)
    with pytest.raises(SourceNotFoundError, match=r"no such register.*seqpipe index --register FILE"):
        find_register(tmp_path / "missing", None)
    assert find_register(None, tmp_path) is None
    code, said, _ = run(made("h264"), "--register", tmp_path / "r", "--stream", "0", cache=tmp_path)
    assert (code, "--stream or --register" in said) == (2, True)


def test_one_of_the_readers_of_a_host_reads_it(folder, tmp_path, monkeypatch):
    register = registered(folder, tmp_path / "cache")
    monkeypatch.setattr("seqpipe.video.index.shared._FEWEST_FILES", 1)
    reads, files = [], SharedRegister._files
    monkeypatch.setattr(SharedRegister, "_files", lambda self: reads.append(self) or files(self))
    decode = seqpipe.Decode(register=str(register), cache_dir=str(tmp_path / "empty"))
    listed = [str(path) for path in videos(folder)]
    with ThreadPoolExecutor(4) as ranks:
        made = list(ranks.map(lambda _: seqpipe.videos(listed, 2, decode=decode), range(4)))
    assert len({dataset.fingerprint for dataset in made}) == 1
    assert len(reads) == 1
    assert [path.suffix for path in (tmp_path / "empty/registers").iterdir()] == [".reg"]
