"""Annotation files in COCO's format: boxes, labels and polygons of images."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from ..core.json_text import parse_json
from ..errors import ManifestError, SourceNotFoundError

__all__ = ["AnnotatedImage", "AnnotationSettings", "annotated_images"]


class AnnotatedImage(NamedTuple):
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


class AnnotationSettings(NamedTuple):
    """Arguments of the reader that select and convert annotations, by DALI's names."""

    ltrb: bool
    ratio: bool
    size_threshold: float
    include_iscrowd: bool
    avoid_class_remapping: bool


def annotated_images(
    root: Path, table: str, settings: AnnotationSettings, chosen: Any
) -> list[AnnotatedImage]:
    """Return the images of an annotation file with their annotations, by their ids or in the order of ``chosen``.

    Raises:
        SourceNotFoundError: the file, or an image, does not exist.
        ManifestError: the file has another format.
    """
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
    root: Path,
    image: Mapping[str, Any],
    objects: list[Any],
    classes: Mapping[Any, int],
    settings: AnnotationSettings,
) -> AnnotatedImage:
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
    return AnnotatedImage(
        str(root / image["file_name"]),
        str(image["file_name"]),
        int(image["id"]),
        np.array(boxes, np.float32).reshape(-1, 4),
        np.array(labels, np.int32),
        np.array(polygons, np.int32).reshape(-1, 3),
        np.array(vertices, np.float32).reshape(-1, 2),
    )
