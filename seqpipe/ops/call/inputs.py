"""Inputs of a call: values of every supported type as arrays with a view, and results of the same type."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from collections.abc import Sequence as Seq
from contextlib import contextmanager
from dataclasses import replace
from functools import lru_cache
from typing import Any, Final, NamedTuple

import numpy as np

from ...array import (
    DEFAULT_LAYOUTS,
    LAYOUTS,
    Array,
    FloatArray,
    as_native,
    check_layout,
    is_torch,
    namespace,
    to_torch,
)
from ...core.limits import main_memory_bytes
from ...errors import ParameterError
from ...parts import Image, Metadata, Part, Sample, as_part, unmarked_error
from ...sequence import Batch, Sequence
from ..core.blocks import constant_of
from ..core.declaration import Declaration
from ..core.nodes import DataNode
from ..core.spec import COMPUTED_DTYPES, KERNEL_DTYPES, MOVED_DTYPES, Spec, View, view_of
from ..core.types import Type

__all__ = [
    "ArrayForm",
    "CallInput",
    "affine_of",
    "as_array",
    "as_input",
    "check",
    "check_marked",
    "check_memory",
    "check_not_empty",
    "check_size",
    "check_type",
    "check_value_type",
    "count_of",
    "error_source",
    "has_fast_form",
    "history_entry",
    "images_of",
    "is_sample",
    "layout_of",
    "like_container",
    "like_library",
    "merged",
    "reference_of",
    "selected",
    "zeros_like",
]

_MOST_PIXELS: Final = 2**31 - 1  # of an image: kernels count pixels by int
_KERNEL_DTYPES: Final = frozenset(map(np.dtype, KERNEL_DTYPES))
_MAX_CACHED_FORMS: Final = 64  # forms of arrays that an operator caches


class ArrayForm(NamedTuple):
    """Properties of an array and its result that follow from shape, dtype and layout for one operator.

    Attributes:
        view: view of the array as ``(N, F, H, W, C)``.
        result_view: view of the result.
        samples: number of samples.
        spec: spec of each sample.
        channels: channels of the result.
        dtype: dtype of the result.
        fast: whether kernels and the CPU implementation support both dtypes.
    """

    view: View
    result_view: View
    samples: int
    spec: Spec
    channels: int
    dtype: np.dtype[Any]
    fast: bool = True


class CallInput(NamedTuple):
    """One array of a call.

    Attributes:
        value: the user's value.
        array: its pixels, NumPy or CuPy.
        form: properties that follow from shape, dtype and layout.
        affines: affine of each sample, from voxels to mm; empty if none is known.
    """

    value: Any
    array: Array
    form: ArrayForm
    affines: tuple[FloatArray | None, ...] = ()

    @property
    def view(self) -> View:
        """View of the array."""
        return self.form.view

    @property
    def nfhwc(self) -> Array:
        """The array as ``(N, F, H, W, C)``."""
        return self.form.view(self.array)

    @property
    def spec(self) -> Spec:
        """Spec of each sample."""
        return self.form.spec

    @property
    def samples(self) -> int:
        """Number of samples."""
        return self.form.samples

    def result_nfhwc(self, out: Array) -> Array:
        """Return a result as ``(N, F, H, W, C)``."""
        return self.form.result_view(out)

    def result(self, dtype: str | np.dtype[Any], extent: tuple[int, int, int]) -> Array:
        """Allocate the result for an extent (frames, height, width), in its layout."""
        shape = self.form.result_view.shape((self.form.samples, *extent, self.form.channels))
        library = np if type(self.array) is np.ndarray else namespace(self.array)
        return library.empty(shape, dtype)

    def like_value(self, out: Array) -> Any:
        """Return the result as the type of the value; for a sequence, the pixels alone."""
        is_pixels = self.value is self.array or isinstance(self.value, (Sequence, Batch))
        return out if is_pixels else like_library(self.value, out)


def like_library(value: Any, array: Array) -> Any:
    """Return an array as a torch tensor if the value is one, else unchanged."""
    return to_torch(array) if is_torch(value) else array


def like_container(values: list[Any] | tuple[Any, ...], results: list[Any]) -> Any:
    """Return results as a list, tuple or named tuple, like the values."""
    return values._make(results) if hasattr(values, "_make") else type(values)(results)


def check_not_empty(op: Declaration, values: list[Any] | tuple[Any, ...]) -> None:
    """Check that a list has arrays."""
    if not values:
        raise op.refusal("a list of no arrays", allowed="one or more")


def as_input(op: Declaration, value: Any, layout: str | None) -> CallInput:
    """Return the input for a value."""
    affines: tuple[FloatArray | None, ...] = ()
    if isinstance(value, (Sequence, Batch)):
        if layout not in (None, value.layout):
            what = f"{type(value).__name__.lower()} of layout {value.layout}"
            raise op.refusal(f"layout={layout!r} of a {what}")
        array = as_array(op, value.data) if isinstance(value, Batch) else value.data
        layout = value.layout
        affines = (
            tuple([sequence.affine for sequence in value]) if isinstance(value, Batch) else (value.affine,)
        )
        affines = affines if any(affine is not None for affine in affines) else ()
    else:
        array = value if type(value) is np.ndarray else as_array(op, value)
    forms: dict[Any, ArrayForm] = op.__dict__.setdefault("_forms", {})
    key = array.shape, array.dtype, layout
    try:
        form = forms.get(key)
    except TypeError:  # an unhashable layout; _form raises an error that names it
        form = None
    if form is None:
        form = _form(op, array, layout)
        if len(forms) >= _MAX_CACHED_FORMS:
            forms.clear()
        forms[key] = form
    if affines and form.view.is_series:
        affines *= form.samples
    return CallInput(value, array, form, affines)


def _form(op: Declaration, array: Array, layout: str | None) -> ArrayForm:
    with error_source(op):
        if layout is not None:
            check_layout(layout, array.ndim)
        view, dtype = _checked(op.traits.dtypes, layout, array.ndim, array.dtype)
    samples, frames, height, width, channels = view(array).shape
    spec = Spec(frames, height, width, channels, dtype, view.is_volume)
    if not array.size:
        raise op.refusal(f"an array of shape {array.shape} holds no pixels")
    letters = layout or DEFAULT_LAYOUTS[array.ndim]
    if not op.traits.keeps_frames and 1 not in view.positions:
        raise op.refusal(
            f"images of layout {letters}, which has no frames", allowed="layouts with F, or with D for slices"
        )
    check(op, spec)
    check_size(op, "images", height, width)
    result_layout = op.result_layout(letters)
    result_view = view if result_layout == letters else view_of(result_layout, array.ndim)
    result_channels = _result_channels(op, spec, result_view, result_layout)
    result_dtype = _result_dtype(op, dtype)
    fast = has_fast_form(op, array.dtype, result_dtype)
    return ArrayForm(view, result_view, samples, spec, result_channels, result_dtype, fast)


def has_fast_form(op: Declaration, dtype: np.dtype[Any], result: np.dtype[Any]) -> bool:
    """Return whether kernels and the CPU implementation support the dtypes of images and results."""
    return op.traits.values == "moved" or (dtype in _KERNEL_DTYPES and result in _KERNEL_DTYPES)


def check(op: Declaration, spec: Spec) -> None:
    """Check that an operator accepts a sample."""
    check_type(op, spec.dtype)
    if op.traits.channels and spec.channels not in op.traits.channels:
        raise _wrong_channels(op, spec.channels)
    op.check_sample(spec)


def check_type(op: Declaration, dtype: str) -> None:
    """Check that an operator accepts a dtype."""
    if dtype not in op.traits.dtypes:
        with error_source(op):
            raise _wrong_type(dtype, op.traits.dtypes)


def check_value_type(op: Declaration, value_type: Type) -> None:
    """Check that an operator on images accepts the values of a graph's node, as far as their type is known."""
    if value_type.kind not in ("images", "unknown", "flow", "labels"):
        raise op.refusal(f"{value_type}", allowed=f"{op.traits.takes}")
    letters = value_type.layout
    if letters is not None and not ("H" in letters and "W" in letters):
        raise op.refusal(
            f"{value_type}, without rows and columns", allowed="layouts with H and W, such as FHWC"
        )
    if letters is not None and not op.traits.keeps_frames and not set(letters) & {"F", "D"}:
        raise op.refusal(f"{value_type}, without frames", allowed="layouts with F or D")
    if value_type.dtype is not None:
        check_type(op, value_type.dtype)
    if value_type.spec is not None and not op.needs_pixels:
        check(op, value_type.spec)
        if op.is_constant and not op.nodes:
            constant_of(op, value_type.spec)


