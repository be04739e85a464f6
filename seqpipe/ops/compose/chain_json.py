"""JSON of chains and of their members: each kind of member registers a function that reads its state."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from reprlib import repr as short
from typing import Any, Final, NoReturn, TypeAlias

from ...core.json_text import field_of, parse_json, reading_json
from ...errors import ParameterError
from ..core.declaration import Declaration

__all__ = ["State", "chain_of_json", "json_of_chain", "member_of_state", "reads_state"]

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
    """Create a chain or a member of one, with its occurrence, so that it samples the same values.

    Args:
        state: what its ``state()`` returned, as JSON types.
        operator: creates an operator from its state.
    """
    reader = _READERS.get(field_of(state, "op", str, "member"))
    return operator(state) if reader is None else reader(state, lambda one: member_of_state(one, operator))


def json_of_chain(state: State) -> str:
    """Return the state of a chain as JSON.

    Raises:
        ParameterError: a parameter is a node.
    """

    def refuse(node: Any) -> NoReturn:
        raise ParameterError(
            f"{node} is a node among the parameters", source="Chain", advice="Serialize the graph instead"
        )

    return json.dumps(state, default=refuse)


def chain_of_json(text: str) -> Any:
    """Create the chain that :func:`json_of_chain` described.

    Raises:
        ParameterError: the text is not such JSON, or an operator in it is not valid.
    """
    with reading_json(f"chain: {short(text)}", "Chain"):
        state = parse_json(text)
        if field_of(state, "op", str, "") != "chain":
            raise ParameterError(
                f"op={state['op']!r} is no chain", source="Chain", allowed="what to_json() gives"
            )
        return member_of_state(state, lambda one: Declaration.from_json(json.dumps(one)))
