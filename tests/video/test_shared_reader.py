"""One reader in several threads, and in processes that were forked."""

from __future__ import annotations

import gc
import io
import os
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest

import seqpipe
from seqpipe.errors import SourceError
from seqpipe.readers.fetch import LazyEngine
from seqpipe.video.device import parse_device
from seqpipe.video.index.open import IndexOptions
from seqpipe.video.reader import VideoReader
from tests.support.media import made

needs_fork = pytest.mark.skipif(not hasattr(os, "fork"), reason="no os.fork")
pytestmark = pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")


def test_threads_that_share_a_reader_get_the_right_frames():
    """55 of 400 pictures were wrong, in silence: the threads painted into one another's buffers."""
    with VideoReader(made("h264"), threads=1) as reader:
        expected = reader[:].numpy()

        def ask(seed: int) -> list[int]:
            numbers = [(seed * 7 + k * 13) % len(reader) for k in range(12)]
            wrong = [n for n in numbers if (reader[n].numpy() != expected[n]).any()]
            several = reader.frames(numbers)
            return wrong + [
                n for n, p in zip(numbers, several.numpy(), strict=True) if (p != expected[n]).any()
            ]

        with ThreadPoolExecutor(4) as threads:
            assert [wrong for found in threads.map(ask, range(16)) for wrong in found] == []


def in_child(work: Callable[[], str]) -> str:
    """What work gives in a forked process."""
    here, there = os.pipe()
    child = os.fork()
    if child == 0:
        said = ""
        try:
            said = work()
        except BaseException as error:
            said = f"{type(error).__name__}: {error}"
        finally:
            os.write(there, said.encode()[:4000])
            os._exit(0)
    os.close(there)
    with os.fdopen(here, "rb") as pipe:
        said = pipe.read().decode()
    os.waitpid(child, 0)
    return said


@needs_fork
def test_a_file_object_is_not_read_in_a_forked_process():
    """Both processes move one position: each got the bytes of wherever the other had left it."""
    with made("h264").open("rb") as file, VideoReader(file, threads=1) as reader:
        said = in_child(lambda: str(reader[3]))
        assert said.startswith("SourceError: <")
        assert "the file object was opened in a parent process" in said
        assert "pass a path or its bytes" in said
        assert reader[3].frames.tolist() == [3]


@needs_fork
def test_a_file_object_in_memory_is_read_in_a_forked_process():
    with VideoReader(io.BytesIO(made("h264").read_bytes()), threads=1) as reader:
        expected = str(reader[3].numpy().sum())
        assert in_child(lambda: str(reader[3].numpy().sum())) == expected


@needs_fork
def test_a_lock_that_a_thread_held_at_a_fork_is_free_in_the_child():
    with VideoReader(made("h264"), threads=1) as reader:
        engine = LazyEngine(1, parse_device("cpu"), "auto", IndexOptions())
        held, done = threading.Event(), threading.Event()

        def hold() -> None:
            with reader._lock, engine._lock:
                held.set()
                done.wait(30)

        thread = threading.Thread(target=hold)
        thread.start()
        held.wait(30)

        def use() -> str:
            frame = str(reader[3].frames)
            engine.get().close()
            return frame

        assert in_child(use) == "[3]"
        done.set()
        thread.join()


@needs_fork
def test_an_engine_is_swapped_once_after_a_fork():
    """Threads of the child that asked at once swapped engine and lock under each other, and made several."""
    engine = LazyEngine(1, parse_device("cpu"), "auto", IndexOptions())
    parent = engine.get()

    def use() -> str:
        with ThreadPoolExecutor(4) as threads:
            found = {id(made) for made in threads.map(lambda _: engine.get(), range(8))}
        return f"{len(found)} {id(parent) in found}"

    assert in_child(use) == "1 False"
    assert engine.get() is parent
    engine.close()


def test_what_is_renewed_after_a_fork_is_not_kept_alive():
    from seqpipe.core import forks

    gc.collect()
    before = len(forks._registered)
    with seqpipe.open(made("h264").read_bytes()):
        assert len(forks._registered) > before
    gc.collect()
    assert len(forks._registered) == before


def test_errors_in_one_thread_leave_the_reader_usable():
    with VideoReader(made("h264"), threads=1) as reader:
        with pytest.raises(SourceError):
            reader[10_000]
        with ThreadPoolExecutor(1) as other:
            assert other.submit(lambda: reader[2].frames.tolist()).result(30) == [2]