def _wrong_channels(op: Declaration, channels: int) -> ParameterError:
    if not op.traits.channels_from:
        return op.refusal(f"pixels of {channels} values", allowed=" or ".join(map(str, op.traits.channels)))
    count = len(getattr(op, op.traits.channels_from))
    return op.refusal(
        f"{op.traits.channels_from} has {count} values, for pixels of {channels}",
        allowed="1 value" if channels == 1 else f"1 value, or {channels}",
    )


def check_size(op: Declaration, what: str, height: int, width: int) -> None:
    """Check that images have at most as many pixels as kernels can count."""
    if height * width > _MOST_PIXELS:
        raise op.refusal(f"{what} of {height}×{width} pixels", allowed=f"up to {_MOST_PIXELS} pixels")


def check_memory(op: Declaration, what: str, size: int, library: Any, advice: str) -> None:
    """Check that the memory of a device can hold results, before it is allocated."""
    most = main_memory_bytes() if library is np else library.cuda.Device().mem_info[1]
    if size > most:
        raise op.refusal(
            f"{what} ({size / 2**30:.3g} GiB)",
            allowed=f"up to {most / 2**30:.3g} GiB, the memory of the {'machine' if library is np else 'GPU'}",
            advice=advice,
        )


def _result_channels(op: Declaration, spec: Spec, view: View, layout: str) -> int:
    """Return the number of channels of the result."""
    channels = op.result_channels(spec.channels)
    if channels > 1 and 4 not in view.positions:
        raise op.refusal(
            f"a result with {channels} values a pixel, of layout {layout}", allowed="layouts with C"
        )
    return channels


