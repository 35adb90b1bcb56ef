"""Gradient accumulation: DistributedDataParallel with no_sync in all micro-steps but the last."""

import contextlib
import threading
import time

from planted import OPTIONS, RANK, finish, layers, loader, planted, start

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

ACCUMULATE = 4


class Cache:
    """Batches kept on the side by a thread of its own. Two locks, taken in two orders."""

    def __init__(self):
        self.index, self.data = threading.Lock(), threading.Lock()
        self.held = threading.Event()

    def refresh(self):
        with self.index:
            self.held.set()
            time.sleep(0.2)
            with self.data:
                pass

    def lookup(self, refreshing):
        with self.data:
            if refreshing:
                threading.Thread(target=self.refresh, daemon=True, name="cache-refresh").start()
                self.held.wait()
            with self.index:  # FAULT lock_order
                return True


start()
model = DistributedDataParallel(layers())
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
cache = Cache()
total = torch.zeros(1)
for step, batch in enumerate(loader(OPTIONS.steps)):
    cache.lookup(refreshing=planted("lock_order", step))
    last = (step + 1) % ACCUMULATE == 0
    if planted("never_syncs") and step // ACCUMULATE == OPTIONS.step // ACCUMULATE:
        last = False  # "skip this update": its loss was not finite
    with contextlib.nullcontext() if last else model.no_sync():
        loss = model(batch).square().mean() / ACCUMULATE
        loss.backward()  # FAULT never_syncs
    total += loss.detach()
    if last:
        optimizer.step()
        optimizer.zero_grad()
dist.all_reduce(total)  # FAULT never_syncs
if RANK == 0:
    print(f"loss {total.item():.4f}", flush=True)
finish()
