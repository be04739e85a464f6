"""TIFF files as volumes: pages, ImageJ hyperstacks and OME-TIFF, whose axes and sizes tifffile reads.

tifffile decodes plain and deflated pixels; OpenCV those that tifffile needs another package for, and palettes.
"""

from __future__ import annotations

import io
import logging
import math
import re
from collections.abc import Mapping
from collections.abc import Sequence as Seq
from typing import Any, Final
from xml.etree import ElementTree

import numpy as np

from ...core.files.images import check_image
from ...errors import SeqpipeError, UnreadableSourceError
from ..info import VolumeInfo, checked_affine, checked_shape
from ..source import AnyArray, Box, Source, chosen_times, damaged
from .gunzip import check_size
from .npy import plain_affine
from .start import Start

__all__ = ["TiffVolume", "open_tiff"]

logging.getLogger("tifffile").addHandler(
    logging.NullHandler()
)  # what it finds damaged comes as an error, or is read

_LETTERS: Final = {"Y": "H", "X": "W", "Z": "D", "T": "F", "C": "C", "S": "C"}
_PAGES: Final = "IQR"
"""tifffile's letters for pages without a meaning; they are slices, or volumes of a series where slices are known."""

_MM: Final = {
    **dict.fromkeys(("nm", "nanometer"), 1e-6),
    **dict.fromkeys(("um", "µm", "μm", "\\u00b5m", "micron", "microns", "micrometer"), 1e-3),
    **dict.fromkeys(("mm", "millimeter"), 1.0),
    **dict.fromkeys(("cm", "centimeter"), 10.0),
    **dict.fromkeys(("m", "meter"), 1000.0),
    **dict.fromkeys(("inch", "inches", "in", '"'), 25.4),
    "pm": 1e-9,
    "dm": 100.0,
    "å": 1e-7,
}
_SECONDS: Final = {
    "s": 1.0,
    "sec": 1.0,
    "ms": 1e-3,
    "msec": 1e-3,
    "µs": 1e-6,
    "us": 1e-6,
    "min": 60.0,
    "h": 3600.0,
}
_NO_UNIT: Final = "the file states no unit of lengths: mm is assumed"
_INCH, _CENTIMETER = 2, 3
_PALETTE: Final = 3
_WHITE_IS_ZERO: Final = 0
_KINDS: Final = "iufc"


def open_tiff(source: Source, start: Start) -> TiffVolume:
    """Open a TIFF file."""
    del start
    return TiffVolume(source)


class TiffVolume:
    """A :class:`~seqpipe.volume.source.VolumeSource` of the pages of one TIFF file.

    Args:
        source: the file.

    Raises:
        UnreadableSourceError: it cannot be decoded, its pages differ, or it has axes that a volume does not have.
    """

    def __init__(self, source: Source) -> None:
        self._source = source
        self._voxels: AnyArray | None
        self._voxels, self.info = _read(source)

    def read(self, box: Box, times: Seq[int] | None = None) -> AnyArray:
        """Read voxels in their stored dtype; see :class:`~seqpipe.volume.source.VolumeSource`."""
        box, chosen = box.checked(self.info), chosen_times(self.info, times)
        if self._voxels is None:
            self._voxels, info = _read(self._source)
            if (info.shape, info.dtype) != (self.info.shape, self.info.dtype):
                raise damaged(self.info.source, "the pages are others than before")
        if self.info.layout == "DHWC":
            return self._voxels[box.slices].copy()
        return self._voxels[(chosen, *box.slices)]

    @property
    def sources(self) -> Seq[Source]:
        """The files with the voxels."""
        return (self._source,)

    def close(self) -> None:
        """Close the file and release its pages."""
        self._voxels = None
        self._source.close()


def _read(source: Source) -> tuple[AnyArray, VolumeInfo]:
    """Return the voxels in the order of the layout, and the facts of the header."""
    import tifffile

    data = source.read([(0, source.size())])[0]
    check_image(memoryview(data), source.name)
    try:
        with tifffile.TiffFile(io.BytesIO(data)) as file:
            series = _only_series(file, source.name)
            shape = checked_shape(tuple(series.shape), source.name)
            axes = _axes(series.axes, shape, source.name)
            array, axes = _pixels(series, data, axes, source.name)
            notes = _notes(series)
            spacing, step_s, more = _sizes(file, series)
    except SeqpipeError:
        raise
    except Exception as error:
        # tifffile raises various errors for damaged files
        raise _undecodable(source.name, f"{type(error).__name__}: {error}") from error
    voxels = _arranged(array, axes)
    affine, fixed = checked_affine(plain_affine(spacing), source.name)
    stated = " × ".join(f"{size:g}" for size in spacing) + " mm" if spacing != (1.0, 1.0, 1.0) else "1 mm"
    is_series = "F" in axes and voxels.shape[0] > 1
    info = VolumeInfo(
        source=source.name,
        format="stack",
        shape=voxels.shape if is_series else voxels.shape[1:],
        layout="FDHWC" if is_series else "DHWC",
        dtype=voxels.dtype,
        affine=affine,
        space="assumed",
        time_step_s=step_s if is_series else None,
        compressed=True,
        notes=(
            f"images have no affine: {stated}, right, anterior, superior is assumed",
            *fixed,
            *notes,
            *more,
        ),
    )
    return voxels if is_series else voxels[0], info


