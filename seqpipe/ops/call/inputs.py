"""What an operator is given: every kind of value as images of one view, and the way back."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache
from typing import Any, Final, NamedTuple

import numpy as np

from ...array import Array, FloatArray, as_native, namespace, to_torch
from ...errors import ParameterError
from ...layout import LAYOUTS, check_layout
from ...sequence import Batch, Sequence
from ..core.declaration import Declaration
from ..core.nodes import DataNode
from ..core.spec import COMPUTED, FAST, MOVED, Spec
from ..core.views import DEFAULT_LAYOUTS, View, view_of

__all__ = [
    "ArrayForm",
    "Given",
    "admitted",
    "check",
    "check_size",
    "check_some",
    "check_type",
    "gathered",
    "given",
    "has_fast_form",
    "like",
    "naming",
]

_MOST_PIXELS: Final = 2**31 - 1  # of an image: an int of a kernel holds their number
_FAST: Final = frozenset(map(np.dtype, FAST))
_KEPT: Final = 64  # forms of arrays that an operator knows


class ArrayForm(NamedTuple):
    """What an array's shape, type and layout mean to an operator.

    Attributes:
        view: how arrays of the layout are seen.
        seen: how the result is.
        samples: how many samples it holds.
        spec: each of them.
        channels: how many values a pixel of the result has.
        dtype: the type of the result.
        fast: whether kernels and the form for CPUs know both types.
    """

    view: View
    seen: View
    samples: int
    spec: Spec
    channels: int
    dtype: np.dtype[Any]
    fast: bool = True


class Given(NamedTuple):
    """One array of a call.

    Attributes:
        value: what the user gave.
        array: its pixels, NumPy or CuPy.
        form: what is known of it without looking at them.
        affines: of its samples, from voxels to mm; empty if none is known.
    """

    value: Any
    array: Array
    form: ArrayForm
    affines: tuple[FloatArray | None, ...] = ()

    @property
    def view(self) -> View:
        """How the array is seen."""
        return self.form.view

    @property
    def five(self) -> Array:
        """The array as ``(N, F, H, W, C)``."""
        return self.form.view(self.array)

    @property
    def spec(self) -> Spec:
        """Each of its samples."""
        return self.form.spec

    @property
    def samples(self) -> int:
        """How many samples it holds."""
        return self.form.samples

    def seen(self, out: Array) -> Array:
        """A result as ``(N, F, H, W, C)``."""
        return self.form.seen(out)

    def result(self, dtype: str | np.dtype[Any], extent: tuple[int, int, int]) -> Array:
        """Memory for the result, of some frames, rows and columns, in its layout."""
        shape = self.form.seen.shape((self.form.samples, *extent, self.form.channels))
        library = np if type(self.array) is np.ndarray else namespace(self.array)
        return library.empty(shape, dtype)

    def back(self, out: Array) -> Any:
        """The result as the type that was given; of a sequence, the pixels alone."""
        held = self.value is self.array or isinstance(self.value, (Sequence, Batch))
        return out if held else like(self.value, out)


def like(value: Any, array: Array) -> Any:
    """An array as the library of another has it: a torch tensor for a tensor."""
    return to_torch(array) if type(value).__module__.partition(".")[0] == "torch" else array


def gathered(values: list[Any] | tuple[Any, ...], results: list[Any]) -> Any:
    """Results for some values as a list, a tuple or a named tuple, whichever held the values."""
    return values._make(results) if hasattr(values, "_make") else type(values)(results)


def check_some(op: Declaration, values: list[Any] | tuple[Any, ...]) -> None:
    """See that there are arrays in a list.

    Raises:
        ParameterError: there are none.
    """
    if not values:
        raise ParameterError("a list of no arrays", source=op.name, allowed="one or more")


def given(op: Declaration, value: Any, layout: str | None) -> Given:
    """A value as an operator sees it.

    Raises:
        ParameterError: it is not one that the operator takes.
    """
    affines: tuple[FloatArray | None, ...] = ()
    if isinstance(value, (Sequence, Batch)):
        if layout not in (None, value.layout):
            what = f"{type(value).__name__.lower()} of layout {value.layout}"
            raise ParameterError(f"layout={layout!r} of a {what}", source=op.name)
        array = admitted(op, value.data) if isinstance(value, Batch) else value.data
        layout = value.layout
        affines = tuple([one.affine for one in value]) if isinstance(value, Batch) else (value.affine,)
        affines = affines if any(one is not None for one in affines) else ()
    else:
        array = value if type(value) is np.ndarray else admitted(op, value)
    forms: dict[Any, ArrayForm] = op.__dict__.setdefault("_forms", {})
    place = array.shape, array.dtype, layout
    try:
        form = forms.get(place)
    except TypeError:  # a list, or the like, which the check below refuses by name
        form = None
    if form is None:
        form = _form(op, array, layout)
        if len(forms) >= _KEPT:
            forms.clear()
        forms[place] = form
    if affines and form.view.is_series:
        affines *= form.samples
    return Given(value, array, form, affines)


def _form(op: Declaration, array: Array, layout: str | None) -> ArrayForm:
    with naming(op):
        if layout is not None:
            check_layout(layout, array.ndim)
        view, dtype = _checked(op.traits.dtypes, layout, array.ndim, array.dtype)
    samples, frames, height, width, channels = view(array).shape
    spec = Spec(frames, height, width, channels, dtype, view.is_volume)
    if not array.size:
        raise ParameterError(f"an array of shape {array.shape} holds no pixels", source=op.name)
    letters = layout or DEFAULT_LAYOUTS[array.ndim]
    if not op.traits.keeps_frames and 1 not in view.places:
        raise ParameterError(
            f"images of layout {letters}, which has no frames",
            source=op.name,
            allowed="layouts with F, or with D for slices",
        )
    check(op, spec)
    check_size(op, "images", height, width)
    becomes = op.result_layout(letters)
    seen = view if becomes == letters else view_of(becomes, array.ndim)
    made = _channels_of_result(op, spec, seen, becomes)
    result = _type_of_result(op, dtype)
    return ArrayForm(view, seen, samples, spec, made, result, has_fast_form(op, array.dtype, result))


def has_fast_form(op: Declaration, dtype: np.dtype[Any], result: np.dtype[Any]) -> bool:
    """Whether kernels and the form for CPUs know a type of images and that of their results."""
    return op.traits.values == "moved" or (dtype in _FAST and result in _FAST)


def check(op: Declaration, spec: Spec) -> None:
    """See that an operator takes such samples.

    Raises:
        ParameterError: it does not; the message names what it takes.
    """
    check_type(op, spec.dtype)
    if op.traits.channels and spec.channels not in op.traits.channels:
        raise _wrong_channels(op, spec.channels)
    op.check_sample(spec)


def check_type(op: Declaration, dtype: str) -> None:
    """See that an operator takes values of a type.

    Raises:
        ParameterError: it does not.
    """
    if dtype not in op.traits.dtypes:
        with naming(op):
            raise _wrong_type(dtype, op.traits.dtypes)


def _wrong_channels(op: Declaration, channels: int) -> ParameterError:
    if not op.traits.channels_from:
        return ParameterError(
            f"pixels of {channels} values", source=op.name, allowed=" or ".join(map(str, op.traits.channels))
        )
    count = len(getattr(op, op.traits.channels_from))
    return ParameterError(
        f"{op.traits.channels_from} has {count} values, for pixels of {channels}",
        source=op.name,
        allowed="1 value" if channels == 1 else f"1 value, or {channels}",
    )


def check_size(op: Declaration, what: str, height: int, width: int) -> None:
    """See that images have no more pixels than kernels can count.

    Raises:
        ParameterError: they have more.
    """
    if height * width > _MOST_PIXELS:
        raise ParameterError(
            f"{what} of {height}×{width} pixels", source=op.name, allowed=f"up to {_MOST_PIXELS} pixels"
        )


def _channels_of_result(op: Declaration, spec: Spec, seen: View, layout: str) -> int:
    """How many values a pixel of the result has.

    Raises:
        ParameterError: its layout has no axis for them.
    """
    channels = op.result_channels(spec.channels)
    if channels > 1 and 4 not in seen.places:
        raise ParameterError(
            f"a result with {channels} values a pixel, of layout {layout}",
            source=op.name,
            allowed="layouts with C",
        )
    return channels


def _type_of_result(op: Declaration, dtype: str) -> np.dtype[Any]:
    """The type of the result.

    Raises:
        ParameterError: it is none to which results are rounded.
    """
    made, types = op.result_dtype(dtype), MOVED if op.traits.values == "moved" else COMPUTED
    if made not in types:
        raise ParameterError(f"results of the type {made!r}", source=op.name, allowed=", ".join(types))
    return np.dtype(made)


@contextmanager
def naming(op: Declaration) -> Iterator[None]:
    """A context whose errors about parameters name an operator as their source."""
    try:
        yield
    except ParameterError as error:
        error.source = op.name
        raise


def admitted(op: Declaration, value: Any) -> Array:
    """What an operator is given as an array of NumPy or CuPy.

    Raises:
        ParameterError: it is not an array, or one that cannot be shared.
        BackendError: it is on a GPU, and CuPy is not installed.
    """
    with naming(op):
        if isinstance(value, DataNode):  # by itself it would have made a node of the call
            raise ParameterError(
                f"the node {value} among arrays",
                allowed="arrays",
                advice="Give nodes by themselves, as in fn.stack(a, b): each stands for all samples",
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
