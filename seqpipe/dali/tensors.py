"""Outputs of a pipeline: lists of tensors on the CPU or a GPU, with the interface of ``nvidia.dali.tensors``."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from ..array import as_native, to_numpy
from ..core.turns import InTurn
from ..errors import ParameterError, described_type
from .dtypes import DALIDataType, dali_type
from .value import Value

__all__ = ["TensorCPU", "TensorGPU", "TensorListCPU", "TensorListGPU", "tensor_list"]


class _Tensor:
    """An array with a layout.

    Args:
        object: the array: of NumPy or CuPy, or another that supports DLPack.
        layout: letters of its axes.
        source: path or URL that it was read from.
    """

    def __init__(self, object: Any, layout: str | None = "", source: str = "") -> None:  # noqa: A002  DALI's name
        if isinstance(object, _Tensor):
            object = object._data  # noqa: A001
        self._data: Any = as_native(object if hasattr(object, "__dlpack__") else np.asarray(object))
        self._layout, self._source = layout or "", source

    @property
    def dtype(self) -> DALIDataType:
        """Type of the values."""
        return dali_type(np.dtype(self._data.dtype).name)

    def shape(self) -> list[int]:
        """Return the shape."""
        return list(self._data.shape)

    def layout(self) -> str:
        """Return the letters of the axes; "" if unknown."""
        return self._layout

    def source_info(self) -> str:
        """Return the path or URL that the tensor was read from."""
        return self._source

    def get_property(self, key: str) -> str:
        """Return the property "layout" or "source_info".

        Raises:
            ParameterError: the key is not valid.
        """
        if key not in ("layout", "source_info"):
            raise ParameterError(
                f"key={key!r} is not valid",
                source=f"{type(self).__name__}.get_property",
                allowed="'layout', 'source_info'",
            )
        return self._layout if key == "layout" else self._source

    def set_layout(self, layout: str) -> None:
        """Set the letters of the axes.

        Raises:
            ParameterError: the number of letters is not that of the axes.
        """
        self._layout = _checked_layout(layout, self._data.ndim)

    def ndim(self) -> int:
        """Return the number of axes."""
        return int(self._data.ndim)

    def data_ptr(self) -> int:
        """Return the address of the first value."""
        return _address(self._data)

    def squeeze(self, dim: int | None = None) -> bool:
        """Remove axes of length 1, or one of them; return whether the shape changed."""
        shape = self._data.shape
        if dim is None or shape[dim] == 1:
            self._data = self._data.squeeze(dim)
            if len(self._layout) != self._data.ndim:
                self._layout = ""
        return bool(shape != self._data.shape)

    def as_cpu(self) -> TensorCPU:
        """Return the tensor in main memory."""
        return TensorCPU(to_numpy(self._data), self._layout, self._source)

    def copy_to_external(self, ptr: Any) -> None:
        """Copy the values into an array of the same shape and dtype, or to an address in main memory."""
        _copy_out(self._data, ptr)

    def __dlpack__(self, **options: Any) -> Any:
        return self._data.__dlpack__(**options)

    def __dlpack_device__(self) -> tuple[int, int]:
        kind, number = self._data.__dlpack_device__()
        return int(kind), int(number)

    def __repr__(self) -> str:
        properties = f"dtype={self.dtype.name}, shape={self.shape()}, layout={self._layout!r}"
        return f"{type(self).__name__}(\n{to_numpy(self._data)},\n{properties})"


class TensorCPU(_Tensor):
    """A tensor in main memory."""

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray[Any, Any]:
        array = np.asarray(self._data, dtype)
        return array.copy() if copy else array


class TensorGPU(_Tensor):
    """A tensor on a GPU."""

    @property
    def __cuda_array_interface__(self) -> Any:
        return self._data.__cuda_array_interface__


class _TensorList:
    """The samples of a batch.

    Args:
        value: the samples: a pipeline value, an array ``(N, …)``, or a list of arrays or of tensors.
        layout: letters of a sample's axes; None for those of the value.
    """

    _tensor: type[_Tensor] = TensorCPU

    def __init__(self, value: Any, layout: str | None = None) -> None:
        if not isinstance(value, Value):
            tensors = [self._tensor(item) for item in value]
            value_layout = next((entry.layout() for entry in value if isinstance(entry, _Tensor)), "")
            value = Value.of([tensor._data for tensor in tensors], value_layout)
        self._value: Value = value
        if layout is not None:
            self.set_layout(layout)

    @property
    def value(self) -> Value:
        """The samples as a pipeline value."""
        return self._value

    @property
    def dtype(self) -> DALIDataType:
        """Type of the values."""
        return dali_type(self._value.dtype.name)

    def layout(self) -> str:
        """Return the letters of a sample's axes; "" if unknown."""
        return self._value.layout

    def set_layout(self, layout: str) -> None:
        """Set the letters of a sample's axes.

        Raises:
            ParameterError: the number of letters is not that of the axes.
        """
        self._value = self._value.with_data(self._value.data, _checked_layout(layout, self._value.ndim))

    def ndim(self) -> int:
        """Return the number of axes of a sample."""
        return self._value.ndim

    def data_ptr(self) -> int:
        """Return the address of the first value.

        Raises:
            ParameterError: samples differ in shape.
        """
        return _address(self._value.stacked("this output"))

    def shape(self) -> list[tuple[int, ...]]:
        """Return the shape of each sample."""
        return self._value.shapes()

    def is_dense_tensor(self) -> bool:
        """Return whether all samples have the same shape."""
        return self._value.dense

    def __len__(self) -> int:
        return len(self._value)

    def __getitem__(self, sample: int) -> Any:
        count = len(self)
        if not -count <= sample < count:
            raise IndexError(f"sample {sample} of a batch of {count}")
        sources = self._value.sources
        number = sample % count
        return self._tensor(self._value[number], self._value.layout, sources[number] if sources else "")

    def __iter__(self) -> Iterator[Any]:
        return InTurn(self[number] for number in range(len(self)))

    def as_tensor(self) -> Any:
        """Return all samples as one tensor, with N as the first letter of its layout.

        Raises:
            ParameterError: samples differ in shape.
        """
        layout = self._value.layout
        return self._tensor(self._value.stacked("this output"), f"N{layout}" if layout else "")

    def as_reshaped_tensor(self, new_shape: Any) -> Any:
        """Return all values as one tensor of another shape."""
        return self._tensor(self._value.stacked("this output").reshape(tuple(new_shape)))

    def as_cpu(self) -> TensorListCPU:
        """Return the samples in main memory."""
        return TensorListCPU(self._value.on_host())

    def copy_to_external(self, ptr: Any) -> None:
        """Copy all values into an array of the same shape and dtype, or to an address in main memory."""
        _copy_out(self._value.stacked("this output"), ptr)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._value!r})"


