"""Programs in many hands' styles, run by DALI and by seqpipe.dali alike: ``python strangers.py FOLDER RESULTS``.

The results are, by the name of the program, nested lists of arrays and numbers, or the type of the error.
"""

import numpy as np
import nvidia.dali.fn as fn
import nvidia.dali.math as dmath
import nvidia.dali.ops as ops
import nvidia.dali.types as types
import torch.utils.dlpack as dlpack
from nvidia.dali import pipeline_def
from nvidia.dali.pipeline import Pipeline, do_not_convert
from nvidia.dali.plugin.pytorch import (
    DALIClassificationIterator,
    DALIGenericIterator,
    DALIRaggedIterator,
    LastBatchPolicy,
    feed_ndarray,
)
from program_results import main
from nvidia.dali.tensors import TensorCPU, TensorListCPU

ON_CPU = {"num_threads": 1, "device_id": None}
programs = {}
rng = np.random.default_rng(8)
VOLUMES = [rng.random((2, 12 + n, 20, 22)).astype(np.float32) for n in range(3)]
LABELS = [np.zeros((1, 12 + n, 20, 22), np.uint8) for n in range(3)]
for label in LABELS:
    label[:, 3:7, 5:9, 8:14], label[:, 9:11, 12:16, 2:5] = 1, 2


def program(f):
    programs[f.__name__] = f
    return f


def numbers(*values, kind=np.float32):
    return fn.external_source(lambda: [kind(value) for value in values])


def ran(f, batch_size=3, runs=1, **options):
    pipe = pipeline_def(f, batch_size=batch_size, **ON_CPU, **options)()
    pipe.build()
    return [[one.as_cpu() for one in pipe.run()] for _ in range(runs)]


# ---------------------------------------------------------------------- image classification


@pipeline_def
def resnet(folder, crop, size, training):
    images, labels = fn.readers.file(
        file_root=folder + "/images", shard_id=0, num_shards=1, random_shuffle=training, pad_last_batch=True, name="R"
    )
    if training:
        images = fn.decoders.image_random_crop(images, device="cpu", output_type=types.RGB, num_attempts=100)
        images = fn.resize(images, resize_x=crop, resize_y=crop, interp_type=types.INTERP_TRIANGULAR)
        mirror = fn.random.coin_flip(probability=0.5)
    else:
        images = fn.decoders.image(images, device="cpu", output_type=types.RGB)
        images = fn.resize(images, size=size, mode="not_smaller", interp_type=types.INTERP_TRIANGULAR)
        mirror = False
    images = fn.crop_mirror_normalize(
        images, dtype=types.FLOAT, output_layout="CHW", crop=(crop, crop), mean=[124.0] * 3, std=[58.0] * 3, mirror=mirror
    )
    return images, labels


@program
def validation_of_resnet(folder):
    pipe = resnet(folder, 48, 56, False, batch_size=3, seed=12, **ON_CPU)
    loader = DALIClassificationIterator(pipe, reader_name="R", last_batch_policy=LastBatchPolicy.PARTIAL, auto_reset=True)
    found = [[(batch[0]["data"], batch[0]["label"].squeeze(-1).long()) for batch in loader] for _ in range(2)]
    return len(loader), pipe.epoch_size("R"), pipe.reader_meta("R"), found


@program
def training_of_resnet(folder):
    pipe = resnet(folder, 48, 56, True, batch_size=3, seed=12, **ON_CPU)
    loader = DALIClassificationIterator(pipe, reader_name="R", last_batch_policy=LastBatchPolicy.PARTIAL, auto_reset=True)
    return [[tuple(batch[0]["data"].shape) for batch in loader] for _ in range(2)]


@program
def two_views(folder):
    def view(images):
        small = fn.random_resized_crop(images, size=32, random_area=[0.08, 1.0])
        strong = fn.color_twist(small, brightness=fn.random.uniform(range=[0.6, 1.4]), hue=fn.random.uniform(range=[-20, 20]))
        acts = fn.random.coin_flip(probability=0.8)
        small = acts * strong + (1 - acts) * small
        gray = fn.cast(1 - fn.random.coin_flip(probability=0.2), dtype=types.FLOAT)
        blurred = fn.gaussian_blur(fn.hsv(small, saturation=gray), sigma=fn.random.uniform(range=[0.1, 2.0]), window_size=5)
        return fn.crop_mirror_normalize(blurred, mirror=fn.random.coin_flip(), mean=[123.0] * 3, std=[58.0] * 3)

    def both():
        data, labels = fn.readers.file(file_root=folder + "/images")
        images = fn.decoders.image(data)
        return view(images).shape(), view(images).shape(), labels

    return ran(both)


