"""Settings: an operator as a value, with repr, JSON, equality and pending parameters."""

from __future__ import annotations

import json
from collections.abc import Sequence as Seq
from typing import TYPE_CHECKING, Any, ClassVar, NoReturn

from ...core.cached import cached_property
from ...core.json_text import reading_json
from ...errors import ParameterError
from .deferred import Deferrable, written
from .distributions import encoded, settings_of, unframed
from .nodes import DataNode, Named
from .parameters import Parameter

if TYPE_CHECKING:
    from typing_extensions import Self

__all__ = ["REGISTRY", "Settings"]

REGISTRY: dict[str, type[Any]] = {}
"""Operator classes by name."""


class Settings(Deferrable):
    """Base of objects that are defined by their parameters, and equal if these are.

    Attributes:
        name: name of the operator's function.
        stream_name: name of its random stream: that of the class, followed by the occurrence unless that is 0. An
            operator that was renamed keeps it, and so its sampled values.
        parameters: the declared parameters.
        image_names: names of the images of a sample that it changes; None for all. :class:`seqpipe.ops.Only` sets them.
    """

    name: ClassVar[str]
    stream_name: ClassVar[str]
    parameters: ClassVar[tuple[Parameter, ...]]
    image_names: ClassVar[tuple[str, ...] | None] = None

    @property
    def operators(self) -> tuple[Any, ...]:
        """The operator itself."""
        return (self,)

    @property
    def title(self) -> str:
        """The operator's name."""
        return self.name

    def expression(self, name: Named) -> str:
        """See :meth:`Deferrable.expression`."""
        return f"{self.name}({written(self, name)})"

    def rebuilt(self, operators: Seq[Any]) -> Self:
        """Return the one operator."""
        (op,) = operators
        return op  # type: ignore[no-any-return]  # of this class

    @property
    def has_seed(self) -> bool:
        """Whether the operator has a seed; operators that sample nothing have none."""
        return any(parameter.name == "seed" for parameter in self.parameters)

    @property
    def occurrence(self) -> int:
        """Position among the operators of equal name and seed; see :class:`seqpipe.ops.core.nodes.Occurrences`."""
        return int(self.stream_name.removeprefix(type(self).stream_name).removeprefix("#") or 0)

    def with_occurrence(self, occurrence: int) -> Self:
        """Return the same operator with another occurrence."""
        if occurrence == self.occurrence:
            return self
        name = type(self).stream_name
        return self._copy(stream_name=f"{name}#{occurrence}" if occurrence else name)

    def for_images(self, names: tuple[str, ...] | None) -> Self:
        """Return the same operator with other :attr:`image_names`."""
        return self if names == self.image_names else self._copy(image_names=names)

    def _copy(self, **attributes: Any) -> Self:
        other = object.__new__(type(self))
        # includes its caches, which hold nothing sampled
        other.__dict__.update(self.__dict__, **attributes)
        return other

    def with_settings(self, settings: dict[str, Any]) -> Self:
        """Return an operator with all parameters from :meth:`settings`, and this one's occurrence and images."""
        return _rebuild(type(self), settings, self.occurrence, self.image_names)  # type: ignore[no-any-return]  # of this class

    def settings(self) -> dict[str, Any]:
        """Return the normalized value of every parameter."""
        return {parameter.name: getattr(self, parameter.name) for parameter in self.parameters}

    @cached_property
    def nodes(self) -> dict[str, DataNode]:
        """Nodes among the parameters, by parameter name."""
        result = {name: unframed(value) for name, value in self.settings().items()}
        return {name: value for name, value in result.items() if isinstance(value, DataNode)}

    def changed(self) -> dict[str, Any]:
        """Return the parameters that differ from their defaults."""
        return {
            q.name: value
            for q in self.parameters
            if isinstance(unframed(value := getattr(self, q.name)), DataNode) or value != q.default
        }

    def __repr__(self) -> str:
        arguments = ", ".join(f"{name}={value!r}" for name, value in self.changed().items())
        return f"{type(self).__name__}({arguments})"

    def __reduce__(self) -> tuple[Any, ...]:
        return _rebuild, (type(self), self.settings(), self.occurrence, self.image_names)

    def check_bound(self) -> None:
        """Check that no parameter is a node."""
        for name, node in self.nodes.items():
            raise self.refusal(
                f"{name} is the node {node}, whose value is not known yet",
                advice="Call the operator, which returns a node, and build a seqpipe.pipeline.Graph from that",
            )

    def state(self) -> dict[str, Any]:
        """Return the operator's name and its values as JSON types; nodes stay objects."""
        occurring = {"occurrence": self.occurrence} if self.occurrence else {}
        values = {name: encoded(value) for name, value in self.settings().items()}
        return {"op": self.name, **occurring, **values}

    def to_json(self) -> str:
        """Return the operator as JSON, for :meth:`from_json`."""
        return json.dumps(self.state(), default=self._refuse_node)

    def _refuse_node(self, node: DataNode) -> NoReturn:
        raise self.refusal(f"{node} is a node among the parameters", advice="Serialize the graph instead")

    @staticmethod
    def from_json(text: str, **more: Any) -> Any:
        """Create the operator that :meth:`to_json` wrote."""
        with reading_json("operator", "from_json"):
            settings = settings_of(text)
            name = settings.pop("op", None)
            if not isinstance(name, str) or name not in REGISTRY:
                raise ParameterError(
                    f"there is no operator {name!r}",
                    allowed=", ".join(sorted(REGISTRY)),
                    advice="Import the module that defines it first, if it is one of your own",
                )
            return _of_settings(name, settings, more)


def _of_settings(name: str, settings: dict[str, Any], more: dict[str, Any]) -> Any:
    occurrence = settings.pop("occurrence", 0)
    if type(occurrence) is not int or occurrence < 0:
        allowed = "a whole number of at least 0"
        raise ParameterError(f"occurrence={occurrence!r} is not valid", source=name, allowed=allowed)
    return REGISTRY[name](**settings, **more).with_occurrence(occurrence)


def _rebuild(
    cls: type[Any], settings: dict[str, Any], occurrence: int = 0, images: tuple[str, ...] | None = None
) -> Any:
    return cls(**settings).with_occurrence(occurrence).for_images(images)
