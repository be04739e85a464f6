"""Packed indexes: one piece of bytes each, laid out to be used where it lies, without being parsed.

A packed index is ``magic, header length, CRC-32 of the header, header (JSON), columns``. The header alone answers how
many frames a video has. Each column begins at a multiple of 64 bytes and is used as an array where it was read to; a
column that holds one value throughout, as most flags do, is that value in the header. Columns are read, not mapped:
reading an hour of video takes as long as touching its pages would, and a file that another process cuts short while it
is mapped ends this one (SIGBUS). Nothing is pickled.
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

INDEX_FORMAT = 8
"""What indexes of other versions do not have; all that is derived from an index and kept is of its format."""

PREFIX = struct.Struct("<8sII")
"""Magic, length of the header, and its CRC-32."""

_MAGIC = b"SEQPIPE\x01"
_ALIGNED = 64
_COLUMNS = tuple(field.name for field in fields(PacketTable))
# Worked out from the others, and kept because sorting an hour's timestamps takes as long as all the rest.
_ORDER = "frame_packet"


class Damaged(Exception):  # noqa: N818  a reason, not an error: what is damaged is built anew
    """These bytes are no packed index, or not a whole one."""


def pack(index: PacketIndex, stamp: Stamp) -> bytes:
    """An index in one piece.

    Args:
        index: the index.
        stamp: of the content that it describes.
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
    """How many bytes a packed index has before its columns, told from its first 16.

    Raises:
        Damaged: they are not those of a packed index.
    """
    if len(data) < PREFIX.size:
        raise Damaged
    magic, length, _ = PREFIX.unpack_from(data)
    if magic != _MAGIC:
        raise Damaged
    return PREFIX.size + int(length)


def read_header(data: bytes | memoryview) -> dict[str, Any]:
    """The header of a packed index, or of as much of one as has it.

    Raises:
        Damaged: it is not whole.
    """
    size = header_size(data)
    text = data[PREFIX.size : size]
    if len(data) < size or zlib.crc32(text) != PREFIX.unpack_from(data)[2]:
        raise Damaged
    header: dict[str, Any] = json.loads(bytes(text))
    return header


def unpack(data: memoryview, header: dict[str, Any]) -> PacketIndex:
    """The index that lies in a piece of memory; its columns are views of it, those that are learned are written there.

    Args:
        data: a packed index in memory that nobody else writes to.
        header: its header.

    Raises:
        Damaged: its columns are not whole.
        KeyError, TypeError, ValueError: it was made before all of this was noted.
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
