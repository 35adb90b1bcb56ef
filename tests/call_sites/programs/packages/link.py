"""A package: one rank on NCCL through ctypes. Its lines are no call sites of the program."""

import ctypes
import glob
import os
import time

FLOAT32, SUM = 7, 0


class UniqueId(ctypes.Structure):
    _fields_ = [("internal", ctypes.c_byte * 128)]


class Arguments(ctypes.Structure):
    _fields_ = [("function", ctypes.c_void_p), ("buffer", ctypes.c_void_p), ("count", ctypes.c_size_t),
                ("communicator", ctypes.c_void_p)]


class Call:
    def __init__(self, nccl, buffer, communicator):
        self.function = nccl.ncclAllReduce
        self.buffer, self.communicator = buffer, communicator
        self.alive = []

    def __call__(self, count):
        return self.function(self.buffer, self.buffer, ctypes.c_size_t(count), FLOAT32, SUM, self.communicator, None)

    def pointers(self, count):
        arguments = Arguments(ctypes.cast(self.function, ctypes.c_void_p), self.buffer, count, self.communicator)
        self.alive.append(arguments)
        return ctypes.byref(arguments)


def allocate(folder):
    buffer = ctypes.c_void_p()
    cuda = ctypes.CDLL(sorted(glob.glob(os.path.join(folder, "libcudart.so*")))[-1])
    assert cuda.cudaMalloc(ctypes.byref(buffer), ctypes.c_size_t(1 << 20)) == 0
    return buffer


def open_job(path, buffer=True):
    nccl = ctypes.CDLL(path)
    unique, communicator = UniqueId(), ctypes.c_void_p()
    assert nccl.ncclGetUniqueId(ctypes.byref(unique)) == 0
    assert nccl.ncclCommInitRank(ctypes.byref(communicator), 1, unique, 0) == 0
    return Call(nccl, allocate(os.path.dirname(path)) if buffer else None, communicator)


def stay():
    """Long enough for the library to name modules; until somebody kills it, if that is asked."""
    time.sleep(0.2)
    while os.environ.get("SITES_STAY"):
        time.sleep(0.05)