def _result_dtype(op: Declaration, dtype: str) -> np.dtype[Any]:
    """Return the dtype of the result."""
    result, types = op.result_dtype(dtype), MOVED_DTYPES if op.traits.values == "moved" else COMPUTED_DTYPES
    if result not in types:
        raise op.refusal(f"results of the type {result!r}", allowed=", ".join(types))
    return np.dtype(result)


@contextmanager
def error_source(op: Declaration) -> Iterator[None]:
    """Set an operator as the source of parameter errors."""
    try:
        yield
    except ParameterError as error:
        error.source = op.name
        raise


def as_array(op: Declaration, value: Any) -> Array:
    """Return a value as a NumPy or CuPy array."""
    with error_source(op):
        if isinstance(value, DataNode):  # as an argument, it would have deferred the call
            raise ParameterError(
                f"the node {value} among arrays",
                allowed="arrays",
                advice="Pass nodes as arguments, as in fn.stack(a, b): each stands for all samples",
            )
        try:
            return as_native(value)
        except ParameterError:
            raise
        except (BufferError, TypeError, RuntimeError, ValueError) as error:
            raise ParameterError(
                f"this {type(value).__name__} cannot be shared: {error}",
                allowed=f"{', '.join(op.traits.dtypes)}; in main memory or on a GPU",
            ) from error


