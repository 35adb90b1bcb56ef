"""Threads that call all the time are left behind at the end: daemons.py LIBNCCL LIBNATIVE"""
import ctypes
import sys
import threading
import time

import link

native = ctypes.CDLL(sys.argv[2])
call = link.open_job(sys.argv[1])


def deep(depth):
    """Deep enough for frames beyond the first piece of the thread's stack."""
    if depth > 0:
        return deep(depth - 1)
    return native.call_for_ever(call.pointers(7))


for depth in (0, 50, 400):
    threading.Thread(target=deep, args=(depth,), daemon=True).start()
time.sleep(0.05)
print("done", flush=True)
