"""Calls of DALI's operators, run by DALI and by seqpipe.dali alike: ``python door.py RESULTS`` writes a pickle of all.

The results are, for each case, a list with (type, layout, list of arrays) for each output, or what was said instead.
"""

import atexit
import json
import pickle
import shutil
import sys
import tempfile
import warnings

import numpy as np
from nvidia.dali import fn, ops, pipeline_def, types
from nvidia.dali import math as dm

rng = np.random.default_rng(3)
IMG = [np.kron(rng.integers(0, 255, (6 + n, 7, 3)), np.ones((8, 8, 1))).astype(np.uint8) for n in range(3)]
SEQ = [rng.integers(0, 255, (4, 24, 32, 3)).astype(np.uint8) for _ in range(3)]
BOX = np.array([[0.1, 0.2, 0.5, 0.6], [0.4, 0.4, 0.9, 0.8]], np.float32)
EDGES = [np.kron(rng.integers(0, 2, (2, 6, 8, 3)), np.ones((1, 8, 8, 1))).astype(np.uint8) * 255 for _ in range(3)]
LABELS = np.zeros((6, 8, 10), np.uint8)
LABELS[1:3, 2:5, 3:7], LABELS[3, 5, 7], LABELS[4:6, 6:8, :2] = 1, 1, 2  # those of 1 meet in a corner only
VOLUMES = [
    (127 + 120 * np.sin(np.mgrid[: 10 + n, :20, :22].sum(axis=0) / 4))[..., None].repeat(2, -1).astype(np.uint8)
    for n in range(3)
]
cases = {}


def case(f):
    cases[f.__name__] = f
    return f


def img():
    return fn.external_source(lambda: IMG, layout="HWC")


def seq():
    return fn.external_source(lambda: SEQ, layout="FHWC")


def box():
    return fn.external_source(lambda: [BOX] * 3)


def num(*v):
    return fn.external_source(lambda: [np.float32(x) for x in v])


L = types.INTERP_LINEAR


FOLDER = tempfile.mkdtemp(prefix="door-")
atexit.register(shutil.rmtree, FOLDER)


def coco_files():
    """Annotations of four images, whose bytes are no images, for nothing decodes them."""
    sizes = {7: (40, 60), 3: (30, 50), 12: (20, 20), 5: (24, 36)}
    for n in sizes:
        with open(f"{FOLDER}/{n}.jpg", "wb") as file:
            file.write(bytes(range(n)))
    objects = [
        (7, 4, [10, 5, 20, 10], 0, [[10, 5, 30, 5, 30, 15], [12, 20, 20, 20, 16, 30.5]]),
        (7, 90, [1.5, 2.5, 3.25, 4], 1, {"size": [40, 60], "counts": [100, 20, 2280]}),
        (3, 18, [0, 0, 0.05, 10], 0, [[0, 0, 1, 0, 1, 10]]),
        (5, 18, [3, 4, 10, 10], 0, [[3, 4, 13, 4, 13, 14]]),
        (7, 18, [0, 0, 5, 5], 0, [[0, 0, 5, 0, 5, 5]]),
    ]
    names = ("image_id", "category_id", "bbox", "iscrowd", "segmentation")
    whole = {
        "images": [{"id": n, "file_name": f"{n}.jpg", "height": h, "width": w} for n, (h, w) in sizes.items()],
        "categories": [{"id": n, "name": str(n)} for n in (18, 4, 90)],
        "annotations": [dict(zip(names, one), id=n) for n, one in enumerate(objects)],
    }
    with open(f"{FOLDER}/coco.json", "w") as file:
        json.dump(whole, file)
    return {"file_root": FOLDER, "annotations_file": f"{FOLDER}/coco.json"}


@case
def grid_mask():
    x = img()
    return (
        fn.grid_mask(x, tile=10),
        fn.grid_mask(x, tile=7, ratio=0.6, shift_x=2.5),
        fn.grid_mask(x, tile=12, angle=num(-0.7, 0.0, 1.2), shift_x=num(1, 2, 3), shift_y=5.0),
        fn.grid_mask(fn.cast(x, dtype=types.FLOAT), tile=13, ratio=num(0.2, 0.5, 0.9)),
    )


@case
def coco():
    files = coco_files()
    return (
        *fn.readers.coco(**files, image_ids=True),
        *fn.readers.coco(**files, polygon_masks=True, ratio=True, include_iscrowd=False),
        *fn.readers.coco(**files, ltrb=True, skip_empty=True, size_threshold=3.5, avoid_class_remapping=True),
        *fn.readers.coco(**files, images=["12.jpg", "7.jpg", "7.jpg"], polygon_masks=True),
    )


