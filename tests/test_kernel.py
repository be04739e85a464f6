"""CUDA sources compile for every architecture; devices that cannot be used say why."""

from __future__ import annotations

import contextlib
import importlib
import logging
import sys
import threading
import time
from collections.abc import Iterator
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pytest

from seqpipe.core import kernel
from seqpipe.core.kernel import CudaSource, KernelDevice, all_sources, compile_options, load_cupy
from seqpipe.errors import BackendError
from seqpipe.video.device import parse_device
from tests.support.emulated import EmulatedDevice
from tests.support.interrupts import lost_interrupts
from tests.support.nvrtc import ARCHITECTURES, assert_compiles_well, compiled, missing_nvrtc, spread


def test_every_source_says_what_it_is_compiled_with() -> None:
    assert CudaSource("seqpipe.video.cuda", "kernel.cu") in all_sources()
    for source in all_sources():
        assert source.variants, f"{source.package}/{source.name} has no line '// variant: NAME=1 …'"


@pytest.mark.skipif(bool(missing_nvrtc()), reason=missing_nvrtc())
@pytest.mark.parametrize("architecture", ARCHITECTURES)
@pytest.mark.parametrize("source", all_sources(), ids=lambda source: source.name)
def test_sources_compile_for_every_gpu_without_spilling(source: CudaSource, architecture: str) -> None:
    """Each variant for one of them, so that each of them occurs."""
    here = [variant for other, variant in spread(source.variants) if other == architecture]
    assert here
    for variant in here:
        assert_compiles_well(source, architecture, variant)


@pytest.mark.deep
@pytest.mark.skipif(bool(missing_nvrtc()), reason=missing_nvrtc())
@pytest.mark.parametrize("architecture", [ARCHITECTURES[0], "sm_90", ARCHITECTURES[-1]])
@pytest.mark.parametrize("source", all_sources(), ids=lambda source: source.name)
def test_all_variants_compile_for_the_oldest_the_newest_and_the_measured_gpu(
    source: CudaSource, architecture: str
) -> None:
    for variant in source.variants:
        assert_compiles_well(source, architecture, variant)


@pytest.mark.skipif(bool(missing_nvrtc()), reason=missing_nvrtc())
def test_a_source_that_is_wrong_does_not_compile() -> None:
    source = CudaSource("seqpipe.video.cuda", "kernel.cu")
    with pytest.raises(AssertionError, match="another size"):
        compiled(source.text, source.name, "sm_90", compile_options({**source.variants[0], "JOB_BYTES": 5}))


class CudaRuntimeError(RuntimeError):
    """What CuPy raises when CUDA fails."""


class FakeCupy(ModuleType):
    """As much of CuPy as launches kernels, with a driver and a number of GPUs of choice."""

    def __init__(self, *, driver: int = 13000, built: int = 13020, devices: int = 2) -> None:
        super().__init__("cupy")
        self.compiled: list[tuple[str, ...]] = []
        self.launched: list[tuple[Any, ...]] = []
        self.places: list[int] = []
        runtime = SimpleNamespace(
            CUDARuntimeError=CudaRuntimeError,
            driverGetVersion=lambda: driver,
            runtimeGetVersion=lambda: built,
            getDeviceCount=lambda: self._count(devices),
            getDevice=lambda: self.current[-1],
        )
        self.current = [0]
        self.cuda = SimpleNamespace(
            runtime=runtime,
            Device=self._device,
            get_current_stream=lambda: contextlib.nullcontext("current"),
        )

    def _count(self, devices: int) -> int:
        if not devices:
            raise CudaRuntimeError("cudaErrorNoDevice: no CUDA-capable device is detected")
        return devices

    @contextlib.contextmanager
    def _device(self, number: int) -> Iterator[None]:
        self.current.append(number)
        yield
        self.current.pop()

    def RawModule(self, code: str, options: tuple[str, ...], backend: str) -> Any:
        self.compiled.append(options)
        assert backend == "nvrtc"
        assert "__global__" in code
        return SimpleNamespace(get_function=lambda name: lambda *given: self._launch(name, *given))

    def _launch(self, *given: Any) -> None:
        for argument in given[-1]:
            assert argument.__array_interface__["data"][0]  # where CuPy finds its bytes
        self.launched.append(given)
        self.places.append(self.current[-1])


@pytest.fixture
def cupy(monkeypatch: pytest.MonkeyPatch) -> FakeCupy:
    fake = FakeCupy()
    monkeypatch.setitem(sys.modules, "cupy", fake)
    monkeypatch.setattr(kernel, "_compiled", {})
    return fake


def test_a_kernel_is_compiled_once_for_each_device_and_set_of_macros(cupy: FakeCupy) -> None:
    source, argument = all_sources()[0], np.full((), 7, [("x", np.int32)])
    for device in (KernelDevice(0), KernelDevice(0), KernelDevice(1)):
        for defines in ({"A": 1, "B": 2}, {"B": 2, "A": 1}, {"A": 2}):
            device.launch(
                source, "convert", defines, (1, 2, 3), 256, argument, contextlib.nullcontext("stream")
            )
    expected = [("--std=c++17", "-DA=1", "-DB=2"), ("--std=c++17", "-DA=2")]
    assert cupy.compiled == expected * 2
    assert len(cupy.launched) == 9
    *how, (given,) = cupy.launched[0]
    assert how == ["convert", (1, 2, 3), (256, 1, 1)]
    assert given.tobytes() == argument.tobytes()


