"""Operators on volumes beside torch, MONAI and TorchIO, in one run: ``python -m benchmarks.volume_ops``.

``--device cuda`` measures a GPU. Prints a table of medians in milliseconds. On the CPU 2 volumes of 160³ float32; on a
GPU 8 of them. Then the recipe of nnU-Net, batch 2 of 128³ with labels, with its own probabilities and with all of them
at 1, and what the host does for a batch of it while kernels are queued. Peers that are not installed are left out.
``--peer batchgeneratorsv2`` measures nothing but that library's form of the recipe, by ``--threads`` processes; beyond
``--seconds``, starting them and warming up take about half a minute.
"""

from __future__ import annotations

import contextlib
import signal
import statistics
import sys
import time
from collections.abc import Callable
from functools import partial
from typing import Any, Final, cast

import numpy as np

from seqpipe import ops, recipes
from seqpipe.core.kernel import KernelDevice
from seqpipe.ops import Chain
from seqpipe.parts import Labels

from .batchgenerators import seconds_a_sample
from .frame import in_turns, is_here, least, medians, parser_of, print_table, waiting_for

__all__ = ["main"]

TURN = ops.RandomAffine3d(rotate=(12.0, -9.0, 20.0), scale=1.1)
FLAT = ops.RandomAffine3d(rotate=(20.0, 0.0, 0.0), scale=1.1, in_plane=True)
SPLINE = ops.RandomAffine3d(rotate=(12.0, -9.0, 20.0), scale=1.1, interp="bspline")
BEND = ops.Elastic3d(spacing=20, amplitude=0.3)
TURN_AND_BEND = Chain(TURN, BEND)
DRAWN = Chain(
    ops.RandomAffine3d(rotate=(-12.0, 20.0), scale=(0.9, 1.1)),
    ops.Elastic3d(spacing=20, amplitude=(0.1, 0.3)),
)
_BATCHES: Final = 20
_RECIPES: Final = ((1, False), (1, True), (4, True))  # channels, and whether all operators act


def main() -> None:
    """Measure, and print the table."""
    parser = parser_of(__doc__)
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--size", type=int, default=160)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument(
        "--no-recipes", action="store_true", help="leave out the recipe of nnU-Net on the device"
    )
    parser.add_argument("--peer", choices=("batchgeneratorsv2",), help="measure a peer's recipe alone")
    parser.add_argument(
        "--seconds", type=float, default=15, help="that a peer is measured for, spread over its recipes"
    )
    options = parser.parse_args()
    if options.peer:
        _peer(options.threads, options.seconds)
        return
    ops.set_threads(options.threads)
    jobs = _gathers(options.device, options.size, 8 if options.device == "cuda" else 2, options.threads)
    if options.device == "cpu":
        jobs |= _peers(options.size, 2)
    jobs |= {} if options.no_recipes else _recipes(options.device)
    jobs |= _planning()
    spent = in_turns(jobs, options.rounds, warm_up=1, wait=_wait(options.device))
    print_table(
        (f"{options.device}, {options.threads} threads", "ms, median", "least"),
        (
            (name, f"{medians(rounds).wall_ms:.3f}", f"{least(rounds).wall_ms:.3f}")
            for name, rounds in spent.items()
        ),
    )
    if options.device == "cuda":
        _profile(jobs)


def _peer(workers: int, seconds: float) -> None:
    """Print the time of batchgeneratorsv2 for nnU-Net's recipe, row by row as results arrive."""
    signal.signal(
        signal.SIGTERM, lambda *_: sys.exit(1)
    )  # as by ``timeout``: workers and semaphores are released
    print(f"| batchgeneratorsv2, {workers} processes | ms a batch of 2 |\n|-|-|", flush=True)
    try:
        for number, sample_s in seconds_a_sample(workers, seconds / len(_RECIPES), _RECIPES):
            channels, sure = _RECIPES[number]
            print(f"| {_recipe_title(channels, sure=sure)} | {sample_s * 2e3:.1f} |", flush=True)
    except (ImportError, RuntimeError) as error:
        print(f"batchgeneratorsv2 is left out: {error}")


def _profile(jobs: dict[str, Callable[[], Any]]) -> None:
    """Print for each job, and then for each operator, the GPU's time and the host's until all is queued."""
    import cupy

    def in_a_row(job: Callable[[], Any]) -> float:
        started = time.perf_counter()
        for _ in range(10):
            job()
        cupy.cuda.Device().synchronize()
        return (time.perf_counter() - started) * 1e2

    print_table(
        ("job", "GPU, ms", "host, ms", "a call of ten in a row, ms"),
        ((name, *_queued(job, 7), f"{in_a_row(job):.3f}") for name, job in jobs.items()),
    )
    volume = cupy.random.random((4, 128, 128, 128), dtype=cupy.float32)
    print_table(
        ("operator, 4 × 128³ float32", "GPU, ms", "host, ms"),
        ((name, *_queued(partial(op, volume, layout="CDHW"), 5)) for name, op in _each_operator().items()),
    )


