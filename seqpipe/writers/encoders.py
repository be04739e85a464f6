"""Writers of one frame or sequence: images, arrays, volumes and videos; on the CPU, or where the frames are."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping
from collections.abc import Sequence as Seq
from dataclasses import dataclass, replace
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, Final, Literal, Protocol

from ..core.param import Param, choice
from ..errors import BackendError, OutputError, ParameterError
from .files import output_errors

if TYPE_CHECKING:
    import numpy as np

    from ..array import Array
    from ..sequence import Sequence
    from ..video.audio.samples import AudioSamples
    from ..video.convert.output import Color
    from ..video.device import Device
    from ..video.encode.sound import CopiedSound

__all__ = [
    "ENCODE",
    "FORMAT",
    "QUALITY",
    "Content",
    "Encode",
    "Encoder",
    "EncoderSetup",
    "GpuEncoder",
    "check_ending",
    "encoder",
    "thumbnail",
    "write_jpeg",
]

Content = Callable[[BinaryIO], object]
"""Writes a file's content into a binary file."""

Encode = Literal["auto", "gpu", "cpu"]
ENCODE: Final = choice(
    "encode",
    "what encodes jpg for frames on a GPU: the GPU if nvImageCodec is installed, else the CPU (auto); only the GPU "
    "(gpu); the CPU, with the same files on every machine (cpu)",
    ("auto", "gpu", "cpu"),
)

_QUALITY = 95
_VIDEO_QUALITY = 65
_THUMBNAIL_QUALITY = 80

_log = logging.getLogger(__name__)


class GpuEncoder(Protocol):
    """An encoder of frames in GPU memory. Safe to use from any thread."""

    @property
    def together(self) -> int:
        """The best number of frames for one call."""

    @property
    def threads(self) -> int:
        """The number of threads worth using."""

    def __call__(self, frames: Seq[Array], quality: int, source: str) -> list[bytes | None]:
        """The file content of each frame; None for a frame that the GPU cannot encode."""


@dataclass(frozen=True)
class EncoderSetup:
    """Set-up of an encoder for one device.

    Attributes:
        host: whether it takes frames and sequences in main memory.
        together: the number of items for one call.
        threads: the number of threads worth using.
        contents: maps items to the contents of their files, in order.
    """

    host: bool
    together: int
    threads: int
    contents: Callable[[Seq[Sequence]], list[Content]]