@case
def crop():
    return (
        fn.crop(img(), crop=(20, 30)),
        fn.crop(img(), crop_h=21, crop_w=33, crop_pos_x=0.2, crop_pos_y=0.9),
        fn.crop(img(), crop=(20, 30), crop_pos_x=num(0, 0.5, 1)),
        fn.crop(seq(), crop=(10, 12), dtype=types.FLOAT),
    )


@case
def crop_pad():
    return fn.crop(img(), crop=(80, 90), out_of_bounds_policy="pad", fill_values=7)


@case
def cmn():
    return (
        fn.crop_mirror_normalize(
            img(),
            crop=(20, 30),
            mean=[1.0, 2.0, 3.0],
            std=[2.0, 3.0, 4.0],
            mirror=fn.cast(num(0, 1, 0), dtype=types.INT32),
        ),
        fn.crop_mirror_normalize(
            img(), crop=(20, 30), output_layout="HWC", dtype=types.FLOAT, scale=2.0, shift=1.0
        ),
        fn.crop_mirror_normalize(seq(), crop=(10, 12), mean=[128.0], std=[64.0], output_layout="FCHW"),
        fn.crop_mirror_normalize(seq(), output_layout="FCHW"),
    )


@case
def resize():
    return (
        fn.resize(img(), size=(33, 44)),
        fn.resize(img(), resize_x=40, resize_y=40, interp_type=types.INTERP_TRIANGULAR),
        fn.resize(seq(), size=(12, 16)),
        fn.resize(img(), size=50),
        fn.resize(img(), resize_x=num(20, 30, 40), resize_y=20.0),
    )


@case
def resize_attrs():
    return fn.resize(img(), size=(33, 44), save_attrs=True)[1]


@case
def rotate_boxes():
    labels = fn.external_source(lambda: [np.int32([4, 5])] * 3)
    shape = {"input_shape": img().shape()}
    found = (
        fn.bbox_rotate(box(), labels, angle=30.0, **shape),
        fn.bbox_rotate(box(), labels, angle=num(100, 20, -65), keep_size=True, remove_threshold=0.6, **shape),
        fn.bbox_rotate(box(), labels, angle=75.0, mode="fixed", input_shape=[60, 90], bbox_layout="xyWH"),
        fn.bbox_rotate(box(), labels, angle=-20.0, mode="halfway", size=(40, 50), **shape),
    )
    points = fn.bbox_rotate(box() * 50, angle=10.0, bbox_normalized=False, input_shape=[90, 60], shape_layout="WH")
    return *(one for pair in found for one in pair), points


@case
def rotate_volumes():
    scans = fn.external_source(lambda: VOLUMES, layout="DHWC")
    around = {"angle": num(30, -20, 100), "fill_value": 3.0}
    axis = fn.external_source(lambda: np.float32([[0, 0, 1], [1, 2, 3], [0, 1, 0]]))
    return (
        fn.rotate(scans, axis=[1, 0, 0], **around),
        fn.rotate(scans, axis=axis, keep_size=True, **around),
        fn.rotate(scans, axis=(0, 0, 2), angle=25.0, size=(8, 20, 16), interp_type=types.INTERP_NN),
        fn.rotate(scans, axis=(1, 1, 0), angle=25.0, dtype=types.FLOAT, keep_size=True),
    )


@case
def tensor_resize():
    scans = fn.external_source(lambda: VOLUMES, layout="DHWC")
    sizes = fn.external_source(lambda: np.float32([[5, 30], [9, 9], [12, 14]]))
    return (
        fn.tensor_resize(scans, sizes=[5, 30, 14], axis_names="DHW"),
        fn.tensor_resize(scans, sizes=sizes, axes=[0, 2], dtype=types.FLOAT),
        fn.experimental.tensor_resize(scans, scales=[0.6, 1.3], axes=[1, -2]),
        fn.tensor_resize(img(), sizes=[20, 0, 3], axes=[0, 1, 2], mode="not_smaller", interp_type=types.INTERP_NN),
        fn.tensor_resize(num(range(9), range(9), range(9)), sizes=[4], antialias=False),
        fn.tensor_resize(scans, sizes=[4, 11, 9], axis_names="DHW", mode="stretch", subpixel_scale=False),
    )


