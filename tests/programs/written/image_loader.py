"""A loader of images: file reader with shuffling, mixed decoding, an iterator that resets itself."""

import nvidia.dali.fn as fn
import nvidia.dali.types as types
from nvidia.dali import pipeline_def
from nvidia.dali.plugin import pytorch


@pipeline_def
def image_pipe(file_root: str, image_size: int = 640):
    jpegs, labels = fn.readers.file(
        file_root=file_root, initial_fill=1024, random_shuffle=True, name="Reader"
    )
    images = fn.decoders.image(jpegs, device="mixed", output_type=types.RGB)
    images = fn.resize(images, device="gpu", size=[image_size, image_size], interp_type=types.INTERP_LINEAR)
    return images, labels[0]


class DALIImageLoader:
    def __init__(self, path: str, batch_size: int, num_threads: int):
        pipe = image_pipe(
            batch_size=batch_size, num_threads=num_threads, device_id=0, file_root=path, seed=123456
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
    daliloader = DALIImageLoader(path=str(folder / "images"), batch_size=4, num_threads=2)
    return [[(inp[0]["data"], inp[0]["label"]) for inp in daliloader] for _ in range(2)]
