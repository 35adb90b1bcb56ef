"""One rank never makes a group that the others make: they wait for it there, and it for them in the next all-reduce."""

import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), *[".."] * 3, "examples", "torch", "common"))

import ctypes_nccl  # noqa: F401  registers the backend
import torch
import torch.distributed as dist

from training import note_fault, options

arguments = options()
dist.init_process_group("ctypes_nccl")
rank = dist.get_rank()
value = torch.ones(16)
for step in range(arguments.step):
    dist.all_reduce(value)
if rank == arguments.rank:
    note_fault(rank)
else:
    dist.new_group([0, 1, 2, 3], group_desc="everyone")
dist.all_reduce(value)
