"""An iterable that begins anew each epoch, with its length, as an external source; FILL, DROP and PARTIAL over it."""

import numpy as np
import nvidia.dali.fn as fn
from nvidia.dali import pipeline_def
from nvidia.dali.plugin.pytorch import DALIGenericIterator as PyTorchIterator
from nvidia.dali.plugin.pytorch import LastBatchPolicy


class ExternalInputIterator(object):
    def __init__(self, batch_size, count):
        self.batch_size, self.count = batch_size, count

    def __iter__(self):
        self.i = 0
        return self

    def __next__(self):
        if self.i >= self.count:
            raise StopIteration
        batch = [np.full((2, 3), (self.i + n) % self.count, np.float32) for n in range(self.batch_size)]
        labels = [np.array([(self.i + n) % self.count], np.uint8) for n in range(self.batch_size)]
        self.i += self.batch_size
        return batch, labels

    def __len__(self):
        return self.count

    next = __next__


def ExternalSourcePipeline(batch_size, num_threads, device_id, external_data):
    @pipeline_def(batch_size=batch_size, num_threads=num_threads, device_id=device_id)
    def pipe():
        data, labels = fn.external_source(source=external_data, num_outputs=2, cycle="raise")
        return fn.cast(data.gpu() * 2, dtype=np.float32), labels

    return pipe()


def run(folder):
    found = {}
    for policy in LastBatchPolicy:
        eii = ExternalInputIterator(4, 10)
        pipe = ExternalSourcePipeline(4, 2, 0, eii)
        pii = PyTorchIterator(pipe, ["data", "label"], size=len(eii), last_batch_padded=True, last_batch_policy=policy)
        epochs = []
        for _ in range(3):
            epochs.append([(batch[0]["data"][:, 0, 0].tolist(), batch[0]["label"].flatten().tolist()) for batch in pii])
            pii.reset()
        found[policy.name] = epochs
    return found
