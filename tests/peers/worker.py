"""Runs cases by DALI: ``python worker.py CASES RESULTS``, two pickles. Needs NumPy and DALI, and nothing of seqpipe.

Cases are a list of dictionaries: ``operator``, a dotted name in ``nvidia.dali.fn``; ``inputs``, for each a list with
an array for each sample; ``layouts``, one for each input; ``arguments``, as DALI has them, with the types, filters and
colors of its enumerations by name; ``per_sample`` and ``per_frame``, arguments as lists with an array for each sample.
Results are ``{"version": …, "operators": {name: {argument: default}}, "results": […]}``: for each case a list with a
list of arrays for each output, or what DALI said when it refused.
"""

from __future__ import annotations

import inspect
import pickle
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType, NoneType
from typing import Any

import nvidia.dali.fn as dali_fn
from nvidia.dali import __version__, types
from nvidia.dali.pipeline import Pipeline

__all__ = ["main"]

_TYPES = {
    "uint8": types.UINT8,
    "uint16": types.UINT16,
    "int16": types.INT16,
    "float16": types.FLOAT16,
    "float32": types.FLOAT,
}
_FILTERS = {
    "nearest": types.INTERP_NN,
    "linear": types.INTERP_LINEAR,
    "cubic": types.INTERP_CUBIC,
    "lanczos3": types.INTERP_LANCZOS3,
    "triangular": types.INTERP_TRIANGULAR,
    "gaussian": types.INTERP_GAUSSIAN,
}
_COLORS = {"RGB": types.RGB, "BGR": types.BGR, "GRAY": types.GRAY, "YCbCr": types.YCbCr}
_NAMED = {"dtype": _TYPES, "interp_type": _FILTERS, "image_type": _COLORS, "output_type": _COLORS}


def main(cases: Path, results: Path) -> None:
    """Run all cases of one file and write their results to the other."""
    given = pickle.loads(cases.read_bytes())
    found = [_attempt(case) for case in given]
    answer = {"version": __version__, "operators": dict(_operators(dali_fn, "")), "results": found}
    results.write_bytes(pickle.dumps(answer))


def _attempt(case: dict[str, Any]) -> Any:
    try:
        return _run(case)
    except Exception as error:  # whatever it is, it is the answer
        return f"{type(error).__name__}: {error}"


def _run(case: dict[str, Any]) -> list[list[Any]]:
    operator = dali_fn
    for part in case["operator"].split("."):
        operator = getattr(operator, part)
    arguments = {name: _NAMED.get(name, {}).get(value, value) for name, value in case["arguments"].items()}
    pipeline = Pipeline(
        batch_size=len(case["inputs"][0]), num_threads=1, device_id=None, seed=case.get("seed", 1)
    )
    with pipeline:
        inputs = [
            _source(samples, layout) for samples, layout in zip(case["inputs"], case["layouts"], strict=True)
        ]
        for name, values in case["per_sample"].items():
            arguments[name] = _source(values)
        for name, values in case["per_frame"].items():
            arguments[name] = dali_fn.per_frame(_source(values))
        outputs = operator(*inputs, **arguments)
        pipeline.set_outputs(*(outputs if isinstance(outputs, (list, tuple)) else (outputs,)))
    pipeline.build()
    return [[output.at(n) for n in range(len(output))] for output in pipeline.run()]


def _source(samples: list[Any], layout: str | None = None) -> Any:
    return dali_fn.external_source(source=lambda: samples, batch=True, layout=layout)


def _operators(module: Any, before: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """Dotted names of all operators, and the defaults of their arguments."""
    for name in dir(module):
        value = getattr(module, name)
        if name.startswith("_") or name == "hidden":
            continue
        if isinstance(value, ModuleType) and value.__name__.startswith(dali_fn.__name__):
            yield from _operators(value, f"{before}{name}.")
        elif callable(value) and not isinstance(value, type):
            yield before + name, dict(_defaults(value))


def _defaults(operator: Any) -> Iterator[tuple[str, Any]]:
    names = {str(value): name for group in _NAMED.values() for name, value in group.items()}
    for argument in inspect.signature(operator).parameters.values():
        if argument.kind is argument.KEYWORD_ONLY:
            plain = isinstance(argument.default, (bool, int, float, str, list, tuple, NoneType))
            yield argument.name, argument.default if plain else names.get(str(argument.default))


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