@dataclass(frozen=True)
class Encoder:
    """Writer of one format.

    Attributes:
        name: the format, which is also the files' ending.
        write: writes one sequence (packed formats) or one frame into a binary file; its last argument is the quality.
        packed: whether one file holds a whole sequence.
        deep: whether it holds 16 bits per component.
        lossy: whether the format has a quality.
        largest: greatest width and height in pixels; None for no limit.
        quality: 1 to 100.
        gpu: creates the encoder on a GPU, by the GPU's number; None if no GPU encodes the format.
        encode: ``auto``, ``gpu`` or ``cpu``, for frames that are on a GPU.
        pairs: whether a file is made from two frames or more, as flow is.
        streamed: whether a file is written while its frames are decoded, as videos are.
        color: color of the frames to encode.
        settings: further options that determine the content, recorded in the folder's note.
        sound: whether it holds sound.
        codec: of videos; None for the first one that the format holds.
        gop: frames from one key frame of a video to the next; None for the codec's choice.
        grid: columns and rows of sheets of thumbnails; None for formats of something else.
        max_side: greatest side of frames whose size is not chosen; None for that of the source.
    """

    name: str
    write: Callable[[Sequence, BinaryIO, int], None]
    packed: bool = False
    deep: bool = False
    lossy: bool = False
    largest: int | None = None
    quality: int = _QUALITY
    gpu: Callable[[int], GpuEncoder] | None = None
    encode: Encode = "auto"
    pairs: bool = False
    streamed: bool = False
    color: Color = "RGB"
    settings: str = ""
    sound: bool = False
    codec: str | None = None
    gop: int | None = None
    grid: tuple[int, int] | None = None
    max_side: int | None = None

    @property
    def is_video(self) -> bool:
        """Whether it encodes videos."""
        return self.streamed and self.grid is None

    def shape(self, width: int, height: int) -> tuple[int, int]:
        """(columns, rows) of the output for frames of (columns, rows)."""
        return width, height

    def check_size(self, width: int, height: int, source: str) -> None:
        """Check that a frame fits into the format."""
        columns, rows = self.grid or (1, 1)
        width, height = width * columns, height * rows
        if self.largest is not None and max(width, height) > self.largest:
            raise OutputError(
                f"its {'frames' if self.grid is None else 'sheets'} of {width}x{height} do not fit into {self.name}",
                source=source,
                allowed=f"at most {self.largest} pixels a side",
                advice="Choose another --format, or a smaller size with --max-side",
            )

    def __call__(self, sequence: Sequence, file: BinaryIO) -> None:
        """Write one sequence or frame."""
        self.write(sequence, file, self.quality)

    def write_video(
        self,
        path: Path,
        frames: Iterable[Sequence],
        *,
        fps: float | None,
        audio: Iterable[AudioSamples] | CopiedSound | None,
        start_s: float,
    ) -> int:
        """Write a video while its frames come, and return its size in bytes.

        ``start_s`` is the time of the first frame of the source, of which players start to count.
        """
        if self.grid is not None:
            from .sprites import write_sprites

            write_sheet = partial(write_jpeg, quality=self.quality)
            return write_sprites(
                path, frames, grid=self.grid, write_sheet=write_sheet, fps=fps, start_s=start_s
            )
        from ..video.encode.write import write_video

        with output_errors(path):
            path.parent.mkdir(parents=True, exist_ok=True)
            settings: dict[str, Any] = {"fps": fps, "audio": audio, "codec": self.codec, "gop": self.gop}
            quality = self.quality if self.lossy else None
            write_video(path, frames, **settings, quality=quality, format=self.name)
            return path.stat().st_size

    def setup(self, device: Device, threads: int) -> EncoderSetup:
        """The set-up for frames that are decoded for a device."""
        gpu = self._gpu(device)
        if gpu is None:
            return EncoderSetup(
                True, 1, threads, lambda sequences: [partial(self, sequence) for sequence in sequences]
            )
        return EncoderSetup(False, gpu.together, min(gpu.threads, threads), partial(self._from_gpu, gpu))

    def _gpu(self, device: Device) -> GpuEncoder | None:
        """The encoder on the device itself; None if there is none."""
        if self.gpu is None or self.encode == "cpu":
            return None
        if device.kind == "cpu":
            if self.encode == "gpu":
                raise ParameterError(
                    "encode='gpu' needs frames that are decoded for a GPU",
                    allowed="device='cuda', 'cuda:N' or 'cuda:all'",
                )
            return None
        try:
            return self.gpu(device.number)
        except BackendError as error:
            if self.encode == "gpu":
                raise
            _note(f"{self.name} is encoded on the CPU for {device}, because {error}")
            return None

    def _from_gpu(self, gpu: GpuEncoder, frames: Seq[Sequence]) -> list[Content]:
        """The contents of files, encoded by the GPU where possible."""
        coded = gpu([frame.data for frame in frames], self.quality, frames[0].source)
        if self.encode == "gpu" and None in coded:
            frame = frames[coded.index(None)]
            raise OutputError(
                f"{frame.device} does not encode its frames of {frame.shape[1]}x{frame.shape[0]} as {self.name}",
                source=frame.source,
                advice="Encode on the CPU with --encode auto or cpu, or choose a smaller size with --max-side",
            )
        return [
            partial(self, frame) if content is None else partial(_write_bytes, content)
            for frame, content in zip(frames, coded, strict=True)
        ]


def encoder(
    name: str,
    quality: int | None,
    *,
    dtype: str,
    encode: Encode = "auto",
    codec: str | None = None,
    gop: int | None = None,
    grid: tuple[int, int] | None = None,
) -> Encoder:
    """The encoder of a format."""
    chosen = replace(_ENCODERS[name], encode=encode)
    if not {codec, gop} <= {None}:
        if not chosen.is_video:
            videos = ", ".join(known.name for known in _ENCODERS.values() if known.is_video)
            what = f"codec={codec!r}" if codec is not None else f"gop={gop}"
            raise ParameterError(f"{what} means nothing for {name}", allowed=f"the formats {videos}")
        chosen = replace(chosen, codec=codec, gop=gop, settings=f"{codec}, {gop}")
    if chosen.grid is not None and grid is not None:
        chosen = replace(chosen, grid=grid, settings=f"{grid}")
    if chosen.is_video:
        from ..video.encode.write import check_encoder  # which loads the codecs

        check_encoder(name, codec)
    if encode == "gpu" and chosen.gpu is None:
        gpus = ", ".join(known.name for known in _ENCODERS.values() if known.gpu is not None)
        raise ParameterError(f"no GPU encodes {name}", allowed=f"encode='auto', or format {gpus}")
    if quality is not None and not chosen.lossy:
        raise ParameterError(
            f"quality={quality} means nothing for {name}",
            allowed=f"{_LOSSY} with a quality",
        )
    if dtype != "uint8" and not chosen.deep:
        deep = ", ".join(known.name for known in _ENCODERS.values() if known.deep)
        raise ParameterError(
            f"dtype={dtype!r} does not fit into {name}", allowed=f"uint8, or one of the formats {deep}"
        )
    return chosen if quality is None else replace(chosen, quality=quality)


