"""``seqpipe doctor``: what this machine supports, what is missing, and how to fix it."""

from __future__ import annotations

import contextlib
import ctypes
import importlib.util
import json
import os
import platform
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

import click

from ...errors import BackendError, OutputError
from .. import options

__all__ = ["Finding", "doctor", "findings"]

_MARKS = {True: "ok", False: "FAILS", None: "-"}


@click.command()
@options.json_lines
@options.cache_dir
def doctor(as_json: bool, cache_dir: str | None) -> None:
    """Check decoders, GPUs, packages and cache. The exit code is 1 if a required part fails."""
    failed = False
    for finding in findings(cache_dir):
        failed |= finding.ok is False
        if as_json:
            click.echo(json.dumps({"type": "finding", **asdict(finding)}))
        else:
            advice = f"\n        {finding.advice}" if finding.advice else ""
            click.echo(f"{_MARKS[finding.ok]:>5}  {finding.name}: {finding.value}{advice}")
    click.get_current_context().exit(1 if failed else 0)


# purpose of each optional package, by import name, and the extras that install it
_PARTS = {
    "torch": ("tensors", "torch"),
    "cupy": ("arrays and operators on a GPU", "cuda12", "cuda13"),
    "s3fs": ("s3:// addresses", "s3"),
    "aiohttp": ("http:// and https:// addresses", "http"),
    "pyarrow": ("Parquet files", "parquet"),
    "ray": ("data sets on a Ray cluster", "ray"),
    "PIL": ("animated WebP", "webp"),
    "pydicom": ("DICOM series", "dicom"),
    "highdicom": ("writing DICOM segmentations", "highdicom"),
    "nibabel": ("MINC, AFNI, PAR/REC and ECAT volumes, and images of nibabel", "nibabel"),
    "SimpleITK": ("VTK, GIPL and MRC volumes, and images of SimpleITK", "sitk"),
    "zarr": ("Zarr and OME-Zarr volumes", "zarr"),
    "h5py": ("HDF5 volumes", "hdf5"),
    "blosc2": ("Blosc2 volumes and the disk cache of volumes", "blosc2"),
    "scipy": ("cleaning and measuring labels", "scipy"),
    "ipyniivue": ("NiiVue's widget for volumes in notebooks", "niivue"),
}


@dataclass(frozen=True)
class Finding:
    """The result of one check.

    Attributes:
        name: the component.
        value: version or state of the component.
        ok: whether the component works; None where it is optional and missing.
        advice: how to mend a failure, or "".
    """

    name: str
    value: str
    ok: bool | None = True
    advice: str = ""


def findings(cache_dir: str | None) -> Iterator[Finding]:
    """Run all checks; each stands behind those that it depends on."""
    yield _package()
    yield Finding("Python", f"{platform.python_version()} on {platform.platform()}")
    yield Finding("CPU", f"{len(os.sched_getaffinity(0))} cores, {_memory_gib():.0f} GiB of memory")
    yield Finding("Environment", _environment() or "no variable SEQPIPE_… is set")
    yield _ffmpeg()
    yield _cache(cache_dir)
    yield from (_part(name, *about) for name, about in _PARTS.items())
    yield _compiler()
    yield from _gpu()
    yield _gpu_jpeg()


def _package() -> Finding:
    """Find the versions of seqpipe, NumPy and OpenCV."""
    import cv2
    import numpy as np

    from ... import __version__

    folder = Path(__file__).resolve().parents[2]
    return Finding("seqpipe", f"{__version__} in {folder}, NumPy {np.__version__}, OpenCV {cv2.__version__}")


def _memory_gib() -> float:
    """Return the main memory in GiB."""
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30


def _environment() -> str:
    """Return the environment variables of seqpipe that are set."""
    return ", ".join(
        f"{name}={value}" for name, value in sorted(os.environ.items()) if name[:8] == "SEQPIPE_"
    )


def _ffmpeg() -> Finding:
    """Find the FFmpeg that PyAV is built with."""
    from ...video.probe import probe

    missing = probe.missing_decoders()
    if not missing:
        return Finding("CPU decoders", probe.build_name())
    return Finding(
        "CPU decoders",
        f"{probe.build_name()}, without {', '.join(missing)}",
        ok=False,
        advice="Install PyAV's own wheel: pip install --force-reinstall --no-deps av",
    )


