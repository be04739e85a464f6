"""Packets whose bytes are followed by the zeros that libavcodec reads on into, and no others anywhere."""

from __future__ import annotations

import ast
import ctypes
from pathlib import Path

import pytest

from seqpipe.video.av_packet import av_packet

ROOT = Path(__file__).resolve().parents[2]
HOME = ROOT / "seqpipe/video/av_packet.py"
PADDING = 64  # AV_INPUT_BUFFER_PADDING_SIZE


@pytest.mark.parametrize("size", [1, 63, 64, 511, 512, 100_000, 1 << 20])
def test_zeros_follow_the_bytes(size):
    """Many at a time: memory that was used before holds something else."""
    data = b"\xff" * size
    for packet in [av_packet(data) for _ in range(20)]:
        assert ctypes.string_at(packet.buffer_ptr, size + PADDING) == data + bytes(PADDING)
        assert packet.size == size


def lenders(source: str) -> list[int]:
    """The lines in which a packet of PyAV is made of something."""
    named = {"av.Packet", "av.packet.Packet", "packet.Packet"}
    tree = ast.parse(source)
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module in ("av", "av.packet"):
            named |= {name.asname or name.name for name in node.names if name.name == "Packet"}
    calls = (node for node in ast.walk(tree) if isinstance(node, ast.Call) and node.args)
    return [call.lineno for call in calls if ast.unparse(call.func) in named]


@pytest.mark.parametrize("folder", ["seqpipe", "tests", "data_scripts", "examples"])
def test_packets_are_made_nowhere_else(folder):
    """PyAV lends the decoder the bytes as they are; one in a few thousand test runs ended with the process."""
    files = [path for path in (ROOT / folder).rglob("*.py") if path != HOME]
    assert files
    assert [f"{path}:{line}" for path in files for line in lenders(path.read_text("utf-8"))] == []


@pytest.mark.parametrize(
    ("source", "found"),
    [
        ("import av\nav.Packet(data)", [2]),
        ("from av.packet import Packet as P\nx = P(b'')", [2]),
        ("from av import Packet\nPacket(3)\nPacket()", [2]),
        ("Packet(5)", []),
    ],
)
def test_they_are_found_where_they_are_made(source, found):
    assert lenders(source) == found
