"""DALI's readers of files: encoded images, sequences of images, NumPy arrays, COCO, TFRecord and WebDataset."""

from __future__ import annotations

import itertools
import mmap
import os
from collections.abc import Callable, Mapping
from collections.abc import Sequence as Seq
from fnmatch import fnmatch
from functools import partial
from pathlib import Path
from typing import Any, Final

import numpy as np

from ...array import Array
from ...core.files.npy import array_of_npy
from ...dataset.calls import CallPool
from ...dataset.source import SampleSource
from ...errors import (
    ManifestError,
    ParameterError,
    SeqpipeError,
    SourceNotFoundError,
    UnreadableSourceError,
    described_type,
)
from ...images import decode_image, image_extensions
from ...pipeline.source import nodes_of
from ...readers.coco import AnnotationSettings, annotated_images
from ...readers.tar_samples import TarMember, read_member, samples_of
from ...readers.tfrecord import Feature, read_features, records_of
from ...sampling import EpochOrder
from ..data_node import DataNode, current
from ..declared import DaliCall, operator
from ..dtypes import dtype_name
from ..reading import Indexed, Items, read_item
from ..sources.mapped import views
from ..value import Value
from .windows import slice_

__all__ = ["READER_ACCEPTS", "label_node", "lines_of", "reader_nodes", "started"]

READER_ACCEPTS: Final = (
    *("additional_decode_surfaces", "channels", "dont_use_mmap", "initial_fill", "lazy_init"),
    *("prefetch_queue_depth", "read_ahead", "skip_cached_images", "skip_vfr_check", "tensor_init_bytes"),
    *("cache_header_information", "register_buffers", "use_o_direct"),
)
"""Arguments of readers that are accepted and ignored."""
_LARGE: Final = 1 << 20  # bytes; smaller files are read at once
_KINDS: Final = "biuf"
_MISSING: Final = ("", "empty", "skip", "error")


def started(call: DaliCall, source: SampleSource, names: Seq[str]) -> list[Any]:
    """Return the nodes of a source's parts, and register it in the pipeline by its name."""
    pipe = current()
    again, own_seed = bool(call.take("shuffle_after_epoch", False)), call.take("shuffle_after_epoch_seed")
    shuffle = bool(call.take("random_shuffle", False)) | again
    shard = int(call.take("shard_id", 0)), int(call.take("num_shards", 1))
    seed = own_seed if own_seed is not None and again else call.seed
    # the processes that read the shards agree on one order; and pipelines do, with shuffle_after_epoch
    seed = pipe.seed_of(call.row.name, seed, shared=again or shard[1] > 1) if shuffle else 0
    sticks, pads = bool(call.take("stick_to_shard", False)), bool(call.take("pad_last_batch", False))
    call.done()
    if shard[1] > source.size:
        raise call.wrong(
            f"The number of input samples: {source.size}, needs to be at least equal to the requested number of "
            f"shards:{shard[1]}"
        )
    order = EpochOrder(size=source.size, seed=seed, shuffle=shuffle, shard=shard, stick_to_shard=sticks)
    reader = Indexed(source, order, tuple(names), pipe.batch_size, "pad" if pads else "fill")
    pipe.register_source(call.name, reader)
    return list(nodes_of(reader))


def label_node(call: DaliCall, node: Any) -> DataNode:
    """Return the node of labels, int32 ``(1,)``, of one of numbers."""
    label = f"{call.row.name}.label"
    return DataNode(label, [node], lambda v, _: Value(np.asarray(v[0].data).astype(np.int32).reshape(-1, 1)))


def reader_nodes(
    call: DaliCall,
    names: Seq[str],
    described: Seq[str],
    facts: Mapping[str, object],
    read: Callable[[int], tuple[Any, ...]],
    gather: Callable[[list[Any], tuple[str, ...]], Value] | None = None,
) -> tuple[DataNode, ...]:
    """Return a node for each value of items, which a function reads by their numbers.

    Args:
        call: the call of a reader.
        names: names of the values.
        described: ``source_info`` of each item.
        facts: everything that determines the items, as plain values.
        read: returns the values of an item.
        gather: combines the values of a batch; by default into arrays without a layout.
    """
    kind = call.row.name.rpartition(".")[2]
    source = Items(
        *(partial(read_item, read, tuple(names), described), len(described), {}, False, 0, CallPool(0, kind)),
        *(kind, kind),
        names=tuple(names),
        told=facts,
        described=described,
        gather=gather or (lambda items, sources: Value.of(items, "", sources)),
    )
    label = call.name or call.row.name
    return tuple(DataNode(label, [node], lambda v, _: v[0]) for node in started(call, source, source.names))


