"""Metadata of a pipeline's readers, and its graph in Graphviz's format."""

from __future__ import annotations

from typing import Any

from ..ops import DataNode as NativeNode
from ..pipeline import Graph
from ..pipeline.source import Indexed

__all__ = ["all_nodes", "dot_text", "epoch_samples", "reader_facts"]


def epoch_samples(source: Indexed) -> int:
    """Return the number of samples of an epoch over all shards, including padding if the reader pads."""
    meta = reader_facts(source)
    return int(meta["epoch_size_padded"] if meta["pad_last_batch"] else meta["epoch_size"])


def reader_facts(source: Indexed) -> dict[str, Any]:
    """Return a reader's metadata in the form of DALI's ``reader_meta``."""
    order = getattr(source.dataset, "order", None) or source.dataset.reader.fetcher.selection.order  # type: ignore[attr-defined]
    most = -(-order.size // order.shard[1])
    return {
        "epoch_size": order.size,
        "epoch_size_padded": most * order.shard[1],
        "number_of_shards": order.shard[1],
        "shard_id": order.shard[0],
        "pad_last_batch": int(source.declared_pad),
        "stick_to_shard": int(order.stick_to_shard),
    }


def all_nodes(outputs: tuple[NativeNode, ...]) -> list[NativeNode]:
    """Return the nodes that outputs depend on, including the outputs."""
    return list(Graph(*outputs).nodes)


def dot_text(outputs: tuple[NativeNode, ...], remarks: tuple[str, ...] = ()) -> str:
    """Return the graph of some outputs in Graphviz's DOT language, with remarks as comments."""
    nodes = all_nodes(outputs)
    numbers = {id(node): number for number, node in enumerate(nodes)}
    lines = [f'  n{numbers[id(node)]} [label="{_escaped(node.label)}"];' for node in nodes]
    lines += [f"  n{numbers[id(one)]} -> n{numbers[id(node)]};" for node in nodes for one in node.operands]
    return "".join(f"// {one}\n" for one in remarks) + "digraph {\n" + "\n".join(lines) + "\n}\n"


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"')
