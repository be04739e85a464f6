"""Where the operators' tests run: the reference, the CPU, kernels emulated by g++, and a GPU where there is one."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from seqpipe.ops import apply
from seqpipe.ops.call import inputs
from seqpipe.ops.core import declaration
from seqpipe.ops.core.spec import KERNEL_DTYPES
from tests.support.emulated import EmulatedDevice
from tests.support.gpu import gpu_place
from tests.support.operators import cupy, first_of_skeletons


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """What holds for every operator is tried on a GPU's emulation with one of each skeleton; the others are deep.

    By default each operator's own kernel is held to the reference once, with its first example and type.
    """
    few = first_of_skeletons()
    for item in items:
        if not (item.path.name.startswith("test_every_") and isinstance(item, pytest.Function)):
            continue
        given = item.callspec.params if hasattr(item, "callspec") else {}
        if given.get("anywhere") == "reference":
            item.add_marker("deep")  # the CPU's form is the reference for most operators
        if "emulated" not in (given.get("place"), given.get("anywhere")):
            continue
        if not (given.get("name") in few or given.get("which") == "main"):
            item.add_marker("deep")


@pytest.fixture(autouse=True)
def spoiled_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """Memory for results has something else in it: what is not written is not by chance an earlier test's result."""
    plain = inputs.CallInput.result

    def result(self: Any, *given: Any) -> Any:
        out = plain(self, *given)
        out.reshape(-1).view(np.uint8).fill(0xA5)
        return out

    monkeypatch.setattr(inputs.CallInput, "result", result)


class Place:
    """One backend, which takes NumPy's arrays and gives them back.

    Attributes:
        name: of the backend.
        device: where its kernels run; None where there are none, or on the GPU that holds the images.
    """

    def __init__(self, name: str, device: Any = None) -> None:
        self.name, self.device = name, device

    def takes(self, op: Any, dtype: str = "uint8") -> bool:
        """Whether it has a form for an operator and a type."""
        if self.name in ("reference", "cpu"):
            return True
        return (op.traits.body is not None or op.traits.composed) and (
            op.traits.values == "moved" or dtype in KERNEL_DTYPES
        )

    def tolerance(self, op: Any) -> tuple[float, float]:
        """How far it may be from the reference."""
        on_cpu = op.traits.cpu_tolerance if self.name == "cpu" else None
        return op.traits.tolerance if on_cpu is None else on_cpu

    def __call__(self, op: Any, x: Any, **options: Any) -> Any:
        if self.name != "gpu":
            # None on the CPU: what users get, the short way of constant operators among it
            backend = {"emulated": "cuda", "cpu": None}.get(self.name, self.name)
            return apply(op, x, backend=backend, device=self.device, **options)
        there = [cupy().asarray(part) for part in x] if isinstance(x, list) else cupy().asarray(x)
        found = apply(op, there, **options)
        return [part.get() for part in found] if isinstance(found, list) else found.get()


@pytest.fixture(scope="session")
def emulated() -> EmulatedDevice:
    """A device that g++ compiles for."""
    return EmulatedDevice()


@pytest.fixture(params=["cpu", "emulated", *gpu_place("gpu")])
def place(request: pytest.FixtureRequest) -> Place:
    """Every backend but the reference."""
    device = request.getfixturevalue("emulated") if request.param == "emulated" else None
    return Place(request.param, device)


@pytest.fixture(params=["reference", "cpu", "emulated", *gpu_place("gpu")])
def anywhere(request: pytest.FixtureRequest) -> Place:
    """Every backend."""
    device = request.getfixturevalue("emulated") if request.param == "emulated" else None
    return Place(request.param, device)


@pytest.fixture
def unregistered() -> Iterator[None]:
    """Operators and distributions that the test makes are forgotten after it, and so are warnings."""
    before = dict(declaration.REGISTRY), set(declaration._warned)
    yield
    for now, then in zip((declaration.REGISTRY, declaration._warned), before, strict=True):
        now.clear()
        now.update(then)


@pytest.fixture
def levels() -> np.ndarray:
    """Every level of eight bits, as an image."""
    return np.arange(256, dtype=np.uint8).reshape(16, 16, 1)
