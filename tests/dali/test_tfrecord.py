"""``fn.readers.tfrecord``: features of records, written by Google's protocol buffers or byte by byte."""

from __future__ import annotations

import struct

import cv2
import numpy as np
import pytest

from seqpipe.dali import fn, pipeline_def
from seqpipe.dali import tfrecord as tfrec
from seqpipe.errors import ManifestError, ParameterError, SourceError, UnreadableSourceError
from tests.dali.conftest import ON_CPU, run


def field(number, value):
    """A field of bytes, or of a varint."""
    if isinstance(value, int):
        return bytes([number << 3]) + varint(value)
    return bytes([number << 3 | 2]) + varint(len(value)) + value


def varint(number):
    number &= (1 << 64) - 1
    groups = [number >> shift & 0x7F for shift in range(0, max(number.bit_length(), 1), 7)]
    return bytes([*(group | 0x80 for group in groups[:-1]), groups[-1]])


def feature(*values, packed=True):
    """A ``tf.train.Feature`` of bytes, floats or integers."""
    if isinstance(values[0], bytes):
        return field(1, b"".join(field(1, value) for value in values))
    if isinstance(values[0], float):
        numbers = [struct.pack("<f", value) for value in values]
        return field(2, field(1, b"".join(numbers)) if packed else b"".join(b"\x0d" + one for one in numbers))
    whole = [varint(value) for value in values]
    return field(3, field(1, b"".join(whole)) if packed else b"".join(field(1, value) for value in values))


def example(**features):
    entries = (field(1, field(1, name.encode()) + field(2, value)) for name, value in features.items())
    return field(1, b"".join(entries))


def masked_crc(data):
    """TensorFlow's checksum, bit by bit."""
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82F63B78 if crc & 1 else 0)
    crc ^= 0xFFFFFFFF
    return struct.pack("<I", ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF)


def record_file(path, examples):
    """Write records and their index."""
    offset, lines, whole = 0, [], b""
    for one in examples:
        length = struct.pack("<Q", len(one))
        record = length + masked_crc(length) + one + masked_crc(one)
        lines.append(f"{offset} {len(record)}\n")
        offset, whole = offset + len(record), whole + record
    path.write_bytes(whole)
    path.with_suffix(".idx").write_text("".join(lines))
    return str(path), str(path.with_suffix(".idx"))


def read(paths, features, *, count=1, batch_size=3, **options):
    def reader():
        found = fn.readers.tfrecord(path=paths, features=features, **options)
        assert list(found) == list(features)
        return tuple(found.values())

    batches = run(reader, batch_size=batch_size, count=count)
    return [[[np.asarray(part.at(n)) for n in range(len(part))] for part in batch] for batch in batches]


FIXED, VARIED = tfrec.FixedLenFeature, tfrec.VarLenFeature


@pytest.fixture
def records(tmp_path):
    """Two files of three and two records."""
    examples = [
        example(
            image=feature(cv2.imencode(".png", np.full((3, 4, 3), n, np.uint8))[1].tobytes()),
            label=feature(n),
            box=feature(*(n + 0.25 * k for k in range(4 * (n % 3) + 4)), packed=n % 2 == 0),
            far=feature(-1 - n, 1 << 40, packed=n % 2 == 1),
        )
        for n in range(5)
    ]
    made = [
        record_file(tmp_path / f"{k}.tfrecord", part) for k, part in enumerate((examples[:3], examples[3:]))
    ]
    return [list(one) for one in zip(*made, strict=True)]


@pytest.mark.parametrize("indexed", [True, False])
def test_features_of_each_kind(records, indexed):
    options = {"index_path": records[1]} if indexed else {}
    features = {
        "image": FIXED((), tfrec.string, ""),
        "label": FIXED([1], tfrec.int64, -1),
        "box": VARIED([4], tfrec.float32, 0.0),
        "far": FIXED([2, 1], tfrec.int64, 0),
    }
    images, labels, boxes, far = read(records[0], features, batch_size=5, **options)[0]
    assert [int(cv2.imdecode(image, 1)[0, 0, 0]) for image in images] == list(range(5))
    assert [(one.dtype.name, one.tolist()) for one in labels] == [("int64", [n]) for n in range(5)]
    assert [one.shape for one in boxes] == [(1, 4), (2, 4), (3, 4), (1, 4), (2, 4)]
    assert boxes[1].tolist() == [[1, 1.25, 1.5, 1.75], [2, 2.25, 2.5, 2.75]]
    assert {one.dtype.name for one in boxes} == {"float32"}
    assert [one.tolist() for one in far] == [[[-1 - n], [1 << 40]] for n in range(5)]