def _cache(cache_dir: str | None) -> Finding:
    """Find whether the cache of indexes can be written."""
    from ...video.index.cache import cache_directory, check_writable

    folder = cache_directory(cache_dir)
    try:
        check_writable(folder)
    except OutputError as error:
        value = f"{folder}: {error.fact}; indexes are made anew by every program"
        return Finding("Index cache", value, ok=None, advice=error.advice or "")
    sizes = list(_file_sizes(folder))
    return Finding("Index cache", f"{folder}: {len(sizes):,} files, {sum(sizes) / 1e6:.1f} MB")


def _file_sizes(folder: Path) -> Iterator[int]:
    """Sizes of all files below a folder; unreadable files and files removed meanwhile are left out."""
    for root, _, names in os.walk(folder):
        for name in names:
            with contextlib.suppress(OSError):
                yield Path(root, name).stat().st_size


def _part(name: str, use: str, *extras: str) -> Finding:
    """Find whether an optional package is installed."""
    if not _installed(name):
        command = "pip install " + " or ".join(f"'seqpipe[{extra}]'" for extra in extras)
        return Finding(name, f"not installed; it is for {use}", ok=None, advice=command)
    from importlib import metadata  # here, as it takes longer to import than the help of all commands to show

    try:
        version = metadata.version(name)
    except metadata.PackageNotFoundError:
        version = "installed"  # CuPy's distributions have the CUDA version in their names
    return Finding(name, version)


def _compiler() -> Finding:
    """Find whether the C sources are compiled, or can be."""
    from ...core.native import COMPILER, SHIPPED, compiler

    if SHIPPED.is_dir():
        return Finding("C compiler", "not needed: the C sources came compiled")
    path = compiler()
    if path is not None:
        return Finding("C compiler", path)
    return Finding(
        "C compiler",
        "none; with one, small videos are decoded on a GPU about twice as fast",
        ok=None,
        advice=f"Install gcc, or name a compiler in {COMPILER}",
    )


def _gpu_jpeg() -> Finding:
    """Find whether a GPU encodes JPEG."""
    from ...writers.gpu_jpeg import gpu_jpeg, nvimgcodec_version

    try:
        gpu_jpeg(0)
    except BackendError as error:
        value = f"{error.fact}; without it jpg is encoded on the CPU"
        return Finding("JPEG on a GPU", value, ok=None, advice=error.advice or "")
    return Finding("JPEG on a GPU", f"nvImageCodec {nvimgcodec_version()} encodes jpg for export")


def _installed(name: str) -> bool:
    """Return whether a package is installed."""
    return importlib.util.find_spec(name) is not None


def _gpu() -> Iterator[Finding]:
    """Find the GPUs, and what uses them."""
    from ...video.cuda.devices import gpus
    from ...video.nvdec.cuvid import load

    try:
        load()
        yield Finding("NVDEC", f"the driver's decoder library is there; the driver knows CUDA {_driver()}")
        for gpu in gpus():
            yield Finding(
                f"cuda:{gpu.number}",
                f"{gpu.name}, compute capability {gpu.capability}, {gpu.memory_bytes / 2**30:.0f} GiB, "
                f"{gpu.engines} NVDEC engines; decodes {', '.join(gpu.decodes)}",
            )
    except BackendError as error:
        yield Finding("GPU", error.fact, ok=None, advice=error.advice or "")
        return
    yield _optical_flow()


def _driver() -> str:
    """The newest version of CUDA that the driver runs."""
    version = ctypes.c_int()
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL("libcuda.so.1").cuDriverGetVersion(ctypes.byref(version))
    return (
        f"{version.value // 1000}.{version.value % 1000 // 10}" if version.value else "of an unknown version"
    )


def _optical_flow() -> Finding:
    """Find whether a GPU computes optical flow by its engine."""
    from ...flow.nvofa import engine_caps, interface

    try:
        caps = engine_caps(0, "optical flow")
    except BackendError as error:
        value = f"{error.fact}; without it, flow is computed on the CPU"
        return Finding("Optical flow", value, ok=None, advice=error.advice or "")
    least, most = (f"{caps[f'width_{end}'][0]}×{caps[f'height_{end}'][0]}" for end in ("min", "max"))
    grids = ", ".join(str(grid) for grid in sorted(caps["output_grids"]) if grid)
    return Finding(
        "Optical flow", f"engine with interface {interface()}, grids {grids}, frames of {least} to {most}"
    )
