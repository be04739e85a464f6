"""Bytes from outside: whatever a parser raises on them becomes an error of the source that they come from."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from ...errors import SeqpipeError, UnreadableSourceError
from .source import Source

__all__ = ["parsing"]


@contextlib.contextmanager
def parsing(source: Source) -> Iterator[None]:
    """While a source is parsed: errors that are not ours become an :class:`UnreadableSourceError`, with their cause.

    Damaged bytes lead parsers, FFmpeg's and PyAV's among them, to any exception; one broken file may not end a whole
    data set. Memory that runs out is raised as it is, but where FFmpeg was asked for it: a damaged size is to blame.

    Raises:
        UnreadableSourceError: the block raised something else than a :class:`SeqpipeError`.
    """
    try:
        yield
    except SeqpipeError:
        raise
    except Exception as error:
        if type(error) is MemoryError:
            raise
        said = getattr(error, "strerror", None) or str(error) or "no reason given"
        raise UnreadableSourceError(
            f"its structure cannot be read ({type(error).__name__}: {said})",
            source=source.name,
            advice="The file may be damaged: fetch it again, or leave it out with on_error='skip'",
        ) from error