def test_records_by_protocol_buffers(tmp_path):
    """The wire format as Google's library writes it."""
    pool = pytest.importorskip("google.protobuf.descriptor_pool")
    from google.protobuf import descriptor_pb2, message_factory

    kinds = descriptor_pb2.FieldDescriptorProto
    file = descriptor_pb2.FileDescriptorProto(name="example.proto", package="t", syntax="proto3")

    def message(name, *fields):
        made = file.message_type.add(name=name)
        for number, (title, kind, label, type_name) in enumerate(fields, 1):
            made.field.add(name=title, number=number, type=kind, label=label, type_name=type_name)

    many, single = kinds.LABEL_REPEATED, kinds.LABEL_OPTIONAL
    message("Strings", ("value", kinds.TYPE_BYTES, many, None))
    message("Floats", ("value", kinds.TYPE_FLOAT, many, None))
    message("Integers", ("value", kinds.TYPE_INT64, many, None))
    lists = (("bytes_list", ".t.Strings"), ("float_list", ".t.Floats"), ("int64_list", ".t.Integers"))
    message("Feature", *((name, kinds.TYPE_MESSAGE, single, kind) for name, kind in lists))
    message(
        "Entry", ("key", kinds.TYPE_STRING, single, None), ("value", kinds.TYPE_MESSAGE, single, ".t.Feature")
    )
    message("Features", ("feature", kinds.TYPE_MESSAGE, many, ".t.Entry"))
    message("Example", ("features", kinds.TYPE_MESSAGE, single, ".t.Features"))
    found = pool.DescriptorPool()
    found.Add(file)
    made = message_factory.GetMessageClass(found.FindMessageTypeByName("t.Example"))()
    numbers, floats = [0, -7, 1 << 62, 300], [0.5, -1e30]
    made.features.feature.add(key="a").value.int64_list.value.extend(numbers)
    made.features.feature.add(key="b").value.float_list.value.extend(floats)
    made.features.feature.add(key="ü").value.bytes_list.value.append(b"\x00\xff")
    path, _ = record_file(tmp_path / "a.tfrecord", [made.SerializeToString()])
    features = {
        "a": VARIED(tfrec.int64, 0),
        "b": VARIED(tfrec.float32, 0.0),
        "ü": FIXED((), tfrec.string, ""),
    }
    (a,), (b,), (c,) = read(path, features, batch_size=1)[0]
    assert a.tolist() == numbers
    assert b.tolist() == np.float32(floats).tolist()
    assert c.tolist() == [0, 255]


def test_missing_features(tmp_path):
    path, _ = record_file(tmp_path / "a.tfrecord", [example(label=feature(5))])
    features = {
        "fixed": FIXED([2], tfrec.float32, 9.0),
        "text": FIXED((), tfrec.string, "zz"),
        "none": FIXED((), tfrec.string, ""),
        "varied": VARIED([3], tfrec.int64, 7),
    }
    fixed, text, none, varied = (
        [part[0].tolist(), part[0].shape] for part in read(path, features, batch_size=1)[0]
    )
    assert (fixed, text) == ([[9, 9], (2,)], [[122, 122], (2,)])
    assert (none[1], varied[1]) == ((0,), (0, 3))
    for feature_, message in (
        (FIXED([2], tfrec.float32), "the feature 'x' is missing, and has no default"),
        (FIXED([2], tfrec.int64, 0), r"the feature 'label' has 1 values; allowed: shape \(2,\)"),
        (FIXED([1], tfrec.float32, 0.0), "the feature 'label' is int64, not float32"),
    ):
        name = "x" if "missing" in message else "label"
        with pytest.raises(UnreadableSourceError, match=rf"a\.tfrecord at index 0: {message}"):
            read(path, {name: feature_}, batch_size=1)


