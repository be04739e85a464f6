"""Fingerprint of a data set of volumes: spacings, shapes, intensities by class; computed once, and kept in a file."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping
from collections.abc import Sequence as Seq
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Final

import numpy as np

from ..array import FloatArray, to_numpy
from ..core.keywords import refuses_unknown
from ..core.param import check_path
from ..core.whole_file import write_durably
from ..errors import ManifestError, OutputError, ParameterError, SeqpipeError
from ..readers.volumes.case import VolumeRules, cut_at, load_case
from ..readers.volumes.listing import Case, Cases, cases
from ..readers.volumes.options import Prepare, Whole
from ..sequence import Sequence
from ..volume.source import AnyArray
from .each_case import CaseErrors, Progress, each_case
from .planning import NetworkPlan, planned, target_spacing

__all__ = ["CaseFacts", "Fingerprint", "IntensityFacts", "case_stamp", "fingerprint", "times_text"]

_QUANTILES: Final = (np.arange(512) + 0.5) / 512
_PERCENTILES: Final = (0.5, 50.0, 99.5)
_VERSION: Final = 1


@dataclass(frozen=True)
class IntensityFacts:
    """Statistics of values; of a data set, each case counts the same, as in nnU-Net.

    Attributes:
        mean: mean.
        std: standard deviation.
        median: median.
        p00_5: 0.5th percentile.
        p99_5: 99.5th percentile.
        min: least value.
        max: greatest value.
    """

    mean: float
    std: float
    median: float
    p00_5: float
    p99_5: float
    min: float
    max: float


@dataclass(frozen=True)
class CaseFacts:
    """What one case adds to a fingerprint.

    Attributes:
        key: name of the case.
        subject: its subject.
        shape: slices, rows and columns.
        spacing_mm: their distances in mm.
        orientation: directions of columns, rows and slices.
        cropped: shape of the box around the voxels that are not 0 in every image.
        voxels: label → number of its voxels, without 0.
        nbytes: size of its images and labels in memory.
        stamp: identity of its files' content, or None.
        foreground: channel → moments and quantiles of the labeled voxels; without labels, of those that are not 0.
        by_class: label → channel → the same of its voxels.
    """

    key: str
    subject: str
    shape: tuple[int, int, int]
    spacing_mm: tuple[float, float, float]
    orientation: str
    cropped: tuple[int, int, int]
    voxels: dict[int, int]
    nbytes: int
    stamp: Any = None
    foreground: dict[str, dict[str, Any]] = field(default_factory=dict, repr=False)
    by_class: dict[int, dict[str, dict[str, Any]]] = field(default_factory=dict, repr=False)

    def to_json(self) -> str:
        """Return one line of JSON."""
        return json.dumps(asdict(self))

    @classmethod
    def of_json(cls, line: str) -> CaseFacts:
        """Create what :meth:`to_json` wrote.

        Raises:
            ValueError, KeyError, TypeError: it is another text.
        """
        found = json.loads(line)
        for name in ("shape", "spacing_mm", "cropped"):
            found[name] = tuple(found[name])
        for name in ("voxels", "by_class"):
            found[name] = {int(number): value for number, value in found[name].items()}
        return cls(**found)


@dataclass(frozen=True)
class Fingerprint:
    """Facts of a data set of volumes, for its preparation and for the size of a network.

    Attributes:
        cases: the facts of each case.
        lost: cases that could not be read, with the reason.
        ignore: label of voxels without annotation, which are left out; or None.
    """

    cases: tuple[CaseFacts, ...]
    lost: tuple[str, ...] = ()
    ignore: int | None = None

    @property
    def channels(self) -> tuple[str, ...]:
        """Names of the images, with the number of the channel where one has several: ``"image[1]"``."""
        return tuple(self.cases[0].foreground)

    @property
    def intensities(self) -> dict[str, IntensityFacts]:
        """Channel → statistics of the labeled voxels; without labels, of those that are not 0."""
        return {name: _merged([case.foreground[name] for case in self.cases]) for name in self.channels}

    @property
    def by_class(self) -> dict[int, dict[str, IntensityFacts]]:
        """Label → channel → statistics of its voxels."""
        return {
            number: {
                name: _merged([case.by_class[number][name] for case in self.cases if number in case.by_class])
                for name in self.channels
            }
            for number in self.class_counts
        }

    @property
    def class_counts(self) -> dict[int, tuple[int, int]]:
        """Label → number of cases that have it, and of its voxels in all of them."""
        numbers = sorted({number for case in self.cases for number in case.voxels})
        return {
            number: (
                sum(number in case.voxels for case in self.cases),
                sum(case.voxels.get(number, 0) for case in self.cases),
            )
            for number in numbers
        }

    @property
    def spacing_mm(self) -> tuple[float, float, float]:
        """Spacing that volumes are resampled to; see :func:`seqpipe.segmentation.planning.target_spacing`."""
        return target_spacing([case.spacing_mm for case in self.cases], [case.cropped for case in self.cases])

    @property
    def median_shape(self) -> tuple[int, int, int]:
        """Median shape of the cropped volumes in the target spacing."""
        want = np.array(self.spacing_mm)
        shapes = [np.rint(np.array(case.cropped) * case.spacing_mm / want) for case in self.cases]
        depth, height, width = np.median(shapes, axis=0).astype(int).tolist()
        return depth, height, width

    @property
    def foreground_share(self) -> float:
        """Median share of a volume that remains after it is cropped to the voxels that are not 0."""
        return float(np.median([np.prod(case.cropped) / np.prod(case.shape) for case in self.cases]))

    @property
    def nbytes(self) -> int:
        """Size of all volumes in memory."""
        return sum(case.nbytes for case in self.cases)

    @property
    def prepared_gib(self) -> float:
        """Size of all images as float32 and labels as uint8 in the target spacing, in GiB."""
        volume = sum(float(np.prod(np.array(case.shape) * case.spacing_mm)) for case in self.cases)
        return volume / float(np.prod(self.spacing_mm)) * (4 * len(self.channels) + 1) / 2**30

    def plan(self, gpu_gib: float = 8.0) -> NetworkPlan:
        """Return patch size, batch size and topology of a U-Net that fits a GPU, by nnU-Net's rules.

        Args:
            gpu_gib: memory of the GPU.
        """
        classes = 1 + len(self.class_counts)
        return planned(self.spacing_mm, self.median_shape, len(self.cases), classes=classes, gpu_gib=gpu_gib)

    @property
    def patch_size(self) -> tuple[int, int, int]:
        """Patch size of :meth:`plan` for 8 GiB."""
        return self.plan().patch_size

    def prepare(self, **options: Any) -> Prepare:
        """Return a preparation with the target spacing and cubic splines without smoothing, as nnU-Net resamples.

        Args:
            options: other fields of :class:`seqpipe.Prepare`, or others than these.
        """
        usual: dict[str, Any] = {"spacing_mm": self.spacing_mm, "interp": "bspline", "antialias": False}
        return Prepare(**(usual | options))

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the fingerprint to a file, a line of JSON a case.

        Raises:
            OutputError: the file cannot be written.
        """
        head = {"fingerprint": _VERSION, "ignore": self.ignore, "lost": list(self.lost)}
        lines = [json.dumps(head), *(case.to_json() for case in self.cases), ""]
        try:
            write_durably(Path(path), "\n".join(lines).encode())
        except OSError as error:
            raise OutputError(f"cannot be written ({error.strerror})", source=os.fspath(path)) from error

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Fingerprint:
        """Return the fingerprint of a file.

        Raises:
            ManifestError: it is not a file of :meth:`save`.
        """
        name = check_path("path", path)
        try:
            head, *lines = Path(name).read_text(encoding="utf-8").splitlines()
            facts = json.loads(head)
            found = tuple(CaseFacts.of_json(line) for line in lines)
            if facts["fingerprint"] != _VERSION or not found:
                raise ValueError(f"version {facts['fingerprint']}, {len(found)} cases")
            return cls(found, tuple(facts["lost"]), facts["ignore"])
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise ManifestError(
                f"it is no fingerprint ({error})", source=name, allowed="a file of Fingerprint.save"
            ) from error

    def __str__(self) -> str:
        plan = self.plan()
        counts = ", ".join(f"{n}: {v:,} voxels in {c} cases" for n, (c, v) in self.class_counts.items())
        lines = [
            f"{len(self.cases)} cases, {self.nbytes / 2**30:.2f} GiB; {len(self.lost)} could not be read",
            f"spacing {times_text(self.spacing_mm)} mm, median shape {times_text(self.median_shape)}",
            f"patches {times_text(plan.patch_size)}, batch size {plan.batch_size}, about {plan.memory_gib:g} GiB",
            f"labels {counts or 'none'}",
        ]
        lines += [
            f"{name}: mean {facts.mean:.4g}, std {facts.std:.4g}, 0.5 % {facts.p00_5:.4g}, 99.5 % {facts.p99_5:.4g}"
            for name, facts in self.intensities.items()
        ]
        return "\n".join(lines)


