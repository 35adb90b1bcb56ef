"""Jobs of torch's own gloo groups, and what their flight recorders wrote: gloo_jobs.py WORLD FOLDER CASE...

Ranks are forked, because to import torch takes seconds. Each waits for the others' dumps before it goes, so that none of
them fails a call of another.
"""

import os
import sys
import time

import torch
import torch.distributed as dist
from torch._C._distributed_c10d import _dump_fr_trace, _dump_fr_trace_json


def healthy(rank, world):
    tensor = torch.ones(4, 3)
    for _ in range(3):
        dist.all_reduce(tensor)
    dist.broadcast(tensor, 0)
    dist.all_gather([torch.zeros(4, 3) for _ in range(world)], tensor)
    dist.reduce(tensor, 1)
    pair = dist.new_group([0, 1])
    if rank in (0, 1):
        dist.all_reduce(torch.ones(5, dtype=torch.float64), group=pair)
    dist.all_to_all_single(torch.zeros(world * 2), torch.ones(world * 2))
    dist.gather(torch.ones(2), [torch.ones(2) for _ in range(world)] if rank == 0 else None, 0)
    dist.scatter(torch.ones(2), [torch.ones(2) for _ in range(world)] if rank == 0 else None, 0)
    dist.all_gather_into_tensor(torch.zeros(world * 2), torch.ones(2))
    dist.barrier()


def missing(rank, world):
    for _ in range(4):
        dist.all_reduce(torch.ones(8))
    if rank != 1:
        return dist.all_reduce(torch.ones(8), async_op=True)
    return None


def order(rank, world):
    dist.all_reduce(torch.ones(8))
    if rank == 0:
        return dist.all_gather([torch.ones(8) for _ in range(world)], torch.ones(8), async_op=True)
    return dist.all_reduce(torch.ones(8), async_op=True)


def run(rank, world, folder, case):
    dist.init_process_group("gloo", init_method=f"file://{folder}/store", rank=rank, world_size=world)
    work = {"healthy": healthy, "missing": missing, "order": order}[case](rank, world)
    time.sleep(0.2)
    for name, bytes_ in (("pickle", _dump_fr_trace(True, True, False)), ("active", _dump_fr_trace(True, True, True)),
                         ("active_json", _dump_fr_trace_json(True, True)), ("json", _dump_fr_trace_json(True, False))):
        os.makedirs(f"{folder}/{name}", exist_ok=True)
        ending = ".json" if name.endswith("json") else ""
        with open(f"{folder}/{name}/nccl_trace_rank_{rank}{ending}", "wb") as file:
            file.write(bytes_)
    deadline = time.monotonic() + 60
    while len(os.listdir(f"{folder}/json")) < world and time.monotonic() < deadline:
        time.sleep(0.01)
    del work
    os._exit(0)  # what is not over never will be


def main():
    world, place, *cases = sys.argv[1:]
    ranks = []
    for case in cases:
        folder = os.path.join(place, case)
        os.makedirs(folder)
        for rank in range(int(world)):
            ranks.append(os.fork())
            if ranks[-1] == 0:
                run(rank, int(world), folder, case)
    sys.exit(any([os.waitpid(rank, 0)[1] for rank in ranks]))


if __name__ == "__main__":
    main()
