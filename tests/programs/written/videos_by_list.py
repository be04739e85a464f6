"""Videos by a list with times and labels, resized as they are read; frames augmented together and one by one."""

import numpy as np
from nvidia.dali import fn, pipeline_def, types
from nvidia.dali.plugin.pytorch import DALIGenericIterator, LastBatchPolicy


@pipeline_def
def create_video_reader_pipeline(file_list, sequence_length, stride, crop_size):
    images, labels, start = fn.readers.video_resize(
        device="gpu",
        file_list=file_list,
        file_list_frame_num=True,
        enable_frame_num=True,
        sequence_length=sequence_length,
        stride=stride,
        step=sequence_length,
        resize_shorter=48.0,
        random_shuffle=True,
        pad_last_batch=True,
        name="Reader",
    )
    images = fn.crop(
        images,
        crop=crop_size,
        crop_pos_x=fn.random.uniform(range=(0.0, 1.0)),
        crop_pos_y=fn.random.uniform(range=(0.0, 1.0)),
    )
    angles = fn.per_frame(fn.constant(fdata=[0.0, 90.0, 180.0, 270.0][:sequence_length]))
    turned = fn.rotate(images, angle=angles, keep_size=True, fill_value=0)
    tensors = fn.crop_mirror_normalize(
        images, output_layout="FCHW", mean=[128.0], std=[64.0], mirror=fn.random.coin_flip()
    )
    return tensors, images, turned, labels, start


class DALILoader:
    def __init__(self, batch_size, file_list, sequence_length, crop_size):
        self.pipeline = create_video_reader_pipeline(
            batch_size=batch_size,
            sequence_length=sequence_length,
            num_threads=2,
            device_id=0,
            file_list=file_list,
            stride=2,
            crop_size=crop_size,
            seed=7,
        )
        self.pipeline.build()
        self.epoch_size = self.pipeline.epoch_size("Reader")
        self.dali_iterator = DALIGenericIterator(
            self.pipeline,
            ["data", "plain", "turned", "label", "start"],
            reader_name="Reader",
            last_batch_policy=LastBatchPolicy.PARTIAL,
            auto_reset=True,
        )

    def __len__(self):
        return int(self.epoch_size)

    def __iter__(self):
        return self.dali_iterator.__iter__()


def run(folder, table):
    loader = DALILoader(4, str(table), 4, (32, 32))
    return len(loader), [[batch[0] for batch in loader] for _ in range(2)]
