"""Gathers: volumes resampled through a mapping, by C if there is a compiler, by NumPy without, or by CUDA.

There is one set of interpolations and one rule for borders; the precision of positions and sums is a choice. In
single precision, results differ from those in double precision by about 1e-5 of the range of values, and halves of
integers may be rounded to the other side. Operators use it, for speed. Grids of files use double precision
(``volume/regrid.py``): as in SciPy and SimpleITK, float64 values keep theirs, and a window has the values of the whole.
"""

from __future__ import annotations

import ctypes
import math
import struct
from collections.abc import Callable, Iterator
from collections.abc import Sequence as Seq
from functools import cache
from importlib import import_module
from typing import Any, Final, Literal, NamedTuple, TypeAlias, get_args

import numpy as np
import numpy.typing as npt

from ..array import Array, FloatArray, address_of, namespace
from ..core.kernel import KernelDevice
from ..core.native import load_functions
from ..core.padding import FillMode, indices_at
from ..core.threads import parallel_for, threads
from .launch import KernelForm, launch_controls, launch_gathers, mapping_form
from .mapping import IDENTITY, DrawnControl, Extent, Lattice, Mapping3
from .reference import reference_gather

__all__ = [
    "INTERPOLATIONS",
    "BatchMemory",
    "Gather",
    "Interpolation",
    "as_type",
    "gather",
    "gather_coefficients",
    "gathers",
    "permuted_voxels",
    "work_row",
]

Interpolation: TypeAlias = Literal["nearest", "linear", "cubic", "vote", "bspline"]
INTERPOLATIONS: Final[tuple[Interpolation, ...]] = get_args(Interpolation)
"""Interpolations; C and CUDA number them by their index here."""

_TYPES: Final = ("uint8", "int8", "uint16", "int16", "float32", "int32", "int64", "float64")
_NUMBERS: Final = {np.dtype(name): number for number, name in enumerate(_TYPES)}
_AS: Final = {"bool": "uint8", "uint32": "int64", "uint64": "int64"}
_BY_POSITIONS: Final = 3  # a kernel's number of mappings that are tables of positions
_TAPS: Final[dict[Interpolation, int]] = {
    "nearest": 1,
    "linear": 2,
    "cubic": 4,
    "bspline": 4,
}  # along an axis
_SLABS: Final = 4  # for each thread, so that none waits long for the last one
_THREADS_PAY: Final = 1 << 15  # from so many voxels of the result, threads are faster
_MATRIX: Final = 3 * 4 * 8  # bytes
_PAD: Final = 12  # voxels added at each border before the prefilter of a spline, as in SciPy
_POLE: Final = 3.0**0.5 - 2.0  # of the prefilter
# struct work of gather.c and gather.cu; a structured array of NumPy takes ten times as long to fill
_WORK: Final = struct.Struct(f"4Q22q{_MATRIX}s{_MATRIX}s4d")


def gather(
    volume: Array,
    mapping: Mapping3,
    interpolation: Interpolation,
    fill: float | FillMode | None,
    *,
    positions: Array | None = None,
    reference: bool = False,
    device: Any = None,
    double: bool = False,
) -> Array:
    """Resample a volume through a mapping.

    Args:
        volume: ``(D, H, W, C)``, any strides; NumPy, or CuPy for a GPU.
        mapping: from the result to the volume.
        interpolation: interpolation between voxels; ``"vote"`` for labels; ``"bspline"`` for the cubic spline
            through all voxels, as SciPy's order 3.
        fill: value outside the volume, interpolated with voxels at its border; None repeats the border. Of a mapping
            that only permutes voxels, also the name of another way to pad.
        positions: float32 ``(D, H, W, 3)``, used instead of the mapping.
        reference: whether to use NumPy even if a faster implementation is available.
        device: device of the kernel; None for NumPy and C.
        double: whether positions and sums are float64 in C as well, and integers of 32 bits and more and float64 are
            mixed as float64; only without a device.

    Returns:
        A new array of the same dtype, with the memory order of the volume. Integers are rounded half to even and
        saturated.
    """
    if device is not None:
        return gathers([Gather(volume, mapping, interpolation, fill, positions)], device)[0]
    if positions is None and (permuted := permuted_voxels(volume, mapping, fill)) is not None:
        return permuted.copy()
    job = _readable(Gather(volume, mapping, interpolation, fill, positions), double=double)
    return as_type(gather_coefficients(job, reference=reference, double=double), volume.dtype)