@program
def crops_of_evaluation(folder):
    def five():
        images = fn.decoders.image(fn.readers.file(file_root=folder + "/images")[0])
        images = fn.resize(images, resize_shorter=40)
        places = ((0.0, 0.0, 0), (1.0, 1.0, 1), (0.5, 0.5, 0))
        crops = [
            fn.crop_mirror_normalize(images, crop=(32, 32), crop_pos_x=x, crop_pos_y=y, mirror=m) for x, y, m in places
        ]
        return fn.stack(*crops), fn.cat(*crops, axis=1)

    return ran(five)


@program
def mixup_by_arithmetic(folder):
    def mixed():
        data, labels = fn.readers.file(file_root=folder + "/images")
        images = fn.cast(fn.resize(fn.decoders.image(data), size=[24, 24]), dtype=types.FLOAT)
        turned = [2, 0, 1]
        hot = fn.one_hot(labels, num_classes=2)
        return (
            0.3 * images + 0.7 * fn.permute_batch(images, indices=turned),
            hot * 0.3 + fn.permute_batch(hot, indices=turned) * 0.7,
        )

    return ran(mixed)


@program
def a_class_of_operators(folder):
    class Simple(Pipeline):
        def __init__(self):
            super().__init__(3, 2, None, seed=12)
            self.input = ops.readers.File(file_root=folder + "/images")
            self.decode = ops.decoders.Image(device="cpu", output_type=types.RGB)
            self.resize = ops.Resize(resize_x=20, resize_y=24, interp_type=types.INTERP_TRIANGULAR)
            self.finish = ops.CropMirrorNormalize(crop=(16, 16), output_layout=types.NCHW, dtype=types.FLOAT, mean=[9.0], std=[2.0])
            self.coin = ops.random.CoinFlip(probability=1.0)

        def define_graph(self):
            data, labels = self.input(name="Reader")
            return [self.finish(self.resize(self.decode(data)), mirror=self.coin()), labels]

    pipe = Simple()
    pipe.build()
    loader = DALIClassificationIterator(pipe, size=pipe.epoch_size("Reader"), auto_reset=True)
    return [(batch[0]["data"], batch[0]["label"]) for batch in loader]


@program
def composed_operators(folder):
    pipe = Pipeline(2, 1, None)
    with pipe:
        chain = ops.Compose([ops.decoders.Image(device="cpu"), ops.Resize(size=[8, 9]), ops.Flip()])
        images = chain(fn.readers.file(file_root=folder + "/images")[0])
        pipe.set_outputs(images, *fn.resize([images, images], size=[5, 6]))
    return pipe.run()


# ---------------------------------------------------------------------- readers


@program
def file_readers(folder):
    root = folder + "/images"
    one, two = (f"{folder}/flat/image_{n}.png" for n in (1, 2))
    return [
        ran(lambda: fn.readers.file(file_root=root)[1], runs=3),
        ran(lambda: fn.readers.file(file_root=root, file_list=folder + "/list.txt")[1]),
        ran(lambda: fn.readers.file(files=[one, two], labels=[7, 8])[1]),
        ran(lambda: fn.readers.file(file_root=root, file_filters=["*_4.png", "*_3.png"])[1]),
        ran(lambda: fn.readers.file(file_root=root, dir_filters=["class1"])[1]),
    ]


@program
def numpy_readers(folder):
    root = folder + "/arrays"
    return [
        ran(lambda: fn.readers.numpy(file_root=root, file_filter="a*.npy")),
        ran(lambda: fn.readers.numpy(files=[root + "/a1.npy"])),
        ran(lambda: fn.readers.numpy(file_root=root, files=["a1.npy", "a2.npy"])),
    ]


