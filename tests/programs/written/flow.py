"""Optical flow of sequences, and the frame that it begins with."""

import nvidia.dali.ops as ops
from nvidia.dali.pipeline import Pipeline


class FlowPipe(Pipeline):
    def __init__(self, video_files, length, step):
        super().__init__(1, 2, 0)
        self.input = ops.VideoReader(device="gpu", file_root=video_files, sequence_length=length, step=step)
        self.opticalFlow = ops.OpticalFlow(device="gpu")
        self.takeFirst = ops.ElementExtract(device="gpu", element_map=[0])

    def define_graph(self):
        frames, label = self.input()
        flow = self.opticalFlow(frames)
        first = self.takeFirst(frames)
        return first, flow


def run(folder):
    pipe = FlowPipe(folder / "videos", 3, 8)
    pipe.build()
    return [output.as_cpu().as_array() for output in pipe.run()]
