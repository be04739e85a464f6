"""Packed indexes: a serialization whose columns are used as arrays in place, without parsing.

A packed index is ``magic, header length, CRC-32 of the header, header (JSON), columns``. The header alone holds the
number of frames. Each column starts at a multiple of 64 bytes and is used as an array in the buffer it was read to; a
column with a single value, as most flags are, is stored in the header. Columns are read, not memory-mapped: reading the
index of an hour of video takes as long as the page faults would, and a mapped file that another process truncates ends
this process (SIGBUS). Nothing is pickled.
"""

from __future__ import annotations

import base64
import json
import struct
import zlib
from dataclasses import fields
from typing import Any

import numpy as np

from ..packet_index import LEARNED, PacketIndex, PacketTable
from ..probe.facts import clock_of
from ..probe.info import StreamInfo
from ..source.source import Stamp

__all__ = ["INDEX_FORMAT", "PREFIX", "Damaged", "header_size", "pack", "read_header", "unpack"]

INDEX_FORMAT = 9
"""Version of the format; everything that is stored and derived from an index includes it."""

PREFIX = struct.Struct("<8sII")
"""Magic, length of the header, and its CRC-32."""

_MAGIC = b"SEQPIPE\x01"
_ALIGNED = 64
_COLUMNS = tuple(field.name for field in fields(PacketTable))
# Computed from the others, and stored because sorting an hour's timestamps takes as long as reading all the rest.
_ORDER = "frame_packet"


class Damaged(Exception):  # noqa: N818  a reason, not an error: a damaged index is rebuilt
    """The bytes are not a packed index, or not a complete one."""


def pack(index: PacketIndex, stamp: Stamp) -> bytes:
    """Serialize an index.

    Args:
        index: the index.
        stamp: stamp of the indexed content.
    """
    table = index.packets
    arrays = {name: np.ascontiguousarray(getattr(table, name)) for name in _COLUMNS}
    arrays[_ORDER] = table.frame_packet.astype(np.int32)
    columns: list[list[Any]] = []
    parts: list[bytes] = []
    size = 0
    for name, array in arrays.items():
        if array.size and array.dtype == bool and (array == array[0]).all():
            columns.append([name, array.dtype.str, array.size, -1, bool(array[0])])
            continue
        columns.append([name, array.dtype.str, array.size, size, 0])
        parts += [array.tobytes(), bytes(-array.nbytes % _ALIGNED)]
        size += array.nbytes + len(parts[-1])
    body = b"".join(parts)
    header = {
        "format": INDEX_FORMAT,
        "stamp": list(stamp),
        "info": index.info.to_json(),
        "extradata": base64.b64encode(index.extradata).decode("ascii"),
        "codec_tag": index.codec_tag,
        "coded_bits": index.coded_bits,
        "dropped_at_start": index.dropped_at_start,
        "end_s": index.end_s,
        "cut": index.cut,
        "verified": index.verified,
        "set_ups": [(number, base64.b64encode(units).decode("ascii")) for number, units in index.set_ups],
        "palettes": [(number, base64.b64encode(colors).decode("ascii")) for number, colors in index.palettes],
        "ticks": clock_of(index),
        "columns": columns,
        "body_crc": zlib.crc32(body),
    }
    text = json.dumps(header, separators=(",", ":")).encode("ascii")
    text += b" " * (-(PREFIX.size + len(text)) % _ALIGNED)
    return PREFIX.pack(_MAGIC, len(text), zlib.crc32(text)) + text + body


def header_size(data: bytes | memoryview) -> int:
    """Return the number of bytes before the columns of a packed index, from its first 16 bytes.

    Raises:
        Damaged: the bytes are not those of a packed index.
    """
    if len(data) < PREFIX.size:
        raise Damaged
    magic, length, _ = PREFIX.unpack_from(data)
    if magic != _MAGIC:
        raise Damaged
    return PREFIX.size + int(length)


def read_header(data: bytes | memoryview) -> dict[str, Any]:
    """Return the header of a packed index, of which at least the header must be given.

    Raises:
        Damaged: the header is incomplete or damaged.
    """
    size = header_size(data)
    text = data[PREFIX.size : size]
    if len(data) < size or zlib.crc32(text) != PREFIX.unpack_from(data)[2]:
        raise Damaged
    header: dict[str, Any] = json.loads(bytes(text))
    return header


def unpack(data: memoryview, header: dict[str, Any]) -> PacketIndex:
    """Deserialize an index; its columns are views of ``data``, to which learned packet kinds are written.

    Args:
        data: a packed index in writable memory for its exclusive use.
        header: its header.

    Raises:
        Damaged: the columns are incomplete or damaged.
        KeyError, TypeError, ValueError: an earlier version wrote the index.
    """
    body = data[header_size(data) :]
    if zlib.crc32(body) != header["body_crc"]:
        raise Damaged
    columns = {}
    for name, kind, count, offset, value in header["columns"]:
        if offset < 0:
            columns[name] = np.full(count, value, dtype=kind)
        else:
            columns[name] = np.frombuffer(body, dtype=kind, count=count, offset=offset)
    order = columns.pop(_ORDER)
    table = PacketTable(**columns)
    growing = LEARNED if len(table.known) else ()
    for name, column in columns.items():
        column.flags.writeable = name in growing
    table.__dict__[_ORDER] = order.astype(np.int64)  # as the cached property keeps it
    return PacketIndex(
        info=StreamInfo.from_json(header["info"]),
        extradata=base64.b64decode(header["extradata"]),
        codec_tag=header["codec_tag"],
        coded_bits=header["coded_bits"],
        packets=table,
        dropped_at_start=header["dropped_at_start"],
        end_s=header["end_s"],
        cut=header["cut"],
        verified=header["verified"],
        set_ups=tuple((number, base64.b64decode(units)) for number, units in header["set_ups"]),
        palettes=tuple((number, base64.b64decode(colors)) for number, colors in header["palettes"]),
    )
