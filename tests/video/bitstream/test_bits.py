"""The bit reader against an encoder of its codes."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from seqpipe.video.bitstream.bits import BitReader, BitstreamError, unescape

FIELD = st.one_of(
    st.tuples(st.just("u"), st.integers(0, 2**40 - 1)),
    st.tuples(st.just("ue"), st.integers(0, 2**32 - 2)),
    st.tuples(st.just("se"), st.integers(-(2**31) + 1, 2**31 - 1)),
)


def golomb(value: int) -> str:
    digits = f"{value + 1:b}"
    return "0" * (len(digits) - 1) + digits


def written(fields: list[tuple[str, int]]) -> bytes:
    codes = {
        "u": lambda value: f"{value:040b}",
        "ue": golomb,
        "se": lambda value: golomb(2 * value - 1 if value > 0 else -2 * value),
    }
    text = "".join(codes[kind](value) for kind, value in fields)
    text += "0" * (-len(text) % 8)
    return int(text or "0", 2).to_bytes(len(text) // 8, "big")


@given(st.lists(FIELD, max_size=20))
def test_reads_back_what_was_written(fields: list[tuple[str, int]]) -> None:
    bits = BitReader(written(fields))
    read = {"u": lambda: bits.u(40), "ue": bits.ue, "se": bits.se}
    assert [(kind, read[kind]()) for kind, _ in fields] == fields
    assert bits.left < 8


@given(st.binary(max_size=12), st.integers(0, 120))
def test_the_end_is_an_error_and_never_zeros(data: bytes, bits: int) -> None:
    reader = BitReader(data)
    if bits <= 8 * len(data):
        reader.skip(bits)
        assert reader.left == 8 * len(data) - bits
    else:
        with pytest.raises(BitstreamError, match="left"):
            reader.u(bits)
        with pytest.raises(BitstreamError, match="left"):
            reader.skip(bits)


@pytest.mark.parametrize("data", [b"", b"\0", b"\0\0\1"])
def test_a_code_that_is_cut_is_an_error(data: bytes) -> None:
    with pytest.raises(BitstreamError, match="left"):
        BitReader(data).ue()


def test_a_code_of_33_zeros_is_an_error() -> None:
    with pytest.raises(BitstreamError, match="32 leading zeros"):
        BitReader(bytes(4) + b"\x7f" + bytes(8)).ue()


@given(st.lists(st.sampled_from([0, 0, 0, 1, 2, 3, 4, 255]), max_size=40).map(bytes))
def test_unescape_undoes_emulation_prevention(payload: bytes) -> None:
    escaped, zeros = bytearray(), 0
    for byte in payload:
        if zeros == 2 and byte <= 3:
            escaped.append(3)
            zeros = 0
        escaped.append(byte)
        zeros = zeros + 1 if byte == 0 else 0
    if zeros == 2:
        escaped.append(3)  # a NAL unit does not end in a zero
    assert unescape(bytes(escaped)) == payload
