"""``python -m seqpipe.dali`` lists DALI 2.4's names: which are the same, which differ, what replaces others.

With each stands the share of public programs that use it (:mod:`seqpipe.dali.names`).
"""

from __future__ import annotations

import importlib
import sys
from types import ModuleType
from typing import Any, Final

from ..errors import SeqpipeError
from .names import DALI_NAMES, PROGRAMS
from .table import ALIASES, row_of

__all__ = ["known_lines", "shares", "table_text"]

_DIFFERS: Final = {
    "Pipeline.deserialize": "texts of seqpipe's own format; those of DALI are refused",
    "Pipeline.executor_statistics": "times of seqpipe's stages",
    "Pipeline.release_outputs": "without effect: outputs are valid while they are referenced",
    "Pipeline.serialize": "text of seqpipe's own format, with the calls of operators and no functions",
    "Pipeline.start_py_workers": "without effect: workers start when they are needed",
    "auto_aug.auto_augment.get_image_net_policy": "the policy that torchvision publishes",
    "plugin.triton.autoserialize": "returns the definition: DALI's backend of Triton runs DALI's own format alone",
    "types.STRING": "a name alone: samples are arrays of numbers",
    **dict.fromkeys(
        (
            *("OperatorConcurrency", "StreamPolicy", "Pipeline.concurrency", "Pipeline.stream_policy"),
            "Pipeline.default_cuda_stream_priority",
        ),
        "accepted without effect: there is one executor",
    ),
}
_INSTEAD: Final = {
    "Pipeline.deserialize_and_build": "Pipeline.deserialize(text)",
    "Pipeline.external_source_shm_statistics": "pipe.executor_statistics()",
    "Pipeline.enable_api_check": "calls are always checked",
    "Pipeline.add_sink": "return the node as an output",
    "Pipeline.output_stream": "outputs are ready for the default stream",
    "types.CUDAStream": "the current stream of CuPy or torch",
    "types.ConstantNode": "types.Constant, which returns a node",
    "tensors": "np.asarray(tensor), which NumPy's functions take",
    "experimental.dynamic": "calls compute at once, without capture; torch tensors by tensor.torch()",
    "experimental.torchvision": "torchvision.transforms.v2, on pipe.run()[0].as_tensor()",
    "plugin.jax.fn": "fn.python_function, on NumPy or CuPy arrays",
    "plugin.pytorch.experimental.proxy": "DALIGenericIterator, in the process that trains",
    "plugin.jax.clu": "plugin.jax.DALIGenericIterator",
    "plugin.paddle": "NumPy arrays of pipe.run()",
    "types": "the names of numbers, such as types.UINT8",
}
"""What replaces a name, or those of a module."""


def _found(module: str, name: str) -> Any:
    """Return what a name of a module or class of DALI stands for here."""
    if module == "Pipeline":
        from .pipeline import Pipeline

        return getattr(Pipeline(1, 1, None), name)
    place: Any = sys.modules[__package__ or "seqpipe.dali"]
    for step in filter(None, module.split(".")):
        if isinstance(place, ModuleType) and not hasattr(place, step):
            importlib.import_module(f"{place.__name__}.{step}")
        place = getattr(place, step)
    return getattr(place, name)


def _operator_line(name: str) -> tuple[str, list[str]]:
    """Return the state of an operator, and the differences or the alternative."""
    row = row_of(name)
    if row is None:
        return "no", ["fn.python_function(x, function=…) runs your own code"]
    if row.why:
        return "no", [row.why]
    notes = [f"{argument}: {why}" for argument, why in sorted(row.refuse.items())]
    return "differs" if notes or row.note else "same", [row.note, *notes] if row.note else notes


def _line(module: str, name: str) -> tuple[str, list[str]]:
    """Return the state of another name, and the differences or the alternative."""
    full_name = f"{module}.{name}" if module else name
    try:
        _found(module, name)
    except SeqpipeError as error:
        return "no", [error.advice or error.fact]
    except (AttributeError, ImportError):
        places = [full_name, module, module.rpartition(".")[0]]
        return "no", [next((_INSTEAD[place] for place in places if place in _INSTEAD), "")]
    note = _DIFFERS.get(full_name)
    return ("differs", [note]) if note else ("same", [])


def shares() -> dict[str, float]:
    """Return for each name of DALI the share of public programs that use it, from 0 to 1."""
    counted = {}
    for module, names in DALI_NAMES.items():
        for word in names.split():
            name, _, count = word.partition("=")
            counted[f"{module}.{name}" if module else name] = int(count or 0) / PROGRAMS
    return counted


def known_lines() -> dict[str, tuple[str, str]]:
    """Return for each name of DALI its state, "same", "differs" or "no", and what differs or replaces it."""
    lines = {}
    for full_name in shares():
        module, _, name = full_name.rpartition(".")
        is_operator = module.partition(".")[0] == "fn"
        state, notes = _operator_line(full_name[3:]) if is_operator else _line(module, name)
        lines[full_name] = state, "; ".join(filter(None, notes))
    for older, name in ALIASES.items():
        state, notes = _operator_line(older)
        lines[f"fn.{older}"] = state, "; ".join([*notes, f"older name of {name}"])
    return lines


def table_text() -> str:
    """Return a line for each name: the name; the share of programs; same, differs or no; differences or alternative."""
    used = shares()
    rows = [
        f"{name:<48} {used.get(name, 0):>4.0%} {state:<8} {notes}".rstrip()
        for name, (state, notes) in known_lines().items()
    ]
    return "\n".join(rows)


if __name__ == "__main__":
    sys.stdout.write(table_text() + "\n")
