"""DistributedDataParallel with uneven inputs: ranks have different numbers of batches, and join."""

from planted import OPTIONS, RANK, Samples, finish, layers, loader, planted, silent_pipe, start

import torch
import torch.distributed as dist
from torch.distributed.algorithms.join import Join
from torch.nn.parallel import DistributedDataParallel


class Images(Samples):
    def __getitem__(self, index):
        if planted("loader_hangs", index // 8):
            with open(silent_pipe("image-server")) as answer:  # FAULT loader_hangs
                answer.read()
        return super().__getitem__(index)


start()
model = DistributedDataParallel(layers())
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
with Join([model]):
    for step, batch in enumerate(loader(OPTIONS.steps + RANK, Images)):
        loss = model(batch).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if planted("extra_all_reduce", step):  # "only this rank saw an outlier: log the mean loss"
            mean = loss.detach().clone()
            dist.all_reduce(mean)  # FAULT extra_all_reduce
            print(f"rank {RANK}: loss {loss.item():.4f}, mean {mean.item() / dist.get_world_size():.4f}", flush=True)
finish()
