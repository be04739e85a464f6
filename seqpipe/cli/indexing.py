"""Indexes of many videos, loaded from the cache or built in parallel."""

from __future__ import annotations

from collections.abc import Callable, Generator
from collections.abc import Sequence as Seq
from contextlib import ExitStack
from functools import partial
from typing import TYPE_CHECKING, TypeVar

from ..errors import SeqpipeError
from .inputs import InputFile
from .messages import progress_bar

if TYPE_CHECKING:
    from ..video.index.shared import SharedRegister
    from ..video.packet_index import PacketIndex

__all__ = ["attempted", "for_each_index", "is_indexed"]

ResultT = TypeVar("ResultT")


def for_each_index(
    items: Seq[InputFile | SeqpipeError],
    use: Callable[[InputFile, PacketIndex], ResultT],
    *,
    jobs: int | None,
    cache_dir: str | None,
    whole: bool = False,
    verified: bool = False,
    stream: int | None = None,
    register: SharedRegister | None = None,
    known: str | None = None,
    stop: Callable[[], object] = lambda: None,
) -> Generator[tuple[str, ResultT | SeqpipeError], None, None]:
    """Call a function with the index of each video, several at a time, and keep only its result.

    ``stop`` is called at the end, before running calls are waited for.
    """
    from ..video.engine.engine import Engine, available_cores
    from ..video.index.open import open_index
    from ..video.source.source import open_source

    get = partial(
        open_index, cache_dir=cache_dir, whole=whole, verified=verified, stream=stream, register=known
    )

    def work(item: InputFile) -> ResultT:
        if register is None:
            return use(item, get(item.path))
        source = open_source(item.path)
        stamp = source.stamp()
        index = stamp and register.index(source, stamp, whole=whole, verified=verified)
        if not index:
            index = get(source)
            if stamp is not None:
                register.add(source, stamp, index)
        return use(item, index)

    threads = max(1, min(jobs or available_cores(), len(items)))
    with (
        progress_bar("Indexing", len(items), "files", len(items)) as bar,
        Engine(threads) as engine,
        ExitStack() as stack,
    ):
        stack.callback(stop)
        for result in engine.map(lambda item: attempted(item, work), items):
            bar.advance(1)
            bar.finish_input()
            yield result


def attempted(
    item: InputFile | SeqpipeError, use: Callable[[InputFile], ResultT]
) -> tuple[str, ResultT | SeqpipeError]:
    """Return an input's path, and the result of a function of it or the error that prevents one."""
    if isinstance(item, SeqpipeError):
        return item.source or "", item
    try:
        return item.path, use(item)
    except SeqpipeError as error:
        error.source = error.source or item.path
        return item.path, error


def is_indexed(
    path: str,
    cache_dir: str | None,
    *,
    whole: bool = False,
    verified: bool = False,
    stream: int | None = None,
    register: SharedRegister | None = None,
) -> bool:
    """Return whether the cache or the register holds a current index of a video.

    ``whole`` and ``verified`` are as in :func:`for_each_index`. False for a video that cannot be opened.
    """
    from ..video.index.cache import cache_directory, load_index, load_summary
    from ..video.source.source import open_source

    try:
        source = open_source(path, stream=stream)
        stamp = source.stamp()
        if stamp is not None and register is not None:
            return register.index(source, stamp, whole=whole, verified=verified) is not None
    except SeqpipeError:
        return False
    if stamp is None:
        return False
    if whole or verified:
        index = load_index(cache_directory(cache_dir), stamp)
        return index is not None and index.packets.whole and (index.verified or not verified)
    return load_summary(cache_directory(cache_dir), stamp) is not None
