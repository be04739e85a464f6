"""Declaration: an operator without its call, and properties that follow from parameters alone."""

from __future__ import annotations

import dataclasses
import inspect
import re
from abc import ABC, abstractmethod
from collections.abc import Mapping
from collections.abc import Sequence as Seq
from typing import TYPE_CHECKING, Any, ClassVar, Final

import numpy as np
import numpy.typing as npt

from ...array import Array, FloatArray, IntArray
from ...core.cached import cached_property
from ...errors import ParameterError, described_type, warn_caller
from .distributions import Distribution, PerFrame, Table, unframed
from .names import keyword_form, parameter_hint
from .nodes import DataNode
from .parameters import (
    COMMON,
    Parameter,
    at_most_one,
    block_dtype_of,
    check_names,
    check_stated,
    documented,
    name_taken,
    param,
    parameters_of,
    replaces,
    signature_of,
    summary_of,
    usage_hint,
    with_fields,
)
from .settings import REGISTRY, Settings
from .spec import Spec
from .traits import Arguments, Takes, Traits, collected
from .types import Type

if TYPE_CHECKING:
    from typing_extensions import Self, dataclass_transform
else:

    def dataclass_transform(**_: Any) -> Any:
        """Do nothing; type checkers read from it that the classes below are dataclasses."""
        return lambda cls: cls


__all__ = ["KEY_END", "REGISTRY", "Declaration", "Takes"]

KEY_END: Final = 1 << 24
"""The two words of a key are integers below it, which float32 represents."""

_warned: set[str] = set()
_VARYING: Final = (Distribution, Table, PerFrame, DataNode)


