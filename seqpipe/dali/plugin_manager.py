"""``nvidia.dali.plugin_manager``: errors with alternatives to compiled plugins."""

from __future__ import annotations

from typing import Any, NoReturn

from ..errors import BackendError

__all__ = ["load_directory", "load_library"]


def load_library(library_path: Any, global_symbols: bool = False) -> NoReturn:  # noqa: ARG001  DALI's argument
    """Not available: plugins of DALI are compiled against its own classes.

    Raises:
        BackendError: always; the message names the alternatives.
    """
    raise BackendError(
        f"{library_path}: operators compiled for DALI cannot be loaded",
        source="plugin_manager.load_library",
        advice="Write the operator in Python (seqpipe.operator, or a class of seqpipe.ops.Op); a package brings it by "
        "an entry point of the group 'seqpipe.operators'. Or run your code by fn.python_function",
    )


def load_directory(plugin_dir_path: Any, allow_fail: bool = False, global_symbols: bool = False) -> NoReturn:  # noqa: ARG001
    """Not available; see :func:`load_library`.

    Raises:
        BackendError: always.
    """
    load_library(plugin_dir_path)
