"""Pipelines by DALI's names: forms, feeding, epochs, states, outputs; and what is refused, with its way out."""

from __future__ import annotations

import json
import os

import numpy as np
import pytest

from seqpipe.dali import Pipeline, fn, newaxis, ops, pipeline_def, plugin_manager, types
from seqpipe.dali.data_node import DataNode
from seqpipe.dali.pipeline import NotBuiltError
from seqpipe.dali.tensors import TensorListCPU
from seqpipe.errors import BackendError, ManifestError, ParameterError, SourceNotFoundError, StateError
from seqpipe.video.reader import VideoReader
from tests.dali.conftest import ON_CPU, one, run
from tests.support.datasets import files


def batches(count=4):
    for number in range(count):
        yield np.full((3, 1), number, np.int32), [np.int32(n) for n in range(3)]


class Fed(Pipeline):
    """A class pipeline that is fed in iter_setup."""

    def __init__(self, source, **options):
        super().__init__(3, 1, None, seed=12, **options)
        self.source, self.setups = source, 0
        self.input, self.labels = ops.ExternalSource(), ops.ExternalSource()

    def define_graph(self):
        self.x, self.y = self.input(), self.labels()
        return self.x + 1, self.y

    def iter_setup(self):
        self.setups += 1
        data, labels = next(self.source)
        self.feed_input(self.x, data)
        self.feed_input(self.y, labels)


def outcomes(pipe, count):
    found = []
    for _ in range(count):
        try:
            found.append((pipe.run()[0].as_array().ravel().tolist(), pipe.setups))
        except StopIteration:
            found.append("end")
    return found


def test_class_form_reads_ahead_as_dali_does():
    found = outcomes(Fed(batches()), 6)
    assert [one for one in found if one == "end"] == ["end", "end"]
    assert [values for values, _ in found[:4]] == [[n + 1] * 3 for n in range(4)]
    assert [setups for _, setups in found[:3]] == [2, 3, 4]
    plain = outcomes(Fed(batches(), exec_async=False, exec_pipelined=False), 4)
    assert [setups for _, setups in plain] == [1, 2, 3, 4]


def test_an_end_in_iter_setup_lasts_until_reset():
    pipe = Fed(batches(1))
    assert outcomes(pipe, 2) == [([1, 1, 1], 2), "end"]
    pipe.source = batches(1)
    assert outcomes(pipe, 1) == ["end"]
    pipe.reset()
    assert outcomes(pipe, 1)[0][0] == [1, 1, 1]


def test_context_form():
    pipe = Pipeline(3, 1, None)
    with pipe:
        x = fn.external_source(name="in")
        pipe.set_outputs(x * 2)
    pipe.build()
    pipe.feed_input("in", np.ones((3, 2), np.float32))
    (result,) = pipe.run()
    assert isinstance(result, TensorListCPU)
    assert result.as_array().tolist() == [[2, 2]] * 3
    assert pipe.run(**{"in": np.zeros((2, 2), np.float32)})[0].as_array().tolist() == [[0, 0]] * 2


def test_pipeline_def_with_and_without_arguments():
    @pipeline_def
    def bare(a, b=2):
        return fn.constant(idata=a) * b

    @pipeline_def(batch_size=2, **ON_CPU)
    def full(a, **more):
        return fn.constant(idata=a + sum(more.values()))

    assert bare(5, b=3, batch_size=3, **ON_CPU).run()[0].as_array().tolist() == [[15]] * 3
    assert full(1, q=4).run()[0].as_array().tolist() == [[5]] * 2
    assert full(1, batch_size=1).run()[0].as_array().tolist() == [[1]]
    with pytest.raises(ParameterError, match=r"there is no argument 'batch'; allowed: batch_size, "):
        pipeline_def(batch=3)
    with pytest.raises(
        ParameterError, match=r"batch_size is missing. Pass it to the pipeline: pipe\(batch_size=8\)"
    ):
        bare(1).run()


