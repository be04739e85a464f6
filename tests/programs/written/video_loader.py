"""A loader of videos: labels by folders, sequences with a stride, an iterator that resets itself."""

import glob
import os
from pathlib import Path
from typing import List

import nvidia.dali.fn as fn
import nvidia.dali.types as types
from nvidia.dali import pipeline_def
from nvidia.dali.plugin import pytorch

VID_FORMATS = "avi", "m4v", "mkv", "mov", "mp4", "mpeg"


@pipeline_def
def video_pipe(filenames: List[str], labels: List[int], sequence_length: int, stride: int):
    videos, label = fn.readers.video(
        device="gpu",
        filenames=filenames,
        labels=labels,
        sequence_length=sequence_length,
        normalized=False,
        random_shuffle=True,
        image_type=types.RGB,
        dtype=types.UINT8,
        initial_fill=16,
        stride=stride,
        name="Reader",
    )
    return videos, label[0]


def video2label_paths(video_path: List) -> List:
    return [int(Path(x).parts[-2]) for x in video_path]


class DALIVideoLoader:
    def __init__(self, path, batch_size, num_threads, sequence_length, stride):
        f = []
        for p in path if isinstance(path, list) else [path]:
            p = Path(p)
            if p.is_dir():
                f += glob.glob(str(p / "**" / "*.*"), recursive=True)
        self.vd_files = sorted(x.replace("/", os.sep) for x in f if x.split(".")[-1].lower() in VID_FORMATS)
        assert self.vd_files, "No videos found"
        self.labels = video2label_paths(self.vd_files)
        pipe = video_pipe(
            batch_size=batch_size,
            num_threads=num_threads,
            device_id=0,
            filenames=self.vd_files,
            labels=self.labels,
            stride=stride,
            sequence_length=sequence_length,
            seed=123456,
        )
        pipe.build()
        self.dali_iterator = pytorch.DALIGenericIterator(
            pipe,
            ["data", "label"],
            reader_name="Reader",
            last_batch_policy=pytorch.LastBatchPolicy.PARTIAL,
            auto_reset=True,
        )

    def __iter__(self):
        return self.dali_iterator.__iter__()


def run(folder):
    daliloader = DALIVideoLoader(
        path=str(folder / "videos"), sequence_length=4, stride=3, batch_size=4, num_threads=2
    )
    return [[(inp[0]["data"], inp[0]["label"]) for inp in daliloader] for _ in range(2)]
