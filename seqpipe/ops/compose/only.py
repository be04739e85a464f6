"""Only: operators applied to some images of a sample of several parts."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from collections.abc import Sequence as Seq
from dataclasses import dataclass
from typing import Any, ClassVar, NoReturn

from ...core.param import check_list
from ...errors import ParameterError
from ...parts import Image, Sample, as_part
from ..call.op import Op
from ..core.call_options import CallOptions
from ..core.nodes import Named
from ..core.types import Type
from ..geometry.base import Geometry
from .chain import Chain
from .chain_json import State, reads_state
from .choice import SomeOf
from .member import Member

__all__ = ["Only"]


@dataclass(frozen=True, repr=False)
class Only(Member):
    """Apply operators to some images of a sample, and leave its other parts unchanged.

    ``Chain(ops.Flip(horizontal=0.5), ops.Only("t1", ops.Gamma(gamma=(0.7, 1.5))))`` flips all parts and changes the
    contrast of ``sample["t1"]``. Use it in a :class:`Chain`, or call it like one. Operators that move pixels are not
    allowed, because the parts of a sample stay aligned. Operators on volumes that change intensities have a parameter
    ``only`` instead.

    Args:
        images: name of an image of the sample, or several names.
        ops: an operator, a chain, a choice, or a list of these.

    Raises:
        ParameterError: there is no name, or an operator moves pixels or does not act on images.
    """

    name: ClassVar[str] = "only"
    explanation: ClassVar[str] = "for some images of a sample"

    images: tuple[str, ...]
    chain: Chain

    def __init__(self, images: str | Seq[str], ops: Any) -> None:
        names = [images] if isinstance(images, str) else check_list("images", images, "names of images")
        if not names or not all(isinstance(name, str) for name in names):
            raise ParameterError(
                f"images={images!r} is not valid", source=self.name, allowed="names of images"
            )
        chain = Chain(ops)
        for op in chain.operators:
            if not isinstance(op, SomeOf):
                _check(op)
        self.__dict__.update(images=tuple(names), chain=chain)

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
        other.__dict__.update(images=self.images, chain=self.chain.rebuilt(operators))
        return other

    def expression(self, name: Named) -> str:
        """See :meth:`Deferrable.expression`."""
        return f"only({self.chain.expression(name)})"

    def state(self) -> dict[str, Any]:
        """See :meth:`Member.state`."""
        return {"op": self.name, "images": list(self.images), "chain": self.chain.state()}

    def result_layout(self, layout: str) -> str:
        """See :meth:`Member.result_layout`."""
        if self.chain.result_layout(layout) != layout:
            raise ParameterError(
                f"{self.chain.title} changes the layout {layout}",
                source=self.name,
                allowed="operators that keep it",
            )
        return layout

    def result_types(self, inputs: Seq[Type]) -> NoReturn:
        """Refuse values that are not samples of several parts, whose calls are :class:`DeferredSampleCall`.

        Raises:
            ParameterError: always.
        """
        raise self.sample_error(f"{inputs[0]}")

    def __call__(self, x: Any, **options: Any) -> Any:
        """Apply it to a sample like a :class:`Chain` with this as its only member; see :meth:`Chain.__call__`."""
        return Chain.part((self,))(x, **options)

    def run(self, x: Any, options: CallOptions) -> Any:
        """See :meth:`Member.run`."""
        if not isinstance(x, Mapping):
            raise self.sample_error(type(x).__name__)
        known = [name for name, value in x.items() if isinstance(as_part(value), Image)]
        for name in self.images:
            if name not in known:
                raise ParameterError(
                    f"{name!r} is no image of the sample",
                    source=self.name,
                    allowed=", ".join(known) or "none",
                )
        changed: Any = self.chain({name: x[name] for name in self.images}, **vars(options))
        before = x if isinstance(x, Sample) else Sample(x)
        return before.with_parts({**x, **changed}, lambda: changed.history)

    def sample_error(self, received: str) -> ParameterError:
        """Return the error for an input that is not a sample of several parts.

        Args:
            received: description of the input.
        """
        names = ", ".join(f"{name!r}: …" for name in self.images)
        return ParameterError(
            f"it acts on {', '.join(self.images)} of a sample, not on: {received}",
            source=self.name,
            allowed=f"a sample of several parts, such as {{{names}}}",
        )


@reads_state(Only.name)
def _only_of(state: State, read: Callable[[State], Any]) -> Only:
    chain = read(state["chain"])
    return Only(state["images"], chain).rebuilt(chain.operators)


def _check(op: Any) -> None:
    """Check that an operator changes images without moving pixels.

    Raises:
        ParameterError: it does not.
    """
    if not isinstance(op, Op):
        advice = "Operators on volumes have a parameter only=…" if op.traits.takes == "volumes" else ""
        raise ParameterError(
            f"{op.name} acts on {op.traits.takes}",
            source="only",
            allowed="operators on images",
            advice=advice,
        )
    if isinstance(op, Geometry) or not (op.traits.keeps_size and op.traits.keeps_frames):
        raise ParameterError(
            f"{op.name} moves pixels, and all parts of a sample are moved together",
            source="only",
            allowed="operators that change values without moving them",
            advice="Put it into the chain next to this",
        )
