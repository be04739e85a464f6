"""Execution of an operator on images: sample by sample on the host, in one launch on a GPU."""

from __future__ import annotations

from collections.abc import Callable
from collections.abc import Sequence as Seq
from itertools import accumulate
from types import ModuleType, SimpleNamespace
from typing import Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt

from ...array import Array, namespace, on_device_of, to_numpy
from ...core.kernel import KernelDevice
from ...core.threads import parallel_for, threads
from ...errors import ParameterError
from ..core.blocks import Block, joined, values_of, values_of_all
from ..core.declaration import Declaration
from ..core.sampling import alike
from ..core.spec import BACKENDS, FLOAT64_DTYPES, KERNEL_DTYPES, Backend, Spec, put
from ..cuda.kernel import Item, cuda_device, run_kernel
from .inputs import has_fast_form

__all__ = [
    "apply_table",
    "check_backend",
    "cuda_device_of",
    "on_device_of",
    "run",
    "run_form",
    "run_on_host",
    "run_same_shape",
]

_TABLE_PAYS: Final = 4096  # from so many values, a table of 256 results is faster than computing each result
_THREADS_PAY: Final = 1 << 20  # from so many values, threads are faster
# frames with more values are processed one by one, so that temporaries stay in the cache
_MAX_CACHED_VALUES: Final = 1 << 16
# comparing dtypes is faster than asking for their names
_FLOAT64: Final = frozenset(map(np.dtype, FLOAT64_DTYPES))

BackendForm: TypeAlias = Callable[[Array, Any], Array]


def run(
    op: Declaration,
    items: Seq[Item],
    specs: Seq[Spec],
    block: Block,
    backend: Backend | None = None,
    device: KernelDevice | None = None,
) -> None:
    """Write the results of an operator."""
    on_cpu = isinstance(items[0].x, np.ndarray)
    if not has_fast_form(op, items[0].x.dtype, items[0].out.dtype):
        if backend == "cuda":
            types = " and ".join(sorted({items[0].x.dtype.name, items[0].out.dtype.name} - {*KERNEL_DTYPES}))
            raise op.refusal(
                f"a kernel for {types}",
                allowed=", ".join(KERNEL_DTYPES),
                advice="Pass backend=None, which computes these dtypes by the reference",
            )
        if not on_cpu and (op.traits.body or op.traits.composed) and backend is None:
            _run_through_main_memory(op, items, block)
            return
        backend = "reference"
    has_kernel = op.traits.body or op.traits.composed
    backend = backend or ("cpu" if on_cpu else "cuda" if has_kernel else "reference")
    if backend != "cuda":
        for item in items:
            run_on_host(op, item, block, fast=backend == "cpu")
        return
    if op.traits.body is None:
        op.compose(items, specs, block, device)
    else:
        run_kernel(op, items, _kernel_block(op, specs, block), device or cuda_device_of(items[0].x))


def _run_through_main_memory(op: Declaration, items: Seq[Item], block: Block) -> None:
    """Compute images on a GPU whose dtype kernels do not support by the reference in main memory.

    The reference of an operator with a kernel may not support CuPy arrays.
    """
    for item in items:
        host_item = Item(to_numpy(item.x), np.empty(item.out.shape, item.out.dtype), item.sample)
        run_on_host(op, host_item, block, fast=False)
        item.out[...] = namespace(item.out).asarray(host_item.out)


def check_backend(backend: Backend | None, source: str) -> None:
    """Check the name of a backend."""
    if backend is not None and backend not in BACKENDS:
        raise ParameterError(
            f"backend={backend!r} is not valid",
            source=source,
            allowed=f"{', '.join(map(repr, BACKENDS))} or None",
        )


def cuda_device_of(array: Array) -> KernelDevice:
    """Return the GPU that holds an array."""
    if isinstance(array, np.ndarray):
        raise ParameterError(
            "backend='cuda' for an array in main memory",
            allowed="arrays on a GPU",
            advice="Move it there first",
        )
    return cuda_device(int(array.device.id))


def _kernel_block(op: Declaration, specs: Seq[Spec], block: Block) -> Block:
    """Return the rows that a kernel gets: for each sample one, or one for each frame of its result."""
    constant = block.constant
    if constant is not None:
        rows = constant.for_kernel(op, specs[0])
        return Block(rows, block.first, int(len(rows) > 1))
    if (op.traits.keeps_frames or op.traits.rows_together) and not block.constants and alike(specs):
        rows = op.kernel_rows(block.rows, specs[0])
        if op.traits.keeps_frames:
            return Block(rows, block.first, block.step)
        of_sample = len(rows) // len(specs)
        return Block(rows, tuple(range(0, len(rows), of_sample)), int(of_sample > 1))
    parts = [
        block.constants[sample].for_kernel(op, spec)
        if block.constants
        else op.kernel_rows(block.of(sample, spec.frames), spec)
        for sample, spec in enumerate(specs)
    ]
    counts = [len(part) for part in parts]
    return Block(joined(parts), tuple(accumulate(counts, initial=0))[:-1], int(max(counts) > 1))


