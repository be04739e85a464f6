"""The C kernel of the color conversion returns the values of the OpenCV path, bit for bit."""

from __future__ import annotations

import itertools
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from seqpipe.array import FloatArray
from seqpipe.video.convert import converter, mix
from seqpipe.video.convert.color import LUMA_WEIGHTS, YCGCO, resolve
from seqpipe.video.convert.surface import Surface
from seqpipe.video.probe.info import StreamInfo
from tests.support.pictures import frame_info, made, picture, surface_format

pytestmark = pytest.mark.skipif(mix._native() is None, reason="no C compiler, or no AVX2")

FORMATS = (
    *(("4:2:0", bits) for bits in (8, 9, 10, 12, 16)),
    *(("4:2:2", bits) for bits in (8, 10)),
    *(("4:4:4", bits) for bits in (8, 10, 16)),
    *((chroma, bits) for chroma in ("4:4:0", "4:1:1", "4:1:0") for bits in (8, 10)),
)
GEOMETRY: tuple[dict[str, Any], ...] = (
    {},
    {"crop": (13, 7, 41, 22)},
    {"size": (37, 21)},
    {"mirror": True},
    {"crop": (1, 0, 60, 40), "size": (30, 20)},
)
OUTPUTS: tuple[dict[str, Any], ...] = tuple(
    {"dtype": dtype, "layout": layout, **statistics}
    for dtype, layout in itertools.product(("uint8", "uint16", "float16", "float32"), ("FHWC", "FCHW"))
    for statistics in ({}, {"mean": (0.5, 0.4, 0.3), "std": (0.2, 0.3, 0.4)})
    if not statistics or dtype.startswith("float")
)


def noise(chroma: str, bits: int, size: tuple[int, int], **tags: Any) -> tuple[Surface, StreamInfo]:
    """A surface with every code value, and its stream."""
    form = surface_format(chroma, bits)
    info = frame_info(*size, form, **tags)
    surface = picture(*size, form, resolve(info))
    rng = np.random.default_rng(bits)
    planes = (rng.integers(0, 1 << bits, plane.shape).astype(plane.dtype) for plane in surface.planes)
    return replace(surface, planes=tuple(planes)), info


def both_ways(
    monkeypatch: pytest.MonkeyPatch, surface: Surface, info: StreamInfo, **output: Any
) -> tuple[NDArray[Any], NDArray[Any]]:
    """The frame by the C kernel, and by OpenCV."""
    calls: list[bool] = []

    def is_compiled(matrix: FloatArray) -> bool:
        calls.append(mix.is_compiled(matrix))
        return calls[-1]

    monkeypatch.setattr(converter, "is_compiled", is_compiled)
    native = made(surface, info, **output)
    assert any(calls), "the C kernel was not used"
    monkeypatch.setattr(converter, "is_compiled", lambda _: False)
    return native, made(surface, info, **output)


@pytest.mark.parametrize(("chroma", "bits"), FORMATS)
def test_every_format_and_chroma_location(chroma: str, bits: int, monkeypatch: pytest.MonkeyPatch) -> None:
    for location, geometry in itertools.product((1, 2, 5), GEOMETRY):
        surface, info = noise(chroma, bits, (97, 63), chroma_location=location)
        native, plain = both_ways(monkeypatch, surface, info, **geometry)
        np.testing.assert_array_equal(native, plain)


@pytest.mark.parametrize("matrix", [*LUMA_WEIGHTS, YCGCO])
@pytest.mark.parametrize("full_range", [False, True])
def test_every_matrix_and_range(matrix: int, full_range: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    for bits, color, dtype in itertools.product((8, 10), ("RGB", "BGR"), ("uint8", "uint16")):
        surface, info = noise("4:2:0", bits, (97, 63), matrix=matrix, full_range=full_range)
        native, plain = both_ways(monkeypatch, surface, info, color=color, dtype=dtype)
        np.testing.assert_array_equal(native, plain)


@pytest.mark.parametrize("output", OUTPUTS, ids=str)
@pytest.mark.parametrize("geometry", GEOMETRY, ids=str)
def test_every_output(
    output: dict[str, Any], geometry: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    for bits in (8, 10):
        surface, info = noise("4:2:0", bits, (97, 63))
        native, plain = both_ways(monkeypatch, surface, info, **output, **geometry)
        assert native.dtype == plain.dtype
        np.testing.assert_array_equal(native, plain)


@pytest.mark.parametrize("size", [(1, 1), (2, 1), (31, 3), (33, 2), (64, 48), (5, 7)])
def test_small_and_odd_sizes(size: tuple[int, int], monkeypatch: pytest.MonkeyPatch) -> None:
    for chroma, dtype in itertools.product(("4:2:0", "4:1:0", "4:4:4"), ("uint8", "float32")):
        surface, info = noise(chroma, 8, size)
        native, plain = both_ways(monkeypatch, surface, info, dtype=dtype)
        np.testing.assert_array_equal(native, plain)


def test_interleaved_chroma(monkeypatch: pytest.MonkeyPatch) -> None:
    surface, info = noise("4:2:0", 8, (96, 62))
    luma, cb, cr = surface.planes
    both = np.stack([cb, cr], axis=-1)
    surface = replace(surface, planes=(luma, both[..., 0], both[..., 1]))
    native, plain = both_ways(monkeypatch, surface, info)
    np.testing.assert_array_equal(native, plain)
