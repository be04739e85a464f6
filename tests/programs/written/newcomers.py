"""Programs that feed networks of video, volumes and images: ``python newcomers.py FOLDER RESULTS``.

DALI and seqpipe.dali run them alike, as those of ``strangers.py``.
"""

import glob
import io
import os
import struct
import tarfile

import numpy as np
import nvidia.dali.tfrecord as tfrec
from nvidia.dali import Pipeline, fn, math, ops, pipeline_def, types
from nvidia.dali.plugin.pytorch import DALIGenericIterator, LastBatchPolicy
from program_results import main

ON_CPU = {"num_threads": 2, "device_id": None}
programs = {}


def program(f):
    programs[f.__name__] = f
    return f


def file_bytes(path):
    return np.fromfile(path, dtype=np.uint8)


# ---------------------------------------------------------------------- video


@pipeline_def
def clips_of_classes(root, length, stride, training):
    video, label = fn.experimental.readers.video(
        device="cpu",
        file_root=root,
        sequence_length=length,
        stride=stride,
        random_shuffle=training,
        pad_last_batch=True,
        name="Reader",
    )
    video = fn.resize(video, device="cpu", resize_shorter=40, interp_type=types.INTERP_LINEAR)
    video = fn.crop_mirror_normalize(
        video,
        dtype=types.FLOAT,
        output_layout="FCHW",
        crop=(32, 32),
        mean=[0.45 * 255] * 3,
        std=[0.225 * 255] * 3,
        mirror=0,
    )
    return fn.transpose(video, perm=[1, 0, 2, 3]), label


@program
def action_recognition(folder):
    pipe = clips_of_classes(folder + "/videos", 4, 3, False, batch_size=4, seed=1, **ON_CPU)
    loader = DALIGenericIterator(
        [pipe],
        ["frames", "labels"],
        reader_name="Reader",
        last_batch_policy=LastBatchPolicy.PARTIAL,
        auto_reset=True,
    )
    epochs = []
    for _ in range(2):
        for batch in loader:
            epochs.append((batch[0]["frames"], batch[0]["labels"].squeeze(-1).long()))
    return len(loader), epochs


@program
def frame_interpolation(folder):
    """Triplets: the frames around the middle one are the input."""

    @pipeline_def(batch_size=2, **ON_CPU)
    def triplets():
        clip = fn.experimental.readers.video(
            filenames=sorted(glob.glob(folder + "/videos/*/*.mp4")), sequence_length=3, step=5, name="R"
        )
        clip = fn.crop(clip, crop=(32, 48), crop_pos_x=0.3, crop_pos_y=0.7)
        first, middle, last = fn.element_extract(clip, element_map=[0, 1, 2])
        both = fn.cat(first, last, axis=2)
        blend = fn.cast(first / 2.0 + last / 2.0, dtype=types.FLOAT)
        return fn.transpose(both, perm=[2, 0, 1]), fn.crop_mirror_normalize(middle, std=[255.0] * 3), blend

    pipe = triplets()
    pipe.build()
    return [pipe.run() for _ in range(3)], pipe.reader_meta("R")


@program
def super_resolution_pairs(folder):
    @pipeline_def(batch_size=3, **ON_CPU)
    def pairs():
        high = fn.experimental.readers.video(filenames=[folder + "/videos/0/a.mp4"], sequence_length=2, step=7)
        high = fn.crop(high, crop=(32, 32), crop_pos_x=0.1, crop_pos_y=0.9)
        low = fn.resize(high, resize_x=8, resize_y=8, interp_type=types.INTERP_CUBIC, antialias=True)
        back = fn.resize(low, size=[32.0, 32.0], interp_type=types.INTERP_LINEAR)
        return low, high, fn.cast(high, dtype=types.INT16) - fn.cast(back, dtype=types.INT16)

    return pairs().run()


