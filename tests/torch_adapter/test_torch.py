"""Readers and pipelines for torch: tensors, layouts, workers, states."""

from __future__ import annotations

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

import seqpipe.torch
from data_scripts.frame_code import read as shown
from seqpipe import fn, ops
from seqpipe.errors import BackendError, ParameterError, SourceError, StateError
from seqpipe.pipeline import Augmented, Pipeline, read
from seqpipe.readers import Video
from seqpipe.video.engine.engine import Engine, PendingRead
from tests.support.datasets import files
from tests.support.media import made
from tests.support.under_way import UnderWay


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
        assert repr(dataset) == f"torch.Dataset({videos!r}, batch_size=3; {len(wanted)} batches)"
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
        other.load_state_dict(state)
        assert other.state_dict()["position"] == 1, "before it is iterated too"


def test_augmented_batches_in_one_process():
    chain = [ops.RandomResizedCrop(size=(32, 40)), ops.Flip(p=0.5), ops.Brightness(brightness=(0.5, 1.5))]
    with Augmented(reader(shuffle=True), chain) as augmented:
        wanted = list(augmented.batches(3))
        dataset = augmented.as_torch(batch_size=3)
        found = list(dataset)
        assert len(dataset) == len(found) == len(wanted)
        for one, batch in zip(found, wanted, strict=True):
            assert one["index"].tolist() == batch.indices.tolist()
            assert torch.equal(one["pixels"], batch.torch())


@pytest.mark.parametrize(
    "chain",
    [
        ops.OpticalFlow(output_grid=4, preset="fast"),
        ops.OpticalFlow(output_grid=4, preset="fast", direction="both"),
        [ops.Reverse(), ops.FrameDifference()],
        ops.Mixup(num_classes=6),
    ],
    ids=["flow", "both", "time", "labels"],
)
def test_labels_and_clocks_are_those_of_the_result(chain):
    with Augmented(reader(shuffle=True), chain) as augmented:
        for one, result in zip(augmented.as_torch(batch_size=3), augmented.batches(3), strict=True):
            batch = result[0] if isinstance(result, tuple) else result
            assert one["frames"].tolist() == batch.frames.tolist()
            assert one["timestamps"].tolist() == batch.timestamps.tolist()
            assert one["label"].tolist() == np.asarray(batch.labels).tolist()
            assert one["frames"].shape[1] == batch.shape[1]


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore:This DataLoader will create:UserWarning")
def test_augmented_batches_of_workers():
    with Augmented(reader(shuffle=True, threads=1), ops.RandomResizedCrop(size=(32, 40))) as augmented:
        alone = list(augmented.as_torch(batch_size=3))
        loader = DataLoader(augmented.as_torch(batch_size=3), batch_size=None, num_workers=2)
        for one, other in zip(loader, alone, strict=True):
            assert one["index"].tolist() == other["index"].tolist()
            assert torch.equal(one["pixels"], other["pixels"])


def test_further_columns_and_the_video_of_a_sample(tmp_path):
    one, two = files("h264", "hevc")
    path = tmp_path / "list.csv"
    path.write_text(f"path,label,age,name,frames\n{one},a dog,3,x,7\n{two},a cat,4,y,8\n", encoding="utf-8")
    with Video(manifest=path, label_type="text", sequence_length=4, clips_per_video=2) as videos:
        (batch,) = videos.as_torch(batch_size=4)
        assert batch["label"] == ["a dog", "a dog", "a cat", "a cat"]
        assert batch["age"].tolist() == [3, 3, 4, 4]
        assert batch["name"] == ["x", "x", "y", "y"]
        assert batch["column_frames"].tolist() == [7, 7, 8, 8]
        assert batch["video"].tolist() == [0, 0, 1, 1]
        clip = read(videos, 4)
        names = ("pixels", "label", "age", "name")
        batches = seqpipe.torch.Iterator(
            Pipeline(clip.pixels, clip.label, clip.columns["age"], clip.columns["name"]), names=names
        )
        again = next(batches)
        assert (again["label"], again["age"].tolist(), again["name"]) == (
            batch["label"],
            [3, 3, 4, 4],
            batch["name"],
        )
        batches.close()


