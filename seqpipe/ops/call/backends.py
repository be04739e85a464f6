"""Images and a block of parameters in, results out: on the host sample by sample, on a GPU in one launch."""

from __future__ import annotations

from collections.abc import Callable
from collections.abc import Sequence as Seq
from itertools import accumulate
from types import ModuleType, SimpleNamespace
from typing import Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt

from ...array import Array, namespace, on_device_of, to_numpy
from ...errors import ParameterError
from ...kernel import KernelDevice
from ..core.blocks import Block, joined, values_of, values_of_all
from ..core.declaration import Declaration
from ..core.rounding import put
from ..core.sampling import alike
from ..core.spec import BACKENDS, FAST, WIDE, Backend, Spec
from ..cuda.kernel import Item, cuda_device, run_kernel
from .inputs import has_fast_form
from .threads import side_by_side, threads

__all__ = [
    "applied",
    "check_backend",
    "cuda_device_of",
    "looked_up",
    "on_device_of",
    "on_host",
    "on_images",
    "run",
]

_TABLE_PAYS: Final = 4096  # values from which a table of 256 results is quicker than the results themselves
_SHARED: Final = 1 << 20  # values from which threads pay
_CACHED: Final = 1 << 16  # values of a frame from which what is between must be small to stay in the cache
# to ask a type for its name takes longer than to look for it among others
_WIDE: Final = frozenset(map(np.dtype, WIDE))

BackendForm: TypeAlias = Callable[[Array, Any], Array]


def run(
    op: Declaration,
    items: Seq[Item],
    specs: Seq[Spec],
    block: Block,
    backend: Backend | None = None,
    device: KernelDevice | None = None,
) -> None:
    """Write an operator's results.

    Args:
        op: the operator.
        items: images and the memory of their results, on one device and of one type.
        specs: the samples.
        block: their parameters.
        backend: who does it; None for the kernel on a GPU, and for the fast form on the CPU.
        device: what the kernel runs on; None for the GPU that holds the images.
    """
    here = isinstance(items[0].x, np.ndarray)
    if not has_fast_form(op, items[0].x.dtype, items[0].out.dtype):
        if backend == "cuda":
            types = " and ".join(sorted({items[0].x.dtype.name, items[0].out.dtype.name} - {*FAST}))
            raise ParameterError(
                f"a kernel for {types}",
                source=op.name,
                allowed=", ".join(FAST),
                advice="Give backend=None, which does these by the reference",
            )
        if not here and (op.traits.body or op.traits.composed) and backend is None:
            _through_main_memory(op, items, block)
            return
        backend = "reference"
    backend = backend or ("cpu" if here else "cuda" if op.traits.body or op.traits.composed else "reference")
    if backend != "cuda":
        for item in items:
            on_host(op, item, block, fast=backend == "cpu")
        return
    if op.traits.body is None:
        op.compose(items, specs, block, device)
    else:
        run_kernel(op, items, _kernel_block(op, specs, block), device or cuda_device_of(items[0].x))


def _through_main_memory(op: Declaration, items: Seq[Item], block: Block) -> None:
    """Write the results of images on a GPU, of a type that kernels do not have, by the reference in main memory.

    Where an operator has a kernel, its reference need not run on CuPy's arrays.
    """
    for item in items:
        made = Item(to_numpy(item.x), np.empty(item.out.shape, item.out.dtype), item.sample)
        on_host(op, made, block, fast=False)
        item.out[...] = namespace(item.out).asarray(made.out)


def check_backend(backend: Backend | None, source: str) -> None:
    """Refuse a backend that is none.

    Args:
        backend: what was given.
        source: the operator it was given to, for the message.

    Raises:
        ParameterError: there is no such backend.
    """
    if backend is not None and backend not in BACKENDS:
        raise ParameterError(
            f"backend={backend!r} is not valid",
            source=source,
            allowed=f"{', '.join(map(repr, BACKENDS))} or None",
        )


def cuda_device_of(array: Array) -> KernelDevice:
    """The GPU that holds an array.

    Raises:
        ParameterError: it is in main memory.
    """
    if isinstance(array, np.ndarray):
        raise ParameterError(
            "backend='cuda' for an array in main memory",
            allowed="arrays on a GPU",
            advice="Move it there first",
        )
    return cuda_device(_number(array))


def _number(array: Array) -> int:
    return int(array.device.id)


def _kernel_block(op: Declaration, specs: Seq[Spec], block: Block) -> Block:
    """The rows that a kernel is given: for each sample one, or one for each frame of its result."""
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


def on_host(op: Declaration, item: Item, block: Block, *, fast: bool) -> None:
    """Write an operator's results, sample by sample.

    Args:
        op: the operator.
        item: images and the memory of their results.
        block: the parameters.
        fast: whether by its form for CPUs, instead of the reference.
    """
    form, count = op.cpu if fast else op.reference, item.x.shape[0]

    def make(place: int) -> None:
        x, out, sample = item.x[place], item.out[place], item.sample + place
        if block.constants:
            on_images(op, form, x, out, block.constants[sample].p, fast=fast)
            return
        rows = block.of(sample, len(x))
        if len(rows) == 1 or not op.traits.keeps_frames:
            on_images(op, form, x, out, values_of_all(rows), fast=fast)
            return
        for frame, row in enumerate(rows):
            on_images(op, form, x[frame : frame + 1], out[frame : frame + 1], values_of(row), fast=fast)

    if fast and count > 1 and _share(op, item.x) and count >= threads():
        side_by_side(make, count)
        return
    # to enumerate pairs takes longer than to make a view of each
    for place in range(count):
        make(place)