def check_ending(pattern: str, name: str) -> None:
    """Check that a pattern's ending is not that of another format: a JPEG file named .png misleads its readers."""
    ending = _SYNONYMS.get(suffix := pattern.rpartition(".")[2].lower(), suffix)
    if ending in _ENCODERS and ending != name:
        raise ParameterError(
            f"pattern={pattern!r} ends in .{suffix}, but the format is {name}",
            allowed=f"an ending of {name}, or {{ext}}, which is the format's own",
            advice=f"For files of that ending use --format {ending}",
        )


def thumbnail(pixels: np.ndarray[Any, Any], width: int) -> bytes:
    """A small JPEG of one frame, RGB or gray, ``(H, W, C)`` uint8 or uint16, at most ``width`` pixels wide."""
    import cv2

    shrunk = pixels
    if pixels.shape[1] > width:
        height = max(1, round(pixels.shape[0] * width / pixels.shape[1]))
        shrunk = cv2.resize(pixels, (width, height), interpolation=cv2.INTER_AREA)
    if pixels.shape[2] == 1:  # which OpenCV's resize gives without its axis of channels
        shrunk = cv2.cvtColor(shrunk, cv2.COLOR_GRAY2RGB)
    if shrunk.dtype == "uint16":
        shrunk = (shrunk >> 8).astype("uint8")
    return _jpeg(shrunk, _THUMBNAIL_QUALITY)


def _jpeg(pixels: np.ndarray[Any, Any], quality: int) -> bytes:
    """Return an RGB or gray image as JPEG."""
    import numpy as np
    import simplejpeg

    color, chroma = ("GRAY", "Gray") if pixels.shape[2] == 1 else ("RGB", "420")
    encoded: bytes = simplejpeg.encode_jpeg(
        np.ascontiguousarray(pixels), quality, color, chroma, fastdct=False
    )
    return encoded


@cache  # so that each reason is logged once
def _note(reason: str) -> None:
    """Log a reason once."""
    _log.info("%s", reason)


def _jpeg_gpu(device: int) -> GpuEncoder:
    """Return the JPEG encoder of a GPU."""
    from .gpu_jpeg import gpu_jpeg

    return gpu_jpeg(device)


def _write_bytes(content: bytes, file: BinaryIO) -> None:
    """Write what is encoded already."""
    file.write(content)


def write_jpeg(pixels: np.ndarray[Any, Any], file: BinaryIO, quality: int) -> None:
    """Write an RGB or gray image ``(H, W, C)`` of uint8."""
    file.write(_jpeg(pixels, quality))


def _write_jpg(sequence: Sequence, file: BinaryIO, quality: int) -> None:
    """Write a frame as JPEG."""
    write_jpeg(sequence.numpy(), file, quality)


def _write_png(sequence: Sequence, file: BinaryIO, quality: int) -> None:  # noqa: ARG001  the encoders' signature
    """Write a frame as PNG."""
    _write_cv2(sequence, file, "png", [])


def _write_webp(sequence: Sequence, file: BinaryIO, quality: int) -> None:
    """Write a frame as WebP."""
    import cv2

    _write_cv2(sequence, file, "webp", [cv2.IMWRITE_WEBP_QUALITY, quality])


def _write_tiff(sequence: Sequence, file: BinaryIO, quality: int) -> None:  # noqa: ARG001  the encoders' signature
    """Write a frame as TIFF, compressed by LZW."""
    import cv2

    lzw = cv2.IMWRITE_TIFF_COMPRESSION_LZW
    _write_cv2(sequence, file, "tiff", [cv2.IMWRITE_TIFF_COMPRESSION, lzw])