def test_labels_are_tensors_of_their_own():
    with Video(files=files("h264", "hevc"), labels=["0 1", "2"], label_type="classes", segments=2) as videos:
        dataset = videos.as_torch(batch_size=1)
        first, second = dataset
        assert first["label"].tolist() == [[1, 1, 0]]
        first["label"] += 5
        assert second["label"].tolist() == [[0, 0, 1]]
        assert [batch["label"].tolist() for batch in dataset] == [[[1, 1, 0]], [[0, 0, 1]]]


def test_it_goes_on_behind_an_error(tmp_path):
    broken = tmp_path / "broken.mp4"
    broken.write_bytes(made("h264").read_bytes())
    with Video(files=[broken, *files("hevc")], sequence_length=4, step=48, prefetch=0) as videos:
        broken.unlink()
        batches = iter(videos.as_torch(batch_size=1))
        with pytest.raises(SourceError, match=r"broken\.mp4"):
            next(batches)
        assert next(batches)["index"].tolist() == [1]
    broken.write_bytes(made("h264").read_bytes())
    with Video(files=[broken, *files("hevc")], sequence_length=4, step=48, on_error="skip") as videos:
        broken.unlink()
        assert [batch["index"].tolist() for batch in videos.as_torch(batch_size=1)] == [[1]]


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore:This DataLoader will create:UserWarning")
def test_pinned_memory_is_not_for_workers():
    with reader(threads=1) as videos:
        batch = next(iter(videos.as_torch(batch_size=3, pin_memory=True)))
        assert batch["pixels"].is_pinned() == torch.cuda.is_available()
        loader = DataLoader(videos.as_torch(batch_size=3, pin_memory=True), batch_size=None, num_workers=1)
        with pytest.raises(BackendError, match="device or pin_memory in a worker of a DataLoader"):
            next(iter(loader))
        with pytest.raises(ParameterError, match=r"reader is a str; allowed: a readers\.Video"):
            seqpipe.torch.Dataset("videos", 3)


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore:This DataLoader will create:UserWarning")
@pytest.mark.parametrize("start_method", ["fork", "spawn"])
def test_persistent_workers_follow_the_epoch(start_method):
    with reader(shuffle=True, seed=3, threads=1) as videos:
        wanted = []
        for epoch in range(3):
            videos.set_epoch(epoch)
            wanted.append([batch.indices.tolist() for batch in videos.batches(3)])
        videos.set_epoch(0)
        dataset = videos.as_torch(batch_size=3)
        loader = DataLoader(
            dataset,
            batch_size=None,
            num_workers=1,
            persistent_workers=True,
            multiprocessing_context=start_method,
        )
        found = []
        for epoch in range(3):
            dataset.set_epoch(epoch)
            found.append([batch["index"].tolist() for batch in loader])
        assert found == wanted
        dataset.set_epoch(1, start=2)
        assert [batch["index"].tolist() for batch in loader] == wanted[1][2:]
        assert [batch["index"].tolist() for batch in loader] == wanted[1], "only the next pass starts there"


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore:This DataLoader will create:UserWarning")
@pytest.mark.parametrize("workers", [0, 1, 3])
def test_an_epoch_goes_on_from_a_batch_with_any_number_of_workers(workers):
    with reader(shuffle=True, seed=3, threads=1) as videos:
        videos.set_epoch(2)
        wanted = [batch.indices.tolist() for batch in videos.batches(3)]
        dataset = videos.as_torch(batch_size=3)
        loader = DataLoader(dataset, batch_size=None, num_workers=workers)
        dataset.set_epoch(2, start=1)
        assert [batch["index"].tolist() for batch in loader] == wanted[1:]
        assert [batch["index"].tolist() for batch in loader] == wanted
        for start in (-1, 5, 1.5, True):
            with pytest.raises(ParameterError, match=rf"start={start} is not valid; allowed: .*from 0 to 4"):
                dataset.set_epoch(2, start=start)


