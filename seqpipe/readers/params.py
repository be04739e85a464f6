"""Dataset parameters, declared once."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from numbers import Integral
from typing import Any, Final, Literal, TypeAlias, get_args

from ..errors import ParameterError
from ..param import Param, choice
from ..video.convert.output import OutputSpec, check_output
from ..video.device import Device
from ..video.memory import device_bytes

__all__ = [
    "CLIP_LAYOUT",
    "FILL_VALUE",
    "PREFETCH",
    "PREFETCH_GIB",
    "TORCH_DOOR",
    "ClipLayout",
    "bytes_ahead",
    "check_fill",
    "check_index",
    "one_source",
    "output_of",
]

TORCH_DOOR: Final = "seqpipe.torch"
"""The one room below that this one makes something of: it is fetched by its name when it is asked for."""

ClipLayout: TypeAlias = Literal["FHWC", "FCHW", "CFHW"]

CLIP_LAYOUT: Final = choice("layout", "order of the axes of a sequence", get_args(ClipLayout))
PREFETCH: Final = Param(name="prefetch", doc="Batches that are read ahead", lo=0, hi=10_000, unit="batches")
PREFETCH_GIB: Final = Param(
    name="prefetch_gib",
    doc="Memory of the device that batches under way and waiting may hold; a quarter of all unless given",
    kind=float,
    lo=0,
    unit="GiB",
    optional=True,
)
_SHARE_AHEAD: Final = 0.25
_NO_BOUND: Final = 2.0**32  # GiB, more than any machine has
FILL_VALUE: Final = Param(
    name="fill_value",
    doc="The value of pixels that no video has; for floats as it stands in the result, after mean and std",
    kind=float,
)
_FILL_BOUNDS: Final = {
    "uint8": (0, 255),
    "uint16": (0, 65535),
    "float16": (-65504, 65504),
    "float32": (None, None),
}


def one_source(sources: Mapping[str, Any]) -> str:
    """The name of the one argument that was given.

    Raises:
        ParameterError: none was, or more than one.
    """
    given = [name for name, value in sources.items() if value is not None]
    if len(given) != 1:
        fact = f"{' and '.join(given)} exclude one another" if given else "there is nothing to read"
        raise ParameterError(fact, allowed=f"one of {', '.join(sources)}")
    return given[0]


def output_of(output: OutputSpec | None, fields: OutputSpec) -> OutputSpec:
    """The output that was asked for, as a value or field by field.

    Raises:
        ParameterError: both ways at once.
    """
    if output is None:
        return check_output(fields)
    output, plain = check_output(output), OutputSpec()
    if given := [name for name in vars(plain) if getattr(fields, name) != getattr(plain, name)]:
        raise ParameterError(
            f"output and {', '.join(given)} exclude one another", advice="Give all of it in output"
        )
    return output


def bytes_ahead(prefetch_gib: float | None, device: Device) -> int:
    """What batches under way and waiting may hold.

    By default a share of the device's memory: a constant would be too much for small GPUs, or leave the engines of
    large ones without work. Of all memory, not of what happens to be free, so that runs on one machine are alike.
    """
    return int(
        _SHARE_AHEAD * device_bytes(device) if prefetch_gib is None else min(prefetch_gib, _NO_BOUND) * 2**30
    )


def check_fill(value: float, output: OutputSpec) -> float:
    """The fill value, if a pixel can have it.

    Raises:
        ParameterError: it cannot.
    """
    lo, hi = _FILL_BOUNDS[output.dtype]
    param = replace(FILL_VALUE, kind=float if output.is_float else int, lo=lo, hi=hi)
    number: float = param.check(value)
    return number


def check_index(index: Any, total: int) -> int:
    """The index of a sample, if the dataset has such a sample.

    Raises:
        ParameterError: it has not.
    """
    whole = int(index) if type(index) is not bool and isinstance(index, Integral) else -1
    if not 0 <= whole < total:
        raise ParameterError(f"index={index!r} is not valid", allowed=f"0 to {total - 1}")
    return whole
