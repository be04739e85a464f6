"""``ndd.checkpoint``: states of readers and random generators by name, in one JSON text."""

from __future__ import annotations

import json
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from ....core.json_text import parse_json
from ....core.whole_file import replacing
from ....errors import ParameterError, StateError

__all__ = ["Checkpoint", "current", "pop", "push"]

_threads = threading.local()

_FORMAT: Final = "seqpipe dynamic checkpoint"


class Checkpoint:
    """States of the objects that are registered; see :meth:`register`."""

    def __init__(self) -> None:
        self._objects: dict[str, Any] = {}
        self._states: dict[str, Any] = {}
        self._loaded = False

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the states."""
        return tuple({**self._objects, **self._states})

    @property
    def is_loaded(self) -> bool:
        """Whether states were loaded."""
        return self._loaded

    @property
    def is_complete(self) -> bool:
        """Whether there is a state for each registered object."""
        return self._objects.keys() <= self._states.keys()

    def __len__(self) -> int:
        return len(self.names)

    def __contains__(self, name: object) -> bool:
        return name in self.names

    def clear(self) -> None:
        """Forget objects and states."""
        self.__init__()  # type: ignore[misc]  # the state of a new one

    def register(self, op: Any, name: str | None = None) -> str:
        """Register a reader or a random generator; it continues from its state if one was loaded.

        Args:
            op: an object with ``get_state()`` and ``set_state()``.
            name: its name; by default its class with a number.

        Returns:
            The name.

        Raises:
            ParameterError: the object has no state, or another has this name.
        """
        if not (hasattr(op, "get_state") and hasattr(op, "set_state")):
            raise ParameterError(
                f"{type(op).__name__} has no state", source="ndd.checkpoint", allowed="readers and RNG"
            )
        if name is None:
            same = sum(type(known).__name__ == type(op).__name__ for known in self._objects.values())
            name = f"{type(op).__name__}_{same}"
        if self._objects.get(name, op) is not op:
            raise ParameterError(f"two objects have the name {name!r}", source="ndd.checkpoint")
        self._objects[name] = op
        if self._loaded and name in self._states:
            op.set_state(self._states[name])
        return name

    def get_state(self, name: str) -> Any:
        """Return the state of a name.

        Raises:
            KeyError: there is none.
        """
        return self._states[name]

    def set_state(self, name: str, value: Any) -> None:
        """Set the state of a name."""
        self._states[name] = value

    def collect(self) -> None:
        """Take the states of the registered objects."""
        self._states |= {name: known.get_state() for name, known in self._objects.items()}

    def restore(self) -> None:
        """Set the states of the registered objects."""
        for name, known in self._objects.items():
            if name in self._states:
                known.set_state(self._states[name])

    def serialize(self) -> str:
        """Return the states as text."""
        return json.dumps({"format": _FORMAT, "states": self._states})

    def deserialize(self, data: str) -> None:
        """Load states from text.

        Raises:
            StateError: the text is not a result of :meth:`serialize`.
        """
        try:
            content = parse_json(data)
        except ValueError as error:
            raise StateError(f"the checkpoint is not JSON ({error})", source="ndd.checkpoint") from error
        if not isinstance(content, Mapping) or content.get("format") != _FORMAT:
            raise StateError(
                "the text is no checkpoint of seqpipe's",
                source="ndd.checkpoint",
                allowed="a result of serialize()",
            )
        self._states, self._loaded = dict(content["states"]), True
        self.restore()

    def save(self, filename: str) -> str:
        """Collect the states and write them to a file, atomically; return its name."""
        self.collect()
        with replacing(Path(filename)) as temporary:
            temporary.write_text(self.serialize(), encoding="utf-8")
        return filename

    def load(self, filename: str) -> str:
        """Load states from a file; return its name."""
        self.deserialize(Path(filename).read_text(encoding="utf-8"))
        return filename


def current() -> Checkpoint:
    """Return the checkpoint of the current context."""
    stack: list[Checkpoint] = getattr(_threads, "stack", [])
    if not stack:
        stack = _threads.stack = [Checkpoint()]
    return stack[-1]


def push(checkpoint: Checkpoint) -> None:
    """Make a checkpoint the current one of the thread."""
    _threads.stack = [current(), *_threads.stack[1:], checkpoint]


def pop() -> None:
    """End what :func:`push` began."""
    _threads.stack = _threads.stack[:-1]
