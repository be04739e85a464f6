"""SSD's chain in a class: paste, boxes pasted along, a prospective window, slice, flips of both."""

import nvidia.dali.fn as fn
import nvidia.dali.ops as ops
import nvidia.dali.types as types
from nvidia.dali.pipeline import Pipeline


class DetectionPipeline(Pipeline):
    def __init__(self, source, batch_size, num_threads, device_id):
        super().__init__(batch_size, num_threads, device_id, seed=7)
        self.input = ops.ExternalSource(source=source, num_outputs=3, layout=["HWC", "", ""], batch=False)
        self.paste = ops.Paste(device="gpu", fill_value=(104, 117, 123))
        self.bbpaste = ops.BBoxPaste(device="cpu", ltrb=True)
        self.prospective_crop = ops.RandomBBoxCrop(
            device="cpu", aspect_ratio=[0.5, 2.0], thresholds=[0, 0.1, 0.3], scaling=[0.3, 1.0], ltrb=True
        )
        self.slice = ops.Slice(device="gpu")
        self.flip = ops.Flip(device="gpu")
        self.bbflip = ops.BbFlip(device="cpu", ltrb=True)
        self.resize = ops.Resize(device="gpu", resize_x=300, resize_y=300, interp_type=types.INTERP_LINEAR)
        self.uniform = ops.Uniform(range=(0.0, 1.0))
        self.ratio = ops.Uniform(range=(1.0, 2.0))
        self.coin = ops.CoinFlip(probability=0.5)

    def define_graph(self):
        images, bboxes, labels = self.input()
        px, py, ratio = self.uniform(), self.uniform(), self.ratio()
        images = self.paste(images.gpu(), paste_x=px, paste_y=py, ratio=ratio)
        bboxes = self.bbpaste(bboxes, paste_x=px, paste_y=py, ratio=ratio)
        crop_begin, crop_size, bboxes, labels = self.prospective_crop(bboxes, labels)
        images = self.slice(images, crop_begin, crop_size)
        rng, rng2 = self.coin(), self.coin()
        images = self.flip(images, horizontal=rng, vertical=rng2)
        bboxes = self.bbflip(bboxes, horizontal=rng, vertical=rng2)
        images = self.resize(images)
        return (images, bboxes, labels)


def run(folder, source):
    pipe = DetectionPipeline(source, 6, 2, 0)
    pipe.build()
    return [[output.as_cpu() for output in pipe.run()] for _ in range(3)]
