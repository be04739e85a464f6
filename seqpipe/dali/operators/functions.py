"""``fn.python_function``, and the same with torch tensors or DLPack capsules: user functions as operators."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...array import to_numpy
from ...errors import ParameterError, described_type
from ...ops import Run
from ..call import DaliCall
from ..data_node import outputs_of
from ..mapped import owned
from ..value import Value

__all__ = ["dlpack_function", "python_function", "torch_function"]


def python_function(call: DaliCall) -> Any:
    """``fn.python_function``: calls a function with the arrays of each sample, or with lists of all samples."""
    function, count = call.take("function"), int(call.take("num_outputs", 1))
    whole, layouts = bool(call.take("batch_processing", False)), call.take("output_layouts")
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
            parts = [list(column) for column in columns]
        else:
            rows = [
                outputs(function(*row), name)
                for row in (zip(*values, strict=True) if values else [()] * len(run.index))
            ]
            parts = [list(column) for column in zip(*rows, strict=True)]
        result = tuple(
            Value.of([one if hasattr(one, "dtype") else np.asarray(one) for one in column], each[n] or "")
            for n, column in enumerate(parts)
        )
        return result if count != 1 else result[0]

    node = call.node(compute, summary=getattr(function, "__qualname__", repr(type(function))))
    return node if count == 1 else outputs_of(node, count)


def torch_function(call: DaliCall) -> Any:
    """``fn.torch_python_function``: as ``fn.python_function``, with torch tensors."""
    from ...array import to_torch

    function, whole = call.args.get("function"), bool(call.args.get("batch_processing", True))
    if not callable(function):
        raise call.wrong(f"function={function!r} is not valid", allowed="a callable")

    def back(result: Any) -> Any:
        if isinstance(result, (list, tuple)):
            return type(result)(back(one) for one in result)
        return to_numpy(result)

    def converted(*arguments: Any) -> Any:
        tensors = [
            [to_torch(one) for one in part] if isinstance(part, list) else to_torch(part)
            for part in arguments
        ]
        return back(function(*tensors))

    call.args |= {"function": converted, "batch_processing": whole}
    return python_function(call)


def dlpack_function(call: DaliCall) -> Any:
    """``fn.dl_tensor_python_function``: as ``fn.python_function``, with DLPack capsules."""
    function, whole = call.args.get("function"), bool(call.args.get("batch_processing", True))
    if not callable(function):
        raise call.wrong(f"function={function!r} is not valid", allowed="a callable")

    def capsule(array: Any) -> Any:
        if isinstance(array, np.ndarray) and not array.flags.writeable:
            array = array.copy()
        return array.__dlpack__()

    def back(result: Any) -> Any:
        if isinstance(result, (list, tuple)):
            return type(result)(back(one) for one in result)
        return np.from_dlpack(result if hasattr(result, "__dlpack__") else _Capsule(result))

    def converted(*arguments: Any) -> Any:
        capsules = [[capsule(a) for a in one] if isinstance(one, list) else capsule(one) for one in arguments]
        return back(function(*capsules))

    call.inputs = [one.cpu() for one in call.inputs]
    call.args |= {"function": converted, "batch_processing": whole}
    return python_function(call)


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
