"""HDR to SDR and to linear light: BT.2446 in float64, and zscale of ffmpeg, as judges."""

from __future__ import annotations

import math

import numpy as np
import pytest

import seqpipe
from seqpipe import OutputSpec
from seqpipe.errors import ParameterError
from seqpipe.video.convert.tone import HLG, PQ, ToneMap, tone_code
from tests.support.ffmpeg import said
from tests.support.media import shared_media


def pq_nits(signal):
    power = signal ** (1 / (2523 / 4096 * 128))
    return 10_000 * (max(power - 3424 / 4096, 0) / (2413 / 4096 * 32 - 2392 / 4096 * 32 * power)) ** (
        16384 / 2610
    )


def hlg_scene(signal):
    return (
        signal**2 / 3 if signal <= 0.5 else (math.exp((signal - 0.55991073) / 0.17883277) + 0.28466892) / 12
    )


def displayed(rgb, transfer):
    """Light of a display of 1000 cd/m², in cd/m²."""
    if transfer == PQ:
        return [pq_nits(value) for value in rgb]
    scene = [hlg_scene(value) for value in rgb]
    luma = 0.2627 * scene[0] + 0.6780 * scene[1] + 0.0593 * scene[2]
    return [1000 * luma**0.2 * value for value in scene]


def method_a(nits):
    """BT.2446-1, clause 4, for 1000 to 100 cd/m², then BT.2020 to BT.709 and BT.1886."""
    r, g, b = ((min(value, 1000) / 1000) ** (1 / 2.4) for value in nits)
    y = 0.2627 * r + 0.6780 * g + 0.0593 * b
    if y == 0:
        return [0.0] * 3
    rho_hdr, rho_sdr = (1 + 32 * (peak / 10_000) ** (1 / 2.4) for peak in (1000, 100))
    yp = math.log(1 + (rho_hdr - 1) * y) / math.log(rho_hdr)
    if yp <= 0.7399:
        yc = 1.0770 * yp
    elif yp < 0.9909:
        yc = -1.1510 * yp**2 + 2.7811 * yp - 0.6302
    else:
        yc = 0.5 * yp + 0.5
    y_sdr = (rho_sdr**yc - 1) / (rho_sdr - 1)
    f = y_sdr / (1.1 * y)
    cb, cr = f * (b - y) / 1.8814, f * (r - y) / 1.4746
    y_tmo = y_sdr - max(0.1 * cr, 0)
    wide = [y_tmo + 1.4746 * cr, y_tmo - 0.16455 * cb - 0.57135 * cr, y_tmo + 1.8814 * cb]
    linear = np.clip(wide, 0, 1) ** 2.4
    matrix = [[1.6605, -0.5876, -0.0728], [-0.1246, 1.1329, -0.0083], [-0.0182, -0.1006, 1.1187]]
    return np.clip(matrix @ linear, 0, 1) ** (1 / 2.4)


@pytest.mark.parametrize("transfer", [PQ, HLG])
def test_signals_are_mapped_as_the_recommendation_says(transfer):
    random = np.random.default_rng(0)
    pixels = random.integers(0, 65536, (20, 20, 3)).astype(np.uint16)
    pixels[0, :8] = np.linspace(0, 65535, 8)[:, None]
    output = OutputSpec(dtype="float32", transfer="sdr")
    found, light = (np.empty(pixels.shape, np.float32) for _ in range(2))
    ToneMap(tone_code(transfer, "sdr"), output)(pixels, found)
    ToneMap(tone_code(transfer, "linear"), output)(pixels, light)
    for place in np.ndindex(20, 20):
        nits = displayed(pixels[place] / 65535, transfer)
        np.testing.assert_allclose(light[place] * 203, nits, rtol=2e-4, atol=2e-3)
        np.testing.assert_allclose(found[place], method_a(nits), atol=2e-3)


def test_types_and_layouts_hold_the_same_values():
    pixels = np.random.default_rng(1).integers(0, 65536, (4, 6, 3)).astype(np.uint16)
    plain = np.empty(pixels.shape, np.float32)
    ToneMap(1, OutputSpec(dtype="float32", transfer="sdr"))(pixels, plain)
    small = np.empty(pixels.shape, np.uint8)
    ToneMap(1, OutputSpec("BGR", transfer="sdr"))(pixels, small)
    np.testing.assert_array_equal(small[..., ::-1], np.rint(plain * 255))
    normal = np.empty((3, 4, 6), np.float32)
    spec = OutputSpec(dtype="float32", layout="FCHW", mean=(0.5, 0.4, 0.3), std=0.5, transfer="sdr")
    ToneMap(1, spec)(pixels, normal)
    np.testing.assert_allclose(normal.transpose(1, 2, 0) * 0.5 + [0.5, 0.4, 0.3], plain, atol=1e-6)


def test_only_hdr_streams_change():
    assert [tone_code(transfer, "sdr") for transfer in (1, 2, 13, PQ, HLG)] == [0, 0, 0, 1, 2]
    assert [tone_code(transfer, "linear") for transfer in (1, PQ, HLG)] == [5, 3, 4]
    assert tone_code(PQ, "coded") == 0


@pytest.mark.parametrize(
    "values",
    [{"transfer": "linear"}, {"transfer": "sdr", "color": "GRAY"}, {"transfer": "sdr", "color": "YCbCr"}],
)
def test_what_has_no_transfer_function_is_refused(values):
    with pytest.raises(
        ParameterError, match="allowed: color='RGB', 'BGR' or 'RGBA' without rounded, and a float dtype"
    ):
        OutputSpec(**values)


def test_light_of_a_hlg_film_is_that_of_zscale():
    path = shared_media() / "video/codec/hevc10_hlg_848x464.mkv"
    chain = "zscale=t=linear:npl=1000:m=gbr:r=full:agamma=false,format=gbrpf32le"
    raw, words = said("-i", str(path), "-frames:v", "1", "-vf", chain, "-f", "rawvideo", "-")
    if not raw and "zscale" in words:
        pytest.skip("this ffmpeg has no zscale")
    planes = np.frombuffer(raw, "<f4").reshape(3, 464, 848)
    expected = planes[[2, 0, 1]].transpose(1, 2, 0) * 1000 / 203
    with seqpipe.open(path, output=OutputSpec(dtype="float32", transfer="linear")) as video:
        light = video[0].numpy()
    middle = (expected > 0.01).all(-1)
    assert middle.mean() > 0.2
    assert np.quantile(np.abs(light[middle] / expected[middle] - 1), 0.95) < 0.02
    with seqpipe.open(path, output=OutputSpec(transfer="sdr")) as video:
        shown = video[0].numpy().astype(float)
    with seqpipe.open(path) as video:
        coded = video[0].numpy().astype(float)
    assert shown.std() > coded.std(), "HLG as it is looks pale"
