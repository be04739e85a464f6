"""A class pipeline: JPEG files by their folders, decoded and resized, as at a talk of 2019."""

import nvidia.dali.ops as ops
import nvidia.dali.types as types
from nvidia.dali.pipeline import Pipeline
from nvidia.dali.plugin.pytorch import DALIClassificationIterator


class SimplePipeline(Pipeline):
    def __init__(self, image_dir, batch_size, num_threads, device_id):
        super(SimplePipeline, self).__init__(batch_size, num_threads, device_id)
        self.input = ops.FileReader(file_root=image_dir)
        self.decode = ops.nvJPEGDecoder(device="mixed", output_type=types.RGB)
        self.resize = ops.Resize(device="gpu", resize_x=224, resize_y=224)

    def define_graph(self):
        jpegs, labels = self.input(name="Reader")
        images = self.decode(jpegs)
        images = self.resize(images)
        return (images, labels)


def run(folder):
    pipe = SimplePipeline(folder / "images", 4, 2, 0)
    pipe.build()
    images, labels = pipe.run()
    train_loader = DALIClassificationIterator(
        SimplePipeline(folder / "images", 4, 2, 0), reader_name="Reader"
    )
    seen = []
    for i, data in enumerate(train_loader):
        target = data[0]["label"].squeeze()
        seen.append((tuple(data[0]["data"].shape), target.tolist()))
    return images.as_cpu().as_array(), labels.as_cpu().as_array(), seen