@program
def captions(folder):
    """The label is the number of a line of text."""
    texts = ["a bar moves", "another bar moves", "nothing"]
    table = folder + "/captions.txt"
    with open(table, "w") as file:
        for number, path in enumerate(sorted(glob.glob(folder + "/videos/*/*.mp4"))):
            file.write(f"{path} {number} {number * 3} {20 + number * 10}\n")

    @pipeline_def
    def frames():
        clip, label, start = fn.experimental.readers.video(
            file_list=table,
            file_list_format="frames",
            sequence_length=6,
            stride=2,
            enable_frame_num=True,
            name="R",
        )
        return fn.resize(clip, size=(24, 24)), label, start

    pipe = frames(batch_size=2, **ON_CPU)
    loader = DALIGenericIterator(pipe, ["clip", "text", "start"], reader_name="R", last_batch_policy=LastBatchPolicy.PARTIAL)
    return [
        (batch["clip"], [texts[n] for n in batch["text"].flatten().tolist()], batch["start"])
        for (batch,) in loader
    ]


@program
def slow_fast(folder):
    @pipeline_def(batch_size=2, **ON_CPU)
    def pathways(length, alpha):
        clip = fn.experimental.readers.video(
            filenames=[folder + "/videos/1/b.mp4"], sequence_length=length, uniform_sample=True
        )
        clip = fn.crop_mirror_normalize(clip, crop=(40, 40), output_layout="CFHW", mean=[128.0] * 3, std=[64.0] * 3)
        slow = fn.stack(*[clip[:, n] for n in range(0, length, alpha)], axis=1)
        return slow, clip, fn.reductions.max(clip, axis_names="FHW")

    return pathways(16, 4).run()


@program
def sampled_uniformly(folder):
    found = []
    for length in (1, 4, 15, 45):

        @pipeline_def(batch_size=2, **ON_CPU)
        def clips(length):
            return tuple(
                fn.experimental.readers.video(
                    file_list=folder + "/ranges.txt",
                    file_list_format="frames",
                    sequence_length=length,
                    uniform_sample=True,
                    enable_frame_num="sequence",
                    enable_timestamps=True,
                )
            )

        found.append(clips(length).run())
    return found


@program
def steps_by_default(folder):
    found = []
    for options in (
        {"sequence_length": 5},
        {"sequence_length": 5, "stride": 2},
        {"sequence_length": 8, "stride": 5},
        {"sequence_length": 6, "stride": 3, "step": -1, "pad_mode": "edge"},
        {"sequence_length": 7, "step": 30, "pad_mode": "repeat"},
    ):

        @pipeline_def(batch_size=9, **ON_CPU)
        def clips(options):
            return tuple(
                fn.experimental.readers.video(
                    filenames=[folder + "/videos/0/a.mp4"],
                    enable_frame_num="sequence",
                    enable_timestamps=True,
                    name="R",
                    **options,
                )
            )

        pipe = clips(options)
        pipe.build()
        found.append((pipe.epoch_size("R"), pipe.run()[1:]))
    return found


@program
def videos_fed_as_bytes(folder):
    """A server: each request is a video, whose sequences come until its end."""

    @pipeline_def(batch_size=3, prefetch_queue_depth=1, **ON_CPU)
    def decode():
        clip = fn.experimental.inputs.video(name="request", sequence_length=7, last_sequence_policy="pad")
        return fn.resize(clip, resize_x=20, resize_y=10), fn.shapes(clip)

    pipe = decode()
    pipe.build()
    found = []
    for path in sorted(glob.glob(folder + "/videos/*/*.mp4")):
        pipe.feed_input("request", [file_bytes(path)])
        found.append([pipe.run(), pipe.run()])
    return found


@program
def videos_in_a_queue(folder):
    @pipeline_def(batch_size=2, **ON_CPU)
    def decode():
        return fn.experimental.inputs.video(name="V", sequence_length=16)

    pipe = decode()
    pipe.build()
    for path in sorted(glob.glob(folder + "/videos/*/*.mp4")):
        pipe.feed_input("V", np.expand_dims(file_bytes(path), 0))
    return [pipe.run() for _ in range(4)]


class EncodedVideos:
    """Bytes and labels of videos, by the sample."""

    def __init__(self, folder):
        self.files = sorted(glob.glob(folder + "/videos/*/*.mp4"))

    def __call__(self, info):
        number = info.idx_in_epoch
        if number >= 2 * len(self.files):
            raise StopIteration
        return file_bytes(self.files[number % len(self.files)]), np.int32([number, info.iteration])


