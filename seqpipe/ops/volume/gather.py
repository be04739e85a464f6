"""Gathers: volumes resampled through a mapping, by NumPy (the reference), C if there is a compiler, or CUDA."""

from __future__ import annotations

import ctypes
import math
import struct
from collections.abc import Callable, Iterator
from collections.abc import Sequence as Seq
from functools import cache, partial
from itertools import accumulate
from typing import Any, Final, Literal, NamedTuple, TypeAlias, get_args

import numpy as np
import numpy.typing as npt

from ...array import Array, FloatArray, address_of, namespace
from ...core.bspline import PAD, coefficients, weights
from ...core.kernel import CudaSource, KernelDevice
from ...core.native import load_functions
from ..call.threads import parallel_for, threads
from .mapping import IDENTITY, DrawnControl, Extent, Lattice, Mapping3
from .state import name_of

__all__ = [
    "INTERPOLATIONS",
    "WORK",
    "BatchMemory",
    "Gather",
    "Interpolation",
    "KernelForm",
    "gather",
    "gather_coefficients",
    "gathers",
    "launch_controls",
    "launch_gathers",
    "mapping_form",
    "on_device",
    "permuted_voxels",
    "reference_gather",
    "work_row",
]

_SOURCE: Final = CudaSource("seqpipe.ops.cuda", "gather3.cu")
_CONTROLS: Final = CudaSource("seqpipe.ops.cuda", "control3.cu")
_THREADS: Final = 256
_TILE: Final = (8, 8, 32)  # slices, rows and columns of a block
# lattice cells that a tile may cover along slices and columns: shared memory has room for this number and 4 more
_CELLS: Final = (1, math.inf, 6)
_ROOM: Final = 9  # volumes whose description fits into the argument
_CONTROL_ROOM: Final = 50  # fields whose description fits into the argument
_MOST: Final = 65535  # volumes per launch
_OFF_DIAGONAL: Final = (1, 2, 4, 6, 8, 9)  # of a matrix of three rows of four
_ONES: Final = (1.0, 1.0, 1.0)

WORK: Final = np.dtype(
    [
        *((name, np.uint64) for name in ("from", "to", "lattice", "positions")),
        *((name, np.int64) for name in ("type", "interpolation", "edge", "planes", "channels")),
        *((name, np.int64, (3,)) for name in ("shape", "stride")),
        ("channel", np.int64),
        *((name, np.int64, (3,)) for name in ("size", "pitch")),
        ("to_channel", np.int64),
        ("nodes", np.int64, (3,)),
        ("pre", np.float64, (12,)),
        ("post", np.float64, (12,)),
        ("per_node", np.float64, (3,)),
        ("fill", np.float64),
    ]
)
"""The description of a gather for C and the kernel."""
_CONTROL: Final = struct.Struct("3Q4q3d")


class KernelForm(NamedTuple):
    """The variant of the gather kernel: numbers of the dtype, the interpolation and the kind of mapping."""

    dtype: int
    interpolation: int
    mapping: int


