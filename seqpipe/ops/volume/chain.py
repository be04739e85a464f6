"""VolumeChain: consecutive operators on volumes, fused."""

from __future__ import annotations

from collections.abc import Mapping
from collections.abc import Sequence as Seq
from dataclasses import dataclass
from typing import Any, TypeVar

from ...core.kernel import KernelDevice
from ..core.call_options import CallOptions
from ..core.deferred import Deferrable, or_node
from ..core.spec import Backend
from .base import VolumeGeometry, Volumetric
from .plan import plans_of, settings_agree
from .run import SINGLE, run
from .state import state_of

__all__ = ["VolumeChain"]

X = TypeVar("X")


@dataclass(frozen=True)
class VolumeChain(Deferrable):
    """Consecutive operators on volumes in a chain; adjacent geometric ones are fused into one gather.

    Attributes:
        ops: the operators, in their order; each draws as it does in the chain.
    """

    ops: tuple[Volumetric, ...]

    @property
    def operators(self) -> tuple[Volumetric, ...]:
        """The operators, of which parameters may be nodes."""
        return self.ops

    @property
    def title(self) -> str:
        """Their names."""
        return " → ".join(op.name for op in self.ops)

    def rebuilt(self, operators: Seq[Any]) -> VolumeChain:
        """Return a chain with other operators."""
        return VolumeChain(tuple(operators))

    @or_node
    def __call__(
        self,
        x: X,
        *,
        layout: str | None = None,
        epoch: int = 0,
        index: Any = None,
        backend: Backend | None = None,
        device: KernelDevice | None = None,
    ) -> X:
        """Apply the operators to a volume, a sample of several parts, or a batch; see :meth:`Volumetric.__call__`.

        Args:
            x: the input.
            layout: of arrays.
            epoch: the epoch that parameters are sampled for.
            index: the samples' indices, or that of the first.
            backend: backend of geometric operators; None for the kernel on a GPU and C on the CPU.
            device: device of the kernel; None for the GPU of the volume.

        Raises:
            ParameterError: an operator does not accept its input.
            BackendError: the data is on a GPU that cannot be used.
        """
        options = CallOptions(layout=layout, epoch=epoch, index=index, backend=backend, device=device)
        result: X = run(self.ops, x, options)
        return result

    def explained(self) -> list[str]:
        """Return a line for each pass over the voxels, if all operators act."""
        lines = []
        for group in self.groups():
            traits = group[0].traits
            how = "one gather" if traits.geometric else "labels" if traits.on_labels else "intensities"
            lines.append(f"{' → '.join(op.name for op in group)}: {how}")
        return lines

    def explained_for(self, x: Any, layout: str | None, epoch: int, index: int) -> list[str]:
        """Return a line for each pass over the voxels of a sample.

        Args:
            x: a volume or a sample.
            layout: of arrays.
            epoch: the epoch that parameters are sampled for.
            index: of the sample.

        Raises:
            ParameterError: an operator does not accept it.
        """
        sample = x if isinstance(x, Mapping) else {SINGLE: x}
        (plan,) = plans_of(self.ops, [state_of(self.ops[0].name, sample, layout)], epoch, [index])
        return [f"{' → '.join(step.names)}: {step.summary}" for step in plan.steps]

    def groups(self) -> list[tuple[Volumetric, ...]]:
        """Return the operators of each pass, if all of them act."""
        groups: list[list[Volumetric]] = []
        settings: dict[str, Any] = {}
        warped = moving = False
        for op in self.ops:
            if not isinstance(op, VolumeGeometry):
                groups.append([op])
                moving = False
                continue
            apart = op.smooths or (op.warps and warped)
            if moving and not apart and settings_agree(settings, op.gather_settings):
                groups[-1].append(op)
                settings, warped = settings | op.gather_settings, warped or op.warps
            else:
                groups.append([op])
                settings, warped, moving = dict(op.gather_settings), op.warps, True
        return [tuple(group) for group in groups]
