"""Videos in a class pipeline: read, cropped, and the first frame of each sequence."""

import nvidia.dali.ops as ops
from nvidia.dali.pipeline import Pipeline


class VideoPipe(Pipeline):
    def __init__(self, batch_size, num_threads, device_id, data, length):
        super().__init__(batch_size, num_threads, device_id, seed=16)
        self.input = ops.VideoReader(device="gpu", filenames=data, sequence_length=length)
        self.Crop = ops.Crop(device="gpu", crop=(32, 48))
        self.takeFirst = ops.ElementExtract(device="gpu", element_map=[0])

    def define_graph(self):
        frames = self.input(name="Reader")
        output_frames = self.Crop(frames)
        first = self.takeFirst(frames)
        return output_frames, first


def run(folder, data):
    pipe = VideoPipe(2, 2, 0, data, 4)
    pipe.build()
    return [output.as_cpu().as_array() for output in pipe.run()], pipe.epoch_size("Reader")