def test_epochs_shards_and_checkpoints(records):
    def labels(checkpoint=None, count=2, **options):
        def reader():
            features = {"label": FIXED([], tfrec.int64, -1)}
            return fn.readers.tfrecord(path=records[0], features=features, random_shuffle=True, **options)[
                "label"
            ]

        pipe = pipeline_def(reader, batch_size=1, seed=0, **ON_CPU)(checkpoint=checkpoint)
        return [int(pipe.run()[0].at(0)) for _ in range(count)], pipe.checkpoint()

    whole, _ = labels(count=10)
    assert sorted(whole[:5]) == sorted(whole[5:]) == list(range(5))
    head, state = labels(count=3)
    assert head + labels(checkpoint=state, count=7)[0] == whole
    shards = [labels(shard_id=n, num_shards=2, count=2 + n)[0] for n in (0, 1)]
    assert sorted(shards[0] + shards[1]) == list(range(5))


def test_refusals(records, tmp_path):
    label = {"label": FIXED([1], tfrec.int64, -1)}
    cut = tmp_path / "cut.tfrecord"
    cut.write_bytes((tmp_path / "0.tfrecord").read_bytes()[:-3])
    bad, index = record_file(tmp_path / "bad.tfrecord", [b"\x0b no example"])
    for arguments, kind, message in (
        ({"paths": records[0], "features": {}}, ParameterError, r"which features\?; allowed: path"),
        ({"paths": records[0], "features": {"a": 3}}, ParameterError, "the feature 'a' is an int"),
        ({"paths": records[0], "features": label, "index_path": index}, ParameterError, "1 index_path for 2"),
        ({"paths": "none", "features": label}, SourceError, "none: there is no such file"),
        ({"paths": str(cut), "features": label}, UnreadableSourceError, "no record of TensorFlow's at byte"),
        (
            {"paths": bad, "features": label},
            UnreadableSourceError,
            r"no tf\.train\.Example: a field of wire type 3",
        ),
    ):
        with pytest.raises(kind, match=message):
            read(**arguments)
    (tmp_path / "bad.idx").write_text("0 30 x\n")
    with pytest.raises(ManifestError, match=r"line 1: '0 30 x'; allowed: offset and size"):
        read(bad, label, index_path=index)
    with pytest.raises(
        ParameterError, match=r"VarLenFeature\(1, ''\) is not valid.*single string as a Fixed"
    ):
        VARIED(tfrec.string, "")
    with pytest.raises(ParameterError, match=r"dtype=9 is not valid; allowed: tfrecord\.int64"):
        FIXED([1], 9, 0)


def test_checksums_are_verified_unless_they_are_turned_off(tmp_path, monkeypatch):
    """One byte of a record that was flipped was given out without a word."""
    picture = bytes(range(256)) * 9
    path, index = record_file(tmp_path / "a.rec", [example(a=feature(picture)), example(a=feature(b"b"))])
    whole, features = (tmp_path / "a.rec").read_bytes(), {"a": FIXED((), tfrec.string, "")}
    assert read(path, features, index_path=index, batch_size=2)[0][0][0].tobytes() == picture
    for at, name in ((3, "length"), (9, "length"), (100, "data"), (2000, "data"), (2330, "data")):
        damaged = bytearray(whole)
        damaged[at] ^= 16
        (tmp_path / "a.rec").write_bytes(damaged)
        with pytest.raises(
            UnreadableSourceError, match=rf"a\.rec at index 0: the checksum of the record's {name} is wrong"
        ):
            read(path, features, index_path=index, batch_size=2)
    monkeypatch.setenv("SEQPIPE_VERIFY", "0")
    assert read(path, features, index_path=index, batch_size=2)[0][0][1].tobytes() == b"b"


def test_an_index_that_lies(tmp_path):
    path, index = record_file(tmp_path / "a.rec", [example(a=feature(b"b"))] * 2)
    offset, size = map(int, (tmp_path / "a.idx").read_text().splitlines()[1].split())
    features = {"a": FIXED((), tfrec.string, "")}
    for line, message in (
        (f"{offset} {1 << 40}", "a record of 1099511627776 bytes, but"),
        (f"{offset} 3", "a record of 3 bytes"),
        (f"{1 << 40} {size}", f"a record of {size} bytes, but -"),
        (f"0 {2 * size}", "the checksum of the record's data is wrong"),
        (f"-5 {size}", "line 1"),
    ):
        (tmp_path / "a.idx").write_text(line + "\n")
        with pytest.raises(SourceError if "line" not in message else ManifestError, match=message):
            read(path, features, index_path=index, batch_size=1)
