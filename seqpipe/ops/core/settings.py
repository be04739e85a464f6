"""An operator as a value: its settings, as Python and as JSON write them, and what of them is still to come."""

from __future__ import annotations

import json
from collections.abc import Sequence as Seq
from typing import TYPE_CHECKING, Any, ClassVar, NoReturn

from ...cached import cached_property
from ...errors import ParameterError
from .deferred import Maker, written
from .distributions import encoded, settings_of, unframed
from .nodes import DataNode, Named
from .parameters import Parameter

if TYPE_CHECKING:
    from typing_extensions import Self

__all__ = ["REGISTRY", "Settings"]

REGISTRY: dict[str, type[Any]] = {}
"""Every operator by its name."""


class Settings(Maker):
    """What is made of parameters, and equal where they are.

    Attributes:
        name: of the operator's function.
        stream_name: of its random numbers: the name of the operator, with the occurrence behind it unless that is 0.
        parameters: what is declared.
    """

    name: ClassVar[str]
    stream_name: ClassVar[str]
    parameters: ClassVar[tuple[Parameter, ...]]

    @property
    def makers(self) -> tuple[Any, ...]:
        """The operator alone."""
        return (self,)

    @property
    def title(self) -> str:
        """Its name."""
        return self.name

    def expression(self, name: Named) -> str:
        """See :meth:`Maker.expression`."""
        return f"{self.name}({written(self, name)})"

    def rebuilt(self, makers: Seq[Any]) -> Self:
        """The one operator."""
        (made,) = makers
        return made  # type: ignore[no-any-return]  # of this class

    @property
    def draws(self) -> bool:
        """Whether it has a seed, which what draws nothing has not."""
        return any(parameter.name == "seed" for parameter in self.parameters)

    @property
    def occurrence(self) -> int:
        """Which of those of its name and seed it is in what it is used in; see :mod:`seqpipe.ops.core.occurrences`."""
        return int(self.stream_name.removeprefix(self.name).removeprefix("#") or 0)

    def occurring(self, occurrence: int) -> Self:
        """The same operator with another occurrence."""
        if occurrence == self.occurrence:
            return self
        made = object.__new__(type(self))
        # also what it keeps between calls, none of which is drawn
        made.__dict__.update(
            self.__dict__, stream_name=f"{self.name}#{occurrence}" if occurrence else self.name
        )
        return made

    def settings(self) -> dict[str, Any]:
        """Every parameter's value in its normal form."""
        return {parameter.name: getattr(self, parameter.name) for parameter in self.parameters}

    @cached_property
    def nodes(self) -> dict[str, DataNode]:
        """The nodes among the parameters, by their names."""
        found = {name: unframed(value) for name, value in self.settings().items()}
        return {name: value for name, value in found.items() if isinstance(value, DataNode)}

    def changed(self) -> dict[str, Any]:
        """The values that are not those by default."""
        return {
            q.name: value
            for q in self.parameters
            if isinstance(unframed(value := getattr(self, q.name)), DataNode) or value != q.default
        }

    def __repr__(self) -> str:
        given = ", ".join(f"{name}={value!r}" for name, value in self.changed().items())
        return f"{type(self).__name__}({given})"

    def __reduce__(self) -> tuple[Any, ...]:
        return _rebuild, (type(self), self.settings(), self.occurrence)

    def check_settled(self) -> None:
        """Refuse to be used while a parameter is still to come.

        Raises:
            ParameterError: one is a node.
        """
        for name, node in self.nodes.items():
            raise ParameterError(
                f"{name} is what {node} is to give",
                source=self.name,
                advice="Call the operator, which gives a node, and take a seqpipe.pipeline.Graph of that",
            )

    def state(self) -> dict[str, Any]:
        """The operator's name and its values as JSON knows them, but for nodes, which stay what they are."""
        occurring = {"occurrence": self.occurrence} if self.occurrence else {}
        values = {name: encoded(value) for name, value in self.settings().items()}
        return {"op": self.name, **occurring, **values}

    def to_json(self) -> str:
        """The operator as JSON, for :meth:`from_json`.

        Raises:
            ParameterError: a parameter is a node.
        """
        return json.dumps(self.state(), default=self._refuse_node)

    def _refuse_node(self, node: DataNode) -> NoReturn:
        raise ParameterError(
            f"{node} is a node among the parameters", source=self.name, advice="Take the JSON of the graph"
        )

    @staticmethod
    def from_json(text: str, **more: Any) -> Any:
        """The operator that :meth:`to_json` was called for.

        Args:
            text: the JSON.
            **more: values of parameters that are not in it.

        Raises:
            ParameterError: this is no such text, there is no such operator, or a parameter is out of its bounds.
        """
        settings = settings_of(text)
        name = settings.pop("op", None)
        if name not in REGISTRY:
            raise ParameterError(f"there is no operator {name!r}", allowed=", ".join(sorted(REGISTRY)))
        occurrence = settings.pop("occurrence", 0)
        if type(occurrence) is not int or occurrence < 0:
            allowed = "a whole number of at least 0"
            raise ParameterError(f"occurrence={occurrence!r} is not valid", source=name, allowed=allowed)
        return REGISTRY[name](**settings, **more).occurring(occurrence)


def _rebuild(cls: type[Any], settings: dict[str, Any], occurrence: int = 0) -> Any:
    return cls(**settings).occurring(occurrence)