def launch_gathers(device: KernelDevice, jobs: Seq[tuple[KernelForm, Extent, bytes]], like: Any) -> None:
    """Start gathers, in one launch for each form of the kernel.

    Args:
        device: device of the kernels.
        jobs: form, size of the result, and description of each, of dtype :data:`WORK`; see
            :func:`seqpipe.ops.volume.gather.work_row`.
        like: an array in the memory that tables are put into.
    """
    forms: dict[KernelForm, tuple[list[bytes], list[Extent]]] = {}
    for form, size, row in jobs:
        rows, sizes = forms.setdefault(form, ([], []))
        rows.append(row)
        sizes.append(size)
    for form, (rows, sizes) in forms.items():
        defines = {"TYPE": form.dtype, "INTERP": form.interpolation, "FIELD": form.mapping}
        tiles = max(-(-d // _TILE[0]) * -(-h // _TILE[1]) * -(-w // _TILE[2]) for d, h, w in set(sizes))
        for first in range(0, len(rows), _MOST):
            part = rows[first : first + _MOST]
            argument, table = _argument(part, _ROOM, like)
            device.launch(_SOURCE, "gather3", defines, (tiles, len(part), 1), _THREADS, argument, None)
            # CuPy frees memory in stream order, so the launch precedes the next use of it
            del table


def mapping_form(mapping: Mapping3) -> int:
    """Return the number of a mapping's kind in the kernel: 0 affine, 1 with a field that is straight, 2 any field."""
    if mapping.lattice is None:
        return 0
    scale = _ONES
    if mapping.post is not IDENTITY:
        post = mapping.post[:3].ravel().tolist()
        if any(post[n] for n in _OFF_DIAGONAL):
            return 2
        scale = post[0], post[5], post[10]
    for factor, extent, distance, most in zip(scale, _TILE, mapping.lattice.distance, _CELLS, strict=True):
        if abs(factor) * ((extent - 1) / distance) > most:
            return 2
    return 1


def launch_controls(device: KernelDevice, fields: Seq[DrawnControl], like: Any) -> tuple[Any, list[int]]:
    """Start to draw the control points of fields, in one launch.

    Returns:
        The memory of all, float32, and the address at which each begins.
    """
    counts = [math.prod(field.nodes) * 3 for field in fields]
    every = namespace(like).empty(sum(counts), np.float32)
    addresses = [address_of(every) + 4 * before for before in accumulate(counts[:-1], initial=0)]
    rows = [
        _CONTROL.pack(address, *field.key, *field.nodes, field.flat, *field.most)
        for field, address in zip(fields, addresses, strict=True)
    ]
    blocks = -(-max(counts) // (4 * _THREADS))
    for first in range(0, len(rows), _MOST):
        part = rows[first : first + _MOST]
        argument, table = _argument(part, _CONTROL_ROOM, like)
        defines = {"THREADS": _THREADS}
        device.launch(_CONTROLS, "control3", defines, (blocks, len(part), 1), _THREADS, argument, None)
        del table
    return every, addresses


def _argument(rows: Seq[bytes], room: int, like: Any) -> tuple[Any, Any]:
    """Return the argument of a launch, rows or their address, and memory to keep until it is queued."""
    data, table = b"".join(rows), None
    job = bytearray(8 + room * len(rows[0]))
    if len(rows) <= room:
        job[8 : 8 + len(data)] = data
    else:
        table = on_device(data, like)
        job[:8] = address_of(table).to_bytes(8, "little")
    return np.ndarray((), np.dtype((np.void, len(job))), job), table


def on_device(data: bytes, like: Any) -> Any:
    """Return a copy of bytes, uint8, in the memory that an array is in."""
    return namespace(like).array(np.frombuffer(data, np.uint8))


Interpolation: TypeAlias = Literal["nearest", "linear", "cubic", "vote", "bspline"]
INTERPOLATIONS: Final[tuple[Interpolation, ...]] = get_args(Interpolation)
"""Interpolations; C and CUDA number them by their index here."""

_TYPES: Final = ("uint8", "int8", "uint16", "int16", "float32", "int32", "int64")
_NUMBERS: Final = {np.dtype(name): number for number, name in enumerate(_TYPES)}
_AS: Final = {"bool": "uint8", "uint32": "int64", "uint64": "int64"}
_BY_POSITIONS: Final = 3  # a kernel's number of mappings that are tables of positions
_SLABS: Final = 4  # for each thread, so that none waits long for the last one
_THREADS_PAY: Final = 1 << 15  # from so many voxels of the result, threads are faster
# as WORK has them; NumPy takes ten times as long to write the fields one by one
_MATRIX: Final = WORK["pre"].itemsize
_PACKED: Final = struct.Struct(f"4Q22q{_MATRIX}s{_MATRIX}s4d")


def gather(
    volume: Array,
    mapping: Mapping3,
    interpolation: Interpolation,
    fill: float | None,
    *,
    positions: Array | None = None,
    reference: bool = False,
    device: Any = None,
) -> Array:
    """Resample a volume through a mapping.

    Args:
        volume: ``(D, H, W, C)``, any strides; NumPy, or CuPy for a GPU.
        mapping: from the result to the volume.
        interpolation: interpolation between voxels; ``"vote"`` for labels; ``"bspline"`` for the cubic spline
            through all voxels, as SciPy's order 3.
        fill: value outside the volume, interpolated with voxels at its border; None repeats the border.
        positions: float32 ``(D, H, W, 3)``, used instead of the mapping.
        reference: whether to use NumPy even if a faster implementation is available.
        device: device of the kernel; None for NumPy and C.

    Returns:
        A new array of the same dtype, with the memory order of the volume. Integers are rounded half to even and
        saturated.
    """
    if device is not None:
        return gathers([Gather(volume, mapping, interpolation, fill, positions)], device)[0]
    if positions is None and (permuted := permuted_voxels(volume, mapping, fill)) is not None:
        return permuted.copy()
    job = _readable(Gather(volume, mapping, interpolation, fill, positions))
    return _as_type(gather_coefficients(job, reference=reference), volume.dtype)


def gather_coefficients(job: Gather, *, reference: bool = False) -> npt.NDArray[Any]:
    """Gather in main memory; the values of a spline are its coefficients, of which :func:`gather` computes them."""
    out: npt.NDArray[Any] = _empty_like(job.volume, job.mapping.size)
    if reference or _native() is None:
        out[...] = reference_gather(*job[:5])
    else:
        _by_c(job, out)
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
    fill: float | None
    positions: Array | None = None
    allocate: Callable[[Array, Extent], Array] | None = None


def gathers(jobs: Seq[Gather], device: KernelDevice) -> list[Array]:
    """Gather volumes on a GPU, in one launch for all of the same dtype and interpolation."""
    results: dict[int, Array] = {}
    todo: list[tuple[int, Gather]] = []
    for number, job in enumerate(jobs):
        if job.positions is None and job.mapping.permutation is not None:
            if name_of(job.volume.dtype) not in _TYPES:
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
        results[number] = _as_type(out, jobs[number].volume.dtype)
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


def _readable(job: Gather) -> Gather:
    """Return a gather of a dtype that C and kernels support; a spline's is one of its coefficients."""
    volume = job.volume
    if job.interpolation != "bspline":
        kind = name_of(volume.dtype)
        work = _work_type(kind, job.interpolation)
        return job if work == kind else job._replace(volume=volume.astype(work))
    spline, xp = coefficients(volume, job.fill), namespace(volume)
    if _is_planar(volume):
        spline = xp.moveaxis(xp.ascontiguousarray(xp.moveaxis(spline, 3, 0), np.float32), 0, 3)
    behind = IDENTITY.copy()
    behind[:3, 3] = PAD
    m = job.mapping
    return job._replace(
        volume=spline.astype(np.float32, copy=False),
        mapping=Mapping3(m.size, behind @ m.pre, m.lattice, m.post),
        positions=None if job.positions is None else job.positions + np.float32(PAD),
    )


def _work_type(kind: str, interpolation: Interpolation) -> str:
    """Return the name of the dtype that C and kernels compute with."""
    mixes = interpolation in ("linear", "cubic")
    if kind in _TYPES and not (mixes and kind in ("int32", "int64")):
        return kind
    return "float32" if mixes and kind != "bool" else _AS.get(kind, "float32")


def _as_type(values: Array, dtype: np.dtype[Any]) -> Array:
    if values.dtype == dtype:
        return values
    if dtype.kind in "iu" and values.dtype.kind == "f":
        info = np.iinfo(dtype)
        # the greatest float32 in the range of the dtype: greater values would wrap around
        most = float(np.nextafter(np.float32(info.max), np.float32(0))) if info.bits > 24 else info.max
        values = namespace(values).rint(values).clip(info.min, most)
    return values.astype(dtype)


def _empty_like(volume: Array, size: Extent) -> Array:
    """Allocate a result ``(D, H, W, C)`` with the memory order of the volume."""
    xp, channels = namespace(volume), volume.shape[3]
    if _is_planar(volume):
        return xp.empty((channels, *size), volume.dtype).transpose(1, 2, 3, 0)
    return xp.empty((*size, channels), volume.dtype)


def permuted_voxels(volume: Array, mapping: Mapping3, fill: float | None) -> Array | None:
    """Return the result of a mapping that only permutes and flips voxels, as a view if all are inside; else None."""
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
        if fill is None and not inside.all():
            view = xp.take(view, xp.asarray(indices.clip(0, volume.shape[r] - 1)), axis=axis)
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
    if not indices.size:
        return slice(0, 0)
    end = int(indices[-1]) + step
    return slice(int(indices[0]), end if end >= 0 else None, step)


def work_row(job: Gather, out: Array, lattice: int = 0) -> bytes:
    """Describe a gather for C and kernels, as :data:`WORK` has it.

    Args:
        job: the gather, of a dtype that they support.
        out: the result to write.
        lattice: address of the field's control displacements where the volume is, if that is not main memory.
    """
    volume, mapping, interpolation, fill, positions, _ = job
    field = mapping.lattice if positions is None else None
    width = volume.dtype.itemsize
    control, nodes, per_node = 0, (0, 0, 0), (0.0, 0.0, 0.0)
    if field is not None:
        control = lattice or address_of(field.control)
        nodes, (d, h, w) = field.nodes, field.distance
        per_node = 1 / d, 1 / h, 1 / w
    return _PACKED.pack(
        address_of(volume),
        address_of(out),
        control,
        0 if positions is None else address_of(positions),
        _NUMBERS[volume.dtype],
        INTERPOLATIONS.index(interpolation),
        fill is None,
        interpolation == "linear" and positions is None and mapping.in_plane,
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


def _three_rows(matrix: FloatArray) -> bytes:
    """Return a matrix without its last row, as C reads it."""
    return matrix.astype(np.float64, copy=False).tobytes()[:_MATRIX]


def _by_c(job: Gather, out: Array) -> None:
    row = np.frombuffer(work_row(job, out), WORK)
    address, depth = row.ctypes.data, job.mapping.size[0]
    is_small = math.prod(job.mapping.size) < _THREADS_PAY
    count = 1 if is_small else max(1, min(depth, threads() * (1 if row["planes"][0] else _SLABS)))
    ends = [depth * n // count for n in range(count + 1)]
    failed = np.zeros(count, np.int32)

    def slab(number: int) -> None:
        _native().seqpipe_gather3(address, ends[number], ends[number + 1], failed[number:].ctypes.data)

    if count == 1:
        slab(0)
    else:
        parallel_for(slab, count)
    if failed.any():
        raise MemoryError("there is no memory for a row of the result")


@cache
def _native() -> Any:
    """``gather3.c``; None where there is no C compiler."""
    count, pointer = ctypes.c_int64, ctypes.c_void_p
    return load_functions(__package__, "gather3.c", {"gather3": (pointer, count, count, pointer)})


# ------------------------------------------------------------------------------------------ reference


def reference_gather(
    volume: Array,
    mapping: Mapping3,
    interpolation: Interpolation,
    fill: float | None,
    positions: Array | None = None,
) -> npt.NDArray[Any]:
    """The reference of :func:`gather`, in NumPy and double precision."""
    out = np.empty((*mapping.size, volume.shape[3]), volume.dtype)
    rows, columns = np.arange(mapping.size[1])[:, None], np.arange(mapping.size[2])
    for d in range(mapping.size[0]):
        if positions is not None:
            points = np.asarray(positions[d], np.float64)
        else:
            points = mapping.positions(np.stack(np.broadcast_arrays(float(d), rows, columns), axis=-1))
        if fill is None:
            points = points.clip(0, np.array(volume.shape[:3]) - 1)
        out[d] = _REFERENCES[interpolation](volume, points, fill)
    return out


def _taps(volume: Array, corner: npt.NDArray[Any], fill: float | None) -> npt.NDArray[Any]:
    """Return the voxels at integer positions ``(…, 3)``: ``(…, C)``."""
    most = np.array(volume.shape[:3]) - 1
    inside = ((corner >= 0) & (corner <= most)).all(axis=-1, keepdims=True)
    d, h, w = np.moveaxis(corner.clip(0, most).astype(np.int64), -1, 0)
    voxels: npt.NDArray[Any] = volume[d, h, w]
    return voxels if fill is None else np.where(inside, voxels, volume.dtype.type(fill))


def _rounded(values: FloatArray, dtype: np.dtype[Any]) -> npt.NDArray[Any]:
    if dtype.kind in "iu":
        info = np.iinfo(dtype)
        values = np.rint(values).clip(info.min, info.max)
    return values.astype(dtype)


def _nearest(volume: Array, points: FloatArray, fill: float | None) -> npt.NDArray[Any]:
    return _taps(volume, np.floor(points + 0.5), fill)


def _linear(volume: Array, points: FloatArray, fill: float | None) -> npt.NDArray[Any]:
    first = np.floor(points)
    part, total = points - first, np.zeros((*points.shape[:-1], volume.shape[3]))
    for tap in np.ndindex(2, 2, 2):
        weight = np.where(tap, part, 1 - part).prod(axis=-1, keepdims=True)
        total += weight * _taps(volume, first + tap, fill)
    return _rounded(total, volume.dtype)


def _keys(t: FloatArray) -> FloatArray:
    """Return the weights of the four voxels around a position by Keys' cubic with a = -1/2."""
    s = 1 - t
    weights_of_taps = [
        -0.5 * t * s * s,
        1 + t * t * (1.5 * t - 2.5),
        1 + s * s * (1.5 * s - 2.5),
        -0.5 * s * t * t,
    ]
    result: FloatArray = np.stack(weights_of_taps, axis=-1)
    return result


def _cubic(
    volume: Array,
    points: FloatArray,
    fill: float | None,
    weights_of: Callable[[FloatArray], FloatArray] = _keys,
) -> npt.NDArray[Any]:
    first = np.floor(points)
    weight, total = weights_of(points - first), np.zeros((*points.shape[:-1], volume.shape[3]))
    for d, h, w in np.ndindex(4, 4, 4):
        each = weight[..., 0, d] * weight[..., 1, h] * weight[..., 2, w]
        total += each[..., None] * _taps(volume, first + np.array([d, h, w]) - 1, fill)
    return _rounded(total, volume.dtype)


_EQUAL: Final = 1e-5
"""Sums of linear weights that differ by less count as equal, so that rounding does not matter and devices agree."""


def _vote(volume: Array, points: FloatArray, fill: float | None) -> npt.NDArray[Any]:
    """Return the label with the greatest sum of linear weights; of equals the nearest voxel's, else the smallest."""
    first = np.floor(points)
    part = (points - first).astype(np.float32)
    taps = [np.array(tap) for tap in np.ndindex(2, 2, 2)]
    labels = np.stack([_taps(volume, first + tap, fill) for tap in taps])
    weight = np.stack([np.where(tap, part, 1 - part).prod(axis=-1) for tap in taps])[..., None]
    scores = np.stack([((labels == label) * weight).sum(axis=0) for label in labels])
    best = scores >= scores.max(axis=0) - _EQUAL
    number = ((part >= 0.5) * np.array([4, 2, 1])).sum(axis=-1)[None, ..., None]
    near = np.take_along_axis(labels, np.broadcast_to(number, (1, *labels.shape[1:])), axis=0)[0]
    smallest = np.where(best, labels, np.iinfo(labels.dtype).max).min(axis=0)
    voted: npt.NDArray[Any] = np.where((best & (labels == near)).any(axis=0), near, smallest)
    return voted


_REFERENCES: Final[dict[Interpolation, Callable[..., npt.NDArray[Any]]]] = {
    "nearest": _nearest,
    "linear": _linear,
    "cubic": _cubic,
    "vote": _vote,
    "bspline": partial(_cubic, weights_of=weights),
}
