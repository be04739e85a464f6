"""Member: base of chain members other than operators, such as a choice for each sample."""

from __future__ import annotations

import json
from abc import abstractmethod
from collections.abc import Callable, Iterable, Mapping
from reprlib import repr as short
from typing import Any, ClassVar, Final, NoReturn, TypeAlias

from ...core.json_text import field_of, parse_json, reading_json
from ...errors import ParameterError
from ..core.declaration import Declaration
from ..core.deferred import Deferrable

__all__ = [
    "Member",
    "State",
    "chain_of_json",
    "json_of_chain",
    "member_of_state",
    "reads_state",
    "sample_error",
]


class Member(Deferrable):
    """A member of a chain that is not an operator.

    Attributes:
        explanation: how it runs, as a clause for ``explain``.
    """

    explanation: ClassVar[str] = ""

    @property
    def members(self) -> tuple[Any, ...]:
        """The members that a chain runs in its place; by default itself, by ``run(x, options)``."""
        return (self,)

    @abstractmethod
    def result_layout(self, layout: str) -> str:
        """Return the layout of the result for images of a layout."""

    @abstractmethod
    def state(self) -> dict[str, Any]:
        """Return the settings as JSON types; nodes stay objects."""


def sample_error(images: Iterable[str], received: str) -> ParameterError:
    """Return the error for an input of :class:`seqpipe.ops.Only` that is not a sample of several parts."""
    names = ", ".join(f"{name!r}: …" for name in images)
    return ParameterError(
        f"it acts on {', '.join(images)} of a sample, not on: {received}",
        source="only",
        allowed=f"a sample of several parts, such as {{{names}}}",
    )


State: TypeAlias = Mapping[str, Any]
_Reader: TypeAlias = Callable[[State, Callable[[State], Any]], Any]

_READERS: Final[dict[str, _Reader]] = {}


def reads_state(*names: str) -> Callable[[_Reader], _Reader]:
    """Register a function that creates members of some names from their states.

    It gets the state, and a function that creates the members within.
    """

    def registered(reader: _Reader) -> _Reader:
        _READERS.update(dict.fromkeys(names, reader))
        return reader

    return registered


def member_of_state(state: State, operator: Callable[[State], Any]) -> Any:
    """Create a chain or a member of one, with its occurrence, so that it samples the same values."""
    reader = _READERS.get(field_of(state, "op", str, "member"))
    return (
        operator(state) if reader is None else reader(state, lambda inner: member_of_state(inner, operator))
    )


def json_of_chain(state: State) -> str:
    """Return the state of a chain as JSON."""

    def refuse(node: Any) -> NoReturn:
        raise ParameterError(
            f"{node} is a node among the parameters", source="Chain", advice="Serialize the graph instead"
        )

    return json.dumps(state, default=refuse)


def chain_of_json(text: str) -> Any:
    """Create the chain that :func:`json_of_chain` described."""
    with reading_json(f"chain: {short(text)}", "Chain"):
        state = parse_json(text)
        if field_of(state, "op", str, "") != "chain":
            raise ParameterError(
                f"op={state['op']!r} is no chain", source="Chain", allowed="what to_json() gives"
            )
        return member_of_state(state, lambda inner: Declaration.from_json(json.dumps(inner)))
