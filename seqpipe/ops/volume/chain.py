"""VolumeChain: operators on volumes one after the other, geometry composed so that each voxel is read once."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from collections.abc import Sequence as Seq
from dataclasses import dataclass
from typing import Any, TypeVar

from ...errors import ParameterError
from ...kernel import KernelDevice
from ..core.call_options import CallOptions
from ..core.declaration import Declaration
from ..core.deferred import Maker, or_node
from ..core.occurrences import Occurrences
from ..core.spec import Backend
from .base import Exact, Volumetric
from .held import state_of
from .plan import plans_of
from .run import ALONE, run

__all__ = ["VolumeChain"]

X = TypeVar("X")


@dataclass(frozen=True)
class VolumeChain(Maker):
    """Operators on volumes, one after the other.

    Neighbors that move voxels, and agree on interpolation and on what is outside, become one mapping: each part is read
    once, from what the chain was given. So nothing is interpolated twice, a crop after a turn loses no corner, and what
    one operator moves out another can bring back. A second elastic field begins a pass of its own, and so does what
    smooths images before it makes them coarser (``antialias`` of ``Zoom3d`` and ``Resample3d``).

    A chain is a value: it prints, goes to JSON and back, has its operators by number, and adds to others.

    Args:
        ops: the operators, in their order; as attribute each draws as it does in the chain.

    Raises:
        ParameterError: there are none, or something else is among them.
    """

    ops: tuple[Volumetric, ...]

    def __init__(self, *ops: Volumetric) -> None:
        for op in ops:
            if not isinstance(op, Volumetric):
                raise ParameterError(
                    f"a chain on volumes with {getattr(op, 'name', None) or type(op).__name__}",
                    source="VolumeChain",
                    allowed="operators on volumes, such as ops.RandomAffine3d",
                    advice="Operators on images stand in an ops.Chain",
                )
        if not ops:
            raise ParameterError("a chain of no operators", source="VolumeChain", allowed="one or more")
        object.__setattr__(self, "ops", Occurrences().of(ops))

    def __repr__(self) -> str:
        return f"VolumeChain({', '.join(map(repr, self.ops))})"

    def __iter__(self) -> Iterator[Volumetric]:
        return iter(self.ops)

    def __len__(self) -> int:
        return len(self.ops)

    def __getitem__(self, number: int) -> Volumetric:
        return self.ops[number]

    def __add__(self, other: VolumeChain) -> VolumeChain:
        return VolumeChain(*self.ops, *other.ops)

    def without(self, *names: str) -> VolumeChain:
        """The chain without the operators of some names, as ``"gaussian_noise3d"``.

        Raises:
            ParameterError: there is no such operator in it, or no other.
        """
        known = {op.name for op in self.ops}
        for name in names:
            if name not in known:
                raise ParameterError(
                    f"there is no {name!r} in the chain",
                    source="VolumeChain",
                    allowed=", ".join(sorted(known)),
                )
        return VolumeChain(*(op for op in self.ops if op.name not in names))

    @property
    def makers(self) -> tuple[Volumetric, ...]:
        """The operators, of which parameters may be nodes."""
        return self.ops

    @property
    def title(self) -> str:
        """Their names."""
        return " → ".join(op.name for op in self.ops)

    def rebuilt(self, makers: Seq[Any]) -> VolumeChain:
        """The same with other operators."""
        made = object.__new__(VolumeChain)
        object.__setattr__(made, "ops", tuple(makers))
        return made

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
        """The result for a volume, a sample of several parts, or a batch; see :meth:`Volumetric.__call__`.

        Args:
            x: what they are to act on.
            layout: of arrays.
            epoch: the epoch that draws are for.
            index: the samples' indices, or that of the first.
            backend: who does geometry; None for the kernel on a GPU and C on the CPU.
            device: what the kernel runs on; None for the GPU that holds the volume.

        Raises:
            ParameterError: one of the operators does not take what it is given.
            BackendError: the data is on a GPU that cannot be used.
        """
        options = CallOptions(layout=layout, epoch=epoch, index=index, backend=backend, device=device)
        result: X = run(self.ops, x, options)
        return result

    def explain(self, x: Any = None, *, layout: str | None = None, epoch: int = 0, index: int = 0) -> str:
        """What is done, a line for each pass over the voxels.

        Args:
            x: a volume or a sample, for what is drawn for it: which operators act, and whether slices stay slices.
            layout: of arrays.
            epoch: the epoch.
            index: of the sample.
        """
        if x is None:
            lines = [
                (names, "one gather" if geometric else "intensities") for names, geometric in self._groups()
            ]
        else:
            sample = x if isinstance(x, Mapping) else {ALONE: x}
            (plan,) = plans_of(self.ops, [state_of(self.ops[0].name, sample, layout)], epoch, [index])
            lines = [(step.names, step.summary) for step in plan.steps]
        return "\n".join(f"{n}. {' → '.join(names)}: {how}" for n, (names, how) in enumerate(lines, 1))

    def _groups(self) -> Iterator[tuple[list[str], bool]]:
        """Names of operators that are done together if all of them act, and whether they are geometry."""
        names: list[str] = []
        how: dict[str, Any] = {}
        warped = False
        for op in self.ops:
            if not isinstance(op, Exact):
                if names:
                    yield names, True
                yield [op.name], False
                names, how, warped = [], {}, False
                continue
            if names and (
                op.smooths
                or (op.warps and warped)
                or any(how.get(key, value) != value for key, value in op.how.items())
            ):
                yield names, True
                names, how, warped = [], {}, False
            names = [*names, op.name]
            how, warped = how | op.how, warped or op.warps
        if names:
            yield names, True

    def to_json(self) -> str:
        """The chain as JSON, for :meth:`from_json`."""
        return json.dumps({"volume_chain": [json.loads(op.to_json()) for op in self.ops]})

    @staticmethod
    def from_json(text: str) -> VolumeChain:
        """The chain that :meth:`to_json` was called for.

        Raises:
            ParameterError: this is no such text.
        """
        try:
            states = json.loads(text)["volume_chain"]
            texts = [json.dumps(state) for state in states]
        except (ValueError, TypeError, KeyError) as error:
            raise ParameterError(
                f"{text[:80]!r} is no chain on volumes", source="VolumeChain", allowed="what to_json() gives"
            ) from error
        return VolumeChain(*map(Declaration.from_json, texts))
