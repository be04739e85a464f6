"""FrameFolders: a dataset of sequences cut from folders of frames, one image each."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from typing import Any

from ..core.padding import PadMode
from ..core.param import check_path
from ..errors import ParameterError, SourceNotFoundError
from ..sampling.params import ClipMode, OnError, SegmentMode
from ..video.convert.output import Color, DType, OutputSpec
from ..video.engine.engine import Engine
from .entry import Entry, Listing
from .files import list_files
from .frame_folders import FolderSurvey, FrameFiles, LazyFolderEngine
from .labels import NO_LABEL, LabelParser, LabelType
from .lazy_engine import LazyPool
from .listing import listing_of
from .params import ClipLayout, one_source
from .survey import VideoSurvey
from .video import Video

__all__ = ["FrameFolders"]

_Path = str | os.PathLike[str]


class FrameFolders(Video):
    """A dataset of sequences, cut from folders of frames: one image for each frame, as in action recognition datasets.

    A :class:`seqpipe.readers.Video` whose videos are folders; iteration, states and augmentation are the same. Images
    are decoded on the CPU by OpenCV; frame 0 is the first image. Timestamps are NaN.

    Exactly one of ``folders``, ``file_root`` and ``videos`` selects the folders.
    :func:`seqpipe.readers.published.rawframes` reads lists of mmaction2 and TSN, with ``folder total_frames label`` in
    each line:

        listing = published.rawframes("train_rawframes.txt", root="rawframes")
        reader = FrameFolders(videos=listing, template="img_{:05}.jpg", sequence_length=8, stride=4, shuffle=True)

    Args:
        folders: paths of folders.
        file_root: a folder whose subfolders, sorted by name, are the classes, with folders of frames in each; or a
            folder of such folders without labels.
        videos: a listing whose names are folders; folders with a frame count in the listing are not read.
        labels: for ``folders``: one label for each, an integer or a name from ``classes``.
        classes: names of the classes; a name's position is its label.
        label_type: type of the labels; see :mod:`seqpipe.readers.labels`.
        template: file name of a frame with a field for its number, such as ``img_{:05}.jpg``, as in mmaction2; None
            for all images of a folder, sorted by name.
        first_number: number of the first frame in names by the template.
        sequence_length: frames in a sequence; for this and the following, see :class:`seqpipe.readers.Video`.
        stride: distance between its frames.
        step: distance between the starts of neighboring windows; ``sequence_length * stride`` by default.
        clips_per_video: sequences from each folder in every epoch.
        clip_mode: start of these sequences, "random" or "even".
        repeats: number of times that each sample occurs in an epoch.
        segments: number of equal parts of each folder, with one frame from each.
        segment_mode: frame of each part: "random" or "center".
        pad_mode: padding of sequences that reach past the last frame.
        fill_value: pixel value of frames padded by "constant".
        min_frames: folders with fewer frames are left out without a warning.
        shuffle: whether each epoch has a new random order of all samples.
        seed: seed of the order and of random samples.
        shard: ``(rank, world_size)``.
        stick_to_shard: whether the rank reads the same samples in every epoch.
        even_shards: whether all ranks get equally many samples.
        threads: threads that decode; by default one for each core that the process may use.
        prefetch: number of batches to read ahead, in addition to the one that the next call returns.
        prefetch_gib: memory limit in GiB of batches that are being read.
        color: "RGB", "BGR", "GRAY" or "YCbCr"; for this and the following, see :class:`seqpipe.OutputSpec`.
        dtype: "uint8", "uint16", "float16" or "float32".
        layout: "FHWC", "FCHW", or "CFHW".
        mean: for float dtypes: mean on the scale 0…1.
        std: for float dtypes: standard deviation on the same scale.
        size: (height, width) of the frames.
        short_side: length of the shorter side in pixels.
        max_side: maximum length of the longer side in pixels.
        crop: (top, left, height, width) of the frame, before scaling.
        mirror: whether frames are mirrored left to right.
        output: an :class:`seqpipe.OutputSpec`, instead of the ten arguments above.
        on_error: policy for folders and frames that cannot be read: "raise", "skip" or "substitute".

    Raises:
        ParameterError: an argument is out of bounds, arguments exclude each other, or all folders have too few frames.
        SourceError: a folder cannot be read and ``on_error`` is "raise"; or none can be.
    """

    def __init__(
        self,
        *,
        folders: Iterable[_Path] | None = None,
        file_root: _Path | None = None,
        videos: Listing | None = None,
        labels: Iterable[Any] | None = None,
        classes: Iterable[str] | None = None,
        label_type: LabelType = "class",
        template: str | None = None,
        first_number: int = 1,
        sequence_length: int | None = None,
        stride: int = 1,
        step: int | None = None,
        clips_per_video: int | None = None,
        clip_mode: ClipMode = "random",
        repeats: int = 1,
        segments: int | None = None,
        segment_mode: SegmentMode = "random",
        pad_mode: PadMode = "none",
        fill_value: float = 0,
        min_frames: int | None = None,
        shuffle: bool = False,
        seed: int = 0,
        shard: tuple[int, int] = (0, 1),
        stick_to_shard: bool = False,
        even_shards: bool = False,
        threads: int | None = None,
        prefetch: int = 2,
        prefetch_gib: float | None = None,
        color: Color = "RGB",
        dtype: DType = "uint8",
        layout: ClipLayout = "FHWC",
        mean: float | tuple[float, ...] | None = None,
        std: float | tuple[float, ...] | None = None,
        size: tuple[int, int] | None = None,
        short_side: int | None = None,
        max_side: int | None = None,
        crop: tuple[int, int, int, int] | None = None,
        mirror: bool = False,
        output: OutputSpec | None = None,
        on_error: OnError = "raise",
    ) -> None:
        self._files = FrameFiles(template, first_number)
        super().__init__(
            files=folders,
            file_root=file_root,
            videos=videos,
            labels=labels,
            classes=classes,
            label_type=label_type,
            sequence_length=sequence_length,
            stride=stride,
            step=step,
            clips_per_video=clips_per_video,
            clip_mode=clip_mode,
            repeats=repeats,
            segments=segments,
            segment_mode=segment_mode,
            pad_mode=pad_mode,
            fill_value=fill_value,
            min_frames=min_frames,
            shuffle=shuffle,
            seed=seed,
            shard=shard,
            stick_to_shard=stick_to_shard,
            even_shards=even_shards,
            threads=threads,
            prefetch=prefetch,
            prefetch_gib=prefetch_gib,
            color=color,
            dtype=dtype,
            layout=layout,
            mean=mean,
            std=std,
            size=size,
            short_side=short_side,
            max_side=max_side,
            crop=crop,
            mirror=mirror,
            output=output,
            on_error=on_error,
        )

    @property
    def _engine_type(self) -> Callable[..., LazyPool[Engine]]:
        return lambda threads, *_: LazyFolderEngine(self._files, threads)

    @property
    def _survey_type(self) -> Callable[..., VideoSurvey]:
        return partial(FolderSurvey, files=self._files)

    def _listing(self, **sources: Any) -> Listing:
        parser = LabelParser(sources["classes"], sources["label_type"])
        return _listing(sources["files"], sources["file_root"], sources["videos"], sources["labels"], parser)

    def __repr__(self) -> str:
        return super().__repr__().replace("Video(", "FrameFolders(", 1).replace(" videos", " folders", 1)


def _listing(
    folders: Iterable[_Path] | None,
    file_root: _Path | None,
    videos: Listing | None,
    values: Iterable[Any] | None,
    labels: LabelParser,
) -> Listing:
    source = one_source({"folders": folders, "file_root": file_root, "videos": videos})
    if values is not None and folders is None:
        raise ParameterError(f"labels and {source} exclude one another", allowed="labels with folders")
    if folders is not None:
        return list_files(folders, values, None, labels)
    if videos is not None:
        return listing_of(videos)
    return _of_root(Path(check_path("file_root", file_root)), labels)


def _of_root(root: Path, labels: LabelParser) -> Listing:
    """List the folders of frames in class folders; or in the root itself, without labels, if these have no subfolders.

    Raises:
        SourceNotFoundError: the root does not exist, or has no folder of frames.
    """
    above = _folders_of(root)
    classes = {one.name: inside for one in above if (inside := _folders_of(one))}
    if not classes:
        found = [Entry(str(one), one.name, NO_LABEL) for one in above]
    else:
        known = labels if labels.classes else LabelParser(sorted(classes), labels.label_type)
        labels = known
        chosen = [name for name in sorted(classes) if name in known.classes]
        found = [
            Entry(str(one), f"{name}/{one.name}", known(name)) for name in chosen for one in classes[name]
        ]
    if not found:
        raise SourceNotFoundError(
            "there is no folder of frames", source=str(root), allowed="one folder or more"
        )
    return Listing.of(found, labels)


def _folders_of(folder: Path) -> list[Path]:
    try:
        return sorted(one for one in folder.iterdir() if one.is_dir() and not one.name.startswith("."))
    except OSError as error:
        raise SourceNotFoundError(
            f"the folder cannot be listed: {error.strerror}", source=str(folder), advice="Check the path"
        ) from error