def times_text(values: Iterable[float]) -> str:
    """Return numbers as text, such as ``2 × 1 × 1``."""
    return " × ".join(f"{value:.4g}" for value in values)


@refuses_unknown("seqpipe.fingerprint")
def fingerprint(
    source: Any,
    path: str | os.PathLike[str] | None = None,
    *,
    ignore: int | None = None,
    series_as_channels: bool = True,
    align: str = "none",
    workers: int | None = None,
    progress: Progress | None = None,
    on_error: CaseErrors = "raise",
) -> Fingerprint:
    """Return the fingerprint of a data set: spacings, shapes, intensities by class, counts of classes.

    facts = seqpipe.fingerprint(cases, "fingerprint.jsonl", progress=print)
    print(facts)
    train = seqpipe.volumes(cases, Patch(facts.patch_size, around="balanced"), prepare=facts.prepare())

    Every voxel is read once. Means and deviations are exact; percentiles are those of 512 quantiles of each case, of
    which every case has the same weight, where nnU-Net draws values.

    Args:
        source: what :func:`seqpipe.cases` takes, or its result.
        path: file of the result, which is updated: cases whose files did not change are not read again. A run that was
            interrupted continues. Its folder is made if it does not exist.
        ignore: label of voxels without annotation, which are left out.
        series_as_channels: whether the volumes of a 4-D file are channels.
        align: see :class:`seqpipe.Prepare`; images of different grids need "first".
        workers: number of threads, each with a case in memory; by default one for each core.
        progress: called with the number of cases that are done, and of all.
        on_error: policy for cases that cannot be read: "raise", or "skip", which lists them in ``lost``.

    Raises:
        SourceError: a case cannot be read and ``on_error`` is "raise"; or all of them.
        ParameterError: an argument is out of bounds.
        OutputError: the file cannot be written.
    """
    given = source if isinstance(source, Cases) else cases(source)
    prepare = Prepare(series_as_channels=series_as_channels, align=align)
    rules = VolumeRules(Whole(), prepare, given.label_names)
    settings = [ignore, series_as_channels, align]
    kept = _Kept.at(None if path is None else check_path("path", path), settings)
    found: list[CaseFacts] = []
    lost: list[str] = []
    call = partial(_facts_of, rules=rules, ignore=ignore, kept=kept)
    for case, facts in each_case(given, call, workers=workers, progress=progress, on_error=on_error):
        if isinstance(facts, SeqpipeError):
            lost.append(str(facts))
            continue
        if found and tuple(facts.foreground) != tuple(found[0].foreground):
            raise ParameterError(
                f"the channels {', '.join(facts.foreground)} differ from those of the first case",
                source=case.key,
                allowed=", ".join(found[0].foreground),
            )
        found.append(facts)
        kept.add(facts)
    result = Fingerprint(tuple(found), tuple(lost), ignore)
    kept.finish(result)
    return result


