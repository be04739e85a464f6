"""The rule of what can be left out, against a model, and the facts read from single packets."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from seqpipe.video.bitstream.bits import BitReader, NalFormat, avc_format, hevc_format, nal_spans
from seqpipe.video.bitstream.kind import Leading, PacketKind, chroma_location, classifier, droppable
from seqpipe.video.bitstream.sps import _predicted_set

from .clips import AV1, H264, HEVC, MPEG, QUIET, VP9, Recipe, Stream, decoded, encoded, recipe

KIND = st.builds(
    PacketKind,
    reference=st.booleans(),
    temporal_id=st.integers(0, 2),
    leaves_state=st.booleans(),
    takes_state=st.booleans(),
)


@given(st.lists(KIND, max_size=12))
def test_droppable_by_definition(kinds: list[PacketKind]) -> None:
    answer = droppable(kinds)
    assert len(answer) == len(kinds)
    for number, dropped in enumerate(answer):
        kind = kinds[number]
        used_above = any(other.temporal_id > kind.temporal_id for other in kinds)
        taken = number + 1 < len(kinds) and kind.leaves_state and kinds[number + 1].takes_state
        assert dropped == (not kind.reference and not used_above and not taken)


def kinds_of(stream: Stream) -> list[PacketKind]:
    classify = classifier(stream.codec, stream.extradata).classify
    return [classify(packet) for packet in stream.packets]


def starts(stream: Stream) -> list[int]:
    return [n for n, kind in enumerate(kinds_of(stream)) if kind.random_access]


@pytest.mark.parametrize(
    "made",
    [H264["open-gop"], H264["sliced-ts"], HEVC["open-gop"], HEVC["sliced-ts"], AV1["mp4"]],
    ids=["h264-open", "h264-closed", "hevc-open", "hevc-closed", "av1"],
)
def test_decoding_can_start_at_random_access(made: Recipe) -> None:
    stream = encoded(made)
    kinds = kinds_of(stream)
    whole = decoded(stream, range(len(kinds)))
    assert len(starts(stream)) > 1
    for start in starts(stream):
        order = [n for n in range(start, len(kinds)) if kinds[n].leading is not Leading.RASL]
        late = decoded(stream, order)
        follows = following(stream, start, order)
        assert len(follows) > 1
        assert {n: late[n] for n in follows} == {n: whole[n] for n in follows}


def following(stream: Stream, start: int, numbers: list[int]) -> list[int]:
    """Packets that are presented from the start on: B pictures before the next P lead the start picture."""
    if stream.codec != "h264":
        return numbers
    kinds = kinds_of(stream)
    first_p = next((n for n in numbers if kinds[n].picture_type == "P"), numbers[-1] + 1)
    return [start, *(n for n in numbers if n >= first_p)]


def test_gradual_refresh_is_no_start() -> None:
    stream = encoded(H264["intra-refresh"])
    assert starts(stream) == [0]
    assert any(b"\0\0\1\x06\x06" in packet for packet in stream.packets[1:]), (
        "no recovery point SEI to refuse"
    )


def test_leading_pictures_are_those_a_late_start_cannot_show() -> None:
    stream = encoded(HEVC["open-gop"])
    kinds = kinds_of(stream)
    start = starts(stream)[1]
    late = decoded(stream, range(start, len(kinds)))
    following_start = next((n for n in starts(stream) if n > start), len(kinds))
    lost = [n for n in range(start, following_start) if n not in late]
    assert lost
    assert lost == [n for n in range(start, following_start) if kinds[n].leading is Leading.RASL]


@pytest.mark.parametrize(
    ("count", "access"), [("1", True), ("00110", None)], ids=["at-once", "after-5-frames"]
)
def test_a_recovery_point_counts_if_it_recovers_at_once(count: str, access: bool | None) -> None:
    message = bytes(
        [int((count + "111").ljust(8, "0"), 2)]
    )  # recovery_frame_cnt, exact, not broken, bit equal to one
    sei = b"\0\0\1\x06\x06\x01" + message + b"\x80"
    i_slice = b"\0\0\1\x41\x88\x84"
    kind = classifier("h264", b"").classify(sei + i_slice)
    assert (kind.random_access, kind.picture_type) == (access, "I")
    assert classifier("h264", b"").classify(sei + b"\0\0\1\x41\x9a\x24").random_access is False


@pytest.mark.parametrize(("nal_type", "leading"), [(6, Leading.RADL), (7, Leading.RADL), (8, Leading.RASL)])
def test_leading_types_of_hevc(nal_type: int, leading: Leading) -> None:
    stream = encoded(HEVC["sliced-ts"])
    classify = classifier(stream.codec, stream.extradata).classify
    classify(stream.packets[0])
    packet = bytearray(stream.packets[1])
    for begin, _ in nal_spans(bytes(packet), 0):
        if packet[begin] >> 1 < 32:
            packet[begin] = nal_type << 1
    kind = classify(bytes(packet))
    assert (kind.leading, kind.reference) == (leading, nal_type % 2 == 1)


@pytest.mark.parametrize(("made", "form"), [(H264["defaults"], avc_format), (HEVC["defaults"], hevc_format)])
def test_parameter_sets_alone_are_kept_and_not_shown(
    made: Recipe, form: Callable[[bytes], NalFormat]
) -> None:
    stream = encoded(made)
    sets = form(stream.extradata).parameter_sets
    assert len(sets) >= 2
    kind = classifier(stream.codec, b"").classify(b"".join(b"\0\0\1" + unit for unit in sets))
    assert (kind.reference, kind.shown, kind.random_access) == (True, False, False)


def test_a_picture_with_parameter_sets_is_kept() -> None:
    stream = encoded(H264["sliced-ts"])
    kinds = kinds_of(stream)
    number = droppable(kinds).index(True)
    sets = b"\0\0\1\x68\xee\x3c\x80"
    assert classifier("h264", b"").classify(sets + stream.packets[number]).reference


def test_mpeg2_quantizer_matrices_in_a_b_picture_last() -> None:
    stream = encoded(MPEG["mpeg2"])
    number = droppable(kinds_of(stream)).index(True)
    packet = stream.packets[number]
    slices = re.search(rb"\x00\x00\x01[\x01-\xaf]", packet)
    assert slices is not None
    extended = packet[: slices.start()] + b"\0\0\1\xb5\x30" + packet[slices.start() :]
    assert classifier("mpeg2video", b"").classify(extended).reference


@pytest.mark.parametrize(
    ("frame_type", "reference"), [("00", True), ("10", False)], ids=["key", "intra-only"]
)
def test_av1_key_frame_that_is_shown_later_fills_all_slots(frame_type: str, reference: bool) -> None:
    stream = encoded(AV1["mp4"])
    classify = classifier("av1", stream.extradata).classify
    assert classify(stream.packets[0]).random_access
    # Not shown again, its type, hidden, showable, resilient, two tools off, own size off, order hint, slot 2.
    hidden = "0" + frame_type + "0" + "1" + "1" + "00" + "0" + "0000001" + "00000100"
    payload = int(hidden.ljust(32, "0"), 2).to_bytes(4, "big")
    kind = classify(b"\x32\x04" + payload)
    assert (kind.reference, kind.shown, kind.random_access, kind.picture_type) == (True, False, False, "I")
    again = classify(b"\x1a\x01" + bytes([0b10100000]))
    assert (again.reference, again.shown, again.random_access) == (reference, True, False)


def derived_set(before: list[int], shift: int, used: list[bool]) -> list[int]:
    """H.265 equations 7-61 and 7-62, loop by loop."""
    negative, positive = [d for d in before if d < 0], [d for d in before if d > 0]
    count = len(before)
    below: list[int] = []
    for i in range(len(positive) - 1, -1, -1):
        if positive[i] + shift < 0 and used[len(negative) + i]:
            below.append(positive[i] + shift)
    if shift < 0 and used[count]:
        below.append(shift)
    below += [negative[i] + shift for i in range(len(negative)) if negative[i] + shift < 0 and used[i]]
    above: list[int] = []
    for i in range(len(negative) - 1, -1, -1):
        if negative[i] + shift > 0 and used[i]:
            above.append(negative[i] + shift)
    if shift > 0 and used[count]:
        above.append(shift)
    for i in range(len(positive)):
        if positive[i] + shift > 0 and used[len(negative) + i]:
            above.append(positive[i] + shift)
    return below + above


@given(
    st.lists(st.integers(1, 8), max_size=5, unique=True),
    st.lists(st.integers(1, 8), max_size=5, unique=True),
    st.integers(-9, 9).filter(bool),
    st.lists(st.booleans(), min_size=11, max_size=11),
)
def test_predicted_picture_sets_of_hevc(
    below: list[int], above: list[int], shift: int, used: list[bool]
) -> None:
    before = [-delta for delta in sorted(below)] + sorted(above)
    size = f"{abs(shift):b}"
    flags = "".join("1" if use else "00" for use in used[: len(before) + 1])
    text = ("1" if shift < 0 else "0") + "0" * (len(size) - 1) + size + flags
    bits = BitReader(int(text.ljust(64, "0"), 2).to_bytes(8, "big"))
    assert _predicted_set(bits, before) == derived_set(before, shift, used)
    assert bits.left == 64 - len(text)


def not_coded(stream: Stream) -> bytes:
    """A VOP that is not coded, with the 5 bits of vop_time_increment that 25 frames/s take."""
    assert stream.codec == "mpeg4"
    fields = (
        "01" + "0" + "1" + "00000" + "1" + "0"
    )  # P, no whole second, marker, increment, marker, vop_coded
    return b"\0\0\1\xb6" + int(fields + "01111", 2).to_bytes(2, "big")


def test_mpeg4_vop_that_is_not_coded_is_not_shown() -> None:
    made = encoded(recipe("mpeg4", "mp4", b_frames=0))
    stream = Stream(made.codec, made.extradata, (*made.packets[:3], not_coded(made), *made.packets[3:6]))
    kinds = kinds_of(stream)
    assert [kind.shown for kind in kinds] == [True, True, True, False, True, True, True]
    assert all(kind.reference for kind in kinds)
    assert set(decoded(stream, range(len(kinds)))) == {n for n, kind in enumerate(kinds) if kind.shown}


def test_mpeg4_packed_bitstream_is_kept_whole() -> None:
    made = encoded(MPEG["mpeg4-mp4"])
    kinds = kinds_of(made)
    packed: list[bytes] = []
    for number, packet in enumerate(made.packets):
        if kinds[number].picture_type == "B" and kinds[number - 1].picture_type != "B":
            packed[-1] += packet
            packed.append(not_coded(made))
        else:
            packed.append(packet)
    stream = Stream(made.codec, made.extradata + b"\0\0\1\xb2DivX503b1393p", tuple(packed))
    kinds = kinds_of(stream)
    doubled = [n for n, packet in enumerate(packed) if packet.count(b"\0\0\1\xb6") > 1]
    assert doubled
    assert all(kinds[n].reference and kinds[n + 1].reference and kinds[n + 1].shown for n in doubled)
    assert len(decoded(stream, range(len(packed)))) == sum(kind.shown for kind in kinds) == len(made.packets)


CHROMA = {
    **{f"h264-{n}": (recipe("libx264", "mp4", x264_params=f"chromaloc={n}"), n + 1) for n in range(1, 6)},
    "h264-unsaid": (H264["defaults"], 0),
    "h264-lists": (recipe("libx264", "mpegts", x264_params="chromaloc=3:cqm=jvt:interlaced=1"), 4),
    **{
        f"hevc-{n}": (recipe("libx265", "mp4", x265_params=f"{QUIET}:chromaloc={n}"), n + 1) for n in range(6)
    },
    "hevc-lists": (
        recipe(
            "libx265", "mpegts", x265_params=f"{QUIET}:chromaloc=2:scaling-list=default:temporal-layers=3"
        ),
        3,
    ),
    "av1-unsaid": (AV1["mp4"], 0),
    "av1-vertical": (
        recipe("libsvtav1", "mp4", svtav1_params="lp=1:preset=10:chroma-sample-position=vertical"),
        1,
    ),
    "av1-colocated": (recipe("libsvtav1", "mp4", svtav1_params="lp=1:preset=10:chroma-sample-position=2"), 3),
    "mpeg1": (MPEG["mpeg1"], 2),
    "mpeg2": (MPEG["mpeg2"], 1),
    "mpeg4": (MPEG["mpeg4-mp4"], 1),
    "mjpeg": (Recipe("mjpeg", "avi", pixels="yuvj420p"), 2),
    "vp9": (VP9["alt-ref"], 0),
}


@pytest.mark.parametrize(("made", "location"), CHROMA.values(), ids=CHROMA)
def test_chroma_location_is_the_one_encoded(made: Recipe, location: int) -> None:
    stream = encoded(dataclasses.replace(made, frames=min(made.frames, 12)) if location else made)
    assert chroma_location(stream.codec, stream.extradata, stream.packets[0]) == location


def test_chroma_location_takes_the_extradata_before_the_packet() -> None:
    stream = encoded(CHROMA["hevc-2"][0])
    assert chroma_location("hevc", stream.extradata, b"") == 3
    assert chroma_location("hevc", b"", stream.packets[0]) == 0


def test_decoders_names_stand_for_their_codec() -> None:
    stream = encoded(AV1["mp4"])
    kinds = [classifier(name, stream.extradata).classify(stream.packets[0]) for name in ("av1", "libdav1d")]
    assert kinds[0] == kinds[1]
    assert kinds[0].random_access
