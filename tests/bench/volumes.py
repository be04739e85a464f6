"""How long volumes take to read, beside other libraries; one thread.

    python tests/bench/volumes.py [--rounds 7] [--size 160x256x256]

Prints milliseconds, medians over rounds in which the libraries take turns, for a smooth int16 volume with noise, as
.nii.gz and .nii. A library that is not installed is left out.
"""

from __future__ import annotations

import argparse
import importlib.util
import statistics
import subprocess
import sys
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

    return np.array(nibabel.load(path).dataobj)


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
    parser.add_argument("--case", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.case:
        read_case(given.case, given.rounds)
        return
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
    ct_case(given.rounds)


def ct_case(rounds):
    """A CT with 13 organs: to RAS, 2 x 1.5 x 1.5 mm, four balanced patches of 96³ of image and labels."""
    shape = (128, 512, 512)
    affine = np.diag([-0.8, -0.8, 2.5, 1.0])[:, [2, 1, 0, 3]]
    image = phantom(shape)
    places = np.indices((4, 4, 4)).reshape(3, -1).T[::5]
    label = np.zeros(shape, np.uint8)
    for number, (d, h, w) in enumerate(places, 1):
        cut = tuple(
            slice(n // 8 + n * p // 6, n // 8 + n * p // 6 + n // 12)
            for n, p in zip(shape, (d, h, w), strict=True)
        )
        label[cut] = number
    with tempfile.TemporaryDirectory() as folder:
        for name, data in (("image", image), ("label", label)):
            save(seqpipe.Sequence(data[..., None], "DHWC", affine=affine), Path(folder) / f"{name}.nii.gz")
        # in a process of its own, whose memory is that of reading alone
        command = [sys.executable, __file__, "--case", folder, "--rounds", str(rounds)]
        told = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    print(
        f"\na 512×512×128 CT with 13 labels → RAS, 2 × 1.5 × 1.5 mm, 4 balanced 96³ patches, one thread\n  {told}"
    )


def read_case(folder, rounds):
    """Time and memory of the patches of the case in a folder."""
    files = [{name: f"{folder}/{name}.nii.gz" for name in ("image", "label")}]

    def patches():
        with Volume(
            files=files,
            patch_size=96,
            patches_per_volume=4,
            sampler="balanced",
            foreground=1.0,
            orientation="RAS",
            spacing_mm=(2.0, 1.5, 1.5),
            threads=1,
            dtype="float32",
        ) as dataset:
            return next(dataset.batches(4))

    ms = measured({"seqpipe": patches}, rounds)["seqpipe"]
    # not ru_maxrss, which a process inherits from the one that started it
    status = Path("/proc/self/status").read_text(encoding="ascii")
    memory = int(next(line.split()[1] for line in status.splitlines() if line.startswith("VmHWM"))) / 1024
    print(f"seqpipe {ms:.1f} ms, peak of the process {memory:.0f} MiB")


if __name__ == "__main__":
    main()
