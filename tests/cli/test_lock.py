"""Exports that run at once: each file, source and manifest is one export's, and the other is told."""

from __future__ import annotations

import errno
import fcntl
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from seqpipe.cli.record import OptionDigests, read_entries, record_options
from seqpipe.errors import OutputError
from seqpipe.writers import lock
from seqpipe.writers.lock import locked
from tests.support.deep import deep
from tests.support.media import made

from .written import files

HOLD = """
import sys, time
from pathlib import Path
from seqpipe.writers.lock import locked
with locked(Path(sys.argv[1]), "it"):
    print("held", flush=True)
    time.sleep(60)
"""


def hidden(folder):
    return [path.name for path in folder.rglob(".*.lock")]


@pytest.fixture
def holder(tmp_path):
    """Another process that holds the lock of ``tmp_path / "x"``."""
    with subprocess.Popen(
        [sys.executable, "-c", HOLD, str(tmp_path / "x")], stdout=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"held\n"
        yield process
        process.kill()


def test_what_another_process_holds_is_refused(tmp_path, holder):
    with (
        pytest.raises(OutputError, match=r"x: another export is writing it\. Wait for it to end"),
        locked(tmp_path / "x", "it"),
    ):
        pass
    assert hidden(tmp_path)


def test_nobody_waits_for_ever(tmp_path, holder):
    """The one that holds it may have been stopped."""
    holder.send_signal(signal.SIGSTOP)
    with (
        pytest.raises(OutputError, match="another export is writing it"),
        locked(tmp_path / "x", "it", wait_s=0.1),
    ):
        pass


def test_a_lock_that_was_not_obtained_is_not_removed(tmp_path, holder, monkeypatch):
    """An interrupt may come while the lock file is open and not yet locked."""

    def interrupt(descriptor):
        monkeypatch.undo()
        raise KeyboardInterrupt

    monkeypatch.setattr(lock, "_lock", interrupt)
    with pytest.raises(KeyboardInterrupt), lock.locked(tmp_path / "x", "it"):
        pass
    assert len(hidden(tmp_path)) == 1


def test_the_lock_of_a_killed_process_is_free(tmp_path, holder):
    holder.send_signal(signal.SIGKILL)
    holder.wait()
    assert len(hidden(tmp_path)) == 1
    with locked(tmp_path / "x", "it"):
        pass
    assert hidden(tmp_path) == []


def test_a_lock_that_another_user_has_left_is_of_use_to_all(tmp_path, holder):
    (lock,) = tmp_path.glob(".*.lock")
    assert lock.stat().st_mode & 0o777 == 0o666


def test_a_lock_is_given_back_after_an_interrupt(tmp_path):
    with pytest.raises(KeyboardInterrupt), locked(tmp_path / "x", "it"):
        raise KeyboardInterrupt
    assert hidden(tmp_path) == []
    with locked(tmp_path / "x", "it"), pytest.raises(OutputError), locked(tmp_path / "x", "it"):
        pass


def test_of_many_that_wait_one_is_in_at_a_time(tmp_path):
    """The lock's file is taken away and made anew under those that wait for it."""
    inside, most = [], []

    def work():
        for _ in range(50):
            with locked(tmp_path / "x", "it", wait_s=60):
                inside.append(1)
                most.append(len(inside))
                inside.pop()

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert most == [1] * 200
    assert hidden(tmp_path) == []


def test_a_file_system_without_locks_does_without(tmp_path, monkeypatch):
    def refuse(*_):
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr(fcntl, "flock", refuse)
    with locked(tmp_path / "x", "it"):
        pass
    assert hidden(tmp_path) == []


def test_many_exports_may_note_their_sources_at_once(tmp_path):
    threads = [
        threading.Thread(
            target=record_options,
            args=(tmp_path, [f"{n}"], OptionDigests("p", "f")),
            kwargs={"replace": False},
        )
        for n in range(8)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert {Path(key).name for key in read_entries(tmp_path)} == {f"{n}" for n in range(8)}


@pytest.mark.parametrize("ending", ["jsonl", "csv"])
def test_a_manifest_that_another_export_writes_is_left_alone(run, tmp_path, ending):
    """Its rows were lost: both began it anew, and one took the other's journal away."""
    manifest = tmp_path / f"m.{ending}"
    with locked(manifest, "this manifest"):
        for option in ("--overwrite", "--resume"):
            options = ("--out", tmp_path / "o", "--num", 2, "--manifest", manifest, option)
            result = run("export", made("h264"), *options, code=1)
            assert f"Error: {manifest}: another export is writing this manifest. Wait" in result.stderr
    assert files(tmp_path) == []


SMALL = "--size", "100x75"


def export(folder, name, *more):
    """One that takes its time, unless it is of small pictures."""
    options = ("--out", str(folder / "o"), "--format", "png", "--size", "1000x750", "--jobs", "1")
    return subprocess.Popen(
        [sys.executable, "-m", "seqpipe", "export", str(made(name)), *options, "--overwrite", *more],
        stderr=subprocess.PIPE,
        text=True,
    )


@pytest.fixture
def stopped(tmp_path):
    """An export of "h264" that stands still in the middle of its files."""
    with export(tmp_path, "h264") as process:
        while process.poll() is None and not [*tmp_path.glob("o/**/*.png")]:
            time.sleep(0.002)
        process.send_signal(signal.SIGSTOP)
        yield process
        process.kill()


def test_two_exports_of_one_source_into_one_folder(tmp_path, stopped):
    """Both wrote the same parts of files: some were of both, some were not found when they were to be moved."""
    with export(tmp_path, "h264") as second:
        said = second.communicate()[1]
    assert second.returncode == 1
    where = tmp_path / "o"
    assert (
        f"Error: {made('h264')}: another export is writing h264/000000.png into {where}. Wait for it" in said
    )
    stopped.send_signal(signal.SIGCONT)
    stopped.communicate()
    assert stopped.returncode == 0
    assert len(files(where)) == 48
    assert hidden(where) == []


@pytest.mark.parametrize(
    ("name", "pattern", "shared"),
    [
        ("h264", "h264/0000{index}.png", "h264/000010.png"),
        deep("vp9", "h264/0000{index}.png", "h264/000010.png"),
        deep("h264", "{stem}/{index:06d}.png", "h264/000000.png"),
        ("vp9", "{stem}/{index:06d}.png", "h264/000000.png"),
    ],
)
@pytest.mark.deep
def test_two_exports_whose_different_patterns_come_to_one_name(tmp_path, stopped, name, pattern, shared):
    """Each source was kept apart by the name of its first file: one wrote over the other's others."""
    before = {path: path.read_bytes() for path in tmp_path.glob("o/**/*.png")}
    with export(tmp_path, name, "--pattern", pattern, *SMALL) as second:
        said = second.communicate()[1]
    if name == "vp9" and "{stem}" in pattern:
        assert second.returncode == 0
    else:
        assert (second.returncode, said) == (
            1,
            f"Error: {made(name)}: another export is writing {shared} into {tmp_path / 'o'}. "
            "Wait for it to end, or stop it and continue with --resume.\n",
        )
    assert all(path.read_bytes() == data for path, data in before.items())


def test_what_a_killed_export_has_claimed_is_free(tmp_path, stopped):
    stopped.kill()
    stopped.wait()
    assert len(hidden(tmp_path)) == 1
    with export(tmp_path, "h264", *SMALL) as second:
        second.communicate()
    assert second.returncode == 0
    assert hidden(tmp_path) == []


@pytest.mark.deep
def test_two_exports_of_different_sources_into_one_folder(tmp_path, stopped):
    with export(tmp_path, "vp9", *SMALL) as second:
        second.communicate()
    stopped.send_signal(signal.SIGCONT)
    stopped.communicate()
    assert (stopped.returncode, second.returncode) == (0, 0)
    assert len(files(tmp_path / "o")) == 96
    assert hidden(tmp_path) == []