def _computed(x: Array) -> Array:
    """Values as references are given them: in float32, or in float64 if that does not hold them."""
    return x.astype(np.float64 if x.dtype in _WIDE else np.float32)


def _share(op: Declaration, x: Array) -> bool:
    """Whether threads share the work: where there is much, and by operators of seqpipe, whose forms keep nothing."""
    return op.traits.of_seqpipe and x.size >= _SHARED and not op.traits.threads_within


def on_images(
    op: Declaration, form: BackendForm, x: Array, out: Array, p: SimpleNamespace, *, fast: bool
) -> None:
    """Write the results of images with the same parameters, or of a sequence whose frames move.

    Args:
        op: the operator.
        form: what it is done by, of the operator's reference and its form for CPUs.
        x: the images.
        out: the memory of their results.
        p: the parameters.
        fast: whether it is the form for CPUs.
    """
    if fast and op.traits.keeps_frames and len(x) > 1 and x[0].size > _CACHED and not op.at_once(x, p):

        def make(frame: int) -> None:
            on_images(op, form, x[frame : frame + 1], out[frame : frame + 1], p, fast=fast)

        if _share(op, x):
            side_by_side(make, len(x))
            return
        for frame in range(len(x)):
            make(frame)
    else:
        _write(op, out, _made(op, form, x, out.dtype, p, fast=fast))


def applied(op: Declaration, form: BackendForm, x: Array, p: SimpleNamespace, *, fast: bool) -> Array:
    """The results of images with the same parameters, by an operator of seqpipe's own that keeps their size and type.

    Args:
        op: the operator; what it makes is not looked at.
        form: as :func:`on_images` takes it, and likewise the others.
        x: the images.
        p: the parameters.
        fast: whether it is the form for CPUs.

    Returns:
        Memory of their own, or that of the images if nothing changes.
    """
    if len(x) > 1:  # perhaps frame by frame
        out = namespace(x).empty(x.shape, x.dtype)
        on_images(op, form, x, out, p, fast=fast)
        return out
    made = _made(op, form, x, x.dtype, p, fast=fast)
    if made.dtype == x.dtype:
        return made
    out = namespace(x).empty(x.shape, x.dtype)
    put(out, made)
    return out


def _made(
    op: Declaration, form: BackendForm, x: Array, dtype: np.dtype[Any], p: SimpleNamespace, *, fast: bool
) -> Array:
    """What a form makes: floats, or values of the type of the result."""
    if not isinstance(x, np.ndarray):
        p = _there(p, namespace(x))
    lent = x if op.traits.of_seqpipe else _lent(x)
    if not op.traits.keeps_frames:
        raw = op.traits.values == "moved" or (fast and op.traits.takes_raw)
        return form(lent if raw else _computed(x), p)
    if op.traits.values == "moved":
        return form(lent, p) if p.acts else x
    if not p.acts:
        return _computed(x)
    if fast and op.traits.takes_raw:
        return form(lent, p)
    if fast and op.traits.pointwise and x.size > _TABLE_PAYS and x.dtype == np.uint8:
        return _by_table(op, x, dtype, p)
    return form(x.astype(np.float32) if fast else _computed(x), p)


def _lent(x: Array) -> Array:
    """Images that are not an operator's to change."""
    if isinstance(x, np.ndarray):
        x = x.view()
        x.flags.writeable = False
    return x


def _write(op: Declaration, out: Array, made: Any) -> None:
    """Write what a form of an operator made; NumPy would repeat what is too little, and give none of the names.

    Raises:
        ParameterError: it is not an array where the images are, of another shape, or neither floats nor of the type of
            the result.
    """
    fits = type(made) is type(out) and made.shape == out.shape
    if not (fits and (made.dtype.kind == "f" or made.dtype == out.dtype)):
        alike = type(made) is type(out)
        kinds = [f"{kind.__module__.partition('.')[0]}.{kind.__name__}" for kind in (type(made), type(out))]
        raise ParameterError(
            f"it makes {f'{made.dtype} of shape {made.shape}' if alike else f'a {kinds[0]}'}",
            source=op.name,
            allowed=f"a {kinds[1]} of shape {out.shape}, of floats or {out.dtype}",
        )
    put(out, made)


def _by_table(
    op: Declaration, x: npt.NDArray[Any], dtype: np.dtype[Any], p: SimpleNamespace
) -> npt.NDArray[Any]:
    """Images of 8 bits by the results of all 256 levels."""
    levels = np.arange(256, dtype=np.float32).reshape(1, 256, 1, 1)
    table = np.empty(levels.shape, dtype)
    _write(op, table, op.cpu(levels, p))
    return looked_up(x, table.reshape(256))


def looked_up(x: npt.NDArray[Any], table: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Images of 8 bits ``(F, H, W, C)`` by the results of all 256 levels."""
    if x.size <= _TABLE_PAYS or not x.flags.c_contiguous:
        return table.take(x)
    import cv2

    lines = x.reshape(-1, x.shape[-2] * x.shape[-1])
    found: npt.NDArray[Any] = cv2.LUT(lines, table).reshape(x.shape)
    return found


def _there(p: SimpleNamespace, library: ModuleType) -> SimpleNamespace:
    """Parameters for images on a GPU: numbers as they are, vectors there."""
    values = vars(p).items()
    return type(p)(**{name: library.asarray(v) if np.ndim(v) else v for name, v in values})
