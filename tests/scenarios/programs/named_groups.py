"""Process groups with and without names, each of which reduces a number of elements of its own.

Writes to $GROUPS_FILE.RANK, for each of its groups: elements, the name that the program gave it, and its members. Ends
when there is $GROUPS_FILE.end.
"""

import itertools
import json
import os
import sys
import time
import types

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), *[".."] * 3, "examples", "torch", "common"))

import ctypes_nccl
import torch
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh

from training import note_fault


class LateNccl(ctypes_nccl.CtypesNccl):
    """Makes its communicator in the first call, as torch's own backend does."""

    def _connect(self, store):
        self._store = store

    def _begin(self):
        super()._begin()
        if self._store:
            super()._connect(self._store)
            self._store = None


dist.Backend.register_backend(
    "late_nccl", lambda store, rank, size, timeout: LateNccl(store, rank, size), devices=["cpu"])
dist.init_process_group(os.environ.get("GROUPS_BACKEND", "ctypes_nccl"))
rank = dist.get_rank()
groups = []  # (group, elements, name)
numbers = itertools.count(1000, 10)


def add(group, name):
    number = next(numbers)
    if dist.get_rank(group) >= 0:
        groups.append((group, number + min(dist.get_process_group_ranks(group)), name))


add(dist.group.WORLD, "default_pg")
# Only its members make it: the groups of ranks 0 and 1 are not made in the order of those of 2 and 3.
side = [0, 1] if rank < 2 else [2, 3]
add(dist.new_group(side, use_local_synchronization=True, group_desc=f"side {side[0]}"), f"side {side[0]}")
add(dist.new_group([0, 1], group_desc="pair"), "pair")
add(dist.new_group([0, 1], group_desc="twin"), "twin")
add(dist.new_group([0, 1, 2]), "")
add(dist.new_group([1, 2, 3], group_desc="a description that is longer than a label's room"),
    "a description that is longer than a label's roo")
mesh = init_device_mesh("cpu", (2, 2), mesh_dim_names=("dp", "tp"))
for dimension in ("tp", "dp"):
    add(mesh.get_group(dimension), dimension)


def module(name, **variables):
    """Where the real package of this name keeps its groups."""
    sys.modules[name] = types.ModuleType(name)
    vars(sys.modules[name]).update(variables)


ends, middle = dist.new_group([0, 3]), dist.new_group([1, 2])
module("megatron.core.parallel_state", _CONTEXT_PARALLEL_GROUP=ends, _CONTEXT_PARALLEL_GLOBAL_RANKS=[0, 3])
module("deepspeed.utils.groups", _WORLD_GROUP=None, _EXPERT_PARALLEL_GROUP={"ep_size_2": middle})
add(ends, "CONTEXT_PARALLEL_GROUP")
add(middle, "EXPERT_PARALLEL_GROUP[ep_size_2]")

with open(f"{os.environ['GROUPS_FILE']}.{rank}", "w") as file:
    json.dump([(elements, name, dist.get_process_group_ranks(group)) for group, elements, name in groups], file)
order = sorted(groups, key=lambda one: one[2] != "twin")  # the later one of two with the same members is used first
step = 0
more = torch.ones(1)
while more.item():
    for group, elements, name in order:
        if name == "tp" and rank == 3 and step == int(os.environ.get("GROUPS_SKIP", "-1")):
            note_fault(rank)
            time.sleep(600)
        dist.all_reduce(torch.ones(elements), group=group)
    more = torch.tensor([0.0 if os.path.exists(os.environ["GROUPS_FILE"] + ".end") else 1.0])
    dist.broadcast(more, src=0)
    step += 1
    time.sleep(0.05)
dist.barrier()
dist.destroy_process_group()
