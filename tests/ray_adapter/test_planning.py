"""Planning, decoding and errors of seqpipe.ray that need no cluster."""

from __future__ import annotations

import functools
import re
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import seqpipe
import seqpipe.ray
from seqpipe import BackendError, Clip, ParameterError, Patch, SourceError
from seqpipe.parts import Boxes
from seqpipe.ray.placement import raised_by_name
from seqpipe.ray.planning import planned_blocks
from tests.dataset.sources import cases, listed

_PICTURES = [np.full((6 + n % 2, 8, 3), n, np.uint8) for n in range(6)]


def _items():
    boxes = [np.full((n % 3, 4), n, np.float32) for n in range(6)]
    return seqpipe.items({"image": _PICTURES, "box": boxes}, parts={"box": Boxes})


def _references(dataset, epoch=0):
    columns = [block.columns() for block in planned_blocks(dataset, epoch, 1)]
    return {name: np.concatenate([np.asarray(block[name]) for block in columns]) for name in columns[0]}


@given(
    counts=st.lists(st.integers(1, 300), min_size=1, max_size=12),
    least=st.integers(1, 40),
)
def test_blocks_are_all_samples_in_order_and_end_where_files_end(counts, least):
    owner = np.repeat(np.arange(len(counts)), counts)
    source = SimpleNamespace(
        paths=[f"{n}.mp4" for n in range(len(counts))],
        size=len(owner),
        metadata=lambda indices: {"video": owner[indices]},
    )
    blocks = planned_blocks(SimpleNamespace(source=source, size=len(owner), fingerprint="f"), 2, least)
    columns = [block.columns() for block in blocks]
    assert [index for block in columns for index in block["index"]] == list(range(len(owner)))
    assert [path for block in columns for path in block["source"]] == [f"{n}.mp4" for n in owner]
    for block in blocks:
        assert block.size <= 128
        stop = block.first + block.size
        assert stop == len(owner) or owner[stop] != owner[stop - 1] or block.size == 128


def test_sample_ids_depend_on_samples_alone():
    dataset = seqpipe.videos(listed(), Clip(2, per_video=2), seed=3)
    ids = seqpipe.ray.sample_ids(dataset, range(dataset.size))
    assert len({*ids, *seqpipe.ray.sample_ids(dataset, range(dataset.size), epoch=1)}) == 2 * dataset.size
    assert all(re.fullmatch("[0-9a-f]{32}", digest) for digest in ids)
    same = seqpipe.videos(listed(), Clip(2, per_video=2), seed=3).batch(4).shard(1, 2)
    assert seqpipe.ray.sample_ids(same, [4, 1]) == [ids[4], ids[1]]
    other = seqpipe.videos(listed(), Clip(2, per_video=2), seed=4)
    assert not {*ids} & {*seqpipe.ray.sample_ids(other, range(other.size))}


class _Object:
    def __call__(self, parts):
        return parts


@pytest.mark.parametrize("make", [_Object, lambda: functools.partial(_Object())], ids=["object", "partial"])
def test_sample_ids_are_those_of_other_processes(make):
    once, again = (_items().apply(make()) for _ in range(2))  # at other addresses
    assert seqpipe.ray.sample_ids(once, range(6)) == seqpipe.ray.sample_ids(again, range(6))


def test_a_files_neighbors_are_one_request(monkeypatch):
    dataset = seqpipe.videos(listed(), Clip(2, per_video=3))
    asked = []
    source = type(dataset.source)
    begin = source.begin
    monkeypatch.setattr(
        source,
        "begin",
        lambda self, plan, **how: asked.append(plan.indices.tolist()) or begin(self, plan, **how),
    )
    rows = list(seqpipe.ray.DecodeClips(dataset)(_references(dataset)))
    assert asked == [[0, 1, 2], [3, 4, 5], [6, 7, 8]]
    assert [row["source"].tolist() for row in rows] == [[name] * 3 for name in dataset.source.paths]


def test_columns_have_one_type_whatever_the_shapes():
    dataset = _items()
    (batch,) = seqpipe.ray.DecodeClips(dataset)(_references(dataset))
    assert batch["box"] == [np.full((n % 3, 4), n).tolist() for n in range(6)]
    assert batch["image"].dtype == object
    assert all((image == picture).all() for image, picture in zip(batch["image"], _PICTURES, strict=True))


