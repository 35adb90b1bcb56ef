#!/usr/bin/env python3
"""What ncclwatch.torch costs in each step of an optimizer, in processor time.

    LD_PRELOAD=build/release/lib/libncclwatch.so build/venv/bin/python tests/bench/watch_cost.py
"""

import os
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "python"))

import torch
from torch.optim.optimizer import _global_optimizer_post_hooks

import ncclwatch.annotate
import ncclwatch.torch

if not ncclwatch.annotate.watched():
    sys.exit("preload libncclwatch.so")
STEPS = 20000
model = torch.nn.Sequential(*(torch.nn.Linear(8, 8) for _ in range(50)))
ncclwatch.torch.watch(model)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
optimizer.step()
(hook,) = _global_optimizer_post_hooks.values()
for _ in range(3):
    began = time.process_time()
    for _ in range(STEPS):
        hook(optimizer, (), {})
    print(f"{(time.process_time() - began) / STEPS * 1e6:.2f} us a step")
