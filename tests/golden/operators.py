"""Jobs of operators: all declared examples, random chains, policies, parts and draws, called with arrays."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import replace
from typing import Any, get_args

import numpy as np

from seqpipe import Batch, Sequence, fn, ops, recipes
from seqpipe.ops import REGISTRY
from seqpipe.ops.core.declaration import Takes
from seqpipe.parts import Boxes, Flow, Labels, Metadata, Points
from tests.support.operators import images, names

from .hashing import job

Found = Iterator[tuple[int, dict[str, Any]]]
SIZE = (20, 26)
FRAMES = 2
AFFINE = np.diag([2.5, 1.0, 1.25, 1.0])
# operators of random chains, fixed here so that new ones do not change the chains
IMAGES = [
    "auto_contrast",
    "box_blur",
    "brightness",
    "brightness_contrast",
    "color_twist",
    "contrast",
    "crop",
    "equalize",
    "erase",
    "flip",
    "gamma",
    "gaussian_blur",
    "hsv",
    "hue",
    "invert",
    "jpeg_compression_distortion",
    "median_blur",
    "gaussian_noise",
    "salt_and_pepper_noise",
    "pad",
    "paste",
    "posterize",
    "random_erasing",
    "random_resized_crop",
    "resize",
    "rotate",
    "saturation",
    "sharpen",
    "slice",
    "solarize",
    "warp_affine",
]
VOLUMES = [
    "anisotropy",
    "bias_field",
    "brightness_additive",
    "coarse_dropout3d",
    "contrast3d",
    "crop3d",
    "elastic3d",
    "flip3d",
    "gamma3d",
    "gaussian_blur3d",
    "gaussian_noise3d",
    "ghosting",
    "gibbs",
    "low_resolution",
    "median_blur3d",
    "motion",
    "pad3d",
    "random_affine3d",
    "resample3d",
    "rician_noise",
    "rot90",
    "sharpen3d",
    "spike",
    "window",
    "zoom3d",
    "zscore",
]


def _plain(value: Any) -> Any:
    """A result as arrays, or nested lists and dictionaries of arrays."""
    if isinstance(value, dict):
        return {name: _plain(one) for name, one in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(one) for one in value]
    if isinstance(value, Batch):
        return value.numpy() if value.stacked is not None else [one.numpy() for one in value.sequences]
    value = getattr(value, "data", value) if not isinstance(value, np.ndarray) else value
    return value.numpy() if isinstance(value, Sequence) else value


def _named(value: Any, name: str = "image") -> dict[str, Any]:
    """The results of an operator by name; several are numbered."""
    found = _plain(value)
    if isinstance(found, dict):
        return found
    if isinstance(value, tuple):
        return {f"{name} {number}": one for number, one in enumerate(found)}
    return {name: found}


def _examples(name: str) -> list[Any]:
    return [REGISTRY[name](**given) for given in REGISTRY[name].traits.examples]


def _of_images(name: str) -> Any:
    def run() -> Found:
        for op in _examples(name):
            for dtype in [one for one in ("uint8", "float32") if one in op.traits.dtypes]:
                x = images(op, dtype, size=SIZE, seed=3)
                for epoch in range(2):
                    yield epoch, _named(op(x, layout="NFHWC", epoch=epoch, index=5), dtype)

    return run


def _volume(seed: int = 3, shape: tuple[int, ...] = (8, 14, 16)) -> Any:
    """A volume with a label of three classes, oblong voxels."""
    rng = np.random.default_rng(seed)
    labels = np.zeros(shape, np.uint8)
    labels[1:5, 3:9, 2:8], labels[4:7, 8:12, 9:14] = 1, 2
    data = (rng.random(shape) + labels).astype(np.float32)
    spaced = {"affine": AFFINE}
    return {
        "image": Sequence(data[..., None], "DHWC", **spaced),
        "label": Labels(Sequence(labels[..., None], "DHWC", **spaced)),
    }


def _of_volumes(name: str) -> Any:
    def run() -> Found:
        for op in _examples(name):
            for epoch in range(2):
                moved = op(_volume(), epoch=epoch, index=5)
                yield epoch, {**_named(moved), "affine": moved["image"].affine}

    return run


for _name in names("images"):
    if REGISTRY[_name].__module__.startswith("seqpipe."):
        job(f"operator/{_name}")(_of_images(_name))
for _name in names("volumes"):
    if REGISTRY[_name].__module__.startswith("seqpipe."):
        job(f"operator/{_name}")(_of_volumes(_name))


@job("operators on arrays")
def arrays() -> Found:
    x = np.random.default_rng(0).integers(0, 10, (2, 3, 4)).astype(np.uint8)
    for name in ("max", "mean", "mean_square", "min", "rms", "std_dev", "sum", "variance"):
        yield 0, {name: REGISTRY[f"reductions.{name}"]()(x)}
    yield (
        1,
        {
            "cat": fn.cat(x, x, axis=1),
            "stack": fn.stack(x, x),
            "one hot": fn.one_hot(x[0, 0], num_classes=10),
            "transposed": fn.transpose(x, perm=(2, 0, 1)),
            "reshaped": fn.reshape(x, shape=(6, -1)),
        },
    )


@job("operators on flow")
def flow() -> Found:
    y, x = np.mgrid[:64, :96]
    clip = np.stack([(127 + 60 * np.sin((x + 3 * n) / 5) + 50 * np.sin((y - n) / 7)) for n in range(4)])
    clip = clip[..., None].repeat(3, -1).astype(np.uint8)
    given = REGISTRY["optical_flow"].traits.examples
    for number, options in enumerate(given):
        op = ops.OpticalFlow(**{"backend": "dis", **options})
        yield number % 2, _named(op(clip, layout="FHWC"), f"flow {number}")


@job("operators on boxes and points")
def boxes() -> Found:
    placed = np.array([[0.1, 0.2, 0.4, 0.9], [0.0, 0.0, 1.0, 1.0], [0.5, 0.25, 0.75, 0.5]], np.float32)
    sides = np.concatenate([placed[:, :2], placed[:, 2:] - placed[:, :2]], axis=1)
    for name in ("bb_flip", "bbox_paste"):
        for op in _examples(name):
            yield 0, {name: op(placed if op.ltrb else sides)}
    for epoch in range(2):
        for op in _examples("random_bbox_crop"):
            found = op(placed if op.ltrb else sides, np.array([1, 2, 3]), epoch=epoch, index=4)
            yield epoch, {"crop": [np.asarray(one) for one in found]}
        for op in _examples("coord_transform"):
            yield epoch, {"points": op(np.array([[1.0, 2.0], [3.0, 5.0]], np.float32))}


@job("operators on batches")
def mixing() -> Found:
    clips = np.random.default_rng(1).integers(0, 256, (4, 2, 12, 16, 3), dtype=np.uint8)
    batch = Batch.of(
        [Sequence(clip, "FHWC", label=number, index=number + 7) for number, clip in enumerate(clips)]
    )
    for epoch in range(2):
        for name in ("mixup", "cutmix"):
            for given in REGISTRY[name].traits.examples:
                mixed = REGISTRY[name](**{**given, "num_classes": 5})(batch, epoch=epoch)
                yield epoch, {"image": mixed.data.numpy(), "label": mixed.labels, "index": mixed.data.indices}
        for one in ops.CutMix3d(seed=1)([_volume(seed) for seed in range(3)], epoch=epoch).data:
            yield epoch, _named(one)


@job("parameters of operators")
def parameters() -> Found:
    """What each parameter may be, which its declaration alone says: tests derive messages from that."""
    for name in names(*get_args(Takes)):
        if REGISTRY[name].traits.is_builtin:
            told = [replace(q, param=replace(q.param, doc="")) for q in REGISTRY[name].parameters]
            yield 0, {name: f"{told} {REGISTRY[name].traits.exclusive}"}


@job("draws of seeds and epochs")
def draws() -> Found:
    for epoch in range(2):
        for name in ("random.uniform", "random.normal", "random.coin_flip", "random.choice"):
            for seed in (0, 1, 99):
                for given in REGISTRY[name].traits.examples:
                    op = REGISTRY[name](**{**given, "seed": seed})
                    yield (
                        epoch,
                        {name: np.asarray(op.drawn(epoch=epoch, index=(0, 1, 7, 1000), frames=3)).tolist()},
                    )


@job("policies")
def policies() -> Found:
    x = np.random.default_rng(2).integers(0, 256, (3, 2, *SIZE, 3), dtype=np.uint8)
    for op in (
        ops.RandAugment(n=2, m=9, seed=1),
        ops.TrivialAugmentWide(seed=2),
        ops.AutoAugment(policy="imagenet", seed=3),
    ):
        for epoch in range(2):
            steps = [[str(step) for step in one] for one in op.drawn(epoch=epoch, index=range(6))]
            yield epoch, {"steps": steps, "image": op(x, layout="NFHWC", epoch=epoch, index=3)}


def _random_chain(pool: list[str], number: int) -> ops.Chain:
    """A chain of two to four examples."""
    choice = random.Random(number)
    chosen = [choice.choice(pool) for _ in range(choice.randint(2, 4))]
    return ops.Chain(*(choice.choice(_examples(name)[:2]) for name in chosen))


def _chains_of_images(numbers: range) -> Any:
    def run() -> Found:
        x = np.random.default_rng(4).integers(0, 256, (2, FRAMES, *SIZE, 3), dtype=np.uint8)
        for number in numbers:
            chain = _random_chain(IMAGES, number)
            for epoch in range(2):
                yield epoch, _named(chain(x, layout="NFHWC", epoch=epoch, index=6), f"image {number}")

    return run


def _chains_of_volumes(numbers: range) -> Any:
    def run() -> Found:
        for number in numbers:
            chain = _random_chain(VOLUMES, number)
            for epoch in range(2):
                found = _named(chain(_volume(), epoch=epoch, index=6))
                yield epoch, {f"{name} {number}": one for name, one in found.items()}

    return run


job("chains/images")(_chains_of_images(range(16)))
job("chains/volumes")(_chains_of_volumes(range(12)))


@job("chains/volumes by slices")
def slices() -> Found:
    chain = ops.Chain(
        ops.Rotate(angle=(-30.0, 30.0), keep_size=True, fill_value=0.0),
        ops.GaussianBlur(sigma=(0.5, 1.5)),
        ops.Flip(p=0.5, vertical=True),
        ops.Flip3d(depth=True, p=0.5, width=False),
        ops.Gamma(gamma=(0.7, 1.5), range="minmax"),
    )
    for epoch in range(2):
        for index in range(2):
            moved = chain(_volume(), epoch=epoch, index=index)
            yield epoch, {**_named(moved), "affine": moved["image"].affine}


@job("chains/parts of a clip")
def parts_of_clips() -> Found:
    rng = np.random.default_rng(6)
    sample = {
        "image": Sequence(rng.integers(0, 256, (FRAMES, *SIZE, 3), dtype=np.uint8), "FHWC"),
        "mask": Labels(rng.integers(0, 3, (FRAMES, *SIZE, 1), dtype=np.uint8)),
        "boxes": Boxes(np.array([[2.0, 3, 12, 9], [5, 5, 20, 15]])),
        "points": Points(np.array([[4.5, 6.5], [20.0, 3.25]])),
        "flow": Flow(rng.normal(size=(FRAMES - 1, *SIZE, 2)).astype(np.float32)),
        "age": Metadata(41),
    }
    chain = ops.Chain(
        ops.RandomResizedCrop(size=(16, 18), random_area=(0.4, 1.0)),
        ops.Flip(p=0.5),
        ops.BrightnessContrast(brightness=(0.8, 1.2), contrast=(0.8, 1.2)),
    )
    for epoch in range(2):
        for index in range(3):
            yield epoch, _named(chain(sample, epoch=epoch, index=index))


@job("chains/parts of a volume")
def parts_of_volumes() -> Found:
    sample = {
        **_volume(),
        "boxes": Boxes(np.array([[1.0, 3, 2, 4, 8, 7]])),
        "points": Points(np.array([[2.0, 5, 6], [5, 10, 12]])),
    }
    chain = ops.Chain(
        ops.Crop3d(size=(6, 10, 12), position=(0, 1)),
        ops.RandomAffine3d(rotate=(-20.0, 20.0), scale=(0.8, 1.2), translate_mm=(-2, 2)),
        ops.Flip3d(width=True, height=True, p=0.5),
    )
    for epoch in range(2):
        for index in range(3):
            yield epoch, _named(chain(sample, epoch=epoch, index=index))


@job("chains/recipes")
def published() -> Found:
    sample = _volume(shape=(16, 20, 24))
    for epoch in range(2):
        yield epoch, _named(recipes.nnunet((12, 16, 16))(sample, epoch=epoch, index=2))