def test_the_epoch_of_a_loaded_state_is_kept():
    with reader(shuffle=True) as videos:
        dataset = videos.as_torch(batch_size=3)
        dataset.set_epoch(1)
        batches = iter(dataset)
        next(batches)
        state = dataset.state_dict()
        rest = [batch["index"].tolist() for batch in batches]
        other = videos.as_torch(batch_size=3)
        other.load_state_dict(state)
        assert other.epoch == 1
        other.set_epoch(other.epoch)
        assert [batch["index"].tolist() for batch in other] == rest


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore:This DataLoader will create:UserWarning")
def test_the_epoch_of_a_copy_is_its_own():
    with reader(shuffle=True, threads=1) as videos:
        dataset = videos.as_torch(batch_size=3)
        copy = pickle.loads(pickle.dumps(dataset))
        loaders = [
            DataLoader(one, batch_size=None, num_workers=1, persistent_workers=True)
            for one in (dataset, copy)
        ]
        first, second = ([batch["index"].tolist() for batch in loader] for loader in loaders)
        assert first == second
        copy.set_epoch(1)
        first_again, other = ([batch["index"].tolist() for batch in loader] for loader in loaders)
        assert first_again == first != other


def test_the_rest_of_a_chain_runs_ahead_on_a_thread_of_its_own():
    seen, third, calls = [], threading.Event(), []

    class Noted(ops.Op, register=False):
        """Note the thread, and when a third batch is made."""

        def reference(self, x, _):
            seen.append(threading.current_thread().name)
            if calls and len(seen) > 2 * calls[0]:
                third.set()
            return x + 1

    with Augmented(reader(), [ops.Flip(p=0.5), Noted()]) as augmented:
        Noted()(next(augmented.reader.batches(3)))
        calls.append(len(seen))  # for each batch
        seen.clear()
        batches = iter(augmented.as_torch(batch_size=3))
        next(batches)
        assert third.wait(20), "three batches are made while the consumer is busy with the first"
        assert threading.current_thread().name not in seen
        assert len(list(batches)) == 3


def test_batches_are_read_ahead_within_the_limit(monkeypatch):
    under_way = UnderWay(monkeypatch)
    for gib, ahead in ((None, 3), (0, 1)):
        under_way.clear()
        with reader(prefetch_gib=gib) as videos:
            next(iter(videos.as_torch(batch_size=3)))
        assert len(under_way.begun) == ahead


def test_an_interrupt_loses_no_batch(monkeypatch):
    with reader() as videos:
        dataset = videos.as_torch(batch_size=3)
        batches = iter(dataset)
        next(batches)
        with monkeypatch.context() as patch:
            patch.setattr(PendingRead, "result", lambda _: (_ for _ in ()).throw(KeyboardInterrupt))
            with pytest.raises(KeyboardInterrupt):
                next(batches)
        assert dataset.state_dict()["position"] == 1
        assert next(batches)["index"].tolist() == [3, 4, 5]


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize("chain", [None, [ops.Flip(p=0.5), ops.GaussianBlur(sigma=1.0)]])
def test_a_forked_process_and_a_closed_reader_go_on(chain):
    with reader(threads=1) as videos:
        dataset = (videos if chain is None else Augmented(videos, chain)).as_torch(batch_size=3)
        batches = iter(dataset)
        next(batches)
        child = os.fork()
        if not child:  # pragma: no cover  it ends without a word
            signal.alarm(60)
            os._exit(sum(len(batch["index"]) for batch in batches))
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 9
        videos.close()
        assert [batch["index"].tolist() for batch in batches] == [[3, 4, 5], [6, 7, 8], [9, 10, 11]]


@pytest.mark.parametrize(("given", "threads"), [(None, 2), (5, 5)])
def test_workers_divide_the_cores(monkeypatch, given, threads):
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(8)), raising=False)
    engines, submit = [], Engine.submit
    monkeypatch.setattr(
        Engine, "submit", lambda engine, requests: (engines.append(engine), submit(engine, requests))[1]
    )
    with reader(threads=given) as videos:
        dataset = videos.as_torch(batch_size=3)
        worker = SimpleNamespace(id=1, num_workers=4, seed=1)
        monkeypatch.setattr("torch.utils.data.get_worker_info", lambda: worker)
        videos.close()  # a worker process begins without threads
        assert [batch["index"].tolist() for batch in dataset] == [[3, 4, 5]]
        assert {engine.threads for engine in engines} == {threads}
