"""Where the readers of these tests deliver: main memory, a GPU that is none, and a GPU where there is one."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from seqpipe.video import device as device_module
from seqpipe.video.device import Device
from tests.support.emulated import EmulatedDevice
from tests.support.software_gpu import SoftwareGpu


@pytest.fixture(scope="session")
def emulated() -> EmulatedDevice:
    """A device that g++ compiles for."""
    return EmulatedDevice()


@pytest.fixture(params=["cpu", "gpu", pytest.param("cuda", marks=pytest.mark.gpu)])
def place(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """The name of the device that a reader is given; the tests' own GPU is a GPU to it."""
    if request.param != "gpu":
        yield request.param
        return
    gpu = SoftwareGpu(request.getfixturevalue("emulated"))
    gpu.install(monkeypatch)
    monkeypatch.setattr(device_module, "_usable", lambda number: Device("cuda", number))
    yield "cuda"
    gpu.remove()