@program
def video_bytes_by_external_source(folder):
    @pipeline_def(batch_size=2, **ON_CPU)
    def decode():
        encoded, numbers = fn.external_source(
            source=EncodedVideos(folder), num_outputs=2, batch=False, dtype=[types.UINT8, types.INT32]
        )
        start = fn.reshape(numbers[0] * 5, shape=[])
        clip = fn.decoders.video(encoded, device="cpu", start_frame=start, sequence_length=4, stride=3)
        return clip, fn.decoders.video(encoded, frames=[1, 30, 2]), numbers

    loader = DALIGenericIterator(decode(), ["clip", "some", "numbers"], auto_reset=True)
    return [[one[0] for one in loader] for _ in range(2)]


@program
def conditional_augmentation(folder):
    @pipeline_def(enable_conditionals=True, batch_size=4, **ON_CPU)
    def clips():
        clip, label, start = fn.experimental.readers.video(
            file_root=folder + "/videos", sequence_length=4, step=6, enable_frame_num=True
        )
        first = start[0]
        if label[0] == 1 and first >= 6:
            clip = fn.flip(clip, horizontal=1)
            strength = 0.75
        elif first == 0:
            clip = fn.rotate(clip, angle=90.0, keep_size=True, fill_value=0)
            strength = 0.5
        else:
            strength = 0.25
        if not (label[0] == 0):
            clip = fn.brightness_contrast(clip, brightness=strength)
        return fn.cast(clip, dtype=types.UINT8), strength, label, start

    pipe = clips()
    pipe.build()
    return [pipe.run() for _ in range(3)]


@program
def images_beside_videos(folder):
    @pipeline_def(batch_size=2, seed=4, **ON_CPU)
    def both():
        clip = fn.experimental.readers.video(
            filenames=[folder + "/videos/0/a.mp4"], sequence_length=4, step=4, name="Videos"
        )
        encoded, label = fn.readers.file(file_root=folder + "/images", name="Images")
        image = fn.resize(fn.decoders.image(encoded, device="cpu", output_type=types.RGB), size=(48, 64))
        last = fn.squeeze(fn.slice(clip, start=3, end=4, axes=[0]), axes=[0])
        return fn.stack(image, last), clip, label

    pipe = both()
    pipe.build()
    return [pipe.run() for _ in range(2)], pipe.epoch_size()


@program
def two_pipelines(folder):
    """A pipeline for each shard, as for two GPUs."""

    @pipeline_def
    def shard(shard_id):
        clip, label, number = fn.experimental.readers.video(
            file_root=folder + "/videos",
            sequence_length=3,
            step=8,
            shard_id=shard_id,
            num_shards=2,
            stick_to_shard=True,
            pad_last_batch=True,
            enable_frame_num="scalar",
            name="R",
        )
        return fn.crop(clip, crop=(4, 6)), label, number

    pipes = [shard(n, batch_size=2, **ON_CPU) for n in range(2)]
    loader = DALIGenericIterator(
        pipes, ["crop", "label", "number"], reader_name="R", last_batch_policy=LastBatchPolicy.PARTIAL, auto_reset=True
    )
    return len(loader), [[list(pair) for pair in loader] for _ in range(2)]


# ---------------------------------------------------------------------- volumes


@program
def segmentation_of_volumes(folder):
    root = folder + "/volumes"
    os.makedirs(root, exist_ok=True)
    rng = np.random.default_rng(3)
    for number in range(3):
        scan = rng.normal(size=(1, 14 + number, 18, 20)).astype(np.float32)
        np.save(f"{root}/{number}_x.npy", scan)
        np.save(f"{root}/{number}_y.npy", (scan > 1.2).astype(np.uint8))

    def names(letter):
        return [f"{n}_{letter}.npy" for n in range(3)]

    @pipeline_def(batch_size=3, **ON_CPU)
    def train():
        scan = fn.readers.numpy(files=names("x"), file_root=root, name="X")
        label = fn.readers.numpy(files=names("y"), file_root=root, name="Y")
        scan = fn.reshape(scan, layout="CDHW")
        label = fn.reshape(label, layout="CDHW")
        anchor = fn.external_source(lambda: [np.int32([0, n, 2, 1]) for n in range(3)])
        scan, label = (fn.slice(one, anchor, [1, 12, 12, 16], axes=[0, 1, 2, 3]) for one in (scan, label))
        for axis in ({"horizontal": 1}, {"vertical": 1}, {"depthwise": 1}):
            scan, label = fn.flip([scan, label], **{"horizontal": 0, **axis})
        low, high = fn.reductions.min(scan), fn.reductions.max(scan)
        noisy = fn.normalize(scan, mean=0.1, stddev=2.0) * 1.25
        shifted = (scan - low) / (high - low)
        return noisy, shifted, label, *fn.segmentation.random_object_bbox(label, foreground_prob=0)

    return train().run()


