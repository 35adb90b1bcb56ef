"""One rank of a short loop through ctypes; rank 1 raises before its step STEP: failing_rank.py LIBNCCL STEP"""

import ctypes
import os
import sys
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

from ctypes_rank import UniqueId, load  # noqa: E402


def main():
    rank, ranks = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    nccl, cuda = ctypes.CDLL(sys.argv[1]), load("libcudart.so.13", "libcudart.so.12", "libcudart.so")
    path = os.path.join(os.environ["HOST_ID_DIR"], f"world.{os.environ['MASTER_PORT']}")
    unique = UniqueId()
    if rank == 0:
        assert nccl.ncclGetUniqueId(ctypes.byref(unique)) == 0
        with open(path + ".new", "wb") as file:
            file.write(bytes(unique))
        os.rename(path + ".new", path)
    while not os.path.exists(path):
        time.sleep(0.001)
    with open(path, "rb") as file:
        unique = UniqueId.from_buffer_copy(file.read())
    communicator, device = ctypes.c_void_p(), ctypes.c_void_p()
    assert nccl.ncclCommInitRank(ctypes.byref(communicator), ctypes.c_int(ranks), unique, ctypes.c_int(rank)) == 0
    assert cuda.cudaMalloc(ctypes.byref(device), ctypes.c_size_t(4096)) == 0
    for step in range(10000):
        if rank == 1 and step == int(sys.argv[2]):
            raise ValueError("batch is empty")
        assert nccl.ncclAllReduce(device, device, ctypes.c_size_t(100), 7, 0, communicator, None) == 0
        assert cuda.cudaDeviceSynchronize() == 0


main()
