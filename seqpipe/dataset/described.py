"""Texts about a data set: its operators by passes over the pixels, and its repr."""

from __future__ import annotations

from typing import Any

__all__ = ["explained", "text_of"]


def explained(dataset: Any) -> str:
    """Return a data set's passes over the pixels, and why decoding does not take over more operators."""
    parts, rest = dataset.fused
    lines = [parts.head.explain()] if parts is not None and parts.head is not None else []
    lines += [line for stage in rest for line in stage.explain(dataset.device)]
    numbered = [f"{number}. {line}" for number, line in enumerate(lines, 1)]
    if parts is not None and parts.tail is not None:
        numbered.append(f"{parts.tail.ops[0].name} is not part of the conversion: {parts.reason}.")
    changed = [name for name, one in dataset.source.parts.items() if one.kind in ("images", "labels")]
    if rest or numbered:
        numbered.append(f"Operators change {', '.join(changed)}; other parts are passed on.")
    return "\n".join(numbered)


def text_of(dataset: Any) -> str:
    """Return a data set as the calls that make it."""
    lines = [repr(dataset.source)]
    for number, step in enumerate(dataset.steps):
        if dataset.batched_at == number:
            lines.append(_batch_text(dataset))
        lines.append(repr(step))
    if dataset.batched_at == len(dataset.steps):
        lines.append(_batch_text(dataset))
    if dataset.world > 1:
        kept = "".join(f", {name}=True" for name in ("even", "stick") if getattr(dataset, name))
        lines.append(f".shard({dataset.rank}, {dataset.world}{kept})")
    if dataset.fusing != "surface":
        lines.append(f".fuse({dataset.fusing!r})")
    return "\n    ".join(lines)


def _batch_text(dataset: Any) -> str:
    last = "" if dataset.last == "partial" else f", last={dataset.last!r}"
    ragged = "" if dataset.ragged == "list" else f", ragged={dataset.ragged!r}"
    return f".batch({dataset.batch_size}{last}{ragged})"
