"""A Python process at work, as large as wanted: threads that call, generate, sort, compile, start and end further
threads, hash without the lock. Answers on stdout to lines on stdin: "mark" (what was since the last one), "end".

    busy.py GIB LIBRARY [NCCL]    the library is that of stall_clock.c; with a libnccl it is a job of one rank

made_N is defined on line N + 1 of <made> and calls leaf on the next: whoever reads its stack can tell whether function,
file and line belong together. It is called by call_made alone."""
import ctypes
import gc
import hashlib
import json
import os
import sys
import threading
import time

TURNS = [0]
STRANGERS = []


class Clock(ctypes.Structure):
    _fields_ = [("stop", ctypes.c_int), ("reset", ctypes.c_int), ("turns", ctypes.c_long), ("longest_us", ctypes.c_long),
                ("over_20_ms", ctypes.c_long), ("real_time", ctypes.c_int)]


def leaf(n):
    return sum(i * i for i in range(n % 50))


def call_made(n):
    space = {"leaf": leaf}
    exec(compile("\n" * n + f"def made_{n}(n):\n  return leaf(n)\n", "<made>", "exec"), space)
    return space[f"made_{n}"](n)


def makes_code():
    n = 0
    while True:
        n += 1
        call_made(n % 200)
        TURNS[0] += 1


def even(n):
    return leaf(3) if n == 0 else odd(n - 1)


def odd(n):
    return leaf(4) if n == 0 else even(n - 1)


def recurses():
    n = 0
    while True:
        n = (n + 1) % 90
        even(n)


def numbers(n):
    if n > 0:
        yield n
        yield from numbers(n - 1)


def generates():
    while True:
        sorted(numbers(30), key=lambda n: leaf(n))


def collects():
    while True:
        cycle = []
        cycle.append({i: [cycle, str(i)] for i in range(2000)})
        gc.collect()


def short():
    time.sleep(0.001)


def starts_threads():
    while True:
        threads = [threading.Thread(target=short) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()


def hashes():
    data = bytes(1 << 20)
    while True:
        hashlib.sha256(data).digest()


def waits_for_children():
    """Nobody may be there to be waited for: this process starts none."""
    while True:
        try:
            STRANGERS.append(os.waitpid(-1, os.WNOHANG))
        except ChildProcessError:
            pass
        time.sleep(0.001)


class UniqueId(ctypes.Structure):
    _fields_ = [("internal", ctypes.c_byte * 128)]


def joins_a_job(path):
    nccl, unique, communicator = ctypes.CDLL(path), UniqueId(), ctypes.c_void_p()
    if nccl.ncclGetUniqueId(ctypes.byref(unique)) or nccl.ncclCommInitRank(ctypes.byref(communicator), 1, unique, 0):
        raise RuntimeError(f"no communicator by {path}")


def main():
    memory = bytearray(int(float(sys.argv[1]) * (1 << 30)))
    memory[::4096] = b"\1" * len(memory[::4096])
    if len(sys.argv) > 3:
        joins_a_job(sys.argv[3])
    clock = Clock()
    stall_clock = ctypes.CDLL(sys.argv[2]).stall_clock
    for target in (makes_code, makes_code, recurses, generates, collects, starts_threads, hashes, waits_for_children):
        threading.Thread(target=target, daemon=True).start()
    threading.Thread(target=stall_clock, args=(ctypes.byref(clock),)).start()
    print(json.dumps({"pid": os.getpid()}), flush=True)
    began = time.monotonic()
    for line in sys.stdin:
        if line.strip() == "end":
            break
        seconds, began = time.monotonic() - began, time.monotonic()
        print(json.dumps({"seconds": seconds, "turns_a_second": TURNS[0] / seconds, "clock_turns": clock.turns,
                          "longest_ms": clock.longest_us / 1000, "over_20_ms": clock.over_20_ms,
                          "real_time": bool(clock.real_time), "strangers": len(STRANGERS)}), flush=True)
        TURNS[0] = 0
        clock.reset = 1
    clock.stop = 1


main()
