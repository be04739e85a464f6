"""Inflating: several members, truncated and damaged streams, bombs; by libdeflate and without it."""

from __future__ import annotations

import bz2
import functools
import gzip
import zlib

import numpy as np
import pytest

from seqpipe.core.files.content import unpacked_head
from seqpipe.errors import DamagedSourceError, UnreadableSourceError
from seqpipe.volume.formats import gunzip
from seqpipe.volume.formats.gunzip import check_size, inflate, inflate_all, inflate_start

DATA = np.random.default_rng(0).integers(0, 4, 3_000_000).astype(np.uint8).tobytes()


@functools.cache
def packed(compression: str = "gzip") -> bytes:
    """The data compressed; quick levels, because its size is not the point."""
    if compression == "bzip2":
        return bz2.compress(DATA, 1)
    return (gzip if compression == "gzip" else zlib).compress(DATA, 1)


@pytest.fixture(params=["libdeflate", "zlib"])
def by(request, monkeypatch):
    if request.param == "zlib":
        monkeypatch.setattr(gunzip, "_libdeflate", lambda _: None)
    elif gunzip._libdeflate("gzip") is None:
        pytest.skip("the wheel deflate is not installed, or has no functions to call")
    return request.param


def test_libdeflate_is_found():
    pytest.importorskip("deflate")
    assert gunzip._libdeflate("gzip") is not None
    assert gunzip._libdeflate("zlib") is not None


@pytest.mark.parametrize("compression", ["gzip", "zlib", "bzip2"])
def test_what_was_packed_comes_out(by, compression):
    whole = packed(compression)
    found = inflate(whole, len(DATA), "a", compression)
    assert found.tobytes() == DATA
    assert found.flags.writeable
    assert inflate_start(whole, 1000, "a", compression).tobytes() == DATA[:1000]
    assert inflate_all(whole, "a", compression) == DATA
    if compression == "gzip":
        assert unpacked_head(whole[:2048], 300) == DATA[:300]


def test_all_members_of_a_stream_come_out(by):
    """libdeflate's Python call gives the first one and says nothing of the others."""
    parts = [DATA[:1000], DATA[1000:1500], DATA[1500:]]
    assert inflate(b"".join(gzip.compress(part, 1) for part in parts), len(DATA), "a").tobytes() == DATA


def test_zeros_behind_a_stream_are_left_alone(by):
    assert inflate(packed() + bytes(512), len(DATA), "a").tobytes() == DATA


@pytest.mark.parametrize("share", [0.1, 0.5, 0.99])
def test_a_truncated_stream_says_how_far_it_goes(by, share):
    whole = packed()
    with pytest.raises(DamagedSourceError, match=r"a: the file ends after [\d,]+ of 3,000,000 bytes"):
        inflate(whole[: int(len(whole) * share)], len(DATA), "a")


def test_a_flipped_bit_is_found(by):
    whole = bytearray(packed())
    whole[len(whole) // 2] ^= 4
    with pytest.raises(DamagedSourceError, match="damaged"):
        inflate(bytes(whole), len(DATA), "a")


def test_fewer_and_more_bytes_than_promised(by):
    with pytest.raises(DamagedSourceError, match=r"holds 3,000,000 bytes, but its header promises 3,000,100"):
        inflate(packed(), len(DATA) + 100, "a")
    assert inflate(packed(), len(DATA) - 100, "a").tobytes() == DATA[:-100]
    with pytest.raises(DamagedSourceError, match="holds more than the 1,000 bytes that its header promises"):
        inflate(packed(), 1000, "a")


def test_what_no_file_of_the_size_can_hold_is_refused_before_memory_is_taken():
    with pytest.raises(
        UnreadableSourceError, match=r"promises 10,000,000 bytes, but the file has 500 bytes compressed"
    ):
        check_size(10_000_000, 500, "a", "gzip")
    with pytest.raises(UnreadableSourceError, match="but the file has 500 bytes"):
        check_size(501, 500, "a", None)
    with pytest.raises(UnreadableSourceError, match=r"takes 93\.1 GiB; allowed: up to 64 GiB"):
        check_size(100_000_000_000, 10**9, "a", "gzip")
    check_size(1000, 500, "a", "gzip")
