"""Bad input among good, wherever it is decoded: the same samples, the same losses, and nothing beside them touched."""

from __future__ import annotations

import contextlib

import pytest

import seqpipe
from seqpipe.errors import DamagedSourceError, SeqpipeError, UnreadableSourceError
from seqpipe.sequence import Sequence
from tests.support.datasets import assert_true_frames, clips, files

ON_DEVICES = pytest.mark.parametrize(
    ("device", "decode"),
    [
        ("cpu", "auto"),
        *(
            pytest.param("cuda", decode, marks=pytest.mark.gpu)
            for decode in ("auto", "mixed", "cpu", "nvdec")
        ),
    ],
)
# All of this is noticed by every decoder. GPUs decode HEVC from 144×144 pixels on, more than these have.
GOOD = ("h264", "hevc_open_gop", "wide_h264", "h264_long_gop")
HIT = ("h264_flip_disposable", "h264_lost_reference", "hevc_lost_reference", "h264_lost_key")
CUT = ("data_cut_mp4", "data_cut_ts")
UNREADABLE = ("empty", "text", "header_cut_mp4")


def make(*names, device="cpu", decode="auto", **options):
    given = {"length": 6, "shuffle": True, "threads": 2, **options}
    return clips(files(*names), device=device, backend=decode, **given)


def decodable(names, decode):
    """Those that whoever decodes can decode."""
    return [name for name in names if decode != "nvdec" or not name.startswith("hevc")]


def outcomes(reading):
    """What comes, step by step: which frames of what, or the kind of error and what it is of."""
    found = []
    while True:
        try:
            given = next(reading)
        except StopIteration:
            return found
        except SeqpipeError as error:
            found.append((type(error).__name__, error.source))
            continue
        image = given["image"]
        for sequence in [image] if isinstance(image, Sequence) else image:
            assert_true_frames(sequence)
            found.append((sequence.source, sequence.frames.tolist()))


def losses(reading):
    """The report without its reasons, which a GPU gives in words of its own."""
    found = reading.report()
    return found.used, found.samples, [(x.source, x.fate, x.frames, x.times) for x in found.losses]


@ON_DEVICES
@pytest.mark.parametrize("on_error", ["skip", "substitute"])
def test_losses_and_what_remains_are_those_of_the_cpu(device, decode, on_error):
    names = decodable([*GOOD, *HIT, *CUT, *UNREADABLE], decode)
    with make(*names, on_error=on_error) as on_cpu:
        expected, lost = outcomes(iter(on_cpu.batch(5))), losses(on_cpu)
    with make(*names, on_error=on_error, device=device, decode=decode) as found:
        given = outcomes(iter(found.batch(5)))
        if decode != "nvdec":
            assert given == expected
            assert sorted(losses(found)[2]) == sorted(lost[2])
        elif on_error == "skip":  # no one is asked a second time, so more may be lost of a damaged video
            good = files(*decodable(GOOD, decode))
            assert all(sample in expected for sample in given)
            assert [s for s in given if s[0] in good] == [s for s in expected if s[0] in good]
        assert losses(found)[:2] == lost[:2]


@ON_DEVICES
def test_errors_come_at_their_place_and_reading_goes_on(device, decode):
    names = decodable([*GOOD, *HIT], decode)
    with make(*names) as on_cpu:
        expected = outcomes(iter(on_cpu))
    assert ("DamagedSourceError", files("h264_lost_key")[0]) in expected
    with make(*names, device=device, decode=decode) as found:
        given = outcomes(iter(found))
    assert len(given) == len(expected)
    for ours, theirs in zip(given, expected, strict=True):
        more_lost = decode == "nvdec" and ours == ("DamagedSourceError", theirs[0])
        assert ours == theirs or (more_lost and theirs[0] in files(*HIT))
    with pytest.raises(UnreadableSourceError, match=r"text\.mp4"):
        make("h264", "text", device=device, decode=decode)


@ON_DEVICES
def test_a_size_that_changes_on_the_way_and_back(device, decode):
    """The file goes from 128×96 to 176×100; the others keep decoders of both sizes busy beside it."""
    names = ("resized", "h264_raw_wide", "h264", "wide_h264", "cropped_h264")
    for threads in (1, 3):
        with make(
            *names, length=8, step=2, size=(96, 128), device=device, decode=decode, threads=threads
        ) as found:
            given = outcomes(iter(found.batch(4)))
            assert len(given) == len(found)
    crossing = [frames for source, frames in given if source == files("resized")[0] and 47 in frames]
    assert any(48 in frames for frames in crossing)


@ON_DEVICES
def test_a_reader_goes_on_behind_damage(device, decode):
    (hit, sound) = files("h264_lost_key", "h264")
    with (
        seqpipe.open(hit, device=device, decode=decode) as damaged,
        seqpipe.open(sound, device=device, decode=decode) as other,
    ):
        for _ in range(3):
            assert_true_frames(damaged[3:12:4])
            with pytest.raises(DamagedSourceError) as caught:
                damaged.frames([2, 30, 5])
            assert caught.value.lost == (30,) or (decode == "nvdec" and 30 in caught.value.lost)
            assert_true_frames(other.frames([30, 2, 47]))
            came = []
            with contextlib.suppress(DamagedSourceError):
                came.extend(int(frame.frames[0]) for frame in damaged.stream(range(20, 40)))
            assert came == [20, 21, 22, 23]