@case
def clahe():
    gray = fn.color_space_conversion(img(), image_type=types.RGB, output_type=types.GRAY)
    return (
        fn.clahe(gray, clip_limit=2.0, tiles_x=4, tiles_y=3),
        fn.clahe(img(), clip_limit=3.0, tiles_x=2, tiles_y=5),
        fn.clahe(img(), clip_limit=1.5, tiles_x=8, tiles_y=8, luma_only=False),
    )


@case
def rotate():
    return (
        fn.rotate(img(), angle=30.0, fill_value=0, keep_size=True),
        fn.rotate(img(), angle=num(10, 20, 30), fill_value=5),
        fn.rotate(seq(), angle=90.0, fill_value=0),
        fn.rotate(img(), angle=15.0, size=(40, 40), fill_value=1, interp_type=types.INTERP_NN),
    )


@case
def flip():
    return (
        fn.flip(img()),
        fn.flip(img(), horizontal=0, vertical=1),
        fn.flip(img(), horizontal=fn.cast(num(0, 1, 0), dtype=types.INT32)),
        fn.flip(seq(), vertical=1),
    )


@case
def slices():
    return (
        fn.slice(
            img(),
            fn.external_source(lambda: [np.array([0.1, 0.2], np.float32)] * 3),
            fn.external_source(lambda: [np.array([0.5, 0.4], np.float32)] * 3),
        ),
        fn.slice(img(), start=(3, 4), shape=(10, 12), axes=(0, 1)),
        fn.slice(img(), rel_start=(0.25, 0.25), rel_end=(0.75, 0.5), axis_names="HW"),
        fn.slice(img(), start=(-3, 4), end=(10, 70), axes=(0, 1), out_of_bounds_policy="pad", fill_values=9),
        fn.slice(img(), start=(-3, 4), end=(10, 70), axes=(0, 1), out_of_bounds_policy="trim_to_shape"),
        fn.slice(img(), 1, 2, axes=(2,), normalized_anchor=False, normalized_shape=False),
    )


@case
def color():
    return (
        fn.brightness(img(), brightness=1.25),
        fn.contrast(img(), contrast=0.75),
        fn.saturation(img(), saturation=0.5),
        fn.hue(img(), hue=20.0),
        fn.color_twist(img(), brightness=1.1, contrast=0.9, hue=10.0, saturation=1.2),
        fn.hsv(img(), hue=10.0, saturation=0.9, value=1.1),
        fn.brightness_contrast(img(), brightness=1.1, contrast=1.2),
        fn.color_space_conversion(img(), image_type=types.RGB, output_type=types.GRAY),
        fn.color_space_conversion(img(), image_type=types.RGB, output_type=types.BGR),
        fn.color_space_conversion(img(), image_type=types.RGB, output_type=types.YCbCr),
    )


@case
def pads():
    return (
        fn.pad(img()),
        fn.pad(img(), axes=(0, 1), shape=(80, 90), fill_value=3),
        fn.pad(img(), axis_names="W", align=(17,)),
        fn.pad(
            fn.external_source(lambda: [np.arange(n + 1, dtype=np.int32) for n in range(3)]), fill_value=-1
        ),
    )


@case
def resize_by_sample():
    edges = fn.external_source(lambda: EDGES, layout="FHWC")
    sizes = fn.external_source(lambda: [np.array(x, np.float32) for x in ([20, 30], [31, 17], [44, 12])])
    return (
        fn.resize(edges, resize_shorter=32),
        fn.resize(edges, resize_shorter=32, subpixel_scale=False),
        fn.resize(edges, resize_x=num(20, 30, 40), antialias=False),
        fn.resize(edges, size=sizes, interp_type=types.INTERP_TRIANGULAR),
        fn.resize(edges, resize_longer=num(20, 30, 40), interp_type=types.INTERP_LINEAR),
        fn.resize_crop_mirror(img(), resize_shorter=30, crop=(20, 20), mirror=1),
        fn.resize_crop_mirror(img(), resize_shorter=30, crop=(20, 21), mirror=3, crop_pos_y=0.1),
        fn.fast_resize_crop_mirror(img(), resize_shorter=30, crop=(20, 20)),
    )


