"""Lightning's Trainer with its DDP strategy."""

import os
import time
import warnings

from planted import COMPUTE_S, OPTIONS, layers, loader, planted

import lightning
import torch
from lightning.pytorch.strategies import DDPStrategy

warnings.filterwarnings("ignore")


class Net(lightning.LightningModule):
    def __init__(self):
        super().__init__()
        self.layers = layers()

    def training_step(self, batch, index):
        time.sleep(COMPUTE_S)
        loss = self.layers(batch).square().mean()
        self.log("loss", loss)
        if planted("sync_dist", index):  # "an outlier: log it"
            self.log("outlier", loss, sync_dist=True)  # FAULT sync_dist
        return loss

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.01)


class KeepBest(lightning.Callback):
    def on_train_batch_end(self, trainer, module, outputs, batch, index):
        if planted("saves_alone", index):  # "if trainer.is_global_zero"
            trainer.save_checkpoint(os.path.join(OPTIONS.scratch, "best.ckpt"))  # FAULT saves_alone


lightning.seed_everything(0, verbose=False)
trainer = lightning.Trainer(
    accelerator="cpu", devices=4, strategy=DDPStrategy(process_group_backend="ctypes_nccl"), max_epochs=1,
    callbacks=[KeepBest()], logger=False, enable_checkpointing=False, enable_progress_bar=False,
    enable_model_summary=False, use_distributed_sampler=False, default_root_dir=OPTIONS.scratch)
trainer.fit(Net(), loader(OPTIONS.steps))