# ---------------------------------------------------------------------- lists of files


def lines_of(table: Any, what: str = "file_list") -> list[tuple[int, str]]:
    """Return the lines of a text file that are not empty, with their numbers."""
    path = Path(table)
    if not path.is_file():
        raise SourceNotFoundError(f"there is no such {what}", source=str(path))
    lines = path.read_text(encoding="utf-8").splitlines()
    numbered = [(n, line) for n, line in enumerate(lines, 1) if line.strip()]
    if not numbered:
        raise ManifestError(f"the {what} has no lines", source=str(path))
    return numbered


def _file_rows(call: DaliCall, patterns: tuple[str, ...]) -> tuple[list[str], list[int], list[str]]:
    """Return paths, labels and ``source_info`` of a folder of class folders, a list of paths, or a ``file_list``.

    As in DALI, ``source_info`` is relative to ``file_root``, and paths of a list without one to the list's folder.
    """
    root, files, table = call.take("file_root"), call.take("files"), call.take("file_list")
    labels = call.args.pop("labels", None)
    own, folders = call.take("file_filters"), call.take("dir_filters")
    exact = bool(call.take("case_sensitive_filter", False))
    if files is not None:
        paths = [str(item) for item in ([files] if isinstance(files, (str, Path)) else files)]
        numbers = list(range(len(paths))) if labels is None else [int(label) for label in labels]
        if len(numbers) != len(paths):
            raise call.wrong(f"{len(numbers)} labels for {len(paths)} files", allowed="one for each")
    elif table is not None:
        pairs = [_file_row(table, n, line) for n, line in lines_of(table)]
        paths, numbers = [pair[0] for pair in pairs], [pair[1] for pair in pairs]
    elif root is not None:
        paths, numbers = _class_folders(call, Path(root), own or patterns, folders, exact)
        return paths, numbers, [str(Path(path).relative_to(root)) for path in paths]
    else:
        raise call.wrong("which files?", allowed="one of file_root, files and file_list")
    described = paths
    if root is not None or (files is None and table is not None):
        folder = Path(table).parent if root is None else Path(root)
        paths = [str(folder / path) for path in paths]
    if not paths:
        raise ParameterError("no files are given", allowed="one path or more")
    for path in paths:
        if not Path(path).is_file():
            raise SourceNotFoundError("there is no such file", source=path)
    return paths, numbers, described


def _file_row(table: Any, number: int, line: str) -> tuple[str, int]:
    path, _, label = line.strip().rpartition(" ")
    try:
        return path.strip(), int(label)
    except ValueError as error:
        raise ManifestError(f"line {number}: {line!r}", source=str(table), allowed="path label") from error


def _class_folders(
    call: DaliCall, root: Path, patterns: Any, folders: Any, exact: bool
) -> tuple[list[str], list[int]]:
    if not root.is_dir():
        raise SourceNotFoundError("there is no such folder", source=str(root))

    def fits(name: str, some: Any) -> bool:
        each = [some] if isinstance(some, str) else some
        return any(fnmatch(name, item) if exact else fnmatch(name.lower(), item.lower()) for item in each)

    classes = sorted(
        entry for entry in root.iterdir() if entry.is_dir() and (not folders or fits(entry.name, folders))
    )
    found = [
        (str(path), number)
        for number, folder in enumerate(classes)
        for path in sorted(folder.iterdir())
        if path.is_file() and fits(path.name, patterns)
    ]
    if not found:
        raise SourceNotFoundError(
            f"no files in the folders of {root}",
            source=f"fn.{call.row.name}",
            allowed="a folder of class folders, with files such as " + ", ".join(list(patterns)[:4]),
            advice="Give files=[…] for a folder without class folders",
        )
    return [path for path, _ in found], [number for _, number in found]


def _bytes_of(path: str) -> Array:
    """Return the bytes of a file, uint8."""
    try:
        return np.fromfile(path, np.uint8)
    except OSError as error:
        raise UnreadableSourceError(f"cannot be read: {error.strerror}", source=path) from error


def _texts(value: Any) -> list[str]:
    """Return a text, or a list of texts, as a list; an empty one for None."""
    if value is None:
        return []
    return [str(value)] if isinstance(value, (str, os.PathLike)) else [str(item) for item in value]