def _queued(job: Callable[[], Any], rounds: int) -> tuple[str, str]:
    """Return medians of the GPU's time, and of the host's until all is queued, after a round that does not count."""
    import cupy

    begin, end, costs = cupy.cuda.Event(), cupy.cuda.Event(), []
    for _ in range(rounds):
        cupy.cuda.Device().synchronize()
        started = time.perf_counter()
        begin.record()
        job()
        end.record()
        host = (time.perf_counter() - started) * 1e3
        end.synchronize()
        costs.append((cupy.cuda.get_elapsed_time(begin, end), host))
    gpu, host = map(statistics.median, zip(*costs[1:], strict=True))
    return f"{gpu:.3f}", f"{host:.3f}"


def _each_operator() -> dict[str, Any]:
    """Return operators on intensities with the recipe's parameters, and others with those of their first example."""
    recipe = {
        f"{op.name} of the recipe": type(op)(**{**op.settings(), "p": 1.0})
        for op in recipes.nnunet((96, 96, 96))
    }
    rest = {
        name: cls(**{**cls.traits.examples[0], "p": 1.0})
        for name, cls in ops.REGISTRY.items()
        if cls.traits.takes == "volumes"
        and cls.traits.is_builtin
        and name != "resample3d"
        and not cls.traits.on_labels
        and name not in ("crop3d", "pad3d", "labels_to_channels")
        and cls.traits.examples[0].get("of") != "mask"
    }
    return {name: op for name, op in {**recipe, **rest}.items() if "replace_label" not in name}


def _wait(device: str) -> Callable[[], Any]:
    """Return a function that waits for a device, and for torch where it has work there."""
    if device == "cpu" or not is_here("torch"):
        return waiting_for(device)
    import torch

    wait = waiting_for(device)
    return lambda: (wait(), torch.cuda.synchronize())


def _there(array: Any, device: str) -> Any:
    if device == "cpu":
        return array
    import cupy

    return cupy.asarray(array)