@program
def regions_of_arrays(folder):
    def read(**options):
        return ran(lambda: fn.readers.numpy(file_root=folder + "/arrays", **{k: f() for k, f in options.items()}))

    def constant(*values):
        return lambda: list(values)

    def node(*values, kind=np.int32):
        return lambda: fn.external_source(lambda: [kind(values)] * 3)

    return [
        read(roi_start=constant(1, 0, 2), roi_end=constant(3, 2, 3)),
        read(roi_start=node(1, 0, 1), roi_shape=node(2, 2, 2)),
        read(roi_start=constant(0), roi_shape=constant(2)),
        read(roi_start=constant(0, 1), roi_end=constant(2, 3), roi_axes=constant(2, 0)),
        read(rel_roi_start=constant(0.1, 0.3, 0.5), rel_roi_end=constant(0.9, 0.7, 0.9)),
        read(rel_roi_start=node(0.1, 0.25, 0.5, kind=np.float32), rel_roi_shape=constant(0.5, 0.5, 0.4)),
        read(roi_start=constant(0, 1, 1), rel_roi_shape=constant(0.5, 0.5, 0.5)),
        read(roi_end=constant(2, 1, 2)),
        read(roi_start=constant(-1), roi_end=constant(9), out_of_bounds_policy=lambda: "pad", fill_value=lambda: 7.0),
        read(roi_start=constant(-1), roi_end=constant(9), out_of_bounds_policy=lambda: "trim_to_shape"),
    ]


@program
def relative_slices(folder):  # noqa: ARG001
    sides = [(size, start / 100, share / 100) for size in (23, 25, 30, 31) for start in (8, 35, 42) for share in (15, 23, 42, 54)]

    def windows():
        x = fn.external_source(lambda: [np.arange(size, dtype=np.int32) for size, _, _ in sides])
        start, share = numbers(*([one[1]] for one in sides)), numbers(*([one[2]] for one in sides))
        inside = {"axes": [0]}
        return (
            fn.slice(x, rel_start=start, rel_shape=share, **inside),
            fn.slice(x, rel_start=start, rel_end=share + 0.45, **inside),
            fn.slice(x, start, share, **inside),
        )

    return ran(windows, batch_size=len(sides))


@program
def sources_of_samples(folder):
    def source(read, **options):
        def names():
            first = read(**options)
            return fn.get_property(first[0] if isinstance(first, (list, tuple)) else first, key="source_info")

        return ran(names, batch_size=2)

    arrays, images = folder + "/arrays", folder + "/images"
    coco = {"file_root": folder + "/flat", "annotations_file": folder + "/coco.json"}
    return [
        source(fn.readers.file, file_root=images),
        source(fn.readers.file, file_root=images, files=["class0/image_2.png", "class1/image_1.png"]),
        source(fn.readers.file, file_root=images, file_list=folder + "/list.txt"),
        source(fn.readers.numpy, file_root=arrays),
        source(fn.readers.numpy, file_root=arrays, files=["a1.npy", "a2.npy"]),
        source(fn.readers.coco, **coco),
        source(lambda: fn.decoders.image(fn.readers.file(file_root=images)[0])),
    ]


@program
def sequence_readers(folder):
    return ran(lambda: fn.readers.sequence(file_root=folder + "/frames", sequence_length=2, stride=2, step=1), runs=2)


@program
def annotations(folder):
    def boxes(**options):
        return fn.readers.coco(file_root=folder + "/flat", annotations_file=folder + "/coco.json", **options)[1:]

    return [
        ran(lambda options=options: tuple(boxes(**options)), runs=2)
        for options in (
            {},
            {"ltrb": True, "ratio": True},
            {"skip_empty": True, "image_ids": True},
            {"avoid_class_remapping": True},
            {"polygon_masks": True},
            {"size_threshold": 25.0},
        )
    ]


@program
def efficient_detection(folder):
    def padded():
        images, boxes, classes, ids = fn.readers.coco(
            file_root=folder + "/flat", annotations_file=folder + "/coco.json", ratio=True, ltrb=True, image_ids=True, skip_empty=True
        )
        images = fn.resize(fn.decoders.image(images), resize_longer=64)
        height = fn.slice(fn.shapes(images), 0, 1, axes=[0])
        images = fn.pad(images, fill_value=0, axes=(0, 1), shape=[64, 64])
        return images, fn.pad(boxes, fill_value=-1, shape=[5, 4]), fn.pad(classes, fill_value=-1, shape=[5]), ids, height

    return ran(padded)


