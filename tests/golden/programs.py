"""Jobs of programs in DALI's API, which keep their bits: readers, sources and operators, each with a seed."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from .hashing import job

Found = Iterator[tuple[int, dict[str, Any]]]
IMAGES = [np.random.default_rng(n).integers(0, 256, (20 + n, 26, 3), dtype=np.uint8) for n in range(3)]


def _run(define: Any, names: tuple[str, ...], batch_size: int = 3, batches: int = 3) -> Found:
    """The batches of a program; the second half stands under epoch 1."""
    from seqpipe.dali import pipeline_def

    pipe = pipeline_def(define)(batch_size=batch_size, num_threads=2, device_id=None, seed=17)
    for number in range(2 * batches):
        outputs = pipe.run()
        yield (
            int(number >= batches),
            {name: [np.array(one) for one in output] for name, output in zip(names, outputs, strict=True)},
        )


@job("dali/video reader")
def video() -> Found:
    from seqpipe.dali import fn, types

    def define() -> Any:
        frames, label, numbers, times = fn.readers.video(
            filenames=["videos/0/a.mp4", "videos/0/b.mp4"],
            labels=[4, 2],
            sequence_length=4,
            step=7,
            stride=2,
            random_shuffle=True,
            initial_fill=3,
            enable_frame_num=True,
            enable_timestamps=True,
            name="Reader",
        )
        mirror = fn.random.coin_flip(probability=0.5)
        out = fn.crop_mirror_normalize(
            frames,
            crop=(40, 48),
            mirror=mirror,
            mean=[124.0, 116.0, 104.0],
            std=[58.0, 57.0, 57.0],
            dtype=types.FLOAT,
            output_layout="FCHW",
        )
        return fn.resize(frames, resize_x=48, resize_y=32), out, label, numbers, times, mirror

    yield from _run(define, ("image", "normalized", "label", "frames", "timestamps", "mirror"))


@job("dali/video reader of shards and folders")
def video_shards() -> Found:
    from seqpipe.dali import fn

    for shard in range(2):

        def define(shard: int = shard) -> Any:
            return fn.readers.video(
                filenames=["videos/0/a.mp4", "videos/0/b.mp4"],
                labels=[4, 2],
                sequence_length=3,
                step=5,
                shard_id=shard,
                num_shards=2,
                pad_last_batch=True,
                name="Reader",
            )

        yield from _run(define, ("image", "label"), batches=4)


@job("dali/images of files")
def files() -> Found:
    from seqpipe.dali import fn, types

    def define() -> Any:
        data, label = fn.readers.file(
            files=[f"frames/f1/img_{n + 1:05}.png" for n in range(8)],
            labels=list(range(8)),
            random_shuffle=True,
            name="Reader",
        )
        image = fn.decoders.image(data, output_type=types.RGB)
        cut = fn.random_resized_crop(image, size=(24, 32), random_area=(0.3, 1.0))
        twisted = fn.color_twist(cut, brightness=fn.random.uniform(range=(0.8, 1.2)), hue=10.0)
        return twisted, label

    yield from _run(define, ("image", "label"))


@job("dali/external source and operators")
def operators() -> Found:
    from seqpipe.dali import fn, types

    def define() -> Any:
        x = fn.external_source(lambda: IMAGES, layout="HWC")
        angle = fn.random.uniform(range=(-30.0, 30.0))
        turned = fn.rotate(x, angle=angle, keep_size=True, fill_value=0)
        blurred = fn.gaussian_blur(turned, sigma=fn.random.uniform(range=(0.5, 2.0)))
        noisy = fn.noise.gaussian(x, stddev=5.0)
        warped = fn.warp_affine(x, matrix=(0.9, 0.2, -1.0, -0.1, 1.1, 0.5), interp_type=types.INTERP_NN)
        bright = fn.brightness_contrast(x, brightness=0.5 + fn.random.uniform(range=(0.0, 1.0)), contrast=1.2)
        return blurred, noisy, warped, bright, angle, fn.reductions.mean(x, axes=(0, 1))

    yield from _run(define, ("image", "noisy", "warped", "bright", "angle", "mean"), batches=2)


def _sample_of(info: Any) -> Any:
    if info.idx_in_epoch >= 10:
        raise StopIteration
    return IMAGES[info.idx_in_epoch % 3], np.int32(info.idx_in_epoch + 100 * info.epoch_idx)


def _batch_of(number: int) -> Any:
    if number >= 3:
        raise StopIteration
    return [IMAGES[(number + one) % 3] for one in range(3)]


@job("dali/forms of external sources")
def forms() -> Found:
    from seqpipe.dali import fn, pipeline_def

    pair = {"num_outputs": 2, "batch": False, "layout": ("HWC", "")}
    given: list[tuple[Any, dict[str, Any]]] = [
        (_sample_of, pair),
        (_sample_of, {**pair, "parallel": True}),
        (lambda info: _batch_of(info.iteration), {"batch_info": True, "layout": "HWC"}),
        ([_batch_of(0), _batch_of(2)], {"cycle": "raise", "layout": "HWC"}),
        (None, {"name": "pushed", "layout": "HWC"}),
    ]
    for source, options in given:

        @pipeline_def(batch_size=3, num_threads=2, device_id=None, seed=17, py_num_workers=2)
        def program(source: Any = source, options: Any = options) -> Any:
            values = fn.external_source(source, **options)
            image, *more = values if isinstance(values, list) else [values]
            return fn.flip(image, horizontal=fn.random.coin_flip()), *more

        pipe = program()
        for epoch in range(2):
            for number in range(3):
                if source is None:
                    pipe.feed_input("pushed", _batch_of(number))
                try:
                    outputs = pipe.run()
                except StopIteration:
                    break
                yield (
                    epoch,
                    {name: [np.array(one) for one in out] for name, out in zip("ab", outputs, strict=False)},
                )
            pipe.reset()
        pipe.close()


@job("dali/conditions")
def conditions() -> Found:
    from seqpipe.dali import fn, pipeline_def

    @pipeline_def(batch_size=3, num_threads=2, device_id=None, seed=17, enable_conditionals=True)
    def program() -> Any:
        x = fn.external_source(lambda: IMAGES, layout="HWC")
        if fn.random.coin_flip(probability=0.5):
            y = fn.flip(x, horizontal=True)
        else:
            y = fn.brightness(x, brightness=1.5)
        return y, fn.random.normal(mean=2.0)

    pipe = program()
    for number in range(4):
        image, drawn = pipe.run()
        yield (
            number // 2,
            {"image": [np.array(one) for one in image], "drawn": [np.array(one) for one in drawn]},
        )


@job("dali/torch iterator", needs="torch")
def iterator() -> Found:
    from seqpipe.dali import fn, pipeline_def
    from seqpipe.dali.plugin.pytorch import DALIGenericIterator, LastBatchPolicy

    @pipeline_def(batch_size=3, num_threads=2, device_id=None, seed=17)
    def program() -> Any:
        data, label = fn.readers.file(
            files=[f"frames/f1/img_{n + 1:05}.png" for n in range(8)],
            labels=list(range(8)),
            random_shuffle=True,
            name="Reader",
        )
        return fn.decoders.image(data), label

    for policy in (LastBatchPolicy.FILL, LastBatchPolicy.DROP, LastBatchPolicy.PARTIAL):
        batches = DALIGenericIterator(
            program(), ["image", "label"], reader_name="Reader", last_batch_policy=policy, auto_reset=True
        )
        for epoch in range(2):
            for (batch,) in batches:
                yield epoch, {name: value.numpy() for name, value in batch.items()}
