"""``ndd.Tensor`` and ``ndd.Batch``: samples that operators take and return, with arithmetic and subscripts."""

from __future__ import annotations

from collections.abc import Iterator
from collections.abc import Sequence as Seq
from typing import Any

import numpy as np

from ....array import as_native, device_of, to_cupy, to_numpy, to_torch
from ....errors import ParameterError, described_type
from ...computed import ComputedNode, evaluated, run_of
from ...data_node import operand_of, set_operators, subscript
from ...dtypes import converted, dtype_name
from ...expressions import combined, each_of, inverse, negative
from ...raised import as_dali_raises, dali_error
from ...tensors import TensorListCPU, TensorListGPU, tensor_list
from ...value import Value, value_of
from .context import Device
from .kinds import DType, dtype, enumeration_of

__all__ = ["Batch", "Tensor", "as_batch", "as_tensor", "batch", "is_samples", "tensor"]


def _array_of(data: Any) -> Any:
    """Return the array of an object; Python's numbers are int32 and float32, or wider if they have to be."""
    if hasattr(data, "__dlpack__") or hasattr(data, "__cuda_array_interface__"):
        return as_native(data)
    plain = not hasattr(data, "__array__")
    array = np.asarray(data)
    if plain and array.dtype == np.float64:
        return array.astype(np.float32 if array.size else np.int32)
    if plain and array.dtype == np.int64 and (not array.size or (abs(array) < 2**31).all()):
        return array.astype(np.int32)
    if array.dtype.kind not in "biuf":
        raise ParameterError(f"{described_type(data)} as a tensor", allowed="numbers")
    return array


class _Samples:
    """One sample, or a batch of samples: the part that both have in common.

    Args:
        value: the samples.
        kind: type of the values, if it is not that of the arrays.
    """

    def __init__(self, value: Value, kind: DType | None = None) -> None:
        self._value, self._kind = value, kind

    def _like(self, value: Value) -> Any:
        return type(self)._of(value)

    @classmethod
    def _of(cls, value: Value, kind: DType | None = None) -> Any:
        made = cls.__new__(cls)
        _Samples.__init__(made, value, kind)
        return made

    @property
    def dtype(self) -> DType:
        """Type of the values."""
        return self._kind or dtype(self._value.dtype)

    @property
    def device(self) -> Device:
        """The device that holds the values."""
        value = self._value
        name = device_of(value.data if value.dense else value.data[0]) if len(value) else "cpu"
        return Device(name)

    @property
    def layout(self) -> str | None:
        """Letters of the axes of a sample; None if unknown."""
        return self._value.layout or None

    @property
    def ndim(self) -> int:
        """Number of axes of a sample."""
        return self._value.ndim if len(self._value) else 0

    def evaluate(self) -> Any:
        """Return this object: operators compute when they are called."""
        return self

    def cpu(self) -> Any:
        """Return the same in main memory."""
        return self.to_device("cpu")

    def gpu(self, index: int | None = None) -> Any:
        """Return the same on a GPU."""
        return self.to_device(Device("gpu", index))

    def to_device(self, device: Any, force_copy: bool = False) -> Any:
        """Return the same on a device; this object if it is there."""
        target = device if isinstance(device, Device) else Device(str(device))
        if target.device_type == self.device.device_type and not force_copy:
            return self
        return type(self)._of(_moved(self._value, target, copies=force_copy), self._kind)

    def __neg__(self) -> Any:
        return self._like(each_of(self._value, negative))

    def __pos__(self) -> Any:
        return self

    def __abs__(self) -> Any:
        return self._like(each_of(self._value, abs))

    def __invert__(self) -> Any:
        return self._like(each_of(self._value, inverse))

    __hash__ = object.__hash__


