"""Data-parallel training of which one rank ends as $SCENARIO_END says."""

import multiprocessing
import os
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), *[".."] * 3, "examples", "torch", "common"))

import torch
from training import Training, note_fault, options


def end(how):
    note_fault(training.rank)
    if how == "exit":
        sys.exit(1)
    if how == "os_exit":
        os._exit(3)
    if how == "worker":
        for child in multiprocessing.active_children():
            child.kill()
        while True:  # torch's handler of SIGCHLD raises wherever the program is
            time.sleep(0.01)
    raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB.")  # THE LINE


arguments = options()
training = Training(arguments)
for step, batch in enumerate(training.loader):
    if training.rank == arguments.rank and step == arguments.step:
        end(os.environ["SCENARIO_END"])
    training.step(batch)
training.end_epoch()
training.finish()
