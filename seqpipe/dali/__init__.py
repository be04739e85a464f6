"""DALI's API on top of seqpipe's pipelines: replace ``nvidia.dali`` by ``seqpipe.dali`` in programs.

    @pipeline_def(batch_size=8, num_threads=4, device_id=0)
    def clips(files):
        frames, label = fn.readers.video(filenames=files, labels=[], sequence_length=16, name="Reader")
        return fn.resize(frames, size=(112, 112)), label

Names, arguments and defaults mean what they do in DALI 2.4, with these differences: epochs are exact, errors are raised
at their position in the order and name their source, and programs for a GPU run on the CPU if there is no driver.
A missing seed is drawn anew for each pipeline, as in DALI; ``Pipeline(seed=…)`` gives the same numbers in each run, and
``pipe.seed`` tells what was drawn. Readers of one shard of several agree on an order without a seed.
``python -m seqpipe.dali`` lists the operators.

Modules that DALI lacks implement those that it has: ``operators`` declares each operator that is no plain call of
seqpipe's operator of the same name by a function with its arguments (``declared``), ``table`` has all operators,
``call`` converts a call of ``fn`` or ``ops`` into nodes, ``rewrite`` and ``conditions`` implement
``enable_conditionals``, ``device`` selects the GPU or the CPU, and ``absent`` raises the errors of modules that are not
available.
"""

from __future__ import annotations

from . import (
    auto_aug,
    backend,
    data_node,
    experimental,
    fn,
    math,
    ops,
    pipeline,
    plugin,
    plugin_manager,
    tensors,
    tfrecord,
    types,
)
from .data_node import DataNode, newaxis
from .dtypes import OperatorConcurrency, StreamPolicy
from .pipeline import Pipeline, pipeline_def

__all__ = [
    "DataNode",
    "OperatorConcurrency",
    "Pipeline",
    "StreamPolicy",
    "auto_aug",
    "backend",
    "data_node",
    "experimental",
    "fn",
    "math",
    "newaxis",
    "ops",
    "pipeline",
    "pipeline_def",
    "plugin",
    "plugin_manager",
    "tensors",
    "tfrecord",
    "types",
]

__version__ = "2.4.0"
"""Version of DALI whose API this is."""
