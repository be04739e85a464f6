"""Declaration: what an operator states, and what follows from that without seeing a pixel."""

from __future__ import annotations

import dataclasses
import inspect
import re
from abc import ABC, abstractmethod
from collections.abc import Sequence as Seq
from typing import TYPE_CHECKING, Any, ClassVar, Final

import numpy as np
import numpy.typing as npt

from ...array import Array, FloatArray, IntArray
from ...cached import cached_property
from ...errors import ParameterError, warn_caller
from .distributions import Distribution, PerFrame, Table, unframed
from .fields import (
    block_dtype_of,
    check_names,
    check_stated,
    documented,
    name_taken,
    parameters_of,
    replaces,
    signature_of,
    suggestion,
    summary_of,
    telling,
)
from .nodes import DataNode
from .parameters import Parameter, param
from .settings import REGISTRY, Settings
from .spec import Spec
from .traits import Arguments, Takes, Traits, collected

if TYPE_CHECKING:
    from typing_extensions import Self, dataclass_transform
else:

    def dataclass_transform(**_: Any) -> Any:
        """Nothing; a type checker reads in its place that the classes below are dataclasses."""
        return lambda cls: cls


__all__ = ["REGISTRY", "Declaration", "Takes"]

_warned: set[str] = set()
_VARYING: Final = (Distribution, Table, PerFrame, DataNode)