@dataclass(eq=False)
class _Kept:
    """Facts of an earlier run, and a file that each case is added to, so that an interrupted run continues."""

    path: Path | None
    settings: list[Any]
    known: dict[str, CaseFacts] = field(default_factory=dict)

    @classmethod
    def at(cls, path: str | None, settings: list[Any]) -> _Kept:
        kept = cls(None if path is None else Path(path), settings)
        for file in (kept.path, kept.partial):
            for line in [] if file is None or not file.is_file() else file.read_text("utf-8").splitlines():
                try:
                    facts = CaseFacts.of_json(line)
                except (ValueError, KeyError, TypeError):
                    continue  # the head, or a line that an interruption cut off
                kept.known[facts.key] = facts
        return kept

    @property
    def partial(self) -> Path | None:
        return None if self.path is None else self.path.with_name(f"{self.path.name}.part")

    def get(self, case: Case, stamp: Any) -> CaseFacts | None:
        """Return the facts of a case whose files did not change."""
        found = self.known.get(case.key)
        same = found is not None and stamp is not None and found.stamp == json.loads(json.dumps(stamp))
        return found if same else None

    def add(self, facts: CaseFacts) -> None:
        if self.partial is None or self.known.get(facts.key) is facts:
            return
        try:
            self.partial.parent.mkdir(parents=True, exist_ok=True)
            with self.partial.open("a", encoding="utf-8") as file:
                file.write(facts.to_json() + "\n")
        except OSError as error:
            raise OutputError(f"cannot be written ({error.strerror})", source=str(self.partial)) from error

    def finish(self, result: Fingerprint) -> None:
        if self.path is not None and self.partial is not None:
            result.save(self.path)
            self.partial.unlink(missing_ok=True)


