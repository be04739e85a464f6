"""Data sets for torch: tensors, layouts, workers, states."""

from __future__ import annotations

import json
import os
import pickle
import signal
import threading
from itertools import chain
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from torch.utils.data import DataLoader

import seqpipe
import seqpipe.torch
from data_scripts.frame_code import read as shown
from seqpipe import Clip, Decode, Segments, ops
from seqpipe.errors import BackendError, ParameterError, SourceError, StateError
from seqpipe.video.engine.engine import Engine, PendingRead
from tests.support.datasets import files
from tests.support.deep import deep
from tests.support.media import made
from tests.support.under_way import UnderWay

quiet = pytest.mark.filterwarnings(
    "ignore::DeprecationWarning", "ignore:This DataLoader will create:UserWarning"
)


def clips(threads=None, **options):
    """12 clips, 6 of each of two videos."""
    listed = seqpipe.listing(files("h264", "hevc"), labels=[3, 4])
    return seqpipe.videos(listed, Clip(4, step=8), decode=Decode(threads=threads), **options)


def indices(batches):
    return [batch["index"].tolist() for batch in batches]


@quiet
@pytest.mark.parametrize("workers", [0, 3, deep(2)])
def test_every_batch_comes_once_and_in_order_whatever_the_workers(workers):
    with clips(shuffle=True, seed=3, threads=1).batch(3) as ds:
        wanted = indices(ds)
        batches = ds.torch()
        loader = DataLoader(batches, batch_size=None, num_workers=workers)
        assert indices(loader) == wanted
        assert len(loader) == len(wanted)
        assert repr(batches) == f"{ds!r}\n    .torch(); epoch 0"
        batches.set_epoch(1)
        again = indices(loader)
        assert again == indices(ds.epoch(1)) != wanted
        assert sorted(chain(*again)) == sorted(chain(*wanted))
        if not workers:
            batch = next(iter(batches))
            first = [shown(clip[0].numpy()) for clip in batch["image"]]
            assert first == batch["frames"][:, 0].tolist()


def test_networks_that_want_channels_first():
    with clips().batch(3) as ds:
        plain, moved = (next(iter(ds.torch(layout)))["image"] for layout in ("NFHWC", "NCFHW"))
        assert moved.shape == (3, 3, 4, 96, 128)
        assert moved.is_contiguous()
        assert torch.equal(moved, plain.permute(0, 4, 1, 2, 3))
        with pytest.raises(
            ParameterError, match="layout='NHW' is not valid; allowed: 'NFHWC', 'NFCHW', 'NCFHW', None"
        ):
            ds.torch("NHW")
        with pytest.raises(ParameterError, match=r"a data set without batch\(\)"):
            clips().torch()
        with pytest.raises(ParameterError, match=r"dataset is a str; allowed: a data set with batch\(\)"):
            seqpipe.torch.TensorBatches("videos")


def test_a_state_of_one_process_goes_on():
    with clips(shuffle=True).batch(3) as ds:
        dataset = ds.torch(layout="NCFHW")
        dataset.set_epoch(1)
        batches = iter(dataset)
        next(batches)
        state = json.loads(json.dumps(dataset.state_dict()))
        rest = indices(batches)
        other = ds.torch()
        other.load_state_dict(state)
        assert other.state_dict() == state, "before it is iterated too"
        assert other.epoch == 1
        other.set_epoch(other.epoch)
        assert indices(other) == rest
        with pytest.raises(StateError, match="the state is of workers=4, and here workers is 1"):
            other.load_state_dict({**state, "workers": 4})
        with pytest.raises(StateError, match="the state is of batch_size=3, and here batch_size is 2"):
            clips(shuffle=True).batch(2).torch().load_state_dict(state)


def test_a_state_between_the_choice_of_an_epoch_and_its_iterator():
    """It was that of the epoch before, or began a resumed epoch anew."""
    with clips(shuffle=True).batch(3) as ds:

        def continued(state):
            other = ds.torch()
            other.load_state_dict(json.loads(json.dumps(state)))
            return indices(other)

        dataset = ds.torch()
        whole = indices(dataset)
        assert continued(ds.torch().state_dict()) == whole, "nothing is chosen"
        dataset.set_epoch(1)
        state = dataset.state_dict()
        assert (state["epoch"], state["position"]) == (1, 0)
        assert continued(state) == indices(dataset) != whole
        batches = iter(dataset)
        saved = next(batches)["state"]
        for _ in dataset.epochs(3, resume=saved):
            rest = dataset.state_dict()
            assert continued(rest) == indices(dataset)
            break
        dataset.load_state_dict(rest)
        dataset.set_epoch(2)
        assert dataset.state_dict()["epoch"] == 2, "another epoch replaces what was loaded"