def test_outputs_of_every_kind():
    found = one(lambda: (7, 1.5, np.array([1, 2]), types.Constant(True), fn.constant(fdata=2.5)))
    assert [part[:2] for part in found] == [
        ("INT32", 7),
        ("FLOAT", 1.5),
        ("INT32", [1, 2]),
        ("BOOL", True),
        ("FLOAT", [2.5]),
    ]


def test_what_is_not_built_or_fed():
    pipe = Pipeline(3, 1, None)
    with pipe:
        pipe.set_outputs(fn.external_source(name="in"))
    for call in (pipe.outputs, pipe.schedule_run):
        with pytest.raises(
            NotBuiltError, match=r"the pipeline is not built. Call build\(\) first; run\(\) builds by"
        ):
            call()
    pipe.build()
    with pytest.raises(KeyError, match=r"there is no source 'zz' for feed_input\(\); allowed: 'in'"):
        pipe.feed_input("zz", np.zeros((3, 1)))
    with pytest.raises(
        IndexError,
        match=r"in: the source has no batch for this run.*pipe.feed_input\('in', batch\)",
    ):
        pipe.run()
    pipe.feed_input("in", np.zeros((2, 1)))
    pipe.feed_input("in", np.ones((3, 1)))
    assert [len(pipe.run()[0]) for _ in range(2)] == [2, 3]
    with pytest.raises(ParameterError, match=r"a batch of 4 samples; allowed: up to batch_size=3"):
        pipe.feed_input("in", np.zeros((4, 1)))


def test_schedule_and_outputs():
    pipe = pipeline_def(lambda: fn.external_source(lambda n: np.full((1, 1), n)), batch_size=1, **ON_CPU)()
    pipe.build()
    for _ in range(2):
        pipe.schedule_run()
    assert not pipe.empty()
    assert [int(pipe.share_outputs()[0].at(0)[0]) for _ in range(2)] == [0, 1]
    pipe.release_outputs()


def test_the_last_batch_is_repeated_where_that_is_asked_for():
    pipe = pipeline_def(lambda: fn.external_source(name="x", repeat_last=True), batch_size=1, **ON_CPU)()
    pipe.build()
    pipe.feed_input("x", np.zeros((1, 1)))
    pipe.feed_input("x", np.ones((1, 1)))
    assert [float(pipe.run()[0].at(0)[0]) for _ in range(4)] == [0, 1, 1, 1]


def test_nodes_of_another_pipeline_and_nothing_at_all():
    kept = []
    run(lambda: kept.append(fn.constant(idata=1)) or kept[0])
    with pytest.raises(
        ParameterError, match=r"a node of another pipeline. Create all nodes of a pipeline within its own"
    ):
        run(lambda: kept[0] * 2)
    with pytest.raises(
        ParameterError, match=r"the pipeline has no output; allowed: one output or more. Return nodes"
    ):
        run(lambda: None)
    with pytest.raises(
        ParameterError, match=r"the pipeline has no output.*Call set_outputs\(…\) in the with block"
    ):
        Pipeline(1, 1, None).build()
    with pytest.raises(ParameterError, match=r"fn.element_extract: .*the input is missing"):
        run(lambda: fn.element_extract(element_map=[0]))
    with pytest.raises(ParameterError, match=r"two sources have the name 'a'; allowed: different names"):
        run(lambda: tuple(fn.external_source(lambda: [1], name="a") for _ in range(2)))
    with pytest.raises(ParameterError, match=r"batch_size=0 is not valid"):
        Pipeline(0)


def test_types_and_axes_of_outputs_may_be_promised():
    node = lambda: fn.external_source(lambda: np.zeros((1, 2), np.float32))  # noqa: E731  made within the pipeline
    run(node, output_dtype=types.FLOAT, output_ndim=1)
    pipe = pipeline_def(node)(batch_size=1, num_threads=1, device_id=None, output_ndim=1)
    assert (pipe.output_ndim(), pipe.output_dtype()) == ([1], [None])
    with pytest.raises(
        ParameterError,
        match=r"Data type in the output_idx=0 does not match. Expected: UINT8. Received: FLOAT",
    ):
        run(node, output_dtype=types.UINT8)
    with pytest.raises(
        ParameterError, match=r"Number of dimensions in the output_idx=0 .* Expected: 3. Received: 1"
    ):
        run(node, output_ndim=3)