@case
def volumes():
    deep = fn.external_source(lambda: VOLUMES, layout="DHWC")
    channels = fn.external_source(lambda: [x.transpose(3, 0, 1, 2).copy() for x in VOLUMES], layout="CDHW")
    on = fn.cast(num(0, 1, 1), dtype=types.INT32)
    return (
        fn.crop(channels, crop=(4, 6, 7), crop_pos_x=0.1, crop_pos_z=0.9),
        fn.crop(deep, crop_d=4.7, crop_h=6.2, crop_w=7.9),
        fn.crop(channels, crop=(12, 6, 7), out_of_bounds_policy="pad", fill_values=3.0),
        fn.crop_mirror_normalize(
            deep, crop=(3, 10, 11), output_layout="CDHW", mean=[1.0, 2.0], std=[3.0, 4.0], mirror=1
        ),
        fn.resize(deep, size=[12, 10, 33], interp_type=types.INTERP_NN),
        fn.resize(channels, size=[14, 30, 31], interp_type=types.INTERP_CUBIC),
        fn.resize(deep, resize_z=5, antialias=False),
        fn.resize(deep, resize_shorter=4),
        fn.resize(channels, size=[6, 10, 11], mode="not_larger"),
        fn.gaussian_blur(channels, sigma=num(0.5, 1, 2)),
        fn.gaussian_blur(deep, sigma=[0.5, 1.0, 1.5]),
        fn.gaussian_blur(deep, window_size=[3, 5, 7], dtype=types.FLOAT),
        fn.flip(channels, depthwise=on, horizontal=0),
        fn.flip(deep, depthwise=1, horizontal=on, vertical=1),
    )


@case
def by_sample():
    kinds = fn.cast(num(12, 11, 9), dtype=types.INT32)
    pairs = fn.external_source(lambda: [np.array(x, np.int32) for x in ([50, 61], [60, 71], [70, 81])])
    sigmas = fn.external_source(lambda: [np.array(x, np.float32) for x in ([1, 2], [2, 1], [0.5, 0.5])])
    return (
        fn.crop(img(), crop_h=num(10.7, 11.2, 9.5), crop_w=12),
        fn.pad(img(), axis_names="HW", shape=pairs),
        fn.pad(img(), axis_names="HW", align=kinds, fill_value=num(3, 4, 5)),
        fn.gaussian_blur(img(), sigma=sigmas),
        fn.resize(img(), size=[20, -30]),
        fn.shapes(fn.random_resized_crop(img(), size=20)),
        fn.erase(img(), anchor=(0.9, 0.7), shape=(0.5, 0.3), normalized=True, fill_value=120),
        fn.transpose(img(), perm=[2, 0, 1], transpose_layout=False),
        dm.rsqrt(num(1, 4, 9)),
        fn.one_hot(fn.external_source(lambda: [np.array(x, np.int32) for x in ([1, 2], [0], [2])]), num_classes=3),
        fn.one_hot(num(1, 0, 2), num_classes=3),
    )


@case
def displaced():
    flat = fn.cast(img(), dtype=types.FLOAT)
    return (
        fn.water(img()),
        fn.water(img(), ampl_x=5.0, ampl_y=3.0, freq_x=0.1, freq_y=0.05, phase_x=0.4, phase_y=0.2, fill_value=7),
        fn.water(flat, interp_type=types.INTERP_LINEAR),
        fn.water(img(), mask=fn.cast(num(0, 1, 1), dtype=types.INT32)),
        fn.sphere(img(), fill_value=5),
        fn.sphere(flat, interp_type=types.INTERP_LINEAR),
    )


@case
def segmentation():
    labels = fn.external_source(lambda: [LABELS] * 3, layout="DHW")
    mask = fn.external_source(lambda: [np.array([[0, 2], [0, 3]], np.uint8)] * 3)
    polygons = fn.constant(idata=[0, 0, 3, 1, 3, 7, 2, 7, 10], shape=(3, 3))
    vertices = fn.constant(fdata=[float(n) for n in range(20)], shape=(10, 2))
    box = fn.segmentation.random_object_bbox
    return (
        box(labels, classes=[2]),
        box(labels, classes=[2], format="start_end", output_class=True),
        box(labels, classes=[1], k_largest=1, format="box"),
        box(labels, classes=[1], threshold=[2, 2, 2], format="box"),
        box(labels, classes=[1, 2], threshold=3, format="box", output_class=True),
        box(labels, k_largest=1, ignore_class=True, format="box"),
        box(labels, background=1, classes=[0], format="box"),
        box(labels, class_weights=[0, 1], format="box"),
        box(labels, foreground_prob=0.0),
        fn.segmentation.random_mask_pixel(mask, foreground=1, value=2),
        fn.segmentation.random_mask_pixel(mask, foreground=1, threshold=2.5),
        fn.segmentation.select_masks(fn.constant(idata=[1]), polygons, vertices),
        fn.segmentation.select_masks(fn.constant(idata=[2, 0]), polygons, vertices, reindex_masks=True),
    )


