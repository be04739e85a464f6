"""Compare the golden hashes, or record them: ``python -m tests.golden [--record] [NAME…]``."""

from __future__ import annotations

import argparse
import fnmatch
import os
import sys
import tempfile
import time
from importlib.util import find_spec

from .hashing import differences, entry_of, machine
from .media import folder
from .table import JOBS, read, write


def main() -> int:
    """Run the jobs whose names match, and say what differs."""
    parser = argparse.ArgumentParser(prog="python -m tests.golden", description=__doc__)
    parser.add_argument("--record", action="store_true", help="write hashes.json")
    parser.add_argument("--times", action="store_true", help="print how long each job takes")
    parser.add_argument("names", nargs="*", default=["*"], metavar="NAME", help="jobs, such as 'video/*'")
    given = parser.parse_args()
    chosen = [one for one in JOBS.values() if any(fnmatch.fnmatch(one.name, name) for name in given.names)]
    recorded = read()
    same = recorded.get("machine") == machine()
    if given.record and recorded and not same and len(chosen) < len(JOBS):
        parser.error("the others were recorded on another machine, or with other libraries: record all jobs")
    entries = dict(recorded.get("jobs", {}))
    wrong = 0
    with tempfile.TemporaryDirectory() as cache:
        os.environ["SEQPIPE_CACHE_DIR"] = cache
        os.environ.setdefault("SEQPIPE_PROCESSES", "0")
        for one in chosen:
            if one.needs and find_spec(one.needs) is None:
                print(f"{one.name}: left out, {one.needs} is not installed")
                continue
            begun = time.process_time()
            found = entry_of(one, folder())
            if given.times:
                print(f"{time.process_time() - begun:6.2f} s {one.name}")
            before = entries.get(one.name, {}).get("hashes")
            said = ["new"] if before is None else differences(before, found, same_machine=same)
            if said:
                wrong += 1
                print(f"{one.name}: {'; '.join(said[:4])}{' …' if said[4:] else ''}")
            entries[one.name] = {**({"changes": one.changes} if one.changes else {}), "hashes": found}
    if given.record:
        write({name: entries[name] for name in sorted(entries) if name in JOBS}, machine())
    print(f"{len(chosen)} jobs, {wrong} differ{', recorded' if given.record else ''}")
    return 0 if given.record else int(wrong > 0)


if __name__ == "__main__":
    sys.exit(main())
