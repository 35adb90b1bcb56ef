"""Two ways of parallelism by DTensor: a feed-forward block split by columns and rows, and replicas of it."""

import time

from planted import COMPUTE_S, OPTIONS, RANK, finish, planted, start

import torch
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module


class Block(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.up = torch.nn.Linear(32, 64)
        self.down = torch.nn.Linear(64, 32)

    def forward(self, tokens):
        return self.down(self.up(tokens).relu())


def encode(text, unknown_loops):
    """A tokenizer: the longest known piece first."""
    ids, at = [], 0
    while at < len(text):  # FAULT endless_loop
        piece = next((size for size in (3, 2, 1) if text[at:at + size].isalpha()), 0)  # FAULT endless_loop
        ids.append(hash(text[at:at + piece]) % 1000)  # FAULT endless_loop
        at += piece if unknown_loops else max(piece, 1)  # FAULT endless_loop
        ids = ids[-64:]  # FAULT endless_loop
    return ids


start()
mesh = init_device_mesh("cpu", (2, 2), mesh_dim_names=("replicate", "tensor"))
if not planted("skips_new_group"):
    log_group = dist.new_group(range(4), group_desc="logging")
model = parallelize_module(Block(), mesh["tensor"], {"up": ColwiseParallel(), "down": RowwiseParallel()})
optimizer = torch.optim.SGD(model.parameters(), lr=0.01, foreach=False)
for step in range(OPTIONS.steps):  # FAULT skips_new_group
    time.sleep(COMPUTE_S)
    length = 8 - planted("wrong_shape", step)  # a sequence that was not padded
    encode("a sample, of text" * 4, unknown_loops=planted("endless_loop", step))
    tokens = torch.randn(2, length, 32, generator=torch.Generator().manual_seed(step))
    loss = model(tokens).square().mean()  # FAULT wrong_shape skips_new_group
    loss.backward()
    for parameter in model.parameters():
        dist.all_reduce(parameter.grad.to_local(), group=mesh.get_group("replicate"))
    optimizer.step()
    optimizer.zero_grad()
    mean = loss.detach().clone()
    if planted("group_order", step):
        dist.all_reduce(mean, group=log_group)  # FAULT group_order
        dist.all_reduce(torch.zeros(1), group=mesh.get_group("replicate"))
    else:
        dist.all_reduce(torch.zeros(1), group=mesh.get_group("replicate"))
        dist.all_reduce(mean, group=log_group)
if RANK == 0:
    print(f"loss {mean.item():.4f}", flush=True)
finish()
