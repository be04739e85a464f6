"""``--shard``: the part of the inputs that one of several jobs works on."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping
from collections.abc import Sequence as Seq
from pathlib import Path
from typing import Any, TypeAlias, TypeVar

import click

from .options import ParamType

__all__ = ["ShardNumbers", "of_shard", "path_of_shard", "shard", "shard_from"]

ShardNumbers: TypeAlias = tuple[int, int]
"""(number, count) of a job, from 0 on."""

ItemT = TypeVar("ItemT")
CommandT = TypeVar("CommandT", bound=Callable[..., Any])

_FORM = re.compile(r"(\d{1,9})/([1-9]\d{0,8})")
_ARRAY, _RANKS = "SLURM_ARRAY_TASK_", ("RANK", "WORLD_SIZE")


class _ShardType(ParamType):
    """I/N, or ``auto`` for the numbers that a scheduler has set."""

    name = "I/N"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        if isinstance(value, tuple):
            return value
        text = str(value).strip()
        try:
            if text.lower() == "auto":
                return shard_from(os.environ)
            form = _FORM.fullmatch(text)
            numbers = (int(form[1]), int(form[2])) if form else None
        except ValueError as error:
            return self.fail(str(error), param, ctx)
        if numbers is None or numbers[0] >= numbers[1]:
            return self.fail(
                f"{value!r} is no shard; allowed: auto, or I/N with I from 0 to N-1, such as 0/8.", param, ctx
            )
        return numbers


def shard_from(environment: Mapping[str, str]) -> ShardNumbers:
    """Return the numbers of this job among those of an array of Slurm's, or of a launcher such as torchrun."""
    array = f"{_ARRAY}ID", f"{_ARRAY}COUNT"
    names = array if array[0] in environment else _RANKS
    if missing := [name for name in names if name not in environment]:
        raise ValueError(
            f"auto needs {' and '.join(array)}, or {' and '.join(_RANKS)}, and {missing[0]} is not set. "
            "Give the numbers, such as --shard 0/8."
        )
    number, count = (int(environment[name]) for name in names)
    least, step = 0, 1
    if names == array:
        least = int(environment.get(f"{_ARRAY}MIN", "0"))
        step = max(1, int(environment.get(f"{_ARRAY}STEP", "1")))
        if count == 1 and number:
            raise ValueError(
                f"this array has task {number} alone, as if it was repeated alone. Give its numbers in the whole "
                f"array, such as --shard {number}/N."
            )
    place, rest = divmod(number - least, step)
    if rest or not 0 <= place < count:
        raise ValueError(
            f"task {number} of {count} from {least} on is not one of an even array. Give the numbers, such as "
            "--shard 0/8."
        )
    return place, count


def of_shard(items: Seq[ItemT], numbers: ShardNumbers | None) -> list[ItemT]:
    """Return the items of a shard: every N-th one, in order; all of them without a shard."""
    return [*items] if numbers is None else [*items[numbers[0] :: numbers[1]]]


def path_of_shard(path: Path, numbers: ShardNumbers | None) -> Path:
    """Return a path with the numbers of a shard before its ending, for files that each job has of its own."""
    if numbers is None:
        return path
    return path.with_name(f"{path.stem}-{numbers[0]:05d}-of-{numbers[1]:05d}{path.suffix}")


def shard(command: CommandT) -> CommandT:
    """Add ``--shard``: (number, count), or None for all inputs."""
    return click.option(
        "--shard",
        type=_ShardType(),
        help="Work on part I of N: of the inputs I, I + N, I + 2 N, …, so that N jobs share the work and DIR; a "
        "manifest's name gets the numbers. auto takes them from SLURM_ARRAY_TASK_ID and _COUNT, or from RANK and "
        "WORLD_SIZE.",
    )(command)