def test_an_error_of_an_operator_names_its_line_and_the_pipeline_goes_on():
    sizes = iter([12, 4, 12, 12])

    @pipeline_def(batch_size=3, **ON_CPU)
    def pipe():
        image = fn.external_source(lambda: np.zeros((3, next(sizes), 12, 3), np.uint8), layout="HWC")
        return fn.crop(image, crop=(8, 8))

    line = pipe.__wrapped__.__code__.co_firstlineno + 3
    made = pipe()
    assert made.run()[0].as_array().shape == (3, 8, 8, 3)
    with pytest.raises(
        ParameterError, match=r"crop=\(8, 8\) of images of 12×4 pixels|of images of"
    ) as caught:
        made.run()
    assert f"test_pipelines.py:{line} (pipe)" in " ".join(caught.value.__notes__)
    assert made.run()[0].as_array().shape == (3, 8, 8, 3)


def test_checkpoints(numbered, tmp_path):
    def made(checkpoint=None):
        @pipeline_def(batch_size=2, seed=3, enable_checkpointing=True, checkpoint=checkpoint, **ON_CPU)
        def pipe():
            label = fn.readers.file(files=numbered, labels=list(range(10)), random_shuffle=True, name="R")[1]
            return label, fn.random.uniform(range=[0.0, 1.0])

        return pipe()

    def rows(pipe, count):
        return [[output.as_array().tolist() for output in pipe.run()] for _ in range(count)]

    pipe = made()
    rows(pipe, 7)
    text = pipe.checkpoint(str(tmp_path / "state"))
    assert (tmp_path / "state").read_text() == text
    assert json.loads(text)["epoch"] == 1
    assert rows(made(text), 6) == rows(pipe, 6)
    with pytest.raises(StateError, match=r"does not belong to this pipeline"):
        pipeline_def(lambda: fn.constant(idata=1), batch_size=2, checkpoint=text, **ON_CPU)().build()


def test_checkpoints_of_shards_without_a_seed(numbered):
    """Shards agree on an order if no seed is given: a seed that was drawn does not become theirs by a checkpoint."""
    make = pipeline_def(
        lambda: fn.readers.file(files=numbered, random_shuffle=True, num_shards=2, name="R")[0],
        batch_size=2,
        **ON_CPU,
    )
    pipe = make()
    pipe.run()
    restored = make(checkpoint=pipe.checkpoint())
    assert [restored.run()[0].as_array().tolist() for _ in range(4)] == [
        pipe.run()[0].as_array().tolist() for _ in range(4)
    ]


def test_run_goes_through_epochs_without_end(numbered):
    pipe = pipeline_def(
        lambda: fn.readers.file(files=numbered[:3], labels=[0, 1, 2], name="R", random_shuffle=True)[1],
        batch_size=3,
        **ON_CPU,
    )()
    seen = [pipe.run()[0].as_array().ravel().tolist() for _ in range(6)]
    assert all(sorted(one) == [0, 1, 2] for one in seen)
    assert len({tuple(one) for one in seen}) > 1
    assert pipe.epoch_size("R") == pipe.reader_meta("R")["epoch_size"] == 3
    with pytest.raises(KeyError, match=r"there is no reader 'Q'; allowed: 'R'"):
        pipe.reader_meta("Q")


def test_indices_and_layouts():
    def results():
        x = fn.external_source(lambda: [np.ones((2, 3, 4, 1), np.float32)], layout="FHWC")
        return (
            x[0],
            x[:, 1],
            x[..., 0],
            x[newaxis("N"), 0],
            x[1:, ::2],
            x[newaxis],
            x.shape(),
            x[fn.constant(idata=1)[0]],
        )

    found = [(np.shape(values), layout) for _, values, layout in one(results)]
    assert found == [
        ((3, 4, 1), "HWC"),
        ((2, 4, 1), "FWC"),
        ((2, 3, 4), "FHW"),
        ((1, 3, 4, 1), "NHWC"),
        ((1, 2, 4, 1), "FHWC"),
        ((1, 2, 3, 4, 1), ""),
        ((4,), ""),
        ((3, 4, 1), "HWC"),
    ]
    with pytest.raises(
        ParameterError, match=r"a str as an index of a node; allowed: whole numbers, slices, newaxis"
    ):
        one(lambda: fn.constant(idata=1)["a"])


