"""Files that are whole from their first sight, and what is left when they cannot be."""

from __future__ import annotations

import stat
from concurrent.futures import ThreadPoolExecutor

import pytest

from seqpipe.core.whole_file import open_new, replacing, write_durably


def test_a_file_appears_when_the_block_ends(tmp_path):
    path = tmp_path / "a.bin"
    with replacing(path) as part:
        part.write_bytes(b"new")
        assert not path.exists()
    assert path.read_bytes() == b"new"
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("failure", [OSError("disk"), KeyboardInterrupt()])
def test_what_fails_leaves_the_older_file_and_nothing_else(tmp_path, failure):
    path = tmp_path / "a.bin"
    path.write_bytes(b"old")

    def write_half():
        with replacing(path) as part:
            part.write_bytes(b"half")
            raise failure

    with pytest.raises(type(failure)):
        write_half()
    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]


def test_a_chosen_temporary_path_is_removed_too(tmp_path):
    path, temporary = tmp_path / "a.bin", tmp_path / "b.part"
    temporary.write_bytes(b"left by a killed run")
    with replacing(path, temporary=temporary) as part:
        part.write_bytes(b"new")
    assert (part, path.read_bytes(), temporary.exists()) == (temporary, b"new", False)


def test_the_temporary_path_is_next_to_the_file_with_its_suffix(tmp_path):
    with replacing(tmp_path / "clip.mp4") as part:
        part.touch()
        assert (part.parent, part.suffix, part.name[0]) == (tmp_path, ".mp4", ".")


def test_a_block_that_writes_nothing_is_told(tmp_path):
    with pytest.raises(FileNotFoundError), replacing(tmp_path / "a.bin"):
        pass


def test_others_may_read_what_they_may_read_of_any_new_file(tmp_path):
    plain, path = tmp_path / "plain", tmp_path / "a.bin"
    plain.touch()
    with replacing(path) as part:
        part.write_bytes(b"shared")
    assert stat.S_IMODE(path.stat().st_mode) == stat.S_IMODE(plain.stat().st_mode)


def test_writers_at_once_do_not_meet(tmp_path):
    path = tmp_path / "a.bin"

    def write(number: int) -> None:
        with replacing(path) as part:
            part.write_bytes(bytes([number]) * 5000)

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(write, range(200)))
    assert len(set(path.read_bytes())) == 1
    assert (path.stat().st_size, list(tmp_path.iterdir())) == (5000, [path])


def test_a_new_file_is_not_written_through_a_link(tmp_path):
    """A link that another user had put where a part of a file goes was followed, and its target overwritten."""
    target, path = tmp_path / "target", tmp_path / "new"
    target.write_bytes(b"precious")
    path.symlink_to(target)
    with open_new(path) as file:
        file.write(b"new")
    assert target.read_bytes() == b"precious"
    assert path.read_bytes() == b"new"
    assert not path.is_symlink()


def test_a_durable_file_is_whole_and_alone(tmp_path):
    write_durably(tmp_path / "a.bin", b"data", 0o600)
    assert (tmp_path / "a.bin").read_bytes() == b"data"
    assert stat.S_IMODE((tmp_path / "a.bin").stat().st_mode) == 0o600
    assert list(tmp_path.iterdir()) == [tmp_path / "a.bin"]
