"""A loop with torch's data loader, and a reduction of MPI in each step. On one rank the loader's worker reads a file for
each batch, or the rank saves its model to the file in each step.

    torch_steps.py STEPS input|checkpoint RANK FILE
"""

import sys
import time
from array import array

import torch
from mpi4py import MPI

steps, what, slow, path = int(sys.argv[1]), sys.argv[2], int(sys.argv[3]), sys.argv[4]
world = MPI.COMM_WORLD
is_slow = world.rank == slow


class Batches(torch.utils.data.Dataset):
    def __len__(self):
        return steps

    def __getitem__(self, index):
        if is_slow and what == "input":
            with open(path, "rb", buffering=0) as file:
                for _ in range(8):
                    file.read(1)
        return torch.full((8,), float(index))


loss, total = array("d", [1.0]), array("d", [0.0])
model = torch.nn.Linear(8, 1)
loader = torch.utils.data.DataLoader(Batches(), batch_size=None, num_workers=1)
for batch in loader:
    model(batch)
    time.sleep(0.03)
    if is_slow and what == "checkpoint":
        torch.save(model.state_dict(), path)
    world.Allreduce([loss, MPI.DOUBLE], [total, MPI.DOUBLE])
