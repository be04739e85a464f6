"""The whole way through a GPU, on machines without one: real files, and nothing imitated but the driver and CuPy."""

from __future__ import annotations

import gc
import itertools
import weakref
from types import SimpleNamespace

import numpy as np
import pytest

from seqpipe.errors import BackendError, SeqpipeError
from seqpipe.video.convert.output import OutputSpec
from seqpipe.video.cuda import device_surface, painter
from seqpipe.video.cuda.streams import Streams
from seqpipe.video.engine import backend
from seqpipe.video.engine import gpu_backends as gpu_ways_module
from seqpipe.video.engine.backend import PROCESSES
from seqpipe.video.engine.engine import Engine
from seqpipe.video.engine.gpu_backends import gpu_decode_backends
from seqpipe.video.index.open import open_index
from seqpipe.video.nvdec import feeder, session
from seqpipe.video.plan import Request
from tests.support.deep import deep, deep_but
from tests.support.media import made, made_all, names
from tests.support.pictures import differences
from tests.support.software_gpu import SoftwareGpu
from tests.support.stress import Stress
from tests.support.truth import known_file

SOUND = (
    "h264",
    "h264_long_gop",
    "h264_open_gop",
    "h264_many_b",
    "hevc",
    "hevc_open_gop",
    "h264_ts",
    "hevc_10",
    "hevc_444",
)


@pytest.fixture
def gpu(emulated, monkeypatch):
    """A GPU in software, behind the driver's interfaces."""
    if feeder.native() is None:
        pytest.skip("no C compiler")
    made_gpu = SoftwareGpu(emulated.device)
    made_gpu.install(monkeypatch)
    yield made_gpu
    made_gpu.remove()


def engine(decode, threads=2):
    backends, allocate = gpu_decode_backends(0, decode, threads)
    return Engine(threads, backends=backends, allocate=allocate)


def request(name, frames, **output):
    return Request(str(made(name)), np.array(frames, np.int64), output=OutputSpec(**output))