def _only_series(file: Any, name: str) -> Any:
    """Return the series of pages of one shape; there must be one."""
    found = list(file.series)
    if len(found) == 1:
        return found[0]
    listed = ", ".join(
        dict.fromkeys(f"{'×'.join(map(str, series.shape))} {series.dtype}" for series in found[:8])
    )
    raise UnreadableSourceError(
        f"the pages differ: {listed}" if found else "this TIFF file has no pages",
        source=name,
        advice="All pages must have the same size and dtype: save one image in a file",
    )


def _axes(letters: str, shape: Seq[int], name: str) -> str:
    """Return a letter of the layout for each stored axis; axes of one letter are merged, the first one outermost."""
    pages = "F" if "Z" in letters and "T" not in letters else "D"
    axes = ""
    for letter, size in zip(letters, shape, strict=True):
        known = _LETTERS.get(letter) or (pages if letter in _PAGES else "")
        if not known and size > 1:
            raise UnreadableSourceError(
                f"the file has the axes {letters}, {'×'.join(map(str, shape))}",
                source=name,
                allowed="T, Z, C, Y, X, S and pages",
                advice="Save one image of the axis that is named otherwise in a file",
            )
        axes += known or pages
    return axes


def _pixels(series: Any, data: bytes, axes: str, name: str) -> tuple[AnyArray, str]:
    """Return the pixels with the axes of the series; palettes add channels."""
    page = series.keyframe
    expected = math.prod(series.shape) * np.dtype(series.dtype).itemsize
    check_size(
        expected if page.bitspersample >= 8 else 0, len(data), name, "zlib" if page.compression > 1 else None
    )
    array = None
    reason = "a palette"
    if page.photometric != _PALETTE:
        try:
            array = np.asarray(series.asarray())
        except (ValueError, KeyError, ImportError, RuntimeError) as error:
            reason = str(error)
    if array is None:
        array = _by_opencv(series, data, name, reason)
        axes = axes + "C" if array.ndim > len(axes) else axes
    if array.dtype == np.bool_:
        array = array.astype(np.uint8)
    if array.dtype.kind not in _KINDS or array.ndim != len(axes):
        raise _undecodable(name, f"pixels {array.shape} {array.dtype}")
    return array, axes


def _by_opencv(series: Any, data: bytes, name: str, reason: str) -> AnyArray:
    """Decode the pages by OpenCV, in the order of the series; colors are RGB."""
    import cv2

    try:
        done, pages = cv2.imdecodemulti(np.frombuffer(data, dtype=np.uint8), cv2.IMREAD_UNCHANGED)
    except cv2.error:
        done, pages = False, ()
    numbers = [page.index for page in series.pages if page is not None]
    if not done or not numbers or max(numbers) >= len(pages):
        raise _undecodable(name, reason)
    stacked = np.stack([pages[number] for number in numbers])
    if stacked.ndim == 4:
        stacked = stacked[..., [2, 1, 0, 3][: stacked.shape[-1]]]  # OpenCV decodes to BGR
    letters, shape = series.axes, tuple(series.shape)
    if series.keyframe.photometric == _PALETTE:
        return stacked.reshape(*shape, *stacked.shape[3:])
    if "S" in letters and letters[-1] != "S":  # planes of samples
        place = letters.index("S")
        moved = (*shape[:place], *shape[place + 1 :], shape[place])
        return np.moveaxis(stacked.reshape(moved), -1, place)
    return stacked.reshape(shape)


def _arranged(array: AnyArray, axes: str) -> AnyArray:
    """Return an array ``FDHWC``, contiguous; axes of one letter are merged."""
    order = sorted(range(len(axes)), key=lambda axis: "FDHWC".index(axes[axis]))
    sizes = [
        math.prod(array.shape[axis] for axis in range(len(axes)) if axes[axis] == letter)
        for letter in "FDHWC"
    ]
    native = array.dtype.newbyteorder("=")
    return np.ascontiguousarray(array.transpose(order).reshape(sizes).astype(native, copy=False))