@program
def ssd(folder):
    def detection():
        images, boxes, labels = fn.readers.coco(
            file_root=folder + "/flat", annotations_file=folder + "/coco.json", ratio=True, ltrb=True, skip_empty=True
        )
        start, size, boxes, labels = fn.random_bbox_crop(
            boxes, labels, aspect_ratio=[0.5, 2.0], thresholds=[0, 0.1, 0.3], scaling=[0.3, 1.0], bbox_layout="xyXY", num_attempts=50
        )
        images = fn.resize(fn.decoders.image_slice(images, start, size, output_type=types.RGB), resize_x=30, resize_y=30)
        flipped = fn.random.coin_flip(probability=0.5)
        boxes = fn.bb_flip(boxes, ltrb=True, horizontal=flipped)
        images = fn.hsv(images, dtype=types.FLOAT, hue=fn.random.uniform(range=[-0.05, 0.05]))
        images = fn.crop_mirror_normalize(images, mean=[124.0] * 3, std=[58.0] * 3, mirror=flipped, output_layout="CHW")
        boxes, labels = fn.box_encoder(boxes, labels, criteria=0.5, anchors=[0.0, 0.0, 0.5, 0.5, 0.2, 0.2, 0.9, 0.9])
        return images.shape(), boxes.shape(), labels.shape(), start.shape()

    return ran(detection)


# ---------------------------------------------------------------------- videos


def clips(folder, runs=2, batch_size=2, **options):
    def read():
        found = fn.experimental.readers.video(device="cpu", name="V", **options)
        return tuple(found) if isinstance(found, (list, tuple)) else found

    pipe = pipeline_def(read, batch_size=batch_size, **ON_CPU)()
    pipe.build()
    return [pipe.run() for _ in range(runs)], pipe.epoch_size("V")


@program
def videos(folder):
    one, two = folder + "/videos/0/a.mp4", folder + "/videos/1/b.mp4"
    return [
        clips(folder, filenames=[one], sequence_length=4, labels=[5]),
        clips(folder, filenames=[one], sequence_length=4, labels=[5], enable_frame_num=True, enable_timestamps=True),
        clips(folder, filenames=[one, two], sequence_length=16, labels=[1, 2], batch_size=1, runs=4),
        clips(folder, file_root=folder + "/videos", sequence_length=20),
        clips(folder, file_list=folder + "/videos.txt", sequence_length=20),
        clips(folder, file_list=folder + "/ranges.txt", sequence_length=8, file_list_format="frames", batch_size=1, runs=5),
        clips(folder, filenames=[one], sequence_length=18, pad_mode="edge", batch_size=1, runs=3),
        clips(folder, filenames=[one], sequence_length=18, pad_mode="constant", fill_value=7, batch_size=1, runs=3),
        clips(folder, filenames=[one], sequence_length=8, pad_last_batch=True, batch_size=3),
    ]


@program
def frame_numbers(folder):
    one = {"filenames": [folder + "/videos/0/a.mp4"], "labels": [5]}
    return [
        clips(folder, **one, sequence_length=4, enable_frame_num="scalar"),
        clips(folder, **one, sequence_length=4, enable_frame_num="sequence"),
        clips(folder, **one, sequence_length=4, enable_frame_num="none"),
        clips(folder, **one, sequence_length=18, enable_frame_num="sequence", enable_timestamps=True, pad_mode="constant"),
        clips(folder, **one, sequence_length=5, stride=7, step=35, enable_frame_num="sequence", runs=1, batch_size=1),
    ]


@program
def bounds_between_frames(folder):
    found = []
    for number, bounds in enumerate(("0.2 0.4", "0.21 0.41", "0.23 0.39", "0 0.5", "0.01 1.55", "3.4 7.6", "3 8")):
        table = f"{folder}/bounds{number}.txt"
        with open(table, "w") as file:
            file.write(f"{folder}/videos/0/a.mp4 1 {bounds}\n")
        unit = {"file_list_format": "frames"} if number > 4 else {}
        for rounding in ({}, *({"file_list_rounding": f"{a}"} for a in ("start_up_end_down", "all_up", "all_down"))):
            found.append(
                clips(folder, runs=1, batch_size=1, file_list=table, sequence_length=1, enable_frame_num=True, **unit, **rounding)
            )
    return found


