"""seqpipe: video files and medical volumes in, sequences of layout NFHWC out, on the CPU or an NVIDIA GPU.

    with seqpipe.open("clip.mp4") as video:
        clip = video[10:26]                     # a Sequence: pixels FHWC, frame numbers, timestamps
    with seqpipe.open("t1.nii.gz") as volume:
        window = volume[10:74, 0:64, 0:64]      # a Sequence: voxels DHWC, affine, spacing
    for batch in seqpipe.readers.Video(files=["clip.mp4"], sequence_length=16).batches(8):
        batch.numpy()                           # pixels NFHWC

``import seqpipe`` loads this page and the errors; NumPy and the libraries that decode come with the first use.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .errors import (
    BackendError,
    DamagedSourceError,
    DeviceMemoryError,
    FrameRangeError,
    ManifestError,
    OutputError,
    ParameterError,
    SeqpipeError,
    SourceError,
    SourceNotFoundError,
    StateError,
    UnreadableSourceError,
)
from .lazy import on_demand

if TYPE_CHECKING:
    from pathlib import Path

    from . import flow, fn, ops, pipeline, readers, view, volume
    from .ops import operator
    from .sequence import Batch, Sequence
    from .video.convert.output import OutputSpec
    from .video.device import Decode
    from .video.reader import VideoReader
    from .video.stream import stream

__all__ = [
    "BackendError",
    "Batch",
    "DamagedSourceError",
    "DeviceMemoryError",
    "FrameRangeError",
    "ManifestError",
    "OutputError",
    "OutputSpec",
    "ParameterError",
    "SeqpipeError",
    "Sequence",
    "SourceError",
    "SourceNotFoundError",
    "StateError",
    "UnreadableSourceError",
    "VideoReader",
    "__version__",
    "flow",
    "fn",
    "open",
    "operator",
    "ops",
    "pipeline",
    "readers",
    "stream",
    "view",
    "volume",
]

__version__ = "0.1.0"

# name → the module that has it, "" for a module itself. Some of these bring PyAV and OpenCV along.
_LAZY = {
    "Batch": "sequence",
    "OutputSpec": "video.convert.output",
    "Sequence": "sequence",
    "VideoReader": "video.reader",
    "flow": "",
    "fn": "",
    "operator": "ops",
    "ops": "",
    "pipeline": "",
    "readers": "",
    "stream": "video.stream",
    "view": "",
    "volume": "",
}


def open(  # noqa: A001 - the name is read as seqpipe.open, in the manner of gzip.open and Image.open
    source: Any,
    *,
    device: str = "cpu",
    decode: Decode = "auto",
    stream: int | None = None,
    threads: int | None = None,
    output: OutputSpec | None = None,
    cache_dir: str | Path | None = None,
    register: str | Path | None = None,
    series: str | None = None,
    key: str | None = None,
) -> VideoReader | Any:
    """Open a video for exact access to its frames, or a volume for windows of its voxels.

    Which of both it is follows from the first bytes of the file. A video is indexed without decoding (once: the index
    is kept on disk and reused until the file changes).

    Args:
        source: a path, an fsspec URL such as ``s3://bucket/clip.mp4``, the bytes of a file, or a file object; for
            volumes also a folder (a DICOM series, a Zarr array, pictures) or a list of files.
        device: where the frames are to be: ``"cpu"``, ``"cuda"``, ``"cuda:N"``, or ``"auto"`` for the first GPU if
            there is one that can be used.
        decode: for videos: who decodes for a GPU: its engines, and the CPU what they cannot (``"auto"``); the engines
            alone (``"nvdec"``); the CPU alone (``"cpu"``).
        stream: for videos: which of its streams, by its number in the container; None for the best video, as ffmpeg
            chooses it.
        threads: for videos: decoding threads, at least 1; None takes one for each core that this process may use.
        output: for videos: color, dtype, size and crop of the frames; None gives upright RGB uint8 at full size.
        cache_dir: for videos: the folder for indexes; None takes the platform's cache folder.
        register: for videos: a register of indexes, as ``seqpipe index --register`` makes them, that is asked where the
            cache folder has none.
        series: for a DICOM folder with several series: the SeriesInstanceUID of one.
        key: for NPZ, the name of the array; for Zarr, its path in the group.

    Returns:
        For a video, a :class:`seqpipe.video.reader.VideoReader` with ``len``, ``[i]``, ``[a:b:s]``, ``.frames``,
        ``.at``, ``.sequence`` and ``.info``. For a volume, a :class:`seqpipe.volume.VolumeReader` with ``len``,
        ``[d0:d1, h0:h1, w0:w1]``, ``.sequence``, ``.reorient``, ``.resample`` and ``.info``. Close it, or use it in a
        ``with`` statement.

    Raises:
        SourceNotFoundError: there is nothing at that path or URL.
        UnreadableSourceError: it is neither a video nor a volume that can be opened.
        ParameterError: an argument is out of its bounds.
        BackendError: the device is not available.
    """
    from .volume.formats.open import is_volume

    if is_volume(source):
        from .volume.reader import VolumeReader

        if output is not None:
            raise ParameterError("output is for videos, and this is a volume", advice="Leave it out")
        return VolumeReader(source, device=device, series=series, key=key)
    if series is not None or key is not None:
        raise ParameterError("series and key are for volumes, and this is none", advice="Leave them out")
    from .video.reader import VideoReader

    return VideoReader(
        source,
        device=device,
        decode=decode,
        stream=stream,
        threads=threads,
        output=output,
        cache_dir=cache_dir,
        register=register,
    )


if not TYPE_CHECKING:
    __getattr__ = on_demand(__name__, _LAZY)


def __dir__() -> list[str]:
    return __all__