# ---------------------------------------------------------------------- readers


@operator("readers.file", passes=True, accept=READER_ACCEPTS)
def _file_reader(call: DaliCall) -> tuple[DataNode, DataNode]:
    """``fn.readers.file``: the bytes of files, and labels."""
    paths, labels, described = _file_rows(call, tuple(f"*{ending}" for ending in image_extensions))
    facts = {"files": paths, "labels": labels}
    data, label = reader_nodes(
        call, ("bytes", "label"), described, facts, lambda n: (_bytes_of(paths[n]), np.int64(labels[n]))
    )
    return data, label_node(call, label)


@operator("readers.sequence", passes=True, accept=READER_ACCEPTS)
def _sequence_reader(
    call: DaliCall,
    *,
    file_root: Any = None,
    sequence_length: Any = None,
    stride: int = 1,
    step: int = 1,
    image_type: Any = None,
) -> DataNode:
    """``fn.readers.sequence``: sequences of the images in each subfolder, sorted by name."""
    if file_root is None or sequence_length is None:
        raise call.wrong("file_root or sequence_length is missing")
    root, length = Path(file_root), int(sequence_length)
    if not root.is_dir():
        raise SourceNotFoundError("there is no such folder", source=str(root))
    if min(length, stride, step) < 1:
        raise call.wrong(f"sequence_length={length}, stride={stride}, step={step}", allowed="1 or more each")
    windows: list[tuple[Path, ...]] = []
    for folder in sorted(entry for entry in root.iterdir() if entry.is_dir()):
        frames = sorted(item for item in folder.iterdir() if item.suffix.lower() in image_extensions)
        reach = (length - 1) * stride + 1
        windows += [tuple(frames[n : n + reach : stride]) for n in range(0, len(frames) - reach + 1, step)]
    if not windows:
        raise SourceNotFoundError(
            f"no folder of {root} has a sequence of {length} images", source=f"fn.{call.row.name}"
        )

    def read(number: int) -> tuple[Any, ...]:
        name: Any = "RGB" if image_type is None else image_type.name
        images = [decode_image(_bytes_of(str(path)), name, source=str(path)) for path in windows[number]]
        if len({image.shape for image in images}) > 1:
            raise UnreadableSourceError(
                "the images of a sequence differ in size",
                source=str(windows[number][0].parent),
                allowed="one size",
            )
        return (np.stack(images),)

    described = [str(window[0]) for window in windows]
    facts = {"windows": [[str(path) for path in window] for window in windows]}
    (node,) = reader_nodes(
        call, ("frames",), described, facts, read, lambda items, sources: Value.of(items, "FHWC", sources)
    )
    return node


@operator("readers.numpy", passes=True, accept=READER_ACCEPTS)
def _numpy_reader(call: DaliCall, *, file_filter: Any = "*.npy", dont_use_mmap: bool = False) -> DataNode:
    """``fn.readers.numpy``: the arrays of ``.npy`` files, or a region of each by ``roi_start`` and others.

    Large files are mapped, so that only what later operators crop of them is read and copied, unless
    ``dont_use_mmap``.
    """
    maps, root = not dont_use_mmap, call.take("file_root")
    table, files = call.take("file_list"), call.take("files")
    if files is None and table is not None:
        files = [line.strip() for _, line in lines_of(table)]
        root = Path(table).parent if root is None else root
    elif files is None and root is not None:
        found = sorted(Path(root).rglob(file_filter))
        files = [f"./{path.relative_to(root)}" for path in found if path.is_file()]
        if not files:
            raise SourceNotFoundError(f"no files {file_filter} in the folder", source=str(root))
    call.args |= {"files": files, "file_root": root}
    paths, _, described = _file_rows(call, (file_filter,))
    region = {
        f"{rel}{side}": f"{rel}roi_{side}" for rel in ("", "rel_") for side in ("start", "end", "shape")
    }
    options = {name: call.take(argument) for name, argument in region.items()}
    selects = any(setting is not None for setting in options.values())
    options |= {"axes": call.take("roi_axes", ()), "fill_values": call.take("fill_value")}
    options["out_of_bounds_policy"] = call.take("out_of_bounds_policy")

    def read(number: int) -> tuple[Any, ...]:
        try:
            return (_array_of_file(paths[number], maps),)
        except OSError as error:
            if isinstance(error, SeqpipeError):
                raise
            raise UnreadableSourceError(f"it cannot be read: {error}", source=paths[number]) from error

    (result,) = reader_nodes(
        call, ("array",), described, {"files": paths}, read, lambda items, sources: views(items, "", sources)
    )
    result.maps_files = maps
    if selects:
        result = slice_(DaliCall(call.row, [result], options, "cpu"))
    return result.gpu() if call.device == "gpu" else result


