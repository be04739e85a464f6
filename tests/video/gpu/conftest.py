"""The bench that the tests of this folder run on: emulated everywhere, and a GPU where there is one."""

from __future__ import annotations

import pytest

from tests.support.benches import Bench, CudaBench, EmulatedBench


@pytest.fixture(scope="session")
def emulated() -> EmulatedBench:
    """The emulated one."""
    return EmulatedBench()


@pytest.fixture(params=["emulated", pytest.param("cuda", marks=pytest.mark.gpu)])
def bench(request: pytest.FixtureRequest) -> Bench:
    """Where kernels run."""
    return CudaBench() if request.param == "cuda" else request.getfixturevalue("emulated")
