"""Chains of operators and chains as JSON, and back."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from collections.abc import Sequence as Seq
from typing import Any

from ...errors import ParameterError
from ..core.declaration import Declaration

__all__ = ["chain_of_json", "state_of_member"]


def state_of_member(member: Any) -> dict[str, Any]:
    """Give a chain, or a member of one, as JSON knows it.

    Raises:
        ParameterError: a choice is among them, or a parameter is a node.
    """
    if hasattr(member, "fuse"):
        members = [state_of_member(one) for one in member.ops]
        return {"op": "chain", "ops": members, "fuse": member.fuse}
    if not isinstance(member, Declaration):
        raise ParameterError(
            f"a chain with {member.title}",
            source="Chain",
            allowed="operators and chains",
            advice="A seqpipe.pipeline.Graph of it goes to JSON",
        )
    found: dict[str, Any] = json.loads(member.to_json())
    return found


def chain_of_json(text: str, build: Callable[[Seq[Any], str], Any]) -> Any:
    """Give the chain whose state :func:`state_of_member` gave.

    Args:
        text: the state as JSON.
        build: what makes a chain of its members and of ``fuse``.

    Raises:
        ParameterError: this is no such text.
    """

    def built(state: Mapping[str, Any]) -> Any:
        if state["op"] != "chain":
            return Declaration.from_json(json.dumps(state))
        return build([built(one) for one in state["ops"]], state["fuse"])

    try:
        state = json.loads(text)
        if state["op"] == "chain" and state["ops"]:
            return built(state)
    except (ValueError, TypeError, KeyError) as error:
        raise _no_chain(text) from error
    raise _no_chain(text)


def _no_chain(text: str) -> ParameterError:
    return ParameterError(f"{text[:80]!r} is no chain", source="Chain", allowed="what to_json() gives")
