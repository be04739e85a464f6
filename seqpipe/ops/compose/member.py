"""Member: what stands in a chain beside operators, and decides by itself what each sample goes through."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any, ClassVar

from ...kernel import KernelDevice
from ..core.deferred import Maker
from ..core.spec import Backend

__all__ = ["Member"]


class Member(Maker):
    """A member of a chain that is no operator.

    Attributes:
        how: how it is done, in a clause.
    """

    how: ClassVar[str] = ""

    @abstractmethod
    def done(
        self,
        x: Any,
        *,
        layout: str | None,
        epoch: int,
        index: Any,
        backend: Backend | None = None,
        device: KernelDevice | None = None,
    ) -> Any:
        """The result, of the same type.

        Args:
            x: images, a sequence, a batch, a list, or a sample of several parts.
            layout: of arrays.
            epoch: the epoch that draws are for.
            index: the samples' indices, or that of the first.
            backend: who does it.
            device: what kernels run on.

        Raises:
            ParameterError: an operator does not take its samples, or results of one array differ in shape or type.
        """

    @abstractmethod
    def result_layout(self, layout: str) -> str:
        """The layout of the result of images of another one.

        Raises:
            ParameterError: samples would have different ones.
        """

    @abstractmethod
    def state(self) -> dict[str, Any]:
        """What it is, as JSON knows it, but for nodes, which stay what they are."""
