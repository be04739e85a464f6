"""``nvidia.dali.plugin.mxnet``: not here; what is asked of it says what to do."""

from __future__ import annotations

from typing import NoReturn

from ...errors import BackendError

__all__: list[str] = []


def __getattr__(name: str) -> NoReturn:
    if name.startswith("__"):
        raise AttributeError(name)
    raise BackendError(
        f"there is no {name} for MXNet",
        source="seqpipe.dali.plugin.mxnet",
        advice="MXNet is retired: take NumPy's arrays, by pipe.run() and as_array()",
    )
