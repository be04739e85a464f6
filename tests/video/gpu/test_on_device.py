"""Readers, engine and datasets with frames in a GPU's memory: the frames, numbers and losses of the CPU's."""

from __future__ import annotations

import numpy as np
import pytest

import seqpipe
from seqpipe.errors import BackendError, DamagedSourceError, SeqpipeError
from seqpipe.video.convert.output import OutputSpec
from seqpipe.video.device import Device
from seqpipe.video.engine.engine import engine_for
from seqpipe.video.plan import Request
from tests.support import ffmpeg
from tests.support.access import indexed, shared_names
from tests.support.datasets import clips, images
from tests.support.media import entry, made, names, shared_media

pytestmark = pytest.mark.gpu

# The GPU conceals these without a word, see test_damage_that_the_gpu_does_not_notice.
UNNOTICED = {"h264_flip_key", "h264_flip_reference"}


def delivered(reader):
    """The sound frames of a reader's first hundred, and the numbers of the lost ones."""
    count = min(len(reader), 100)
    try:
        return list(range(count)), reader.frames(range(count)).numpy(), ()
    except DamagedSourceError as error:
        sound = [number for number in range(count) if number not in error.lost]
        return sound, reader.frames(sound).numpy(), error.lost


def assert_those_of_the_cpu(path, **options):
    with seqpipe.open(path) as cpu, seqpipe.open(path, device="cuda", **options) as gpu:
        assert np.array_equal(cpu.timestamps, gpu.timestamps)
        expected, theirs = delivered(cpu), delivered(gpu)
    assert theirs[2] == expected[2]
    assert theirs[0] == expected[0]
    apart = np.abs(theirs[1].astype(np.int16) - expected[1])
    assert apart.size == 0 or apart.mean() <= 0.5
    assert apart.size == 0 or (apart > 1).mean() <= 0.001


SOUND_ALONE = ("audio_only", "audio_cover")


@pytest.mark.parametrize("name", [name for name in names() if name not in (*UNNOTICED, *SOUND_ALONE)])
def test_made_videos_are_those_of_the_cpu(name):
    try:
        with seqpipe.open(made(name)) as reader:
            frames = len(reader)
    except SeqpipeError as error:
        with pytest.raises(type(error)):
            seqpipe.open(made(name), device="cuda")
        return
    if frames:
        assert_those_of_the_cpu(made(name))


@pytest.mark.parametrize(
    "name", shared_names("codec", "derived", "odd", "rotation", "vfr", "timing", "corrupt")
)
def test_real_videos_are_those_of_the_cpu(name):
    path = shared_media() / name
    if not path.is_file():
        pytest.skip(f"{path} was not brought here")
    assert_those_of_the_cpu(path)


def test_no_frame_takes_the_parameter_set_of_a_file_before(tmp_path):
    """A damaged key frame names a set that its file lacks, and the other file has: with it, it could be decoded."""
    other, damaged = tmp_path / "other.mp4", tmp_path / "damaged.mp4"
    params = "keyint=24:min-keyint=24:scenecut=0:sps-id=1"
    ffmpeg.write(other, "-i", str(made("h264")), "-c:v", "libx264", "-x264-params", params)
    data, packets = bytearray(made("h264").read_bytes()), indexed(made("h264")).packets
    begin = int(packets.offset[np.flatnonzero(packets.key)[1]]) + 5  # after the unit's length and type
    header = int.from_bytes(data[begin : begin + 5], "big")
    assert (header >> 31, header & 3) == (
        0b1_0001000_1,
        0b11,
    )  # first_mb 0, I, set 0; two bits fill the last byte
    header = 0b1_0001000_010 << 29 | (header & (1 << 31) - 1) >> 2
    data[begin : begin + 5] = header.to_bytes(5, "big")
    damaged.write_bytes(data)
    with seqpipe.open(other, device="cuda") as gpu:
        gpu.frames(range(len(gpu)))
    with seqpipe.open(damaged) as cpu:
        assert min(delivered(cpu)[2]) == 24
    assert_those_of_the_cpu(damaged)


