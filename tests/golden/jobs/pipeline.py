"""Jobs of graphs and of sources of one's own."""

from __future__ import annotations

from typing import Any

import numpy as np

from seqpipe import Dataset, feed, fn, items
from seqpipe.parts import Metadata
from seqpipe.pipeline import Graph, Input

from ..hashing import job
from .common import EPOCHS, Found, clips, of_outputs, pixels, videos


def _of_graph(data: Dataset, build: Any, names: tuple[str, ...], **batching: Any) -> Found:
    """Parts of the batches of two epochs, after a graph."""
    with data.graph(build).batch(**batching) as batches:
        for epoch in EPOCHS:
            for batch in batches.epoch(epoch):
                yield epoch, of_outputs({name: batch[name] for name in names})


@job("pipeline/reader, drawn parameters, all values")
def graph_values() -> Found:
    def build(parts: Any) -> dict[str, Any]:
        return {"image": fn.flip(parts["image"], horizontal=fn.random.coin_flip(seed=1))}

    names = ("image", "label", "timestamps", "frames", "index", "video", "speed", "name")
    for last in ("partial", "drop", "fill", "pad"):
        data = videos(source="train.csv", length=3, step=5, shuffle=True)
        yield from _of_graph(data, build, names, size=4, last=last)


@job("pipeline/luma and colors")
def graph_luma() -> Found:
    def build(parts: Any) -> dict[str, Any]:
        flow = fn.optical_flow(parts["image"], output_grid=4, preset="fast", backend="dis")
        return {"image": parts["image"], "flow": flow}

    yield from _of_graph(clips(), build, ("image", "flow"), size=3)


@job("pipeline/parameters from pixels")
def graph_computed() -> Found:
    def build(parts: Any) -> dict[str, Any]:
        angle = fn.random.uniform(range=(-10.0, 10.0), seed=2)
        rotated = fn.rotate(parts["image"], angle=angle, keep_size=True, fill_value=0)
        mean = fn.reductions.mean(rotated, axis_names="FHWC")
        return {"image": fn.brightness(rotated, brightness=118 / (mean + 1)), "angle": angle}

    yield from _of_graph(clips(), build, ("image", "angle", "index"), size=3)


def _picture(number: int) -> np.ndarray:
    return np.random.default_rng(number).integers(0, 256, (24, 32, 3), dtype=np.uint8)


@job("items of one's own")
def own_items() -> Found:
    def build(parts: Any) -> dict[str, Any]:
        return {"image": fn.flip(parts["image"], horizontal=fn.random.coin_flip(seed=5))}

    data = items(lambda index: {"image": _picture(index), "number": index}, size=8, parts={"image": "HWC"})
    yield from _of_graph(data, build, ("image", "number"), size=3)


@job("feed of one's own")
def own_feed() -> Found:
    def build(parts: Any) -> dict[str, Any]:
        place = fn.random.uniform(range=(0.0, 1.0), seed=5)
        turned = fn.flip(parts["image"], horizontal=fn.random.coin_flip(seed=5))
        return {"image": fn.crop(turned, crop=(16, 20), crop_pos_x=place)}

    data = feed(
        lambda: ((_picture(number), number) for number in range(10)),
        parts={"image": "HWC", "label": Metadata},
    )
    yield from _of_graph(data, build, ("image", "label"), size=4)


@job("graph/shared draws")
def graph_shared() -> Found:
    images, masks = Input("images"), Input("masks")
    angle = fn.random.uniform(range=(-25.0, 25.0), seed=2)
    graph = Graph(
        fn.rotate(images, angle=angle, keep_size=True, fill_value=0),
        fn.rotate(masks, angle=angle, keep_size=True, fill_value=0, interp_type="nearest"),
        angle,
    )
    clip = np.stack([_picture(number) for number in range(8)]).reshape(2, 4, 24, 32, 3)
    for epoch in EPOCHS:
        turned, mask, angles = graph(images=clip, masks=clip // 128, epoch=epoch, index=4)
        yield epoch, {"image": pixels(turned), "mask": pixels(mask), "angles": np.asarray(angles)}
