"""A program of two sources under any sequence of calls is the loop over batches that it stands for."""

from __future__ import annotations

import json

import numpy as np
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

from seqpipe.dali import fn
from tests.support.external import Program


class Calls(RuleBasedStateMachine):
    """A source that raises errors and ends beside one that is longer; the model is a position in a list."""

    pipe = None

    @initialize(
        length=st.integers(1, 6),
        longer=st.integers(0, 2),
        bad=st.sets(st.integers(0, 5), max_size=2),
        prefetch=st.integers(0, 3),
        broken=st.sampled_from(["batches", "samples"]),
    )
    def begin(self, length, longer, bad, prefetch, broken):
        """Make the first pipeline."""
        self.length, self.longer, self.bad, self.broken = length, longer, bad, broken
        self.pipe = self.made(prefetch)
        self.epoch = self.at = 0

    def made(self, prefetch):
        """A pipeline of the same sources."""

        def batches(info):
            if info.iteration >= self.length:
                raise StopIteration
            if self.broken == "batches" and info.iteration in self.bad:
                raise KeyError(info.iteration)
            return np.full((2, 1), 100 * info.epoch_idx + info.iteration)

        def samples(info):
            if info.iteration >= self.length + self.longer:
                raise StopIteration
            if self.broken == "samples" and info.iteration in self.bad:
                raise KeyError(info.iteration)
            return np.array([100 * info.epoch_idx + info.idx_in_epoch])

        def define():
            one = fn.external_source(batches, batch_info=True, name="batches")
            return one * 2, fn.external_source(samples, batch=False, name="samples")

        return Program(define, 2, prefetch=prefetch)

    @rule()
    def step(self):
        """Ask for one batch."""
        try:
            one, other = next(self.pipe)
        except StopIteration:
            assert self.at == self.length
        except KeyError as error:
            (number,) = error.args
            assert number == self.at
            assert number in self.bad
            self.at += 1
        else:
            assert self.at < self.length
            assert self.at not in self.bad
            number = 100 * self.epoch + self.at
            assert one.tolist() == [[2 * number]] * 2
            assert other.tolist() == [[100 * self.epoch + 2 * self.at + n] for n in range(2)]
            self.at += 1

    @rule()
    def reset(self):
        """Begin the next epoch, whatever was read of this one."""
        self.pipe.reset()
        self.epoch, self.at = self.epoch + 1, 0

    @rule(prefetch=st.integers(0, 3))
    def resume(self, prefetch):
        """Go on in another pipeline, whatever this one has read ahead."""
        state = json.loads(json.dumps(self.pipe.state_dict()))
        assert (state["epoch"], state["position"]) == (self.epoch, 2 * self.at)
        self.pipe.close()
        self.pipe = self.made(prefetch)
        self.pipe.load_state_dict(state)

    @rule()
    def rewind(self):
        """Load the pipeline's own state."""
        self.pipe.load_state_dict(self.pipe.state_dict())

    @precondition(lambda self: self.pipe is not None)
    @rule()
    def look(self):
        """What only looks changes nothing."""
        assert self.pipe.stats()["ready"] >= 0

    @rule()
    def close(self):
        """A closed pipeline goes on where it was when it is used again."""
        self.pipe.close()

    def teardown(self):
        """End the threads."""
        if self.pipe is not None:
            self.pipe.close()


TestCalls = Calls.TestCase
TestCalls.settings = settings(max_examples=60, stateful_step_count=20, deadline=None)
