"""COCO's annotations and SSD's operators: what DALI 2.4 gives for the same files, and what is refused."""

from __future__ import annotations

import json

import cv2
import numpy as np
import pytest

from seqpipe.dali import fn, pipeline_def
from seqpipe.errors import ManifestError, ParameterError, SourceNotFoundError
from tests.dali.conftest import ON_CPU, run

SIZES = {7: (40, 60), 3: (30, 50), 12: (20, 20), 5: (24, 36)}
POLYGONS = [[10, 5, 30, 5, 30, 15, 10, 15], [12, 20, 20, 20, 16, 30.5]]
OBJECTS = [
    {"image_id": 7, "category_id": 4, "bbox": [10, 5, 20, 10], "segmentation": POLYGONS},
    {
        "image_id": 7,
        "category_id": 90,
        "bbox": [1.5, 2.5, 3.25, 4],
        "iscrowd": 1,
        "segmentation": {"size": [40, 60], "counts": [100, 20, 20, 20, 2240]},
    },
    {"image_id": 3, "category_id": 18, "bbox": [0, 0, 0.05, 10], "segmentation": [[0, 0, 1, 0, 1, 10]]},
    {"image_id": 5, "category_id": 18, "bbox": [3, 4, 10, 10], "segmentation": [[3, 4, 13, 4, 13, 14]]},
    {"image_id": 7, "category_id": 18, "bbox": [0, 0, 5, 5], "segmentation": [[0, 0, 5, 0, 5, 5]]},
]


@pytest.fixture(scope="module")
def coco(tmp_path_factory):
    """The arguments that name a small data set."""
    root = tmp_path_factory.mktemp("coco")
    for number, (height, width) in SIZES.items():
        cv2.imwrite(str(root / f"im{number}.png"), np.full((height, width, 3), number, np.uint8))
    whole = {
        "images": [
            {"id": n, "file_name": f"im{n}.png", "height": h, "width": w} for n, (h, w) in SIZES.items()
        ],
        "categories": [{"id": n, "name": str(n)} for n in (18, 4, 90)],
        "annotations": OBJECTS,
    }
    (root / "objects.json").write_text(json.dumps(whole))
    return {"file_root": str(root), "annotations_file": str(root / "objects.json")}


def values(coco, **options):
    """Each sample's values, the image decoded to its level."""

    def function():
        image, *rest = fn.readers.coco(**coco, **options)
        return (fn.decoders.image(image)[0, 0, 0], *rest)

    (found,) = run(function, batch_size=4)
    return [[np.asarray(part.at(n)).tolist() for part in found] for n in range(4)]


def test_boxes_and_labels(coco):
    assert values(coco, image_ids=True) == [
        [3, [], [], [3]],
        [5, [[3, 4, 10, 10]], [1], [5]],
        [7, [[10, 5, 20, 10], [1.5, 2.5, 3.25, 4], [0, 0, 5, 5]], [2, 3, 1], [7]],
        [12, [], [], [12]],
    ]


def test_corners_as_shares_of_images_with_objects(coco):
    first, second, third, _ = values(
        coco, ltrb=True, ratio=True, skip_empty=True, size_threshold=3.5, avoid_class_remapping=True
    )
    assert first == third == [5, [pytest.approx([1 / 12, 1 / 6, 13 / 36, 14 / 24])], [18]]
    assert second == [
        7,
        [pytest.approx([1 / 6, 1 / 8, 1 / 2, 3 / 8]), pytest.approx([0, 0, 1 / 12, 1 / 8])],
        [4, 18],
    ]


def test_chosen_images_come_as_they_are_listed(coco):
    found = values(coco, include_iscrowd=False, images=["im12.png", "im7.png", "im7.png"])
    assert [one[0] for one in found] == [12, 7, 7, 12]
    assert found[1][1:] == [[[10, 5, 20, 10], [0, 0, 5, 5]], [2, 1]]


def test_polygons(coco):
    found = values(coco, polygon_masks=True)
    assert [one[3] for one in found] == [[], [[0, 0, 3]], [[0, 0, 4], [0, 4, 7], [2, 7, 10]], []]
    assert found[2][4] == [
        [10, 5],
        [30, 5],
        [30, 15],
        [10, 15],
        [12, 20],
        [20, 20],
        [16, 30.5],
        [0, 0],
        [5, 0],
        [5, 5],
    ]
    shares = values(coco, polygon_masks=True, ratio=True, include_iscrowd=False)
    assert [one[3] for one in shares][2] == [[0, 0, 4], [0, 4, 7], [1, 7, 10]]
    np.testing.assert_allclose(shares[1][4], np.array([[3, 4], [13, 4], [13, 14]]) / (36, 24), rtol=1e-6)


