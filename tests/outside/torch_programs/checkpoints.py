"""Distributed checkpoints: torch.distributed.checkpoint of a sharded model, and a file of each rank beside it."""

import os
import time

from planted import COMPUTE_S, OPTIONS, RANK, finish, layers, loader, planted, silent_pipe, start

import torch
import torch.distributed.checkpoint as checkpoint
from torch.distributed.checkpoint.state_dict import get_state_dict
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard


def save(step):
    weights, moments = get_state_dict(model, optimizer)  # FAULT one_rank_saves
    path = os.path.join(OPTIONS.scratch, f"step-{step}")
    checkpoint.save({"model": weights, "optimizer": moments}, checkpoint_id=path)  # FAULT one_rank_saves


def save_random_state(step):
    path = os.path.join(OPTIONS.scratch, f"random-{step}-{RANK}")
    if planted("storage_hangs", step):
        path = silent_pipe(f"random-{step}-{RANK}")
    with open(path, "wb") as file:  # FAULT storage_hangs
        torch.save(torch.get_rng_state(), file)


start()
model = layers()
fully_shard(model, mesh=init_device_mesh("cpu", (4,)))
optimizer = torch.optim.AdamW(model.parameters(), lr=0.001)
for step, batch in enumerate(loader(OPTIONS.steps), 1):
    time.sleep(COMPUTE_S)
    loss = model(batch).square().mean()
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    if step % 8 == 0:
        save_random_state(step)
        save(step)
    if planted("one_rank_saves", step - 1):  # "best loss so far", of this rank
        save("best")  # FAULT one_rank_saves
finish()
