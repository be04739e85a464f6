"""Time to read and prepare volumes, beside other libraries.

    python -m benchmarks.volumes [--job read] [--job ct] [--job cache] [--rounds 7] [--size 160x256x256]

Prints milliseconds, medians over rounds in which the libraries take turns. ``read``: a smooth int16 volume with noise,
as .nii.gz and .nii, in one thread. ``ct``: patches of a CT with labels on all cores, beside MONAI, with the largest
memory of each process. ``cache``: patches of volumes that were read before, from a folder and from main memory, beside
what the copies alone take. A library that is not installed is left out.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

import seqpipe
from seqpipe import Cache, Patch, Prepare
from seqpipe.volume import save

from .frame import add_choice, in_turns, is_here, medians, parser_of


def phantom(shape):
    """Return a phantom like a brain: a smooth ball with noise, and zeros around it."""
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
    """Return median milliseconds of each call; calls run in turns."""
    return {name: medians(spent).wall_ms for name, spent in in_turns(calls, rounds, warm_up=1).items()}


def table(title, rows):
    print(f"\n{title}")
    best = rows["seqpipe"]
    for name, ms in rows.items():
        print(f"  {name:24}{ms:9.1f} ms{ms / best:8.2f} ×")


def main():
    parser = parser_of(__doc__)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--size", default="160x256x256", help="slices x rows x columns")
    add_choice(parser, "--job", JOBS)
    parser.add_argument("--case", help=argparse.SUPPRESS)
    parser.add_argument("--contestant", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.case:
        work_case(options.case, options.contestant)
        return
    for job in options.job or JOBS:
        JOBS[job](options)


def cached(options):
    """An epoch of 16 patches of 128³ of four volumes that a cache holds."""
    shape = (160, 256, 256)
    with tempfile.TemporaryDirectory() as folder:
        affine = np.eye(4)[:, [2, 1, 0, 3]]
        files = [Path(folder) / f"{number}.nii.gz" for number in range(4)]
        for path in files:
            save(seqpipe.Sequence(phantom(shape)[..., None], "DHWC", affine=affine), path)

        def patches(**more):
            cache = Cache(threads=1, **more)
            return seqpipe.volumes(files, Patch(128, per_volume=4), cache=cache).batch(1).prefetch(1)

        def epoch(**more):
            with patches(**more) as data:
                for _ in data:
                    pass

        kept = patches(gib=4)
        volumes = [np.zeros(shape, np.int16) for _ in files]
        for volume in volumes:
            volume += 1

        def copies():
            starts = (0, 8, 16, 24)
            return [v[start : start + 128, 64:192, 64:192].copy() for v in volumes for start in starts]

        calls = {
            "seqpipe": lambda: epoch(dir=f"{folder}/kept"),
            "without a cache": epoch,
            "from main memory": lambda: [None for _ in kept],
            "copying into new memory": copies,
        }
        medians = measured(calls, options.rounds)
        cache_mb = sum(path.stat().st_size for path in Path(folder, "kept").iterdir()) / 1e6
        table(
            f"16 patches of 128³ int16 of 4 volumes, {cache_mb:.0f} MB in the cache's folder, one thread",
            medians,
        )
        kept.close()


def reading(options):
    """Whole files, by each library that is installed."""
    shape = tuple(map(int, options.size.split("x")))
    here = {name: call for name, (module, call) in READERS.items() if is_here(module)}
    with tempfile.TemporaryDirectory() as folder:
        volume = seqpipe.Sequence(phantom(shape)[..., None], "DHWC", affine=np.eye(4)[:, [2, 1, 0, 3]])
        for ending in (".nii.gz", ".nii"):
            path = str(Path(folder) / f"volume{ending}")
            save(volume, path)
            size = Path(path).stat().st_size / 1e6
            calls = {name: lambda call=call, path=path: call(path) for name, call in here.items()}
            table(f"read {options.size} int16 {ending} ({size:.1f} MB)", measured(calls, options.rounds))


def ct_case(options):
    """A CT with 13 organs: to RAS, 1.5 x 1.5 x 2 mm, clipped and scaled, cropped to the body, four balanced patches.

    Each contestant works in a process of its own, whose memory is that of this job alone; they take turns.
    """
    shape = (128, 512, 512)
    affine = np.diag([-0.8, -0.8, 2.5, 1.0])[:, [2, 1, 0, 3]]
    image = phantom(shape)
    image[image == 0] = -1000  # air
    offsets = np.indices((4, 4, 4)).reshape(3, -1).T[::5]
    label = np.zeros(shape, np.uint8)
    for number, (d, h, w) in enumerate(offsets, 1):
        cut = tuple(
            slice(n // 8 + n * p // 6, n // 8 + n * p // 6 + n // 12)
            for n, p in zip(shape, (d, h, w), strict=True)
        )
        label[cut] = number
    title = (
        "512×512×128 CT with 13 labels → RAS, 1.5 × 1.5 × 2 mm, clip and scale, crop, 4 balanced 96³ patches"
    )
    print(f"\n{title}, {os.cpu_count()} cores")
    with tempfile.TemporaryDirectory() as folder:
        for name, data in (("image", image), ("label", label)):
            save(seqpipe.Sequence(data[..., None], "DHWC", affine=affine), Path(folder) / f"{name}.nii.gz")
        here = [name for name, (module, _) in CASES.items() if is_here(module)]
        workers = {name: _worker(name, folder) for name in here}
        answers = {name: [] for name in here}
        for _ in range(options.rounds + 1):
            for name, worker in workers.items():
                answers[name].append(_turn(worker))
        for worker in workers.values():
            worker.stdin.close()
            worker.wait()
    first = _medians(answers["seqpipe"])
    for name, answer in answers.items():
        ms, cpu_ms, mib = _medians(answer)
        print(
            f"  {name:10}{ms:9.1f} ms{ms / first[0]:8.2f} ×{cpu_ms:9.1f} ms of the cores{cpu_ms / first[1]:8.2f} ×"
            f"{mib:8.0f} MiB at most"
        )


def _worker(name, folder):
    command = [sys.executable, "-m", "benchmarks.volumes", "--case", folder, "--contestant", name]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


def _turn(worker):
    worker.stdin.write("\n")
    worker.stdin.flush()
    return json.loads(worker.stdout.readline())


def _medians(answers):
    """Of milliseconds and of the processor's milliseconds, without the first turn, and the last one's memory."""
    return *(statistics.median(one[column] for one in answers[1:]) for column in (0, 1)), answers[-1][2]


def work_case(folder, name):
    """Do the case once for each line of standard input; write time and memory."""
    patches = CASES[name][1](folder)
    for _ in sys.stdin:
        begin, cpu = time.perf_counter(), time.process_time()
        patches()
        ms = [1e3 * (time.perf_counter() - begin), 1e3 * (time.process_time() - cpu)]
        # not ru_maxrss, which a process inherits from the one that started it
        status = Path("/proc/self/status").read_text(encoding="ascii")
        memory = int(next(line.split()[1] for line in status.splitlines() if line.startswith("VmHWM")))
        print(json.dumps([*ms, memory / 1024]), flush=True)


def case_by_seqpipe(folder):
    files = [{name: f"{folder}/{name}.nii.gz" for name in ("image", "label")}]
    window = seqpipe.ops.Window(lo=LOW, hi=HIGH)

    def patches():
        take = Patch(96, per_volume=4, around="balanced", foreground=0.5)
        prepare = Prepare(orientation="RAS", spacing_mm=(2.0, 1.5, 1.5), crop_above=LOW, dtype="float32")
        with seqpipe.volumes(files, take, prepare=prepare).map(window) as data:
            return list(data)

    return patches


def case_by_monai(folder):
    from monai import transforms

    keys = ["image", "label"]
    chain = transforms.Compose(
        [
            transforms.LoadImaged(keys),
            transforms.EnsureChannelFirstd(keys),
            transforms.Orientationd(keys, axcodes="RAS", labels=None),
            transforms.Spacingd(keys, pixdim=(1.5, 1.5, 2.0), mode=("bilinear", "nearest")),
            transforms.ScaleIntensityRanged(["image"], LOW, HIGH, 0.0, 1.0, clip=True),
            transforms.CropForegroundd(keys, source_key="image", allow_smaller=True),
            transforms.RandCropByPosNegLabeld(
                keys,
                label_key="label",
                spatial_size=(96, 96, 96),
                pos=1,
                neg=1,
                num_samples=4,
                image_key="image",
            ),
        ]
    )
    return lambda: chain({name: f"{folder}/{name}.nii.gz" for name in keys})


LOW, HIGH = -175.0, 250.0
CASES = {"seqpipe": ("seqpipe", case_by_seqpipe), "MONAI": ("monai", case_by_monai)}
JOBS = {"read": reading, "ct": ct_case, "cache": cached}


if __name__ == "__main__":
    main()