def _gathers(device: str, size: int, samples: int, threads: int) -> dict[str, Callable[[], Any]]:
    """Return geometric operators, and the same transforms by torch."""
    rng = np.random.default_rng(0)
    volumes = rng.random((samples, size, size, size)).astype(np.float32)
    labels = (rng.random((1, *(-(-size // 8),) * 3)) * 5).astype(np.uint8)
    for axis in (1, 2, 3):
        labels = labels.repeat(8, axis)
    several = _there(volumes, device)
    marked = _there(labels[:, :size, :size, :size], device)
    batch: dict[str, Callable[[], Any]] = {
        f"{samples} × {size}³ affine": lambda: TURN(several, layout="NDHW"),
        f"{samples} × {size}³ affine, B-spline": lambda: SPLINE(several, layout="NDHW"),
        f"{samples} × {size}³ affine + elastic": lambda: TURN_AND_BEND(several, layout="NDHW"),
        f"{samples} × {size}³ affine + elastic, drawn": lambda: DRAWN(several, layout="NDHW"),
        f"{samples} × {size}³ in the plane": lambda: FLAT(several, layout="NDHW"),
        f"1 × {size}³ in the plane": lambda: FLAT(several[0]),
        f"1 × {size}³ labels, affine, vote": lambda: TURN(Labels(marked[0])),
    }
    try:
        import torch
    except ImportError:
        return batch
    torch.set_num_threads(threads)
    tensor = torch.from_numpy(volumes)[:, None].to(device)
    theta = torch.eye(3, 4, device=device).repeat(samples, 1, 1)
    theta[:, :, :3] += 0.1

    def grid_sample(field: Any = None) -> Any:
        grid = torch.nn.functional.affine_grid(theta, list(tensor.shape), align_corners=False)
        if field is not None:
            smooth = torch.nn.functional.interpolate(
                field, tensor.shape[2:], mode="trilinear", align_corners=False
            )
            grid = grid + smooth.permute(0, 2, 3, 4, 1)
        return torch.nn.functional.grid_sample(tensor, grid, align_corners=False)

    coarse = torch.rand(samples, 3, 8, 8, 8, device=device) * 0.05
    batch[f"{samples} × {size}³ affine, torch grid_sample with its grid"] = grid_sample
    batch[f"{samples} × {size}³ affine + coarse field, torch"] = lambda: grid_sample(coarse)
    if device == "cuda":
        batch[f"{samples} × {size}³ copied once"] = several.copy
    return batch


def _peers(size: int, samples: int) -> dict[str, Callable[[], Any]]:
    """Return the same jobs by MONAI and TorchIO, volume by volume, as in their data loaders."""
    jobs: dict[str, Callable[[], Any]] = {}
    try:
        import torch
    except ImportError:
        return jobs
    tensors = torch.rand((samples, 1, size, size, size))
    with contextlib.suppress(ImportError):  # what TorchIO resamples with
        import SimpleITK as Sitk

        images = [Sitk.GetImageFromArray(one[0].numpy()) for one in tensors]
        pose = Sitk.Euler3DTransform((size / 2,) * 3, 0.2, -0.16, 0.35)
        jobs[f"{samples} × {size}³ affine, B-spline, SimpleITK"] = lambda: [
            Sitk.Resample(one, one, pose, Sitk.sitkBSpline) for one in images
        ]
    with contextlib.suppress(ImportError):
        from monai.transforms import Affine, Rand3DElastic

        turn = Affine(
            rotate_params=(0.2, -0.16, 0.35), scale_params=(1.1,) * 3, padding_mode="zeros", image_only=True
        )
        bend = Rand3DElastic(
            (5, 7), (100, 200), prob=1.0, rotate_range=(0.2, 0.16, 0.35), padding_mode="zeros"
        )
        jobs[f"{samples} × {size}³ affine, MONAI"] = lambda: [turn(one) for one in tensors]
        jobs[f"{samples} × {size}³ affine + elastic, MONAI"] = lambda: [bend(one) for one in tensors]
    with contextlib.suppress(ImportError):
        import torchio

        move = torchio.RandomAffine(scales=(1.1, 1.1), degrees=(12, 12, -9, -9, 20, 20))
        field = torchio.Compose([move, torchio.RandomElasticDeformation(num_control_points=10)])
        jobs[f"{samples} × {size}³ affine, TorchIO"] = lambda: [move(one) for one in tensors]
        jobs[f"{samples} × {size}³ affine + elastic, TorchIO"] = lambda: [field(one) for one in tensors]
    return jobs


class _Queue:
    """A device on which launches take no time."""

    def launch(self, *_: Any, **__: Any) -> None:
        """Nothing."""


def _planning() -> dict[str, Callable[[], Any]]:
    """What the host does for a batch of volumes of which no voxel is read, and for batches of nnU-Net's recipe.

    Volumes of the recipe are so small that their voxels take no time.
    """
    rng = np.random.default_rng(1)
    sample = {
        "image": rng.normal(size=(1, 20, 20, 20)).astype(np.float32),
        "segmentation": Labels((rng.random((1, 20, 20, 20)) > 0.9).astype(np.int16)),
    }
    chain, device, numbers = recipes.nnunet((16, 16, 16)), cast(KernelDevice, _Queue()), iter(range(10**9))

    def job() -> None:
        for _ in range(_BATCHES):
            chain([sample, sample], layout="CDHW", index=2 * next(numbers), backend="cuda", device=device)

    # memory that nothing touches, which the system does not give
    volumes = np.empty((8, 160, 160, 160), np.float32)
    return {
        "8 × 160³ affine + elastic, drawn, planned on the host": lambda: DRAWN(
            volumes, layout="NDHW", backend="cuda", device=device
        ),
        f"nnU-Net recipe, {_BATCHES} batches of 2 planned on the host": job,
    }


def _recipes(device: str) -> dict[str, Callable[[], Any]]:
    """The recipe of nnU-Net for two samples of 128³ with labels, from volumes of 160³."""
    rng = np.random.default_rng(1)
    jobs: dict[str, Callable[[], Any]] = {}
    for channels, sure in _RECIPES:
        chain = recipes.nnunet((128, 128, 128))
        if sure:
            chain = Chain(*(type(op)(**{**op.settings(), "p": 1.0}) for op in chain))
        image = _there(rng.normal(size=(channels, 160, 160, 160)).astype(np.float32), device)
        labels = _there((rng.random((1, 160, 160, 160)) > 0.9).astype(np.int16), device)
        sample = {"image": image, "segmentation": Labels(labels)}
        numbers = iter(range(10**9))

        def job(chain: Any = chain, sample: Any = sample, numbers: Any = numbers) -> Any:
            return chain([sample, sample], layout="CDHW", index=2 * next(numbers))

        jobs[_recipe_title(channels, sure=sure)] = job
    return jobs


def _recipe_title(channels: int, *, sure: bool) -> str:
    how = "all at probability 1" if sure else "its own probabilities"
    return f"nnU-Net recipe, batch 2, {channels} × 128³, {how}"


if __name__ == "__main__":
    main()