@dataclass_transform(kw_only_default=True, frozen_default=True)
@dataclasses.dataclass(frozen=True, kw_only=True, repr=False)
class Declaration(Settings, ABC):
    """What :class:`seqpipe.ops.Op` is, without the call.

    A class that derives from this one is a frozen dataclass, and known by the name of its function from then on
    (``class GammaCurve`` is ``gamma_curve``); ``class GammaCurve(Op, register=False)`` is not. Its fields are declared
    by :func:`param`; what else it states are its :class:`Traits`. See :mod:`seqpipe.ops` for how to write one.

    Attributes:
        name: of its function.
        summary: what its class says of itself, without the parameters.
        traits: what its class states about itself; of an object, what holds with its parameters.
    """

    name: ClassVar[str] = "op"
    stream_name: ClassVar[str] = "op"
    summary: ClassVar[str] = ""
    traits: ClassVar[Traits] = Traits()
    if TYPE_CHECKING:  # what is stated in a class's body; an empty dict has no type of its own there
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

    def __init_subclass__(cls, *, register: bool = True, called: str | None = None) -> None:
        super().__init_subclass__()
        new_reference = replaces(cls, "reference")
        for form in ("compose", "cpu"):  # those of a base do what its reference does
            if new_reference and form not in vars(cls):
                setattr(cls, form, getattr(Declaration, form))
        if isinstance(vars(cls).get("traits"), dataclasses.Field):
            raise name_taken(cls, "traits")
        cls.traits = collected(cls, new_reference=new_reference)
        cls.summary = summary_of(cls)
        dataclasses.dataclass(frozen=True, kw_only=True, repr=False)(cls)
        cls.name = called or re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", cls.__name__).lower()
        cls.stream_name = cls.name
        cls.parameters = parameters_of(cls)
        cls.__doc__ = documented(cls)
        check_names(cls)
        check_stated(cls)
        cls.__signature__ = signature_of(cls.parameters)
        cls.drawable = tuple(parameter for parameter in cls.parameters if parameter.drawn)
        if register:
            known = REGISTRY.get(cls.name, cls)
            # the same definition again, as when a cell of a notebook is run twice, takes the place of the first
            if (known.__module__, known.__qualname__) != (cls.__module__, cls.__qualname__):
                raise ParameterError(
                    f"there is an operator {cls.name!r} already: {known.__module__}.{known.__qualname__}",
                    advice="Name it otherwise, or give register=False",
                )
            REGISTRY[cls.name] = cls

    def __new__(cls, *by_place: Any, **given: Any) -> Self:  # noqa: D102 - arguments are the parameters
        if by_place:
            raise ParameterError(
                f"{cls.__name__} is given {by_place[0]!r} by place",
                source=cls.name,
                allowed="parameters by name",
                advice=f"{cls.__name__}({cls.parameters[0].name}={by_place[0]!r})",
            )
        known = [parameter.name for parameter in cls.parameters]
        for name in given:
            if name not in known:
                raise ParameterError(
                    f"there is no parameter {name!r}",
                    source=cls.name,
                    allowed=", ".join(known),
                    advice=suggestion(name, known),
                )
        made = super().__new__(cls)
        made.__dict__["_bare"] = not given.keys() - {"p", "per_frame", "seed"}
        return made

    def __post_init__(self) -> None:
        for parameter in self.parameters:
            try:
                value = parameter.normal(getattr(self, parameter.name))
            except ParameterError as error:
                error.source = self.name
                raise
            object.__setattr__(self, parameter.name, value)
        if self.is_by_frame and not self.traits.by_frame:
            by_frame = [name for name, value in self.settings().items() if isinstance(value, PerFrame)]
            raise ParameterError(
                f"{(by_frame or ['per_frame'])[0]} asks for a value for each frame",
                source=self.name,
                allowed="one for a sequence, whose frames belong together here",
            )
        if self.__dict__.pop("_bare") and self._is_identity and self.name not in _warned:
            _warned.add(self.name)
            warn_caller(f"{self.name} without arguments does nothing; {telling(self)}")

    def restate(self, **traits: Any) -> None:
        """State traits of this one operator, which follow from its parameters."""
        self.__dict__["traits"] = dataclasses.replace(self.traits, **traits)

    # ------------------------------------------------------------------ what an operator states

    def sample(self, rng: np.random.Generator, spec: Spec) -> dict[str, Any]:
        """What is drawn for one sample: values by the names of parameters, or of ``derived`` fields.

        An operator whose draws belong together has one of its own; it must draw from ``rng`` alone.

        Args:
            rng: random numbers of this sample, of its epoch.
            spec: the sample.

        Returns:
            Numbers, or arrays with one for each frame.
        """
        return {
            q.name: q.draw(value, rng, spec.frames if by_frame else None)
            for q, value, by_frame in self.distributions
        }

    def among(self, parts: Seq[Any]) -> Declaration:  # noqa: ARG002  for those that look at all of them
        """The operator for the parts of a call, :class:`Given` each: one that knows what follows from all of them."""
        return self

    @property
    def looks_at_values(self) -> bool:
        """Whether parameters follow from the values themselves, which have to be there then."""
        return False

    @property
    def fixed_size(self) -> tuple[int, int] | None:
        """Rows and columns of every result, of an operator that draws what it shows and not its size; else None."""
        return None

    def check_sample(self, spec: Spec) -> None:
        """See that it takes such samples, beyond their type and channels.

        Raises:
            ParameterError: it does not.
        """

    def specs_of(self, part: Any) -> list[Spec]:
        """What the operator is told of each sample of a :class:`Given`."""
        return [part.form.spec] * part.form.samples

    def derive(self, rows: npt.NDArray[Any], spec: Spec) -> Arguments:  # noqa: ARG002  for those that have such fields
        """The fields of ``derived``, from the parameters in the other fields of the rows.

        Args:
            rows: a sample's block of parameters.
            spec: the sample.

        Returns:
            For each derived field a number, or one for each row.
        """
        return {}

    def result_dtype(self, dtype: str) -> str:
        """The type of the result."""
        return dtype

    def result_layout(self, layout: str) -> str:
        """The layout of the result, which has the same axes."""
        return layout

    def result_channels(self, channels: int) -> int:
        """How many values a pixel of the result has; what changes their number cannot leave a sample as it is."""
        return channels

    def result_size(self, rows: npt.NDArray[Any], spec: Spec) -> tuple[int, int]:  # noqa: ARG002  for those that change it
        """Rows and columns of the result of one sample."""
        return spec.height, spec.width

    def frame_order(self, rows: npt.NDArray[Any], spec: Spec) -> IntArray:  # noqa: ARG002  for those that change it
        """For each frame of the result of one sample, the frame that its number and its time are those of."""
        return np.arange(spec.frames)

    def part_taken(self, rows: npt.NDArray[Any], spec: Spec) -> tuple[slice, slice] | None:  # noqa: ARG002  for geometry
        """Rows and columns of what is given, if the results of all these parameters are nothing but them."""
        return None

    def moved_affine(self, rows: npt.NDArray[Any], spec: Spec, affine: FloatArray) -> FloatArray:  # noqa: ARG002  for geometry
        """The affine of a volume's result."""
        return affine

    def moved_mask(self, mask: Array, specs: Seq[Spec], block: Any) -> Array:  # noqa: ARG002  for geometry
        """Masks ``(N, F, H, W, C)`` moved as their images are, every pixel the nearest."""
        return mask

    def compose(self, items: Seq[Any], specs: Seq[Spec], block: Any, device: Any) -> None:  # noqa: ARG002  for those that are composed
        """Write the results on a GPU, by other operators.

        Args:
            items: images and the memory of their results.
            specs: the samples.
            block: their parameters.
            device: where kernels run.

        Raises:
            ParameterError: there is nothing to do it on a GPU.
        """
        raise ParameterError(f"{self.name} has no kernel", allowed="the backends reference and cpu")

    @classmethod
    def kernel_dtype(cls) -> np.dtype[Any]:
        """What a kernel is given of a row: by default the row."""
        return cls.block_dtype()

    def kernel_rows(self, rows: npt.NDArray[Any], spec: Spec) -> npt.NDArray[Any]:  # noqa: ARG002  for those that need it
        """Rows of a sample's block as a kernel is given them; unless it moves frames, one for each of the rows."""
        return rows

    @abstractmethod
    def reference(self, x: Array, p: Any) -> Array:
        """The meaning of the operator, written to be read.

        Args:
            x: images ``(F, H, W, C)`` with the same parameters; float32 if values are computed.
            p: the parameters and the derived fields as attributes: numbers of float32, ``int`` or arrays.

        Returns:
            Images; a view is allowed, for it is copied.
        """

    def cpu(self, x: Array, p: Any) -> Array:
        """The same, faster; by default the reference."""
        return self.reference(x, p)

    def at_once(self, x: Array, p: Any) -> bool:  # noqa: ARG002  for those that are
        """Whether :meth:`cpu` is quicker for large frames at once than one by one, whose values stay in the cache."""
        return False

    # ------------------------------------------------------------------ what follows

    @classmethod
    def block_dtype(cls) -> np.dtype[Any]:
        """A row of a block of parameters: whether it acts, the parameters that can be drawn, the derived fields."""
        return block_dtype_of(cls)

    def extent(self, rows: npt.NDArray[Any], spec: Spec) -> tuple[int, int, int]:
        """Frames, rows and columns of the result of one sample."""
        frames = spec.frames if self.traits.keeps_frames else len(self.frame_order(rows, spec))
        size = (spec.height, spec.width) if self.traits.keeps_size else self.result_size(rows, spec)
        return frames, *size

    def extents(self, block: Any, samples: range, spec: Spec) -> set[tuple[int, int, int]]:
        """Those of some samples of a block."""
        return {self.extent(block.of(sample, spec.frames), spec) for sample in samples}

    @cached_property
    def distributions(self) -> tuple[tuple[Parameter, Distribution, bool], ...]:
        """What is drawn: parameter, distribution, and whether for each frame."""
        found = []
        for q in self.drawable:
            value = getattr(self, q.name)
            by_frame = (self.per_frame and q.by_frame) or isinstance(value, PerFrame)
            if isinstance(drawn := unframed(value), Distribution):
                found.append((q, drawn, by_frame))
        return tuple(found)

    @cached_property
    def tabled(self) -> tuple[Parameter, ...]:
        """The parameters with values that are given for each sample or frame."""
        return tuple(q for q in self.drawable if isinstance(unframed(getattr(self, q.name)), Table))

    @cached_property
    def template(self) -> npt.NDArray[Any]:
        """A block of one row, with the parameters that are constant; None is NaN there, or 0 of whole numbers."""
        self.check_settled()
        row = np.zeros(1, self.block_dtype())
        for q in self.drawable:
            value = getattr(self, q.name)
            if not isinstance(value, _VARYING):
                absent = np.nan if q.param.kind is float else 0
                row[q.name] = absent if value is None else value
        return row

    @cached_property
    def may_be_identity(self) -> bool:
        """Whether there are parameters, among those that it may have, that change nothing."""
        known = [q for q in self.drawable if q.identity is not None]
        return bool(known) and all(
            isinstance(v := getattr(self, q.name), _VARYING) or v == q.identity for q in known
        )

    @cached_property
    def is_constant(self) -> bool:
        """Whether its parameters are the same for every sample and frame."""
        varies = any(isinstance(value, _VARYING) for value in self.settings().values())
        return self.p in (0, 1) and not varies and not self._draws_together

    @cached_property
    def is_random(self) -> bool:
        """Whether anything is drawn."""
        return 0 < self.p < 1 or bool(self.distributions) or self._draws_together

    @property
    def _draws_together(self) -> bool:
        """Whether it has a sample() of its own."""
        return type(self).sample is not Declaration.sample

    @cached_property
    def is_by_frame(self) -> bool:
        """Whether frames of a sequence may have different parameters."""
        varies = any(isinstance(value, PerFrame) for value in self.settings().values())
        return varies or self.per_frame or not self.traits.frames_alike

    @cached_property
    def _is_identity(self) -> bool:
        known = [q for q in self.parameters if q.identity is not None]
        return bool(known) and all(getattr(self, q.name) == q.identity for q in known)
