"""Optical flow straight from the decoder: luma alone is made, unless colors are used."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from seqpipe import fn, ops
from seqpipe.ops import Chain
from seqpipe.video.engine import engine as engine_module
from tests.support.augmented import assert_same_samples, clips, fused, images

FLOW = {"output_grid": 4, "preset": "fast", "backend": "dis"}


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, str]]:
    """Color and type of all that is asked of the engine, without repetition."""
    found: list[tuple[str, str]] = []
    submit = engine_module.Engine.submit

    def noting(self: Any, requests: Any) -> Any:
        for request in requests:
            kind = request.output.color, request.output.dtype
            if kind not in found:
                found.append(kind)
        return submit(self, requests)

    monkeypatch.setattr(engine_module.Engine, "submit", noting)
    return found


def lumas(place: str, *names: str, **changes: Any) -> list[Any]:
    """Batches of luma."""
    return images(clips(place, *names, **changes, color="GRAY").batch(3))


@pytest.mark.parametrize("color", ["RGB", "BGR"])
def test_a_chain_that_begins_with_flow_reads_luma(place: str, asked: Any, color: Any) -> None:
    flow = ops.OpticalFlow(image_type=color, **FLOW)
    with clips(place, "h264", color=color).map(flow).batch(3) as ds:
        found = images(ds)
        assert asked == [("GRAY", "uint8")]
        one = ds.sample(1)["image"]
        assert "luma: by the reader's conversion" in ds.explain()
        assert "optical_flow needs the luma alone: no colors are made" in ds.explain()
    wanted = [flow(batch) for batch in lumas(place, "h264")]
    assert_same_samples(found, wanted)
    for batch, other in zip(found, wanted, strict=True):
        np.testing.assert_array_equal(batch.numpy(), other.numpy())
    assert one.shape == found[0].shape[1:]
    assert asked == [("GRAY", "uint8")]


def test_what_the_conversion_does_comes_before(place: str, asked: Any) -> None:
    head = ops.RandomResizedCrop(size=(64, 80), seed=3), ops.Flip(p=0.5)
    flow = ops.OpticalFlow(**FLOW)
    with clips(place, "h264").map(*head).map(flow).batch(3) as ds:
        found = next(iter(ds))["image"]
        assert ds.explain().startswith("1. random_resized_crop → flip → luma: by the reader's conversion")
    assert asked == [("GRAY", "uint8")]
    with clips(place, "h264", color="GRAY").map(*head).batch(3) as ds:
        wanted = flow(next(iter(ds))["image"])
    np.testing.assert_array_equal(found.numpy(), wanted.numpy())


def test_flow_of_luma_is_about_that_of_colors(place: str) -> None:
    flow = ops.OpticalFlow(**FLOW)
    found, wanted = (fused(Chain(flow), place, "h264", fuse=fuse)[0] for fuse in ("surface", "none"))
    apart = np.linalg.norm(found.data - wanted.data, axis=-1)
    assert np.median(apart) < 0.05
    assert found.frames.tolist() == wanted.frames.tolist()


@pytest.mark.parametrize(
    ("chain", "reading", "fuse"),
    [
        (Chain(ops.OpticalFlow(**FLOW)), {}, "exact"),
        (Chain(ops.OpticalFlow(**FLOW)), {}, "none"),
        (Chain(ops.OpticalFlow(image_type="BGR", **FLOW)), {}, "surface"),
        (Chain(ops.OpticalFlow(image_type="YCbCr", **FLOW)), {"color": "YCbCr"}, "surface"),
        (Chain(ops.Brightness(brightness=1.2), ops.OpticalFlow(**FLOW)), {}, "surface"),
    ],
)
def test_where_colors_are_made_all_the_same(asked: Any, chain: Any, reading: Any, fuse: Any) -> None:
    with clips("cpu", "h264", **reading).map(chain).batch(3).fuse(fuse) as ds:
        next(iter(ds))
        assert "luma" not in ds.explain()
    assert asked == [(reading.get("color", "RGB"), "uint8")]


def flow_of(*others: str) -> Any:
    """A graph of optical flow, beside the images if they are named."""

    def build(parts: Any) -> dict[str, Any]:
        return {
            "flow": fn.optical_flow(parts["image"], **FLOW),
            **{name: parts[name] for name in others},
        }

    return build


def test_a_sample_has_both_pixels_and_flow_by_one_decoding(place: str, asked: Any) -> None:
    options = {"layout": "FCHW"}
    with clips(place, "h264", **options).graph(flow_of("image")).batch(3) as ds:
        found = list(ds.epoch(2))
        decoded = sum(ds.stats()["frames"].values())
        assert "optical_flow needs the luma alone: no colors are made" in ds.explain()
    assert asked == [("RGB", "uint8"), ("GRAY", "uint8")]
    with clips(place, "h264", **options).batch(3) as other:
        whole = [batch["image"] for batch in other.epoch(2)]
        assert decoded == sum(other.stats()["frames"].values()), "colors and luma are of one decoding"
    for batch, wanted, luma in zip(found, whole, lumas(place, "h264", layout="FCHW"), strict=True):
        np.testing.assert_array_equal(batch["image"].numpy(), wanted.numpy())
        np.testing.assert_array_equal(batch["flow"].numpy(), ops.OpticalFlow(**FLOW)(luma).numpy())


def test_lost_samples_are_lost_in_both_and_counted_once() -> None:
    options = {"on_error": "substitute", "length": 8, "shuffle": False, "stride": 1}
    with clips("cpu", "h264_lost_key", "h264", **options).graph(flow_of("image")).batch(4) as ds:
        for batch in ds:
            image, flow = batch["image"], batch["flow"]
            assert flow.frames[:, 0].tolist() == image.frames[:, 0].tolist()
            assert flow.sources == image.sources
            assert flow.indices.tolist() == image.indices.tolist() == batch.index.tolist()
        counts = ds.report().counts
    with clips("cpu", "h264_lost_key", "h264", **options).batch(4) as alone:
        for _ in alone:
            pass
        assert counts == alone.report().counts
    assert counts["sample substituted"] > 0