def _array_of_file(path: str, maps: bool) -> Array:
    """Return the array of a file; a large one is a read-only view of the mapped file."""
    if not maps or Path(path).stat().st_size < _LARGE:
        return np.require(array_of_npy(_bytes_of(path), path, _KINDS), requirements=["C", "A"])
    data = np.memmap(path, np.uint8, "r")
    array = array_of_npy(data, path, _KINDS)
    if not array.dtype.isnative:
        return np.ascontiguousarray(array, array.dtype.newbyteorder("="))
    if hasattr(mmap, "MADV_WILLNEED"):  # the file is read ahead while other operators compute
        data._mmap.madvise(mmap.MADV_WILLNEED)  # type: ignore[attr-defined]  # of every memmap
    return np.asarray(array)


@operator(
    "readers.coco",
    passes=True,
    accept=(*READER_ACCEPTS, "save_preprocessed_annotations", "save_preprocessed_annotations_dir"),
    refuse={
        "pixelwise_masks": "polygon_masks=True gives outlines",
        "preprocessed_annotations": "annotations_file is read quickly enough",
    },
)
def _coco_reader(
    call: DaliCall,
    *,
    file_root: Any = None,
    annotations_file: Any = None,
    images: Any = None,
    ltrb: bool = False,
    ratio: bool = False,
    size_threshold: float = 0.1,
    include_iscrowd: bool = True,
    avoid_class_remapping: bool = False,
    polygon_masks: bool = False,
    image_ids: bool = False,
    skip_empty: bool = False,
) -> tuple[DataNode, ...]:
    """``fn.readers.coco``: encoded images, boxes and labels; polygons, vertices and image ids if enabled.

    Boxes are ``x, y, width, height``, or with ``ltrb`` left, top, right and bottom; in pixels, or with ``ratio``
    relative to the image's size. Labels number the categories from 1 in the order of the file. Images are sorted by
    id, or in the order of ``images``.
    """
    if file_root is None or annotations_file is None:
        raise call.wrong("which images?", allowed="file_root and annotations_file")
    settings = AnnotationSettings(ltrb, ratio, size_threshold, include_iscrowd, avoid_class_remapping)
    found = annotated_images(Path(file_root), str(annotations_file), settings, images)
    found = [image for image in found if len(image.labels) or not skip_empty]
    if not found:
        raise SourceNotFoundError(
            "the file has no images", source=str(annotations_file), allowed="one or more"
        )
    names = ("bytes", "boxes", "labels", *(["polygons", "vertices"] * polygon_masks), *(["ids"] * image_ids))

    def read(number: int) -> tuple[Any, ...]:
        image = found[number]
        drawn = (image.polygons, image.vertices) if polygon_masks else ()
        named = (np.array([image.number], np.int32),) if image_ids else ()
        return _bytes_of(image.path), image.boxes, image.labels, *drawn, *named

    facts = {"coco": [[image.path, image.number] for image in found], "settings": list(settings)}
    return reader_nodes(call, names, [image.source_info for image in found], facts, read)


@operator(
    "readers.tfrecord",
    passes=True,
    accept=READER_ACCEPTS,
    note="records without a feature have its default, where DALI returns the number 0; other counts and types of "
    "values than described are errors; index_path may be left out",
)
def _tfrecord_reader(
    call: DaliCall, *, path: Any = None, index_path: Any = None, features: Any = None
) -> dict[str, DataNode]:
    """``fn.readers.tfrecord``: the features of each record by their names; strings are arrays of bytes."""
    paths, indexes = _texts(path), _texts(index_path)
    if not paths or not isinstance(features, Mapping) or not features:
        raise call.wrong("which features?", allowed="path, and features={name: tfrec.FixedLenFeature(…)}")
    if wrong := next((name for name, element in features.items() if not isinstance(element, Feature)), None):
        raise call.wrong(
            f"the feature {wrong!r} is {described_type(features[wrong])}",
            allowed="tfrec.FixedLenFeature(…) or tfrec.VarLenFeature(…)",
        )
    _check_indexes(call, "index_path", indexes, paths)
    records = [
        item for name, index in itertools.zip_longest(paths, indexes) for item in records_of(name, index)
    ]
    if not records:
        raise SourceNotFoundError("the files have no records", source=", ".join(paths))
    facts = {
        "tfrecord": [list(record) for record in records],
        "features": [list(feature) for feature in features.items()],
    }
    nodes = reader_nodes(
        call,
        tuple(features),
        [entry.source for entry in records],
        facts,
        lambda number: read_features(records[number], features),
    )
    return dict(zip(features, nodes, strict=True))