@case
def paste():
    return (
        fn.paste(img(), ratio=1.5, fill_value=(1, 2, 3), paste_x=0.25, paste_y=0.75),
        fn.bbox_paste(box(), ratio=1.5, paste_x=0.25, paste_y=0.75, ltrb=True),
        fn.bb_flip(box(), ltrb=True, horizontal=1),
        fn.bb_flip(box(), ltrb=True, horizontal=fn.cast(num(1, 0, 1), dtype=types.INT32), vertical=1),
    )


@case
def erase():
    return (
        fn.erase(img(), anchor=(3, 4), shape=(10, 12), fill_value=5),
        fn.erase(img(), anchor=(0.1, 0.2, 0.5, 0.5), shape=(0.2, 0.2, 0.3, 0.3), normalized=True),
        fn.erase(seq(), anchor=(3, 4), shape=(10, 12), axis_names="HW"),
    )


@case
def normalize():
    return (
        fn.normalize(img()),
        fn.normalize(img(), mean=100.0, stddev=50.0),
        fn.normalize(img(), axes=(0, 1)),
        fn.normalize(img(), axis_names="HW", shift=3.0, scale=2.0),
        fn.normalize(img(), batch=True),
    )


@case
def blur():
    return (
        fn.gaussian_blur(img(), window_size=5),
        fn.gaussian_blur(img(), sigma=1.5),
        fn.gaussian_blur(seq(), sigma=num(1, 2, 3)),
        fn.laplacian(img(), window_size=3),
    )


@case
def kernels():
    kernel = (np.arange(9, dtype=np.float32).reshape(3, 3) - 2) / 20
    return (
        fn.experimental.filter(img(), kernel),
        fn.experimental.filter(img(), types.Constant(kernel), dtype=types.FLOAT),
        fn.experimental.filter(img(), fn.external_source(lambda: [kernel, kernel.T.copy(), kernel[:, :2].copy()])),
        fn.experimental.filter(seq(), kernel[:2], mode="valid"),
        fn.gaussian_blur(img(), window_size=[3, 7], sigma=[1.0, 2.0]),
        fn.gaussian_blur(img(), sigma=[0.5, 2.0]),
    )


@case
def matrices():
    matrix = np.float32([[1, 0.2, 3], [0, 0.9, 4]])
    turn = fn.transforms.rotation(angle=20.0, center=(25.0, 20.0))
    turn = fn.transforms.crop(
        turn, from_start=[0.0, 5.0], from_end=[4.0, 1.0], to_start=[1.0, 0.0], to_end=[0.0, 3.0], absolute=True
    )
    return (
        fn.warp_affine(img(), matrix, fill_value=3),
        fn.warp_affine(img(), types.Constant(matrix), fill_value=3, inverse_map=False),
        fn.warp_affine(img(), turn, fill_value=3, dtype=types.FLOAT),
        fn.warp_affine(img(), matrix=[1, 0.2, 3, 0, 0.9, 4], size=(60, 70)),
        fn.experimental.warp_perspective(img(), matrix=[1.0, 0.1, 2, 0, 0.9, 1, 0.001, 0, 1]),
        turn,
    )


@case
def windows():
    return (
        fn.slice(img(), 2, 8, axes=(0,)),
        fn.slice(img(), [2, 3], [8, 9], axes=(0, 1)),
        fn.slice(img(), np.array([2, 3]), types.Constant([8, 9]), axis_names="HW"),
        fn.slice(img(), [30, 30], [40, 40], axis_names="HW", out_of_bounds_policy="pad", fill_values=[1, 2, 3]),
        fn.slice(img(), [30, 30], [20, 40], axis_names="WH", out_of_bounds_policy="trim_to_shape"),
        fn.crop(img(), crop=(80, 91), out_of_bounds_policy="pad", fill_values=[1, 2, 3], crop_pos_x=0.3),
        fn.crop(img(), crop=(80, 20), out_of_bounds_policy="trim_to_shape"),
        fn.crop(img(), crop=(11, 13), rounding="truncate"),
        fn.crop_mirror_normalize(seq(), crop=(20, 21), output_layout="CFHW", mean=[1.0, 2.0, 3.0]),
        fn.crop_mirror_normalize(img(), crop=(20, 21), pad_output=True),
        fn.crop_mirror_normalize(
            img(), crop=(90, 90), out_of_bounds_policy="pad", fill_values=[1.0, 2.0, 3.0], output_layout="HWC"
        ),
    )


