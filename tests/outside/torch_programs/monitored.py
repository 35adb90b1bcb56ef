"""A gloo group beside NCCL: monitored_barrier before every evaluation."""

import datetime
import fcntl
import os
import sys
import time

from planted import COMPUTE_S, OPTIONS, finish, layers, planted, start

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel


def refresh_cache(step):
    """One process of the machine at a time; the lock is one of another job, which hangs."""
    path = os.path.join(OPTIONS.scratch, "cache.lock")
    other, mine = open(path, "w"), open(path, "w")
    if planted("file_lock", step):
        fcntl.flock(other, fcntl.LOCK_EX)
        fcntl.flock(mine, fcntl.LOCK_EX)  # FAULT file_lock


start()
watch = dist.new_group(backend="gloo")
model = DistributedDataParallel(layers())
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
for step in range(OPTIONS.steps):
    time.sleep(COMPUTE_S)
    loss = model(torch.randn(8, 64)).square().mean()
    loss.backward()  # FAULT leaves
    optimizer.step()
    optimizer.zero_grad()
    if step % 4 == 0:
        refresh_cache(step)
        if planted("leaves", step):
            sys.exit(0)  # FAULT leaves
        dist.monitored_barrier(watch, timeout=datetime.timedelta(seconds=20), wait_all_ranks=True)
finish()
