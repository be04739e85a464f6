"""A stream of samples, or of batches, as an external source with two outputs; crop and rotate on a GPU."""

import typing as t

import numpy as np
import nvidia.dali.fn as fn
import nvidia.dali.types as types
from nvidia.dali import pipeline_def
from nvidia.dali.pipeline import DataNode
from nvidia.dali.plugin.pytorch import DALIGenericIterator

AUG_SIZE = 20
AUG_ROT = 30
BATCH_SIZE = 8


def get_dali_it(
    it,
    already_batched: bool,
    batch_size: int = BATCH_SIZE,
    center_crop_size: int = AUG_SIZE,
    rot: float = AUG_ROT,
    num_threads: int = 4,
    device: str = "gpu",
    device_id: int = 0,
    img_key: str = "image",
    label_key: str = "label",
) -> DALIGenericIterator:
    @pipeline_def
    def pipeline(it) -> t.Tuple[DataNode]:
        """The graph of a stream of (image, label) tuples."""
        imgs, labels = fn.external_source(
            source=it,
            num_outputs=2,
            device=device,
            dtype=types.FLOAT,
            batch=already_batched,
        )
        imgs = fn.crop(
            imgs,
            crop=[center_crop_size, center_crop_size],
            crop_pos_x=0.5,
            crop_pos_y=0.5,
            device=device,
        )
        imgs = fn.rotate(
            imgs, angle=rot, device=device, fill_value=0, interp_type=types.INTERP_LINEAR, keep_size=True
        )
        return imgs, labels

    pipe = pipeline(it=it, batch_size=batch_size, num_threads=num_threads, device_id=device_id)
    pipe.build()
    return DALIGenericIterator([pipe], [img_key, label_key])


class Stream:
    """Samples as lists of arrays, as many times as it is gone through."""

    def __init__(self, count, batched=0):
        self.count, self.batched = count, batched

    def __iter__(self):
        rng = np.random.default_rng(5)
        samples = []
        for n in range(self.count):
            image = rng.random((30, 30, 3), np.float32)
            sample = [np.array(image, dtype=np.float32), np.array(n, dtype=np.float32)]
            if not self.batched:
                yield sample
                continue
            samples.append(sample)
            if len(samples) == self.batched:
                yield [np.array([s[k] for s in samples], dtype=np.float32) for k in range(2)]
                samples = []


def run(folder):
    one = [out[0] for out in get_dali_it(Stream(20), already_batched=False)]
    other = [out[0] for out in get_dali_it(Stream(20, BATCH_SIZE), already_batched=True)]
    return one, other