class Tensor(_Samples):
    """One sample: an array with a dtype, a device and a layout; see :func:`tensor` and :func:`as_tensor`.

    Args:
        data: an array, nested lists of numbers, a tensor, or a member of one of DALI's enumerations.
        dtype: type to convert the values to.
        device: device to copy the values to.
        layout: letters of the axes.
        copy: whether the tensor has memory of its own.

    Raises:
        ParameterError: the number of letters is not that of the axes.
    """

    def __init__(
        self,
        data: Any = None,
        dtype: Any = None,
        device: Any = None,
        layout: str | None = None,
        *,
        copy: bool = False,
    ) -> None:
        kind = enumeration_of(data)
        if isinstance(data, Tensor):
            value, kind = data._value, data._kind
        elif hasattr(data, "layout") and callable(data.layout):
            value = Value(as_native(data)[None], data.layout())
        else:
            value = Value(_array_of(int(data) if kind else data)[None])
        super().__init__(*_adapted(value, kind, dtype, device, layout, copy))

    @property
    def _array(self) -> Any:
        data = self._value.data
        return data.reshape(data.shape[1:]) if self._value.dense else data[0]  # an array also without axes

    @property
    def _storage(self) -> Any:
        return tensor_list(self._value)[0]

    @property
    def shape(self) -> tuple[int, ...]:
        """Lengths of the axes."""
        return tuple(self._array.shape)

    @property
    def size(self) -> int:
        """Number of values."""
        return int(self._array.size)

    @property
    def nbytes(self) -> int:
        """Size of the values in bytes."""
        return self.size * self.itemsize

    @property
    def itemsize(self) -> int:
        """Size of a value in bytes."""
        return self.dtype.bytes

    def item(self) -> Any:
        """Return the only value as a number of Python."""
        return to_numpy(self._array).item()

    def torch(self, copy: bool = False) -> Any:
        """Return the values as a tensor of PyTorch."""
        made = to_torch(self._array)
        return made.clone() if copy else made

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray[Any, Any]:
        array = np.asarray(to_numpy(self._array), dtype)
        return array.copy() if copy else array

    def __dlpack__(self, **options: Any) -> Any:
        return self._array.__dlpack__(**options)

    def __dlpack_device__(self) -> tuple[int, int]:
        kind, number = self._array.__dlpack_device__()
        return int(kind), int(number)

    def __getitem__(self, key: Any) -> Tensor:
        made: Tensor = _subscript(self, key)
        return made

    def __len__(self) -> int:
        return self.shape[0]

    def _number(self) -> Any:
        if self.size != 1:
            raise dali_error(f"the number of a tensor of the shape {self.shape}", allowed="one value")
        return self.item()

    def __bool__(self) -> bool:
        return bool(self._number())

    def __int__(self) -> int:
        return int(self._number())

    def __float__(self) -> float:
        return float(self._number())

    def __index__(self) -> int:
        return int(self._number())

    def _is_same_tensor(self, other: Tensor) -> bool:
        return bool(self._array is other._array or _address(self) == _address(other))

    def __repr__(self) -> str:
        return _text(
            "Tensor",
            str(to_numpy(self._array)),
            dtype=self.dtype,
            device=repr(str(self.device)).replace("'", '"'),
            layout=self.layout and f'"{self.layout}"',
            shape=self.shape,
        )


class Batch(_Samples):
    """Samples that may differ in shape; see :func:`batch` and :func:`as_batch`.

    Args:
        tensors: a list of tensors or arrays, an array ``(N, …)``, a batch, or a list of tensors of a pipeline.
        dtype: type to convert the values to; required of an empty list.
        device: device to copy the values to.
        layout: letters of the axes of a sample.
        copy: whether the batch has memory of its own.

    Raises:
        ParameterError: the samples differ in their number of axes or dtype, or there are none and no dtype.
    """

    def __init__(
        self,
        tensors: Any = None,
        dtype: Any = None,
        device: Any = None,
        layout: str | None = None,
        *,
        copy: bool = False,
    ) -> None:
        kind: DType | None = None
        if isinstance(tensors, Batch):
            value, kind = tensors._value, tensors._kind
        elif isinstance(tensors, (TensorListCPU, TensorListGPU)):
            value = tensors.value
        elif isinstance(tensors, Tensor):
            value = Value(tensors._array, (tensors.layout or "")[1:])
        elif isinstance(tensors, (list, tuple)):
            value, kind = _gathered(tensors, dtype)
        else:
            value = Value(_array_of(tensors))
        super().__init__(*_adapted(value, kind, dtype, device, layout, copy))

    @staticmethod
    def broadcast(sample: Any, batch_size: int, device: Any = None, dtype: Any = None) -> Batch:
        """Return a batch that has a sample several times."""
        if isinstance(sample, Batch):
            raise dali_error("Cannot broadcast a Batch", source="ndd.Batch.broadcast", allowed="a sample")
        one = as_tensor(sample, dtype=dtype, device=device)
        made: Batch = Batch._of(_repeated(one._value, batch_size), one._kind)
        return made

    @property
    def _storage(self) -> Any:
        return tensor_list(self._value)

    @property
    def batch_size(self) -> int:
        """Number of samples."""
        return len(self._value)

    @property
    def shape(self) -> list[tuple[int, ...]]:
        """Shape of each sample."""
        return self._value.shapes()

    @property
    def tensors(self) -> _Tensors:
        """The samples as tensors."""
        return _Tensors(self)

    @property
    def slice(self) -> _SampleSlices:
        """Subscripts of each sample, ``batch.slice[start:stop]``; indices may be batches."""
        return _SampleSlices(self)

    def select(self, sample_range: Any) -> Any:
        """Return one sample as a tensor, or those of a slice or a list as a batch."""
        if sample_range is ...:
            return self
        numbers = range(self.batch_size)
        if isinstance(sample_range, (list, range)):
            chosen = [numbers[int(n)] for n in sample_range]
        elif isinstance(sample_range, slice):
            chosen = list(numbers[sample_range])
        else:
            number = numbers[int(sample_range)]
            return Tensor._of(Value(self._value[number][None], self._value.layout), self._kind)
        arrays = [self._value[n] for n in chosen]
        return Batch._of(Value.of(arrays, self._value.layout) if arrays else self._value.only(0), self._kind)

    def torch(self, copy: bool | None = None, pad: bool = False) -> Any:
        """Return all samples as one tensor of PyTorch; with ``pad`` they may differ in shape."""
        return as_tensor(self, pad=pad).torch(bool(copy))

    def __iter__(self) -> Iterator[Tensor]:
        return iter(self.tensors)

    def __len__(self) -> int:
        return self.batch_size

    def __repr__(self) -> str:
        return _text(
            "Batch",
            "[" + ",\n".join(str(np.asarray(array)) for array in self._value.on_host()) + "]",
            dtype=self.dtype,
            device=repr(str(self.device)).replace("'", '"'),
            layout=self.layout and f'"{self.layout}"',
            num_samples=self.batch_size,
            shape=self.shape,
        )


