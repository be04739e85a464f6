"""The bench that the tests of this folder run on: emulated everywhere, and a GPU where there is one."""

from __future__ import annotations

import pytest

from tests.support.benches import Bench, CudaBench, EmulatedBench
from tests.support.emulated import kernel_folder


@pytest.fixture(scope="session")
def emulated(tmp_path_factory: pytest.TempPathFactory) -> EmulatedBench:
    """The emulated one; all processes of a test run share what is compiled."""
    return EmulatedBench(kernel_folder(tmp_path_factory))


@pytest.fixture(params=["emulated", pytest.param("cuda", marks=pytest.mark.gpu)])
def bench(request: pytest.FixtureRequest) -> Bench:
    """Where kernels run."""
    return CudaBench() if request.param == "cuda" else request.getfixturevalue("emulated")
