"""Elastic restart: torchrun starts all ranks again, and they go on from the last checkpoint."""

import os
import signal
import time

from planted import COMPUTE_S, OPTIONS, RANK, finish, layers, planted, start

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

ATTEMPT = int(os.environ["TORCHELASTIC_RESTART_COUNT"])
CHECKPOINT = os.path.join(OPTIONS.scratch, "checkpoint.pt")


def read_shard(step):
    if planted("bad_shard", step):
        raise OSError(f"shard {step} is truncated")  # FAULT bad_shard
    return torch.randn(8, 64)


start()
model = layers()
begin = 0
if os.path.exists(CHECKPOINT):
    state = torch.load(CHECKPOINT)
    model.load_state_dict(state["model"])
    begin = state["step"]
dist.barrier()
model = DistributedDataParallel(model)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
for step in range(begin, OPTIONS.steps):
    time.sleep(COMPUTE_S)
    if ATTEMPT == 0 and planted("killed_once", step):
        os.kill(os.getpid(), signal.SIGKILL)  # FAULT killed_once
    loss = model(read_shard(step)).square().mean()
    loss.backward()  # FAULT killed_once
    optimizer.step()
    optimizer.zero_grad()
    if step % 4 == 3:
        if RANK == 0:
            torch.save({"model": model.module.state_dict(), "step": step + 1}, CHECKPOINT)
        dist.barrier()  # FAULT killed_once
finish()