@dataclass_transform(kw_only_default=True, frozen_default=True)
@dataclasses.dataclass(frozen=True, kw_only=True, repr=False)
class Declaration(Settings, ABC):
    """Base of operators without the call, which :class:`seqpipe.ops.Op` adds.

    A class that derives from this one becomes a frozen dataclass and is registered by the name of its function
    (``class GammaCurve`` is ``gamma_curve``), unless it is declared with ``register=False``. Its fields are declared by
    :func:`param`; its other class attributes are :class:`Traits`. :mod:`seqpipe.ops` explains how to write an operator.

    Attributes:
        name: name of the function.
        summary: docstring of the class, without the parameters.
        traits: traits of the class; of an instance, those that hold with its parameters.
        parameters: all parameters, the class's own ones first.
        drawable: the parameters that may differ between samples.
        is_function: whether the user has defined it by a function, which then stands for the operator.
    """

    name: ClassVar[str] = "op"
    stream_name: ClassVar[str] = "op"
    summary: ClassVar[str] = ""
    traits: ClassVar[Traits] = Traits()
    is_function: ClassVar[bool] = False
    if TYPE_CHECKING:  # a class's body states these; an empty dict in it has no type
        examples: ClassVar[tuple[Arguments, ...]]
        errors: ClassVar[tuple[tuple[Arguments, str], ...]]
    parameters: ClassVar[tuple[Parameter, ...]] = ()
    drawable: ClassVar[tuple[Parameter, ...]] = ()
    __signature__: ClassVar[inspect.Signature]

    p: float = param(
        1.0,
        "probability of applying the operator to a sample",
        lo=0,
        hi=1,
        drawn=False,
    )
    per_frame: bool = param(
        False,
        "whether parameters and p are sampled for each frame instead of once for all frames",
        drawn=False,
    )
    seed: int = param(0, "seed of the sampled values", drawn=False)

    def __init_subclass__(
        cls, *, register: bool = True, function_name: str | None = None, stream: str | None = None
    ) -> None:
        super().__init_subclass__()
        new_reference = replaces(cls, "reference")
        for form in ("compose", "cpu"):  # those of a base implement the reference of that base
            if new_reference and form not in vars(cls):
                setattr(cls, form, getattr(Declaration, form))
        if isinstance(vars(cls).get("traits"), dataclasses.Field):
            raise name_taken(cls, "traits")
        cls.traits = collected(cls, new_reference=new_reference)
        cls.summary = summary_of(cls)
        dataclasses.dataclass(frozen=True, kw_only=True, repr=False)(cls)
        cls.name = function_name or re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", cls.__name__).lower()
        cls.stream_name = stream or cls.name
        cls.parameters = parameters_of(cls)
        cls.__doc__ = documented(cls)
        check_names(cls)
        check_stated(cls)
        cls.__signature__ = signature_of(cls.parameters)
        cls.drawable = tuple(parameter for parameter in cls.parameters if parameter.drawn)
        if register:
            known = REGISTRY.get(cls.name, cls)
            # a second execution of one definition, such as a notebook cell, replaces the first
            if (known.__module__, known.__qualname__) != (cls.__module__, cls.__qualname__):
                raise ParameterError(
                    f"there is an operator {cls.name!r} already: {known.__module__}.{known.__qualname__}",
                    advice="Choose another name, or pass register=False",
                )
            REGISTRY[cls.name] = cls

    def __new__(cls, *positional: Any, **arguments: Any) -> Self:  # noqa: D102 - arguments are the parameters
        if positional:
            raise _by_position(cls, positional)
        known = [parameter.name for parameter in cls.parameters]
        for name in arguments:
            if name not in known:
                raise ParameterError(
                    f"there is no parameter {name!r}",
                    source=cls.name,
                    allowed=", ".join(known),
                    advice=parameter_hint(name, known),
                )
        op = super().__new__(cls)
        op.__dict__["_bare"] = not arguments.keys() - {*COMMON}
        return op

    def __post_init__(self) -> None:
        for parameter in self.parameters:
            try:
                value = parameter.normal(getattr(self, parameter.name))
            except ParameterError as error:
                error.source = self.name
                value = getattr(self, parameter.name)
                if not error.advice and parameter.size > 1 and type(value) in (int, float):
                    error.advice = f"{parameter.name}={(value,) * parameter.size!r} has one for each"
                raise
            object.__setattr__(self, parameter.name, value)
        if self.is_by_frame and not self.traits.by_frame:
            by_frame = [name for name, value in self.settings().items() if isinstance(value, PerFrame)]
            raise self.refusal(
                f"{(by_frame or ['per_frame'])[0]} asks for a value for each frame",
                allowed="one for a sequence, whose frames the operator processes together",
            )
        for names in self.traits.exclusive:
            at_most_one(self, *names)
        if self.__dict__.pop("_bare") and self._is_identity and self.name not in _warned:
            _warned.add(self.name)
            warn_caller(f"{self.name} without arguments does nothing; {usage_hint(self)}")

    def override_traits(self, **traits: Any) -> None:
        """Replace traits of this one operator that depend on its parameters."""
        self.__dict__["traits"] = dataclasses.replace(self.traits, **traits)

    # ------------------------------------------------------------------ what a subclass may define

    def sample(self, rng: np.random.Generator, spec: Spec) -> dict[str, Any]:
        """Sample the parameters of one sample: values by the names of parameters, or of ``derived`` fields.

        An operator whose parameters depend on each other overrides this; it must use ``rng`` alone.

        Args:
            rng: random generator of this sample and epoch.
            spec: the sample.

        Returns:
            Numbers, or arrays with one number for each frame.
        """
        values: dict[str, Any] = {
            q.name: q.draw(value, rng, spec.frames if by_frame else None)
            for q, value, by_frame in self.distributions
        }
        if self.traits.keyed:
            # one by one: an array of two takes twice as long
            values["key"] = rng.integers(KEY_END), rng.integers(KEY_END)
        return values

    def for_inputs(self, parts: Seq[Any]) -> Declaration:  # noqa: ARG002  for operators that use all inputs
        """Return the operator for the :class:`CallInput` objects of a call, with parameters that depend on all."""
        return self

    @property
    def needs_pixels(self) -> bool:
        """Whether parameters depend on the pixel values, which a node of a graph does not have yet."""
        return False

    @property
    def fixed_size(self) -> tuple[int, int] | None:
        """Height and width of every result of an operator that changes the size to a constant; else None."""
        return None

    def check_sample(self, spec: Spec) -> None:
        """Check properties of a sample other than dtype and channels.

        Raises:
            ParameterError: the operator does not accept the sample.
        """

    def specs_of(self, part: Any) -> list[Spec]:
        """Return the specs of the samples of an :class:`CallInput`."""
        return [part.form.spec] * part.form.samples

    def derive(self, rows: npt.NDArray[Any], spec: Spec) -> Arguments:  # noqa: ARG002  for overrides
        """Compute the ``derived`` fields from the other fields of the rows.

        Args:
            rows: the rows of parameters of a sample.
            spec: the sample.

        Returns:
            For each derived field a number, or one number for each row.
        """
        return {}

    def result_dtype(self, dtype: str) -> str:
        """Return the dtype of the result."""
        return dtype

    def result_types(self, inputs: Seq[Type]) -> tuple[Type, ...]:
        """See :meth:`Deferrable.result_types`; a value on the same device."""
        return (Type(device=inputs[0].device),)

    def result_layout(self, layout: str) -> str:
        """Return the layout of the result, which has the same axes."""
        return layout

    def result_channels(self, channels: int) -> int:
        """Return the number of channels of the result; an operator that changes it is never the identity."""
        return channels

    def result_size(self, rows: npt.NDArray[Any], spec: Spec) -> tuple[int, int]:  # noqa: ARG002  for overrides
        """Return height and width of the result of one sample."""
        return spec.height, spec.width

    def frame_order(self, rows: npt.NDArray[Any], spec: Spec) -> IntArray:  # noqa: ARG002  for overrides
        """Return, for each frame of the result of one sample, the input frame that provides index and timestamp."""
        return np.arange(spec.frames)

    def crop_window(self, rows: npt.NDArray[Any], spec: Spec) -> tuple[slice, slice] | None:  # noqa: ARG002  for geometry
        """Return the rows and columns of the input that every result equals; None if the results are not one crop."""
        return None

    def moved_affine(self, rows: npt.NDArray[Any], spec: Spec, affine: FloatArray) -> FloatArray:  # noqa: ARG002  for geometry
        """Return the affine of a volume's result."""
        return affine

    def moved_mask(self, mask: Array, specs: Seq[Spec], block: Any) -> Array:  # noqa: ARG002  for geometry
        """Apply the motion of the images to masks ``(N, F, H, W, C)``, by the nearest pixel."""
        return mask

    def compose(self, items: Seq[Any], specs: Seq[Spec], block: Any, device: Any) -> None:  # noqa: ARG002  for overrides
        """Write the results on a GPU by calling other operators.

        Args:
            items: input images and output arrays.
            specs: the samples.
            block: their parameters.
            device: the device that runs kernels.

        Raises:
            ParameterError: the operator has no GPU implementation.
        """
        raise ParameterError(f"{self.name} has no kernel", allowed="the backends reference and cpu")

    @classmethod
    def kernel_dtype(cls) -> np.dtype[Any]:
        """Return the dtype of the rows that a kernel gets: by default that of the block."""
        own = cls.traits.kernel_row or cls.block_dtype()
        return with_fields(own, *cls.traits.kernel_fields) if cls.traits.kernel_fields else own

    def kernel_rows(self, rows: npt.NDArray[Any], spec: Spec) -> npt.NDArray[Any]:  # noqa: ARG002  for overrides
        """Convert the rows of a sample for the kernel; unless the operator moves frames, one for each row."""
        return rows

    @abstractmethod
    def reference(self, x: Array, p: Any) -> Array:
        """Define the operator, written for clarity.

        Args:
            x: images ``(F, H, W, C)`` with the same parameters; float32 if values are computed.
            p: parameters and derived values as attributes: float32 numbers, ``int`` or arrays.

        Returns:
            Images; a view is allowed, because the result is copied.
        """

    def cpu(self, x: Array, p: Any) -> Array:
        """Compute the same, faster; by default by the reference."""
        return self.reference(x, p)

    def prefers_batch(self, x: Array, p: Any) -> bool:  # noqa: ARG002  for overrides
        """Return whether :meth:`cpu` is faster for many large frames in one call than frame by frame in the cache."""
        return False

    # ------------------------------------------------------------------ what follows from that

    @classmethod
    def block_dtype(cls) -> np.dtype[Any]:
        """Return the dtype of a row of parameters: whether it acts, sampled parameters, derived values."""
        return block_dtype_of(cls)

    def extent(self, rows: npt.NDArray[Any], spec: Spec) -> tuple[int, int, int]:
        """Return frames, height and width of the result of one sample."""
        frames = spec.frames if self.traits.keeps_frames else len(self.frame_order(rows, spec))
        size = (spec.height, spec.width) if self.traits.keeps_size else self.result_size(rows, spec)
        return frames, *size

    def extents(self, block: Any, samples: range, spec: Spec) -> set[tuple[int, int, int]]:
        """Return the distinct extents of some samples of a block."""
        return {self.extent(block.of(sample, spec.frames), spec) for sample in samples}

    @cached_property
    def distributions(self) -> tuple[tuple[Parameter, Distribution, bool], ...]:
        """Sampled parameters: parameter, distribution, and whether there is a value for each frame."""
        result = []
        for q in self.drawable:
            value = getattr(self, q.name)
            by_frame = (self.per_frame and q.by_frame) or isinstance(value, PerFrame)
            if isinstance(drawn := unframed(value), Distribution):
                result.append((q, drawn, by_frame))
        return tuple(result)

    @cached_property
    def tabled(self) -> tuple[Parameter, ...]:
        """The parameters with an array of values, one for each sample or frame."""
        return tuple(q for q in self.drawable if isinstance(unframed(getattr(self, q.name)), Table))

    @cached_property
    def template(self) -> npt.NDArray[Any]:
        """A block of one row with the constant parameters; None is NaN there, or 0 for integers."""
        self.check_bound()
        row = np.zeros(1, self.block_dtype())
        for q in self.drawable:
            value = getattr(self, q.name)
            if not isinstance(value, _VARYING):
                absent = np.nan if q.param.kind is float else 0
                row[q.name] = absent if value is None else value
        return row

    @cached_property
    def may_be_identity(self) -> bool:
        """Whether some values that the parameters may have change nothing."""
        known = [q for q in self.drawable if q.identity is not None]
        return bool(known) and all(
            isinstance(v := getattr(self, q.name), _VARYING) or v == q.identity for q in known
        )

    @cached_property
    def is_constant(self) -> bool:
        """Whether the parameters are the same for every sample and frame."""
        varies = any(isinstance(value, _VARYING) for value in self.settings().values())
        return self.p in (0, 1) and not varies and not self.overrides_sample

    @cached_property
    def is_random(self) -> bool:
        """Whether anything is sampled."""
        return 0 < self.p < 1 or bool(self.distributions) or self.overrides_sample

    @property
    def overrides_sample(self) -> bool:
        """Whether more than the distributions is sampled: a key, or what the class's own sample() draws."""
        return self.traits.keyed or type(self).sample is not Declaration.sample

    @cached_property
    def is_by_frame(self) -> bool:
        """Whether frames of a sequence may have different parameters."""
        varies = any(isinstance(value, PerFrame) for value in self.settings().values())
        return varies or self.per_frame or not self.traits.frames_alike

    @cached_property
    def _is_identity(self) -> bool:
        known = [q for q in self.parameters if q.identity is not None]
        return bool(known) and all(getattr(self, q.name) == q.identity for q in known)


def _by_position(cls: Any, values: Seq[Any]) -> ParameterError:
    """Return the error for positional arguments, with the call that works."""
    if hasattr(values[0], "shape") or isinstance(values[0], (Mapping, DataNode)):
        shown, allowed = described_type(values[0]), "keyword arguments; images are for the operator's call"
        advice = f"{cls.__name__}(…)(x)"
    else:
        shown = f"the positional argument {values[0]!r}"
        own = ", ".join(q.name for q in cls.parameters if q.name not in COMMON)
        allowed = f"keyword arguments ({own})" if own else "keyword arguments"
        form = keyword_form(cls, values)
        advice = f"{cls.__name__}({form})" if form else ""
    return ParameterError(
        f"{cls.__name__} does not accept {shown}", source=cls.name, allowed=allowed, advice=advice
    )
