"""Jobs of pipelines, sources of one's own and graphs."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from seqpipe import Dataset, fn, items
from seqpipe.pipeline import Graph, Input, Pipeline, SampleInfo, external_source

from ..hashing import job
from .common import EPOCHS, Found, clips, of_outputs, outputs_of, pixels, videos


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


def _sample_of(info: SampleInfo) -> Any:
    if info.idx_in_epoch >= 10:
        raise StopIteration
    return _picture(info.idx_in_epoch + 100 * info.epoch_idx), np.int32(info.idx_in_epoch)


def _batch_of(number: int) -> Any:
    if number >= 3:
        raise StopIteration
    return np.stack([_picture(3 * number + one) for one in range(3)])


class _Items:
    """An iterable of batches."""

    def __iter__(self) -> Iterator[Any]:
        return (_batch_of(number) for number in range(2))


def _generated() -> Iterator[Any]:
    yield from _Items()


def _external(source: Any, **options: Any) -> Found:
    several = options.get("num_outputs")
    node = external_source(source, **options)
    values = node if several else (node,)
    turned = fn.rotate(values[0], angle=fn.random.uniform(range=(-30.0, 30.0), seed=5), keep_size=True)
    outputs = fn.crop(turned, crop=(16, 20)), *values[1:]
    yield from outputs_of(Pipeline(*outputs, names=("image", "number")[: len(outputs)]))


@job("external/callables")
def external_callables() -> Found:
    pair = {"num_outputs": 2, "batch": False, "layout": ("HWC", "")}
    yield from _external(_sample_of, batch_size=4, **pair)
    yield from _external(_batch_of, batch_size=3, layout="HWC")
    yield from _external(lambda info: _batch_of(info.iteration), batch_size=3, batch_info=True, layout="HWC")


@job("external/iterables")
def external_iterables() -> Found:
    yield from _external(_Items(), batch_size=3, layout="HWC", cycle="raise")
    yield from _external([_batch_of(0), _batch_of(2)], batch_size=3, layout="HWC", cycle="raise")
    yield from _external(_generated, batch_size=3, layout="HWC", cycle="raise")


@job("external/processes")
def external_processes() -> Found:
    pair = {"num_outputs": 2, "batch": False, "layout": ("HWC", "")}
    yield from _external(_sample_of, batch_size=4, parallel=True, workers=2, **pair)


@job("external/pushed batches")
def external_pushed() -> Found:
    node = external_source(batch_size=3, name="pushed", layout="HWC")
    with Pipeline(fn.flip(node, horizontal=fn.random.coin_flip(seed=3)), names=("image",)) as pipe:
        for number in range(4):
            pipe.feed("pushed", _batch_of(number % 3))
            yield 0, of_outputs(next(pipe))


@job("items of one's own")
def own_items() -> Found:
    def build(parts: Any) -> dict[str, Any]:
        return {"image": fn.flip(parts["image"], horizontal=fn.random.coin_flip(seed=5))}

    data = items(lambda index: {"image": _picture(index), "number": index}, size=8, parts={"image": "HWC"})
    yield from _of_graph(data, build, ("image", "number"), size=3)


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