@case
def regions():
    return (
        fn.erase(img(), anchor=[10], shape=[5], axis_names="W", fill_value=[0]),
        fn.erase(img(), anchor=[2, 3], shape=[5, 6], axes=(1, 0), fill_value=[1, 2, 3]),
        fn.flip(seq(), depthwise=1, horizontal=0),
        fn.flip(fn.external_source(lambda: SEQ, layout="DHWC"), depthwise=1, vertical=1),
        fn.grid_mask(img(), tile=10, ratio=0.4, angle=0.1),
        fn.grid_mask(img(), tile=16, ratio=0.3, angle=num(0, 0.5, 1), shift_x=2.0, shift_y=3.0),
        fn.multi_paste(
            img(),
            output_size=[60, 60],
            in_ids=np.array([0, 1]),
            in_anchors=np.array([[0, 0], [10, 10]]),
            shapes=np.array([[20, 20], [20, 20]]),
            out_anchors=np.array([[0, 0], [10, 15]]),
        ),
    )


@case
def normalized():
    flat = fn.cast(img(), dtype=types.FLOAT)
    return (
        fn.normalize(img(), mean=np.array([[[1.0, 2.0, 3.0]]], np.float32), axes=(0, 1), ddof=1),
        fn.normalize(flat, mean=fn.reductions.mean(flat, axis_names="HW", keep_dims=True), axis_names="HW"),
        fn.normalize(img(), stddev=np.full((1, 1, 3), 9.0, np.float32), axes=(0, 1), scale=64.0, shift=9.0),
        dm.fpow(img(), 2),
    )


@case
def arrays():
    return (
        fn.transpose(img(), perm=[2, 0, 1]),
        fn.stack(num(1, 2, 3), num(4, 5, 6)),
        fn.cat(img(), img(), axis=2),
        fn.cat(img(), img(), axis_name="H"),
        fn.reshape(img(), shape=[-1]),
        fn.reshape(img(), src_dims=[2, 0, 1]),
        fn.expand_dims(num(1, 2, 3), axes=0),
        fn.squeeze(fn.expand_dims(img(), axes=0, new_axis_names="F"), axis_names="F"),
        fn.reshape(img(), rel_shape=[1, 0.5, 2]),
        fn.stack(img(), img(), axis=0, axis_name="F"),
    )


@case
def casts():
    return (
        fn.cast(img(), dtype=types.FLOAT),
        fn.cast(num(300, -1, 7), dtype=types.UINT8),
        fn.cast_like(num(1, 2, 3), img()),
        fn.cast(img(), dtype=types.INT64),
        fn.cast(num(-1, 0, 2), dtype=types.BOOL),
    )


@case
def reductions():
    return (
        fn.reductions.mean(img()),
        fn.reductions.sum(img()),
        fn.reductions.max(img(), axes=0),
        fn.reductions.min(img(), axis_names="HW"),
        fn.reductions.mean(img(), axis_names="HW", keep_dims=True),
        fn.reductions.std_dev(img(), fn.reductions.mean(img())),
        fn.reductions.variance(img(), fn.reductions.mean(img(), axes=(0, 1)), axes=(0, 1)),
        fn.reductions.rms(num(1, 2, 3)),
        fn.reductions.mean_square(img()),
    )


@case
def labels():
    return (
        fn.one_hot(fn.external_source(lambda: [np.array([n], np.int32) for n in range(3)]), num_classes=4),
        fn.one_hot(
            fn.external_source(lambda: [np.int32(n) for n in range(3)]), num_classes=4, dtype=types.INT32
        ),
        fn.lookup_table(
            fn.external_source(lambda: [np.array([1, 3, 9], np.uint8)] * 3),
            keys=[1, 3],
            values=[10.0, 30.0],
            default_value=-1.0,
        ),
    )


@case
def constants():
    return (
        fn.constant(idata=5),
        fn.constant(fdata=[1.5, 2.5]),
        fn.constant(idata=[1, 2, 3, 4], shape=(2, 2)),
        fn.zeros(shape=(2, 3)),
        fn.ones(shape=3, dtype=types.FLOAT),
        fn.full(7.0, shape=(2,)),
        fn.zeros_like(img()),
        fn.full_like(num(1, 2, 3), 5.0),
        types.Constant(3),
    )


