"""A Python rank over libnccl by ctypes, without torch. The one whose number stands in $EXAMPLES_CULPRIT_FILE comes to grief
as $SCENARIO_END says."""

import ctypes
import os
import sys
import time

FLOAT32, SUM = 7, 0
COUNT = 256


class UniqueId(ctypes.Structure):
    _fields_ = [("internal", ctypes.c_byte * 128)]


class OutOfMemoryError(RuntimeError):
    """As torch's own."""


nccl = ctypes.CDLL("libnccl.so.2")
cuda = next(ctypes.CDLL(os.path.join(folder, name)) for folder in os.environ["LD_LIBRARY_PATH"].split(":")
            for name in sorted(os.listdir(folder)) if name.startswith("libcudart.so"))
rank = int(os.environ["RANK"])


def check(result):
    if result:
        sys.exit(f"result {result}")


def share():
    path = os.path.join(os.environ["TEST_SCENARIO"], "id")
    unique = UniqueId()
    if rank == 0:
        check(nccl.ncclGetUniqueId(ctypes.byref(unique)))
        with open(path + ".new", "wb") as file:
            file.write(bytes(unique))
        os.rename(path + ".new", path)
    while not os.path.exists(path):
        time.sleep(0.002)
    with open(path, "rb") as file:
        return UniqueId.from_buffer_copy(file.read())


def allocate(size):
    memory = ctypes.c_void_p()
    if cuda.cudaMalloc(ctypes.byref(memory), ctypes.c_size_t(size)):
        raise OutOfMemoryError(f"CUDA out of memory. Tried to allocate {size >> 20} MiB.")
    return memory


def named():
    try:
        with open(os.environ["EXAMPLES_CULPRIT_FILE"]) as file:
            return int(file.read()) == rank
    except FileNotFoundError:
        return False


def load_batch():
    how = os.environ["SCENARIO_END"]
    with open(os.environ["EXAMPLES_FAULT_FILE"], "a") as file:
        file.write(f"{time.time_ns()} {rank} {os.getpid()}\n")
    if how == "exit":
        sys.exit(1)
    if how == "os_exit":
        os._exit(3)
    if how == "memory":
        allocate(96 << 20)
    raise ValueError("this rank's batch is damaged")  # THE LINE


def main():
    communicator = ctypes.c_void_p()
    check(nccl.ncclCommInitRank(ctypes.byref(communicator), ctypes.c_int(int(os.environ["WORLD_SIZE"])), share(),
                                ctypes.c_int(rank)))
    gradient = allocate(COUNT * 4)
    for step in range(1_000_000):
        if named():
            load_batch()
        check(nccl.ncclAllReduce(gradient, gradient, ctypes.c_size_t(COUNT), FLOAT32, SUM, communicator, None))
        check(cuda.cudaDeviceSynchronize())
        if rank == 0 and step % 10 == 0:
            print("step", step, file=sys.stderr)
        time.sleep(0.005)


if __name__ == "__main__":
    main()
