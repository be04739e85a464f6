"""Augmentations that a sample gets or not: `if` on random flags, a policy in a function of its own, a filter by labels."""

import numpy as np
from nvidia.dali import fn, pipeline_def, types


def random_policy(images):
    kind = fn.random.uniform(range=[0, 3])
    if kind < 1:
        images = fn.brightness(images, brightness=2.0)
    elif kind < 2:
        images = fn.flip(images, horizontal=1)
    else:
        images = fn.erase(images, anchor=(2, 2), shape=(4, 4))
    return images, kind


@pipeline_def(enable_conditionals=True, num_threads=2, device_id=0)
def pipe(source):
    images, labels = fn.external_source(source=source, num_outputs=2, batch=False, layout=["HWC", ""])
    images = images.gpu()
    plain = images
    if fn.random.coin_flip(dtype=types.BOOL) and labels[0] != 3:
        images, kind = random_policy(images)
    else:
        kind = types.Constant(-1.0)
    return images, plain, labels, kind


def run(folder, source):
    p = pipe(source, batch_size=8, seed=5)
    return [[output.as_cpu().as_array() for output in p.run()] for _ in range(3)]
