"""Writers of one frame or one sequence: jpg, png, webp, npy and npz."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, BinaryIO, Final

from ..errors import OutputError, ParameterError
from ..param import Param, choice

if TYPE_CHECKING:
    import numpy as np

    from ..sequence import Sequence

__all__ = ["FORMAT", "QUALITY", "Encoder", "encoder", "thumbnail"]

_QUALITY = 95
_THUMBNAIL_QUALITY = 80


@dataclass(frozen=True)
class Encoder:
    """How one format is written.

    Attributes:
        name: the format and the files' ending.
        write: writes one sequence (packed formats) or one frame into a binary file; the last argument is the
            quality.
        packed: whether one file holds a whole sequence.
        deep: whether it holds 16 bits per component.
        lossy: whether a quality means something.
        largest: how many pixels a side may have; None for no limit.
        quality: 1 to 100.
    """

    name: str
    write: Callable[[Sequence, BinaryIO, int], None]
    packed: bool = False
    deep: bool = False
    lossy: bool = False
    largest: int | None = None
    quality: int = _QUALITY

    def check_size(self, width: int, height: int, source: str) -> None:
        """Make sure that a frame fits into the format.

        Raises:
            OutputError: it is too large.
        """
        if self.largest is not None and max(width, height) > self.largest:
            raise OutputError(
                f"its frames of {width}x{height} do not fit into {self.name}",
                source=source,
                allowed=f"at most {self.largest} pixels a side",
                advice="Choose another --format, or a smaller size with --max-side",
            )

    def __call__(self, sequence: Sequence, file: BinaryIO) -> None:
        """Write one sequence or frame."""
        self.write(sequence, file, self.quality)


def encoder(name: str, quality: int | None, *, dtype: str) -> Encoder:
    """The encoder of a format.

    Args:
        name: one of the format's choices.
        quality: 1 to 100, None for the default of 95; only for jpg and webp.
        dtype: of the pixels, ``uint8`` or ``uint16``.

    Raises:
        ParameterError: the format has no quality, or does not hold the dtype.
    """
    found = _ENCODERS[name]
    if quality is not None and not found.lossy:
        raise ParameterError(
            f"quality={quality} means nothing for {name}", allowed="jpg or webp with a quality"
        )
    if dtype != "uint8" and not found.deep:
        deep = ", ".join(known.name for known in _ENCODERS.values() if known.deep)
        raise ParameterError(
            f"dtype={dtype!r} does not fit into {name}", allowed=f"uint8, or one of the formats {deep}"
        )
    return found if quality is None else replace(found, quality=quality)


def thumbnail(pixels: np.ndarray[Any, Any], width: int) -> bytes:
    """A small JPEG of one RGB frame, ``(H, W, 3)`` uint8 or uint16, at most ``width`` pixels wide."""
    import cv2

    shrunk = pixels
    if pixels.shape[1] > width:
        height = max(1, round(pixels.shape[0] * width / pixels.shape[1]))
        shrunk = cv2.resize(pixels, (width, height), interpolation=cv2.INTER_AREA)
    if shrunk.dtype == "uint16":
        shrunk = (shrunk >> 8).astype("uint8")
    return _jpeg(shrunk, _THUMBNAIL_QUALITY)


def _jpeg(pixels: np.ndarray[Any, Any], quality: int) -> bytes:
    import numpy as np
    import simplejpeg

    encoded: bytes = simplejpeg.encode_jpeg(
        np.ascontiguousarray(pixels), quality, "RGB", "420", fastdct=False
    )
    return encoded


def _write_jpg(sequence: Sequence, file: BinaryIO, quality: int) -> None:
    file.write(_jpeg(sequence.numpy(), quality))


def _write_png(sequence: Sequence, file: BinaryIO, quality: int) -> None:  # noqa: ARG001  the encoders' signature
    _write_cv2(sequence, file, "png", [])


def _write_webp(sequence: Sequence, file: BinaryIO, quality: int) -> None:
    import cv2

    _write_cv2(sequence, file, "webp", [cv2.IMWRITE_WEBP_QUALITY, quality])


def _write_cv2(sequence: Sequence, file: BinaryIO, ending: str, settings: list[int]) -> None:
    import cv2

    done, encoded = cv2.imencode(f".{ending}", cv2.cvtColor(sequence.numpy(), cv2.COLOR_RGB2BGR), settings)
    if not done:
        raise OutputError(f"OpenCV cannot encode this frame as {ending}", source=sequence.source)
    file.write(encoded.data)


def _write_npy(sequence: Sequence, file: BinaryIO, quality: int) -> None:  # noqa: ARG001  the encoders' signature
    import numpy as np

    np.save(file, sequence.numpy(), allow_pickle=False)


def _write_npz(sequence: Sequence, file: BinaryIO, quality: int) -> None:  # noqa: ARG001  the encoders' signature
    import numpy as np

    assert sequence.frames is not None
    assert sequence.timestamps is not None
    np.savez(file, data=sequence.numpy(), frames=sequence.frames, timestamps=sequence.timestamps)


_ENCODERS: Final[Mapping[str, Encoder]] = {
    known.name: known
    for known in (
        Encoder("jpg", _write_jpg, lossy=True, largest=65_500),
        Encoder("png", _write_png, deep=True),
        Encoder("webp", _write_webp, lossy=True, largest=16_383),
        Encoder("npy", _write_npy, packed=True, deep=True),
        Encoder("npz", _write_npz, packed=True, deep=True),
    )
}

FORMAT: Final = choice(
    "format", "What the files are: pictures, or NumPy arrays with the exact values.", list(_ENCODERS)
)
QUALITY: Final = Param(
    name="quality", doc=f"Quality of jpg and webp, {_QUALITY} if not given.", lo=1, hi=100, optional=True
)
