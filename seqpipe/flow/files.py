"""File formats of flow: Middlebury ``.flo``, KITTI's 16-bit ``.png``, and ``.npz``."""

from __future__ import annotations

import io
import os
import struct
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt

from ..array import to_numpy
from ..core.files.images import decode_pixels
from ..core.files.npy import array_of_npy, member_bytes, reading_zip
from ..core.whole_file import replacing
from ..errors import OutputError, ParameterError, SourceNotFoundError, UnreadableSourceError
from ..sequence import Sequence
from .values import flow_array

__all__ = ["FORMATS", "decode", "encode", "read", "write"]

Field = npt.NDArray[np.float32]

_MAGIC: Final = b"PIEH"  # 202021.25 as float32, little endian
_UNKNOWN: Final = 1e10  # Middlebury: components above 1e9 are unknown
_UNKNOWN_FROM: Final = 1e9
_MAX_SIDE: Final = 1 << 16  # pixels; a larger size in a header counts as damage
_KITTI_ONE, _KITTI_ZERO = 64.0, 32768.0


def read(path: str | os.PathLike[str]) -> Any:
    """Read flow from a file.

    Args:
        path: a file with the extension .flo, .png or .npz.

    Returns:
        float32 ``(h, w, 2)``, NaN where unknown; for .npz what was written: an array ``(…, h, w, 2)``, or a Sequence
        with frame numbers and timestamps.

    Raises:
        SourceNotFoundError: the file does not exist.
        UnreadableSourceError: the file contains no flow, or is damaged.
        ParameterError: the file has another extension.
    """
    file = Path(path)
    name = _format_of(file, "read")
    try:
        content = file.read_bytes()
    except FileNotFoundError as error:
        raise SourceNotFoundError("there is no such file", source=str(file)) from error
    except OSError as error:
        raise UnreadableSourceError(
            f"the file cannot be read ({error.strerror})", source=str(file)
        ) from error
    return decode(content, name, str(file))


def write(path: str | os.PathLike[str], flow: Any) -> None:
    """Write flow to a file atomically.

    Args:
        path: a file with the extension .flo, .png or .npz, in an existing folder.
        flow: ``(h, w, 2)`` in pixels; for .npz also ``(…, h, w, 2)``, or a Sequence, with its frame numbers and
            timestamps.

    Raises:
        ParameterError: ``flow`` is not a flow or has too many axes, or the path has another extension.
        OutputError: the file cannot be written.
    """
    file = Path(path)
    content = encode(flow, _format_of(file, "write"))
    try:
        with replacing(file) as part:
            part.write_bytes(content)
    except OSError as error:
        raise OutputError(
            f"the file cannot be written ({error.strerror})",
            source=str(file),
            advice="Choose a folder that is there and that you may write to",
        ) from error


def encode(flow: Any, name: str) -> bytes:
    """Encode flow as the content of a file.

    Args:
        flow: see :func:`write`.
        name: name of the format, one of :data:`FORMATS`.

    Raises:
        ParameterError: ``flow`` is not a flow or has too many axes, or the format does not exist.
    """
    return _format(name).encode(flow)


def decode(content: bytes, name: str, source: str = "") -> Any:
    """Decode the content of a file; see :func:`read`.

    Args:
        content: content of the file.
        name: name of the format, one of :data:`FORMATS`.
        source: name of the source, for messages.

    Raises:
        UnreadableSourceError: the content is not a flow, or is damaged.
        ParameterError: the format does not exist.
    """
    return _format(name).decode(content, source)


def _single_field(flow: Any, name: str) -> Field:
    """Return a single flow field, (h, w, 2) float32."""
    array = to_numpy(flow_array(flow, name))
    if array.ndim > 3 and array.size == np.prod(array.shape[-3:]):
        array = array.reshape(array.shape[-3:])
    if array.ndim != 3:
        raise ParameterError(
            f"a flow of shape {array.shape} in one .{name} file",
            source="write",
            allowed="one flow (h, w, 2)",
            advice="Write each frame to a file of its own, or all of them as .npz",
        )
    return np.ascontiguousarray(array, np.float32)


def _damaged(fact: str, source: str) -> UnreadableSourceError:
    return UnreadableSourceError(fact, source=source, advice="Write or fetch the file again")


# ---------------------------------------------------------------------- Middlebury


def _to_flo(flow: Any) -> bytes:
    """Encode a field in Middlebury's format; unknown vectors get its mark."""
    field = _single_field(flow, "flo")
    height, width = field.shape[:2]
    known = np.isfinite(field).all(-1, keepdims=True)
    values = np.where(known, field, _UNKNOWN).astype("<f4")
    return _MAGIC + struct.pack("<ii", width, height) + values.tobytes()


