"""What is declared for a GPU is done there, and gives what the CPU gives."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from seqpipe.dali import fn, pipeline_def, types
from seqpipe.dali.plugin.pytorch import DALIGenericIterator
from seqpipe.dali.tensors import TensorListGPU
from tests.support.datasets import files

pytestmark = pytest.mark.gpu

IMAGES = np.random.default_rng(1).integers(0, 255, (4, 24, 32, 3), np.uint8)


@pytest.fixture(autouse=True)
def on_the_gpu(monkeypatch, on_the_cpu):
    monkeypatch.setenv("SEQPIPE_DALI_DEVICE", "gpu")


def both(function, **options):
    """What a pipeline gives on a GPU, and on the CPU."""
    made = []
    for device in (0, None):
        pipe = pipeline_def(function, batch_size=4, num_threads=2, device_id=device, **options)()
        made.append(pipe.run())
    gpu, cpu = made
    return [(one, other.as_array()) for one, other in zip(gpu, cpu, strict=True)]


def images():
    return fn.external_source(lambda: IMAGES, layout="HWC").gpu()


def test_operators_arithmetic_and_indices():
    def function():
        x = images()
        y = fn.resize(fn.rotate(x, angle=30.0, fill_value=0, keep_size=True), size=(12, 16))
        return x, x * 2, x[:, ::-1], fn.flip(x), y, fn.crop_mirror_normalize(x, mean=[1.0], std=[2.0]), x + x

    for number, (gpu, cpu) in enumerate(both(function)):
        assert isinstance(gpu, TensorListGPU)
        found = gpu.as_cpu().as_array()
        assert (found.shape, found.dtype) == (cpu.shape, cpu.dtype)
        assert np.abs(found.astype(float) - cpu.astype(float)).max() <= (1 if number == 4 else 1e-4)


def test_conditions_and_draws():
    def function():
        x = images()
        if fn.random.coin_flip(dtype=types.BOOL, seed=3):
            x = fn.brightness(x, brightness=fn.random.uniform(range=[0.5, 1.5], seed=4))
        else:
            x = fn.flip(x)
        return x

    ((gpu, cpu),) = both(function, enable_conditionals=True)
    assert np.abs(gpu.as_cpu().as_array().astype(int) - cpu).max() <= 1


def test_mixed_devices_are_refused():
    def function():
        return images() + fn.external_source(lambda: IMAGES, layout="HWC")

    with pytest.raises(Exception, match=r"a value on the CPU and one on a GPU; .*x\.gpu\(\)"):
        pipeline_def(function, batch_size=4, num_threads=1, device_id=0)().run()


def test_iterators_give_tensors_of_the_gpu():
    @pipeline_def(batch_size=4, num_threads=2, device_id=0)
    def clips():
        frames, label = fn.readers.video(
            device="gpu", filenames=files("h264"), labels=[3], sequence_length=4, name="Reader"
        )
        return fn.crop_mirror_normalize(frames, output_layout="FCHW", mean=[128.0], std=[64.0]), label

    iterator = DALIGenericIterator(clips(), ["data", "label"], reader_name="Reader", auto_reset=True)
    first = [batch[0]["data"] for batch in iterator]
    again = [batch[0]["data"] for batch in iterator]
    assert all(one.device.type == "cuda" and one.shape == (4, 4, 3, 96, 128) for one in first)
    assert all(torch.equal(one, other) for one, other in zip(first, again, strict=True))


def test_memory_does_not_grow():
    pipe = pipeline_def(lambda: fn.flip(images()), batch_size=4, num_threads=1, device_id=0)()
    import cupy

    used = []
    for number in range(60):
        pipe.run()
        if number in (9, 59):
            used.append(cupy.get_default_memory_pool().total_bytes())
    assert used[1] <= used[0] * 1.5


@pytest.mark.parametrize("cropped", [False, True])
@pytest.mark.parametrize("listed", [False, True])
def test_batches_of_a_source_that_uses_its_memory_again_arrive_whole(cropped, listed):
    memory = np.empty((64, 96, 96, 3), np.float32)

    def source(number):
        memory[...] = np.arange(64, dtype=np.float32)[:, None, None, None] + 100 * number
        return list(memory) if listed else memory

    def function():
        x = fn.external_source(source, device="gpu", layout="HWC")
        return fn.crop(x, crop=(64, 80)) if cropped else x

    pipe = pipeline_def(function, batch_size=64, num_threads=2, device_id=0)()
    held = []
    for number in range(40):
        (found,) = pipe.run()
        held.append((number, found.as_tensor()))
        if len(held) > 6:
            old, tensor = held.pop(0)
            values = torch.from_dlpack(tensor)
            assert values.shape == ((64, 64, 80, 3) if cropped else (64, 96, 96, 3))
            expected = torch.arange(64, device="cuda") + 100 * old
            assert (values == expected[:, None, None, None]).all()
    pipe.close()


def test_uploads_do_not_wait_for_work_that_is_queued_later_on_the_default_stream():
    import cupy

    images = np.random.default_rng(5).random((32, 300, 300, 3), dtype=np.float32)
    pipe = pipeline_def(
        lambda: fn.external_source(lambda: images, device="gpu", layout="HWC") + 1.0,
        batch_size=32,
        num_threads=2,
        device_id=0,
    )()
    pipe.run()
    large = cupy.ones((8192, 8192), cupy.float32)
    for _ in range(10):
        (found,) = pipe.run()
        behind = cupy.cuda.Event()
        for _ in range(20):
            cupy.matmul(large, large)
        behind.record()
        assert not behind.done, "the host has queued a training step, and goes on"
        assert abs(float(found.as_cpu().as_array()[3, 7, 9, 1]) - float(images[3, 7, 9, 1] + 1)) < 1e-6
    pipe.close()


def test_what_is_made_of_a_source_on_a_gpu_is_what_the_cpu_makes():
    large = np.random.default_rng(2).random((4, 300, 300, 3), dtype=np.float32)

    def function():
        x = fn.external_source(lambda: large, layout="HWC").gpu()
        y = fn.crop(x, crop=(200, 200), crop_pos_x=0.3)
        return fn.rotate(y, angle=30.0, keep_size=True, fill_value=0)

    ((gpu, cpu),) = both(function)
    assert np.abs(gpu.as_cpu().as_array() - cpu).max() <= 1e-5


def test_videos_fed_as_bytes():
    def function():
        return fn.experimental.inputs.video(
            name="V", sequence_length=7, device="mixed", last_sequence_policy="pad"
        )

    made = []
    for device in (0, None):
        pipe = pipeline_def(function, batch_size=3, num_threads=2, device_id=device)()
        pipe.build()
        for path in files("h264", "hevc"):
            pipe.feed_input("V", [np.fromfile(path, np.uint8)])
        made.append([pipe.run()[0] for _ in range(6)])
        pipe.close()
    for gpu, cpu in zip(*made, strict=True):
        assert isinstance(gpu, TensorListGPU)
        assert gpu.layout() == cpu.layout() == "FHWC"
        found = gpu.as_cpu().as_array().astype(float)
        assert np.abs(found - cpu.as_array()).max() <= 1


def test_volumes_around_an_axis_and_displaced_pixels():
    volumes = np.random.default_rng(3).random((4, 9, 12, 10, 2)).astype(np.float32)
    maps = np.random.default_rng(4).uniform(0, 24, (2, 4, 24, 32)).astype(np.float32)

    def function():
        scans = fn.external_source(lambda: volumes, layout="DHWC").gpu()
        x, y = fn.external_source(lambda: tuple(maps), num_outputs=2, layout="HW")
        return (
            fn.rotate(scans, angle=35.0, axis=(1, 2, 3), fill_value=0.5),
            fn.rotate(scans, angle=-20.0, axis=(0, 1, 0), keep_size=True, interp_type=types.INTERP_NN),
            fn.experimental.remap(images(), x, y),
            fn.jitter(images(), seed=4),
            fn.clahe(images(), clip_limit=2.0, tiles_x=2, tiles_y=3),
            fn.experimental.dilate(images(), mask_size=[3, 5]),
        )

    for gpu, cpu in both(function):
        assert isinstance(gpu, TensorListGPU)
        found = gpu.as_cpu().as_array()
        assert (found.shape, found.dtype) == (cpu.shape, cpu.dtype)
        assert np.abs(found.astype(float) - cpu.astype(float)).max() <= (1e-4 if cpu.dtype.kind == "f" else 1)
