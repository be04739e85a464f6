"""Recognition of bytes that are a path, such as ``os.fsencode`` returns, and not the content of a file."""

from __future__ import annotations

import re
from typing import Final

from ...errors import ParameterError

__all__ = ["check_content"]

_LONGEST: Final = 4096
_PATH: Final = re.compile(r"[^*?\"<>|]*(?:[/\\][^*?\"<>|]*|\.\w{1,8})")


def check_content(data: bytes) -> None:
    """Check that bytes are not a path.

    Raises:
        ParameterError: they are one: printable, and with a folder or an extension.
    """
    if len(data) > _LONGEST:
        return
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError:
        return
    if text.isprintable() and any(map(str.isalnum, text)) and _PATH.fullmatch(text):
        raise ParameterError(
            f"the bytes {text!r} are a path, and the content of a file was expected",
            advice="Pass the path as text: os.fsdecode(path)",
        )
