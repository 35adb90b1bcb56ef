"""train.py's training by PyTorch Lightning, with no word about ncclwatch but the callback.   train_lightning.py RANK STEPS"""

import os
import sys

import lightning
import torch

import ncclwatch.lightning

RANK, CULPRIT, STEPS = int(os.environ["RANK"]), int(sys.argv[1]), int(sys.argv[2])


class Batches(torch.utils.data.IterableDataset):
    def __iter__(self):
        torch.manual_seed(RANK + 1)
        for step in range(STEPS):
            batch = torch.randn(16, 8)
            if RANK == CULPRIT and step == 30:
                batch[3, 2] = float("nan")
            yield batch


class Model(lightning.LightningModule):
    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.layer = torch.nn.Linear(8, 1)

    def training_step(self, batch, index):
        return (self.layer(batch) - batch.sum(1, keepdim=True)).pow(2).mean()

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.01)


lightning.Trainer(
    accelerator="cpu", devices=int(os.environ["WORLD_SIZE"]), strategy="ddp", max_steps=STEPS, max_epochs=1, logger=False,
    enable_progress_bar=False, enable_model_summary=False, use_distributed_sampler=False, default_root_dir=os.environ["TMPDIR"],
    callbacks=[ncclwatch.lightning.Callback(), lightning.pytorch.callbacks.ModelCheckpoint(every_n_train_steps=10, save_top_k=-1)],
).fit(Model(), torch.utils.data.DataLoader(Batches(), batch_size=None))
