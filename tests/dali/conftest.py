"""Programs of DALI's names run on the CPU here, without being told that they do."""

from __future__ import annotations

import numpy as np
import pytest

from seqpipe.dali import fn, pipeline_def

ON_CPU = {"num_threads": 1, "device_id": None}


@pytest.fixture(autouse=True)
def on_the_cpu(monkeypatch):
    monkeypatch.setenv("SEQPIPE_DALI_DEVICE", "cpu")


@pytest.fixture
def numbered(tmp_path):
    """Paths of ten files, each with one byte, its number."""
    paths = [tmp_path / f"{number}.bin" for number in range(10)]
    for number, path in enumerate(paths):
        path.write_bytes(bytes([number]))
    return [str(path) for path in paths]


def run(function, batch_size=1, count=1, **options):
    """What a pipeline of a function gives: for each batch a list with the list of samples of each output."""
    pipe = pipeline_def(batch_size=batch_size, **{**ON_CPU, **options})(function)()
    found = [[output.as_cpu() for output in pipe.run()] for _ in range(count)]
    pipe.close()
    return found


def one(function, **options):
    """The outputs for one sample: type, values, layout."""
    return [(o.dtype.name, o.at(0).tolist(), o.layout()) for o in run(function, **options)[0]]


def array(values, dtype, layout=None):
    """A node of one array."""
    return fn.external_source(lambda: [np.asarray(values).astype(dtype)], layout=layout)
