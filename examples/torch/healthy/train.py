"""DistributedDataParallel as it should be."""

import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "common"))

from training import Training, options

arguments = options()
training = Training(arguments)
for batch in training.loader:
    training.step(batch)
training.end_epoch()
training.finish()
