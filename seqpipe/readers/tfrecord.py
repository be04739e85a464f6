"""TensorFlow's record files: where their records are, and the features of a record."""

from __future__ import annotations

import os
import struct
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np

from ..array import Array
from ..core.files.checks import VERIFY, masked_crc32c, verifies
from ..errors import ManifestError, SourceNotFoundError, UnreadableSourceError

__all__ = ["Feature", "RecordSpan", "read_features", "records_of"]

_HEADER: Final = 12
_FOOTER: Final = 4
_LISTS: Final = {1: "string", 2: "float32", 3: "int64"}
"""Kinds of values by the field of ``tf.train.Feature`` that holds them."""
_VARINT, _EIGHT_BYTES, _BYTES, _FOUR_BYTES = 0, 1, 2, 5
"""Wire types of protocol buffers."""


class Feature(NamedTuple):
    """A feature of records.

    Attributes:
        kind: ``"int64"``, ``"string"`` or ``"float32"``.
        shape: shape of the values; of one element of the first axis if the length varies.
        default: value of records without the feature.
        varies: whether records differ in the number of values.
    """

    kind: str
    shape: tuple[int, ...]
    default: Any
    varies: bool


class RecordSpan(NamedTuple):
    """A record of a file, with the position of its header."""

    path: str
    offset: int
    size: int

    @property
    def source(self) -> str:
        """``source_info`` as in DALI."""
        return f"{self.path} at index {self.offset}"


def records_of(path: str, index: str | None = None) -> Iterator[RecordSpan]:
    """Iterate over the records of a file: by the index file that ``tfrecord2idx`` makes, or by their headers.

    Raises:
        SourceNotFoundError: a file does not exist.
        ManifestError: a line of the index is not valid.
        UnreadableSourceError: the file is no file of records, or is not complete.
    """
    return _by_headers(path) if index is None else _by_index(index, path)


def _by_headers(path: str) -> Iterator[RecordSpan]:
    """Iterate over the records of a file by their headers."""
    if not Path(path).is_file():
        raise SourceNotFoundError("there is no such file", source=path)
    length, offset = Path(path).stat().st_size, 0
    with Path(path).open("rb") as file:
        while offset < length:
            file.seek(offset)
            header = file.read(_HEADER)
            size = int.from_bytes(header[:8], "little") + _HEADER + _FOOTER
            if len(header) < _HEADER or offset + size > length:
                raise UnreadableSourceError(
                    f"no record of TensorFlow's at byte {offset} of {length}",
                    source=path,
                    advice="Check that the file is complete, and not compressed",
                )
            yield RecordSpan(path, offset, size)
            offset += size


def _by_index(index: str, path: str) -> Iterator[RecordSpan]:
    """Iterate over the records of a file by its index file, made by ``tfrecord2idx``."""
    for file in (path, index):
        if not Path(file).is_file():
            raise SourceNotFoundError("there is no such file", source=file)
    for number, line in enumerate(Path(index).read_text(encoding="utf-8").splitlines(), 1):
        try:
            offset, size = map(int, line.split())
            if offset < 0:
                raise ValueError(offset)
        except ValueError as error:
            raise ManifestError(
                f"line {number}: {line!r}", source=index, allowed="offset and size, as by tfrecord2idx"
            ) from error
        yield RecordSpan(path, offset, size)


def read_features(record: RecordSpan, features: Mapping[str, Feature]) -> tuple[Array, ...]:
    """Read the features of a record; those that are strings are arrays of bytes.

    The checksums of length and data are verified, unless the environment variable ``SEQPIPE_VERIFY`` is 0.

    Raises:
        UnreadableSourceError: the record is damaged, or a feature is not as described.
    """
    try:
        with Path(record.path).open("rb") as file:
            left = os.fstat(file.fileno()).st_size - record.offset
            if not _HEADER + _FOOTER <= record.size <= left:
                raise UnreadableSourceError(
                    f"a record of {record.size} bytes, but {left} are left", source=record.source
                )
            whole = memoryview(os.pread(file.fileno(), record.size, record.offset))
    except OSError as error:
        raise UnreadableSourceError(f"cannot be read: {error.strerror}", source=record.source) from error
    data = whole[_HEADER:-_FOOTER]
    if verifies():
        _verify(whole, record)
    try:
        recorded = dict(_features_of(data))
    except (IndexError, ValueError, UnicodeDecodeError, struct.error) as error:
        raise UnreadableSourceError(f"no tf.train.Example: {error}", source=record.source) from error
    return tuple(
        _value(name, feature, recorded.get(name), record.source) for name, feature in features.items()
    )