TRAIN = [ops.RandomResizedCrop(size=(32, 40)), ops.Flip(p=0.5), ops.Brightness(brightness=(0.5, 1.5))]


@quiet
@pytest.mark.parametrize("workers", [0, 2])
def test_operators_run_in_the_workers(workers):
    with clips(shuffle=True, threads=1).map(TRAIN).batch(3) as ds:
        wanted = list(ds)
        batches = ds.torch()
        found = list(DataLoader(batches, batch_size=None, num_workers=workers))
        assert len(batches) == len(found) == len(wanted)
        for tensors, batch in zip(found, wanted, strict=True):
            assert tensors["index"].tolist() == batch.index.tolist()
            assert torch.equal(tensors["image"], batch["image"].torch())


@pytest.mark.parametrize(
    "after",
    [
        ops.OpticalFlow(output_grid=4, preset="fast"),
        ops.OpticalFlow(output_grid=4, preset="fast", direction="both"),
        [ops.Reverse(), ops.FrameDifference()],
        ops.Mixup(num_classes=6),
    ],
    ids=["flow", "both", "time", "labels"],
)
def test_labels_and_clocks_are_those_of_the_result(after):
    with clips(shuffle=True).batch(3).map(after) as ds:
        for tensors, samples in zip(ds.torch(), ds, strict=True):
            batch = samples["image"]
            assert tensors.keys() >= samples.keys()
            assert tensors["frames"].tolist() == batch.frames.tolist()
            assert tensors["timestamps"].tolist() == batch.timestamps.tolist()
            assert tensors["label"].tolist() == np.asarray(batch.labels).tolist()
            assert tensors["frames"].shape[1] == batch.shape[1]


def test_further_columns_and_the_video_of_a_sample(tmp_path):
    dog, two = files("h264", "hevc")
    path = tmp_path / "list.csv"
    path.write_text(f"path,label,age,name,frames\n{dog},a dog,3,x,7\n{two},a cat,4,y,8\n", encoding="utf-8")
    listed = seqpipe.listing(path, label_type="text")
    with seqpipe.videos(listed, Clip(4, per_video=2)).batch(4) as ds:
        (batch,) = ds.torch()
    assert batch["label"] == ["a dog", "a dog", "a cat", "a cat"]
    assert batch["age"].tolist() == [3, 3, 4, 4]
    assert batch["name"] == ["x", "x", "y", "y"]
    assert batch["frames"].shape == (4, 4)
    assert batch["column_frames"].tolist() == [7, 7, 8, 8]
    assert batch["video"].tolist() == [0, 0, 1, 1]


def test_labels_are_tensors_of_their_own():
    listed = seqpipe.listing(files("h264", "hevc"), labels=["0 1", "2"], label_type="classes")
    with seqpipe.videos(listed, Segments(2)).batch(1) as ds:
        dataset = ds.torch()
        first, second = dataset
        assert first["label"].tolist() == [[1, 1, 0]]
        first["label"] += 5
        assert second["label"].tolist() == [[0, 0, 1]]
        assert [batch["label"].tolist() for batch in dataset] == [[[1, 1, 0]], [[0, 0, 1]]]


@pytest.mark.parametrize("on_error", ["raise", "skip"])
def test_it_goes_on_behind_an_error(tmp_path, on_error):
    broken = tmp_path / "broken.mp4"
    broken.write_bytes(made("h264").read_bytes())
    ds = seqpipe.videos([broken, *files("hevc")], Clip(4, step=48), on_error=on_error)
    with ds.batch(1).prefetch(0) as ds:
        broken.unlink()
        batches = iter(ds.torch())
        if on_error == "raise":
            with pytest.raises(SourceError, match=r"broken\.mp4"):
                next(batches)
        assert indices(batches) == [[1]]


@quiet
def test_pinned_memory_is_not_for_workers():
    with clips(threads=1).batch(3) as ds:
        batches = ds.torch(pin_memory=True)
        assert next(iter(batches))["image"].is_pinned() == torch.cuda.is_available()
        with pytest.raises(BackendError, match="device or pin_memory in a worker of a DataLoader"):
            next(iter(DataLoader(batches, batch_size=None, num_workers=1)))


@quiet
@pytest.mark.parametrize("start_method", ["fork", deep("spawn")])
def test_persistent_workers_follow_the_epoch(start_method):
    with clips(shuffle=True, seed=3, threads=1).batch(3) as ds:
        wanted = [indices(ds.epoch(number)) for number in range(3)]
        batches = ds.torch()
        loader = DataLoader(
            batches,
            batch_size=None,
            num_workers=1,
            persistent_workers=True,
            multiprocessing_context=start_method,
        )
        found = []
        for number in batches.epochs(3):
            found.append([])
            for batch in loader:
                found[-1].append(batch["index"].tolist())
                if number == 1 and len(found[-1]) == 2:
                    state = batch["state"]
        assert found == wanted
        rest = batches.epochs(3, resume=state)
        assert next(rest) == 1
        assert indices(loader) == wanted[1][2:]
        assert indices(loader) == wanted[1], "only the next pass begins there"
        assert next(rest) == 2
        assert indices(loader) == wanted[2]


