"""An external source that is asked for each sample, of one shard of a list of files; an iterator for each of two ranks."""

import numpy as np
import nvidia.dali.fn as fn
import nvidia.dali.types as types
from nvidia.dali.pipeline import pipeline_def
from nvidia.dali.plugin.pytorch import DALIClassificationIterator, LastBatchPolicy


class ExternalInputCallable:
    def __init__(self, files, batch_size, shard_id, num_shards):
        self.files = files
        self.shard_size = len(files) // num_shards
        self.shard_offset = self.shard_size * shard_id
        self.full_iterations = self.shard_size // batch_size
        self.perm = None
        self.last_seen_epoch = None

    def __call__(self, sample_info):
        if sample_info.iteration >= self.full_iterations:
            raise StopIteration
        if self.last_seen_epoch != sample_info.epoch_idx:
            self.last_seen_epoch = sample_info.epoch_idx
            self.perm = np.random.default_rng(seed=42 + sample_info.epoch_idx).permutation(len(self.files))
        sample_idx = self.perm[sample_info.idx_in_epoch + self.shard_offset]
        path, label = self.files[sample_idx]
        with open(path, "rb") as f:
            jpeg = np.frombuffer(f.read(), dtype=np.uint8)
        return jpeg, np.int32([label])


@pipeline_def(num_threads=2, device_id=0)
def callable_pipeline(source):
    jpegs, labels = fn.external_source(
        source=source, num_outputs=2, batch=False, dtype=[types.UINT8, types.INT32], parallel=True
    )
    images = fn.decoders.image(jpegs, device="mixed")
    images = fn.resize(images, resize_x=24, resize_y=24)
    return images, labels


def run(folder, files):
    ranks = []
    for rank in range(2):
        pipe = callable_pipeline(
            ExternalInputCallable(files, 2, rank, 2), batch_size=2, py_num_workers=2, py_start_method="spawn"
        )
        iterator = DALIClassificationIterator(pipe, auto_reset=True, last_batch_policy=LastBatchPolicy.DROP)
        ranks.append([[batch[0]["label"].flatten().tolist() for batch in iterator] for _ in range(3)])
    return ranks
