"""Packets and headers whose bytes are followed by the zeros that libavcodec reads on into, and no others anywhere."""

from __future__ import annotations

import ast
import ctypes
from pathlib import Path

import av
import pytest

from seqpipe.video.probe.probe import av_packet, set_extradata

ROOT = Path(__file__).resolve().parents[2]
HOME = ROOT / "seqpipe/video/probe/probe.py"
PADDING = 64  # AV_INPUT_BUFFER_PADDING_SIZE


@pytest.mark.parametrize("size", [1, 63, 64, 511, 512, 100_000, 1 << 20])
def test_zeros_follow_the_bytes(size):
    """Many at a time: memory that was used before holds something else."""
    data = b"\xff" * size
    for packet in [av_packet(data) for _ in range(20)]:
        assert ctypes.string_at(packet.buffer_ptr, size + PADDING) == data + bytes(PADDING)
        assert packet.size == size


@pytest.mark.parametrize("size", [1, 30, 106, 500, 5000])
def test_zeros_follow_the_headers(size):
    """Of 120 decoders given them by PyAV alone, 110 had something else there, and valgrind saw libavcodec go by it."""
    before = [av.CodecContext.create("h264", "r") for _ in range(20)]
    for context in before:
        context.extradata = b"\xff" * (size + PADDING)
    context = None
    before.clear()
    data, contexts = b"\x01" * size, [av.CodecContext.create("h264", "r") for _ in range(20)]
    for context in contexts:
        set_extradata(context, data)
        assert context.extradata == data
        assert ctypes.string_at(extradata_address(context), size + PADDING) == data + bytes(PADDING)


def extradata_address(context):
    """Where they lie: in FFmpeg's structure, which is the first thing that PyAV's object has of its own."""
    structure = ctypes.c_void_p.from_address(id(context) + 3 * ctypes.sizeof(ctypes.c_void_p)).value
    assert ctypes.c_int.from_address(structure + 80).value == context.extradata_size
    return ctypes.c_void_p.from_address(structure + 72).value


def test_no_headers_are_none():
    context = av.CodecContext.create("h264", "r")
    set_extradata(context, b"")
    assert context.extradata is None


def lenders(source: str) -> list[int]:
    """The lines in which a packet of PyAV is made of something, or a decoder is given headers."""
    if "Packet" not in source and "extradata" not in source:
        return []
    named = {"av.Packet", "av.packet.Packet", "packet.Packet"}
    tree = ast.parse(source)
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module in ("av", "av.packet"):
            named |= {name.asname or name.name for name in node.names if name.name == "Packet"}
    calls = (
        node
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and node.args and isinstance(node.func, (ast.Name, ast.Attribute))
    )
    found = [call.lineno for call in calls if ast.unparse(call.func) in named]
    attributes = (
        node for node in ast.walk(tree) if isinstance(node, ast.Attribute) and node.attr == "extradata"
    )
    return found + [node.lineno for node in attributes if isinstance(node.ctx, ast.Store)]


@pytest.mark.parametrize("folder", ["seqpipe", "tests", "data_scripts", "examples"])
def test_packets_and_headers_are_given_nowhere_else(folder):
    """PyAV lends the decoder a packet's bytes as they are; one in a few thousand test runs ended with the process."""
    files = [path for path in (ROOT / folder).rglob("*.py") if path not in (HOME, Path(__file__))]
    assert files
    assert [f"{path}:{line}" for path in files for line in lenders(path.read_text("utf-8"))] == []


@pytest.mark.parametrize(
    ("source", "found"),
    [
        ("import av\nav.Packet(data)", [2]),
        ("from av.packet import Packet as P\nx = P(b'')", [2]),
        ("from av import Packet\nPacket(3)\nPacket()", [2]),
        ("Packet(5)", []),
        ("context.extradata = data\nx = context.extradata", [1]),
    ],
)
def test_they_are_found_where_they_are_made(source, found):
    assert lenders(source) == found
