"""``python -m seqpipe.dali`` lists DALI's operators: which exist, which differ, and what to use for the others."""

from __future__ import annotations

import sys

from .table import ALIASES, known_names, row_of

__all__ = ["table_text"]


def table_text() -> str:
    """Return a line for each operator: its name; yes, differs or no; the differences or the alternative."""
    lines = []
    for name in known_names():
        row = row_of(name)
        assert row is not None
        if row.why:
            notes = [row.why]
        else:
            notes = [f"{argument}: {why}" for argument, why in sorted(row.refuse.items())]
            notes = [row.note, *notes] if row.note else notes
        state = "no" if row.why else "differs" if notes else "yes"
        notes += [f"older name of {ALIASES[name]}"] if name in ALIASES else []
        lines.append(f"{name:<36} {state:<8} {'; '.join(notes)}".rstrip())
    return "\n".join(lines)


if __name__ == "__main__":
    sys.stdout.write(table_text() + "\n")
