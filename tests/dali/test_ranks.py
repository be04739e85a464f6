"""Two processes as torchrun starts them: ranks that are disjoint, together complete, and draw by one seed."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]

PROGRAM = """
import json, os, sys
import torch.distributed as dist
from seqpipe.dali import fn, pipeline_def
from seqpipe.dali.plugin.pytorch import DALIGenericIterator, LastBatchPolicy

dist.init_process_group("gloo")
rank, world = dist.get_rank(), dist.get_world_size()

@pipeline_def(batch_size=2, num_threads=1, device_id=None, seed=9)
def pipe():
    label = fn.readers.file(
        files=sys.argv[1:], labels=list(range(len(sys.argv) - 1)), shard_id=rank, num_shards=world,
        random_shuffle=True, name="Reader",
    )[1]
    return label, fn.random.uniform(range=[0.0, 1.0])

names = ["label", "draw"]
options = {"reader_name": "Reader", "last_batch_policy": LastBatchPolicy.PARTIAL, "auto_reset": True}
iterator = DALIGenericIterator(pipe(), names, **options)
epochs = []
for _ in range(3):
    seen = []
    for batch in iterator:
        dist.barrier()  # a rank with fewer batches would hold up the other for ever
        seen += list(zip(batch[0]["label"].flatten().tolist(), batch[0]["draw"].tolist()))
    epochs.append(seen)
gathered = [None] * world
dist.all_gather_object(gathered, epochs)
if not rank:
    print(json.dumps(gathered))
dist.destroy_process_group()
"""


@pytest.mark.deep
def test_two_ranks(numbered):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    processes = []
    for rank in range(2):
        place = {"RANK": str(rank), "WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
        processes.append(
            subprocess.Popen(
                [sys.executable, "-c", PROGRAM, *numbered[:9]],
                env={**os.environ, **place, "PYTHONPATH": str(ROOT)},
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
            )
        )
    (out, error), _ = [process.communicate(timeout=120) for process in processes]
    assert all(process.returncode == 0 for process in processes), error
    one, other = json.loads(out)
    draws = [{}, {}, {}]
    for epoch, (mine, yours) in enumerate(zip(one, other, strict=True)):
        labels = [label for label, _ in mine + yours]
        assert sorted(labels) == list(range(9)), "disjoint, and together complete"
        draws[epoch] = dict(map(tuple, mine + yours))
    assert [label for label, _ in one[0]] != [label for label, _ in one[2]], "each epoch is shuffled anew"
    assert len({value for epoch in draws for value in epoch.values()}) == 27, (
        "a sample draws anew in each epoch"
    )