def _wrong_type(dtype: Any, allowed: tuple[str, ...]) -> ParameterError:
    return ParameterError(f"values of type {dtype}", allowed=", ".join(allowed))


@lru_cache(maxsize=1024)
def _checked(
    dtypes: tuple[str, ...], layout: str | None, ndim: int, dtype: np.dtype[Any]
) -> tuple[View, str]:
    if dtype.name not in dtypes or not dtype.isnative:
        raise _wrong_type(dtype, dtypes)
    if layout is None and ndim not in DEFAULT_LAYOUTS:
        raise ParameterError(
            f"an array with {ndim} axes",
            allowed="2 to 5",
            advice=f"Layouts are {', '.join(LAYOUTS)}",
        )
    return view_of(layout or DEFAULT_LAYOUTS[ndim], ndim), dtype.name


def check_marked(op: Any, unmarked: Seq[str]) -> None:
    """Check that an operator computes no new values from parts that may be labels."""
    for operator in op.operators:
        if isinstance(operator, Declaration) and _computes(operator):
            for name in unmarked:
                if operator.image_names is None or name in operator.image_names:
                    raise unmarked_error(name, operator.name)


def history_entry(op: Declaration, epoch: int, index: int, drawn: dict[str, Any]) -> dict[str, Any]:
    """Return the entry of a call in the history of a sample, as JSON types."""
    images = {} if op.image_names is None else {"images": list(op.image_names)}
    return {"op": op.state(), **images, "epoch": int(epoch), "index": int(index), "drawn": drawn}


