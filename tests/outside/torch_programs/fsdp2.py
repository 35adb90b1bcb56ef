"""FSDP2: every layer sharded by fully_shard."""

import os
import signal
import time

from planted import COMPUTE_S, OPTIONS, RANK, finish, layers, loader, planted, start

import torch
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard


def evaluate(model, batches):
    with torch.no_grad():
        return sum(model(batch).square().mean().item() for batch in batches)  # FAULT eval_on_one_rank


start()
mesh = init_device_mesh("cpu", (4,), mesh_dim_names=("shard",))
model = layers(depth=3)
for layer in model:
    if isinstance(layer, torch.nn.Linear):
        fully_shard(layer, mesh=mesh)
fully_shard(model, mesh=mesh)
optimizer = torch.optim.AdamW(model.parameters(), lr=0.001)
held_out = list(loader(2))
for step, batch in enumerate(loader(OPTIONS.steps)):
    time.sleep(COMPUTE_S)
    if planted("killed", step):
        os.kill(os.getpid(), signal.SIGKILL)  # FAULT killed
    loss = model(batch).square().mean()
    loss.backward()  # FAULT killed
    optimizer.step()
    optimizer.zero_grad()
    if planted("eval_on_one_rank", step):  # "if rank == 0: evaluate"
        print(f"rank {RANK}: held-out loss {evaluate(model, held_out):.4f}", flush=True)  # FAULT eval_on_one_rank
finish()