def run_on_host(op: Declaration, item: Item, block: Block, *, fast: bool) -> None:
    """Write the results of an operator, sample by sample."""
    form, count = op.cpu if fast else op.reference, item.x.shape[0]

    def compute(number: int) -> None:
        x, out, sample = item.x[number], item.out[number], item.sample + number
        if block.constants:
            run_form(op, form, x, out, block.constants[sample].p, fast=fast)
            return
        rows = block.of(sample, len(x))
        if len(rows) == 1 or not op.traits.keeps_frames:
            run_form(op, form, x, out, values_of_all(rows), fast=fast)
            return
        for frame, row in enumerate(rows):
            run_form(op, form, x[frame : frame + 1], out[frame : frame + 1], values_of(row), fast=fast)

    if fast and count > 1 and _uses_threads(op, item.x) and count >= threads():
        parallel_for(compute, count)
        return
    # indexing is faster than iterating over pairs of arrays
    for index in range(count):
        compute(index)


def _computed(x: Array) -> Array:
    """Return values in the dtype that references get: float32, or float64 if float32 is not exact."""
    return x.astype(np.float64 if x.dtype in _FLOAT64 else np.float32)


def _uses_threads(op: Declaration, x: Array) -> bool:
    """Return whether to use threads: for large input, and for builtin operators, which keep no state."""
    return op.traits.is_builtin and x.size >= _THREADS_PAY and not op.traits.threads_within


def run_form(
    op: Declaration, form: BackendForm, x: Array, out: Array, p: SimpleNamespace, *, fast: bool
) -> None:
    """Write the results of images with the same parameters, or of a sequence whose frames move."""
    if (
        fast
        and op.traits.keeps_frames
        and len(x) > 1
        and x[0].size > _MAX_CACHED_VALUES
        and not op.prefers_batch(x, p)
    ):

        def compute(frame: int) -> None:
            run_form(op, form, x[frame : frame + 1], out[frame : frame + 1], p, fast=fast)

        if _uses_threads(op, x):
            parallel_for(compute, len(x))
            return
        for frame in range(len(x)):
            compute(frame)
    else:
        _write(op, out, _compute(op, form, x, out.dtype, p, fast=fast))


def run_same_shape(op: Declaration, form: BackendForm, x: Array, p: SimpleNamespace, *, fast: bool) -> Array:
    """Return the results of images with the same parameters, by a builtin operator that keeps their size and dtype."""
    if len(x) > 1:  # run_form may process frame by frame
        out = namespace(x).empty(x.shape, x.dtype)
        run_form(op, form, x, out, p, fast=fast)
        return out
    result = _compute(op, form, x, x.dtype, p, fast=fast)
    if result.dtype == x.dtype:
        return result
    out = namespace(x).empty(x.shape, x.dtype)
    put(out, result)
    return out


def _compute(
    op: Declaration, form: BackendForm, x: Array, dtype: np.dtype[Any], p: SimpleNamespace, *, fast: bool
) -> Array:
    """Call an implementation; return floats, or values of the dtype of the result."""
    if not isinstance(x, np.ndarray):
        p = _vectors_on_device(p, namespace(x))
    protected = x if op.traits.is_builtin else _read_only(x)
    if not op.traits.keeps_frames:
        raw = op.traits.values == "moved" or (fast and op.traits.takes_raw)
        return form(protected if raw else _computed(x), p)
    if op.traits.values == "moved":
        return form(protected, p) if p.acts else x
    if not p.acts:
        return _computed(x)
    if fast and op.traits.takes_raw:
        return form(protected, p)
    if fast and op.traits.pointwise and x.size > _TABLE_PAYS and x.dtype == np.uint8:
        return _by_table(op, x, dtype, p)
    return form(x.astype(np.float32) if fast else _computed(x), p)


def _read_only(x: Array) -> Array:
    """Return a read-only view of images in main memory."""
    if isinstance(x, np.ndarray):
        x = x.view()
        x.flags.writeable = False
    return x


def _write(op: Declaration, out: Array, values: Any) -> None:
    """Write what an implementation returned, after a check: NumPy would broadcast wrong shapes."""
    fits = type(values) is type(out) and values.shape == out.shape
    if not (fits and (values.dtype.kind == "f" or values.dtype == out.dtype)):
        alike = type(values) is type(out)
        kinds = [f"{kind.__module__.partition('.')[0]}.{kind.__name__}" for kind in (type(values), type(out))]
        raise op.refusal(
            f"it returns {f'{values.dtype} of shape {values.shape}' if alike else f'a {kinds[0]}'}",
            allowed=f"a {kinds[1]} of shape {out.shape}, of floats or {out.dtype}",
        )
    put(out, values)


def _by_table(
    op: Declaration, x: npt.NDArray[Any], dtype: np.dtype[Any], p: SimpleNamespace
) -> npt.NDArray[Any]:
    """Compute uint8 images by a table of the results of all 256 values."""
    values = np.arange(256, dtype=np.float32).reshape(1, 256, 1, 1)
    table = np.empty(values.shape, dtype)
    _write(op, table, op.cpu(values, p))
    return apply_table(x, table.reshape(256))


def apply_table(x: npt.NDArray[Any], table: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Return uint8 images ``(F, H, W, C)`` with each value replaced by its entry in a table."""
    if x.size <= _TABLE_PAYS or not x.flags.c_contiguous:
        return table.take(x)
    import cv2

    lines = x.reshape(-1, x.shape[-2] * x.shape[-1])
    result: npt.NDArray[Any] = cv2.LUT(lines, table).reshape(x.shape)
    return result


def _vectors_on_device(p: SimpleNamespace, library: ModuleType) -> SimpleNamespace:
    """Return parameters for images on a GPU, with vectors copied there."""
    values = vars(p).items()
    return type(p)(**{name: library.asarray(v) if np.ndim(v) else v for name, v in values})
