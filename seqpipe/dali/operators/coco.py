"""``fn.readers.coco``: images with the boxes, labels and polygons of COCO's annotation files."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from ...core.json_text import parse_json
from ...errors import ManifestError, SourceNotFoundError
from ..call import DaliCall
from ..data_node import DataNode
from ..reading import Items
from ..value import Value
from .sources import bytes_of, started

__all__ = ["coco_reader"]


class _Annotated(NamedTuple):
    """An image and its annotations.

    Attributes:
        path: path of the image.
        source_info: path of the image relative to ``file_root``.
        number: id of the image.
        boxes: float32 ``(M, 4)``.
        labels: int32 ``(M,)``.
        polygons: int32 ``(P, 3)``: index of the object, first vertex, and the vertex after the last, of each polygon.
        vertices: float32 ``(V, 2)``.
    """

    path: str
    source_info: str
    number: int
    boxes: npt.NDArray[np.float32]
    labels: npt.NDArray[np.int32]
    polygons: npt.NDArray[np.int32]
    vertices: npt.NDArray[np.float32]


class _Settings(NamedTuple):
    """Arguments of the reader that select and convert annotations, by DALI's names."""

    ltrb: bool
    ratio: bool
    size_threshold: float
    include_iscrowd: bool
    avoid_class_remapping: bool


def coco_reader(call: DaliCall) -> tuple[DataNode, ...]:
    """``fn.readers.coco``: encoded images, boxes and labels; polygons, vertices and image ids if enabled.

    Boxes are ``x, y, width, height``, or with ``ltrb`` left, top, right and bottom; in pixels, or with ``ratio``
    relative to the image's size. Labels number the categories from 1 in the order of the file. Images are sorted by
    id, or in the order of ``images``.
    """
    settings = _Settings(
        ltrb=bool(call.take("ltrb", False)),
        ratio=bool(call.take("ratio", False)),
        size_threshold=float(call.take("size_threshold", 0.1)),
        include_iscrowd=bool(call.take("include_iscrowd", True)),
        avoid_class_remapping=bool(call.take("avoid_class_remapping", False)),
    )
    polygons, numbers = bool(call.take("polygon_masks", False)), bool(call.take("image_ids", False))
    root, table = call.take("file_root"), call.take("annotations_file")
    if root is None or table is None:
        raise call.wrong("which images?", allowed="file_root and annotations_file")
    images = _annotated(Path(root), str(table), settings, call.take("images"))
    if call.take("skip_empty", False):
        images = [image for image in images if len(image.labels)]
    if not images:
        raise SourceNotFoundError("the file has no images", source=str(table), allowed="one or more")
    parts = ["bytes", "boxes", "labels", *(["polygons", "vertices"] * polygons), *(["image_ids"] * numbers)]

    def read(number: int) -> tuple[Any, ...]:
        image = images[number]
        drawn = (image.polygons, image.vertices) if polygons else ()
        named = (np.array([image.number], np.int32),) if numbers else ()
        return bytes_of(image.path), image.boxes, image.labels, *drawn, *named

    dataset = Items.of(
        read,
        "coco",
        tuple(parts),
        {"coco": [[image.path, image.number] for image in images], "settings": list(settings)},
        [image.source_info for image in images],
        lambda items, sources: Value.of(items, "", sources),
    )
    nodes = started(call, dataset, dataset.names)
    label = call.name or call.row.name
    return tuple(
        DataNode(label if part == "bytes" else f"{call.row.name}.{part}", [node], lambda v, _: v[0])
        for part, node in zip(parts, nodes, strict=True)
    )


def _annotated(root: Path, table: str, settings: _Settings, chosen: Any) -> list[_Annotated]:
    """Return the images of an annotation file with their annotations."""
    try:
        text = Path(table).read_text(encoding="utf-8")
    except OSError as error:
        raise SourceNotFoundError(f"it cannot be read: {error.strerror}", source=table) from error
    try:
        whole = parse_json(text)
        classes = {entry["id"]: n for n, entry in enumerate(whole["categories"], 1)}
        objects: dict[Any, list[Any]] = {entry["id"]: [] for entry in whole["images"]}
        for entry in whole["annotations"]:
            objects[entry["image_id"]].append(entry)
        images = {
            entry["file_name"]: entry for entry in sorted(whole["images"], key=lambda entry: entry["id"])
        }
        names = list(images) if chosen is None else [str(name) for name in chosen]
        if unknown := next((name for name in names if name not in images), None):
            raise SourceNotFoundError(f"{table} has no image {unknown!r}", source=unknown)
        annotated = [
            _image(root, images[name], objects[images[name]["id"]], classes, settings) for name in names
        ]
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise ManifestError(
            f"not an annotation file of COCO's format: {type(error).__name__} {error}",
            source=table,
            allowed="images, categories, and annotations with image_id, category_id and bbox",
        ) from error
    for image in annotated:
        if not Path(image.path).is_file():
            raise SourceNotFoundError("there is no such image", source=image.path, advice="Check file_root")
    return annotated


def _image(
    root: Path, image: Mapping[str, Any], objects: list[Any], classes: Mapping[Any, int], settings: _Settings
) -> _Annotated:
    boxes, labels = list[npt.NDArray[Any]](), list[int]()
    polygons, vertices = list[tuple[int, int, int]](), list[Any]()
    size = (image["width"], image["height"]) if settings.ratio else (1, 1)
    for annotation in objects:
        x, y, width, height = map(float, annotation["bbox"])
        small = width < settings.size_threshold or height < settings.size_threshold
        if small or (annotation.get("iscrowd", 0) and not settings.include_iscrowd):
            continue
        outlines = annotation.get("segmentation", ())
        for outline in outlines if isinstance(outlines, list) else ():  # masks of crowds are no polygons
            points = np.asarray(outline, np.float64).reshape(-1, 2)
            polygons.append((len(labels), len(vertices), len(vertices) + len(points)))
            vertices += (points / size).tolist()
        box = np.array([x, y, x + width, y + height] if settings.ltrb else [x, y, width, height])
        boxes.append(box / (*size, *size))
        kind = annotation["category_id"]
        labels.append(kind if settings.avoid_class_remapping else classes[kind])
    return _Annotated(
        str(root / image["file_name"]),
        str(image["file_name"]),
        int(image["id"]),
        np.array(boxes, np.float32).reshape(-1, 4),
        np.array(labels, np.int32),
        np.array(polygons, np.int32).reshape(-1, 3),
        np.array(vertices, np.float32).reshape(-1, 2),
    )
