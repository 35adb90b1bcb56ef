"""What the programs share: options, the process group on CPU tensors, and when the planted fault happens."""

import argparse
import os
import sys
import time

SOURCE = os.path.abspath(os.path.join(os.path.dirname(__file__), "..", "..", ".."))
sys.path.insert(0, os.path.join(SOURCE, "examples", "torch", "common"))

import ctypes_nccl  # noqa: E402,F401  registers the backend
import torch  # noqa: E402
import torch.distributed as dist  # noqa: E402

RANK = int(os.environ["RANK"])
COMPUTE_S = 0.02
torch.set_num_threads(1)


def options():
    parser = argparse.ArgumentParser()
    parser.add_argument("--fault", default="none")
    parser.add_argument("--rank", type=int, default=2, help="the rank that goes wrong")
    parser.add_argument("--step", type=int, default=8, help="when")
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--scratch", help="a folder of this run")
    return parser.parse_args()


OPTIONS = options()


def planted(fault, step=None):
    """Does this rank go wrong in this way, in this step?"""
    return OPTIONS.fault == fault and OPTIONS.rank == RANK and step in (None, OPTIONS.step)


def start():
    dist.init_process_group("ctypes_nccl")
    torch.manual_seed(0)


def finish():
    dist.barrier()
    dist.destroy_process_group()


def layers(width=64, depth=2):
    return torch.nn.Sequential(*(part for _ in range(depth) for part in (torch.nn.Linear(width, width), torch.nn.ReLU())))


class Samples(torch.utils.data.Dataset):
    """Random samples; reading one takes as long as a small one does from a disk."""

    def __init__(self, count, width=64):
        self.count, self.width = count, width

    def __len__(self):
        return self.count

    def __getitem__(self, index):
        time.sleep(COMPUTE_S / 8)
        return torch.randn(self.width, generator=torch.Generator().manual_seed(index))


def loader(batches, samples=Samples, batch=8):
    return torch.utils.data.DataLoader(samples(batches * batch), batch_size=batch)


def silent_pipe(name):
    """A pipe to which nobody writes: reading from it is a server that does not answer."""
    path = os.path.join(OPTIONS.scratch, name)
    os.mkfifo(path)
    return path
