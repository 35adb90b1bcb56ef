"""DistributedDataParallel on gloo until it is killed; in step 20 one rank does as the first argument says."""

import os
import sys
import time

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

HOW = sys.argv[1]


class Data(torch.utils.data.Dataset):
    def __len__(self):
        return 1 << 40

    def __getitem__(self, _):
        return torch.randn(64)


def next_batch(batches, step, rank):
    if HOW == "loader" and step == 20 and rank == 2:
        time.sleep(1000)  # LOADER
    return next(batches)


def log_loss(loss):
    dist.all_reduce(loss)


def save(rank):
    if HOW == "checkpoint" and rank == 0:
        os.read(os.pipe()[0], 1)  # CHECKPOINT
    dist.barrier()


def main():
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    groups = [dist.new_group(list(range(4))) for _ in range(2)]
    model = DistributedDataParallel(torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.Linear(64, 10)))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    batches = iter(torch.utils.data.DataLoader(Data(), batch_size=8, num_workers=1, sampler=range(1 << 30)))
    for step in range(1 << 30):
        batch = next_batch(batches, step, rank)
        try:
            if HOW == "handler" and step == 20 and rank == 3:
                raise ValueError("a damaged batch")
        except ValueError:
            time.sleep(1000)  # HANDLER
        loss = model(batch).sum()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        if HOW != "skips" or rank != 1 or step != 20:
            log_loss(loss.detach())
        if HOW == "groups" and step == 20:
            if rank == 1:
                dist.all_reduce(torch.ones(1 << 20), group=groups[1])  # GROUPS
            dist.all_reduce(torch.ones(1 << 20), group=groups[0])
            if rank != 1:
                dist.all_reduce(torch.ones(1 << 20), group=groups[1])
        if step == 20 and rank == 0:
            print("step 20", flush=True)
        if step % 20 == 0:
            save(rank)


main()
