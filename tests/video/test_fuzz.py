"""Two dozen damaged videos; more are deep; thousands: ``python -m tests.deep.fuzz``."""

from __future__ import annotations

import random
from pathlib import Path

import av
import pytest

from tests.support.deep import deep_but
from tests.support.fuzz import MUTATIONS, Mutant, Verdict, mutant, tried
from tests.support.media import made, shared_media

_NAMES = (
    *(
        "h264",
        "h264_ts",
        "h264_avi",
        "hevc",
        "hevc_mkv",
        "vp8",
        "vp9",
        "av1",
        "av1_mkv",
        "mpeg4_avi",
        "mpeg2_ps",
    ),
    *("mjpeg", "flv1", "gif", "png", "theora"),
)
_SHARES = 8
_MUTANTS = 25


@pytest.fixture(scope="module")
def files() -> list[Path]:
    return [made(name) for name in _NAMES]


@pytest.mark.parametrize("share", deep_but([0], range(_SHARES)))
def test_damage_gives_errors_of_ours_and_the_same_frames_at_every_asking(share, files, tmp_path):
    av.logging.set_level(None)
    verdict = Verdict()
    for number in range(share * _MUTANTS, (share + 1) * _MUTANTS):
        verdict.add(tried(mutant(files, number), tmp_path))
    assert verdict.faults == []
    assert sum(verdict.counts.values()) == _MUTANTS
    assert set(verdict.counts) >= {"read", "refused"}


FOUND = {
    "a partition of VP8 that ends early shows what its memory held": ("vp8", 21, 0),
    "FFV1 fills a damaged slice from the picture before": ("ffv1", 285, 1),
    "FFV1 does so at odd sizes": ("ffv1_odd", 1631, 1),
    "MPEG-2 took the header of an earlier run for a broken one": ("mpeg2_ps", 2065, 1),
    "a damaged leading picture took the frames behind it along": ("hevc_mkv", 33, 0),
    "a damaged leading picture was fed again": ("hevc_mkv", 1595, 0),
    "repeated packets of H.264 are predicted from pictures that were left out": ("h264_raw", 844, 0),
    "a slice whose type was flipped to parameters was taken for no picture": ("hevc_10", 182, 1),
    "its frame was lost by one way of asking only": ("hevc_hashed", 4844, 1),
    "leading pictures whose times were damaged were not known as such": ("hevc_gray", 3376, 1),
    "FFV1 fills a damaged slice with what else was asked for": ("ffv1_alpha", 219, 2),
    "FFV1 does so in 4:1:0": ("ffv1_410", 414, 2),
    "H.264 took parameter sets from another key frame": ("negative_pts", 366, 77),
    "H.264 kept what a damaged packet had left": ("video/corrupt/truncated_mdat_1080p.mp4", 3802, 77),
    "a key frame was lost where it was decoded behind damage": ("mpeg4_mp4_flip_reference", 3994, 77),
}


@pytest.mark.parametrize("found", FOUND)
def test_what_it_has_found_is_mended(found, tmp_path):
    """The same frame looked otherwise, or was lost or not, as others were asked for before it or with it."""
    name, number, seed = FOUND[found]
    path = shared_media() / name if "/" in name else made(name)
    assert tried(mutant([path], number, seed), tmp_path, seed=seed).faults == []


def test_what_a_slice_that_ends_early_shows_is_told_from_other_differences(tmp_path):
    """The one documented exception; see the docstring of the CPU's decoder."""
    verdict = tried(mutant([made("hevc_no_b")], 3503, 1), tmp_path, seed=1)
    assert (verdict.faults, verdict.counts["memory"]) == ([], 1)


@pytest.mark.gpu
def test_damage_does_the_same_on_a_gpu(files, tmp_path):
    verdict = Verdict()
    for number in range(60):
        verdict.add(tried(mutant(files, number), tmp_path, device="cuda"))
    assert verdict.faults == []


@pytest.mark.parametrize("kind", MUTATIONS)
def test_a_mutation_changes_bytes_and_can_be_repeated(kind):
    data = bytes(range(256)) * 40
    found = []
    for _ in range(2):
        mutated, rng = bytearray(data), random.Random(7)
        MUTATIONS[kind](mutated, rng)
        found.append(bytes(mutated))
    assert found[0] == found[1] != data


def test_what_may_not_be_is_found(files, tmp_path, monkeypatch):
    """An error that is not ours, and a frame that changes."""
    subject = Mutant(5, "h264.mp4", "none", files[0].read_bytes())
    assert tried(subject, tmp_path).faults == []
    from tests.support import fuzz

    asked = iter(range(1000))
    monkeypatch.setattr(fuzz, "_outcome", lambda _, numbers: ("read", [next(asked)] * len(numbers)))
    faults = tried(subject, tmp_path).faults
    assert any("differ after others were read" in fault for fault in faults)
    assert any("differ between two readers" in fault for fault in faults)
    monkeypatch.setattr(fuzz, "probe", lambda _: [][0])
    assert any(
        "mutant 5 of h264.mp4 (none): probed raised IndexError" in f for f in tried(subject, tmp_path).faults
    )
