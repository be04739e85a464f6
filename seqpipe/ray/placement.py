"""Placement: Ray itself, and the actors that fit into its cluster."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from copy import copy
from dataclasses import dataclass
from importlib import import_module
from typing import Any, Final

from ..core.param import Param
from ..dataset.write import check_by_sample
from ..errors import BackendError, ParameterError, SeqpipeError
from ..video.engine.engine import available_cores

__all__ = ["ActorPool", "check_whole", "raised_by_name", "ray_module", "use_cores"]

_ACTORS: Final = Param(
    name="concurrency", doc="Number of actors", kind=int, lo=1, hi=100_000, optional=True, unit="actors"
)
_CPUS: Final = Param(name="num_cpus", doc="Cores of an actor", kind=int, lo=1, hi=1024, unit="cores")
_OLDEST: Final = (2, 51)
_GPUS: Final = Param(name="num_gpus", doc="GPUs of an actor", kind=int, lo=0, hi=1)
_BLOCKS_IN_STORE: Final = 16
"""Blocks of an actor that fit into its share of the object store: Ray limits how many wait, whatever their size."""
_LEAST_BLOCK_BYTES: Final = 2**20


def ray_module(name: str = "ray") -> Any:
    """Return a module of Ray."""
    try:
        version = str(import_module("ray").__version__)
        if tuple(map(int, version.split(".")[:2])) < _OLDEST:
            raise BackendError(
                f"Ray {version} is too old",
                allowed=f"Ray {'.'.join(map(str, _OLDEST))} or newer",
                advice="Upgrade it on all nodes: pip install -U 'seqpipe[ray]'",
            )
        return import_module(name)
    except ImportError as error:
        raise BackendError(
            f"{name} cannot be imported ({error})", advice="Install it: pip install 'seqpipe[ray]'"
        ) from error


def raised_by_name(rows: Iterable[Any]) -> Iterator[Any]:
    """Yield rows; raise the error of an actor, which Ray wraps, by its own class, and Ray's own as ours."""
    try:
        yield from rows
    except Exception as error:
        if not type(error).__module__.startswith("ray"):
            raise
        if isinstance(cause := getattr(error, "cause", None), SeqpipeError):
            raise copy(cause) from error.with_traceback(None)
        raise _named(error) from error.with_traceback(
            None
        )  # whose frames would keep the actors and their cores


def _named(error: Exception) -> BackendError:
    advice = "Ray's logs tell more; what is complete stays, and the same call with resume=True continues"
    if "OutOfMemory" in type(error).__name__ or "out of memory" in str(error).lower():
        advice = (
            "Raise num_cpus, so that fewer actors share a node's memory, or give smaller batches and frames"
        )
    return BackendError(f"Ray stopped ({type(error).__name__}: {error})", source="ray", advice=advice)


@dataclass(frozen=True)
class ActorPool:
    """Actors of a pool of fixed size.

    Attributes:
        actors: number of actors.
        num_cpus: cores of each.
        num_gpus: GPUs of each, 0 or 1.
    """

    actors: int
    num_cpus: int
    num_gpus: int

    @classmethod
    def of(cls, dataset: Any, concurrency: int | None, num_cpus: int, num_gpus: int) -> ActorPool:
        """Check arguments against the data set's device and the cluster's resources; connects to Ray."""
        count, cpus, gpus = _ACTORS.check(concurrency), _CPUS.check(num_cpus), _GPUS.check(num_gpus)
        _check_device(dataset, gpus)
        ray = ray_module()
        if not ray.is_initialized():
            ray.init()
        have = ray.cluster_resources()
        if gpus > have.get("GPU", 0):
            raise BackendError(
                "num_gpus=1, and Ray's cluster has no GPU", source="ray", advice="Add nodes with GPUs"
            )
        fit = int(have.get("CPU", 0) // cpus)
        most = min(fit, int(have["GPU"])) if gpus else fit
        if (count or 1) > most:
            wanted, there = f"{cpus} cores", f"{have.get('CPU', 0):g} cores"
            if gpus:
                wanted, there = f"{wanted} and a GPU", f"{there} and {have['GPU']:g} GPUs"
            raise BackendError(
                f"{count or 1} actors of {wanted}, and Ray's cluster has {there}",
                source="ray",
                allowed=f"up to {most} of these actors",
                advice="Lower concurrency or num_cpus, or add nodes: Ray would wait without an end",
            )
        return cls(count or most, cpus, gpus)

    def pooled(self, rows: Any, actor: type, *arguments: Any, batch_size: int | None) -> Any:
        """Return a Ray data set whose batches an actor's class has mapped; errors keep their class."""
        rows.context.raise_original_map_exception = True
        store = int(ray_module().cluster_resources().get("object_store_memory", 0))
        block_bytes = max(store // (_BLOCKS_IN_STORE * self.actors), _LEAST_BLOCK_BYTES)
        rows.context.target_max_block_size = min(rows.context.target_max_block_size, block_bytes)
        return rows.map_batches(
            actor,
            fn_constructor_args=arguments,
            batch_size=batch_size,
            batch_format="numpy",
            compute=ray_module("ray.data").ActorPoolStrategy(size=self.actors),
            num_cpus=self.num_cpus,
            num_gpus=self.num_gpus or None,
        )


def check_whole(dataset: Any, call: str) -> None:
    """Raise unless a data set gives all of its samples, one by one and by their indices."""
    check_by_sample(dataset, call)
    if dataset.world > 1:
        raise ParameterError(
            f"{call} of shard({dataset.rank}, {dataset.world})",
            source="Dataset",
            allowed=f"{call} without shard()",
            advice="Ray shares the samples among its actors",
        )


def _check_device(dataset: Any, gpus: int) -> None:
    """Raise unless the data set's device is the one that its actors are shown."""
    devices = sorted({dataset.source.device, dataset.device} - {"cpu"})
    if gpus and not devices:
        raise ParameterError(
            "num_gpus=1 of a data set on the CPU",
            source="ray",
            allowed="num_gpus=0",
            advice="Or give the data set device='cuda'",
        )
    if devices and not gpus:
        raise ParameterError(
            f"num_gpus=0 of a data set on {devices[0]}", source="ray", allowed="num_gpus=1 and device='cuda'"
        )
    if unseen := [device for device in devices if device not in ("cuda", "cuda:0")]:
        raise ParameterError(
            f"a data set on {unseen[0]}",
            source="ray",
            allowed="device='cuda'",
            advice="Ray shows each actor its own GPU as the first one",
        )


def use_cores(dataset: Any, num_cpus: int) -> None:
    """Let a data set of this process use a number of cores, unless its threads were given."""
    share = getattr(dataset.source, "share_cores", None)
    if share is not None:
        share(max(1, available_cores() // num_cpus))
