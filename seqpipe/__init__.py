"""seqpipe: read video files and medical volumes as sequences of layout NFHWC, on the CPU or an NVIDIA GPU.

    with seqpipe.open("clip.mp4") as video:
        clip = video[10:26]                     # a Sequence: pixels FHWC, frame numbers, timestamps
    with seqpipe.open("t1.nii.gz") as volume:
        window = volume[10:74, 0:64, 0:64]      # a Sequence: voxels DHWC, affine, spacing
    for batch in seqpipe.videos("clip.mp4", 16).batch(8):
        batch["image"].numpy()                  # pixels NFHWC

``import seqpipe`` loads this module and the errors only; NumPy and the decoding libraries are imported on first use.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .core.keywords import OF_SEVERAL, refuses_unknown
from .core.lazy import on_demand
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
    WorkerError,
)

if TYPE_CHECKING:
    from pathlib import Path

    from . import flow, fn, ops, pipeline, readers, view, volume
    from .dataset.dataset import Dataset
    from .dataset.packing import packed
    from .dataset.samples import Samples
    from .dataset.views import VideoScores
    from .ops import operator
    from .readers.listing import listing
    from .sampling.buckets import Bucket
    from .segmentation.aggregate import Aggregate
    from .segmentation.fingerprint import Fingerprint, fingerprint
    from .segmentation.infer import infer
    from .segmentation.overview import overview
    from .segmentation.prepared import prepared
    from .sequence import Batch, Sequence
    from .sources.audio import AudioSpec
    from .sources.cameras import Camera, Signal, cameras
    from .sources.feed import feed
    from .sources.items import items
    from .sources.lerobot import lerobot
    from .sources.options import Cache, Decode, Prepare
    from .sources.takes import Clip, Every, Grid, Patch, Segments, Spread, Whole
    from .sources.videos import folders, videos
    from .sources.volumes import cases, volumes
    from .sources.zipped import zip  # noqa: A004  named as Python's
    from .video.audio.reader import AudioReader
    from .video.audio.samples import AudioSamples
    from .video.convert.output import OutputSpec
    from .video.device import DecodeChoice
    from .video.encode.write import write_video
    from .video.reader import VideoReader
    from .video.stream import stream

__all__ = [
    "Aggregate",
    "AudioReader",
    "AudioSamples",
    "AudioSpec",
    "BackendError",
    "Batch",
    "Bucket",
    "Cache",
    "Camera",
    "Clip",
    "DamagedSourceError",
    "Dataset",
    "Decode",
    "DeviceMemoryError",
    "Every",
    "Fingerprint",
    "FrameRangeError",
    "Grid",
    "ManifestError",
    "OutputError",
    "OutputSpec",
    "ParameterError",
    "Patch",
    "Prepare",
    "Samples",
    "Segments",
    "SeqpipeError",
    "Sequence",
    "Signal",
    "SourceError",
    "SourceNotFoundError",
    "Spread",
    "StateError",
    "UnreadableSourceError",
    "VideoReader",
    "VideoScores",
    "Whole",
    "WorkerError",
    "__version__",
    "cameras",
    "cases",
    "feed",
    "fingerprint",
    "flow",
    "fn",
    "folders",
    "infer",
    "items",
    "lerobot",
    "listing",
    "open",
    "operator",
    "ops",
    "overview",
    "packed",
    "pipeline",
    "prepared",
    "readers",
    "stream",
    "videos",
    "view",
    "volume",
    "volumes",
    "write_video",
    "zip",
]

__version__ = "0.1.0"

# exported name → the module that defines it, "" if the name is a module; imported on first use
_LAZY = {
    "Aggregate": "segmentation.aggregate",
    "AudioReader": "video.audio.reader",
    "AudioSamples": "video.audio.samples",
    "AudioSpec": "sources.audio",
    "Batch": "sequence",
    "Bucket": "sampling.buckets",
    "Cache": "sources.options",
    "Camera": "sources.cameras",
    "Clip": "sources.takes",
    "Dataset": "dataset.dataset",
    "Decode": "sources.options",
    "Every": "sources.takes",
    "Fingerprint": "segmentation.fingerprint",
    "Grid": "sources.takes",
    "OutputSpec": "video.convert.output",
    "Patch": "sources.takes",
    "Prepare": "sources.options",
    "Samples": "dataset.samples",
    "Segments": "sources.takes",
    "Spread": "sources.takes",
    "Sequence": "sequence",
    "Signal": "sources.cameras",
    "VideoReader": "video.reader",
    "VideoScores": "dataset.views",
    "Whole": "sources.takes",
    "cameras": "sources.cameras",
    "cases": "sources.volumes",
    "feed": "sources.feed",
    "fingerprint": "segmentation.fingerprint",
    "flow": "",
    "fn": "",
    "folders": "sources.videos",
    "infer": "segmentation.infer",
    "items": "sources.items",
    "lerobot": "sources.lerobot",
    "listing": "readers.listing",
    "operator": "ops",
    "ops": "",
    "overview": "segmentation.overview",
    "packed": "dataset.packing",
    "pipeline": "",
    "prepared": "segmentation.prepared",
    "readers": "",
    "stream": "video.stream",
    "videos": "sources.videos",
    "view": "",
    "volume": "",
    "volumes": "sources.volumes",
    "write_video": "video.encode.write",
    "zip": "sources.zipped",
}


@refuses_unknown("seqpipe.open", OF_SEVERAL)
def open(  # noqa: A001 - the name is read as seqpipe.open, in the manner of gzip.open and Image.open
    source: Any,
    *,
    device: str = "cpu",
    decode: DecodeChoice = "auto",
    stream: int | None = None,
    threads: int | None = None,
    output: OutputSpec | None = None,
    cache_dir: str | Path | None = None,
    register: str | Path | None = None,
    series: str | None = None,
    key: str | None = None,
    stored: bool = False,
) -> VideoReader | Any:
    """Open a video for access to exact frames and sound, or a volume for windows of its voxels.

    The first bytes of the file decide which of the two it is. A video is indexed without decoding; the index is cached
    on disk and reused until the file changes.

    Args:
        source: a path, an fsspec URL such as ``s3://bucket/clip.mp4``, the bytes of a file, or a file object; for
            volumes also a folder (a DICOM series, a Zarr array, images), a DICOMDIR, or a list of files;
            ``folder::UID`` is a folder with the ``series``, ``file.h5::/path`` a file with the ``key``.
        device: device of the result: ``"cpu"``, ``"cuda"``, ``"cuda:N"``, or ``"auto"`` for the first usable GPU, else
            the CPU.
        decode: for videos: decode backend for a GPU: ``"auto"`` (NVDEC, and the CPU for streams that NVDEC does not
            support), ``"nvdec"`` (only NVDEC) or ``"cpu"`` (the CPU, with an upload).
        stream: for videos: number of the stream in the container; None for the best video stream, as ffmpeg chooses.
        threads: for videos: decoding threads, at least 1; None for one per core that this process may use.
        output: for videos: color, dtype, size and crop of the frames; None for oriented RGB uint8 at full size.
        cache_dir: for videos: folder of the index cache; None for the platform's cache folder.
        register: for videos: a register of indexes, made by ``seqpipe index --register``, for videos without an index
            in the cache.
        series: for DICOM folders, at any depth, and DICOMDIRs with several series: the SeriesInstanceUID of one.
        key: for NPZ: name of the array; for Zarr: path of the array in the group.
        stored: for volumes: whether voxels have the values stored in the file, with slope and intercept in ``.scale``;
            otherwise these are applied.

    Returns:
        For a file with sound alone, a :class:`seqpipe.AudioReader`.
        For a video, a :class:`seqpipe.video.reader.VideoReader` with ``len``, ``[i]``, ``[a:b:s]``, ``.frames``,
        ``.at``, ``.sequence`` and ``.info``. For a volume, a :class:`seqpipe.volume.VolumeReader` with ``len``,
        ``[d0:d1, h0:h1, w0:w1]``, ``.sequence``, ``.reorient``, ``.resample`` and ``.info``. Close it, or use it in a
        ``with`` statement.

    Raises:
        SourceNotFoundError: the path or URL does not exist.
        UnreadableSourceError: the source is neither a supported video nor a supported volume.
        ParameterError: an argument is out of bounds, or does not apply to this kind of source.
        BackendError: the device is not available.
    """
    from .volume.formats.open import is_volume

    if is_volume(source):
        from .volume.reader import VolumeReader

        if output is not None:
            raise ParameterError("output is for videos, and the source is a volume", advice="Leave it out")
        return VolumeReader(source, device=device, series=series, key=key, stored=stored)
    if series is not None or key is not None or stored is not False:
        raise ParameterError(
            "series, key and stored are for volumes, and the source is not one", advice="Leave them out"
        )
    from .video.reader import VideoReader

    try:
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
    except (UnreadableSourceError, ParameterError) as error:
        from .video.audio.reader import sound_alone

        if isinstance(error, ParameterError) and (stream is None or error.source is None):
            raise
        if output is None and (sound := sound_alone(source, stream=stream)) is not None:
            return sound
        raise


if not TYPE_CHECKING:
    __getattr__ = on_demand(__name__, _LAZY)


def __dir__() -> list[str]:
    return __all__
