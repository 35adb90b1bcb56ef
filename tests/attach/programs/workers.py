"""Workers as inference servers start them: a main process, its engine, and the engine's children, which get their ranks as
arguments and say them in their titles. `actors`: as Ray's, with titles that say no rank, and RANK set while they run.

One worker (rank 1) stands elsewhere than the others, which wait for it."""

import ctypes
import multiprocessing
import os
import sys
import time

HOW, PORT, COUNT = sys.argv[1], sys.argv[2], 4


def rename(title):
    """What setproctitle does: the text of the command line is overwritten where it lies, and prctl."""
    ctypes.CDLL(None).prctl(15, title.split("::")[-1][:15].encode(), 0, 0, 0)
    with open("/proc/self/stat") as file:
        begin, end = map(int, file.read().rpartition(")")[2].split()[45:47])
    ctypes.memset(begin, 0, end - begin)
    ctypes.memmove(begin, title.encode(), min(len(title), end - begin - 1))


def execute_model(rank):
    import torch
    import torch.distributed as dist

    dist.init_process_group("gloo", init_method=f"tcp://127.0.0.1:{PORT}", rank=rank, world_size=COUNT)
    for step in range(1 << 30):
        if step == 7 and rank == 1:
            time.sleep(1000)  # ELSEWHERE
        dist.all_reduce(torch.ones(4))


def worker(rank):
    rename(f"VLLM::Worker_TP{rank}" if HOW == "titles" else "ray::RayWorkerWrapper.execute_method")
    if HOW == "actors":
        os.environ["RANK"] = str(rank)
    execute_model(rank)


def engine():
    rename("VLLM::EngineCore" if HOW == "titles" else "ray::raylet")
    context = multiprocessing.get_context("spawn")
    # The last one first: age says nothing of ranks.
    children = [context.Process(target=worker, args=(rank,)) for rank in reversed(range(COUNT))]
    for child in children:
        child.start()
    for child in children:
        child.join()


if __name__ == "__main__":
    main = multiprocessing.get_context("spawn").Process(target=engine)
    main.start()
    print(main.pid, flush=True)
    main.join()