def gather_coefficients(job: Gather, *, reference: bool = False, double: bool = False) -> npt.NDArray[Any]:
    """Gather in main memory; the values of a spline are its coefficients, of which :func:`gather` computes them."""
    out: npt.NDArray[Any] = _empty_like(job.volume, job.mapping.size)
    function = None if reference else _in_c(double)
    if function is None:
        out[...] = reference_gather(*job[:5])
    else:
        _run_in_c(function, job, out, double=double)
    return out


class BatchMemory:
    """Memory for the results of a call, in which the results of each part are contiguous.

    Args:
        samples: number of samples.
    """

    def __init__(self, samples: int) -> None:
        self._samples = samples
        self._free: dict[str, tuple[Any, Iterator[Array]]] = {}

    def allocate(self, part: str, volume: Array, size: Extent) -> Array:
        """Return memory for a result ``(D, H, W, C)``, separate if sizes or dtypes differ; see :func:`_empty_like`."""
        form = size, volume.shape[3], volume.dtype, _is_planar(volume)
        if part not in self._free:
            self._free[part] = form, self._results(volume, size)
        same, free = self._free[part]
        result = next(free, None) if form == same else None
        return _empty_like(volume, size) if result is None else result

    def _results(self, volume: Array, size: Extent) -> Iterator[Array]:
        """Return empty arrays ``DHWC`` for the results, in one array in memory."""
        xp, channels = namespace(volume), volume.shape[3]
        if _is_planar(volume):
            planes = xp.empty((self._samples, channels, *size), volume.dtype)
            return iter(planes.transpose(0, 2, 3, 4, 1))
        return iter(xp.empty((self._samples, *size, channels), volume.dtype))


class Gather(NamedTuple):
    """One of several gathers; see :func:`gather`.

    Attributes:
        volume: the volume to read.
        mapping: from the result to it.
        interpolation: interpolation between voxels.
        fill: the value outside, or None.
        positions: used instead of the mapping.
        allocate: allocates memory for the result; None for a new array.
    """

    volume: Array
    mapping: Mapping3
    interpolation: Interpolation
    fill: Any
    positions: Array | None = None
    allocate: Callable[[Array, Extent], Array] | None = None


def gathers(jobs: Seq[Gather], device: KernelDevice) -> list[Array]:
    """Gather volumes on a GPU, in one launch for all of the same dtype and interpolation."""
    results: dict[int, Array] = {}
    todo: list[tuple[int, Gather]] = []
    for number, job in enumerate(jobs):
        if job.positions is None and job.mapping.permutation is not None:
            if (
                isinstance(job.fill, str)
                or job.volume.dtype not in _NUMBERS
                or job.volume.dtype == np.float64
            ):
                permuted = permuted_voxels(*job[:2], job.fill)
                assert permuted is not None  # the mapping is a permutation
                results[number] = permuted.copy()
                continue
            job = job._replace(interpolation="nearest")
        todo.append((number, _readable(job)))
    outs = [(job.allocate or _empty_like)(job.volume, job.mapping.size) for _, job in todo]
    fields = {id(job.mapping.lattice): job.mapping.lattice for _, job in todo if job.positions is None}
    lattices, kept = _on_device([field for field in fields.values() if field is not None], device, outs)
    rows = []
    for (_, job), out in zip(todo, outs, strict=True):
        if job.positions is not None:
            job = job._replace(positions=namespace(job.volume).asarray(job.positions))
            kept.append(job.positions)
        form = KernelForm(
            _NUMBERS[job.volume.dtype],
            INTERPOLATIONS.index(job.interpolation),
            mapping_form(job.mapping) if job.positions is None else _BY_POSITIONS,
        )
        rows.append((form, job.mapping.size, work_row(job, out, lattices.get(id(job.mapping.lattice), 0))))
    if rows:
        launch_gathers(device, rows, outs[0])
    for (number, _), out in zip(todo, outs, strict=True):
        results[number] = as_type(out, jobs[number].volume.dtype)
    del kept, todo  # CuPy frees memory in stream order
    return [results[number] for number in range(len(jobs))]


def _on_device(
    fields: Seq[Lattice], device: KernelDevice, like: Seq[Array]
) -> tuple[dict[int, int], list[Array]]:
    """Return the addresses of control points where results are, by the fields' identities, and the memory to keep."""
    addresses_by_field: dict[int, int] = {}
    kept: list[Array] = []
    drawn = [(id(field), field.points) for field in fields if isinstance(field.points, DrawnControl)]
    if drawn:
        every, addresses = launch_controls(device, [points for _, points in drawn], like[0])
        addresses_by_field |= zip([number for number, _ in drawn], addresses, strict=True)
        kept.append(every)
    stored = [(id(field), field.points) for field in fields if not isinstance(field.points, DrawnControl)]
    if stored:
        every = namespace(like[0]).asarray(np.concatenate([points.ravel() for _, points in stored]))
        at = address_of(every)
        for number, points in stored:
            addresses_by_field[number] = at
            at += points.nbytes
        kept.append(every)
    return addresses_by_field, kept


