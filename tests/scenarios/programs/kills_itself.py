"""Data-parallel training of which one rank is killed, as by the kernel or an operator: no exception, no farewell."""

import os
import signal
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), *[".."] * 3, "examples", "torch", "common"))

from training import Training, note_fault, options

arguments = options()
training = Training(arguments)
for step, batch in enumerate(training.loader):
    if training.rank == arguments.rank and step == arguments.step:
        note_fault(training.rank)
        os.kill(os.getpid(), signal.SIGKILL)
    training.step(batch)
training.end_epoch()
training.finish()