class _Tensors(Seq[Tensor]):
    """The samples of a batch as tensors."""

    def __init__(self, batch: Batch) -> None:
        self._batch = batch

    def __getitem__(self, selection: Any) -> Any:
        chosen = self._batch.select(selection)
        return list(chosen) if isinstance(chosen, Batch) else chosen

    def __len__(self) -> int:
        return self._batch.batch_size

    def select(self, selection: Any) -> Any:
        """Return the samples of a slice or a list as a batch, one as a tensor."""
        return self._batch.select(selection)

    def tolist(self) -> list[Tensor]:
        """Return the tensors as a list."""
        return list(self)

    def as_batch(self, copy: bool = False) -> Batch:
        """Return the batch."""
        return batch(self._batch) if copy else self._batch


class _SampleSlices:
    """Subscripts of each sample of a batch."""

    def __init__(self, batch: Batch) -> None:
        self._batch = batch

    def __getitem__(self, key: Any) -> Batch:
        made: Batch = _subscript(self._batch, key)
        return made


def _subscript(samples: _Samples, key: Any) -> Any:
    """Return a subscript of each sample, whose indices may be tensors and batches."""
    count = len(samples._value)

    def index(array: Any) -> Any:
        if isinstance(array, slice):
            return slice(index(array.start), index(array.stop), index(array.step))
        return ComputedNode(_broadcast(array, count)) if isinstance(array, _Samples) else array

    keys = key if isinstance(key, tuple) else (key,)
    with as_dali_raises:
        node = subscript(ComputedNode(samples._value), tuple(map(index, keys)))
        value = value_of(evaluated(node, run_of(count), {}))
    return type(samples)._of(value, samples._kind)


def _arithmetic(sign: str, left: Any, right: Any) -> Any:
    """Return the result of a binary operation: a batch if an operand is one, else a tensor."""
    counts = {entry.batch_size for entry in (left, right) if isinstance(entry, Batch)}
    if len(counts) > 1:
        raise dali_error(f"{sign!r} of batches of {' and '.join(map(str, counts))} samples")
    count = counts.pop() if counts else 1
    with as_dali_raises:
        operands = [
            _broadcast(element, count)
            if isinstance(element, _Samples)
            else (
                operand_of(sign, element) if not hasattr(element, "__dlpack__") else as_tensor(element)._array
            )
            for element in (left, right)
        ]
        value = combined(sign, operands)
    return (Batch if any(isinstance(current, Batch) for current in (left, right)) else Tensor)._of(value)


set_operators(_Samples, _arithmetic)


def is_samples(value: Any) -> bool:
    """Return whether a value is a tensor or a batch."""
    return isinstance(value, _Samples)


def _broadcast(samples: _Samples, count: int) -> Value:
    value = samples._value
    return _repeated(value, count) if isinstance(samples, Tensor) else value


def _repeated(value: Value, count: int) -> Value:
    return value if count == 1 else value.with_data(value.data.repeat(count, axis=0))