def test_lists_of_tensors():
    def results():
        dense = fn.external_source(lambda: np.arange(12, dtype=np.uint8).reshape(3, 2, 2, 1), layout="HWC")
        return dense, fn.external_source(lambda: [np.zeros((n + 1, 2), np.float32) for n in range(3)])

    dense, ragged = run(results, batch_size=3)[0]
    assert (len(dense), dense.shape()[0], dense.layout(), dense.dtype) == (3, (2, 2, 1), "HWC", types.UINT8)
    assert (dense.is_dense_tensor(), ragged.is_dense_tensor()) == (True, False)
    assert np.from_dlpack(dense.as_tensor()).shape == np.asarray(dense).shape == (3, 2, 2, 1)
    assert dense.as_tensor().layout() == "NHWC"
    assert dense.as_reshaped_tensor([3, 4]).shape() == [3, 4]
    assert np.asarray(dense[-1]).ravel().tolist() == [8, 9, 10, 11]
    out = np.zeros((3, 2, 2, 1), np.uint8)
    dense.copy_to_external(out)
    assert out.ravel().tolist() == list(range(12))
    with pytest.raises(IndexError, match=r"sample 5 of a batch of 3"):
        dense.at(5)
    with pytest.raises(
        ParameterError, match=r"samples of different shapes, \(1, 2\), \(2, 2\), \(3, 2\); allowed: one"
    ):
        ragged.as_array()


def test_a_graph_as_text(tmp_path):
    pipe = pipeline_def(lambda: fn.constant(idata=1) * 2, batch_size=1, **ON_CPU)()
    pipe.save_graph_to_dot_file(str(tmp_path / "g.dot"))
    assert '[label="constant"]' in (tmp_path / "g.dot").read_text()


def test_plugins_of_dali_are_refused_with_the_way_out():
    with pytest.raises(
        BackendError, match=r"compiled for DALI cannot be loaded. Write the operator in Python"
    ):
        plugin_manager.load_library("./libcustom.so")


def test_a_driver_may_be_insisted_on(monkeypatch):
    from seqpipe.dali import device

    monkeypatch.setenv("SEQPIPE_DALI_DEVICE", "gpu")
    monkeypatch.setattr(device, "has_driver", lambda: False)
    with pytest.raises(BackendError, match=r"there is no NVIDIA driver, and SEQPIPE_DALI_DEVICE=gpu"):
        run(lambda: fn.external_source(lambda: np.zeros((1, 1))).gpu(), device_id=0)


# ---------------------------------------------------------------------- readers


def test_videos_by_a_list(tmp_path):
    (video,) = files("h264")
    table = tmp_path / "list.txt"
    table.write_text(f"{video} 3 8 20\n{video} 4 -8 -4\n")

    def reading(**options):
        return lambda: fn.readers.video(file_list=str(table), sequence_length=4, name="R", **options)

    found = run(
        lambda: fn.readers.video(
            file_list=str(table),
            file_list_frame_num=True,
            sequence_length=4,
            enable_frame_num=True,
            enable_timestamps=True,
        ),
        batch_size=4,
    )[0]
    assert found[0].as_array().shape == (4, 4, 96, 128, 3)
    assert [found[n].as_array().ravel().tolist() for n in (1, 2)] == [[3, 3, 3, 4], [8, 12, 16, 40]]
    assert np.diff(found[3].as_array()).min() > 0
    table.write_text(f"{video} jump\n")
    with pytest.raises(
        ManifestError, match=r"list.txt: line 1: '.* jump'; allowed: path label \[start \[end\]\]"
    ):
        run(reading())
    with pytest.raises(
        ParameterError, match=r"which videos.; allowed: exactly one of filenames, file_root and file_list"
    ):
        run(lambda: fn.readers.video(sequence_length=4))


