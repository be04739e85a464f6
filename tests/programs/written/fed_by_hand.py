"""A pipeline that is fed in iter_setup: files of a list, several labels for each, and a torch iterator of a given size."""

from os import listdir
from os.path import isfile, join
from random import Random

import numpy as np
import nvidia.dali.ops as ops
import nvidia.dali.types as types
from nvidia.dali.pipeline import Pipeline
from nvidia.dali.plugin.pytorch import DALIGenericIterator


class ExternalInputIterator(object):
    def __init__(self, batch_size, data_file, image_dir):
        self.images_dir = image_dir
        self.batch_size = batch_size
        self.data_file = data_file
        with open(self.data_file, "r") as f:
            self.files = [line.rstrip() for line in f if line != ""]
        Random(3).shuffle(self.files)

    def __iter__(self):
        self.i = 0
        self.n = len(self.files)
        return self

    def __next__(self):
        batch = []
        labels = []
        for _ in range(self.batch_size):
            jpeg_filename, *label = self.files[self.i].split(" ")
            with open(join(self.images_dir, jpeg_filename), "rb") as f:
                batch.append(np.frombuffer(f.read(), dtype=np.uint8))
            labels.append(np.array(label, dtype=np.uint8))
            self.i = (self.i + 1) % self.n
        return (batch, labels)

    next = __next__


class ExternalSourcePipeline(Pipeline):
    def __init__(self, data_iterator, batch_size, num_threads, device_id):
        super(ExternalSourcePipeline, self).__init__(batch_size, num_threads, device_id, seed=12)
        self.data_iterator = data_iterator
        self.input = ops.ExternalSource()
        self.input_label = ops.ExternalSource()
        self.decode = ops.nvJPEGDecoder(device="mixed", output_type=types.RGB)
        self.res = ops.Resize(device="gpu", resize_x=64, resize_y=48, interp_type=types.INTERP_TRIANGULAR)

    def define_graph(self):
        self.jpegs = self.input()
        self.labels = self.input_label()
        images = self.decode(self.jpegs)
        output = self.res(images)
        return (output, self.labels)

    def iter_setup(self):
        images, labels = self.data_iterator.next()
        self.feed_input(self.jpegs, images)
        self.feed_input(self.labels, labels)


def run(folder):
    image_dir = folder / "flat"
    image_files = sorted(f for f in listdir(image_dir) if isfile(join(image_dir, f)))
    table = folder / "flower_dummy_data.ssv"
    table.write_text("".join(f"{name} {n} {n + 100}\n" for n, name in enumerate(image_files)))
    eii = ExternalInputIterator(batch_size=4, data_file=table, image_dir=image_dir)
    iterator = iter(eii)
    pipe = ExternalSourcePipeline(iterator, batch_size=4, num_threads=2, device_id=0)
    pipe.build()
    dali_iter = DALIGenericIterator([pipe], ["images", "labels"], 16)
    found = []
    for i, it in enumerate(dali_iter):
        batch_data = it[0]
        images, labels = batch_data["images"], batch_data["labels"]
        found.append((images, labels))
    return found