def _facts_of(case: Case, *, rules: VolumeRules, ignore: int | None, kept: _Kept) -> CaseFacts:
    """Read a case, unless its facts are known."""
    stamp = case_stamp(case, kept.settings)
    known = kept.get(case, stamp)
    if known is not None:
        return known
    loaded = load_case(case, rules)
    parts = cut_at(loaded, (0, 0, 0), loaded.grid, rules)
    images = _channels({name: part for name, part in parts.items() if name not in rules.labels})
    labels = None
    if rules.labels:
        found = to_numpy(parts[rules.labels[0]].data)
        # regions are channels, of which each has its own number
        labels = found[..., 0] if found.shape[-1] == 1 else found
    first = next(iter(parts.values()))
    nonzero = np.zeros(loaded.grid, bool)
    for values in images.values():
        nonzero |= values != 0
    masks = _class_masks(labels, ignore)
    foreground = nonzero if labels is None else np.zeros(loaded.grid, bool)
    for mask in masks.values():
        foreground |= mask
    return CaseFacts(
        case.key,
        case.subject,
        loaded.grid,
        first.spacing_mm or (1.0, 1.0, 1.0),
        first.orientation or "RAS",
        _box_shape(nonzero),
        {number: int(np.count_nonzero(mask)) for number, mask in masks.items()},
        sum(int(part.data.nbytes) for part in parts.values()),
        stamp,
        {name: _statistics(values[foreground]) for name, values in images.items()},
        {
            number: {name: _statistics(values[mask]) for name, values in images.items()}
            for number, mask in masks.items()
        },
    )


def case_stamp(case: Case, settings: Any) -> Any:
    """Return the identity of the content of a case's files, and of what is done with them; None if unknown."""
    from ..volume.reader import VolumeReader

    stamps = []
    for origin in case.parts.values():
        with VolumeReader(origin) as reader:
            stamps.append(reader.stamp())
    return None if None in stamps else [stamps, settings]


def _channels(parts: Mapping[str, Sequence]) -> dict[str, AnyArray]:
    """Return each channel of the images, ``DHW``; a series of volumes is a series of channels."""
    found: dict[str, AnyArray] = {}
    for name, part in parts.items():
        data = to_numpy(part.data)
        data = np.moveaxis(data, 0, -2).reshape(*data.shape[1:4], -1) if part.layout == "FDHWC" else data
        for channel in range(data.shape[-1]):
            found[name if data.shape[-1] == 1 else f"{name}[{channel}]"] = data[..., channel]
    return found


def _class_masks(labels: AnyArray | None, ignore: int | None) -> dict[int, AnyArray]:
    """Return the voxels of each class."""
    if labels is None:
        return {}
    if labels.ndim == 4:
        return {n + 1: labels[..., n] > 0 for n in range(labels.shape[-1]) if labels[..., n].any()}
    return {int(n): labels == n for n in np.unique(labels) if n > 0 and n != ignore}


def _box_shape(mask: AnyArray) -> tuple[int, int, int]:
    """Return the shape of the box around the true voxels; of all voxels if there is none."""
    if not mask.any():
        return mask.shape[0], mask.shape[1], mask.shape[2]
    sides = []
    for axis in range(3):
        hits = np.flatnonzero(mask.any(axis=tuple(other for other in range(3) if other != axis)))
        sides.append(int(hits[-1] - hits[0] + 1))
    return sides[0], sides[1], sides[2]


def _statistics(values: AnyArray) -> dict[str, Any]:
    """Return moments, range and quantiles of finite values, as JSON values; only the count if there is none."""
    finite = values[np.isfinite(values)] if values.dtype.kind == "f" else values
    if not finite.size:
        return {"count": 0}
    wide = finite.astype(np.float64)
    return {
        "count": int(finite.size),
        "mean": float(wide.mean()),
        "std": float(wide.std()),
        "min": float(finite.min()),
        "max": float(finite.max()),
        "quantiles": [float(f"{value:.7g}") for value in np.quantile(wide, _QUANTILES)],
    }


def _merged(several: Seq[Mapping[str, Any]]) -> IntensityFacts:
    """Merge the statistics of cases, which count the same."""
    used = [facts for facts in several if facts["count"]]
    if not used:
        return IntensityFacts(*[float("nan")] * 7)
    means, stds = np.array([facts["mean"] for facts in used]), np.array([facts["std"] for facts in used])
    mean = float(means.mean())
    # the variance of the mixture
    std = float(np.sqrt(max(0.0, float((stds**2 + means**2).mean()) - mean**2)))
    together: FloatArray = np.concatenate([facts["quantiles"] for facts in used])
    low, middle, high = np.percentile(together, _PERCENTILES).tolist()
    least, most = min(facts["min"] for facts in used), max(facts["max"] for facts in used)
    return IntensityFacts(mean, std, middle, low, high, least, most)
