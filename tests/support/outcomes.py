"""What came of a call, whether results or an error, and a comparison of two that allows no difference."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields
from typing import Any

import numpy as np

from seqpipe.errors import ParameterError
from seqpipe.sequence import Batch, Sequence

__all__ = ["outcome", "same"]


def outcome(call: Callable[[], Any]) -> Any:
    """The results of a call, or the text of what it raised."""
    try:
        return call()
    except ParameterError as error:
        return str(error)


def same(actual: Any, wanted: Any) -> None:
    """Raise unless two values are of one kind and have the same bits, in all that they consist of."""
    assert type(actual) is type(wanted), f"{actual!r} instead of {wanted!r}"
    if isinstance(wanted, (list, tuple)):
        assert len(actual) == len(wanted)
        for one, other in zip(actual, wanted, strict=True):
            same(one, other)
    elif isinstance(wanted, (Sequence, Batch)):
        for field in fields(wanted):
            same(getattr(actual, field.name), getattr(wanted, field.name))
    elif hasattr(wanted, "dtype"):
        assert (actual.dtype, actual.shape) == (wanted.dtype, wanted.shape)
        one, other = (np.ascontiguousarray(v.get() if hasattr(v, "get") else v) for v in (actual, wanted))
        assert one.tobytes() == other.tobytes()
    else:
        assert actual == wanted
