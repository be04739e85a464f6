"""DALI plugins that seqpipe does not have say what to use instead."""

from __future__ import annotations

import pytest

from seqpipe.dali.plugin import mxnet, tf
from seqpipe.errors import BackendError


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
