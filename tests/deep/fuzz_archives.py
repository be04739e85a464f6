"""Damaged copies of archives of arrays and samples, and what reading one may not do: see :mod:`tests.support.fuzz`."""

from __future__ import annotations

import io
import struct
import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

import seqpipe
from seqpipe import flow
from seqpipe.core.files.checks import masked_crc32c
from seqpipe.dali import fn, pipeline_def
from seqpipe.dali import tfrecord as tfrec
from tests.support.fuzz import Mutant, Verdict
from tests.support.media import MADE_DIR

__all__ = ["sources", "tried"]

_MOST_MIB = 300
_BATCH = 3


def sources(which: str) -> list[Path]:
    """Return the archives to damage; there are none among the shared files."""
    folder = MADE_DIR / "archives"
    folder.mkdir(parents=True, exist_ok=True)
    values = np.arange(5 * 12 * 14, dtype=np.int16).reshape(5, 12, 14)
    np.save(folder / "c.npy", values)
    np.save(folder / "fortran.npy", np.asfortranarray(values.astype(">f4")))
    np.savez(folder / "stored.npz", image=values, affine=np.eye(4))
    np.savez_compressed(folder / "deflated.npz", image=values)
    np.savez_compressed(folder / "flow.npz", flow=np.ones((3, 4, 5, 2), np.float32))
    picture = io.BytesIO()
    Image.fromarray(values[0].astype(np.uint8)).save(picture, "PNG")
    for name, form in {"gnu.tar": tarfile.GNU_FORMAT, "pax.tar": tarfile.PAX_FORMAT}.items():
        with tarfile.open(folder / name, "w", format=form) as archive:
            for number in range(4):
                for ending, content in {"png": picture.getvalue(), "cls": b"%d" % number}.items():
                    member = tarfile.TarInfo(f"{'long/' * 30}{number}.{ending}")
                    member.size = len(content)
                    archive.addfile(member, io.BytesIO(content))
    record = b"".join(map(_record, (picture.getvalue(), b"abc", b"x" * 3000)))
    (folder / "three.tfrecord").write_bytes(record)
    return sorted(folder.iterdir()) if which != "shared" else []


def _record(data: bytes) -> bytes:
    def field(content: bytes) -> bytes:
        size, head = len(content), b""
        while size > 0x7F:
            size, head = size >> 7, head + bytes([size & 0x7F | 0x80])
        return head + bytes([size]) + content

    feature = b"\x0a\x05image\x12" + field(b"\x0a" + field(b"\x0a" + field(data)))
    example = b"\x0a" + field(b"\x0a" + field(feature))
    length = struct.pack("<Q", len(example))
    sums = [struct.pack("<I", masked_crc32c(part)) for part in (length, example)]
    return length + sums[0] + example + sums[1]


def tried(subject: Mutant, folder: Path, *, device: str = "cpu", seed: int = 0) -> Verdict:
    """Read a mutant by every reader of its format.

    Args:
        subject: the mutant.
        folder: for its file.
        device: not used: archives are read by the CPU.
        seed: not used: everything is read.
    """
    del device, seed
    verdict = Verdict()
    path = folder / f"{subject.number}{Path(subject.name).suffix}"
    with verdict.bounded(subject, _MOST_MIB):
        path.write_bytes(subject.data)
        for way in _WAYS[path.suffix]:
            with verdict.judged(subject):
                way(str(path))
        path.unlink()
    return verdict


def _run(build: Callable[[], Any]) -> None:
    pipe = pipeline_def(build, batch_size=_BATCH, num_threads=1, device_id=None)()
    try:
        pipe.build()
        pipe.run()
    finally:
        pipe.close()


def _records(path: str) -> None:
    features = {"image": tfrec.FixedLenFeature((), tfrec.string, "")}
    _run(lambda: fn.readers.tfrecord(path=[path], features=features)["image"])


def _members(path: str) -> None:
    _run(
        lambda: tuple(
            fn.readers.webdataset(paths=[path], ext=["png", "cls"], missing_component_behavior="empty")
        )
    )


def _array(path: str) -> None:
    _run(lambda: fn.readers.numpy(files=[path]))


def _decoded_array(path: str) -> None:
    raw = np.fromfile(path, np.uint8)
    _run(lambda: fn.decoders.numpy(fn.external_source(source=lambda _: [raw] * _BATCH)))


def _volume(path: str) -> None:
    with seqpipe.open(path) as volume:
        volume[:1]
        volume.sequence()


_WAYS: dict[str, list[Callable[[str], Any]]] = {
    ".npy": [_array, _decoded_array, _volume],
    ".npz": [_volume, flow.read],
    ".tar": [_members],
    ".tfrecord": [_records],
}
