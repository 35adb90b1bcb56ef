"""One rank has fewer batches: it averages the epoch's loss while the others still average gradients."""

import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "common"))

from training import Training, note_fault, options

arguments = options()
rank = int(os.environ["RANK"])
training = Training(arguments, batches=arguments.step if rank == arguments.rank else arguments.steps)  # the bug
for batch in training.loader:
    training.step(batch)
if rank == arguments.rank:
    note_fault(rank)
training.end_epoch()
training.finish()
