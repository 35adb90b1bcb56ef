"""A NaN in one step of a training by Hugging Face's Trainer or by Lightning.   callbacks.py transformers|lightning STEP"""

import sys
import tempfile

import torch

import ncclwatch

KIND, BAD, STEPS = sys.argv[1], int(sys.argv[2]), 40


class Data(torch.utils.data.Dataset):
    def __len__(self):
        return STEPS * 4

    def __getitem__(self, index):
        x = torch.full((8,), float(index % 7))
        if index // 4 == BAD:
            x[0] = float("nan")
        return {"x": x, "labels": x.sum()}


if KIND == "transformers":
    import ncclwatch.transformers
    import transformers

    class Model(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.linear = torch.nn.Linear(8, 1)

        def forward(self, x, labels):
            return {"loss": (self.linear(x).squeeze(-1) - labels).pow(2).mean()}

    class Ordered(transformers.Trainer):
        def _get_train_sampler(self, *_):
            return torch.utils.data.SequentialSampler(self.train_dataset)

    arguments = transformers.TrainingArguments(
        output_dir=tempfile.mkdtemp(), per_device_train_batch_size=4, max_steps=STEPS, logging_steps=1, report_to=[],
        logging_nan_inf_filter=False, learning_rate=1e-4, save_strategy="no", dataloader_pin_memory=False, disable_tqdm=True)
    Ordered(Model(), arguments, train_dataset=Data(), callbacks=[ncclwatch.transformers.Callback()]).train()
else:
    import ncclwatch.lightning

    try:
        import lightning.pytorch as pl
    except ImportError:
        import pytorch_lightning as pl

    class Module(pl.LightningModule):
        def __init__(self):
            super().__init__()
            self.linear = torch.nn.Linear(8, 1)

        def training_step(self, batch, _):
            return (self.linear(batch["x"]).squeeze(-1) - batch["labels"]).pow(2).mean()

        def configure_optimizers(self):
            return torch.optim.SGD(self.parameters(), lr=1e-4)

    loader = torch.utils.data.DataLoader(Data(), batch_size=4)
    pl.Trainer(max_steps=STEPS, logger=False, enable_checkpointing=False, enable_progress_bar=False, accelerator="auto",
               callbacks=[ncclwatch.lightning.Callback()]).fit(Module(), loader)
