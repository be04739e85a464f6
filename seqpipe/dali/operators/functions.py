"""``fn.python_function``, and the same with torch tensors or DLPack capsules: user functions as operators."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any

import numpy as np

from ...array import to_numpy
from ...errors import BackendError, ParameterError, described_type
from ...ops import Run
from ..data_node import outputs_of
from ..declared import DaliCall, built, operator
from ..dtypes import dtype_name
from ..sources.mapped import owned
from ..value import Value

__all__: list[str] = []


@operator("python_function", passes=True)
def _python_function(
    call: DaliCall,
    *,
    function: Any = None,
    num_outputs: int = 1,
    batch_processing: bool = False,
    output_layouts: Any = None,
) -> Any:
    """``fn.python_function``: calls a function with the arrays of each sample, or with lists of all samples."""
    count, whole, layouts = num_outputs, batch_processing, output_layouts
    if not callable(function):
        raise call.wrong(f"function={function!r} is not valid", allowed="a callable")
    call.done()
    each = [layouts] * max(count, 1) if layouts is None or isinstance(layouts, str) else list(layouts)

    def outputs(result: Any, what: str) -> tuple[Any, ...]:
        if count == 1 and not isinstance(result, tuple):
            return (result,)
        if not isinstance(result, (tuple, list)) or len(result) != count:
            got = f"{len(result)} values" if isinstance(result, (tuple, list)) else described_type(result)
            raise ParameterError(
                f"{what} gave {got}", source="fn.python_function", allowed=f"{count} (num_outputs)"
            )
        return tuple(result)

    def compute(values: list[Value], run: Run) -> Any:
        name, values = getattr(function, "__name__", "the function"), list(map(owned, values))
        if whole:
            columns = outputs(function(*(list(value.data) for value in values)), name)
            arrays = [list(column) for column in columns]
        else:
            rows = [
                outputs(function(*row), name)
                for row in (zip(*values, strict=True) if values else [()] * len(run.index))
            ]
            arrays = [list(column) for column in zip(*rows, strict=True)]
        result = tuple(
            Value.of([item if hasattr(item, "dtype") else np.asarray(item) for item in column], each[n] or "")
            for n, column in enumerate(arrays)
        )
        return result if count != 1 else result[0]

    node = call.node(compute)
    return node if count == 1 else outputs_of(node, count)


def _with_arrays_as(
    call: DaliCall, function: Any, whole: bool, given: Callable[[Any], Any], back: Callable[[Any], Any]
) -> Any:
    """Return the nodes of ``fn.python_function`` with a function of another kind of arrays, and of lists of them."""
    if not callable(function):
        raise call.wrong(f"function={function!r} is not valid", allowed="a callable")

    def every(result: Any) -> Any:
        return type(result)(map(every, result)) if isinstance(result, (list, tuple)) else back(result)

    def converted(*arguments: Any) -> Any:
        return every(function(*(list(map(given, a)) if isinstance(a, list) else given(a) for a in arguments)))

    call.args |= {"function": converted, "batch_processing": whole}
    return built("python_function", call)


@operator("torch_python_function", passes=True)
def _torch_function(call: DaliCall, *, function: Any = None, batch_processing: bool = True) -> Any:
    """``fn.torch_python_function``: as ``fn.python_function``, with torch tensors."""
    from ...array import to_torch

    return _with_arrays_as(call, function, batch_processing, to_torch, to_numpy)


@operator("dl_tensor_python_function", passes=True)
def _dlpack_function(call: DaliCall, *, function: Any = None, batch_processing: bool = True) -> Any:
    """``fn.dl_tensor_python_function``: as ``fn.python_function``, with DLPack capsules."""

    def capsule(array: Any) -> Any:
        if isinstance(array, np.ndarray) and not array.flags.writeable:
            array = array.copy()
        return array.__dlpack__()

    def back(result: Any) -> Any:
        return np.from_dlpack(result if hasattr(result, "__dlpack__") else _Capsule(result))

    call.inputs = [operand.cpu() for operand in call.inputs]
    return _with_arrays_as(call, function, batch_processing, capsule, back)


@operator("numba_function", passes=True, accept=("blocks", "threads_per_block"), note="on the CPU only")
def _numba_function(
    call: DaliCall, *, run_fn: Any = None, setup_fn: Any = None, batch_processing: bool = False
) -> Any:
    """``fn.experimental.numba_function``: a function that Numba compiles, and that writes into its first arguments."""
    whole = batch_processing
    kinds = {side: [dtype_name(item) for item in call.take(f"{side}_types", ())] for side in ("in", "out")}
    axes = {side: list(call.take(f"{side}s_ndim", ())) for side in ("in", "out")}
    if call.requested_device == "gpu":
        raise call.wrong("device='gpu' is not available", advice="fn.python_function takes CuPy arrays")
    for side in ("in", "out"):
        if len(kinds[side]) != len(axes[side]):
            raise call.wrong(
                f"{side}_types has {len(kinds[side])} elements, and {side}s_ndim {len(axes[side])}",
                allowed="as many",
            )
    if len(call.inputs) != len(kinds["in"]):
        raise call.wrong(f"{len(call.inputs)} inputs", allowed=f"{len(kinds['in'])} (in_types)")
    call.done()
    compiled = _compiled(run_fn)

    def compute(values: list[Value], _: Run) -> Any:
        values = [owned(entry).on_host() for entry in values]
        for n, value in enumerate(values):
            if (value.dtype.name, value.ndim) != (kinds["in"][n], axes["in"][n]):
                raise ParameterError(
                    f"input {n} has {value.dtype.name} samples of {value.ndim} axes",
                    source="fn.experimental.numba_function",
                    allowed=f"{kinds['in'][n]} of {axes['in'][n]} (in_types, ins_ndim)",
                )
        shapes = [[np.array(shape, np.int64) for shape in value.shapes()] for value in values]
        made: Any = [[np.zeros(count, np.int64) for _ in values[0]] for count in axes["out"]]
        if setup_fn is None:
            made = [shapes[0]] * len(axes["out"])
        else:
            setup_fn(made, shapes)
        outputs = [
            [np.empty(tuple(shape), kind) for shape in each]
            for each, kind in zip(made, kinds["out"], strict=True)
        ]
        columns: list[Any] = [*outputs, *(list(map(np.ascontiguousarray, value)) for value in values)]
        for row in [tuple(map(tuple, columns))] if whole else zip(*columns, strict=True):
            compiled(*row)
        results = tuple(map(Value.of, outputs))
        return results if len(results) > 1 else results[0]

    node = call.node(compute, summary=f"{kinds}")
    return node if len(kinds["out"]) == 1 else outputs_of(node, len(kinds["out"]))


def _compiled(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function compiled by Numba."""
    try:
        numba: Any = import_module("numba")
    except ImportError as error:
        raise BackendError(
            "Numba is not installed", source="fn.experimental.numba_function", advice="pip install numba"
        ) from error
    made: Callable[..., Any] = numba.njit(function)
    return made


class _Capsule:
    """A DLPack capsule of an array in main memory, as an object that NumPy accepts.

    Args:
        capsule: the capsule.
    """

    def __init__(self, capsule: Any) -> None:
        self._capsule = capsule

    def __dlpack__(self, **_: Any) -> Any:
        return self._capsule

    def __dlpack_device__(self) -> tuple[int, int]:
        return 1, 0  # kDLCPU
