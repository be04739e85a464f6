"""The binding of the optical-flow engine: its structures, and all that is done with a library that stands for it."""

from __future__ import annotations

import ctypes
import logging
import subprocess

import numpy as np
import pytest

from seqpipe import fn
from seqpipe.core import native
from seqpipe.errors import BackendError, ParameterError
from seqpipe.flow.nvofa import engine, library, session
from seqpipe.flow.nvofa.session import EngineKind, FlowSession
from seqpipe.ops.motion import optical_flow as ops_flow
from seqpipe.sequence import Sequence
from tests.support import fake_nvofa


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    return fake_nvofa.fake_library(tmp_path_factory.mktemp("nvofa"))


@pytest.fixture
def fake(built, monkeypatch):
    """The engine, whose calls of some number fail when told so; it has grids 2 and 4."""
    built.fake_set(0, 0, 0x50)
    cupy = fake_nvofa.fake_cupy()
    for module in (engine, session):
        monkeypatch.setattr(module, "load_cupy", lambda: cupy)
    monkeypatch.setattr(library, "load_library", lambda: built)
    monkeypatch.setattr(engine, "POOL", session.Pool())
    for kept in (library.api, engine._caps, engine._luma, ops_flow._note):
        kept.cache_clear()
    yield built
    engine.POOL.clear()
    built.fake_set(0, 0, 0x50)
    for kept in (library.api, engine._caps, engine._luma, ops_flow._note):
        kept.cache_clear()
    assert [built.fake_counts(what) for what in (0, 1, 3)] == [0, 0, 0], "sessions, buffers, uninitialized"


def levels(*values, size=(32, 48)):
    """Frames of one level each."""
    return np.repeat(np.array(values, np.uint8), size[0] * size[1]).reshape(-1, *size, 1)


def test_structures_are_those_of_a_compiler(tmp_path):
    compiler = native.compiler()
    if compiler is None:
        pytest.skip("there is no C compiler")
    lines, wanted = [], []
    for structure in library.STRUCTURES:
        name = structure.__name__
        lines.append(f'printf("%zu\\n", sizeof({name}));')
        wanted.append(ctypes.sizeof(structure))
        for field, *_ in structure._fields_:
            lines.append(f'printf("%zu\\n", offsetof({name}, {field}));')
            wanted.append(getattr(structure, field).offset)
    head = "#include <stddef.h>\n#include <stdint.h>\n#include <stdio.h>\n"
    body = "\n".join(lines)
    source = f"{head}{fake_nvofa.declarations()}\nint main(void) {{\n{body}\nreturn 0;\n}}\n"
    program = tmp_path / "sizes"
    subprocess.run([compiler, "-x", "c", "-", "-o", str(program)], input=source.encode(), check=True)
    found = subprocess.run([str(program)], check=True, capture_output=True, text=True).stdout
    assert [int(line) for line in found.split()] == wanted


def test_sizes_are_those_that_ran_on_a_gpu():
    """Of the interface 5.0, as an H200 with driver 580 took them."""
    sizes = {one.__name__: ctypes.sizeof(one) for one in library.STRUCTURES}
    assert sizes == {
        "InitParams": 64,
        "BufferDescriptor": 16,
        "RoiRect": 16,
        "ExecuteInput": 56,
        "ExecuteOutput": 48,
        "BufferStride": 8,
        "StrideInfo": 28,
        "FunctionList": (12 + 32) * 8,
    }


@pytest.mark.parametrize("stride", [1, 2, 7])
def test_every_pair_has_its_own_frames(fake, stride):
    """More pairs than are in flight, of several samples, through one session."""
    values = np.arange(60).reshape(3, 20) ** 2 % 251
    frames, before = np.stack([levels(*row) for row in values]), fake.fake_counts(2)
    found = fn.optical_flow(frames, backend="nvofa", output_grid=4, stride=stride)
    assert found.shape == (3, 20 - stride, 8, 12, 2)
    signed = values.astype(np.float32)
    assert (found[..., 0] == (signed[:, stride:] - signed[:, :-stride])[..., None, None]).all()
    assert (found[..., 1] == 0).all()
    assert fake.fake_counts(2) == before + 2, "one to ask what it can do, one for the pairs"


