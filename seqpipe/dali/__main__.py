"""``python -m seqpipe.dali`` lists DALI's operators: which are here, which differ, and what to use for the others."""

from __future__ import annotations

import sys

from .table import ALIASES, known_names, row_of

__all__ = ["table_text"]


def table_text() -> str:
    """The table, a line for each name: yes, differs or no, and what there is to know."""
    lines = []
    for name in known_names():
        row = row_of(name)
        assert row is not None
        facts = [f"{argument}: {why}" for argument, why in sorted(row.refuse.items())]
        facts = [row.why] if row.why else [*([row.note] if row.note else []), *facts]
        state = "no" if row.why else "differs" if facts else "yes"
        facts += [f"older name of {ALIASES[name]}"] if name in ALIASES else []
        lines.append(f"{name:<36} {state:<8} {'; '.join(facts)}".rstrip())
    return "\n".join(lines)


if __name__ == "__main__":
    sys.stdout.write(table_text() + "\n")
