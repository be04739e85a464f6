"""Kernels of operators: they compile for every GPU, take any number of images and rows, and are told apart."""

from __future__ import annotations

import numpy as np
import pytest

from seqpipe.ops import REGISTRY, BrightnessContrast, Flip, apply, per_frame
from seqpipe.ops.core import traits
from seqpipe.ops.core.spec import KERNEL_DTYPES
from seqpipe.ops.cuda import kernel
from seqpipe.ops.cuda.kernel import GRID, TYPES, defines_of, source_of
from seqpipe.ops.labels import one_hot as one_hot_module
from seqpipe.ops.statistics import reductions
from tests.support.deep import deep_but
from tests.support.nvrtc import ARCHITECTURES, assert_compiles_well, missing_nvrtc, spread
from tests.support.operators import compare, names
from tests.support.own_operators import Shift

WITH_KERNEL = [REGISTRY[name] for name in names() if REGISTRY[name].traits.body is not None]
# the first operator of each skeleton for every architecture and every type, the others for two of them
FOR_ALL = {cls.traits.body.kind: cls for cls in reversed(WITH_KERNEL)}.values()


@pytest.mark.skipif(bool(missing_nvrtc()), reason=missing_nvrtc())
@pytest.mark.parametrize(
    ("architecture", "cls"), spread(WITH_KERNEL), ids=lambda one: getattr(one, "name", one)
)
def test_every_kernel_compiles_without_spilling(architecture, cls):
    op = cls(**cls.traits.examples[0])
    channels, dtype = (op.traits.channels or (3,))[0], op.traits.dtypes[0]
    assert_compiles_well(
        source_of(cls), architecture, defines_of(op, dtype, op.result_dtype(dtype), channels)
    )


@pytest.mark.deep
@pytest.mark.skipif(bool(missing_nvrtc()), reason=missing_nvrtc())
@pytest.mark.parametrize("cls", WITH_KERNEL, ids=lambda cls: cls.name)
def test_every_kernel_compiles_for_every_gpu_and_type(cls):
    op = cls(**cls.traits.examples[0])
    channels = (op.traits.channels or (3,))[0]
    types = [dtype for dtype in op.traits.dtypes if dtype in KERNEL_DTYPES or op.traits.values == "moved"]
    first, last = types[0], types[-1]
    if cls in FOR_ALL:
        every = [(architecture, dtype, channels) for architecture, dtype in spread(types)]
    else:
        every = [(ARCHITECTURES[0], first, channels), (ARCHITECTURES[-1], last, channels)]
    if not op.traits.channels:
        every.append(("sm_90", first, 0))
    for architecture, dtype, count in dict.fromkeys(every):
        defines = defines_of(op, dtype, op.result_dtype(dtype), count)
        assert_compiles_well(source_of(cls), architecture, defines)


@pytest.mark.skipif(bool(missing_nvrtc()), reason=missing_nvrtc())
@pytest.mark.parametrize("architecture", deep_but(["sm_90"], ["sm_75", "sm_90", "sm_120"]))
def test_kernels_of_arrays_compile_without_spilling(architecture):
    one_hot = [{"ELEMENT_BYTES": size, "LABEL": label} for size, label in ((1, 0), (2, 5), (4, 3), (8, 7))]
    types = [{"IN": kind, "OUT": kind} for kind in TYPES.values()]
    for source, every in ((one_hot_module._SOURCE, one_hot), (reductions._SOURCE, types)):
        for defines in every:
            assert_compiles_well(source, architecture, {**defines, "CHANNELS": 1, **GRID})


@pytest.mark.parametrize("frames", [30, 150, 1000])
def test_one_launch_for_any_number_of_rows(place, frames):
    """They fit into a short argument, into a long one, and into none."""
    x = np.full((2, frames, 1, 2, 1), 100, np.uint8)
    factors = np.linspace(0, 2.5, 2 * frames).reshape(2, frames)
    op = BrightnessContrast(brightness=per_frame(factors))
    before = getattr(place.device, "launches", 0)
    compare(place(op, x), apply(op, x, backend="reference"))
    assert place.device is None or place.device.launches == before + 1


def test_more_images_than_one_axis_of_a_grid_holds(place, monkeypatch):
    monkeypatch.setitem(kernel.GRID, "IMAGES_IN_Y", 7)
    x = np.random.default_rng(0).integers(0, 255, (3, 10, 1, 2, 1), dtype=np.uint8)
    compare(place(Flip(horizontal=[1, 0, 1]), x), np.stack([x[0][:, :, ::-1], x[1], x[2][:, :, ::-1]]))


@pytest.mark.parametrize("size", [(37, 51), (3, 900), (900, 1)])
def test_threads_make_several_pixels_where_there_are_many(place, monkeypatch, size):
    monkeypatch.setattr(traits, "_FULL_GPU_BLOCKS", 1)
    x = np.random.default_rng(0).integers(0, 255, (2, *size, 3), dtype=np.uint8)
    for op in (Flip(horizontal=[1, 0]), BrightnessContrast(brightness=0.5)):
        compare(place(op, x[:, None]), apply(op, x[:, None], backend="reference"))


def test_a_list_may_differ_in_channels(place):
    rng = np.random.default_rng(0)
    parts = [rng.integers(0, 255, (4, 5, channels), dtype=np.uint8) for channels in (1, 3, 6)]
    for op in (Flip(), BrightnessContrast(brightness=0.5)):
        for found, part in zip(place(op, parts), parts, strict=True):
            compare(found, apply(op, part, backend="reference"))


def test_sources_are_made_once_and_told_apart():
    assert source_of(Flip) is source_of(Flip)
    assert source_of(Flip) != source_of(BrightnessContrast)
    assert "Real matrix[9];" in source_of(Flip).text
    assert "Real contrast_center;" in source_of(BrightnessContrast).text
    assert (
        "struct Row {\n    int acts;\n    Real level[3];\n    int steps;\n    Real sign;\n}"
        in source_of(Shift).text
    )