def test_an_interrupt_of_a_launch_arrives(cupy: FakeCupy) -> None:
    source = all_sources()[0]  # to look for it is not a launch's part
    argument = np.zeros((), [("frames", [("planes", np.uint64, 3)], 2), ("gain", np.float32)])

    def launch() -> None:
        KernelDevice(0).launch(source, "convert", {}, (1, 1, 1), 256, argument, None)

    launch()
    assert lost_interrupts(launch) == []


@pytest.mark.parametrize("current", [0, 1])
@pytest.mark.parametrize("stream", [None, contextlib.nullcontext("stream")])
def test_a_kernel_runs_on_its_device_whichever_is_the_current_one(
    cupy: FakeCupy, current: int, stream: Any
) -> None:
    cupy.current = [current]
    for number in (0, 1):
        KernelDevice(number).launch(all_sources()[0], "convert", {}, (1, 1, 1), 256, np.zeros(()), stream)
    assert cupy.places == [0, 1]
    assert cupy.current == [current]


def test_without_cupy_the_extras_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "cupy", None)
    with pytest.raises(BackendError, match=r"cupy is not installed.*seqpipe\[cuda12\].*seqpipe\[cuda13\]"):
        load_cupy()


def test_a_cupy_without_a_folder_for_its_kernels_is_told_of_one(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """It makes one in the home directory when it is loaded, which in many containers nobody can."""
    usual = importlib.import_module

    def load(name: str) -> ModuleType:
        if name == "cupy":
            raise PermissionError(13, "Permission denied", "/.cupy")
        return usual(name)

    monkeypatch.setattr(importlib, "import_module", load)
    with pytest.raises(
        BackendError, match=r"cupy cannot be loaded: .*'/\.cupy'\. Set CUPY_CACHE_DIR to a folder"
    ):
        load_cupy()
    with caplog.at_level(logging.INFO):
        assert str(parse_device("auto")) == "cpu"
    assert "device='auto' is the CPU: cupy cannot be loaded" in caplog.text


def test_a_cupy_that_is_too_new_for_the_driver_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "cupy", FakeCupy(driver=12080))
    with pytest.raises(
        BackendError, match=r"driver supports CUDA 12, but CuPy was built for CUDA 13.*cuda12"
    ):
        load_cupy()


def test_without_a_gpu_the_reason_is_passed_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "cupy", FakeCupy(devices=0))
    with pytest.raises(BackendError, match="CUDA cannot be used: cudaErrorNoDevice"):
        load_cupy()


@pytest.mark.parametrize("number", [2, 9, -1])
def test_a_device_that_is_not_there_is_refused(cupy: FakeCupy, number: int) -> None:
    with pytest.raises(BackendError, match=rf"no device cuda:{number}; allowed: cuda:0, cuda:1"):
        KernelDevice(number)


def test_a_compiler_that_is_missing_is_named(cupy: FakeCupy, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(**_: Any) -> Any:
        raise RuntimeError("CuPy failed to load libnvrtc.so.13")

    monkeypatch.setattr(cupy, "RawModule", fail, raising=False)
    with pytest.raises(BackendError, match=r"kernel\.cu cannot be compiled.*libnvrtc\.so\.13.*must fit CuPy"):
        KernelDevice(0).launch(
            CudaSource("seqpipe.video.cuda", "kernel.cu"), "convert", {}, (1, 1, 1), 256, np.zeros(()), None
        )


@pytest.mark.gpu
def test_a_structure_is_given_by_value() -> None:
    """CuPy takes a NumPy array without axes as a structure by value."""
    import cupy

    code = "struct Pair { long long at; float add; int unused; };\n" + (
        'extern "C" __global__ void add(const Pair pair) { ((float*)pair.at)[threadIdx.x] += pair.add; }'
    )
    source = CudaSource("seqpipe", "made.cu")
    source.__dict__["text"] = code
    device = KernelDevice(0)
    kept = cupy.arange(8, dtype=np.float32)
    cupy.cuda.Device(0).synchronize()
    pair = np.array((kept.data.ptr, 0.5, 0), [("at", np.int64), ("add", np.float32), ("unused", np.int32)])
    stream = cupy.cuda.Stream(non_blocking=True)
    for queue in (stream, None):
        device.launch(source, "add", {}, (1, 1, 1), 8, pair, queue)
        cupy.cuda.Device(0).synchronize()
    np.testing.assert_array_equal(kept.get(), np.arange(8) + 1)


def test_emulated_kernels_run_one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """Those of two devices too: their libraries are the same, and so are the stacks of the threads in them."""
    running: list[None] = []
    at_once = []

    def run(*_given: Any) -> None:
        running.append(None)
        time.sleep(0.02)
        at_once.append(len(running))
        running.pop()

    monkeypatch.setattr(EmulatedDevice, "_library", lambda *_: SimpleNamespace(run=run))
    given = CudaSource("seqpipe.video.cuda", "kernel.cu"), "", {}, (1, 1, 1), 1, np.zeros(()), None
    threads = [threading.Thread(target=EmulatedDevice().launch, args=given) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert at_once == [1, 1, 1, 1]