def _is_planar(volume: Array) -> bool:
    """Return whether channels are contiguous."""
    return bool(volume.shape[3] > 1 and abs(volume.strides[3]) > abs(volume.strides[0]))


def _readable(job: Gather, *, double: bool = False) -> Gather:
    """Return a gather of a dtype that C and kernels support; a spline's is one of its coefficients."""
    volume, precise = job.volume, np.float64 if double else np.float32
    if job.interpolation != "bspline":
        work = _work_type(volume.dtype, job.interpolation, double)
        aligned = not any(stride % work.itemsize for stride in volume.strides)
        return job if work == volume.dtype and aligned else job._replace(volume=volume.astype(work))
    spline, xp = _coefficients(volume, job.fill), namespace(volume)
    if _is_planar(volume):
        spline = xp.moveaxis(xp.ascontiguousarray(xp.moveaxis(spline, 3, 0), precise), 0, 3)
    behind = IDENTITY.copy()
    behind[:3, 3] = _PAD
    m = job.mapping
    return job._replace(
        volume=spline.astype(precise, copy=False),
        mapping=Mapping3(m.size, behind @ m.pre, m.lattice, m.post),
        positions=None if job.positions is None else job.positions + np.float32(_PAD),
    )


@cache
def _work_type(dtype: np.dtype[Any], interpolation: Interpolation, double: bool) -> np.dtype[Any]:
    """Return the dtype, in the byte order of this machine, that C and kernels compute with."""
    name, precise = dtype.name, "float64" if double else "float32"
    if interpolation in ("linear", "cubic"):
        return np.dtype(name if name in (*_TYPES[:5], precise) else "uint8" if name == "bool" else precise)
    return np.dtype(name if name in _TYPES[: 8 if double else 7] else _AS.get(name, precise))


def _coefficients(volume: Array, fill_value: float | None) -> Array:
    """Return the spline's coefficients, float64, with 12 more at each border, as SciPy has."""
    xp, sides = namespace(volume), [(_PAD, _PAD)] * 3 + [(0, 0)]
    wide = volume.astype(np.float64)
    padded = (
        xp.pad(wide, sides, mode="edge")
        if fill_value is None
        else xp.pad(wide, sides, mode="constant", constant_values=fill_value)
    )
    for axis in range(3):
        if isinstance(padded, np.ndarray):
            _prefilter(np.moveaxis(padded, axis, 0))
        else:  # a line for each thread, with the same ends
            spline = import_module("cupyx.scipy.ndimage")
            padded = spline.spline_filter1d(padded, 3, axis, np.float64, mode="mirror")
    return padded


def _prefilter(lines: FloatArray) -> None:
    """Apply the recursive filter along the first axis, of more than 24 values, in place, with mirrored ends."""
    lines *= (1 - _POLE) * (1 - 1 / _POLE)
    powers = _POLE ** np.arange(len(lines))
    lines[0] = np.tensordot(powers, lines, 1)  # the mirror image of the far end is below float64's precision
    for n in range(1, len(lines)):
        lines[n] += _POLE * lines[n - 1]
    lines[-1] = _POLE / (_POLE * _POLE - 1) * (lines[-1] + _POLE * lines[-2])
    for n in range(len(lines) - 2, -1, -1):
        lines[n] = _POLE * (lines[n + 1] - lines[n])


def as_type(values: Array, dtype: np.dtype[Any]) -> Array:
    """Convert values to a dtype; floats to integers are rounded half to even and saturated."""
    if values.dtype == dtype:
        return values
    if dtype.kind in "iu" and values.dtype.kind == "f":
        info, kind = np.iinfo(dtype), values.dtype.type
        # the greatest float in the range of the dtype: greater values would wrap around
        most = kind(info.max) if int(kind(info.max)) <= info.max else np.nextafter(kind(info.max), kind(0))
        values = namespace(values).rint(values).clip(info.min, most)
    return values.astype(dtype)


def _empty_like(volume: Array, size: Extent) -> Array:
    """Allocate a result ``(D, H, W, C)`` with the memory order of the volume."""
    xp, channels = namespace(volume), volume.shape[3]
    if _is_planar(volume):
        return xp.empty((channels, *size), volume.dtype).transpose(1, 2, 3, 0)
    return xp.empty((*size, channels), volume.dtype)


