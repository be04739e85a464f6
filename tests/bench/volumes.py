"""How long volumes take to read, beside other libraries; one thread.

    python tests/bench/volumes.py [--rounds 7] [--size 160x256x256]

Prints milliseconds, medians over rounds in which the libraries take turns, for a smooth int16 volume with noise, as
.nii.gz and .nii. A library that is not installed is left out.
"""

from __future__ import annotations

import argparse
import importlib.util
import statistics
import tempfile
import time
from pathlib import Path

import numpy as np

import seqpipe
from seqpipe.readers import Volume
from seqpipe.volume import save


def phantom(shape):
    """Like a brain: a smooth ball with noise in it, and nothing around it."""
    rng = np.random.default_rng(0)
    axes = [np.linspace(-1, 1, size, dtype=np.float32) for size in shape]
    radius = np.sqrt(axes[0][:, None, None] ** 2 + axes[1][:, None] ** 2 + axes[2] ** 2)
    inside = radius < 0.8
    noise = rng.normal(0, 12, shape).astype(np.float32)
    return np.where(inside, 600 * np.cos(radius * 2) + noise, 0).astype(np.int16)


def by_seqpipe(path):
    with seqpipe.open(path) as volume:
        return volume.sequence().data[..., 0]


def by_nibabel(path):
    import nibabel

    return np.asanyarray(nibabel.load(path).dataobj)


def by_sitk(path):
    import SimpleITK

    return SimpleITK.GetArrayViewFromImage(SimpleITK.ReadImage(path))


def by_monai(path):
    from monai.transforms import LoadImage

    return LoadImage(image_only=True)(path)


def by_torchio(path):
    import torchio

    return torchio.ScalarImage(path).data


READERS = {
    "seqpipe": ("seqpipe", by_seqpipe),
    "nibabel": ("nibabel", by_nibabel),
    "SimpleITK": ("SimpleITK", by_sitk),
    "MONAI": ("monai", by_monai),
    "TorchIO": ("torchio", by_torchio),
}


def measured(calls, rounds):
    """Median milliseconds of each call, the calls taking turns."""
    times = {name: [] for name in calls}
    for call in calls.values():
        call()
    for _ in range(rounds):
        for name, call in calls.items():
            begin = time.perf_counter()
            call()
            times[name].append(1e3 * (time.perf_counter() - begin))
    return {name: statistics.median(found) for name, found in times.items()}


def table(title, found):
    print(f"\n{title}")
    best = found["seqpipe"]
    for name, ms in found.items():
        print(f"  {name:24}{ms:9.1f} ms{ms / best:8.2f} ×")


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--size", default="160x256x256", help="slices x rows x columns")
    given = parser.parse_args()
    shape = tuple(map(int, given.size.split("x")))
    here = {name: call for name, (module, call) in READERS.items() if importlib.util.find_spec(module)}
    with tempfile.TemporaryDirectory() as folder:
        volume = seqpipe.Sequence(phantom(shape)[..., None], "DHWC", affine=np.eye(4)[:, [2, 1, 0, 3]])
        for ending in (".nii.gz", ".nii"):
            path = str(Path(folder) / f"volume{ending}")
            save(volume, path)
            size = Path(path).stat().st_size / 1e6
            calls = {name: lambda call=call, path=path: call(path) for name, call in here.items()}
            table(f"read {given.size} int16 {ending} ({size:.1f} MB)", measured(calls, given.rounds))
        label = (volume.data > 300).astype(np.uint8)
        save(seqpipe.Sequence(label, "DHWC", affine=volume.affine), Path(folder) / "label.nii.gz")
        begin = time.perf_counter()
        files = [{"image": f"{folder}/volume.nii.gz", "label": f"{folder}/label.nii.gz"}] * 4
        with Volume(
            files=files, patch_size=96, patches_per_volume=4, sampler="balanced", threads=1, dtype="float32"
        ) as dataset:
            count = sum(len(batch["image"]) for batch in dataset.batches(4))
        took = time.perf_counter() - begin
        print(f"\n4 volumes with labels, 4 balanced 96³ patches each: {1e3 * took / count:.1f} ms a patch")


if __name__ == "__main__":
    main()