def _from_flo(content: bytes, source: str) -> Field:
    """Decode Middlebury's format; unknown vectors become NaN."""
    if content[:4] != _MAGIC:
        raise _damaged(f"it begins with {content[:4]!r}, where a .flo file has {_MAGIC!r}", source)
    if len(content) < 12:
        raise _damaged(f"its header is cut off after {len(content)} of 12 bytes", source)
    width, height = struct.unpack("<ii", content[4:12])
    if not (0 < width <= _MAX_SIDE and 0 < height <= _MAX_SIDE):
        raise _damaged(f"its header says {width}×{height} vectors", source)
    wanted = 12 + width * height * 8
    if len(content) != wanted:
        raise _damaged(f"it has {len(content)} bytes, but {width}×{height} vectors need {wanted}", source)
    field = np.frombuffer(content, "<f4", offset=12).reshape(height, width, 2).astype(np.float32)
    field[~(np.abs(field) < _UNKNOWN_FROM).all(-1)] = np.nan
    return field


# ---------------------------------------------------------------------- KITTI


def _to_png(flow: Any) -> bytes:
    import cv2

    field = _single_field(flow, "png")
    known = np.isfinite(field[..., 0]) & np.isfinite(field[..., 1])
    # components are rounded to 1/64 pixel and clipped to ±512 pixels, as by KITTI's tools
    levels = np.rint(np.where(known[..., None], field, 0).astype(np.float64) * _KITTI_ONE + _KITTI_ZERO)
    levels = np.where(known[..., None], np.clip(levels, 0, 65535), 0).astype(np.uint16)
    done, coded = cv2.imencode(".png", np.dstack([known.astype(np.uint16), levels[..., 1], levels[..., 0]]))
    if not done:
        raise OutputError(f"OpenCV cannot encode a flow of {field.shape[1]}×{field.shape[0]} as png")
    return coded.tobytes()


def _from_png(content: bytes, source: str) -> Field:
    import cv2

    try:
        decoded = decode_pixels(np.frombuffer(content, np.uint8), cv2.IMREAD_UNCHANGED, source)
    except UnreadableSourceError as error:
        raise _damaged(error.fact, source) from error
    if decoded.dtype != np.uint16 or decoded.ndim != 3 or decoded.shape[2] != 3:
        raise UnreadableSourceError(
            f"it is a picture of {decoded.dtype} of shape {decoded.shape}",
            source=source,
            allowed="KITTI's flow: 16-bit RGB",
            advice="Pictures of flow, as of to_rgb, cannot be turned back into flow",
        )
    levels = np.asarray(decoded[..., :2], np.float32)
    field = (levels - np.float32(_KITTI_ZERO)) / np.float32(_KITTI_ONE)
    field[decoded[..., 2] == 0] = np.nan
    return np.ascontiguousarray(field)


# ---------------------------------------------------------------------- NumPy


def _to_npz(flow: Any) -> bytes:
    fields: dict[str, Any] = {"flow": to_numpy(flow_array(flow, "npz")).astype(np.float32)}
    if isinstance(flow, Sequence):
        clocks = {"frames": flow.frames, "timestamps": flow.timestamps}
        fields |= {name: values for name, values in clocks.items() if values is not None}
        fields |= {"layout": np.array(flow.layout), "source": np.array(flow.source)}
    file = io.BytesIO()
    np.savez(file, **fields)
    return file.getvalue()


def _from_npz(content: bytes, source: str) -> Any:
    with (
        reading_zip(source, "it is no .npz file that can be read"),
        zipfile.ZipFile(io.BytesIO(content)) as archive,
    ):
        names = {name.removesuffix(".npy"): name for name in archive.namelist()}
        if "flow" not in names:
            raise UnreadableSourceError(
                f"it has no array 'flow', but {', '.join(sorted(names)) or 'nothing'}", source=source
            )
        fields = {
            name: array_of_npy(member_bytes(archive, names[name], source), source, "biufU")
            for name in ("flow", "layout", "source", "frames", "timestamps")
            if name in names
        }
    field = fields["flow"]
    if field.ndim < 3 or field.shape[-1] != 2 or field.dtype.kind != "f":
        raise _damaged(f"its array 'flow' is {field.dtype} of shape {field.shape}", source)
    if "layout" not in fields:
        return field
    return Sequence(
        field,
        str(fields["layout"]),
        str(fields.get("source", "")),
        frames=fields.get("frames"),
        timestamps=fields.get("timestamps"),
    )


class _Format(NamedTuple):
    """The encoder and decoder of a file format."""

    encode: Callable[[Any], bytes]
    decode: Callable[[bytes, str], Any]


_FORMATS: Final = {
    "flo": _Format(_to_flo, _from_flo),
    "png": _Format(_to_png, _from_png),
    "npz": _Format(_to_npz, _from_npz),
}
FORMATS: Final = tuple(_FORMATS)
"""The file formats of flow, by file extension."""


def _format(name: str) -> _Format:
    if name not in _FORMATS:
        raise ParameterError(f"format={name!r} is not valid", allowed=", ".join(FORMATS))
    return _FORMATS[name]


def _format_of(path: Path, source: str) -> str:
    name = path.suffix.lower().removeprefix(".")
    if name not in _FORMATS:
        raise ParameterError(
            f"{path} ends in {path.suffix or 'nothing'}",
            source=source,
            allowed=", ".join(f".{known}" for known in FORMATS),
        )
    return name