@case
def frames():
    return (
        fn.element_extract(seq(), element_map=[0, 3]),
        fn.sequence_rearrange(seq(), new_order=[3, 0, 1]),
        fn.sequence_rearrange(seq(), new_order=fn.external_source(lambda: np.int32([[3, 0], [1, 1], [0, 2]]))),
        fn.shapes(seq()),
        fn.permute_batch(num(1, 2, 3), indices=[2, 0, 0]),
    )


@case
def points():
    return (
        fn.coord_transform(box(), M=[1.0, 0, 0, 0, 0, 2, 0, 0, 0, 0, 1, 0, 0, 0, 0, 1], T=[1.0, 2, 3, 4]),
        fn.coord_flip(fn.external_source(lambda: [np.array([[0.1, 0.2], [0.3, 0.9]], np.float32)] * 3)),
        fn.coord_flip(
            fn.external_source(lambda: [np.array([[0.1, 0.2], [0.3, 0.9]], np.float32)] * 3),
            flip_y=1,
            flip_x=0,
        ),
    )


@case
def warp():
    return (
        fn.warp_affine(img(), matrix=[1.0, 0.1, 3, 0.05, 1, 2], fill_value=0),
        fn.warp_affine(
            img(),
            matrix=fn.external_source(lambda: [np.array([[1, 0.1, 3], [0.05, 1, 2]], np.float32)] * 3),
            fill_value=0,
            interp_type=types.INTERP_NN,
        ),
        fn.warp_affine(img(), matrix=[1.0, 0.1, 3, 0.05, 1, 2], size=(30, 40), fill_value=42),
    )


@case
def perframe():
    return fn.rotate(
        seq(),
        angle=fn.per_frame(fn.external_source(lambda: [np.array([0, 90, 180, 270], np.float32)] * 3)),
        keep_size=True,
        fill_value=0,
    )


@case
def maths():
    return (
        dm.sqrt(num(1, 2, 3)),
        dm.floor(num(1.5, -2.5, 3)),
        dm.pow(num(1, 2, 3), 2),
        dm.min(img(), 100),
        dm.max(num(1, 2, 3), 2.0),
        dm.clamp(img(), 50, 100),
        dm.abs(num(-1, 2, -3)),
        dm.atan2(num(1, 2, 3), 1.0) if hasattr(dm, "atan2") else num(0, 0, 0),
        dm.exp(num(0, 1, 2)),
    )


@case
def python():
    return fn.python_function(img(), function=lambda x: x[::2]), fn.python_function(
        num(1, 2, 3), num(4, 5, 6), function=lambda a, b: (a + b, a - b), num_outputs=2
    )[1]


@case
def transforms():
    turned = fn.transforms.rotation(angle=num(10, 20, 30), center=(3.0, 4.0))
    return (
        fn.transforms.translation(offset=(5.0, -2.0)),
        turned,
        fn.transforms.scale(turned, scale=(2.0, 0.5), center=(1.0, 1.0)),
        fn.transforms.shear(shear=(0.5, 0.25)),
        fn.transforms.shear(angles=(20.0, -10.0), center=(2.0, 1.0)),
        fn.transforms.rotation(turned, angle=-15.0, reverse_order=True),
        fn.transforms.crop(from_start=(1.0, 2.0), from_end=(5.0, 8.0), to_start=(0.0, 0.0), to_end=(1.0, 2.0)),
        fn.transforms.combine(turned, fn.transforms.translation(offset=(1.0, 2.0)), fn.transforms.scale(scale=(2.0, 2.0))),
        fn.transforms.rotation(angle=25.0, axis=(0.0, 1.0, 1.0)),
        fn.warp_affine(img(), matrix=turned, fill_value=0),
    )


@case
def indexing():
    return (
        img()[0],
        img()[:, ::-1],
        img()[3:9, -4],
        seq()[1:3],
        seq()[:, 2:5, :, 0],
        img()[fn.cast(num(1, 2, 3), dtype=types.INT32)],
    )


@case
def jpeg():
    import cv2

    raw = [np.asarray(cv2.imencode(".png", x)[1]).reshape(-1) for x in IMG]
    r = fn.external_source(lambda: raw)
    return (
        fn.decoders.image(r, output_type=types.RGB),
        fn.decoders.image(r, output_type=types.GRAY),
        fn.decoders.image(r, output_type=types.BGR),
        fn.peek_image_shape(r),
        fn.decoders.image_crop(r, crop=(20, 30)),
        fn.decoders.image_slice(r, rel_start=(0.1, 0.2), rel_shape=(0.5, 0.5), axes=(0, 1)),
    )


