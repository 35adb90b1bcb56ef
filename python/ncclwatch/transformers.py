"""For Hugging Face's Trainer: `Trainer(callbacks=[ncclwatch.transformers.Callback()])` tells the steps and what is logged.

The Trainer logs the mean loss of all ranks, and leaves NaN out of it unless logging_nan_inf_filter is False: which rank had it
first only ncclwatch.metric() in compute_loss tells.
"""

from __future__ import annotations

from typing import Any, Optional

from transformers import TrainerCallback

from .annotate import set_metric, set_step

_NAMES = {"loss": "loss", "grad_norm": "grad_norm", "learning_rate": "lr", "eval_loss": "eval_loss"}


class Callback(TrainerCallback):
    def on_step_begin(self, args: Any, state: Any, control: Any, **more: Any) -> None:
        # Open until the next one begins: the Trainer logs a step after its end.
        set_step(state.global_step, True)

    def on_log(self, args: Any, state: Any, control: Any, logs: Optional[dict[str, float]] = None, **more: Any) -> None:
        for key, name in _NAMES.items():
            if logs and key in logs:
                set_metric(name, logs[key])

    def on_train_end(self, args: Any, state: Any, control: Any, **more: Any) -> None:
        set_step(state.global_step, False)
