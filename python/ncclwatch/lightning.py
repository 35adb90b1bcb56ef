"""For PyTorch Lightning: `Trainer(callbacks=[ncclwatch.lightning.Callback()])` tells the steps and each rank's own loss."""

from __future__ import annotations

from typing import Any

try:
    from lightning.pytorch.callbacks import Callback as _Callback
except ImportError:  # the package's older name
    from pytorch_lightning.callbacks import Callback as _Callback  # type: ignore[no-redef]

from .annotate import set_metric, set_step


def _number(outputs: Any) -> Any:
    loss = outputs.get("loss") if isinstance(outputs, dict) else outputs
    return loss.item() if hasattr(loss, "item") else loss


class Callback(_Callback):
    """every: the loss is read, which waits for the GPU, in one step of so many."""

    def __init__(self, every: int = 1) -> None:
        self.every = every

    def on_train_batch_start(self, trainer: Any, pl_module: Any, batch: Any, batch_idx: int) -> None:
        self._step = trainer.global_step  # which has moved on by the batch's end
        set_step(self._step, True)

    def on_train_batch_end(self, trainer: Any, pl_module: Any, outputs: Any, batch: Any, batch_idx: int) -> None:
        if batch_idx % self.every == 0:
            loss = _number(outputs)
            if loss is not None:
                set_metric("loss", loss)
        set_step(self._step, False)
