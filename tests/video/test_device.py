"""Devices by name: which there are, and what is said where one cannot be used."""

from __future__ import annotations

import sys
from types import ModuleType, SimpleNamespace

import pytest

import seqpipe
from seqpipe.errors import BackendError, ParameterError
from seqpipe.video.device import Device, parse_device, parse_devices
from seqpipe.video.nvdec import cuvid
from tests.support.media import made

READERS = {
    "open": lambda device: seqpipe.open(made("h264"), device=device),
    "dataset": lambda device: seqpipe.videos([made("h264")], seqpipe.Segments(2), device=device),
}


class CudaRuntimeError(RuntimeError):
    """As CuPy's."""


def fake_cupy(*, driver=13000, built=13000, devices=2):
    """As much of CuPy as tells which GPUs there are."""

    def count():
        if not devices:
            raise CudaRuntimeError("cudaErrorNoDevice: no CUDA-capable device is detected")
        return devices

    module = ModuleType("cupy")
    runtime = SimpleNamespace(
        CUDARuntimeError=CudaRuntimeError,
        driverGetVersion=lambda: driver,
        runtimeGetVersion=lambda: built,
        getDeviceCount=count,
    )
    module.cuda = SimpleNamespace(runtime=runtime)
    return module


@pytest.fixture
def machine(monkeypatch):
    """A machine with two GPUs, and what changes it."""

    def change(*, library=True, cupy=True, **facts):
        monkeypatch.setitem(sys.modules, "cupy", fake_cupy(**facts) if cupy else None)
        monkeypatch.setattr(cuvid, "_LIBRARY", "libc.so.6" if library else "libnvcuvid-not-here.so.1")
        cuvid.load.cache_clear()
        monkeypatch.setattr(cuvid, "Cuvid", lambda *libraries: libraries)

    yield change
    cuvid.load.cache_clear()


def test_names_of_devices(machine):
    machine()
    assert parse_device("cpu") == Device("cpu")
    assert parse_device("cuda") == parse_device("cuda:0") == parse_device("auto") == Device("cuda", 0)
    assert parse_device("cuda:1") == Device("cuda", 1)
    assert parse_devices("cuda:all") == (Device("cuda", 0), Device("cuda", 1))
    assert parse_devices("cuda:1") == (Device("cuda", 1),)
    assert [str(device) for device in parse_devices("cuda:all")] == ["cuda:0", "cuda:1"]


@pytest.mark.parametrize(
    "name", ["gpu", "cuda:", "cuda:-1", "cuda:1.0", "CUDA", "cuda:0 ", "cuda:all", "", None, 0, Device("cpu")]
)
def test_what_is_no_name_of_a_device(machine, name):
    machine()
    with pytest.raises(
        ParameterError, match=r"device=.* is unknown; allowed: 'cpu', 'cuda', 'cuda:N', 'auto'"
    ):
        parse_device(name)


MISSING = {
    "no CuPy": ({"cupy": False}, r"cupy is not installed.*seqpipe\[cuda12\].*seqpipe\[cuda13\]"),
    "no GPU": ({"devices": 0}, r"CUDA cannot be used: cudaErrorNoDevice.*nvidia-smi"),
    "wrong extra": (
        {"driver": 12080},
        r"driver supports CUDA 12, but CuPy was built for CUDA 13\. Update the driver, or install CuPy for CUDA 12",
    ),
    "no decoder library": (
        {"library": False},
        r"libnvcuvid-not-here\.so\.1, the NVIDIA driver's video decoder, cannot be loaded"
        r".*NVIDIA_DRIVER_CAPABILITIES=compute,utility,video.*device='cpu'",
    ),
}


@pytest.mark.parametrize("reader", READERS)
@pytest.mark.parametrize("missing", MISSING)
def test_what_is_missing_is_said_and_auto_does_without(machine, missing, reader):
    facts, said = MISSING[missing]
    machine(**facts)
    with pytest.raises(BackendError, match=said):
        READERS[reader]("cuda")
    assert parse_device("auto") == Device("cpu")
    with READERS[reader]("auto") as found:
        sequence = found[3:5] if reader == "open" else found.sample(0)["image"]
    assert sequence.device == "cpu"


@pytest.mark.parametrize("reader", READERS)
def test_a_gpu_that_is_not_there(machine, reader):
    machine()
    said = r"no device cuda:9; allowed: cuda:0, cuda:1\. CUDA_VISIBLE_DEVICES decides"
    with pytest.raises(BackendError, match=said):
        READERS[reader]("cuda:9")


@pytest.mark.gpu
@pytest.mark.parametrize("reader", READERS)
def test_a_gpu_that_is_not_there_beside_one_that_is(reader):
    with pytest.raises(BackendError, match=r"no device cuda:99; allowed: cuda:0"):
        READERS[reader]("cuda:99")
    with READERS[reader]("auto") as found:
        sequence = found[3:5] if reader == "open" else found.sample(0)["image"]
    assert sequence.device == "cuda:0"
