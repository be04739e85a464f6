"""Member: base of chain members other than operators, such as a choice for each sample."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any, ClassVar

from ..core.call_options import CallOptions
from ..core.deferred import Deferrable

__all__ = ["Member"]


class Member(Deferrable):
    """A member of a chain that is not an operator.

    Attributes:
        explanation: how it runs, as a clause for ``explain``.
    """

    explanation: ClassVar[str] = ""

    @abstractmethod
    def run(self, x: Any, options: CallOptions) -> Any:
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
        """Return the settings as JSON types; nodes stay objects."""
