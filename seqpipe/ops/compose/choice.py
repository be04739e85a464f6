"""OneOf, SomeOf and Only: operators for some samples of a batch, or for some images of a sample."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from collections.abc import Sequence as Seq
from dataclasses import dataclass, field, fields, replace
from typing import Any, ClassVar, Final, NoReturn

import numpy as np

from ...core.cached import cached_property
from ...core.param import Param, check_list
from ...errors import ParameterError
from ...random import stream_index, streams
from ..call.inputs import count_of, merged, reference_of, selected
from ..call.op import Op
from ..core.distributions import PerFrame, unframed
from ..core.nodes import DataNode, Named, Occurrences
from ..core.sampling import indices_of
from ..core.spec import CallOptions
from ..core.traits import Traits
from ..core.types import Type
from ..volume.base import Volumetric
from .chain import Chain
from .member import Member, State, reads_state, sample_error

__all__ = ["OneOf", "Only", "SomeOf"]

_P: Final = Param(
    name="p", doc="Probability that a sample gets any part; else it is unchanged", kind=float, lo=0, hi=1
)
_SEED: Final = Param(name="seed", doc="Seed of the choice", kind=int)
_COUNT: Final = Param(name="n", doc="Number of parts for each sample", kind=int, lo=0)
_WEIGHT: Final = Param(name="weights", doc="Relative probability of each part", kind=float, lo=0)


@dataclass(frozen=True, repr=False)
class SomeOf(Member):
    """Apply a random subset of operators or chains to each sample, in the order of the list.

    The subset depends on (seed, occurrence, epoch, sample index) only, and applies to everything that belongs to the
    sample: all frames, labels and boxes. Samples with the same subset are processed together. Use it in a
    :class:`Chain`, or call it like one.

    Args:
        n: number of parts for each sample, or ``(minimum, maximum)`` of a uniformly sampled number.
        parts: operators, chains, or lists of these; None leaves a sample unchanged.
        weights: relative probability of each part; None for equal ones.
        p: probability that a sample gets any part.
        seed: seed of the choice.

    Raises:
        ParameterError: there are no parts, one mixes samples or changes their axes, or a number is out of bounds.
    """

    name: ClassVar[str] = "some_of"
    traits: ClassVar[Traits] = Traits()
    has_seed: ClassVar[bool] = True
    nodes: ClassVar[dict[str, DataNode]] = {}
    explanation: ClassVar[str] = "each sample by its choice, samples with the same choice together"

    n: tuple[int, int]
    parts: tuple[Any, ...]
    weights: tuple[float, ...] | None = None
    p: float = 1.0
    seed: int = 0
    occurrence: int = field(default=0, kw_only=True)

    def __init__(
        self,
        n: int | tuple[int, int],
        parts: Seq[Any],
        *,
        weights: Seq[float] | None = None,
        p: float = 1.0,
        seed: int = 0,
    ) -> None:
        if not isinstance(parts, (list, tuple)) or not parts:
            raise self.refusal(
                f"{self.name} of {parts!r}", allowed="a list of operators and chains, one or more"
            )
        try:
            ends = n if isinstance(n, tuple) and len(n) == 2 else (n, n)
            least, most = (_COUNT.check(end) for end in ends)
            numbers = None if weights is None else check_list("weights", weights, f"{len(parts)} numbers")
            chances = None if numbers is None else tuple(_WEIGHT.check(number) for number in numbers)
            values = {"p": _P.check(p), "seed": _SEED.check(seed)}
        except ParameterError as error:
            error.source = self.name
            raise
        lines = tuple(None if part is None else Chain(part) for part in parts)
        self._check(lines, least, most, chances)
        known = {"n": (least, most), "parts": lines, "weights": chances, "occurrence": 0, **values}
        for key, value in known.items():
            object.__setattr__(self, key, value)
        # the operators of all parts count together, as in a chain with this as its only member
        object.__setattr__(self, "parts", self.rebuilt(Occurrences().of(self.operators)).parts)

    def _check(self, lines: Seq[Any], least: int, most: int, weights: Seq[float] | None) -> None:
        if not least <= most <= len(lines):
            raise self.refusal(
                f"n={least if least == most else (least, most)} of {len(lines)} parts",
                allowed=f"numbers from 0 to {len(lines)}, the lesser first",
            )
        if weights is not None and (
            len(weights) != len(lines) or sum(weight > 0 for weight in weights) < max(most, 1)
        ):
            raise self.refusal(
                f"weights={list(weights)!r} for {len(lines)} parts",
                allowed=f"{len(lines)} numbers, of which {max(most, 1)} or more are above 0",
            )
        for op in (op for line in lines if line is not None for op in line.operators):
            if op.traits.takes == "batches":
                raise self.refusal(
                    f"{op.name} mixes the samples of a batch, and a choice is made for each sample",
                    advice=f"Put it into the chain next to {self.name}; it has its own p",
                )
            if not isinstance(op, (Op, Volumetric, SomeOf)):
                raise self.refusal(
                    f"{op.name} may change the axes of samples, which are equal for all samples of a batch",
                    allowed="operators on images and volumes",
                    advice=f"Put it into the chain next to {self.name}",
                )

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(self._arguments())})"

    def _arguments(self) -> Iterator[str]:
        least, most = self.n
        if type(self) is SomeOf:
            yield f"{least if least == most else self.n}"
        yield f"[{', '.join('None' if part is None else part.argument_repr for part in self.parts)}]"
        for key in ("weights", "p", "seed"):
            if (value := getattr(self, key)) != type(self).__dataclass_fields__[key].default:
                yield f"{key}={list(value) if key == 'weights' else value!r}"

    # ------------------------------------------------------------------ as part of a chain or of a graph

    @property
    def operators(self) -> tuple[Any, ...]:
        """This choice, which has a seed, and then the operators of all parts."""
        return (self, *(op for line in self.parts if line is not None for op in line.operators))

    @property
    def title(self) -> str:
        """The name."""
        return self.name

    def rebuilt(self, operators: Seq[Any]) -> SomeOf:
        """Return the same choice with other operators, the first of which is a choice."""
        own, *others = operators
        left = iter(others)
        lines = tuple(
            None if line is None else line.rebuilt([next(left) for _ in line.operators])
            for line in self.parts
        )
        return own._with(parts=lines)  # type: ignore[no-any-return]  # of this class

    def with_occurrence(self, occurrence: int) -> SomeOf:
        """Return the same choice with another occurrence; see :class:`seqpipe.ops.core.nodes.Occurrences`."""
        return self if occurrence == self.occurrence else self._with(occurrence=occurrence)

    def _with(self, **changed: Any) -> SomeOf:
        other = object.__new__(type(self))
        other.__dict__.update(
            {declared.name: self.__dict__[declared.name] for declared in fields(self)}, **changed
        )
        return other

    def expression(self, name: Named) -> str:
        """See :meth:`Deferrable.expression`."""
        return f"{self.name}({' | '.join('-' if part is None else part.expression(name) for part in self.parts)})"

    def state(self) -> dict[str, Any]:
        """See :meth:`Member.state`."""
        own = {key: getattr(self, key) for key in ("n", "weights", "p", "seed", "occurrence")}
        return {
            "op": self.name,
            **own,
            "parts": [None if part is None else part.state() for part in self.parts],
        }

    def result_layout(self, layout: str) -> str:
        """See :meth:`Member.result_layout`."""
        result = {layout if part is None else part.result_layout(layout) for part in self.parts}
        result |= {layout} if self.p < 1 or self.n[0] == 0 else set()
        if len(result) > 1:
            raise self.refusal(
                f"parts return the layouts {', '.join(sorted(result))}",
                allowed="one layout",
                advice="Put operators that change the layout after the choice",
            )
        return result.pop()

    def result_types(self, inputs: Seq[Type]) -> tuple[Type, ...]:
        """See :meth:`Deferrable.result_types`; the common type of the results of all parts.

        Raises:
            ParameterError: parts return different layouts or dtypes.
        """
        first = inputs[0]
        result = [first if line is None else line.result_types((first,))[0] for line in self.parts]
        if self.p < 1 or self.n[0] == 0:
            result.append(first)
        for what in ("layout", "dtype"):
            several = {value for result_type in result if (value := getattr(result_type, what)) is not None}
            if len(several) > 1:
                raise self.refusal(
                    f"parts return different {what}s, {', '.join(sorted(several))}",
                    allowed=f"one {what} for all",
                    advice="Put the operator that changes it after the choice",
                )
        shapes = {result_type.shape for result_type in result}
        return (replace(result[0], shape=shapes.pop() if len(shapes) == 1 else None),)

    # ------------------------------------------------------------------ sampling and calls

    def drawn(self, epoch: int, indices: Seq[int]) -> list[tuple[int, ...]]:
        """Sample the indices of the parts for each sample, in ascending order.

        Args:
            epoch: the epoch.
            indices: indices of the samples within their dataset.
        """
        checked_epoch = stream_index(epoch, "epoch", self.name)
        stream_name = f"{self.name}#{self.occurrence}" if self.occurrence else self.name
        return [self._draw(rng) for rng in streams(self.seed, stream_name, checked_epoch, indices)]

    def _draw(self, rng: np.random.Generator) -> tuple[int, ...]:
        acts, number = rng.random(2)
        if acts >= self.p:
            return ()
        least, most = self.n
        count = least + min(int(number * (most - least + 1)), most - least)
        result = rng.choice(len(self.parts), size=count, replace=False, p=self._probabilities)
        return tuple(sorted(result.tolist()))

    @cached_property
    def _probabilities(self) -> Any:
        return None if self.weights is None else np.array(self.weights) / sum(self.weights)

    def __call__(self, x: Any, **options: Any) -> Any:
        """Apply the choice like a :class:`Chain` with this as its only member; see :meth:`Chain.__call__`."""
        return Chain.part((self,))(x, **options)

    def run(self, x: Any, options: CallOptions) -> Any:
        """See :meth:`Member.run`."""
        count, index = count_of(x, options.layout), options.index
        if index is None:
            index = getattr(reference_of(x), "indices", None)
        indices = indices_of(self, index, 1 if count is None else count)  # type: ignore[arg-type]  # it has a name
        drawn = self.drawn(options.epoch, indices)
        if len(set(drawn)) == 1:
            same = replace(options, index=indices if count is not None else indices[0])
            return self._run_parts(drawn[0], x, same)
        groups: dict[tuple[int, ...], list[int]] = {}
        for position, numbers in enumerate(drawn):
            groups.setdefault(numbers, []).append(position)
        results = []
        for numbers, positions in groups.items():
            own = replace(options, index=[indices[position] for position in positions])
            results.append((positions, self._run_parts(numbers, selected(x, positions), own, positions)))
        return merged(x, results, self.name)

    def _run_parts(
        self,
        numbers: tuple[int, ...],
        x: Any,
        options: CallOptions,
        positions: Seq[int] | None = None,
    ) -> Any:
        """Apply parts to samples; ``positions`` are their positions in the batch, None for the whole batch."""
        for line in (self.parts[number] for number in numbers):
            if line is not None:
                own = (
                    line
                    if positions is None
                    else line.rebuilt([_for_samples(op, positions) for op in line.operators])
                )
                x = own(x, **vars(options))
        return x


def _for_samples(op: Any, positions: Seq[int]) -> Any:
    """Return an operator with the values of some samples for its array parameters."""
    tabled = getattr(op, "tabled", ())
    if not tabled:
        return op
    settings = op.settings()
    for q in tabled:
        values = unframed(settings[q.name]).values
        by_frame = isinstance(settings[q.name], PerFrame)
        if not by_frame:
            settings[q.name] = values[list(positions)]
        elif values.ndim - bool(q.size) > 1:  # else the values for frames apply to all samples
            settings[q.name] = PerFrame(values[list(positions)])
    return op.with_settings(settings)


@dataclass(frozen=True, repr=False)
class OneOf(SomeOf):
    """Apply one randomly chosen operator or chain to each sample; see :class:`SomeOf`.

    Args:
        parts: operators, chains, or lists of these; None leaves a sample unchanged.
        weights: relative probability of each part; None for equal ones.
        p: probability that a sample gets any part.
        seed: seed of the choice.

    Raises:
        ParameterError: there are no parts, one mixes samples or changes their axes, or a number is out of bounds.
    """

    name: ClassVar[str] = "one_of"

    def __init__(
        self, parts: Seq[Any], *, weights: Seq[float] | None = None, p: float = 1.0, seed: int = 0
    ) -> None:
        super().__init__(1, parts, weights=weights, p=p, seed=seed)


@reads_state(OneOf.name, SomeOf.name)
def _choice_of(state: State, read: Callable[[State], Any]) -> SomeOf:
    parts = [None if part is None else read(part) for part in state["parts"]]
    own = {name: state[name] for name in ("weights", "p", "seed")}
    choice = OneOf(parts, **own) if state["op"] == OneOf.name else SomeOf(tuple(state["n"]), parts, **own)
    operators = [op for part in parts if part is not None for op in part.operators]
    return choice.rebuilt([choice.with_occurrence(state["occurrence"]), *operators])


@dataclass(frozen=True, repr=False)
class Only(Member):
    """Apply operators to some images of a sample, and leave its other parts unchanged.

    ``Chain(ops.Flip(horizontal=0.5), ops.Only("t1", ops.Gamma(gamma=(0.7, 1.5))))`` flips all parts and changes the
    contrast of ``sample["t1"]``. Use it in a :class:`Chain`, or call it like one. Operators that move pixels are not
    allowed, because the parts of a sample stay aligned.

    Args:
        images: name of an image of the sample, or several names.
        ops: an operator, a chain, a choice, or a list of these.

    Raises:
        ParameterError: there is no name, or an operator moves pixels or does not act on images.
    """

    name: ClassVar[str] = "only"
    images: tuple[str, ...]
    chain: Chain

    def __init__(self, images: str | Seq[str], ops: Any) -> None:
        names = [images] if isinstance(images, str) else check_list("images", images, "names of images")
        if not names or not all(isinstance(name, str) for name in names):
            raise self.refusal(f"images={images!r} is not valid", allowed="names of images")
        chain = Chain(ops)
        self.__dict__.update(images=tuple(names), chain=chain)
        self.__dict__.update(chain=self.rebuilt(chain.operators).chain)

    def __repr__(self) -> str:
        return f"Only({self.images!r}, {self.chain.argument_repr})"

    @property
    def operators(self) -> tuple[Any, ...]:
        """See :attr:`Deferrable.operators`."""
        return self.chain.operators

    @property
    def title(self) -> str:
        """The name, and the names of the operators."""
        return f"only({self.chain.title})"

    def rebuilt(self, operators: Seq[Any]) -> Only:
        """Return the same object with other operators."""
        other = object.__new__(Only)
        chain = self.chain.rebuilt([_restricted(op, self.images) for op in operators])
        other.__dict__.update(images=self.images, chain=chain)
        return other

    @property
    def members(self) -> tuple[Any, ...]:
        """The operators, each of which knows its images."""
        return self.chain.ops

    def expression(self, name: Named) -> str:
        """See :meth:`Deferrable.expression`."""
        return f"only({self.chain.expression(name)})"

    def state(self) -> dict[str, Any]:
        """See :meth:`Member.state`."""
        return {"op": self.name, "images": list(self.images), "chain": self.chain.state()}

    def result_layout(self, layout: str) -> str:
        """See :meth:`Member.result_layout`."""
        if self.chain.result_layout(layout) != layout:
            raise self.refusal(
                f"{self.chain.title} changes the layout {layout}", allowed="operators that keep it"
            )
        return layout

    def result_types(self, inputs: Seq[Type]) -> NoReturn:
        """Refuse values that are not samples of several parts, whose calls are :class:`DeferredSampleCall`.

        Raises:
            ParameterError: always.
        """
        raise sample_error(self.images, f"{inputs[0]}")

    def __call__(self, x: Any, **options: Any) -> Any:
        """Apply it to a sample like a :class:`Chain` with this as its only member; see :meth:`Chain.__call__`."""
        return Chain.part((self,))(x, **options)


@reads_state(Only.name)
def _only_of(state: State, read: Callable[[State], Any]) -> Only:
    chain = read(state["chain"])
    return Only(state["images"], chain).rebuilt(chain.operators)


def _restricted(op: Any, images: tuple[str, ...]) -> Any:
    """Return an operator for some images."""
    if isinstance(op, SomeOf):
        return op
    if not isinstance(op, (Op, Volumetric)):
        raise ParameterError(
            f"{op.name} acts on {op.traits.takes}",
            source="only",
            allowed="operators on images, and on the intensities of volumes",
        )
    on_labels = getattr(op.traits, "on_labels", False)
    if op.traits.geometric or on_labels or not (op.traits.keeps_size and op.traits.keeps_frames):
        what = "changes labels" if on_labels else "moves pixels"
        raise ParameterError(
            f"{op.name} {what}, and all parts of a sample are moved together",
            source="only",
            allowed="operators that change values without moving them",
            advice="Put it into the chain next to this",
        )
    if op.image_names not in (None, images):
        raise ParameterError(
            f"{op.name} is for {', '.join(op.image_names)} already",
            source="only",
            allowed="no Only within another",
        )
    return op.for_images(images)