@program
def volumes_by_resize(folder):  # noqa: ARG001
    rng = np.random.default_rng(8)
    scans = [rng.random((6 + n, 9, 11, 1)).astype(np.float32) for n in range(2)]

    @pipeline_def(batch_size=2, **ON_CPU)
    def resample():
        scan = fn.external_source(lambda: scans, layout="DHWC")
        return (
            fn.resize(scan, size=[12, 12, 12], interp_type=types.INTERP_LINEAR),
            fn.resize(scan, resize_z=4, resize_y=18, resize_x=5, interp_type=types.INTERP_NN),
            fn.gaussian_blur(scan, sigma=[0.5, 1.0, 1.5]),
            fn.pad(scan, axis_names="D", shape=[10], fill_value=-1),
        )

    return resample().run()


# ---------------------------------------------------------------------- archives of records


def archives(folder):
    """Two archives of images with a class and an array; the fourth sample has no class."""
    paths = [f"{folder}/shard{n}.tar" for n in range(2)]
    for shard, path in enumerate(paths):
        with tarfile.open(path, "w", format=tarfile.USTAR_FORMAT) as tar:
            for number in range(4 * shard, 4 * shard + 4 - shard):
                image = file_bytes(f"{folder}/flat/image_{number}.png").tobytes()
                parts = {"png": image, "cls": b"%d" % number, "box.npy": np.float32([number, 0.5]).tobytes()}
                for extension, content in parts.items():
                    if (number, extension) != (3, "cls"):
                        entry = tarfile.TarInfo(f"set/{number:03d}.{extension}")
                        entry.size = len(content)
                        tar.addfile(entry, io.BytesIO(content))
    return paths


@program
def web_dataset(folder):
    paths = archives(folder)

    @pipeline_def(batch_size=3, **ON_CPU)
    def samples(behavior):
        image, label, box = fn.readers.webdataset(
            paths=paths,
            ext=["jpg;png", "cls", "box.npy"],
            dtypes=[types.UINT8, types.UINT8, types.FLOAT],
            missing_component_behavior=behavior,
            name="R",
        )
        return fn.resize(fn.decoders.image(image), size=(20, 20)), label, box, fn.get_property(box, key="source_info")

    found = []
    for behavior in ("empty", "skip"):
        pipe = samples(behavior)
        pipe.build()
        found.append((pipe.reader_meta("R"), [pipe.run() for _ in range(2)]))
    return found


@program
def web_dataset_iterated(folder):
    paths = archives(folder)

    @pipeline_def(batch_size=2, **ON_CPU)
    def shard(number):
        image, label = fn.readers.webdataset(
            paths=paths,
            ext=["png", "cls"],
            missing_component_behavior="skip",
            shard_id=number,
            num_shards=2,
            stick_to_shard=True,
            pad_last_batch=True,
            name="R",
        )
        return fn.peek_image_shape(image), label - 48

    loader = DALIGenericIterator(
        [shard(n) for n in range(2)],
        ["shape", "label"],
        reader_name="R",
        last_batch_policy=LastBatchPolicy.PARTIAL,
        auto_reset=True,
    )
    return [[list(pair) for pair in loader] for _ in range(2)]


def record(image, label, box):
    """A ``tf.train.Example`` in the wire format of protocol buffers."""

    def field(number, content):
        size = len(content)
        head = [number << 3 | 2]
        while size > 127:
            head.append(size & 127 | 128)
            size >>= 7
        return bytes([*head, size]) + content

    def entry(name, feature):
        return field(1, field(1, name.encode()) + field(2, feature))

    floats = field(2, field(1, struct.pack(f"<{len(box)}f", *box)))
    return field(
        1,
        entry("image/encoded", field(1, field(1, image)))
        + entry("image/class/label", field(3, field(1, bytes([label]))))
        + entry("image/object/bbox", floats),
    )


