"""prepared: whole volumes as a deterministic chain makes them, written once, and read in patches afterwards."""

from __future__ import annotations

import json
import os
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from ..core.keywords import refuses_unknown
from ..core.param import check_path
from ..core.whole_file import write_durably
from ..errors import OutputError, ParameterError, SeqpipeError
from ..ops import Chain
from ..parts import Labels
from ..readers.volumes.case import VolumeRules, cut_at, load_case
from ..readers.volumes.listing import Case, Cases, cases
from ..readers.volumes.options import Prepare, Whole
from ..volume.formats.write import save
from .each_case import CaseErrors, Progress, each_case
from .fingerprint import case_stamp

__all__ = ["prepared"]


@refuses_unknown("seqpipe.prepared")
def prepared(
    source: Any,
    folder: str | os.PathLike[str],
    *ops: Any,
    prepare: Prepare | None = None,
    workers: int | None = None,
    progress: Progress | None = None,
    on_error: CaseErrors = "raise",
) -> Cases:
    """Prepare whole volumes once, and return the prepared cases: the head of a chain, before patches are cut.

    head = recipes.nnunet_normalization(facts, "ct")
    cases = seqpipe.prepared(cases, "prepared", head, prepare=facts.prepare(crop_above=-500))
    train = seqpipe.volumes(cases, Patch(facts.patch_size), shuffle=True).map(recipes.nnunet(facts))

    Statistics such as those of a z-score are of the whole volume. Volumes are written as plain NIfTI, of which patches
    read their own rows alone; a case is prepared again if its files or the preparation changed.

    Args:
        source: what :func:`seqpipe.cases` takes, or its result.
        folder: folder of the prepared volumes; it is made if it does not exist.
        ops: operators or chains that change whole volumes, without random parameters; or nothing.
        prepare: orientation, spacing, alignment, crop and dtype before the operators.
        workers: number of threads, each with a case in memory; by default one for each core.
        progress: called with the number of cases that are done, and of all.
        on_error: policy for cases that cannot be read: "raise", or "skip" to leave them out.

    Raises:
        SourceError: a case cannot be read and ``on_error`` is "raise"; or all of them.
        ParameterError: an operator is random.
        OutputError: a file cannot be written.
    """
    given = source if isinstance(source, Cases) else cases(source)
    chain = Chain(*ops) if ops else None
    for op in [] if chain is None else chain.ops:
        if _is_random(op):
            raise ParameterError(
                f"{op.name} is random, and whole volumes are prepared once",
                source="prepared",
                allowed="operators with constant parameters",
                advice="Give it to map(…), after patches are cut",
            )
    root = Path(check_path("folder", folder))
    try:
        root.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise OutputError(f"cannot be made ({error.strerror})", source=str(root)) from error
    rules = VolumeRules(Whole(), prepare or Prepare(), given.label_names)
    numbers = {id(case): number for number, case in enumerate(given)}
    call = partial(_prepared_case, rules=rules, chain=chain, root=root, numbers=numbers)
    done = each_case(given, call, workers=workers, progress=progress, on_error=on_error)
    entries = tuple(case for _, case in done if not isinstance(case, SeqpipeError))
    return Cases(entries, given.label_names)


def _is_random(op: Any) -> bool:
    """Return whether an operator gives another result for another sample: by its parameters, or for a small volume.

    What volumetric operators draw besides their parameters, such as noise, is not declared.
    """
    if 0 < op.p < 1 or op.distributions:
        return True
    grid = np.linspace(0, 1, 512, dtype=np.float32).reshape(8, 8, 8, 1)
    sample = {"image": grid, "label": Labels((grid > 0.5).astype(np.uint8))}
    try:
        first, other = (op(sample, epoch=0, index=index)["image"] for index in (0, 1))
    except SeqpipeError:
        return False  # it is for other volumes, and raises for the first case if not for these
    return first.shape != other.shape or not np.array_equal(first, other)


def _prepared_case(
    case: Case, *, rules: VolumeRules, chain: Chain | None, root: Path, numbers: dict[int, int]
) -> Case:
    """Write the prepared volumes of a case, unless they are there."""
    settings = [
        repr(rules.prepare),
        list(rules.labels),
        None if chain is None else json.loads(chain.to_json()),
    ]
    stamp = case_stamp(case, settings)
    stem = f"{numbers[id(case)]:05d}_{''.join(c if c.isalnum() or c in '-_' else '_' for c in case.subject)}"
    files = {name: root / f"{stem}_{name}.nii" for name in case.parts}
    mark = root / f"{stem}.json"
    result = Case({name: str(file) for name, file in files.items()}, case.key, case.subject)
    whole = json.dumps(stamp, sort_keys=True)
    is_known = stamp is not None and mark.is_file() and mark.read_text("utf-8") == whole
    if is_known and all(file.is_file() for file in files.values()):
        return result
    mark.unlink(missing_ok=True)
    loaded = load_case(case, rules)
    parts: Any = cut_at(loaded, (0, 0, 0), loaded.grid, rules)
    if chain is not None:
        parts = chain(parts, epoch=0, index=0)
    for name, file in files.items():
        save(parts[name], file)
    try:
        write_durably(mark, whole.encode())
    except OSError as error:
        raise OutputError(f"cannot be written ({error.strerror})", source=str(mark)) from error
    return result
