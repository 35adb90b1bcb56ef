"""For PyTorch Lightning: `Trainer(callbacks=[ncclwatch.lightning.Callback()])` tells steps, each rank's own loss, memory and
checkpoints, and what the module logs as `grad_norm`, `lr`, `tokens_per_s` or `mfu`."""

from __future__ import annotations

from typing import Any

try:
    from lightning.pytorch.callbacks import Callback as _Callback
except ImportError:  # the package's older name
    from pytorch_lightning.callbacks import Callback as _Callback  # type: ignore[no-redef]

from .annotate import add_event, set_gpu_memory, set_metric, set_step

_LOGGED = ("grad_norm", "lr", "tokens_per_s", "mfu")


class Callback(_Callback):
    """every: the loss is read, which waits for the GPU, in one step of so many."""

    def __init__(self, every: int = 1) -> None:
        self.every = every
        self._step = 0

    def on_train_batch_start(self, trainer: Any, pl_module: Any, batch: Any, batch_idx: int) -> None:
        self._step = trainer.global_step  # which has moved on by the batch's end
        set_step(self._step, True)

    def on_train_batch_end(self, trainer: Any, pl_module: Any, outputs: Any, batch: Any, batch_idx: int) -> None:
        if batch_idx % self.every == 0:
            loss = outputs.get("loss") if isinstance(outputs, dict) else outputs
            if loss is not None:
                set_metric("loss", loss)
            for name in _LOGGED:
                if name in trainer.callback_metrics:
                    set_metric(name, trainer.callback_metrics[name])
            set_gpu_memory()
        set_step(self._step, False)

    def on_save_checkpoint(self, trainer: Any, pl_module: Any, checkpoint: Any) -> None:
        set_step(trainer.global_step, True)  # it is saved between two batches
        add_event("checkpoint", {})
        set_step(trainer.global_step, False)
