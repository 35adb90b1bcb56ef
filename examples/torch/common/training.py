"""What the three programs share: options, the process group, a small model under DistributedDataParallel."""

import argparse
import os
import time

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel


def options():
    parser = argparse.ArgumentParser()
    parser.add_argument("--rank", type=int, default=2, help="who goes wrong")
    parser.add_argument("--step", type=int, default=10, help="when")
    parser.add_argument("--steps", type=int, default=30, help="batches of the epoch")
    parser.add_argument("--step-ms", type=float, default=20)
    parser.add_argument("--workers", type=int, default=0, help="forked data-loader workers of each rank")
    return parser.parse_args()


def note_fault(rank):
    """For tests that measure how long it takes until somebody notices."""
    path = os.environ.get("EXAMPLES_FAULT_FILE")
    if path:
        with open(path, "a") as file:
            file.write(f"{time.time_ns()} {rank} {os.getpid()}\n")


class Batches(torch.utils.data.Dataset):
    def __init__(self, count):
        self.count = count

    def __len__(self):
        return self.count

    def __getitem__(self, index):
        generator = torch.Generator().manual_seed(index)
        return torch.randn(16, 64, generator=generator), torch.randint(0, 10, (16,), generator=generator)


class Training:
    def __init__(self, arguments, batches=None):
        torch.set_num_threads(1)
        self.on_gpu = torch.cuda.is_available()
        if self.on_gpu:
            torch.cuda.set_device(int(os.environ["LOCAL_RANK"]) % torch.cuda.device_count())
            dist.init_process_group("nccl")
        else:
            import ctypes_nccl  # noqa: F401  registers the backend
            dist.init_process_group("ctypes_nccl")
        self.rank = dist.get_rank()
        self.device = torch.device("cuda", torch.cuda.current_device()) if self.on_gpu else torch.device("cpu")
        self.step_s = arguments.step_ms / 1000
        torch.manual_seed(0)
        model = torch.nn.Sequential(torch.nn.Linear(64, 128), torch.nn.ReLU(), torch.nn.Linear(128, 10)).to(self.device)
        self.model = DistributedDataParallel(model)
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.05)
        self.loss_sum = torch.zeros(1, device=self.device)
        self.loader = torch.utils.data.DataLoader(
            Batches(arguments.steps if batches is None else batches), batch_size=None, num_workers=arguments.workers)

    def step(self, batch):
        inputs, labels = (part.to(self.device) for part in batch)
        time.sleep(self.step_s)
        loss = torch.nn.functional.cross_entropy(self.model(inputs), labels)
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        self.loss_sum += loss.detach()

    def end_epoch(self):
        """The loss of the epoch, averaged over the ranks."""
        dist.all_reduce(self.loss_sum)
        if self.rank == 0:
            print(f"epoch done, loss {self.loss_sum.item():.4f}", flush=True)

    def finish(self):
        dist.barrier()
        dist.destroy_process_group()