def test_volumes_have_their_affine():
    dataset = seqpipe.volumes(cases(), Patch((4, 8, 8)))
    for batch in seqpipe.ray.DecodeClips(dataset)(_references(dataset)):
        for position, index in enumerate(batch["index"]):
            local = dataset.sample(int(index))
            assert (batch["image"][position] == local["image"].data).all()
            assert batch["affine"][position] == local["image"].affine.ravel().tolist()


def test_unreadable_samples_are_left_out_with_a_warning_or_raise(tmp_path, caplog):
    paths = [tmp_path / f"{n}.mp4" for n in range(2)]
    for path, entry in zip(paths, listed().entries, strict=False):
        path.write_bytes(Path(entry.name).read_bytes())
    made = {
        how: seqpipe.videos(list(map(str, paths)), Clip(2, per_video=2), on_error=how)
        for how in ("raise", "skip")
    }
    paths[0].unlink()
    rows = list(seqpipe.ray.DecodeClips(made["skip"])(_references(made["skip"])))
    assert [row["index"].tolist() for row in rows] == [[2, 3]]
    assert "samples [0, 1] cannot be read" in caplog.text
    assert "0.mp4" in caplog.text
    with pytest.raises(SourceError, match=r"0\.mp4"):
        list(seqpipe.ray.DecodeClips(made["raise"])(_references(made["raise"])))


@pytest.mark.parametrize(
    "call", [seqpipe.ray.to_ray, lambda ds, **how: seqpipe.ray.export(ds, "never", **how)]
)
def test_errors_say_what_to_do(call, monkeypatch):
    with pytest.raises(ParameterError, match=r"after batch\(\)"):
        call(_items().batch(2))
    with pytest.raises(ParameterError, match=r"of shard\(0, 2\).*without shard"):
        call(_items().shard(0, 2))
    with pytest.raises(ParameterError, match=r"num_gpus=1 of a data set on the CPU.*device='cuda'"):
        call(_items(), num_gpus=1)
    with pytest.raises(ParameterError, match="concurrency=0"):
        call(_items(), concurrency=0)
    monkeypatch.setitem(sys.modules, "ray", SimpleNamespace(__version__="2.9.3"))
    with pytest.raises(BackendError, match=r"Ray 2\.9\.3 is too old; allowed: Ray 2\.51 or newer"):
        call(_items())
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(BackendError, match=r"pip install 'seqpipe\[ray\]'"):
        call(_items())


def _of_ray(name, text="", **values):
    return type(name, (Exception,), {"__module__": "ray.exceptions", **values})(text)


@pytest.mark.parametrize(
    ("raised", "error", "said"),
    [
        (
            _of_ray("RayTaskError", "far away", cause=SourceError("is cut", source="a.mp4")),
            SourceError,
            r"^a\.mp4: is cut",
        ),
        (_of_ray("OutOfMemoryError", "killed"), BackendError, "OutOfMemoryError: killed.*Raise num_cpus"),
        (_of_ray("NodeDiedError", "gone"), BackendError, "NodeDiedError: gone.*resume=True continues"),
        (KeyError("mine"), KeyError, "mine"),
    ],
    ids=lambda value: getattr(type(value), "__name__", ""),
)
def test_errors_of_actors_keep_their_class(raised, error, said):
    def rows():
        yield 1
        raise raised

    taken = raised_by_name(rows())
    assert next(taken) == 1
    with pytest.raises(error, match=said):
        next(taken)


@pytest.mark.parametrize(
    ("device", "gpus", "have", "error"),
    [
        ("cuda:0", 0, {}, r"num_gpus=0 of a data set on cuda:0.*num_gpus=1"),
        ("cuda:1", 1, {}, r"on cuda:1.*device='cuda'"),
        ("cuda:0", 1, {"CPU": 4.0}, "cluster has no GPU"),
        (
            "cuda:0",
            1,
            {"CPU": 9.0, "GPU": 2.0},
            r"3 actors of 1 cores and a GPU.*9 cores and 2 GPUs.*up to 2",
        ),
        ("cpu", 0, {"CPU": 2.0}, "3 actors of 1 cores, and Ray's cluster has 2 cores; allowed: up to 2"),
    ],
)
def test_actors_fit_the_cluster(device, gpus, have, error, monkeypatch):
    from seqpipe.ray.placement import ActorPool

    ray = SimpleNamespace(__version__="2.60.0", is_initialized=lambda: True, cluster_resources=lambda: have)
    monkeypatch.setitem(sys.modules, "ray", ray)
    dataset = SimpleNamespace(device=device, source=SimpleNamespace(device=device))
    with pytest.raises((BackendError, ParameterError), match=error):
        ActorPool.of(dataset, 3, 1, gpus)