class TensorListCPU(_TensorList):
    """The samples of a batch in main memory."""

    def at(self, sample: int) -> np.ndarray[Any, Any]:
        """Return the array of a sample."""
        return np.asarray(self[sample])

    def as_array(self) -> np.ndarray[Any, Any]:
        """Return all samples as one array.

        Raises:
            ParameterError: samples differ in shape.
        """
        return np.asarray(self._value.stacked("this output"))

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray[Any, Any]:
        array = np.asarray(self.as_array(), dtype)
        return array.copy() if copy else array


class TensorListGPU(_TensorList):
    """The samples of a batch on a GPU."""

    _tensor = TensorGPU

    def at(self, sample: int) -> TensorGPU:
        """Return the tensor of a sample."""
        tensor: TensorGPU = self[sample]
        return tensor


def tensor_list(value: Value) -> TensorListCPU | TensorListGPU:
    """Return a pipeline value as a list of tensors on its device."""
    return TensorListGPU(value) if value.on_gpu else TensorListCPU(value)


def _address(data: Any) -> int:
    return int(data.ctypes.data if isinstance(data, np.ndarray) else data.data.ptr)


def _checked_layout(layout: str, axes: int) -> str:
    if layout and len(layout) != axes:
        raise ParameterError(
            f"layout={layout!r} for {axes} axes", source="set_layout", allowed="one letter for each axis"
        )
    return layout


def _copy_out(data: Any, target: Any) -> None:
    """Copy values into an array, or to an address in main memory."""
    array = to_numpy(data)
    if isinstance(target, np.ndarray):
        if target.shape != array.shape or target.dtype != array.dtype:
            raise ParameterError(
                f"an array {target.shape} of {target.dtype}", allowed=f"{array.shape} of {array.dtype}"
            )
        target[...] = array
        return
    import ctypes

    address = getattr(target, "value", target)
    if not isinstance(address, int):
        raise ParameterError(f"{described_type(target)} to copy to", allowed="an array, or an address")
    contiguous = np.ascontiguousarray(array)
    ctypes.memmove(address, contiguous.ctypes.data, contiguous.nbytes)
