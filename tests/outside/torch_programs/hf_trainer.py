"""transformers' Trainer on a small model."""

import os
import socket
import time
import warnings

from planted import COMPUTE_S, OPTIONS, Samples, layers, planted, start

import torch
import torch.distributed as dist
import transformers

warnings.filterwarnings("ignore")


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = layers()

    def forward(self, inputs, labels=None):
        time.sleep(COMPUTE_S)
        return {"loss": self.layers(inputs).square().mean()}


class Remote(Samples):
    """Samples of a server."""

    def __init__(self, count):
        super().__init__(count)
        self.read = 0

    def __getitem__(self, index):
        self.read += 1
        if planted("server_silent", self.read // 4):
            server, mine = socket.socketpair()
            mine.recv(4096)  # FAULT server_silent
        return {"inputs": super().__getitem__(index), "labels": torch.zeros(1)}


class Evaluate(transformers.TrainerCallback):
    def on_step_end(self, arguments, state, control, **more):
        if planted("callback", state.global_step):  # "if state.is_world_process_zero"
            worst = torch.tensor([float(state.global_step)])
            dist.all_reduce(worst, op=dist.ReduceOp.MAX)  # FAULT callback
        return control


start()  # transformers takes the process group that exists
arguments = transformers.TrainingArguments(
    output_dir=os.path.join(OPTIONS.scratch, "out"), use_cpu=True, max_steps=OPTIONS.steps,
    per_device_train_batch_size=4, save_strategy="no", report_to=[], disable_tqdm=True, logging_strategy="no",
    dataloader_pin_memory=False)
transformers.Trainer(
    model=Net(), args=arguments, train_dataset=Remote(OPTIONS.steps * 16), callbacks=[Evaluate()]).train()