@program
def slow_and_fast(folder):
    def paths():
        frames, label, number = fn.experimental.readers.video(
            filenames=[folder + "/videos/0/a.mp4"], labels=[3], sequence_length=16, stride=2, step=4, enable_frame_num=True
        )
        small = fn.resize(frames, resize_shorter=32)
        fast = fn.crop_mirror_normalize(small, crop=(28, 28), mean=[110.0] * 3, std=[57.0] * 3, output_layout="CFHW")
        return fast, fn.slice(fast, start=0, end=4, axes=[1]), fn.sequence_rearrange(frames, new_order=[0, 4, 8, 12]), label, number

    return ran(paths, batch_size=2)


@program
def super_resolution(folder):
    class Reader(Pipeline):
        def __init__(self):
            super().__init__(2, 1, None, seed=12)
            self.reader = ops.experimental.readers.Video(
                device="cpu", filenames=[folder + "/videos/0/a.mp4"], sequence_length=5, image_type=types.RGB, initial_fill=16
            )
            self.crop = ops.Crop(device="cpu", crop=[16, 16], dtype=types.FLOAT)
            self.transpose = ops.Transpose(device="cpu", perm=[3, 0, 1, 2])

        def define_graph(self):
            return self.transpose(self.crop(self.reader(name="Reader"), crop_pos_x=0.2, crop_pos_y=1.0))

    pipe = Reader()
    pipe.build()
    loader = DALIGenericIterator(pipe, ["data"], pipe.epoch_size("Reader"), auto_reset=True)
    return [batch[0]["data"] for batch in loader]


@program
def decoded_videos(folder):
    def decoded(options):
        return fn.decoders.video(fn.external_source(lambda: [np.fromfile(folder + "/videos/0/a.mp4", np.uint8)] * 2), **options())

    whole = [np.int32(3), np.int32(5)]
    some = [np.array(x, np.int32) for x in ([1, 2], [30, 3])]
    return [
        ran(lambda options=options: decoded(options), batch_size=2)
        for options in (
            dict,
            lambda: {"start_frame": 5, "end_frame": 12, "stride": 3},
            lambda: {"frames": [0, 5, 2, 39]},
            lambda: {"start_frame": 35, "sequence_length": 12},
            lambda: {"start_frame": 35, "sequence_length": 12, "fill_value": [7, 8, 9]},
            lambda: {"start_frame": 35, "end_frame": 50, "pad_mode": "edge"},
            lambda: {"start_frame": 30, "stride": 4, "sequence_length": 5, "pad_mode": "reflect_101"},
            lambda: {"start_frame": 35, "sequence_length": 12, "pad_mode": "reflect_1001"},
            lambda: {"start_frame": 35, "sequence_length": 12, "pad_mode": "none"},
            lambda: {"start_frame": fn.external_source(lambda: whole), "sequence_length": 2},
            lambda: {"start_frame": 2, "sequence_length": fn.external_source(lambda: whole)},
            lambda: {"frames": fn.external_source(lambda: some)},
            lambda: {"frames": [0, 50], "pad_mode": "edge"},
        )
    ]


# ---------------------------------------------------------------------- volumes


