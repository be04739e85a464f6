"""Conversion of exceptions raised by parsers of untrusted bytes to errors that name the source."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from ...errors import SeqpipeError, UnreadableSourceError
from .source import Source

__all__ = ["parsing"]


@contextlib.contextmanager
def parsing(source: Source) -> Iterator[None]:
    """Convert exceptions raised while a source is parsed to :class:`UnreadableSourceError`, chained to their cause.

    Damaged bytes make parsers, including FFmpeg and PyAV, raise any exception; one broken file must not end the
    processing of a dataset. A plain MemoryError propagates; PyAV's subclass of it does not, as a damaged size causes
    it.

    Raises:
        UnreadableSourceError: the block raised an exception other than a :class:`SeqpipeError`.
    """
    try:
        yield
    except SeqpipeError:
        raise
    except Exception as error:
        if type(error) is MemoryError:
            raise
        reason = getattr(error, "strerror", None) or str(error) or "no reason given"
        raise UnreadableSourceError(
            f"its structure cannot be read ({type(error).__name__}: {reason})",
            source=source.name,
            advice="The file may be damaged: fetch it again, or leave it out with on_error='skip'",
        ) from error
