"""DALI plugins that seqpipe does not have say what to use instead."""

from __future__ import annotations

import pytest

from seqpipe.dali import types
from seqpipe.dali.plugin import mxnet, tf
from seqpipe.errors import BackendError, ParameterError


@pytest.mark.parametrize(
    ("plugin", "name", "said"),
    [
        (mxnet, "DALIClassificationIterator", "no DALIClassificationIterator for MXNet.*MXNet is retired"),
        (tf, "DALIDataset", "no DALIDataset for TensorFlow.*from_generator"),
    ],
)
def test_a_plugin_that_is_absent_says_what_to_use(plugin, name, said):
    with pytest.raises(BackendError, match=f"(?s){said}"):
        getattr(plugin, name)
    assert not hasattr(plugin, "__path__")


def test_the_dynamic_mode_says_what_to_use():
    import seqpipe.dali.experimental.dynamic as ndd

    with pytest.raises(
        BackendError, match=r"dynamic: there is no readers for .* without a pipeline. Call seqpipe.fn"
    ):
        _ = ndd.readers


def test_the_debug_mode_says_what_to_use():
    from seqpipe.dali.pipeline.experimental import pipeline_def

    assert pipeline_def(lambda: types.Constant(3), batch_size=1, device_id=None)().run()[0].at(0) == 3
    with pytest.raises(ParameterError, match=r"debug=True is not available\. Return the nodes in question"):
        pipeline_def(debug=True)
