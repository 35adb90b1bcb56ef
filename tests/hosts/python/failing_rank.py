"""One rank of a short loop through ctypes; rank 1 raises before its step STEP: failing_rank.py LIBNCCL STEP"""

import ctypes
import os
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

from ctypes_rank import FLOAT32, SUM, join, load  # noqa: E402


def main():
    rank, ranks = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    nccl, cuda = ctypes.CDLL(sys.argv[1]), load("libcudart.so.13", "libcudart.so.12", "libcudart.so")

    def call(name, *arguments):
        assert getattr(nccl, name)(*arguments) == 0, name

    communicator, device = join(call, rank, ranks), ctypes.c_void_p()
    assert cuda.cudaMalloc(ctypes.byref(device), ctypes.c_size_t(4096)) == 0
    for step in range(10000):
        if rank == 1 and step == int(sys.argv[2]):
            raise ValueError("batch is empty")
        call("ncclAllReduce", device, device, ctypes.c_size_t(100), FLOAT32, SUM, communicator, None)
        assert cuda.cudaDeviceSynchronize() == 0


main()
