"""Data-parallel training of which one rank waits for its next batch for ever: a read from a pipe that nobody fills."""

import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), *[".."] * 3, "examples", "torch", "common"))

from training import Training, note_fault, options


def next_batch(batches, pipe):
    if pipe is not None:
        os.read(pipe, 1)  # THE STUCK LINE
    return next(batches, None)


def main():
    arguments = options()
    training = Training(arguments)
    batches = iter(training.loader)
    ends = os.pipe()
    for step in range(arguments.steps):
        stuck = training.rank == arguments.rank and step == arguments.step
        if stuck:
            note_fault(training.rank)
        training.step(next_batch(batches, ends[0] if stuck else None))
    training.end_epoch()
    training.finish()


main()
