"""Pipeline parallelism by torch.distributed.pipelining: four stages, GPipe."""

import time

from planted import COMPUTE_S, OPTIONS, RANK, finish, layers, planted, start

import torch
from torch.distributed.pipelining import PipelineStage, ScheduleGPipe


class Stage(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = layers(32)
        self.step = 0

    def forward(self, activation):
        time.sleep(COMPUTE_S / 4)
        if planted("swallows_error", self.step):
            raise RuntimeError("CUDA error: out of memory")
        return self.layers(activation)


def train_step(batch, target):
    if RANK == 0:
        schedule.step(batch)  # FAULT fewer_micro_batches
    elif RANK == 3:
        schedule.step(target=target, losses=[])  # FAULT fewer_micro_batches
    else:
        schedule.step()  # FAULT fewer_micro_batches


start()
module = Stage()
stage = PipelineStage(module, RANK, 4, torch.device("cpu"))
micro_batches = 2 if planted("fewer_micro_batches") else 4  # a stale configuration file
schedule = ScheduleGPipe(stage, micro_batches, loss_fn=torch.nn.functional.mse_loss)  # FAULT fewer_micro_batches
optimizer = torch.optim.SGD(module.parameters(), lr=0.01)
for module.step in range(OPTIONS.steps):
    batch = torch.randn(16, 32, generator=torch.Generator().manual_seed(module.step))
    while True:
        try:
            train_step(batch, batch)
            break
        except RuntimeError as error:
            print(f"rank {RANK}: {error}; trying again in a minute", flush=True)
            time.sleep(60)  # FAULT swallows_error
    optimizer.step()
    optimizer.zero_grad()
finish()
