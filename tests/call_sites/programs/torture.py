"""Calls from random places: torture.py LIBNCCL LIBNATIVE CALLS"""
import ctypes
import gc
import random
import sys
import threading

import glue
import link

native = ctypes.CDLL(sys.argv[2])
call = link.open_job(sys.argv[1])
pointers = call.pointers(1)
choose = random.Random(11)


def some():
    native.call_times(pointers, choose.randrange(1, 200))


def deep(depth):
    return deep(depth - 1) if depth > 0 else some()


def generator():
    for _ in range(3):
        yield some()


class Thing:
    def __del__(self):
        some()


def generated():
    lines = choose.randrange(30)
    name = choose.choice(("<string>", "made.py", "/x/site-packages/made.py"))
    exec(compile("\n" * lines + "some()", name, "exec"), {"some": some})


def dropped():
    exec(f"def f{choose.randrange(9)}(): some()\nf = list(globals().values())[-1]\nf()", {"some": some})


def threads():
    several = [threading.Thread(target=deep, args=(choose.randrange(40),)) for _ in range(3)]
    for thread in several:
        thread.start()
    native.call_in_thread(pointers)
    for thread in several:
        thread.join()


PLACES = [some, lambda: deep(choose.randrange(300)), lambda: list(generator()), Thing, generated, dropped,
          lambda: glue.below(choose.randrange(1, 30), some), threads, lambda: sorted([2, 1], key=lambda _: some() or 0),
          gc.collect]
native.calls.restype = ctypes.c_ulonglong
while native.calls() < int(sys.argv[3]):
    choose.choice(PLACES)()
print("done", flush=True)
