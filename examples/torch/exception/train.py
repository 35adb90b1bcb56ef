"""One rank throws in the middle of the epoch. torchrun ends the others at once."""

import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "common"))

from training import Training, note_fault, options

arguments = options()
training = Training(arguments)
for step, batch in enumerate(training.loader):
    if training.rank == arguments.rank and step == arguments.step:
        note_fault(training.rank)
        raise ValueError("this rank's batch is damaged")
    training.step(batch)
training.end_epoch()
training.finish()
