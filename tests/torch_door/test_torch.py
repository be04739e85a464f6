"""Readers and pipelines for torch: tensors, layouts, workers, states."""

from __future__ import annotations

from itertools import chain

import pytest
import torch
from torch.utils.data import DataLoader

import seqpipe.torch
from data_scripts.frame_code import read as shown
from seqpipe import fn
from seqpipe.errors import ParameterError, StateError
from seqpipe.pipeline import Pipeline, read
from seqpipe.readers import Video
from tests.support.datasets import files


def reader(**options):
    return Video(files=files("h264", "hevc"), labels=[3, 4], sequence_length=4, step=8, **options)


def pipe(**options):
    clip = read(reader(**options), 3)
    return Pipeline(fn.flip(clip.pixels, horizontal=fn.random.coin_flip()), clip.label, clip.index)


def test_batches_are_dictionaries_of_tensors():
    batches = seqpipe.torch.Iterator(pipe(), names=("pixels", "label", "index"))
    found = list(batches)
    assert len(batches) == len(found) == 4
    assert [batch["index"].tolist() for batch in found] == [[0, 1, 2], [3, 4, 5], [6, 7, 8], [9, 10, 11]]
    assert found[0]["pixels"].shape == (3, 4, 96, 128, 3)
    assert found[1]["label"].tolist() == [3, 3, 3]
    batches.close()


def test_networks_that_want_channels_first():
    plain, moved = (seqpipe.torch.Iterator(pipe(), names="abc", layout=one) for one in ("NFHWC", "NCFHW"))
    one, other = next(plain), next(moved)
    assert other["a"].shape == (3, 3, 4, 96, 128)
    assert other["a"].is_contiguous()
    assert torch.equal(other["a"], one["a"].permute(0, 4, 1, 2, 3))
    with pytest.raises(
        ParameterError, match="layout='NHW' is not valid; allowed: 'NFHWC', 'NFCHW', 'NCFHW', None"
    ):
        seqpipe.torch.Iterator(pipe(), names="abc", layout="NHW")
    with pytest.raises(ParameterError, match=r"3 outputs have no names. Give names"):
        seqpipe.torch.Iterator(pipe())


def test_a_state_goes_on():
    batches = seqpipe.torch.Iterator(pipe(shuffle=True), names="abc")
    batches.set_epoch(1)
    iter(batches)
    next(batches)
    state = batches.state_dict()
    rest = [batch["c"].tolist() for batch in batches]
    other = seqpipe.torch.Iterator(pipe(shuffle=True), names="abc")
    other.load_state_dict(state)
    assert [batch["c"].tolist() for batch in other] == rest


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore:This DataLoader will create:UserWarning")
@pytest.mark.parametrize("workers", [0, 2, 3])
def test_every_batch_comes_once_and_in_order_whatever_the_workers(workers):
    with reader(shuffle=True, seed=3, threads=1) as videos:
        wanted = [batch.indices.tolist() for batch in videos.batches(3)]
        dataset = videos.as_torch(batch_size=3)
        loader = DataLoader(dataset, batch_size=None, num_workers=workers)
        found = [batch["index"].tolist() for batch in loader]
        assert found == wanted
        assert len(loader) == len(wanted)
        dataset.set_epoch(1)
        again = [batch["index"].tolist() for batch in loader]
        assert again != wanted
        assert sorted(chain(*again)) == sorted(chain(*wanted))
        if not workers:
            batch = next(iter(dataset))
            first = [shown(clip[0].numpy()) for clip in batch["pixels"]]
            assert first == batch["frames"][:, 0].tolist()


def test_a_dataset_goes_on_from_a_state():
    with reader() as videos:
        dataset = videos.as_torch(batch_size=3, layout="NCFHW")
        batches = iter(dataset)
        next(batches)
        state = dataset.state_dict()
        rest = [batch["index"].tolist() for batch in batches]
        other = videos.as_torch(batch_size=3)
        other.load_state_dict(state)
        assert [batch["index"].tolist() for batch in other] == rest
        with pytest.raises(StateError, match="the state is of 4 workers, and there are 1"):
            other.load_state_dict({**state, "workers": 4})
