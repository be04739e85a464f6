"""The classes of outputs, made by users, and what programs ask of them."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from seqpipe.dali import backend, fn, pipeline_def, tensors, types
from seqpipe.errors import ParameterError


def test_tensors_are_made_of_arrays():
    one = tensors.TensorCPU(np.arange(6, dtype=np.uint8).reshape(2, 3), "HW")
    assert (one.shape(), one.layout(), one.dtype, one.ndim()) == ([2, 3], "HW", types.UINT8, 2)
    assert one.get_property("layout") == "HW"
    assert one.data_ptr() == np.asarray(one).ctypes.data
    assert tensors.TensorCPU(torch.ones(2)).dtype == types.FLOAT
    with pytest.raises(ParameterError, match="key='size' is not valid; allowed: 'layout', 'source_info'"):
        one.get_property("size")
    with pytest.raises(ParameterError, match="layout='HWC' for 2 axes; allowed: one letter for each axis"):
        one.set_layout("HWC")


def test_lists_are_made_of_arrays_or_tensors():
    dense = tensors.TensorListCPU(np.arange(12, dtype=np.int32).reshape(2, 2, 3), layout="HW")
    assert (len(dense), dense.layout(), dense.ndim()) == (2, "HW", 2)
    assert dense.at(1).tolist() == [[6, 7, 8], [9, 10, 11]]
    assert dense.data_ptr() == dense.as_array().ctypes.data
    ragged = tensors.TensorListCPU([tensors.TensorCPU(np.zeros((n, 3)), "HW") for n in (1, 2)])
    assert ragged.shape() == [(1, 3), (2, 3)]
    assert ragged.layout() == "HW"
    assert isinstance(ragged[0], backend.TensorCPU)


def test_a_fed_batch_has_the_layout_that_comes_with_it():
    @pipeline_def(batch_size=2, num_threads=1, device_id=None)
    def fed():
        image = fn.external_source(name="x")
        return image, fn.crop(image, crop=(2, 2))

    pipe = fed()
    pipe.build()
    batch = np.arange(2 * 4 * 5 * 3, dtype=np.uint8).reshape(2, 4, 5, 3)
    with pytest.raises(ParameterError, match="layout='HW' for samples with 3 axes"):
        pipe.feed_input("x", batch, layout="HW")
    for _ in range(2):
        pipe.feed_input("x", batch, layout="HWC")
    image, cut = pipe.run()
    assert image.layout() == cut.layout() == "HWC"
    assert np.array_equal(cut.as_array(), batch[:, 1:3, 2:4])