@case
def props():
    return (
        fn.get_property(img(), key="layout"),
        img().shape(),
        fn.reinterpret(num(1, 2, 3), dtype=types.INT32),
        fn.reinterpret(img(), layout="XYZ"),
        fn.copy(img()),
    )


@case
def oldops():
    return (
        ops.Resize(resize_x=20, resize_y=30)(img()),
        ops.ElementExtract(element_map=[1])(seq()),
        ops.Crop(crop=(10, 10))(img()),
        ops.CropMirrorNormalize(crop=(10, 10), output_layout=types.NHWC, mean=[0.0], std=[1.0])(img()),
        ops.Cast(dtype=types.FLOAT)(num(1, 2, 3)),
    )


@case
def filters_by_direction():
    nearest, cubic, triangular = types.INTERP_NN, types.INTERP_CUBIC, types.INTERP_TRIANGULAR
    volume = fn.external_source(lambda: VOLUMES, layout="DHWC")
    return (
        fn.resize(img(), size=[20, 22], mag_filter=nearest),
        fn.resize(img(), size=[20, 22], min_filter=nearest),
        fn.resize(img(), size=[80, 90], min_filter=nearest),
        fn.resize(img(), size=[80, 90], mag_filter=nearest),
        fn.resize(img(), size=[56, 56], min_filter=nearest, mag_filter=cubic),  # one sample grows
        fn.resize(img(), size=[20, 90], min_filter=triangular),
        fn.resize(img(), size=[80, 30], interp_type=cubic),
        fn.resize(seq(), resize_shorter=40, min_filter=nearest, mag_filter=cubic),
        fn.resize(volume, size=[6, 12, 14], mag_filter=nearest),
        fn.resize_crop_mirror(img(), resize_shorter=40, crop=(30, 30), mag_filter=nearest),
    )


@case
def second_derivatives():
    volume = fn.external_source(lambda: VOLUMES, layout="DHWC")
    sizes = fn.external_source(lambda: [np.int32([3, 5])] * 3)
    floats = {"dtype": types.FLOAT}
    return (
        fn.laplacian(img(), window_size=[3, 5], **floats),
        fn.laplacian(img(), window_size=[5, 3], smoothing_size=[1, 3], scale=[0.25, 0.5], **floats),
        fn.laplacian(img(), window_size=[3, 5], normalized_kernel=True),
        fn.laplacian(img(), scale=[0.2, 0.3], **floats),
        fn.laplacian(img(), window_size=[5], smoothing_size=1),
        fn.laplacian(img(), window_size=sizes, **floats),
        fn.laplacian(seq(), window_size=[3, 5], **floats),
        fn.laplacian(volume, **floats),
        fn.laplacian(volume, window_size=[3, 5, 7], smoothing_size=[5, 3, 1], normalized_kernel=True, **floats),
        fn.laplacian(volume, scale=num(0.1, 0.2, 0.3)),
    )


@case
def anchors():
    boxes = fn.constant(fdata=[0.1, 0.2, 0.5, 0.6, 0.3, 0.3, 0.9, 0.8], shape=(2, 4))
    labels = fn.constant(idata=[3, 5], shape=(2,))
    grid = [[x / 4, y / 4, x / 4 + size, y / 4 + size] for x in range(4) for y in range(4) for size in (0.25, 0.5)]
    given = {"anchors": [side for anchor in grid for side in anchor]}
    statistics = {"means": [0.1, 0.2, 0.3, 0.4], "stds": [0.5, 0.6, 0.7, 0.8], "scale": 300.0}
    return (
        *fn.box_encoder(boxes, labels, **given),
        *fn.box_encoder(boxes, labels, **given, criteria=0.2),
        *fn.box_encoder(boxes, labels, **given, offset=True, **statistics),
    )



def flat(made):
    for one in made if isinstance(made, (tuple, list)) else [made]:
        yield from one if isinstance(one, (tuple, list)) else [one]


def run(function):
    pipe = pipeline_def(lambda: tuple(flat(function())), batch_size=3, num_threads=1, device_id=None)()
    pipe.build()
    return [
        (str(one.dtype), one.layout(), [np.array(one.at(n)) for n in range(len(one))]) for one in pipe.run()
    ]


def main(path):
    warnings.simplefilter("ignore")
    found = {}
    for name, function in cases.items():
        try:
            found[name] = run(function)
        except Exception as error:
            found[name] = f"{type(error).__name__}: {error}"
    with open(path, "wb") as file:
        pickle.dump(found, file)


if __name__ == "__main__":
    main(sys.argv[1])
