"""Object collectives: the configuration of every epoch is broadcast, statistics of all ranks are gathered."""

import time

from planted import COMPUTE_S, OPTIONS, RANK, finish, layers, planted, start

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel


def gather_statistics(mine):
    everyone = [None] * dist.get_world_size()
    try:
        dist.all_gather_object(everyone, mine)
    except Exception as error:  # statistics must not end a training run
        print(f"rank {RANK}: no statistics: {error}", flush=True)
    return everyone


start()
model = DistributedDataParallel(layers())
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
for epoch in range(OPTIONS.steps // 2):
    plan = [{"rate": 0.01 / (epoch + 1), "name": f"epoch {epoch}"} if RANK == 0 else None]
    dist.broadcast_object_list(plan, src=0)  # FAULT unpicklable no_statistics
    for _ in range(2):
        time.sleep(COMPUTE_S)
        loss = model(torch.randn(8, 64)).square().mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
    statistics = {"rank": RANK, "loss": loss.item()}
    if planted("unpicklable", epoch):
        statistics["schedule"] = lambda step: 0.01 / step
    if planted("no_statistics", epoch):  # "nothing new to report"
        continue
    gather_statistics(statistics)
finish()