def _gathered(tensors: Any, kind: Any) -> tuple[Value, DType | None]:
    """Return the samples of a list, and their type if it is an enumeration."""
    if not tensors:
        if kind is None:
            raise dali_error("Element type of an empty batch", source="ndd.batch", allowed="dtype=…")
        return Value(np.zeros(0, np.int32)), None
    ones = [as_tensor(element) for element in tensors]
    first = ones[0]
    for entry in ones:
        if entry.dtype != first.dtype or entry.ndim != first.ndim:
            both = f"{first.dtype} of {first.ndim} axes and {entry.dtype} of {entry.ndim}"
            raise dali_error(
                f"samples {both} in a batch", source="ndd.batch", allowed="one dtype and number of axes"
            )
    return Value.of([current._array for current in ones], first.layout or ""), first._kind


def _adapted(
    value: Value, kind: DType | None, wanted: Any, device: Any, layout: str | None, copy: bool
) -> tuple[Value, DType | None]:
    """Return samples with another dtype, device and layout."""
    if wanted is not None:
        wanted = dtype(wanted)
        stored = "int32" if wanted.kind is DType.Kind.enum else dtype_name(wanted.type_id)
        kind = wanted if wanted.kind is DType.Kind.enum else None
        if not len(value):
            value = value.with_data(value.data.astype(stored))
        elif value.dtype.name != stored:
            value, copy = each_of(value, lambda sample: converted(sample, stored)), False
    if device is not None:
        value = _moved(value, Device(str(device)), copies=copy)
    elif copy:
        value = each_of(value, lambda array: array.copy())
    if layout is not None:
        if layout and len(value) and len(layout) != value.ndim:
            raise dali_error(
                f"layout={layout!r} of {value.ndim} dimensions", allowed="one letter for each axis"
            )
        value = value.with_data(value.data, layout)
    return value, kind


def _moved(value: Value, target: Device, *, copies: bool) -> Value:
    if target.device_type == "gpu":
        from ...device import gpu_number

        if gpu_number(target.device_id) is not None:
            return each_of(value, to_cupy)
    moved = value.on_host()
    return each_of(moved, lambda array: array.copy()) if copies and moved is value else moved


def _address(value: Tensor) -> int:
    return int(value._storage.data_ptr())


def _text(name: str, values: str, **properties: Any) -> str:
    shown = [f"{key}={value}" for key, value in properties.items() if value is not None]
    indented = values.replace("\n", "\n     ")
    return f"{name}(\n    {indented},\n    " + ",\n    ".join(shown) + ")"


def tensor(
    data: Any, dtype: Any = None, device: Any = None, layout: str | None = None, pad: bool = False
) -> Tensor:
    """Return a tensor with memory of its own; see :func:`as_tensor`."""
    return _made_tensor(data, dtype, device, layout, pad, copy=True)


def as_tensor(
    data: Any, dtype: Any = None, device: Any = None, layout: str | None = None, pad: bool = False
) -> Tensor:
    """Return a tensor, without a copy if possible.

    Args:
        data: an array, numbers, a tensor, or a batch, whose samples become ``(N, …)``.
        dtype: type to convert the values to.
        device: device to copy the values to.
        layout: letters of the axes.
        pad: whether samples of different shapes are padded with zeros at their ends.

    Raises:
        ParameterError: samples of a batch differ in shape, and ``pad`` is False.
    """
    return _made_tensor(data, dtype, device, layout, pad, copy=False)


def _made_tensor(data: Any, dtype: Any, device: Any, layout: str | None, pad: bool, *, copy: bool) -> Tensor:
    if isinstance(data, (TensorListCPU, TensorListGPU)):
        data = Batch(data)
    if isinstance(data, Batch):
        value = data._value
        if pad and not value.dense:
            value = _padded(value)
        with as_dali_raises:
            stacked = value.stacked("the batch")
        data = Tensor._of(Value(stacked[None], f"N{value.layout}" if value.layout else ""), data._kind)
    return Tensor(data, dtype, device, layout, copy=copy)


def _padded(value: Value) -> Value:
    sides = np.max(value.shapes(), axis=0)
    host = value.on_host()
    full = np.zeros((len(host), *sides), value.dtype)
    for target, array in zip(full, host, strict=True):
        target[tuple(map(slice, array.shape))] = array
    padded = Value(full, value.layout)
    return padded.on_device() if value.on_gpu else padded


def batch(tensors: Any, dtype: Any = None, device: Any = None, layout: str | None = None) -> Batch:
    """Return a batch with memory of its own; see :class:`Batch`."""
    return Batch(tensors, dtype, device, layout, copy=True)


def as_batch(tensors: Any, dtype: Any = None, device: Any = None, layout: str | None = None) -> Batch:
    """Return a batch, without a copy if possible; see :class:`Batch`."""
    return Batch(tensors, dtype, device, layout)


def _of_kind(kind: DType, data: Any, *, device: Any = None, layout: str | None = None) -> Tensor:
    return tensor(data, kind, device, layout)


setattr(DType, "__call__", _of_kind)  # noqa: B010  types know no tensors, for the order of imports
