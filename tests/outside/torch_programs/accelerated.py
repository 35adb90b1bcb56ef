"""A training loop of accelerate, with metrics gathered every few steps."""

import time

from planted import COMPUTE_S, OPTIONS, RANK, layers, loader, planted, start

import torch

start()  # accelerate takes the process group that exists

from accelerate import Accelerator  # noqa: E402

accelerator = Accelerator(cpu=True)
model = layers()
model, optimizer, batches = accelerator.prepare(
    model, torch.optim.SGD(model.parameters(), lr=0.01), loader(OPTIONS.steps * 4))
for step, batch in enumerate(batches):
    time.sleep(COMPUTE_S)
    loss = model(batch).square().mean()
    accelerator.backward(loss)
    optimizer.step()
    optimizer.zero_grad()
    if step % 5 == 4:
        mean = accelerator.gather(loss.detach()).mean()
    if planted("gather_on_one", step):  # "if accelerator.is_main_process"
        print(f"rank {RANK}: {accelerator.gather(loss.detach()).mean().item():.4f}", flush=True)  # FAULT gather_on_one
    if planted("stops_early", step):  # "my loss has not improved": of this rank
        break
accelerator.wait_for_everyone()  # FAULT stops_early
accelerator.end_training()
