"""DALI's modules and names over seqpipe's pipelines: in programs, ``nvidia.dali`` becomes ``seqpipe.dali``.

@pipeline_def(batch_size=8, num_threads=4, device_id=0)
def clips(files):
    frames, label = fn.readers.video(filenames=files, labels=[], sequence_length=16, name="Reader")
    return fn.resize(frames, size=(112, 112)), label

What names, arguments and defaults mean is DALI 2.4's, but where that is broken: epochs are exact, errors arrive in
their turn and name what they are about, programs for a GPU run on a CPU where there is no driver. ``table`` lists
operators.
"""

from __future__ import annotations

from . import data_node, fn, math, ops, pipeline, plugin_manager, tensors, types
from .data_node import DataNode, newaxis
from .pipeline import Pipeline, pipeline_def

__all__ = [
    "DataNode",
    "Pipeline",
    "data_node",
    "fn",
    "math",
    "newaxis",
    "ops",
    "pipeline",
    "pipeline_def",
    "plugin_manager",
    "tensors",
    "types",
]