def _write_cv2(sequence: Sequence, file: BinaryIO, ending: str, settings: list[int]) -> None:
    """Write a frame by OpenCV."""
    import cv2
    import numpy as np

    pixels = sequence.numpy()
    if pixels.shape[2] > 1:
        pixels = cv2.cvtColor(pixels, cv2.COLOR_RGB2BGR if pixels.shape[2] == 3 else cv2.COLOR_RGBA2BGRA)
    done, encoded = cv2.imencode(f".{ending}", np.ascontiguousarray(pixels), settings)
    if not done:
        raise OutputError(f"OpenCV cannot encode this frame as {ending}", source=sequence.source)
    file.write(encoded.data)


def _write_npy(sequence: Sequence, file: BinaryIO, quality: int) -> None:  # noqa: ARG001  the encoders' signature
    """Write the values of a frame or a sequence."""
    import numpy as np

    np.save(file, sequence.numpy(), allow_pickle=False)


def _write_npz(sequence: Sequence, file: BinaryIO, quality: int) -> None:  # noqa: ARG001  the encoders' signature
    """Write the values of a sequence with its frame numbers and times."""
    import numpy as np

    assert sequence.frames is not None
    assert sequence.timestamps is not None
    np.savez(file, data=sequence.numpy(), frames=sequence.frames, timestamps=sequence.timestamps)


def _write_nifti(sequence: Sequence, file: BinaryIO, quality: int) -> None:  # noqa: ARG001  the encoders' signature
    """Write a volume as NIfTI."""
    from ..volume.formats.write import content

    file.write(content(sequence, ".nii.gz"))


def _write_clip(sequence: Sequence, file: BinaryIO, quality: int, *, name: str) -> None:
    """Write a sequence as a video."""
    from ..video.encode.write import write_into

    write_into(file, name, [sequence], quality=quality if name in ("mp4", "webm") else None)


def _video(name: str, *, lossy: bool, sound: bool) -> Encoder:
    """The encoder of a format of videos."""
    write, quality = partial(_write_clip, name=name), _VIDEO_QUALITY
    return Encoder(name, write, packed=True, streamed=True, lossy=lossy, sound=sound, quality=quality)


def _write_sheet(sequence: Sequence, file: BinaryIO, quality: int) -> None:  # noqa: ARG001  the encoders' signature
    """Refuse what is written by :func:`~seqpipe.writers.sprites.write_sprites` alone."""
    raise ParameterError(
        "sprite sheets are several files",
        source=sequence.source,
        allowed="single files, of one video each",
        advice="Save a stream to a file, or choose another --format",
    )


_SPRITES: Final = Encoder(
    "vtt",
    _write_sheet,
    packed=True,
    streamed=True,
    lossy=True,
    largest=65_500,
    quality=80,
    grid=(10, 10),
    max_side=160,
)
_ENCODERS: Final[Mapping[str, Encoder]] = {
    known.name: known
    for known in (
        Encoder("jpg", _write_jpg, lossy=True, largest=65_500, gpu=_jpeg_gpu),
        Encoder("png", _write_png, deep=True),
        Encoder("tiff", _write_tiff, deep=True),
        Encoder("webp", _write_webp, lossy=True, largest=16_383),
        Encoder("npy", _write_npy, packed=True, deep=True),
        Encoder("npz", _write_npz, packed=True, deep=True),
        Encoder("nii.gz", _write_nifti, packed=True, deep=True),
        _video("mp4", lossy=True, sound=True),
        _video("webm", lossy=True, sound=True),
        _video("gif", lossy=False, sound=False),
        _video("apng", lossy=False, sound=False),
        _SPRITES,
    )
}
_LOSSY: Final = " or ".join(known.name for known in _ENCODERS.values() if known.lossy)

_SYNONYMS: Final[Mapping[str, str]] = {"jpeg": "jpg", "tif": "tiff"}

FORMAT: Final = choice(
    "format",
    "Format of the files: images, NumPy arrays with exact values, videos, sprite sheets with a WebVTT file (vtt), or "
    "NIfTI for volumes.",
    list(_ENCODERS),
)
QUALITY: Final = Param(
    name="quality",
    doc=f"Quality of jpg and webp, {_QUALITY} if not given; of mp4 and webm, {_VIDEO_QUALITY}; of vtt, "
    f"{_SPRITES.quality}.",
    lo=1,
    hi=100,
    optional=True,
)