@pytest.mark.parametrize("version", library.VERSIONS)
def test_the_newest_interface_is_taken_and_older_ones_do(fake, version):
    fake.fake_set(0, 0, version)
    found = fn.optical_flow(levels(3, 5, 9), backend="nvofa", output_grid=2, direction="both", cost=True)
    assert fake.fake_version() == version
    assert (found.forward[:, 0, 0, 0] == [2, 4]).all()
    assert (found.backward[:, 0, 0, 0] == [-2, -4]).all()
    assert (found.cost[..., 0] == found.backward_cost[..., 0]).all()
    assert found.cost[:, 3, 3, 0].tolist() == [2, 4]
    assert fn.optical_flow(levels(3, 5), backend="nvofa", output_grid=4, direction="backward").max() == 0
    back = fn.optical_flow(levels(3, 5), backend="nvofa", output_grid=4, direction="backward")
    assert back[0, 0, 0, 0] == -2


def test_hints_and_temporal_hints(fake):
    frames, hints = levels(1, 2, 3, 4), np.zeros((3, 8, 12, 2), np.float32)
    hints[..., 1] = np.arange(3).reshape(-1, 1, 1) / 2
    found = fn.optical_flow(frames, hints=hints, backend="nvofa", output_grid=2)
    assert found[:, 5, 5, 1].tolist() == [0, 0.5, 1]
    coarser = fn.optical_flow(frames, hints=hints.repeat(2, 1).repeat(2, 2), backend="nvofa", output_grid=4)
    assert coarser[:, 5, 5, 1].tolist() == [0, 0.5, 1]
    linked = Sequence(levels(1, 2, 3, 4, 5, 6), frames=[0, 1, 2, -1, 4, 5])
    found = fn.optical_flow(linked, temporal_hints=True, backend="nvofa", output_grid=4).data[:, 0, 0]
    assert found[[0, 1, 4]].tolist() == [[1, 0], [1, 1], [1, 0]]
    assert np.isnan(found[2:4]).all()


def test_colors_become_gray_as_on_the_cpu(fake):
    pairs = np.random.default_rng(0).integers(0, 256, (2, 32, 48, 3), dtype=np.uint8)
    for kind in ("RGB", "BGR"):
        found = fn.optical_flow(pairs, image_type=kind, backend="nvofa", output_grid=2)
        import cv2

        gray = [cv2.cvtColor(one, getattr(cv2, f"COLOR_{kind}2GRAY")).astype(int) for one in pairs]
        assert (found[0, ..., 0] == (gray[1] - gray[0])[::2, ::2]).all()


def test_sessions_are_kept_for_their_kind(fake):
    before = fake.fake_counts(2)
    for _ in range(3):
        for size in ((32, 48), (40, 48)):
            for preset in ("fast", "slow"):
                fn.optical_flow(levels(1, 2, size=size), backend="nvofa", output_grid=4, preset=preset)
    assert fake.fake_counts(2) == before + 1 + 4
    assert fake.fake_counts(0) == 4
    for side in range(32, 32 + 20):
        fn.optical_flow(levels(1, 2, size=(32, side)), backend="nvofa", output_grid=4)
    assert fake.fake_counts(0) == session.MOST_IDLE


def test_ten_thousand_pairs_of_changing_sizes_find_their_sessions(fake):
    """Each has its own answer, as many sessions are kept as may be, and all buffers are those of sessions."""
    rng, pairs = np.random.default_rng(0), 0
    sizes = [tuple(rng.integers(32, 64, 2).tolist()) for _ in range(30)]
    while pairs < 10_000:
        values = rng.integers(0, 100, 21)
        grid = int(rng.choice([2, 4]))
        given = {"output_grid": grid, "preset": str(rng.choice(["fast", "medium", "slow"]))}
        found = fn.optical_flow(levels(*values, size=sizes[rng.integers(30)]), backend="nvofa", **given)
        assert (found[..., 0] == np.diff(values)[:, None, None]).all()
        pairs += len(found)
        assert fake.fake_counts(0) <= session.MOST_IDLE
    assert fake.fake_counts(1) <= session.MOST_IDLE * 40


