"""All-reduces of several sizes on two ranks of one GPU, each timed by a pair of CUDA events. Rank 0 writes the means as
JSON.   all_reduces.py ROUNDS OUTPUT"""

import json
import os
import sys
import time

import torch
import torch.distributed as dist

ROUNDS, OUTPUT = int(sys.argv[1]), sys.argv[2]
SIZES = [1 << 10, 1 << 20, 8 << 20]

torch.cuda.set_device(0)
dist.init_process_group("nccl", device_id=torch.device("cuda:0"))
stream = torch.cuda.Stream()
times, calls = {}, []
with torch.cuda.stream(stream):
    for size in SIZES:
        data = torch.ones(size // 4, device="cuda")
        for _ in range(5):
            dist.all_reduce(data)
        torch.cuda.synchronize()
        pairs = []
        for _ in range(ROUNDS):
            dist.barrier()
            pair = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
            began = time.perf_counter_ns()
            work = dist.all_reduce(data, async_op=True)
            calls.append(time.perf_counter_ns() - began)
            work.wait()
            torch.cuda.synchronize()
        # torch runs NCCL on a stream of its own: the events stand around many calls there and back.
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        begin.record()
        for _ in range(ROUNDS):
            dist.all_reduce(data)
        end.record()
        torch.cuda.synchronize()
        times[size] = begin.elapsed_time(end) / ROUNDS / 1e3
if dist.get_rank() == 0:
    calls.sort()
    with open(OUTPUT, "w") as file:
        json.dump({"seconds": times, "call_ns": calls[len(calls) // 2]}, file)
dist.destroy_process_group()