def _notes(series: Any) -> list[str]:
    """Return the notes on a series of pages."""
    notes = []
    if series.keyframe.photometric == _WHITE_IS_ZERO:
        notes.append(
            "the photometric interpretation is WhiteIsZero: the lowest values are white; they are not inverted"
        )
    if sum(letter in _PAGES for letter in series.axes) > 1:
        notes.append(
            f"pages have several axes without a name ({series.axes}): they are read one after the other"
        )
    return notes


def _sizes(file: Any, series: Any) -> tuple[tuple[float, float, float], float | None, list[str]]:
    """Return the distances of slices, rows and columns in mm, the time step in seconds, and notes."""
    tags = series.keyframe.tags
    unit = tags["ResolutionUnit"].value if "ResolutionUnit" in tags else _INCH
    across, down = (_inverse(tags, name) for name in ("XResolution", "YResolution"))
    by_tag = {_INCH: 25.4, _CENTIMETER: 10.0}.get(int(unit))
    if file.is_ome and file.ome_metadata:
        return _ome_sizes(file.ome_metadata, down, across, by_tag)
    if file.is_imagej:
        facts: Mapping[str, Any] = file.imagej_metadata or {}
        stated = str(facts.get("unit", "")).strip()
        # the unit of the description counts for all axes
        mm = _MM.get(stated.lower(), by_tag if not stated else None)
        notes = [] if mm else [f"the unit of lengths is {stated!r}: mm is assumed" if stated else _NO_UNIT]
        mm = mm or 1.0
        between = abs(_positive(facts.get("spacing"), 1.0 / mm))
        step = _positive(facts.get("finterval"), 0.0) * _SECONDS.get(
            str(facts.get("tunit", "s")).lower(), 1.0
        )
        sizes = (between * mm, (down or 1 / mm) * mm, (across or 1 / mm) * mm)
        return sizes, step or None, notes if sizes != (1.0, 1.0, 1.0) else []
    if by_tag is None:
        return (1.0, 1.0, 1.0), None, [_NO_UNIT] if (down or 1.0, across or 1.0) != (1.0, 1.0) else []
    return (1.0, (down or 1 / by_tag) * by_tag, (across or 1 / by_tag) * by_tag), None, []


def _ome_sizes(
    text: str, down: float | None, across: float | None, by_tag: float | None
) -> tuple[tuple[float, float, float], float | None, list[str]]:
    """Return the sizes that OME's description states; those in the plane by the tags where it states none."""
    pixels = next(
        (element for element in ElementTree.fromstring(text).iter() if element.tag.endswith("Pixels")), None
    )
    facts: Mapping[str, str] = {} if pixels is None else pixels.attrib
    sizes, notes = [], []
    for axis, tag in (("Z", None), ("Y", down), ("X", across)):
        size = _positive(facts.get(f"PhysicalSize{axis}"), 0.0)
        stated = facts.get(f"PhysicalSize{axis}Unit", "µm")
        mm = _MM.get(stated.lower())
        if size and mm is None:
            notes.append(f"the unit of {axis} is {stated!r}: mm is assumed")
        sizes.append(size * (mm or 1.0) or (tag * by_tag if tag and by_tag else 1.0))
    step = _positive(facts.get("TimeIncrement"), 0.0) * _SECONDS.get(facts.get("TimeIncrementUnit", "s"), 1.0)
    return (sizes[0], sizes[1], sizes[2]), step or None, notes


def _inverse(tags: Any, name: str) -> float | None:
    """Return the length of a pixel by a tag of pixels per unit; None without one that is valid."""
    value = tags[name].value if name in tags else None
    if not isinstance(value, tuple) or len(value) != 2 or not all(part > 0 for part in value):
        return None
    return float(value[1]) / float(value[0])


def _positive(value: Any, otherwise: float) -> float:
    """Return a positive finite number, or another one for everything else."""
    match = re.fullmatch(r"\s*[-+0-9.eE]+\s*", str(value))
    try:
        number = float(value) if match else 0.0
    except ValueError:  # such as "1e" or "."
        number = 0.0
    return number if 0 < number < math.inf else otherwise


def _undecodable(name: str, reason: str) -> UnreadableSourceError:
    """Return the error for pages that cannot be decoded."""
    return UnreadableSourceError(
        f"this TIFF file cannot be decoded ({reason})",
        source=name,
        advice="It is damaged, or of a kind that neither tifffile nor OpenCV decodes: convert it to plain pages",
    )
