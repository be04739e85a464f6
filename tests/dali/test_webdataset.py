"""``fn.readers.webdataset``: samples of several files from tar archives."""

from __future__ import annotations

import io
import tarfile

import cv2
import numpy as np
import pytest

from seqpipe import VideoReader
from seqpipe.dali import fn, pipeline_def, types
from seqpipe.errors import ManifestError, ParameterError, SourceError, UnreadableSourceError
from tests.dali.conftest import ON_CPU, run
from tests.support.media import made


def archive(path, entries, format=tarfile.USTAR_FORMAT):  # noqa: A002  tarfile's name
    """Write an archive of (name, bytes); for a name that ends with / of a folder, with @ of a link."""
    with tarfile.open(path, "w", format=format) as tar:
        for name, content in entries:
            entry = tarfile.TarInfo(name)
            entry.type = {"/": tarfile.DIRTYPE, "@": tarfile.SYMTYPE}.get(name[-1], tarfile.REGTYPE)
            entry.size = len(content)
            tar.addfile(entry, io.BytesIO(content))
    return str(path)


@pytest.fixture
def shards(tmp_path):
    """Two archives of four and three samples; sample 2 has no class, and a directory and others are between samples."""
    paths, number = [], 0
    for shard, count in enumerate((4, 3)):
        entries = []
        for _ in range(count):
            key = f"dir/s{shard}.x/{number:04d}"
            image = cv2.imencode(".png", np.full((4, 5, 3), number, np.uint8))[1].tobytes()
            entries.append((f"{key}.png", image))
            if number != 2:
                entries.append((f"{key}.cls", b"%d" % number))
            entries += [(f"{key}.left.NPY", np.full(2, number, np.int32).tobytes()), (f"{key}.jpg", b"x")]
            number += 1
        others = [("dir/", b""), ("dir/.hidden.png", b"x"), ("a.png@", b"")]
        paths.append(archive(tmp_path / f"{shard}.tar", entries[:4] + others + entries[4:]))
    return paths


def read(paths, ext, *, count=1, batch_size=7, **options):
    def reader():
        found = fn.readers.webdataset(paths=paths, ext=ext, name="R", **options)
        return found if isinstance(found, tuple) else (found,)

    batches = run(reader, batch_size=batch_size, count=count)
    return [[[np.asarray(part.at(n)) for n in range(len(part))] for part in batch] for batch in batches]


def texts(column):
    return [part.tobytes().decode() for part in column]


def test_each_extension_is_an_output(shards):
    images, classes, arrays = read(
        shards, ["png;jpg", "cls", "left.NPY"], dtypes=[types.UINT8] * 2 + [types.INT32]
    )[0]
    assert [int(cv2.imdecode(image, 1)[0, 0, 0]) for image in images] == list(range(7))
    assert texts(classes) == ["0", "1", "", "3", "4", "5", "6"]
    assert [part.tolist() for part in arrays] == [[n, n] for n in range(7)]
    assert {part.dtype.name for part in arrays} == {"int32"}


def test_components_name_their_place(shards):
    def reader():
        label = fn.readers.webdataset(paths=shards, ext="cls")
        return (
            fn.get_property(label, key="source_info"),
            label.source_info(),
            label.property("layout", device="cpu"),
        )

    names, same, layouts = run(reader, batch_size=3)[0]
    assert all(np.array_equal(names.at(n), same.at(n)) for n in range(3))
    assert layouts.shape() == [(0,)] * 3
    found = texts([names.at(n) for n in range(3)])
    assert found[0] == f"{shards[0]}:1536:dir/s0.x/0000.cls"
    assert found[2] == ""


@pytest.mark.parametrize(
    ("behavior", "wanted"),
    [("skip", ["0", "1", "3", "4", "5", "6"]), ("empty", ["0", "1", "", "3", "4", "5", "6"])],
)
def test_missing_components(shards, behavior, wanted):
    (found,) = read(shards, "cls", missing_component_behavior=behavior, batch_size=len(wanted))[0]
    assert texts(found) == wanted


def test_extensions_of_any_case(shards):
    (found,) = read(shards, "LEFT.npy", case_sensitive_extensions=False)[0]
    assert [len(part) for part in found] == [8] * 7
    (found,) = read(shards, "LEFT.npy")[0]
    assert [len(part) for part in found] == [0] * 7


