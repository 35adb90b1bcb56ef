"""For Hugging Face's Trainer: `Trainer(callbacks=[ncclwatch.transformers.Callback()])` tells steps, memory, checkpoints, and
what is logged. Where the model computes the loss itself (labels are among its inputs) it tells each rank's own; else what the
Trainer logs, the mean of all ranks, out of which NaN is left unless logging_nan_inf_filter is False.
"""

from __future__ import annotations

from typing import Any, Dict, Optional

from transformers import TrainerCallback

from .annotate import add_event, set_gpu_memory, set_metric, set_step

_NAMES = {"loss": "loss", "grad_norm": "grad_norm", "learning_rate": "lr", "eval_loss": "eval_loss"}


class Callback(TrainerCallback):
    """every: the rank's own loss is read, which waits for the GPU, in one step of so many."""

    def __init__(self, every: int = 1) -> None:
        self.every = every
        self._loss: Any = None
        self._own = False  # the model tells its loss
        self._hook: Any = None

    def _keep(self, module: Any, inputs: Any, outputs: Any) -> None:
        loss = outputs.get("loss") if isinstance(outputs, dict) else None
        if module.training and loss is not None:
            self._loss = loss.detach()

    def on_train_begin(self, args: Any, state: Any, control: Any, model: Any = None, **more: Any) -> None:
        if model is not None:
            self._hook = model.register_forward_hook(self._keep)

    def on_step_begin(self, args: Any, state: Any, control: Any, **more: Any) -> None:
        # Open until the next one begins: the Trainer logs a step, and saves it, after its end.
        set_step(state.global_step, True)

    def on_step_end(self, args: Any, state: Any, control: Any, **more: Any) -> None:
        if state.global_step % self.every == 0:
            if self._loss is not None:
                self._own = True
                set_metric("loss", self._loss)
            set_gpu_memory()
        self._loss = None

    def on_log(self, args: Any, state: Any, control: Any, logs: Optional[Dict[str, float]] = None, **more: Any) -> None:
        for key, name in _NAMES.items():
            if logs and key in logs and not (name == "loss" and self._own):
                set_metric(name, logs[key])

    def on_save(self, args: Any, state: Any, control: Any, **more: Any) -> None:
        add_event("checkpoint", {})

    def on_train_end(self, args: Any, state: Any, control: Any, **more: Any) -> None:
        if self._hook is not None:
            self._hook.remove()
        set_step(state.global_step, False)
