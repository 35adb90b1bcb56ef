"""One rank of a small job through ctypes, as vLLM, SGLang and JAX reach NCCL. Usage: ctypes_rank.py LIBNCCL"""

import ctypes
import os
import sys
import time

COUNTS = (201, 202, 203)
FLOAT32, SUM = 7, 0


class UniqueId(ctypes.Structure):
    _fields_ = [("internal", ctypes.c_byte * 128)]


def load(*names):
    for name in names:
        try:
            return ctypes.CDLL(name)
        except OSError as error:
            last = error
    raise last


def join(call, rank, ranks):
    """The communicator of all ranks, whose id rank 0 leaves in HOST_ID_DIR. call: NAME, ARGUMENTS... of NCCL."""
    path = os.path.join(os.environ["HOST_ID_DIR"], "world")
    unique = UniqueId()
    if rank == 0:
        call("ncclGetUniqueId", ctypes.byref(unique))
        with open(path + ".new", "wb") as file:
            file.write(bytes(unique))
        os.rename(path + ".new", path)
    while not os.path.exists(path):
        time.sleep(0.002)
    with open(path, "rb") as file:
        unique = UniqueId.from_buffer_copy(file.read())
    communicator = ctypes.c_void_p()
    call("ncclCommInitRank", ctypes.byref(communicator), ctypes.c_int(ranks), unique, ctypes.c_int(rank))
    return communicator


def main():
    rank, ranks = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    nccl = ctypes.CDLL(sys.argv[1])
    cuda = load("libcudart.so.13", "libcudart.so.12", "libcudart.so")

    def call(name, *arguments):
        function = getattr(nccl, name)
        function.restype = ctypes.c_int
        result = function(*arguments)
        if result:
            nccl.ncclGetErrorString.restype = ctypes.c_char_p
            sys.exit(f"{name}: {result}")

    version = ctypes.c_int()
    call("ncclGetVersion", ctypes.byref(version))
    communicator = join(call, rank, ranks)
    for count in COUNTS:
        host = (ctypes.c_float * count)(*([rank + 1.0] * count))
        device = ctypes.c_void_p()
        size = ctypes.c_size_t(ctypes.sizeof(host))
        assert cuda.cudaMalloc(ctypes.byref(device), size) == 0
        assert cuda.cudaMemcpy(device, host, size, 1) == 0
        call("ncclAllReduce", device, device, ctypes.c_size_t(count), FLOAT32, SUM, communicator, None)
        assert cuda.cudaDeviceSynchronize() == 0
        assert cuda.cudaMemcpy(host, device, size, 2) == 0
        assert list(host) == [ranks * (ranks + 1) / 2.0] * count, list(host)[:4]
    try:
        getattr(nccl, "ncclNoSuchFunction")
        sys.exit("ncclNoSuchFunction was found")
    except AttributeError:
        pass
    call("ncclCommDestroy", communicator)
    print("done")


if __name__ == "__main__":
    main()