@program
def tensorflow_records(folder):
    path = folder + "/train.tfrecord"
    with open(path, "wb") as file, open(path + ".idx", "w") as index:
        for number in range(5):
            image = file_bytes(f"{folder}/flat/image_{number}.png").tobytes()
            content = record(image, number + 1, [number / 8 + k for k in range(4 * (number % 2 + 1))])
            index.write(f"{file.tell()} {len(content) + 16}\n")
            file.write(struct.pack("<Q", len(content)) + b"\0" * 4 + content + b"\0" * 4)

    @pipeline_def(batch_size=5, **ON_CPU)
    def samples():
        features = fn.readers.tfrecord(
            path=path,
            index_path=path + ".idx",
            features={
                "image/encoded": tfrec.FixedLenFeature((), tfrec.string, ""),
                "image/class/label": tfrec.FixedLenFeature([1], tfrec.int64, -1),
                "image/object/bbox": tfrec.VarLenFeature([4], tfrec.float32, 0.0),
            },
            name="R",
        )
        image = fn.decoders.image(features["image/encoded"], device="cpu", output_type=types.RGB)
        label = fn.cast(features["image/class/label"] - 1, dtype=types.INT32)
        return fn.resize(image, size=(16, 16)), label, features["image/object/bbox"]

    pipe = samples()
    pipe.build()
    return pipe.run(), pipe.epoch_size("R")


# ---------------------------------------------------------------------- sources


@program
def sources_with_defaults(folder):  # noqa: ARG001
    class Counter:
        def __call__(self, number=100):
            return [np.float32([number, n]) for n in range(2)]

    def by_sample(info=None):
        return np.int32([info.idx_in_epoch, info.idx_in_batch])

    @pipeline_def(batch_size=2, **ON_CPU)
    def numbers():
        return (
            fn.external_source(source=Counter()),
            fn.external_source(source=lambda number=7: np.full((2, 3), number, np.float32)),
            fn.external_source(source=by_sample, batch=False),
        )

    pipe = numbers()
    pipe.build()
    return [pipe.run() for _ in range(3)]

# ---------------------------------------------------------------------- operators as objects


@program
def readers_as_objects(folder):
    paths = archives(folder)
    video = sorted(glob.glob(folder + "/videos/*/*.mp4"))[0]

    class Archives(Pipeline):
        def __init__(self):
            super().__init__(batch_size=2, num_threads=1, device_id=None, seed=3)
            self.read = ops.readers.Webdataset(paths=paths, ext=["png", "cls"], missing_component_behavior="skip")
            self.decode = ops.decoders.Image(device="cpu", output_type=types.GRAY)
            self.resize = ops.Resize(device="cpu", resize_x=12, resize_y=9)
            self.clip = ops.experimental.inputs.Video(name="clip", sequence_length=5)
            self.rotate = ops.Rotate(angle=90.0, fill_value=0)

        def define_graph(self):
            image, label = self.read(name="R")
            return self.resize(self.decode(image)), label, self.rotate(self.clip())

    pipe = Archives()
    pipe.build()
    pipe.feed_input("clip", [file_bytes(video)])
    return [pipe.run() for _ in range(3)], pipe.epoch_size("R")


@program
def names_of_sources(folder):
    @pipeline_def(batch_size=2, **ON_CPU)
    def named():
        data, _ = fn.readers.file(file_root=folder + "/images")
        image = fn.flip(fn.decoders.image(data))
        return data.source_info(), image.source_info(), image.property("layout"), image.shape()

    return [[np.array(one).tobytes().decode()[-20:] for one in part] for part in named().run()[:3]]


# ---------------------------------------------------------------------- sequences


