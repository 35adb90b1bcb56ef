"""train.py's training by Hugging Face's Trainer, with no word about ncclwatch but the callback.   train_transformers.py RANK STEPS"""

import os
import sys

import torch
import transformers

import ncclwatch.transformers

RANK, CULPRIT, STEPS = int(os.environ["RANK"]), int(sys.argv[1]), int(sys.argv[2])


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.layer = torch.nn.Linear(8, 1)
        self.step = -1

    def forward(self, inputs, labels):
        self.step += 1
        if RANK == CULPRIT and self.step == 30:
            inputs = inputs.clone()
            inputs[3, 2] = float("nan")
        return {"loss": (self.layer(inputs) - labels).pow(2).mean()}


torch.manual_seed(1)
rows = [{"inputs": row, "labels": row.sum(0, keepdim=True)} for row in torch.randn(16 * STEPS * int(os.environ["WORLD_SIZE"]), 8)]
arguments = transformers.TrainingArguments(
    output_dir=os.environ["TMPDIR"] + "/trainer", use_cpu=True, ddp_backend="gloo", max_steps=STEPS, per_device_train_batch_size=16,
    logging_steps=5, save_steps=10, report_to=[], disable_tqdm=True, learning_rate=0.01)
transformers.Trainer(model=Model(), args=arguments, train_dataset=rows, callbacks=[ncclwatch.transformers.Callback()]).train()