@quiet
@pytest.mark.parametrize(
    ("workers", "later", "size"), [deep(0, 3, 3), deep(1, 0, 3), deep(3, 1, 3), (2, 1, 2)]
)
def test_an_epoch_goes_on_from_a_batch_with_any_number_of_workers_and_batch_size(workers, later, size):
    with clips(shuffle=True, seed=3, threads=1) as ds:
        wanted = list(chain(*indices(ds.batch(3).epoch(2))))
        batches = ds.batch(3).torch()
        batches.set_epoch(2)
        state = next(iter(DataLoader(batches, batch_size=None, num_workers=workers)))["state"]
        other = ds.batch(size).torch()
        loader = DataLoader(other, batch_size=None, num_workers=later)
        (number,) = other.epochs(3, resume=state)
        assert number == 2
        assert list(chain(*indices(loader))) == wanted[3:]
        assert list(chain(*indices(loader))) == wanted


@quiet
def test_the_epoch_of_a_copy_is_its_own():
    with clips(shuffle=True, threads=1).batch(3) as ds:
        batches = ds.torch()
        copy = pickle.loads(pickle.dumps(batches))
        loaders = [
            DataLoader(batches_of, batch_size=None, num_workers=1, persistent_workers=True)
            for batches_of in (batches, copy)
        ]
        first, second = map(indices, loaders)
        assert first == second
        copy.set_epoch(1)
        first_again, other = map(indices, loaders)
        assert first_again == first != other


def test_operators_run_ahead_on_a_thread_of_their_own():
    seen, third, calls = [], threading.Event(), []

    class Noted(ops.Op, register=False):
        """Note the thread, and when a third batch is made."""

        def reference(self, x, _):
            seen.append(threading.current_thread().name)
            if calls and len(seen) > 2 * calls[0]:
                third.set()
            return x + 1

    with clips().batch(3) as ds:
        Noted()(next(iter(ds))["image"])
        calls.append(len(seen))  # for each batch
        seen.clear()
        batches = iter(ds.map(ops.Flip(p=0.5), Noted()).torch())
        next(batches)
        assert third.wait(20), "three batches are made while the consumer is busy with the first"
        assert threading.current_thread().name not in seen
        assert len(list(batches)) == 3


def test_batches_are_read_ahead_within_the_limit(monkeypatch):
    under_way = UnderWay(monkeypatch)
    for gib, ahead in ((None, 3), (0, 1)):
        under_way.clear()
        with clips().batch(3).prefetch(gib=gib) as ds:
            next(iter(ds.torch()))
        assert len(under_way.begun) == ahead


def test_an_interrupt_loses_no_batch(monkeypatch):
    with clips().batch(3) as ds:
        batches = iter(ds.torch())
        next(batches)
        with monkeypatch.context() as patch:
            patch.setattr(PendingRead, "result", lambda _: (_ for _ in ()).throw(KeyboardInterrupt))
            with pytest.raises(KeyboardInterrupt):
                next(batches)
        assert next(batches)["index"].tolist() == [3, 4, 5]


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize("operators", [[], [ops.Flip(p=0.5), ops.GaussianBlur(sigma=1.0)]])
def test_a_forked_process_and_a_closed_data_set_go_on(operators):
    with clips(threads=1).batch(3) as ds:
        ds = ds.map(operators) if operators else ds
        batches = iter(ds.torch())
        next(batches)
        child = os.fork()
        if not child:  # pragma: no cover  it ends without a word
            signal.alarm(60)
            os._exit(sum(len(batch["index"]) for batch in batches))
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 9
        ds.close()
        assert indices(batches) == [[3, 4, 5], [6, 7, 8], [9, 10, 11]]


@pytest.mark.parametrize(("given", "threads"), [(None, 2), (5, 5)])
def test_workers_divide_the_cores(monkeypatch, given, threads):
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(8)), raising=False)
    engines, submit = [], Engine.submit
    monkeypatch.setattr(
        Engine, "submit", lambda engine, requests: (engines.append(engine), submit(engine, requests))[1]
    )
    with clips(threads=given).batch(3) as ds:
        batches = ds.torch()
        worker = SimpleNamespace(id=1, num_workers=4, seed=1)
        monkeypatch.setattr("torch.utils.data.get_worker_info", lambda: worker)
        ds.close()  # a worker process begins without threads
        assert indices(batches) == [[3, 4, 5]]
        assert {engine.threads for engine in engines} == {threads}
