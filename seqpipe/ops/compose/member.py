"""Member: base of what a chain may hold besides operators, such as a choice for each sample."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any, ClassVar

from ..core.call_options import CallOptions
from ..core.deferred import Maker

__all__ = ["Member"]


class Member(Maker):
    """A member of a chain that is not an operator.

    Attributes:
        how: how it runs, as a clause for ``explain``.
    """

    how: ClassVar[str] = ""

    @abstractmethod
    def done(self, x: Any, options: CallOptions) -> Any:
        """Apply the member; the result has the type of ``x``.

        Args:
            x: images, a sequence, a batch, a list, or a sample of several parts.
            options: options of the call.

        Raises:
            ParameterError: an operator does not accept its samples, or results of one array differ in shape or type.
        """

    @abstractmethod
    def result_layout(self, layout: str) -> str:
        """Return the layout of the result for images of a layout.

        Raises:
            ParameterError: the layouts of samples would differ.
        """

    @abstractmethod
    def state(self) -> dict[str, Any]:
        """Return the settings as JSON values, except for nodes, which are kept."""