@pytest.mark.parametrize(
    ("function", "code", "said"),
    [
        (1, 2, r"nvCreateOpticalFlowCuda with NV_OF_ERR_UNSUPPORTED_DEVICE \(2\)"),
        (3, 8, r"nvOFCreateGPUBufferCuda\(48×32\) with NV_OF_ERR_OUT_OF_MEMORY \(8\): as the fake says"),
        (6, 11, r"nvOFGPUBufferGetStrideInfo with NV_OF_ERR_GENERIC \(11\)"),
        (7, 4, r"nvOFSetIOCudaStreams with NV_OF_ERR_INVALID_PTR \(4\)"),
        (8, 99, r"nvOFExecute\(48×32, grid 4, preset medium\) with NV_OF_STATUS_99 \(99\)"),
    ],
)
def test_errors_name_their_code_and_leave_nothing_behind(fake, function, code, said):
    fake.fake_set(function, code, 0x50)
    with pytest.raises(BackendError, match=f"refuses {said}.*Give backend='auto' or backend='dis'"):
        fn.optical_flow(levels(1, 2), backend="nvofa", output_grid=4)
    fake.fake_set(0, 0, 0x50)
    assert fake.fake_counts(0) == fake.fake_counts(1) == 0
    assert fn.optical_flow(levels(1, 2), backend="nvofa", output_grid=4)[0, 0, 0, 0] == 1


def test_a_session_that_cannot_be_initialized_is_destroyed(fake):
    with pytest.raises(
        BackendError, match=r"nvOFInit\(16×16, grid 4, preset fast\) with NV_OF_ERR_INVALID_PARAM"
    ):
        FlowSession(EngineKind(0, 16, 16, 4, "fast"))
    assert fake.fake_counts(0) == 0


def test_what_the_engine_does_not_take(fake):
    with pytest.raises(
        ParameterError, match=r"optical_flow: frames of 31×40 pixels for .*; allowed: 32×32 to 8192×8192"
    ):
        fn.optical_flow(levels(1, 2, size=(31, 40)), backend="nvofa", output_grid=4)
    with pytest.raises(ParameterError, match="frames of 32×8193 pixels"):
        fn.optical_flow(levels(1, 2, size=(32, 8193)), backend="nvofa", output_grid=4)
    with pytest.raises(
        ParameterError, match=r"output_grid=1 on this GPU's .*; allowed: 2, 4. Give backend='auto'"
    ):
        fn.optical_flow(levels(1, 2), backend="nvofa")


def test_auto_falls_back_with_one_message(fake, monkeypatch, caplog):
    """As for frames on a GPU, which these are not."""
    monkeypatch.setattr(ops_flow, "_on_gpu", lambda _array: True)
    frames = levels(1, 2, size=(31, 40))
    with caplog.at_level(logging.INFO, "seqpipe"):
        for _ in range(3):
            assert (fn.optical_flow(frames) == fn.optical_flow(frames, backend="dis")).all()
    assert len(caplog.records) == 1
    assert "is computed on the CPU, because frames of 31×40 pixels" in caplog.text
    assert fn.optical_flow(levels(1, 2), output_grid=4)[0, 0, 0, 0] == 1, "the engine takes these"


def test_an_old_driver_and_none_at_all(fake, monkeypatch):
    fake.fake_set(0, 0, 0x10)
    with pytest.raises(BackendError, match=r"none of the known interfaces .*Update the NVIDIA driver"):
        fn.optical_flow(levels(1, 2), backend="nvofa", output_grid=4)
    library.api.cache_clear()
    monkeypatch.undo()
    monkeypatch.setattr(library, "_NAME", "libno-such-library")
    with pytest.raises(BackendError, match=r"cannot be loaded .*NVIDIA_DRIVER_CAPABILITIES=video"):
        library.load_library()


def test_a_forked_process_knows_none_of_its_parents_sessions(fake):
    fn.optical_flow(levels(1, 2), backend="nvofa", output_grid=4)
    kept = [*engine.POOL._idle]
    engine.POOL.reset_after_fork()
    assert not engine.POOL._idle
    for one in kept:
        one.close()


def test_the_doctor_tells_what_the_engine_takes(fake):
    from seqpipe.cli.commands import doctor

    found = doctor._optical_flow()
    assert found.ok
    assert found.value == "engine with interface 5.0, grids 2, 4, frames of 32×32 to 8192×8192"
    library.api.cache_clear()
    engine._caps.cache_clear()
    fake.fake_set(1, 1, 0x50)
    found = doctor._optical_flow()
    assert found.ok is None
    assert "NV_OF_ERR_OF_NOT_AVAILABLE (1); without it, flow is computed on the CPU" in found.value
    fake.fake_set(0, 0, 0x50)