@pytest.mark.parametrize("version", ["v1.1", "v1.2"])
def test_an_index_replaces_the_search(shards, tmp_path, version):
    indexes = []
    for path in shards:
        samples = {}
        with tarfile.open(path) as tar:
            for one in tar:
                if one.isfile() and ".hidden" not in one.name:
                    key, _, extension = one.name.partition("x/")[2].partition(".")
                    fields = [extension, str(one.offset_data), str(one.size)]
                    samples.setdefault(key, []).extend(fields + [one.name] * (version == "v1.2"))
        lines = [f"{version} {len(samples)}", *(" ".join(one) for one in samples.values())]
        indexes.append(path + ".idx")
        (tmp_path / indexes[-1]).write_text("\n".join(lines) + "\n")
    names = ["png", "cls"]
    for one, other in zip(read(shards, names)[0], read(shards, names, index_paths=indexes)[0], strict=True):
        assert all(map(np.array_equal, one, other))
    (tmp_path / indexes[0]).write_text("v1.2 5\n")
    with pytest.raises(ManifestError, match=r"line 1: 'v1.2 5', and 0 further lines; allowed: v1.1 or v1.2"):
        read(shards, names, index_paths=indexes)
    for size in (1 << 60, 1 << 20):  # no memory is taken for what is not there
        (tmp_path / indexes[0]).write_text(f"v1.2 1\npng 512 {size} a.png\n")
        with pytest.raises(UnreadableSourceError, match=f"the archive ends after .* of {size} bytes"):
            read(shards[:1], ["png"], index_paths=indexes[:1])
    (tmp_path / indexes[0]).write_text("v1.2 1\npng 512 -1 a.png\n")
    with pytest.raises(ManifestError, match=r"line 2: 'png 512 -1 a\.png'"):
        read(shards[:1], ["png"], index_paths=indexes[:1])
    (tmp_path / indexes[0]).write_text("v1.2 1\npng x 3 a.png\n")
    with pytest.raises(ManifestError, match=r"line 2: 'png x 3 a\.png'"):
        read(shards, names, index_paths=indexes)


def test_epochs_shards_and_checkpoints(shards):
    def numbers(checkpoint=None, count=4, **options):
        def reader():
            return fn.readers.webdataset(
                paths=shards, ext="left.NPY", dtypes=types.INT32, random_shuffle=True, name="R", **options
            )

        pipe = pipeline_def(reader, batch_size=2, seed=0, **ON_CPU)(checkpoint=checkpoint)
        found = []
        for _ in range(count):
            (part,) = pipe.run()
            found += np.asarray(part.as_array())[:, 0].tolist()
        return found, pipe.checkpoint(), pipe.reader_meta("R")["epoch_size"]

    whole, _, size = numbers(count=7)
    assert size == 7
    assert sorted(whole[:7]) == list(range(7))
    head, state, _ = numbers(count=3)
    rest, _, _ = numbers(checkpoint=state, count=4)
    assert head + rest == whole
    parts = [numbers(shard_id=n, num_shards=2, count=2 - (n == 0))[0] for n in (0, 1)]
    assert len({*parts[0], *parts[1]}) == 6


def test_images_and_videos_of_archives_are_decoded(tmp_path):
    video, image = made("h264").read_bytes(), cv2.imencode(".png", np.full((4, 5, 3), 9, np.uint8))[1]
    path = archive(tmp_path / "a.tar", [("0.mp4", video), ("0.png", image.tobytes())])

    def decoded():
        clip, picture = fn.readers.webdataset(paths=path, ext=["mp4", "png"])
        return fn.decoders.video(clip, sequence_length=3), fn.decoders.image(picture)

    clip, picture = run(decoded)[0]
    assert np.array_equal(clip.at(0), VideoReader(made("h264")).frames(range(3)).data)
    assert np.array_equal(picture.at(0), np.full((4, 5, 3), 9))


def test_long_names_are_read(tmp_path):
    name = f"{'d' * 130}/{'é' * 60}.cls"
    for number, format_ in enumerate((tarfile.PAX_FORMAT, tarfile.GNU_FORMAT)):
        path = archive(tmp_path / f"{number}.tar", [(name, b"7")], format_)
        assert texts(read(path, "cls", batch_size=1)[0][0]) == ["7"]


def test_an_archive_cut_short(tmp_path, shards):
    (tmp_path / "1.tar").write_bytes((tmp_path / "1.tar").read_bytes()[:3000])
    with pytest.raises(UnreadableSourceError, match=r"1\.tar"):
        read(shards, "png")


def test_refusals(shards, tmp_path):
    (tmp_path / "no.tar").write_bytes(b"no archive at all" * 100)
    for arguments, kind, message in (
        ({"paths": [], "ext": "png"}, ParameterError, r"which files\?; allowed: paths of archives"),
        ({"paths": shards, "ext": "png", "index_paths": "x"}, ParameterError, "1 index_paths for 2 paths"),
        ({"paths": shards, "ext": ["png", "cls"], "dtypes": types.INT32}, ParameterError, "1 dtypes for 2"),
        (
            {"paths": shards, "ext": "png", "missing_component_behavior": "x"},
            ParameterError,
            "missing_component_behavior='x' is not valid; allowed: 'empty', 'skip', 'error'",
        ),
        (
            {"paths": shards, "ext": "cls", "missing_component_behavior": "error"},
            UnreadableSourceError,
            r"0002\.png: a sample has no file with the extension 'cls'\. missing_component_behavior='skip'",
        ),
        (
            {"paths": shards, "ext": "cls", "dtypes": types.INT32},
            UnreadableSourceError,
            "1 bytes are no array",
        ),
        ({"paths": "none.tar", "ext": "png"}, SourceError, "none.tar: there is no such archive"),
        ({"paths": str(tmp_path / "no.tar"), "ext": "png"}, UnreadableSourceError, "not an uncompressed tar"),
    ):
        with pytest.raises(kind, match=message):
            read(**arguments)
