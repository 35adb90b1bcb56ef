"""Data-parallel training on CPUs. On one rank a batch has a NaN in step 30.   train.py RANK STEPS"""

import os
import sys

import torch
import torch.distributed as dist

import ncclwatch

dist.init_process_group("gloo")
rank, culprit, steps = dist.get_rank(), int(sys.argv[1]), int(sys.argv[2])
torch.manual_seed(0)
model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(8, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
torch.manual_seed(rank + 1)
for step in range(steps):
    with ncclwatch.step(step):
        batch = torch.randn(16, 8)
        if rank == culprit and step == 30:
            batch[3, 2] = float("nan")
        optimizer.zero_grad()
        loss = (model(batch) - batch.sum(1, keepdim=True)).pow(2).mean()
        loss.backward()
        norm = torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        ncclwatch.metric("loss", loss.item())
        ncclwatch.metric("grad_norm", norm.item())
dist.destroy_process_group()
# torch 2.15 aborts now and then while the interpreter ends: 2 of 8 runs without ncclwatch, 2 of 8 with it.
os._exit(0)
