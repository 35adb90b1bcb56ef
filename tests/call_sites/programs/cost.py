"""What a call costs, in nanoseconds: cost.py LIBNCCL LIBNATIVE. From a line of the program; with eight frames of a
package in between; in a thread without Python."""
import ctypes
import sys

import glue
import link

ROUNDS, CALLS = 100, 20000

native = ctypes.CDLL(sys.argv[2])
native.best_ns.restype = native.best_ns_in_thread.restype = ctypes.c_double
pointers = link.open_job(sys.argv[1], buffer=False).pointers(1024)


def best():
    return native.best_ns(pointers, ROUNDS, CALLS)


print(best(), glue.below(8, native.best_ns, pointers, ROUNDS, CALLS), native.best_ns_in_thread(pointers))