def images_of(op: Declaration, images: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the names of the images of a sample that an operator changes, in the order in which it numbers them."""
    for name in op.image_names or ():
        if name not in images:
            raise ParameterError(
                f"{name!r} is no image of the sample", source="only", allowed=", ".join(images) or "none"
            )
    return op.image_names or tuple(images)


def _computes(op: Any) -> bool:
    """Return whether values of a result may differ from all values of the input."""
    traits = op.traits
    if traits.takes == "volumes":
        by_gather = getattr(op, "interp", "nearest") != "nearest"
        return by_gather if traits.geometric else not traits.on_labels
    nearest = getattr(op, "interp_type", None) == "nearest"
    return traits.values == "computed" and not getattr(traits, "whole_pixels", False) and not nearest


def is_sample(x: Any) -> bool:
    """Return whether the input, or the first of a list, is a sample of several parts."""
    return isinstance(x[0] if isinstance(x, (list, tuple)) and x else x, Mapping)


def reference_of(x: Any) -> Any:
    """Return the images that determine the samples: the first image of a sample of several parts, else ``x``."""
    if isinstance(x, Mapping):
        parts = (as_part(value) for value in x.values())
        return next((part.data for part in parts if isinstance(part, Image)), None)
    return x


def layout_of(x: Any, layout: str | None) -> str | None:
    """Return the layout of images: their own, the argument, or the default for the number of axes."""
    x = reference_of(x)
    first = x[0] if isinstance(x, (list, tuple)) and x else x
    if isinstance(first, (Sequence, Batch)):
        return first.layout
    return layout or DEFAULT_LAYOUTS.get(getattr(first, "ndim", 0))


def count_of(x: Any, layout: str | None) -> int | None:
    """Return the number of samples of an input; None without an axis of samples."""
    x = reference_of(x)
    if isinstance(x, (Batch, list, tuple)):
        return len(x)
    letters = layout_of(x, layout) or ""
    return len(x) if letters.startswith("N") and not isinstance(x, Sequence) else None


def selected(x: Any, positions: Seq[int]) -> Any:
    """Return some samples of a batch, in the form of the batch."""
    if isinstance(x, Mapping):
        return {name: selected(value, positions) for name, value in x.items()}
    if isinstance(x, Part):
        return x.with_data(selected(x.data, positions))
    if isinstance(x, (list, tuple)):
        return [x[position] for position in positions]
    if not isinstance(x, Batch):
        return x[list(positions)]
    known = {
        name: None if (values := getattr(x, name)) is None else values[list(positions)]
        for name in ("labels", "indices", "mask")
    }
    sequences = [x.sequences[position] for position in positions]
    if x.stacked is None:
        return Batch(tuple(sequences), **known)
    stacked = x.stacked[list(positions)]
    views = tuple(
        sequence.with_pixels(data, sequence.layout) for sequence, data in zip(sequences, stacked, strict=True)
    )
    return Batch(views, stacked=stacked, **known)


def merged(whole: Any, parts: Iterable[tuple[Seq[int], Any]], source: str) -> Any:
    """Merge groups of samples into a batch in the original order."""
    pairs = list(parts)
    if isinstance(whole, Mapping):
        merged_parts = {
            name: merged(value, [(positions, result[name]) for positions, result in pairs], source)
            for name, value in whole.items()
        }
        return Sample(merged_parts, getattr(whole, "history", ()))
    if isinstance(whole, Metadata):
        return whole
    if isinstance(whole, Part):
        return whole.with_data(
            merged(whole.data, [(positions, result.data) for positions, result in pairs], source)
        )
    if isinstance(whole, Batch):
        return _batch(whole, pairs)
    if isinstance(whole, (list, tuple)):
        return like_container(whole, _in_order(pairs))
    kinds = {(tuple(result.shape[1:]), str(result.dtype)) for _, result in pairs}
    if len(kinds) > 1:
        listed = " and ".join(f"{dtype} {shape}" for shape, dtype in sorted(kinds))
        raise ParameterError(
            f"parts return samples of one array with different shapes or types, {listed}",
            source=source,
            allowed="one shape and one type",
            advice="Pass the samples as a list or a Batch, or end all parts with a resize or a cast",
        )
    return _array(pairs)


def _in_order(pairs: Seq[tuple[Seq[int], Any]]) -> list[Any]:
    by_position = {
        position: sample
        for positions, result in pairs
        for position, sample in zip(positions, result, strict=True)
    }
    return [by_position[position] for position in sorted(by_position)]


def _array(pairs: Seq[tuple[Seq[int], Array]]) -> Array:
    first = pairs[0][1]
    out = namespace(first).empty(
        (sum(len(positions) for positions, _ in pairs), *first.shape[1:]), first.dtype
    )
    for positions, result in pairs:
        out[list(positions)] = result
    return out


def _batch(whole: Batch, pairs: Seq[tuple[Seq[int], Batch]]) -> Batch:
    sequences = _in_order(pairs)
    masks = [(positions, result.mask) for positions, result in pairs if result.mask is not None]
    alike = {tuple(mask.shape[1:]) for _, mask in masks}
    known: dict[str, Any] = {"labels": whole.labels, "indices": whole.indices}
    if masks and len(alike) == 1:
        return Batch.of(sequences, mask=_array(masks), **known)
    if masks:
        return Batch(tuple(sequences), **known)
    return Batch.of(sequences, **known)


def zeros_like(labels: Sequence | Batch) -> Image:
    """Return an image of zeros, of the shape and with the metadata of labels."""
    zeros = namespace(labels.data).zeros(labels.data.shape, np.uint8)
    if isinstance(labels, Sequence):
        return Image(labels.with_pixels(zeros, labels.layout))
    pairs = zip(labels.sequences, zeros, strict=True)
    sequences = tuple(sequence.with_pixels(data, sequence.layout) for sequence, data in pairs)
    return Image(replace(labels, sequences=sequences, stacked=zeros))


def affine_of(value: Any, sample: int = 0) -> FloatArray | None:
    """Return the affine of a sample of an image."""
    image = value[sample] if isinstance(value, Batch) else value
    return image.affine if isinstance(image, Sequence) else None
