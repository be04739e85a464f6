"""The classes of outputs, made by users, and what programs ask of them."""

from __future__ import annotations

import ctypes

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


def test_axes_of_length_1_are_removed():
    one = tensors.TensorCPU(np.zeros((1, 3, 1)), "HWC", "a.png")
    assert one.squeeze(1) is False
    assert (one.shape(), one.layout()) == ([1, 3, 1], "HWC")
    assert one.squeeze(-1) is True
    assert (one.shape(), one.layout()) == ([1, 3], "")
    assert one.squeeze() is True
    assert one.shape() == [3]
    assert one.squeeze() is False
    assert (one.source_info(), one.as_cpu().source_info()) == ("a.png", "a.png")


@pytest.mark.parametrize("make", [tensors.TensorCPU, tensors.TensorListCPU])
def test_values_are_copied_to_arrays_and_addresses(make):
    values = np.arange(12, dtype=np.int16).reshape(3, 4)[:, ::2]
    out, other = np.zeros((3, 2), np.int16), np.zeros((3, 2), np.int16)
    make(values).copy_to_external(out)
    make(values).copy_to_external(ctypes.c_void_p(other.ctypes.data))
    assert np.array_equal(out, values)
    assert np.array_equal(other, values)
    for wrong in (np.zeros((2, 3), np.int16), np.zeros((3, 2), np.int32)):
        with pytest.raises(ParameterError, match=r"an array .*; allowed: \(3, 2\) of int16"):
            make(values).copy_to_external(wrong)
    with pytest.raises(ParameterError, match="a str to copy to; allowed: an array, or an address"):
        make(values).copy_to_external("0")


def test_lists_are_read_sample_by_sample_and_as_a_whole():
    batch = tensors.TensorListCPU(np.arange(12, dtype=np.int32).reshape(2, 2, 3), layout="HW")
    assert [np.asarray(one).tolist() for one in batch] == [batch.at(0).tolist(), batch.at(1).tolist()]
    assert np.asarray(batch[-1]).tolist() == batch.at(1).tolist()
    for number in (2, -3):
        with pytest.raises(IndexError, match=f"sample {number} of a batch of 2"):
            batch[number]
    whole = batch.as_tensor()
    assert (whole.shape(), whole.layout()) == ([2, 2, 3], "NHW")
    assert np.from_dlpack(whole).tolist() == batch.as_array().tolist()
    assert batch.as_reshaped_tensor([4, 3]).shape() == [4, 3]
    assert np.array_equal(np.array(batch, np.float32), batch.as_array())
    ragged = tensors.TensorListCPU([np.zeros(1), np.zeros(2)])
    assert not ragged.is_dense_tensor()
    for read in (ragged.as_tensor, ragged.as_array, ragged.data_ptr):
        with pytest.raises(
            ParameterError, match=r"this output has samples of different shapes, \(1,\), \(2,\)"
        ):
            read()


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