def permuted_voxels(volume: Array, mapping: Mapping3, fill: float | FillMode | None) -> Array | None:
    """Return the result of a mapping that only permutes and flips voxels, as a view if all are inside; else None."""
    mode: Any = "edge" if fill is None else fill if isinstance(fill, str) else "constant"
    turn = mapping.permutation
    if turn is None:
        return None
    xp = namespace(volume)
    order = [next(r for r, (axis, _, _) in enumerate(turn) if axis == a) for a in range(3)]
    view = volume.transpose(*order, 3)
    selection, target = [], []
    for axis, r in enumerate(order):
        _, step, offset = turn[r]
        indices = offset + step * np.arange(mapping.size[axis])
        inside = (indices >= 0) & (indices < volume.shape[r])
        if mode != "constant" and not inside.all():
            view = xp.take(view, xp.asarray(indices_at(indices, volume.shape[r], mode)), axis=axis)
            selection.append(slice(None))
            target.append(slice(None))
            continue
        kept = indices[inside]
        selection.append(_slice(kept, step))
        first = int(inside.argmax()) if kept.size else 0
        target.append(slice(first, first + len(kept)))
    part = view[tuple(selection)]
    if part.shape[:3] == mapping.size:
        return part
    out = xp.full((*mapping.size, volume.shape[3]), fill, volume.dtype)
    out[tuple(target)] = part
    return out


def _slice(indices: npt.NDArray[np.int64], step: int) -> slice:
    """Return the slice of evenly spaced indices."""
    if not indices.size:
        return slice(0, 0)
    end = int(indices[-1]) + step
    return slice(int(indices[0]), end if end >= 0 else None, step)


def work_row(job: Gather, out: Array, lattice: int = 0, method: int = 0) -> bytes:
    """Describe a gather for C and kernels: ``struct work`` of ``gather.c``."""
    volume, mapping, interpolation, fill, positions, _ = job
    field = mapping.lattice if positions is None else None
    width = volume.dtype.itemsize
    control, nodes, per_node = 0, (0, 0, 0), (0.0, 0.0, 0.0)
    if field is not None:
        control = lattice or address_of(field.control)
        nodes, (d, h, w) = field.nodes, field.distance
        per_node = 1 / d, 1 / h, 1 / w
    return _WORK.pack(
        address_of(volume),
        address_of(out),
        control,
        0 if positions is None else address_of(positions),
        _NUMBERS[volume.dtype],
        INTERPOLATIONS.index(interpolation),
        fill is None,
        method,
        volume.shape[3],
        *volume.shape[:3],
        *[stride // width for stride in volume.strides],
        *out.shape[:3],
        *[stride // width for stride in out.strides],
        *nodes,
        _three_rows(mapping.matrix if field is None else mapping.pre),
        _three_rows(mapping.post),
        *per_node,
        0 if fill is None else fill,
    )


def _method(job: Gather, double: bool) -> int:
    """Return how C computes a gather: 0 voxel by voxel, 1 slice by slice, or 2 by axes, in double precision."""
    mapping, taps = job.mapping, _TAPS.get(job.interpolation)
    if taps is None or job.positions is not None:
        return 0
    if double and mapping.lattice is None:
        axes = mapping.matrix[:3, :3]
        if (axes == np.diag(np.diag(axes))).all():
            return 2
    return int(taps == 2 and mapping.in_plane)


def _three_rows(matrix: FloatArray) -> bytes:
    """Return a matrix without its last row, as C reads it."""
    return matrix.astype(np.float64, copy=False).tobytes()[:_MATRIX]


def _run_in_c(function: Callable[..., None], job: Gather, out: Array, *, double: bool) -> None:
    """Run a job in C."""
    method, depth = _method(job, double), job.mapping.size[0]
    work = work_row(job, out, method=method)
    is_small = math.prod(job.mapping.size) < _THREADS_PAY
    count = 1 if is_small else max(1, min(depth, threads() * (1 if method else _SLABS)))
    ends = [depth * n // count for n in range(count + 1)]
    failed = np.zeros(count, np.int32)

    def slab(number: int) -> None:
        function(work, ends[number], ends[number + 1], failed[number:].ctypes.data)

    if count == 1:
        slab(0)
    else:
        parallel_for(slab, count)
    if failed.any():
        raise MemoryError("there is no memory for a row of the result")


@cache
def _in_c(double: bool) -> Any:
    """Return the function of ``gather.c``; None where there is no C compiler."""
    count, pointer = ctypes.c_int64, ctypes.c_void_p
    types = {"gather": (ctypes.c_char_p, count, count, pointer)}
    functions = load_functions(__package__, f"gather_{'f64' if double else 'f32'}.c", types)
    return None if functions is None else functions.seqpipe_gather