@program
def nnunet(folder):  # noqa: ARG001  every program takes it
    def augmented():
        image = fn.reshape(fn.external_source(lambda: VOLUMES), layout="CDHW")
        label = fn.reshape(fn.external_source(lambda: LABELS), layout="CDHW")
        start, end = fn.segmentation.random_object_bbox(
            label, format="start_end", foreground_prob=1.0, k_largest=2, classes=[1], cache_objects=True
        )
        anchor = fn.roi_random_crop(label, roi_start=start, roi_end=end, crop_shape=[1, 6, 8, 8])
        anchor = fn.cast(fn.slice(anchor, 1, 3, axes=[0]), dtype=types.INT32)
        patch = fn.slice(image, anchor, [6, 8, 8], axis_names="DHW", out_of_bounds_policy="pad")
        cropped = [fn.crop(one, crop_d=8.0, crop_h=11.2, crop_w=11.2) for one in (image, label)]
        zoomed = fn.resize(cropped[0], interp_type=types.INTERP_LINEAR, size=[10, 14, 14])
        classes = fn.resize(cropped[1], interp_type=types.INTERP_NN, size=[10, 14, 14])
        on = fn.cast(fn.random.coin_flip(probability=1.0), dtype=types.BOOL)
        chosen = on * fn.gaussian_blur(image, sigma=0.8) + (on ^ True) * image
        limited = dmath.clamp(image * 1.2, fn.reductions.min(image), fn.reductions.max(image))
        flags = {"horizontal": 1, "vertical": 0, "depthwise": fn.random.coin_flip(probability=1.0)}
        moved = fn.transpose(fn.crop(image, crop=[14, 9, 9], out_of_bounds_policy="pad"), perm=(1, 0, 2, 3))
        return start, end, patch.shape(), zoomed, classes, chosen, limited, fn.flip(image, **flags), moved

    return ran(augmented)


# ---------------------------------------------------------------------- external sources


class Samples:
    def __init__(self, count):
        self.count = count

    def __call__(self, info):
        if info.idx_in_epoch >= self.count:
            raise StopIteration
        return np.array([info.idx_in_epoch, info.idx_in_batch, info.iteration, info.epoch_idx], np.int32)


class Batches:
    def __init__(self, count):
        self.count = count

    def __iter__(self):
        self.number = 0
        return self

    def __next__(self):
        if self.number == self.count:
            raise StopIteration
        self.number += 1
        return [np.array([self.number, k]) for k in range(2)]


def until_the_end(runs, **options):
    pipe = Pipeline(2, 1, None, py_num_workers=1, py_start_method="fork")
    with pipe:
        pipe.set_outputs(fn.external_source(**options))
    pipe.build()
    found = []
    for _ in range(runs):
        try:
            found.append(np.array(pipe.run()[0].as_array()))
        except StopIteration:
            found.append("end")
            pipe.reset()
    return found


@program
def sources_that_end(folder):  # noqa: ARG001
    data = [[np.full((2,), n, np.float32)] * 2 for n in range(3)]
    return [
        until_the_end(7, source=Samples(5), batch=False),
        until_the_end(7, source=Samples(5), batch=False, parallel=True),
        *(until_the_end(8, source=data, cycle=cycle) for cycle in (None, "quiet", "raise", True, False)),
        until_the_end(8, source=Batches(3), cycle="raise"),
        until_the_end(8, source=Batches(3), cycle="raise", parallel=True),
    ]


@program
def kinds_of_sources(folder):  # noqa: ARG001
    return [
        ran(lambda: fn.external_source(lambda number: [np.array(number)] * 3), runs=2),
        ran(lambda: fn.external_source(lambda i: [np.array([i.iteration, i.epoch_idx])] * 3, batch_info=True, batch=True)),
        ran(lambda: tuple(fn.external_source(lambda: ([np.float32(1)] * 3, np.arange(3)), num_outputs=2, layout=["", ""]))),
        ran(lambda: fn.external_source(lambda: np.zeros((3, 4, 4, 3), np.uint8), layout="HWC", ndim=3, dtype=types.UINT8)),
    ]


@program
def batches_fed_by_hand(folder):  # noqa: ARG001
    pipe = Pipeline(2, 1, None)
    with pipe:
        image = fn.external_source(name="x")
        pipe.set_outputs(image, fn.crop(image, crop=(2, 2)))
    pipe.build()
    for n in range(2):
        pipe.feed_input("x", np.arange(120, dtype=np.uint8).reshape(2, 4, 5, 3) + n, layout="HWC")
    return [[np.array(one.as_array()) for one in pipe.run()] for _ in range(2)]


@program
def scheduled_runs(folder):
    pipe = pipeline_def(lambda: fn.readers.file(file_root=folder + "/images")[1], batch_size=2, **ON_CPU)()
    pipe.build()
    pipe.schedule_run()
    found = []
    for _ in range(3):
        found.append(pipe.share_outputs()[0].as_array().copy())
        pipe.release_outputs()
        pipe.schedule_run()
    return found