@program
def a_parameter_for_each_frame(folder):
    @pipeline_def(batch_size=2, **ON_CPU)
    def clips():
        clip = fn.experimental.readers.video(filenames=[folder + "/videos/0/a.mp4"], sequence_length=4)
        angles = fn.per_frame(fn.external_source(lambda: np.float32([[0, 90, 180, 270], [270, 0, 90, 180]])))
        shifts = fn.external_source(lambda: np.float32([[[n, 2 * n] for n in range(4)]] * 2))
        moved = fn.warp_affine(clip, matrix=fn.transforms.translation(offset=fn.per_frame(shifts)), fill_value=9)
        sigma = fn.per_frame(types.Constant(np.float32([0.5, 1.0, 2.0, 4.0])))
        return (
            fn.rotate(clip, angle=angles, keep_size=True, fill_value=0),
            moved,
            fn.gaussian_blur(clip, sigma=sigma),
            fn.flip(clip, horizontal=fn.external_source(lambda: np.int32([0, 1]))),
        )

    return clips().run()


@program
def frames_one_by_one(folder):
    @pipeline_def(batch_size=3, **ON_CPU)
    def clips():
        clip = fn.experimental.readers.video(filenames=[folder + "/videos/1/b.mp4"], sequence_length=6)
        small = fn.resize(clip, resize_longer=30, interp_type=types.INTERP_TRIANGULAR)
        differences = fn.cast(small[1:], dtype=types.FLOAT) - fn.cast(small[:-1], dtype=types.FLOAT)
        order = fn.external_source(lambda: np.int32([[5, 0, 3], [1, 1, 1], [0, 1, 2]]))
        some = fn.sequence_rearrange(small, new_order=order)
        tiled = fn.cat(*[small[n] for n in range(3)], axis=1)
        red = small[:, :, :, 0]
        return differences, some, tiled, red, small[-1], small.shape(), fn.reductions.max(red, axes=[1, 2])

    return clips().run()