@operator(
    "readers.webdataset",
    passes=True,
    accept=READER_ACCEPTS,
    note="a shuffled epoch is a full permutation; directories, links and hidden files between samples, which DALI "
    "makes empty samples of, are left out; a file that is no tar archive is an error",
)
def _webdataset_reader(
    call: DaliCall,
    *,
    paths: Any = None,
    index_paths: Any = None,
    ext: Any = None,
    dtypes: Any = None,
    missing_component_behavior: Any = "",
    case_sensitive_extensions: bool = True,
) -> Any:
    """``fn.readers.webdataset``: for each entry of ``ext``, the bytes of one file of a sample, as an array of a dtype.

    An entry of ``ext`` may list several extensions, separated by semicolons; the first file with one of them is taken.
    A sample without such a file has an empty array, or is left out with ``missing_component_behavior="skip"``.
    """
    paths, indexes, missing = _texts(paths), _texts(index_paths), missing_component_behavior
    extensions = [text.split(";") for text in _texts(ext)]
    kinds = [dtypes] if dtypes is not None and not isinstance(dtypes, (list, tuple)) else dtypes
    kinds = ["uint8"] * len(extensions) if kinds is None else [dtype_name(kind) for kind in kinds]
    if not paths or not extensions:
        raise call.wrong(
            "which files?", allowed="paths of archives, and ext with an extension for each output"
        )
    _check_indexes(call, "index_paths", indexes, paths)
    if len(kinds) != len(extensions):
        raise call.wrong(
            f"{len(kinds)} dtypes for {len(extensions)} outputs", allowed="one for each, or none"
        )
    if missing not in _MISSING:
        allowed = ", ".join(map(repr, _MISSING[1:]))
        raise call.wrong(f"missing_component_behavior={missing!r} is not valid", allowed=allowed)
    samples = []
    for archive, index in itertools.zip_longest(paths, indexes):
        for files in samples_of(archive, index):
            chosen = [_first(files, names, case_sensitive_extensions) for names in extensions]
            if all(member.archive for member in chosen) or missing in ("", "empty"):
                samples.append(chosen)
            elif missing == "error":
                lacking = next(member for member in chosen if not member.archive)
                raise UnreadableSourceError(
                    f"a sample has no file with the extension {lacking.extension!r}",
                    source=files[0].source,
                    advice="missing_component_behavior='skip' leaves such samples out",
                )
    if not samples:
        raise SourceNotFoundError("the archives have no samples", source=", ".join(paths))
    for sample, (number, kind) in itertools.product(samples, enumerate(kinds)):
        if sample[number].size % np.dtype(kind).itemsize:
            raise UnreadableSourceError(
                f"{sample[number].size} bytes are no array of {kind}", source=sample[number].source
            )
    nodes = reader_nodes(
        call,
        tuple(f"component_{number}" for number in range(len(kinds))),
        [next((item.source for item in sample if item.archive), "") for sample in samples],
        {"webdataset": [[entry.source for entry in sample] for sample in samples], "dtypes": kinds},
        # each component has a source of its own
        lambda n: tuple((read_member(*pair), pair[0].source) for pair in zip(samples[n], kinds, strict=True)),
        lambda items, _: Value.of(
            [element for element, _ in items], "", tuple(source for _, source in items)
        ),
    )
    return nodes if len(nodes) > 1 else nodes[0]


def _first(files: list[TarMember], extensions: list[str], exact: bool) -> TarMember:
    """Return the first of a sample's files that has one of the extensions; if none has, one without an archive."""
    wanted = extensions if exact else [extension.lower() for extension in extensions]
    matches = (path for path in files if (path.extension if exact else path.extension.lower()) in wanted)
    return next(matches, TarMember(";".join(extensions)))


def _check_indexes(call: DaliCall, name: str, indexes: list[str], paths: list[str]) -> None:
    if indexes and len(indexes) != len(paths):
        raise call.wrong(f"{len(indexes)} {name} for {len(paths)} paths", allowed="one for each, or none")