# ---------------------------------------------------------------------- iterators and tensors


def labels(folder, batch_size=3, **options):
    @pipeline_def(batch_size=batch_size, **ON_CPU)
    def read():
        files = [f"{folder}/flat/image_{n}.png" for n in range(7)]
        data, label = fn.readers.file(files=files, labels=list(range(7)), name="R", **options)
        return label, fn.peek_image_shape(data)

    return read()


@program
def policies_of_last_batches(folder):
    def batches(pad, **options):
        loader = DALIGenericIterator(labels(folder, pad_last_batch=pad), ["l", "s"], auto_reset=True, **options)
        return [batch[0]["l"].ravel().tolist() for batch in loader]

    return [
        *(batches(False, reader_name="R", last_batch_policy=policy) for policy in LastBatchPolicy),
        *(batches(True, reader_name="R", last_batch_policy=policy) for policy in LastBatchPolicy),
        batches(False, size=7, last_batch_policy=LastBatchPolicy.PARTIAL),
        batches(False, size=7, fill_last_batch=True),
        batches(True, size=7, fill_last_batch=False, last_batch_padded=True),
    ]


@program
def shards(folder):
    found = []
    for shard in range(2):
        pipe = labels(folder, 2, shard_id=shard, num_shards=2, stick_to_shard=True, pad_last_batch=True)
        loader = DALIGenericIterator(
            pipe, ["l", "s"], reader_name="R", last_batch_policy=LastBatchPolicy.PARTIAL, auto_reset=True
        )
        found.append([[batch[0]["l"].ravel().tolist() for batch in loader] for _ in range(2)])
    pipes = [labels(folder, 3, shard_id=n, num_shards=2, pad_last_batch=True) for n in range(2)]
    both = DALIGenericIterator(pipes, ["l", "s"], reader_name="R", last_batch_policy=LastBatchPolicy.PARTIAL)
    return found, len(both), [[one["l"].ravel().tolist() for one in batch] for batch in both]


@program
def ragged_batches(folder):
    @pipeline_def(batch_size=3, **ON_CPU)
    def read():
        data, label = fn.readers.file(file_root=folder + "/images", name="R")
        return fn.decoders.image(data), label

    tags = [DALIRaggedIterator.SPARSE_LIST_TAG, DALIRaggedIterator.DENSE_TAG]
    loader = DALIRaggedIterator(
        read(), ["i", "l"], reader_name="R", output_types=tags, last_batch_policy=LastBatchPolicy.PARTIAL
    )
    return [(batch[0]["i"], batch[0]["l"]) for batch in loader]


@program
def tensors(folder):
    import torch

    label, shape = labels(folder).run()
    target = torch.zeros(3, 1, dtype=torch.int32)
    feed_ndarray(label.as_tensor(), target)
    dense = TensorListCPU(np.arange(12, dtype=np.int32).reshape(2, 2, 3), layout="HW")
    single = TensorCPU(np.arange(6, dtype=np.uint8).reshape(2, 3), "HW")
    return [
        target,
        torch.from_dlpack(shape[0]),
        [np.array(one) for one in shape],
        np.array(shape.as_reshaped_tensor([9])),
        (label.is_dense_tensor(), len(label), label.shape(), label.layout(), str(label.dtype)),
        (dense, dense.shape(), dense.layout(), np.array(dense.as_tensor()), dense.as_tensor().layout()),
        (single, single.shape(), single.layout(), str(single.dtype), single.data_ptr() != 0),
    ]


@program
def continued_from_a_checkpoint(folder):
    @pipeline_def(batch_size=2, enable_checkpointing=True, seed=3, **ON_CPU)
    def read():
        label = fn.readers.file(file_root=folder + "/images", name="R")[1]
        return label, fn.random.uniform(range=(0, 1))

    pipe = read()
    pipe.build()
    pipe.run()
    state = pipe.checkpoint()
    first, second = pipe.run(), read(checkpoint=state).run()
    return first[0], second[0], np.array_equal(first[1].as_array(), second[1].as_array())