@pytest.mark.parametrize(
    ("reader", "options", "expected"),
    [
        ("legacy", {}, (9, 20)),
        ("legacy", {"file_list_include_preceding_frame": True}, (8, 21)),
        ("new", {}, (8, 21)),
        ("new", {"file_list_rounding": "start_up_end_down"}, (9, 20)),
        ("new", {"file_list_rounding": "all_up"}, (9, 21)),
        ("new", {"file_list_rounding": "all_down"}, (8, 20)),
    ],
)
@pytest.mark.parametrize("seconds", [True, False])
def test_bounds_between_frames(tmp_path, reader, options, expected, seconds):
    (video,) = files("h264")
    read = fn.readers.video if reader == "legacy" else fn.experimental.readers.video
    bounds = (8.5, 20.5)
    if seconds:
        with VideoReader(video) as opened:
            times = opened.timestamps
        bounds = tuple((times[int(one)] + times[int(one) + 1]) / 2 for one in bounds)
    elif reader == "legacy":  # frame numbers are rounded inward whatever the option
        options, expected = {**options, "file_list_frame_num": True}, (9, 20)
    else:
        options = {**options, "file_list_format": "frames"}
    table = tmp_path / "list.txt"
    table.write_text(f"{video} 3 {bounds[0]} {bounds[1]}\n")
    count = expected[1] - expected[0]
    found = run(
        lambda: read(file_list=str(table), sequence_length=count, enable_frame_num="sequence", **options)
    )[0]
    assert found[2].at(0).tolist() == list(range(*expected))


def test_arguments_of_lists_that_are_not_valid(tmp_path):
    (video,) = files("h264")
    table = tmp_path / "list.txt"
    table.write_text(f"{video} 3 8.2 8.4\n")

    def reading(reader, **options):
        return lambda: reader(file_list=str(table), sequence_length=1, **options)

    with pytest.raises(ManifestError, match=r"line 1: .* selects no frame: start 9, end 8"):
        run(reading(fn.readers.video, file_list_frame_num=True))
    table.write_text(f"{video} 3\n")
    with pytest.raises(ParameterError, match=r"file_list_rounding='up' is not valid; allowed: 'start_down"):
        run(reading(fn.experimental.readers.video, file_list_rounding="up"))
    with pytest.raises(ParameterError, match=r"there is no argument 'file_list_rounding'"):
        run(reading(fn.readers.video, file_list_rounding="all_up"))
    with pytest.raises(
        ParameterError, match=r"enable_frame_num='all' is not valid; allowed: 'none' or False"
    ):
        run(reading(fn.readers.video, enable_frame_num="all"))


def test_types_of_videos_and_sizes():
    (video,) = files("h264")
    options = {"filenames": [video], "sequence_length": 2}
    whole = run(lambda: fn.readers.video(**options))[0][0].at(0)
    floats = run(lambda: fn.readers.video(dtype=types.FLOAT, **options))[0][0].at(0)
    parts = run(lambda: fn.readers.video(dtype=types.FLOAT, normalized=True, **options))[0][0].at(0)
    assert whole.dtype == np.uint8
    assert np.array_equal(floats, whole.astype(np.float32))
    assert np.allclose(parts * 255, floats, atol=1e-3)
    small = run(lambda: fn.readers.video_resize(resize_x=32, resize_y=24, **options))[0][0].at(0)
    assert np.array_equal(
        small, run(lambda: fn.resize(fn.readers.video(**options), size=(24, 32)))[0][0].at(0)
    )
    shown = run(lambda: fn.decoders.video(fn.readers.file(files=[video])[0], end_frame=5, stride=2))[0][0].at(
        0
    )
    assert np.array_equal(shown[0], whole[0])
    assert len(shown) == 3


