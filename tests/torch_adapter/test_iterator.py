"""Pipelines for torch: batches as dictionaries of tensors, layouts, states."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import seqpipe.torch
from seqpipe import fn
from seqpipe.errors import ParameterError
from seqpipe.pipeline import Pipeline, external_source


def pipe():
    """Twelve clips an epoch, their labels and numbers."""

    def clip(info):
        if info.idx_in_epoch >= 12:
            raise StopIteration
        rng = np.random.default_rng(info.idx_in_epoch + 100 * info.epoch_idx)
        clip = rng.integers(0, 256, (4, 9, 12, 3), np.uint8)
        return clip, np.int64(3 + info.idx_in_epoch // 6), np.int64(info.idx_in_epoch)

    values = external_source(clip, batch_size=3, num_outputs=3, batch=False, layout=("FHWC", "", ""))
    return Pipeline(fn.flip(values[0], horizontal=fn.random.coin_flip()), *values[1:])


def test_batches_are_dictionaries_of_tensors():
    batches = seqpipe.torch.Iterator(pipe(), names=("pixels", "label", "index"))
    found = list(batches)
    assert len(found) == 4
    assert [batch["index"].tolist() for batch in found] == [[0, 1, 2], [3, 4, 5], [6, 7, 8], [9, 10, 11]]
    assert found[0]["pixels"].shape == (3, 4, 9, 12, 3)
    assert found[1]["label"].tolist() == [3, 3, 3]
    for batch in batches:  # an epoch that has ended begins anew
        assert torch.equal(batch["pixels"], found[0]["pixels"])
        break
    batches.set_epoch(1)
    assert [batch["index"][0].item() for batch in batches] == [0, 3, 6, 9]
    batches.close()
    with pytest.raises(ParameterError, match=r"pipeline is a list; allowed: a seqpipe\.pipeline\.Pipeline"):
        seqpipe.torch.Iterator([], names="a")


def test_networks_that_want_channels_first():
    plain, moved = (seqpipe.torch.Iterator(pipe(), names="abc", layout=one) for one in ("NFHWC", "NCFHW"))
    one, other = next(plain), next(moved)
    assert other["a"].shape == (3, 3, 4, 9, 12)
    assert other["a"].is_contiguous()
    assert torch.equal(other["a"], one["a"].permute(0, 4, 1, 2, 3))
    with pytest.raises(
        ParameterError, match="layout='NHW' is not valid; allowed: 'NFHWC', 'NFCHW', 'NCFHW', None"
    ):
        seqpipe.torch.Iterator(pipe(), names="abc", layout="NHW")
    with pytest.raises(ParameterError, match=r"3 outputs have no names. Give names"):
        seqpipe.torch.Iterator(pipe())


def test_a_state_goes_on():
    batches = seqpipe.torch.Iterator(pipe(), names="abc")
    batches.set_epoch(1)
    iter(batches)
    next(batches)
    state = batches.state_dict()
    rest = [batch["c"].tolist() for batch in batches]
    other = seqpipe.torch.Iterator(pipe(), names="abc")
    other.load_state_dict(state)
    assert [batch["c"].tolist() for batch in other] == rest
