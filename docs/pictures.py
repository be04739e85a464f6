"""Pictures before and after an operator, from its declared examples, on a frame, a film strip, or a slice of a volume.

Real media are taken where ../shared/media has them (SEQPIPE_MEDIA), else what data_scripts makes.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import cv2
import numpy as np
import numpy.typing as npt

import seqpipe
from data_scripts import make_videos, make_volumes
from seqpipe import flow
from seqpipe.ops import Declaration
from seqpipe.parts import Labels

__all__ = ["ARGUMENTS", "draw"]

Pixels = npt.NDArray[Any]

ROOT: Final = Path(__file__).resolve().parents[1]
ROWS, COLUMNS, GAP, WIDEST = 180, 320, 8, 720

ARGUMENTS: Final[Mapping[str, Mapping[str, Any]]] = {
    "box_blur": {"window_size": 9},
    "brightness_gradient": {"offset": 1.0},
    "coarse_dropout3d": {"holes": 6, "size": (8, 24, 24)},
    "coarse_shuffle3d": {"holes": 6, "size": (8, 24, 24)},
    "crop": {"crop": (120, 160)},
    "crop3d": {"size": (24, 80, 80)},
    "crop_mirror_normalize": {"crop": (120, 160), "mirror": True, "mean": 127.5, "std": 127.5},
    "elastic3d": {"amplitude": 0.3, "spacing": 24, "seed": 2},
    "element_extract": {"element_map": (0, 5, 2)},
    "erase": {"anchor": (40.0, 100.0), "shape": (60.0, 90.0)},
    "gaussian_blur": {"sigma": 4.0},
    "gaussian_noise": {"stddev": 40.0},
    "jpeg_compression_distortion": {"quality": 8},
    "lookup_table": {"keys": tuple(range(0, 256)), "values": tuple(float(255 - 64 * (n // 64)) for n in range(256))},
    "median_blur": {"window_size": 9},
    "motion": {"movements": 3, "rotate": 8.0, "translate_mm": 8.0, "axis": 1},
    "normalize": {"mean": (120.0, 115.0, 100.0), "stddev": (60.0, 55.0, 50.0)},
    "pad": {"shape": (220, 360), "fill_value": 128.0},
    "pad3d": {"before": (0, 20, 20), "after": (0, 20, 20)},
    "paste": {"ratio": 1.5, "fill_value": 60.0},
    "percentile_rescale": {"lower": 5.0, "upper": 90.0},
    "random_resized_crop": {"size": (120, 120), "random_area": (0.2, 0.4), "seed": 1},
    "remap_labels": {"labels": (1, 3), "by": (3, 1)},
    "replace_label": {"label": 1, "by": 2},
    "resize": {"size": (90, 240)},
    "resize_crop_mirror": {"size": (120, 213), "crop": (112, 112), "mirror": True},
    "rotate": {"angle": 30.0, "keep_size": True, "fill_value": 0.0},
    "sequence_rearrange": {"new_order": (5, 0, 0, 3)},
    "shot_noise": {"factor": 30.0},
    "slice": {"rel_start": (0.2, 0.1), "rel_end": (0.7, 0.8)},
    "spike": {"strength": 0.3},
    "warp_affine": {"matrix": (0.9, 0.2, -10.0, -0.1, 1.1, 5.0), "fill_value": 42.0},
    "warp_perspective": {"matrix": (0.9, 0.2, -10.0, -0.1, 1.1, 5.0, 0.0005, -0.001, 1.0), "fill_value": 9.0},
    "window": {"lo": 0.2, "hi": 0.6},
}  # fmt: skip
"""Arguments for pictures, where the declared examples are for images of a few pixels or change little."""


_NEEDS_CHANNELS: Final = frozenset(("labels_to_channels", "principal_components"))
"""Operators that take or make several channels, which the scan and a picture lack."""


def draw(cls: type[Declaration], path: Path) -> Mapping[str, Any] | None:
    """Write the picture of an operator.

    Returns:
        The arguments that it was made with; None for operators whose results are not pictures.
    """
    show = _SHOWN.get(cls.traits.takes, _arrays if cls.name == "optical_flow" else None)
    if show is None or cls.name in _NEEDS_CHANNELS:
        return None
    for arguments in _arguments(cls):
        before, after = show(cls(**arguments))
        if before.shape != after.shape or (before != after).any():
            break
    height = max(before.shape[0], after.shape[0])
    stacked = before.shape[1] + after.shape[1] + GAP > WIDEST
    if stacked:
        width = max(before.shape[1], after.shape[1])
        rows = [_padded(before, before.shape[0], width), _padded(after, after.shape[0], width)]
        picture = np.concatenate([rows[0], np.full((GAP, width, 3), 255, np.uint8), rows[1]])
    else:
        columns = [_padded(one, height, one.shape[1]) for one in (before, after)]
        picture = np.concatenate([columns[0], np.full((height, GAP, 3), 255, np.uint8), columns[1]], axis=1)
    path.parent.mkdir(parents=True, exist_ok=True)
    cv2.imwrite(str(path), picture[..., ::-1])
    return arguments


def _arguments(cls: type[Declaration]) -> Iterator[Mapping[str, Any]]:
    """The arguments to try, until something is seen: of the table, of the examples, and with p=1."""
    if cls.name in ARGUMENTS:
        yield ARGUMENTS[cls.name]
    for example in cls.traits.examples:
        yield example
        yield {name: value for name, value in example.items() if name != "p"}


def _padded(picture: Pixels, height: int, width: int) -> Pixels:
    bottom, right = height - picture.shape[0], width - picture.shape[1]
    return np.pad(picture, ((0, bottom), (0, right), (0, 0)), constant_values=255)


# ---------------------------------------------------------------- samples


def _media(name: str) -> Path | None:
    path = Path(os.environ.get("SEQPIPE_MEDIA", ROOT.parent / "shared" / "media")) / name
    return path if path.exists() else None


@functools.cache
def film() -> Pixels:
    """Six frames of 180×320, uint8 RGB, a quarter of a second apart."""
    path = _media("video/codec/h264_bpyramid_bbb_800x640.mp4")
    if path is None:
        path = ROOT / "docs" / "derived" / "parts" / "sample.mp4"
        make_videos.sample(path)
    with seqpipe.open(path, output=seqpipe.OutputSpec(size=(200, COLUMNS))) as video:
        first = video.timestamps[0] + (1.0 if path.name != "sample.mp4" else 0.5)
        frames = video.at([first + number / 4 for number in range(6)])
    return np.ascontiguousarray(frames.numpy()[:, 10 : 10 + ROWS])


@functools.cache
def scan() -> tuple[seqpipe.Sequence, seqpipe.Sequence]:
    """A volume, float32 from 0 to 1, and its labels."""
    image, label = (_media(f"volume/mha_pair/3DCT_{name}.mha") for name in ("lung", "lung_mask"))
    if image is not None and label is not None:
        with seqpipe.open(image) as one, seqpipe.open(label) as other:
            voxels, classes = (volume.reorient("LPS").sequence() for volume in (one, other))
    else:
        arrays = make_volumes.scan((48, 160, 192))
        space = np.array([[0, 0, -1.0, 96], [0, -1.0, 0, 80], [2.5, 0, 0, -60], [0, 0, 0, 1]])
        voxels, classes = (seqpipe.Sequence(one[..., None], "DHWC", affine=space) for one in arrays)
    values = voxels.numpy().astype(np.float32)
    low, high = np.percentile(values, [1, 99.5])
    scaled = np.clip((values - low) / (high - low), 0, 1).astype(np.float32)
    return seqpipe.Sequence(scaled, "DHWC", affine=voxels.affine), classes.of_kind("labels")


# ---------------------------------------------------------------- results as pictures


def _images(op: Any) -> tuple[Pixels, Pixels]:
    if op.traits.keeps_frames:
        x = film()[0]
        return _shown(x), _shown(op(x))
    return _strip(film()), _strip(op(film()))


def _strip(frames: Pixels) -> Pixels:
    small = [cv2.resize(_shown(frame), (112, 63), interpolation=cv2.INTER_AREA) for frame in frames]
    between = np.full((63, GAP // 2, 3), 255, np.uint8)
    return np.concatenate([part for frame in small for part in (frame, between)][:-1], axis=1)


def _batches(op: Any) -> tuple[Pixels, Pixels]:
    if "3d" in op.name:
        image, label = (one.numpy() for one in scan())
        pair = [(image, label), (image[:, ::-1], label[:, ::-1])]
        samples = [{"image": one, "label": Labels(other % op.num_classes)} for one, other in pair]
        return _middle(image), _middle(np.asarray(op(samples, layout="DHWC")[0][0]["image"]))
    both = np.stack([film()[0], film()[-1, ::-1]])
    return _shown(both[0]), _shown(op(both, np.array([0, 1]), layout="NHWC")[0][0])


def _volumes(op: Any) -> tuple[Pixels, Pixels]:
    image, label = scan()
    if op.traits.on_labels:
        before, after = (_plane(one.numpy()) for one in (label, op({"label": Labels(label)})["label"].data))
        return _shown(before / np.float32(3)), _shown(after / np.float32(3))
    return _middle(image.numpy()), _middle(op(image).numpy())


def _plane(volume: Pixels) -> Pixels:
    return volume[volume.shape[0] // 2]


def _middle(volume: Pixels) -> Pixels:
    return _shown(_plane(volume))


def _arrays(op: Any) -> tuple[Pixels, Pixels]:
    frames = film()[:2]
    motion = op(frames)
    return _shown(frames[0]), np.asarray(flow.to_rgb(motion[0] if isinstance(motion, tuple) else motion))[0]


def _shown(picture: Pixels) -> Pixels:
    """An image of any type and one or three channels as uint8 RGB; floats beyond 0 to 1 over their whole range."""
    picture = np.asarray(picture)
    picture = picture[..., None] if picture.ndim == 2 else picture
    if picture.dtype != np.uint8:
        values = np.nan_to_num(picture.astype(np.float32))
        low, high = (0.0, 1.0) if values.min() > -0.3 and values.max() < 1.5 else (values.min(), values.max())
        picture = np.clip((values - low) / max(high - low, 1e-6) * 255, 0, 255).astype(np.uint8)
    return np.ascontiguousarray(
        np.repeat(picture, 3, axis=-1) if picture.shape[-1] == 1 else picture[..., :3]
    )


_SHOWN: Final[Mapping[str, Any]] = {"images": _images, "batches": _batches, "volumes": _volumes}