def test_arrays_and_folders_of_images(tmp_path):
    import cv2

    for number in range(3):
        np.save(tmp_path / f"{number}.npy", np.full((2, number + 1), number))
        for frame in range(5):
            folder = tmp_path / "clips" / f"{number}"
            folder.mkdir(parents=True, exist_ok=True)
            cv2.imwrite(str(folder / f"{frame:03}.png"), np.full((4, 6, 3), 10 * number + frame, np.uint8))
    arrays = run(lambda: fn.readers.numpy(file_root=str(tmp_path), file_filter="?.npy"), batch_size=3)[0][0]
    assert arrays.shape() == [(2, 1), (2, 2), (2, 3)]
    clips = run(
        lambda: fn.readers.sequence(file_root=str(tmp_path / "clips"), sequence_length=2, step=2),
        batch_size=6,
    )
    assert clips[0][0].layout() == "FHWC"
    assert clips[0][0].as_array()[:, :, 0, 0, 0].tolist() == [
        [0, 1],
        [2, 3],
        [10, 11],
        [12, 13],
        [20, 21],
        [22, 23],
    ]
    (tmp_path / "bad.npy").write_bytes(b"x")
    with pytest.raises(Exception, match=r"bad.npy: the NPY header is damaged"):
        run(lambda: fn.readers.numpy(files=[str(tmp_path / "bad.npy")]))
    with pytest.raises(SourceNotFoundError, match=r"no files in the folders of .*Give files="):
        run(lambda: fn.readers.file(file_root=str(tmp_path / "clips" / "0")))
    with pytest.raises(SourceNotFoundError, match=r"there is no such file"):
        run(lambda: fn.readers.file(files=["/nowhere.jpg"]))


def test_functions_of_the_user():
    def results():
        x = fn.external_source(lambda: np.arange(6, dtype=np.float32).reshape(3, 2))
        doubled = fn.python_function(x, function=lambda a: a * 2)
        sums = fn.python_function(x, function=lambda part: [a.sum() for a in part], batch_processing=True)
        both = fn.python_function(x, x, function=lambda a, b: (a + b, a - b), num_outputs=2)
        return doubled, sums, *both, fn.torch_python_function(x, function=lambda part: [a + 1 for a in part])

    found = [output.as_array().tolist() for output in run(results, batch_size=3)[0]]
    assert found[0] == [[0, 2], [4, 6], [8, 10]]
    assert found[1] == [1, 5, 9]
    assert found[3] == [[0, 0]] * 3
    assert found[4] == [[1, 2], [3, 4], [5, 6]]
    with pytest.raises(ParameterError, match=r"gave 3 values; allowed: 2"):
        run(lambda: fn.python_function(fn.constant(idata=1), function=lambda a: (a, a, a), num_outputs=2))


def test_nodes_tell_what_they_are():
    seen = []
    run(lambda: seen.append(fn.flip(fn.external_source(lambda: np.zeros((1, 4, 4, 3), np.uint8)))) or seen[0])
    assert isinstance(seen[0], DataNode)
    assert (seen[0].device, seen[0].name) == ("cpu", "flip")
    assert "test_pipelines.py" in seen[0].where


def test_a_parallel_source_runs_in_processes():
    def source(info):
        if info.idx_in_epoch >= 6:
            raise StopIteration
        return np.full((40, 40, 3), info.idx_in_epoch, np.uint8), np.array([os.getpid()], np.int64)

    @pipeline_def(batch_size=3, num_threads=1, device_id=None, py_num_workers=2)
    def program():
        return tuple(fn.external_source(source=source, num_outputs=2, parallel=True))

    pipe = program()
    first, processes = pipe.run()
    assert [int(np.asarray(one)[0, 0, 0]) for one in first.as_array()] == [0, 1, 2]
    assert os.getpid() not in processes.as_array()
    assert int(pipe.run()[0].as_array()[0, 0, 0, 0]) == 3
    with pytest.raises(StopIteration):
        pipe.run()


def test_a_checkpoint_that_is_none_is_refused_by_name():
    """It ended in a JSONDecodeError."""
    pipe = Pipeline(batch_size=2, checkpoint="{", **ON_CPU)
    with pipe:
        pipe.set_outputs(fn.external_source(lambda number: np.full((2, 1), number)))
    with pytest.raises(StateError, match=r"the checkpoint is not JSON .*allowed: a result of checkpoint\(\)"):
        pipe.build()