def _verify(whole: memoryview, record: RecordSpan) -> None:
    """Compare a record with its length and its checksums."""
    parts = {"length": whole[: _HEADER - _FOOTER], "data": whole[_HEADER:-_FOOTER]}
    sums = {"length": whole[_HEADER - _FOOTER : _HEADER], "data": whole[-_FOOTER:]}
    for name, part in parts.items():
        if masked_crc32c(part) != int.from_bytes(sums[name], "little"):
            raise UnreadableSourceError(
                f"the checksum of the record's {name} is wrong",
                source=record.source,
                advice=f"The file is damaged, or its index is of another file; {VERIFY}=0 does not verify",
            )
    if int.from_bytes(parts["length"], "little") != len(parts["data"]):
        raise UnreadableSourceError(
            f"the record has {int.from_bytes(parts['length'], 'little')} bytes of data",
            source=record.source,
            allowed=f"{len(parts['data'])}, as its index says",
            advice="The index is of another file",
        )


def _value(name: str, feature: Feature, recorded: tuple[str, Any] | None, source: str) -> Array:
    """Return the array of a feature."""
    kind, values = recorded or (feature.kind, [])
    if kind != feature.kind:
        raise UnreadableSourceError(f"the feature {name!r} is {kind}, not {feature.kind}", source=source)
    if not len(values) and not feature.varies:
        if feature.default is None:
            raise UnreadableSourceError(f"the feature {name!r} is missing, and has no default", source=source)
        if kind != "string":
            return np.full(feature.shape, feature.default, kind)
        values = [feature.default.encode() if isinstance(feature.default, str) else feature.default]
    if kind == "string":
        return np.frombuffer(values[0], np.uint8).copy()
    array: Array = np.asarray(values, kind)
    try:
        return array.reshape(-1, *feature.shape) if feature.varies else array.reshape(feature.shape)
    except ValueError as error:
        raise UnreadableSourceError(
            f"the feature {name!r} has {len(array)} values", source=source, allowed=f"shape {feature.shape}"
        ) from error


def _features_of(example: memoryview) -> Iterator[tuple[str, tuple[str, Any]]]:
    """Iterate over the features of a ``tf.train.Example``: name, and kind and values."""
    for features in _messages(example, 1):
        for entry in _messages(features, 1):
            name = b"".join(_messages(entry, 1)).decode()
            for feature in _messages(entry, 2):
                for field, _, values in _fields(feature):
                    if field in _LISTS:
                        yield name, (_LISTS[field], _list_of(_LISTS[field], values))


def _list_of(kind: str, message: Any) -> Any:
    """Return the values of a ``BytesList``, ``FloatList`` or ``Int64List``, whose numbers may be packed."""
    if kind == "string":
        return list(_messages(message, 1))
    numbers: list[Any] = []
    for field, wire, value in _fields(message):
        if field != 1:
            continue
        if kind == "float32":
            numbers += np.frombuffer(value, "<f4").tolist()
        else:
            numbers += map(_signed, _varints(value) if wire == _BYTES else [value])
    return numbers


def _signed(number: int) -> int:
    return number - (1 << 64) if number >> 63 else number


def _messages(message: memoryview, number: int) -> Iterator[memoryview]:
    """Iterate over the values of one field of a message."""
    return (value for field, wire, value in _fields(message) if field == number and wire == _BYTES)


def _fields(message: memoryview) -> Iterator[tuple[int, int, Any]]:
    """Iterate over the fields of a protocol buffer's message: number, wire type, and an integer or bytes."""
    position = 0
    while position < len(message):
        key, position = _varint(message, position)
        wire = key & 7
        if wire == _VARINT:
            value, position = _varint(message, position)
            yield key >> 3, wire, value
            continue
        if wire == _BYTES:
            size, position = _varint(message, position)
        elif wire in (_EIGHT_BYTES, _FOUR_BYTES):
            size = 8 if wire == _EIGHT_BYTES else 4
        else:
            raise ValueError(f"a field of wire type {wire}")
        if position + size > len(message):
            raise ValueError("a field reaches past the end")
        yield key >> 3, wire, message[position : position + size]
        position += size


def _varint(message: memoryview, position: int) -> tuple[int, int]:
    """Return the integer at a position, and the position after it."""
    number = shift = 0
    while True:
        byte = message[position]
        number |= (byte & 0x7F) << shift
        position, shift = position + 1, shift + 7
        if byte < 0x80:
            return number & 0xFFFFFFFFFFFFFFFF, position


def _varints(message: memoryview) -> Iterator[int]:
    """Yield the variable-length numbers of a packed field."""
    position = 0
    while position < len(message):
        number, position = _varint(message, position)
        yield number