# ---------------------------------------------------------------------- conditions, arithmetic, functions


@program
def conditions(folder):  # noqa: ARG001
    @do_not_convert
    def plain(x, flag):
        return x + 1 if flag else x

    @pipeline_def(batch_size=4, enable_conditionals=True, **ON_CPU)
    def branches():
        x = numbers(0, 1, 2, 3, kind=np.int32)
        y = x + 10
        if x == 0 or x == 3:
            y = y * 2
        elif not x == 1:
            y = -y
        else:
            y = plain(y, True)
        return y, x > 1 and x < 3

    return branches().run()


@program
def functions(folder):  # noqa: ARG001
    def run_them():
        x = fn.external_source(lambda: [np.arange(3 + n, dtype=np.float32) for n in range(3)], layout="X")
        turned = fn.python_function(x, function=lambda a: a[::-1].copy(), device="cpu")
        two = fn.python_function(x, x, function=lambda a, b: (a + b, a * b), num_outputs=2, output_layouts=["A", "B"])
        whole = fn.python_function(x, function=lambda rows: [row * 2 for row in rows], batch_processing=True)
        return turned, *two, whole

    def added(rows):
        return [dlpack.to_dlpack(dlpack.from_dlpack(row) + 1) for row in rows]

    pipe = Pipeline(3, 1, None, exec_async=False, exec_pipelined=False)
    with pipe:
        x = fn.external_source(lambda: [np.arange(4, dtype=np.float32)] * 3)
        pipe.set_outputs(fn.dl_tensor_python_function(x, function=added, batch_processing=True))
    return ran(run_them, exec_async=False, exec_pipelined=False), pipe.run()


@program
def arithmetic(folder):  # noqa: ARG001
    def results():
        x, n = numbers(1, 2, 4), numbers(7, 8, 9, kind=np.int32)
        table = fn.external_source(lambda: [np.arange(12, dtype=np.float32).reshape(3, 4)] * 3)
        return (
            (x + 1, x * n, 1 / x, 2**x, -x, n // 2, n % 4, n / 2, n**2, n > 7, (n > 7) & (n < 9), x == 2, n ^ 1)
            + (table * types.Constant(np.float32([1, 2, 3, 4])), table[1], table[:, 1:3], table[-1, 0], table[n - 7, 0])
            + (dmath.sqrt(n), dmath.rsqrt(x), dmath.min(x, n), dmath.clamp(x, 1.5, 2.5), dmath.atan2(x, n))
        )

    return ran(results)


# ---------------------------------------------------------------------- errors


def _error(name):
    def decorated(f):
        programs[name] = lambda folder: ran(lambda: f(folder))
        return f

    return decorated


@_error("a_window_past_the_edges")
def _(folder):
    return fn.crop(fn.decoders.image(fn.readers.file(file_root=folder + "/images")[0]), crop=(999, 999))


@_error("a_source_that_raises")
def _(folder):  # noqa: ARG001
    def source():
        raise ValueError("boom")

    return fn.external_source(source)


@_error("an_unknown_kind_of_frame_numbers")
def _(folder):
    return fn.experimental.readers.video(filenames=[folder + "/videos/0/a.mp4"], sequence_length=4, enable_frame_num="all")[0]


@_error("a_region_past_the_edges")
def _(folder):
    return fn.readers.numpy(file_root=folder + "/arrays", roi_start=[1], roi_end=[9])


@_error("a_region_with_two_ends")
def _(folder):
    return fn.readers.numpy(file_root=folder + "/arrays", roi_end=[2], roi_shape=[2])


@_error("too_many_samples")
def _(folder):  # noqa: ARG001
    return fn.external_source(lambda: np.zeros((4, 1)))


@_error("another_type_than_declared")
def _(folder):  # noqa: ARG001
    return fn.external_source(lambda: np.zeros((3, 1)), dtype=types.UINT8)


@_error("batches_of_different_sizes")
def _(folder):  # noqa: ARG001
    return numbers(1, 2) + numbers(1, 2, 3)


@_error("a_condition_without_conditionals")
def _(folder):  # noqa: ARG001
    x = numbers(1, 2, 3)
    return x + 1 if x > 1 else x


if __name__ == "__main__":
    main(programs)
