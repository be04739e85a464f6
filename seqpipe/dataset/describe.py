"""What a data set says of itself: its steps as they are written, and what is fused."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from .absorbing import Absorbed
from .stages import DatasetStage, TransferStage

__all__ = ["explained", "written"]


def explained(parts: Absorbed, device: str, changed: Iterable[str]) -> str:
    """Describe each pass over the pixels in a line, and why decoding does not take over more operators."""
    lines = parts.explain()
    for stage in parts.stages:
        lines += stage.explain(device)
        device = stage.device if isinstance(stage, TransferStage) else device
    numbered = [f"{number}. {line}" for number, line in enumerate(lines, 1)]
    numbered += parts.refusals
    if numbered:
        numbered.append(f"Operators change {', '.join(changed)}; other parts are passed on.")
    return "\n".join(numbered)


def written(
    source: object, steps: Iterable[DatasetStage], batched_at: int | None, options: dict[str, Any]
) -> str:
    """Return a data set as it is written, a line for each step."""
    lines = [repr(step) for step in steps]
    if batched_at is not None:
        kept = {"last": "partial", "ragged": "list", "bucket": None}
        changed = "".join(f", {name}={options[name]!r}" for name in kept if options[name] != kept[name])
        lines.insert(batched_at, f".batch({options['batch_size']}{changed})")
    if options["world"] > 1:
        set_ = "".join(f", {name}=True" for name in ("even", "stick") if options[name])
        lines.append(f".shard({options['rank']}, {options['world']}{set_})")
    if options["fusing"] != "surface":
        lines.append(f".fuse({options['fusing']!r})")
    return "\n    ".join([repr(source), *lines])
