"""Attributes that are computed at their first use: once, and in a forked process, too."""

from __future__ import annotations

import subprocess
import sys

from seqpipe.core.cached import cached_property

FORKED = """
import os, signal, threading
from seqpipe.core.cached import cached_property

class Slow:
    begun, done = threading.Event(), threading.Event()

    @cached_property
    def value(self):
        if self.__dict__.get("waits"):
            self.begun.set()
            self.done.wait()
        return 3

slow = Slow()
slow.waits = True
thread = threading.Thread(target=lambda: slow.value)
thread.start()
Slow.begun.wait()
child = os.fork()
if not child:
    signal.alarm(5)
    os._exit(Slow().value)
Slow.done.set()
thread.join()
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""


class Counted:
    def __init__(self):
        self.calls = 0

    @cached_property
    def value(self):
        """What it is."""
        self.calls += 1
        return object()


class Doubled(Counted):
    @cached_property
    def value(self):
        return [super().value]


def test_one_may_be_made_of_the_one_of_its_base():
    doubled = Doubled()
    assert isinstance(doubled.value, list)
    assert doubled.value is doubled.value


def test_it_is_computed_once_for_each_object():
    one, other = Counted(), Counted()
    assert one.value is one.value is not other.value
    assert (one.calls, other.calls) == (1, 1)
    assert Counted.value.__doc__ == "What it is."
    del one.value
    assert one.value is not None
    assert one.calls == 2


def test_a_process_forked_while_a_thread_computes_one_waits_for_nobody():
    """Before Python 3.12, functools has a lock for each property, which the child would wait for."""
    found = subprocess.run([sys.executable, "-c", FORKED], capture_output=True, text=True, check=False)
    assert (found.stdout, found.stderr) == ("3\n", "")
