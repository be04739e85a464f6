"""nnU-Net's recipe by batchgeneratorsv2, as nnU-Net runs it: samples by worker processes of one thread each.

``benchmarks.volume_ops --peer batchgeneratorsv2`` measures with it. The library is installed by
``pip install --no-deps batchgeneratorsv2`` with what it imports (batchgenerators, pandas, scikit-image,
fft-conv-pytorch), or lies in a folder that PYTHONPATH names.
"""

from __future__ import annotations

import multiprocessing
import queue
import time
from collections.abc import Iterator
from collections.abc import Sequence as Seq
from typing import Any

import numpy as np

__all__ = ["seconds_a_sample"]

_READY_S = 120  # for all processes to import torch and warm up


def seconds_a_sample(
    workers: int, seconds: float, recipes: Seq[tuple[int, bool]]
) -> Iterator[tuple[int, float]]:
    """Yield each recipe's number, and the seconds for a sample of 128³ with labels, of a volume of 160³.

    A result is yielded as soon as all workers have measured the recipe.

    Args:
        workers: number of processes.
        seconds: duration of the measurement of each recipe; each worker finishes its last sample.
        recipes: channels of the image, and whether every transform is applied, instead of with its own probability.

    Raises:
        ImportError: the library is not installed.
        RuntimeError: a worker failed, or did not answer in time.
    """
    recipe(sure=True)  # raises for a missing library before processes start
    context = multiprocessing.get_context("spawn")
    ready, results = context.Barrier(workers), context.Queue()
    processes = [
        context.Process(target=_work, args=(number, ready, results, seconds, recipes), daemon=True)
        for number in range(workers)
    ]
    for process in processes:
        process.start()
    rates: list[list[float]] = [[] for _ in recipes]
    try:
        for _ in range(workers * len(recipes)):
            number, rate = _next_result(results, _READY_S + seconds)
            rates[number].append(rate)
            if len(rates[number]) == workers:
                yield number, 1 / sum(rates[number])
    finally:
        for process in processes:
            process.kill()
        for process in processes:
            process.join()
        results.close()


def _next_result(results: Any, limit_s: float) -> tuple[int, float]:
    try:
        number, rate, failure = results.get(timeout=limit_s)
    except queue.Empty:
        raise RuntimeError(f"no worker has answered within {limit_s:.0f} s") from None
    if failure:
        raise RuntimeError(f"a worker failed: {failure}")
    return number, rate


def _work(number: int, ready: Any, results: Any, seconds: float, recipes: Seq[tuple[int, bool]]) -> None:
    """Put the number of each recipe, this process's samples per second, and a failure or "" into a queue."""
    try:
        for which, rate in enumerate(_rates(number, ready, seconds, recipes)):
            results.put((which, rate, ""))
    except Exception as error:  # whatever it is, the parent must not wait for this worker
        results.put((0, 0.0, f"{type(error).__name__}: {error}"))


def _rates(number: int, ready: Any, seconds: float, recipes: Seq[tuple[int, bool]]) -> Iterator[float]:
    """Yield samples per second of this process with each recipe."""
    import torch

    torch.set_num_threads(1)
    torch.manual_seed(number)
    np.random.seed(number)  # noqa: NPY002  what the library draws from
    for channels, sure in recipes:
        transform = recipe(sure=sure)
        image = torch.randn((channels, 160, 160, 160))
        labels = (torch.rand((1, 160, 160, 160)) > 0.9).to(torch.int16)
        with torch.no_grad():
            transform(image=image.clone(), segmentation=labels.clone())
            ready.wait(_READY_S)
            begin, count = time.perf_counter(), 0
            while (spent := time.perf_counter() - begin) < seconds or not count:
                transform(image=image.clone(), segmentation=labels.clone())
                count += 1
        yield count / spent


def recipe(*, sure: bool) -> Any:
    """Return the transforms that nnU-Net v2 builds in ``nnUNetTrainer.get_training_transforms``, for patches of 128³.

    Args:
        sure: whether every transform is applied, to every channel.
    """
    from batchgeneratorsv2.transforms.intensity.brightness import MultiplicativeBrightnessTransform
    from batchgeneratorsv2.transforms.intensity.contrast import BGContrast, ContrastTransform
    from batchgeneratorsv2.transforms.intensity.gamma import GammaTransform
    from batchgeneratorsv2.transforms.intensity.gaussian_noise import GaussianNoiseTransform
    from batchgeneratorsv2.transforms.noise.gaussian_blur import GaussianBlurTransform
    from batchgeneratorsv2.transforms.spatial.low_resolution import SimulateLowResolutionTransform
    from batchgeneratorsv2.transforms.spatial.mirroring import MirrorTransform
    from batchgeneratorsv2.transforms.spatial.spatial import SpatialTransform
    from batchgeneratorsv2.transforms.utils.compose import ComposeTransforms
    from batchgeneratorsv2.transforms.utils.random import RandomTransform
    from batchgeneratorsv2.transforms.utils.remove_label import RemoveLabelTansform

    often, half, turn = (1.0 if sure else 0.2), (1.0 if sure else 0.5), np.pi / 6
    around, power = BGContrast((0.75, 1.25)), BGContrast((0.7, 1.5))
    space = SpatialTransform(
        (128, 128, 128), patch_center_dist_from_border=0, random_crop=False, p_elastic_deform=0,
        p_rotation=often, rotation=(-turn, turn), p_scaling=often, scaling=(0.7, 1.4),
        p_synchronize_scaling_across_axes=1, bg_style_seg_sampling=False,
    )  # fmt: skip
    steps = [
        (0.1, GaussianNoiseTransform((0, 0.1), 1, synchronize_channels=True)),
        (0.2, GaussianBlurTransform((0.5, 1.0), False, False, half, benchmark=True)),
        (0.15, MultiplicativeBrightnessTransform(around, False, 1)),
        (0.15, ContrastTransform(around, True, False, 1)),
        (0.25, SimulateLowResolutionTransform((0.5, 1), False, True, None, None, half)),
        (0.1, GammaTransform(power, 1, False, 1, 1)),
        (0.3, GammaTransform(power, 0, False, 1, 1)),
    ]
    return ComposeTransforms(
        [
            space,
            *(RandomTransform(step, apply_probability=1.0 if sure else p) for p, step in steps),
            MirrorTransform((0, 1, 2)),
            RemoveLabelTansform(-1, 0),
        ]
    )
