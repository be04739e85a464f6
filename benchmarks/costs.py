"""What each operator costs, for its page: ``python -m benchmarks.costs [--device cuda] [--only NAME]…``.

Each operator's first example, with the sizes of ``benchmarks.ops`` or, on volumes, of its picture, and with p=1, on 16
frames of 256×340 or on a volume of 64×128×128: the processor time of one core, or on a GPU the device's time for eight
samples, least of several rounds. Beside it is how many times as long that is as a copy of the input. The result
replaces the device's rows in docs/costs.csv, which docs/derive.py reads.
"""

from __future__ import annotations

import argparse
import csv
import math
import platform
import sys
import time
from collections.abc import Callable, Iterator
from datetime import date
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks.ops import _for_large
from benchmarks.ops_devices import Cpu, Cuda
from docs.pictures import ARGUMENTS

__all__ = ["main"]

FILE = Path(__file__).resolve().parents[1] / "docs" / "costs.csv"
_COLUMNS = ("operator", "device", "machine", "date", "input", "ms", "copies")
_ROUNDS, _LEAST_S = 5, 0.02  # rounds, each of as many calls as take at least this long


def main() -> int:
    """Measure, and write the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--device", choices=["cpu", "cuda"], default="cpu")
    parser.add_argument("--only", action="append", default=[], help="operators by name; may be repeated")
    parser.add_argument("--machine", default="", help="its name; by default the processor's or the GPU's")
    options = parser.parse_args()
    import cv2

    from seqpipe import ops

    cv2.setNumThreads(1)
    ops.set_threads(1)
    device = Cuda() if options.device == "cuda" else Cpu()
    machine = options.machine or _machine(device)
    rows = _read()
    for name, shape, ms, copies in _measured(device, options.only):
        row = (name, device.name, machine, date.today().isoformat(), shape, _short(ms, 3), _short(copies, 2))
        print(*row, sep=", ", flush=True)
        rows[name, device.name] = dict(zip(_COLUMNS, row, strict=True))
    with FILE.open("w", newline="", encoding="utf-8") as file:
        table = csv.DictWriter(file, _COLUMNS, lineterminator="\n")
        table.writeheader()
        table.writerows(rows[key] for key in sorted(rows))
    return 0


def _read() -> dict[tuple[str, str], dict[str, str]]:
    if not FILE.exists():
        return {}
    with FILE.open(newline="", encoding="utf-8") as file:
        return {(row["operator"], row["device"]): row for row in csv.DictReader(file)}


def _measured(device: Cpu, only: list[str]) -> Iterator[tuple[str, str, float, float]]:
    from seqpipe.ops import REGISTRY

    copies: dict[str, float] = {}
    for name, cls in sorted(REGISTRY.items()):
        if not cls.__module__.startswith("seqpipe.") or (only and name not in only):
            continue
        if cls.traits.takes not in ("images", "batches", "volumes") or name.endswith("mix3d"):
            continue
        x, shape, options = _input(device, cls)
        example = cls.traits.examples[0] if cls.traits.examples else {}
        is_volume = cls.traits.takes == "volumes"
        arguments = dict(ARGUMENTS.get(name, example)) if is_volume else _for_large(example)
        if "p" in {q.name for q in cls.parameters}:
            arguments["p"] = 1.0
        try:
            op = cls(**arguments)
            ms = _least(device, partial(op, x, **options))
        except Exception as error:
            print(f"{name}: {type(error).__name__}: {error}", file=sys.stderr)
            continue
        if shape not in copies:
            copies[shape] = _least(device, device.copy(x["label"] if isinstance(x, dict) else x))
        yield name, shape, ms, ms / copies[shape]


def _input(device: Cpu, cls: Any) -> tuple[Any, str, dict[str, Any]]:
    """What an operator takes, in words, and the arguments of its call."""
    many = (device.samples,) if device.name == "cuda" else ()
    if cls.traits.takes == "volumes":
        return _volume(device, cls, many)
    channels = 3 if not cls.traits.channels or 3 in cls.traits.channels else cls.traits.channels[0]
    dtype = "uint8" if "uint8" in cls.traits.dtypes else cls.traits.dtypes[0]
    if cls.traits.takes == "batches":
        many = (device.samples if many else 2,)
    x = device.images(*many, 16, 256, 340, channels).astype(dtype)
    return x, _words(x), {"layout": "NFHWC" if many else "FHWC"}


def _volume(device: Cpu, cls: Any, many: tuple[int, ...]) -> tuple[Any, str, dict[str, Any]]:
    from seqpipe.parts import Labels

    x = device.images(*many, 64, 128, 128, 1)
    if cls.traits.on_labels:
        labels = x // 64
        return {"label": Labels(labels)}, _words(labels), {"layout": "NDHWC" if many else "DHWC"}
    x = x.astype("float32") / 255
    return x, _words(x), {"layout": "NDHWC" if many else "DHWC"}


def _words(x: Any) -> str:
    return f"{'×'.join(map(str, x.shape))} {x.dtype}"


def _least(device: Cpu, call: Callable[[], Any]) -> float:
    """Milliseconds of a call: of the processor, or of the GPU."""
    if device.name == "cuda":
        return min(device.measure(call).ms for _ in range(2))
    begin = time.process_time()
    call()
    times = max(1, int(_LEAST_S / max(time.process_time() - begin, 1e-6)))
    rounds = []
    for _ in range(_ROUNDS):
        begin = time.process_time()
        for _ in range(times):
            call()
        rounds.append((time.process_time() - begin) / times)
    return 1e3 * min(rounds)


def _short(value: float, digits: int) -> str:
    """A number with so many digits, and never with an exponent."""
    return f"{float(f'{value:.{digits}g}'):,.{max(0, digits - 1 - math.floor(math.log10(value)))}f}"


def _machine(device: Cpu) -> str:
    if device.name == "cuda":
        import cupy

        return str(cupy.cuda.runtime.getDeviceProperties(0)["name"].decode())
    lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    names = [line.partition(": ")[2] for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor()


if __name__ == "__main__":
    sys.exit(main())