def windows(name, seed, count=3, length=6):
    """Some with strides, one backwards, one of a single frame over and over."""
    random, last = np.random.default_rng(seed), len(open_index(str(made(name)))) - 1
    strides = random.integers(1, max(2, last // length), count)
    found = [random.integers(0, last - (length - 1) * k + 1) + np.arange(length) * k for k in strides]
    return [*found, found[0][::-1], np.repeat(found[-1][:1], 3)]


def assert_alike(wanted, found):
    """The same frames, or the same error; a GPU rounds colors once at the end, so some values are one level apart."""
    assert len(wanted) == len(found)
    for left, right in zip(wanted, found, strict=True):
        if isinstance(left, SeqpipeError) or isinstance(right, SeqpipeError):
            assert (type(left), getattr(left, "lost", ())) == (type(right), getattr(right, "lost", ())), right
            continue
        assert (left.source, left.frames.tolist()) == (right.source, right.frames.tolist())
        apart = np.abs(left.data.astype(int) - np.asarray(right.data).astype(int))
        assert apart.max() <= 1
        assert apart.mean() <= 0.05


@pytest.mark.parametrize("name", deep_but(["h264", "h264_open_gop", "hevc_444"], SOUND))
def test_what_comes_through_a_gpu_is_what_the_cpu_gives(gpu, name):
    asked = [request(name, frames) for frames in windows(name, 0)]
    with Engine(1, processes=0) as own, engine("nvdec") as other:
        assert_alike(own.read(asked), other.read(asked))
        assert set(other.stats()["frames"]) == {"nvdec"}


def cut(name, frames, random):
    """A request with a window and a mirror of its own, as random resized crops have them."""
    info = open_index(str(made(name))).info
    width, height = (int(random.integers(side // 3, side + 1)) for side in info.display_size)
    left, top = (
        int(random.integers(0, side - length + 1))
        for side, length in zip(info.display_size, (width, height), strict=True)
    )
    return request(
        name, frames, size=(40, 56), crop=(top, left, height, width), mirror=bool(random.integers(0, 2))
    )


@pytest.mark.parametrize("decode", ["nvdec", "auto"])
def test_each_request_has_a_crop_and_a_mirror_of_its_own(gpu, decode):
    """Also those of the same frames, which are decoded once."""
    random = np.random.default_rng(7)
    asked = [
        cut(name, frames, random) for name in SOUND[:5] for frames in (range(8), range(8), range(3, 20, 4))
    ]
    with Engine(1, processes=0) as own, engine(decode) as other:
        wanted, found = own.read(asked), other.read(asked)
        assert set(other.stats()["frames"]) == {"nvdec"}
    for left, right in zip(wanted, found, strict=True):
        assert (left.source, left.frames.tolist()) == (right.source, right.frames.tolist())
        # scaled planes are rounded before they are mixed on the CPU only: the bounds of all scaled pictures
        mean, most, _ = differences(left.data, np.asarray(right.data))
        assert mean <= 0.05
        assert most <= 1
    assert len({np.asarray(sequence.data)[0].tobytes() for sequence in found}) == len(asked)


def test_requests_with_several_converters_take_the_fused_loop(gpu, monkeypatch):
    """Overlapping windows, decoded once, each cropped and mirrored by itself; scaled, or pixel by pixel."""
    random = np.random.default_rng(11)
    asked = []
    for start in range(0, 24, 4):
        top, left = random.integers(0, 40, 2)
        mirror = bool(start % 8)
        asked.append(request("h264", range(start, start + 8), crop=(top, left, 48, 64), mirror=mirror))
        asked.append(cut("h264", range(start, start + 8), random))
    with Engine(1, processes=0) as own, engine("nvdec", threads=1) as other:
        unscaled = own.read(asked[::2])
        stepwise = other.read(asked)
        learn(other, asked)
        monkeypatch.setattr(backend, "Decoding", None)
        fused = other.read(asked)
    assert_alike(unscaled, fused[::2])
    for left, right in zip(stepwise, fused, strict=True):
        assert np.array_equal(np.asarray(left.data), np.asarray(right.data))


@pytest.fixture
def large(monkeypatch):
    """Has all pictures taken for large ones, which are converted one by one."""
    monkeypatch.setattr(device_surface, "_MOST_PER_LAUNCH", 1)


@pytest.mark.parametrize(
    ("name", "at_once"), deep_but([("h264_many_b", 2), ("hevc", 1)], itertools.product(SOUND, [1, 2]))
)
def test_few_pictures_are_in_use_of_large_ones(gpu, name, at_once, monkeypatch):
    monkeypatch.setattr(device_surface, "_MOST_PER_LAUNCH", at_once)
    asked = [request(name, frames) for frames in (range(len(open_index(str(made(name))))), *windows(name, 1))]
    with Engine(1, processes=0) as own, engine("nvdec") as other:
        assert_alike(own.read(asked), other.read(asked))
    assert {decoder.outputs for decoder in gpu.cuvid.decoders.values()} == {3 * at_once}
    assert gpu.cuvid.early > 0, "no surface was used again while its picture waited"


def test_of_pictures_whose_size_is_not_the_streams_as_many_are_in_use(gpu, monkeypatch):
    index = open_index(str(made("resized")))
    of_the_stream = index.info.width, index.info.height
    for user in (session, painter):
        monkeypatch.setattr(user, "frames_per_launch", lambda *size: 1 if size == of_the_stream else 8)
    asked = [request("resized", frames) for frames in (range(len(index)), range(50, len(index)))]
    with Engine(1, processes=0) as own, engine("nvdec") as other:
        for wanted, found in zip(own.read(asked), other.read(asked), strict=True):
            for left, right in zip(wanted.data, np.asarray(found.data), strict=True):
                mean, most, _ = differences(left, right)
                assert mean <= 0.05
                assert most <= 1


@pytest.mark.parametrize("decode", ["mixed", deep("auto")])
@pytest.mark.parametrize("seeds", [1, deep(3)])
def test_many_files_of_many_kinds_at_once(gpu, decode, seeds, monkeypatch):
    monkeypatch.setenv(PROCESSES.name, "1")
    asked = [
        request(name, frames)
        for seed in range(seeds)
        for name in (*SOUND[:5], "vp9", "mpeg4_mp4")
        for frames in windows(name, seed)
    ]
    with Engine(2, processes=0) as own, engine(decode) as other:
        wanted = own.read(asked)
        for _ in range(2):
            assert_alike(wanted, other.read(asked))
        assert other.stats()["frames"]["cpu"] > 0
        assert decode == "mixed" or other.stats()["frames"]["nvdec"] > 0


@pytest.mark.parametrize(
    ("decode", "cores", "wanted", "threads"),
    [("auto", 16, 16, 32), ("mixed", 16, 10, 12), ("mixed", 24, 15, 18), ("mixed", 8, 0, 0)],
)
def test_children_beside_engines_leave_cores_to_those_who_feed_them(
    gpu, decode, cores, wanted, threads, monkeypatch
):
    monkeypatch.delenv(PROCESSES.name, raising=False)
    backends, _ = gpu_decode_backends(0, decode, cores)
    helped = [backend for backend in backends if backend.helpers is not None]
    assert [found.helpers.count for found in helped] == ([wanted] if wanted else [])
    assert [found.threads for found in helped] == ([threads] if wanted else []), (
        "few hold jobs for no process"
    )
    assert all((found.helpers._nice > 0) == (decode == "mixed") for found in helped)


@pytest.mark.parametrize("decode", ["auto", *map(deep, ["nvdec", "mixed"])])
def test_small_pictures_have_workers_of_their_own_and_more_of_them(gpu, decode, monkeypatch):
    made_ways = [backend for backend in gpu_decode_backends(0, decode, 2)[0] if backend.name == "nvdec"]
    assert [backend.threads for backend in made_ways] == [4, 6], "two and three for each of two engines"
    info = open_index(str(made("h264"))).info
    asked = [
        request(name, frames) for name in ("h264", "h264_open_gop", "hevc_444") for frames in windows(name, 2)
    ]
    with Engine(1, processes=0) as own:
        wanted = own.read(asked)
    for most, kind in ((info.width * info.height, 1), (info.width * info.height - 1, 0)):
        monkeypatch.setattr(gpu_ways_module, "_MOST_PIXELS_OF_SMALL", most)
        job = SimpleNamespace(video=SimpleNamespace(index=open_index(str(made("h264")))))
        assert [backend.fits(job) for backend in made_ways] == [kind == 0, kind == 1]
        with engine(decode) as other:
            assert_alike(wanted, other.read(asked))


DAMAGED = [name for name in names("damaged") if name.startswith(("h264", "hevc"))]


@pytest.mark.parametrize("name", deep_but(DAMAGED[::3], DAMAGED))
def test_damage_is_found_where_the_cpu_finds_it_and_the_next_file_is_sound(gpu, name):
    count = len(open_index(str(made(name))))
    asked = [request(name, range(count)), request(name, [0, count - 1]), request("h264", [3, 40])]
    with Engine(1, processes=0) as own, engine("auto") as other:
        assert_alike(own.read(asked), other.read(asked))


@pytest.mark.parametrize("damaged", [DAMAGED[::3], deep(2 * DAMAGED)], ids=len)
def test_damage_of_large_pictures_leaves_as_few_in_use(gpu, large, damaged):
    with engine("nvdec", 1) as other:
        for name in damaged:
            count = len(open_index(str(made(name))))
            for found in other.read([request(name, range(count)), request(name, [0, count - 1])]):
                assert not isinstance(found, BackendError), found


def test_all_that_was_handed_over_is_given_back(gpu):
    asked = [request(name, frames) for name in SOUND[:3] for frames in windows(name, 5)]
    with engine("nvdec") as other:
        for _ in range(3):
            other.read(asked)
    decoders = list(gpu.cuvid.decoders.values())
    assert decoders
    gpu.remove()
    assert gpu.cuvid.decoders == {}


@pytest.mark.parametrize("count", [8, deep(100)])
@pytest.mark.parametrize(("decode", "waits_s"), [("nvdec", 0.03), deep("auto", 0.0), deep("mixed", 0.0)])
def test_requests_of_every_kind_by_several_threads(gpu, decode, waits_s, count, monkeypatch):
    """Where it takes long to wait for the GPU, others take the session of a run whose last pictures are waited for."""
    gpu.install(monkeypatch, waits_s=waits_s)
    whole = (*made_all("sound"), *made_all("mixed"))
    some = [entry.name for entry in whole if decode != "nvdec" or entry.codec == "h264"][:6]
    files = [known_file(name) for name in some]
    with Stress(files, device="cuda", decode=decode, threads=2, askers=range(4)) as stress:
        stress.run(count)
        assert stress.faults == []
        assert stress.requests >= count
        assert stress.stats()["frames"]["nvdec"] > 0


@pytest.mark.parametrize("name", deep_but(["h264", "hevc_10"], SOUND))
def test_a_job_without_fault_needs_python_for_none_of_its_packets(gpu, monkeypatch, name):
    """But for the first one of a session, from which it learns how pictures lie in the GPU's memory."""
    asked = [request(name, frames) for frames in windows(name, 0)[:4]]
    with Engine(1, processes=0) as own, engine("nvdec", threads=1) as other:
        wanted = own.read(asked)
        learn(other, asked)
        monkeypatch.setattr(backend, "Decoding", None)
        for single, expected in zip(asked, wanted, strict=True):
            assert_alike([expected], other.read([single]))


def learn(reader, asked):
    """Until all its workers' sessions have decoded such a stream."""
    for _ in range(4):
        reader.read(asked)


def test_what_a_forked_process_could_not_destroy_outlives_the_threads_that_use_it(gpu):
    """After a fork its threads are gone, and with them what is theirs alone; CuPy then destroyed their events."""
    streams = Streams(0)
    thread = painter.DevicePainter(streams)
    info = open_index(str(made("h264"))).info
    thread.painting([thread.converter(info, OutputSpec())], info)
    events = [weakref.ref(event) for event in thread._events]
    del thread
    gc.collect()
    assert [event() is None for event in events] == [False] * 2
    del streams
    gc.collect()
    assert [event() is None for event in events] == [True] * 2


def test_what_a_whole_run_finds_wrong_is_told_step_by_step_and_is_not_tried_again(gpu, monkeypatch):
    tried = []
    fused_run = session.Session.fused_run

    def counted(self, *given):
        tried.append(fused_run(self, *given))
        return tried[-1]

    monkeypatch.setattr(session.Session, "fused_run", counted)
    sound, damaged = (
        [request(name, range(40)), request(name, range(3, 30), crop=(3, 5, 40, 50), mirror=True)]
        for name in ("h264", "h264_flip_reference")
    )
    with Engine(1, processes=0) as own, engine("auto") as other:
        wanted = own.read(sound), own.read(damaged)
        learn(other, sound)
        before = len(tried)
        for _ in range(3):
            assert_alike(wanted[0], other.read(sound))
            assert_alike(wanted[1], other.read(damaged))
        assert [clean for clean, _ in tried[before:]].count(False) == 1
        learn(other, sound)  # decoders that have reported damage are gone
        before = len(tried)
        assert_alike(wanted[0], other.read(sound))
        assert [clean for clean, _ in tried[before:]] == [True]