def test_kinds_of_empty_images(coco):
    (found,) = run(lambda: fn.readers.coco(**coco, polygon_masks=True), batch_size=1)
    facts = [(one.dtype.name, one.at(0).shape) for one in found[1:]]
    assert facts == [("FLOAT", (0, 4)), ("INT32", (0,)), ("INT32", (0, 3)), ("FLOAT", (0, 2))]


def test_an_epoch_is_shuffled_and_divided(coco):
    def numbers(**options):
        pipe = pipeline_def(batch_size=1, **ON_CPU)(
            lambda: fn.readers.coco(**coco, image_ids=True, name="Reader", **options)[-1]
        )()
        found = [int(pipe.run()[0].at(0)[0]) for _ in range(4)]
        assert pipe.epoch_size("Reader") == 4
        return found

    assert sorted(numbers(random_shuffle=True, seed=5)) == sorted(SIZES)
    assert numbers(shard_id=1, num_shards=2, stick_to_shard=True) == [7, 12, 7, 12]


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"images": ["gone.png"]}, SourceNotFoundError, "has no image 'gone.png'"),
        ({"annotations_file": "gone.json"}, SourceNotFoundError, "gone.json: it cannot be read"),
        ({"file_root": "/"}, SourceNotFoundError, "there is no such image"),
        ({"pixelwise_masks": True}, ParameterError, "Polygon_masks=True gives outlines"),
        ({"annotations_file": __file__}, ManifestError, "not an annotation file of COCO's format"),
        ({"file_root": None}, ParameterError, "file_root and annotations_file"),
    ],
)
def test_what_is_refused(coco, options, error, message):
    with pytest.raises(error, match=message):
        run(lambda: fn.readers.coco(**{**coco, **options}))


@pytest.mark.parametrize("repeats", [False, True])
@pytest.mark.parametrize("moves", [False, True])
def test_batch_permutation(repeats, moves):
    def function():
        order = fn.batch_permutation(allow_repetitions=repeats, no_fixed_points=moves, seed=7)
        image = fn.external_source(lambda: np.arange(6, dtype=np.int32))
        return order, fn.permute_batch(image, indices=order)

    found = run(function, batch_size=6, count=40)
    orders = np.array([[np.asarray(order.at(n)) for n in range(6)] for order, _ in found])
    picked = np.array([[np.asarray(image.at(n)) for n in range(6)] for _, image in found])
    np.testing.assert_array_equal(orders, picked)
    assert found[0][0].dtype.name == "INT32"
    assert len({tuple(one) for one in orders.tolist()}) > 30
    assert (orders == np.arange(6)).any() != moves
    assert all(sorted(one) == list(range(6)) for one in orders.tolist()) != repeats
    assert set(orders.ravel().tolist()) == set(range(6))
    again = run(function, batch_size=6, count=1)
    assert [int(again[0][0].at(n)) for n in range(6)] == orders[0].tolist()


def test_batches_of_one_sample_stay():
    ((order,),) = run(lambda: fn.batch_permutation(no_fixed_points=True), batch_size=1)
    assert int(order.at(0)) == 0


def test_ssd_random_crop():
    images = np.random.default_rng(1).integers(0, 256, (40, 60, 3), np.uint8)
    boxes = np.array([[0.1, 0.1, 0.5, 0.6], [0.6, 0.6, 0.9, 0.9]], np.float32)

    def function():
        image = fn.external_source(lambda: [images] * 8, layout="HWC")
        given = (
            fn.external_source(lambda: [boxes] * 8),
            fn.external_source(lambda: [np.array([1, 2], np.int32)] * 8),
        )
        return fn.ssd_random_crop(image, *given, num_attempts=20, seed=3)

    shapes = set()
    for cut, found, labels in run(function, batch_size=8, count=5):
        for n in range(8):
            window, inside, kept = (np.asarray(one.at(n)) for one in (cut, found, labels))
            height, width, _ = window.shape
            shapes.add((height, width))
            assert len(inside) == len(kept) >= 1
            assert set(kept.tolist()) <= {1, 2}
            assert ((inside >= 0) & (inside <= 1)).all()
            places = [
                (y, x)
                for y in range(41 - height)
                for x in range(61 - width)
                if np.array_equal(images[y : y + height, x : x + width], window)
            ]
            assert len(places) == 1
            (top, left) = places[0]
            for box, label in zip(inside, kept, strict=True):
                whole = boxes[label - 1] * (60, 40, 60, 40) - (left, top, left, top)
                expected = np.clip(whole / (width, height, width, height), 0, 1)
                assert np.abs(box - expected).max() < 0.06, "up to a pixel of the window"
    assert (40, 60) in shapes
    assert len(shapes) > 5
