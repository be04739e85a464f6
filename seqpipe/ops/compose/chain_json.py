"""JSON of chains of operators and chains."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from collections.abc import Sequence as Seq
from typing import Any

from ...errors import ParameterError
from ..core.declaration import Declaration

__all__ = ["chain_of_json", "state_of_member"]


def state_of_member(member: Any) -> dict[str, Any]:
    """Return a chain, or a member of one, as JSON types.

    Raises:
        ParameterError: a member is a choice, or a parameter is a node.
    """
    if hasattr(member, "fuse"):
        members = [state_of_member(one) for one in member.ops]
        return {"op": "chain", "ops": members, "fuse": member.fuse}
    if not isinstance(member, Declaration):
        raise ParameterError(
            f"a chain with {member.title}",
            source="Chain",
            allowed="operators and chains",
            advice="Serialize a seqpipe.pipeline.Graph of it instead",
        )
    result: dict[str, Any] = json.loads(member.to_json())
    return result


def chain_of_json(text: str, build: Callable[[Seq[Any], str], Any]) -> Any:
    """Create the chain that :func:`state_of_member` described.

    Args:
        text: the state as JSON.
        build: creates a chain from its members and ``fuse``.

    Raises:
        ParameterError: the text is not such JSON, or an operator in it is not valid.
    """

    def built(state: Mapping[str, Any]) -> Any:
        if state["op"] != "chain":
            return Declaration.from_json(json.dumps(state))
        return build([built(one) for one in state["ops"]], state["fuse"])

    try:
        state = json.loads(text)
        if state["op"] == "chain" and state["ops"]:
            return built(state)
    except ParameterError:  # of an operator; its message states what is wrong
        raise
    except (ValueError, TypeError, KeyError) as error:
        raise _no_chain(text) from error
    raise _no_chain(text)


def _no_chain(text: str) -> ParameterError:
    return ParameterError(f"{text[:80]!r} is no chain", source="Chain", allowed="the result of to_json()")