@program
def regions_of_frames(folder):
    @pipeline_def(batch_size=2, **ON_CPU)
    def clips():
        clip, label = fn.experimental.readers.video(file_root=folder + "/videos", sequence_length=3)
        start = fn.external_source(lambda: np.float32([[0.1, 0.2], [0.5, 0.0]]))
        size = fn.external_source(lambda: np.float32([[0.5, 0.6], [0.25, 1.0]]))
        region = fn.slice(clip, start, size)
        height = clip.shape()[1]
        lower = clip[:, height // 2 :]
        square = fn.pad(region, axis_names="HW", shape=[48, 64], fill_value=3)
        erased = fn.erase(clip, anchor=(4, 6), shape=(10, 12), axis_names="HW", fill_value=(1, 2, 3))
        return region, lower, square, erased, fn.crop(clip, crop=(20, 20), crop_pos_x=0.9, crop_pos_y=0.1), label

    return clips().run()


@program
def colors_of_frames(folder):
    @pipeline_def(batch_size=1, **ON_CPU)
    def clips():
        clip = fn.experimental.readers.video(filenames=[folder + "/videos/0/a.mp4"], sequence_length=2)
        blocks = fn.resize(clip, size=[12, 16])
        return (
            fn.brightness(blocks, brightness=0.5, brightness_shift=0.1),
            fn.contrast(blocks, contrast=0.75, contrast_center=100),
            fn.hsv(blocks, hue=30.0, saturation=0.8, value=0.9),
            fn.color_twist(blocks, brightness=0.8, contrast=0.9, saturation=0.5, hue=10.0),
            fn.color_space_conversion(blocks, image_type=types.RGB, output_type=types.YCbCr),
            fn.experimental.equalize(blocks),
            fn.lookup_table(blocks, keys=[0, 6], values=[9, 8], default_value=1, dtype=types.UINT8),
        )

    return clips().run()


@program
def python_in_the_pipeline(folder):
    @pipeline_def(batch_size=2, exec_pipelined=False, exec_async=False, **ON_CPU)
    def clips():
        clip = fn.experimental.readers.video(filenames=[folder + "/videos/0/a.mp4"], sequence_length=4)
        small = fn.resize(clip, size=(10, 8))
        mean, count = fn.python_function(
            small, function=lambda x: (x.astype(np.float64).mean(axis=(1, 2)).round(-1), np.int64([len(x)])), num_outputs=2
        )
        backwards = fn.python_function(small, function=lambda xs: [x[::-1].copy() for x in xs], batch_processing=True)
        return mean, count, backwards

    return clips().run()


@program
def runs_with_inputs(folder):  # noqa: ARG001
    @pipeline_def(batch_size=2, prefetch_queue_depth=1, exec_pipelined=False, exec_async=False, **ON_CPU)
    def doubled():
        frames = fn.external_source(name="frames", layout="FHWC")
        scale = fn.external_source(name="scale", ndim=0)
        return fn.cast(frames, dtype=types.FLOAT) * scale, fn.reductions.sum(frames, axis_names="HWC")

    pipe = doubled()
    pipe.build()
    found = []
    for number in range(3):
        frames = np.full((2, number + 1, 2, 3, 1), number, np.uint8)
        outputs = pipe.run(frames=frames, scale=np.float32([1, 0.5]))
        found.append([[np.array(one) for one in part] for part in outputs])
    return found


@program
def normalized_over_batches(folder):  # noqa: ARG001
    rng = np.random.default_rng(4)
    scans = [rng.normal(3 * n, 2, (5, 6, 7 + n)).astype(np.float32) for n in range(3)]

    @pipeline_def(batch_size=3, **ON_CPU)
    def normalized():
        scan = fn.external_source(lambda: scans, layout="DHW")
        low = fn.reductions.min(scan, axis_names="HW", keep_dims=True)
        return (
            fn.normalize(scan),
            fn.normalize(scan, axis_names="HW", epsilon=0.25),
            fn.normalize(scan, batch=True, scale=64.0, shift=128.0, dtype=types.UINT8),
            scan - low,
            fn.reductions.std_dev(scan, fn.reductions.mean(scan)),
            math.clamp(scan, -1.0, 1.0),
            math.sqrt(math.abs(scan)) + math.floor(scan) // 2,
        )

    return normalized().run()


@program
def branches_of_volumes(folder):  # noqa: ARG001
    rng = np.random.default_rng(6)
    scans = [rng.random((8, 10, 12, 1)).astype(np.float32) for _ in range(4)]

    @pipeline_def(batch_size=4, enable_conditionals=True, **ON_CPU)
    def train():
        scan = fn.external_source(lambda: scans, layout="DHWC")
        kind = fn.external_source(lambda: np.int32([0, 1, 2, 3]))
        name = 0
        if kind == 0:
            scan = fn.rotate(scan, angle=35.0, axis=(0, 0, 1), keep_size=True, fill_value=0)
        elif kind == 1:
            scan = fn.flip(scan, depthwise=1)
            name = 1
        else:
            if kind > 2:
                scan = fn.resize(fn.crop(scan, crop=(4, 5, 6), crop_pos_z=0.2), size=(8, 10, 12))
            scan = scan * 2.0
        return scan, name, fn.cat(scan, scan, axis_name="C")

    return train().run()

# ---------------------------------------------------------------------- files and batches


@program
def videos_as_files(folder):
    @pipeline_def(batch_size=2, **ON_CPU)
    def decoded():
        encoded, label = fn.readers.file(files=sorted(glob.glob(folder + "/videos/*/*.mp4")), labels=[7, 8], name="R")
        clip = fn.decoders.video(encoded, device="cpu", start_frame=4, end_frame=40, stride=6)
        return fn.cast(clip, dtype=types.FLOAT16), label, clip.shape()

    pipe = decoded()
    loader = DALIGenericIterator(pipe, ["clip", "label", "shape"], reader_name="R", last_batch_policy=LastBatchPolicy.DROP)
    return [batch[0] for batch in loader], pipe.reader_meta()


@program
def paths_from_a_source(folder):
    paths = sorted(glob.glob(folder + "/videos/*/*.mp4"))

    @pipeline_def(batch_size=2, **ON_CPU)
    def decoded():
        names = fn.external_source(lambda: [np.frombuffer(path.encode(), np.int8) for path in paths])
        encoded = fn.io.file.read(names)
        return fn.decoders.video(encoded, sequence_length=3, stride=13), encoded.shape()

    return decoded().run()


@program
def sizes_of_sequences(folder):
    @pipeline_def(batch_size=2, **ON_CPU)
    def clips():
        clip = fn.experimental.readers.video(filenames=[folder + "/videos/0/a.mp4"], sequence_length=2)
        larger, sizes = fn.resize(clip, resize_shorter=60, max_size=70, save_attrs=True)
        return (
            larger,
            sizes,
            fn.resize(clip, size=[30, 30], mode="not_larger"),
            fn.resize(clip, size=[30, 30], mode="not_smaller", subpixel_scale=False),
            fn.resize(clip, resize_x=20, resize_y=20, roi_start=[0.25, 0.0], roi_end=[1.0, 0.5], roi_relative=True),
            fn.resize_crop_mirror(clip, resize_shorter=60, crop=(24, 24), mirror=1),
            fn.resize(clip, size=fn.external_source(lambda: np.float32([[10, 20], [30, 15]]))),
        )

    return clips().run()


@program
def axes_of_sequences(folder):
    @pipeline_def(batch_size=2, **ON_CPU)
    def clips():
        clip = fn.experimental.readers.video(filenames=[folder + "/videos/1/b.mp4"], sequence_length=4)
        small = fn.resize(clip, size=(6, 8))
        views = fn.expand_dims(small, axes=[0], new_axis_names="N")
        flat = fn.reshape(small, rel_shape=[1, -1, 1], src_dims=[0, 1, 3], layout="FXC")
        return (
            views,
            fn.squeeze(views, axis_names="N"),
            flat,
            fn.reinterpret(small, dtype=types.INT8),
            fn.reductions.mean(fn.cast(small, dtype=types.FLOAT), axis_names="F", keep_dims=True),
            fn.transpose(small, perm=[3, 0, 1, 2], output_layout="CFHW"),
            fn.full_like(small, 3),
            fn.cast_like(small, fn.ones(shape=[1], dtype=types.INT16)),
            fn.stack(small, small, axis=1, axis_name="V"),
        )

    return clips().run()


class Requests:
    """Bytes of videos by the batch, from worker processes."""

    def __init__(self, folder):
        self.files = sorted(glob.glob(folder + "/videos/*/*.mp4"))

    def __call__(self, info):
        if info.iteration >= 2:
            raise StopIteration
        path = self.files[(info.idx_in_epoch + info.epoch_idx) % len(self.files)]
        return file_bytes(path), np.int64([info.idx_in_epoch])


@program
def a_parallel_source(folder):
    @pipeline_def(batch_size=2, py_num_workers=2, py_start_method="spawn", **ON_CPU)
    def decoded():
        encoded, number = fn.external_source(source=Requests(folder), num_outputs=2, batch=False, parallel=True)
        return fn.decoders.video(encoded, sequence_length=2), number

    pipe = decoded()
    pipe.build()
    found = []
    for _ in range(2):
        while True:
            try:
                found.append([[np.array(one) for one in part] for part in pipe.run()])
            except StopIteration:
                pipe.reset()
                break
    return found


@program
def epochs_of_an_archive(folder):
    paths = archives(folder)
    found = []
    for policy in (LastBatchPolicy.FILL, LastBatchPolicy.DROP, LastBatchPolicy.PARTIAL):

        @pipeline_def(batch_size=4, **ON_CPU)
        def labels():
            return fn.readers.webdataset(paths=paths[:1], ext="box.npy", dtypes=types.FLOAT, name="R", pad_last_batch=True)

        loader = DALIGenericIterator(labels(), ["box"], reader_name="R", last_batch_policy=policy, auto_reset=True)
        found.append([[batch[0]["box"] for batch in loader] for _ in range(2)])
    return found


@program
def numbers_of_shapes(folder):  # noqa: ARG001
    @pipeline_def(batch_size=3, **ON_CPU)
    def shapes():
        frames = fn.external_source(lambda: [np.ones((n + 2, 4, 6, 3), np.uint8) for n in range(3)], layout="FHWC")
        count, height = frames.shape(dtype=types.INT32)[0], frames.shape(dtype=types.INT32)[1]
        last = frames[count - 1]
        padded = fn.pad(frames, axis_names="F", align=4)
        dense = fn.pad(frames, axis_names="FH")
        first = fn.slice(frames, start=0, end=count // 2, axes=[0])
        return count, last, padded, dense, first, math.max(count, height), (count > 2) & (height == 4), -count + 1.5

    return shapes().run()


if __name__ == "__main__":
    main(programs)
