"""Models of every kind under ncclwatch.torch, one after the other; rank 1 kills itself in the last step of the first.

Writes to $WATCHED_FILE.RANK what collectives carry once all is known, {"AllReduce 4160": name or null}, and the number of
the last step.
"""

import json
import os
import signal
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), *[".."] * 3, "examples", "torch", "common"))
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), *[".."] * 3, "python"))

import ctypes_nccl  # noqa: F401  registers the backend
import torch
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.nn import Linear, Sequential
from torch.nn.parallel import DistributedDataParallel

import ncclwatch.torch
from training import note_fault

STEPS = 5
dist.init_process_group("ctypes_nccl")
rank, size = dist.get_rank(), dist.get_world_size()
optimizers = []
carries, step = {}, 1  # the first step of each optimizer but the first one may be one beside that one's


class Tied(torch.nn.Module):
    """Two of its layers share a matrix."""

    def __init__(self):
        super().__init__()
        self.embed, self.middle = Linear(70, 40, bias=False), Linear(40, 40)
        self.again, self.head = Linear(40, 40), Linear(40, 70)
        self.again.weight = self.middle.weight

    def forward(self, inputs):
        return self.head(self.again(self.middle(self.embed(inputs))))


def train(model, width, optimizer=None, count=STEPS, after=lambda: None):
    global step
    step -= 1
    optimizer = optimizer or torch.optim.SGD(model.parameters(), lr=0.01)
    optimizers.append(optimizer)
    for _ in range(count):
        model(torch.ones(4, width)).square().mean().backward()
        after()
        optimizer.step()
        optimizer.zero_grad()
        step += 1


def note_buckets(ddp):
    """As the reducer itself has them."""
    names = {id(parameter): name for name, parameter in ddp.module.named_parameters()}
    for bucket in ddp.reducer._get_zeros_like_grad_buckets():
        own = ", ".join(names[id(parameter)] for parameter in bucket.parameters())
        carries[f"AllReduce {bucket.buffer().numel()}"] = f"DDP bucket {bucket.index()} ({own})"


tied = Tied()
ncclwatch.torch.watch(tied)  # before it is wrapped
ddp = DistributedDataParallel(tied, bucket_cap_mb=0.008)
optimizer = torch.optim.SGD(ddp.parameters(), lr=0.01)
train(ddp, 70, optimizer)
note_buckets(ddp)

unused = DistributedDataParallel(Sequential(Linear(30, 50), Linear(50, 20)), bucket_cap_mb=0.005, find_unused_parameters=True)
ncclwatch.torch.watch(unused)
ncclwatch.torch.watch(unused)
train(unused, 30)
note_buckets(unused)

shards = Sequential(Linear(16, 48), Linear(48, 48), Linear(48, 48), Linear(48, 8))
mesh = init_device_mesh("cpu", (size,))
for layer in shards[:3]:
    fully_shard(layer, mesh=mesh)
fully_shard(shards, mesh=mesh)
ncclwatch.torch.watch(shards)
train(shards, 16)
for op in ("AllGather", "ReduceScatter"):
    carries[f"{op} {(16 + 1) * 48 // size}"] = "FSDP unit 0"
    carries[f"{op} {(48 + 1) * 48 // size}"] = "one of FSDP unit 1, FSDP unit 2"
    carries[f"{op} {(48 + 1) * 8 // size}"] = "FSDP unit (root)"

plain = Sequential(Linear(12, 12))
ncclwatch.torch.watch(plain)
carries["AllReduce 144"] = carries["AllReduce 12"] = None
train(plain, 12, after=lambda: [dist.all_reduce(one.grad) for one in plain.parameters()])

with ncclwatch.torch.evaluation():
    dist.all_reduce(torch.ones(777))
carries["AllReduce 777"] = None
with open(f"{os.environ['WATCHED_FILE']}.{rank}", "w") as file:
    json.dump({"carries": carries, "step": step}, file)


def end():
    if rank == 1:
        note_fault(rank)
        os.kill(os.getpid(), signal.SIGKILL)


tied.embed.weight.register_hook(lambda gradient: end())  # of the last bucket
train(ddp, 70, optimizer, count=1)
dist.barrier()
dist.destroy_process_group()