@pytest.mark.parametrize("name", ["h264", "h264_open_gop", "h264_many_b", "wide_h264"])
@pytest.mark.parametrize("decode", ["auto", "nvdec", "mixed", "cpu"])
def test_code_values_are_the_cpus_bit_by_bit(name, decode):
    output = OutputSpec(color="GRAY")
    with seqpipe.open(made(name), output=output) as cpu:
        expected = cpu.frames([40, 3, 3, 17, -1])
    with engine_for(Device("cuda", 0), decode=decode, threads=2, cache_dir=None) as engine:
        request = Request(
            str(made(name)), np.array([40, 3, 3, 17, len(entry(name).numbers) - 1]), output=output
        )
        for found in engine.read([request] * 3):
            assert isinstance(found, seqpipe.Sequence), found
            assert found.device == "cuda:0"
            assert found.frames.tolist() == expected.frames.tolist()
            assert np.array_equal(found.numpy(), expected.numpy())


def test_a_stream_comes_in_order_and_in_main_memory_where_asked():
    with seqpipe.open(made("h264"), device="cuda") as gpu, seqpipe.open(made("h264")) as cpu:
        numbers = list(range(1, 47, 3))
        for frame, number in zip(gpu.stream(numbers), numbers, strict=True):
            assert frame.frames.tolist() == [number]
            assert frame.device == "cuda:0"
        for frame, wanted in zip(gpu.stream(numbers, host=True), cpu.stream(numbers), strict=True):
            assert isinstance(frame.data, np.ndarray)
            assert np.abs(frame.data.astype(np.int16) - wanted.data).max() <= 1


def test_batches_are_the_cpus_and_go_to_torch_without_a_copy(torch):
    files = [made(name) for name in ("h264", "h264_mkv", "h264_open_gop")]
    options = {"length": 4, "stride": 3, "shuffle": True, "seed": 3, "threads": 2}
    on_gpu, on_host = (clips(files, device=device, **options) for device in ("cuda", "cpu"))
    for theirs, ours in zip(images(on_gpu.batch(5)), images(on_host.batch(5)), strict=True):
        assert theirs.indices.tolist() == ours.indices.tolist()
        assert np.array_equal(theirs.frames, ours.frames)
        tensor = theirs.torch()
        assert tensor.device == torch.device("cuda", 0)
        assert tensor.data_ptr() == theirs.data.data.ptr
        assert np.abs(tensor.cpu().numpy().astype(np.int16) - ours.numpy()).max() <= 1


def test_normalized_floats_channels_first():
    output = OutputSpec(dtype="float32", layout="FCHW", mean=(0.4, 0.5, 0.6), std=(0.2, 0.3, 0.4))
    with seqpipe.open(made("h264"), output=output) as cpu:
        expected = cpu[3:9:2]
    with seqpipe.open(made("h264"), output=output, device="cuda") as gpu:
        found = gpu[3:9:2]
    assert found.layout == "FCHW"
    assert np.abs(found.numpy() - expected.numpy()).max() < 1.1 / 255 / 0.2


def test_what_the_gpu_cannot_decode_goes_to_the_cpu_unless_forbidden():
    assert_those_of_the_cpu(made("h264_444"))
    with (
        seqpipe.open(made("h264_444"), device="cuda", decode="nvdec") as gpu,
        pytest.raises(BackendError, match=r"this GPU does not decode h264.*4:4:4.*decode='auto'"),
    ):
        gpu[0]


@pytest.mark.parametrize("name", sorted(UNNOTICED))
def test_damage_that_the_gpu_does_not_notice(name):
    """The GPU conceals this damage and says that all went well, so frames come out that the CPU refuses."""
    with seqpipe.open(made(name), device="cuda") as gpu:
        before = min(entry(name).lost)
        assert len(delivered(gpu)[2]) in (0, len(entry(name).lost))
        with seqpipe.open(made(name)) as cpu:
            assert np.abs(gpu[:before].numpy().astype(np.int16) - cpu[:before].numpy()).max() <= 1


def test_damage_leaves_the_next_file_untouched():
    for name in ("h264_flip_disposable", "h264_lost_reference", "hevc_lost_reference", "h264_lost_key"):
        assert_those_of_the_cpu(made(name))
        assert_those_of_the_cpu(made("h264"))


def test_no_such_gpu():
    with pytest.raises(BackendError, match=r"no device cuda:99"):
        seqpipe.open(made("h264"), device="cuda:99")
