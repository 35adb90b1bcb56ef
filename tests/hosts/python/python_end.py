"""One rank of a Python program that ends in some way: python_end.py MODE."""

import atexit
import ctypes
import os
import sys
import threading


class UniqueId(ctypes.Structure):
    _fields_ = [("internal", ctypes.c_byte * 128)]


class Unprintable(Exception):
    def __str__(self):
        raise TypeError("no text for this")


def begin():
    nccl = ctypes.CDLL(os.environ.get("HOST_NCCL", "libnccl.so.2"))
    unique, communicator = UniqueId(), ctypes.c_void_p()
    assert nccl.ncclGetUniqueId(ctypes.byref(unique)) == 0
    assert nccl.ncclCommInitRank(ctypes.byref(communicator), 1, unique, 0) == 0
    return nccl


def step(mode):
    batch = {"value": "batch of this rank is empty", "long": "y" * 3000, "unicode": "Größe \u2603 \udc80"}
    if mode in batch:
        raise ValueError(batch[mode])
    if mode == "unprintable":
        raise Unprintable()
    if mode == "chained":
        try:
            {}["key"]
        except KeyError as error:
            raise RuntimeError("while looking") from error
    if mode == "memory":
        raise MemoryError("no room")
    if mode == "interrupt":
        raise KeyboardInterrupt
    if mode == "library":
        import json
        json.loads("{")
    if mode == "deep":
        step(mode)


def main():
    mode = sys.argv[1]
    begin()
    if mode == "exit1":
        sys.exit(1)
    if mode == "exittext":
        sys.exit("a text for the end")
    if mode == "os_exit":
        os._exit(3)
    if mode == "caught":
        try:
            step("value")
        except ValueError:
            sys.exit(5)
    if mode == "thread":
        thread = threading.Thread(target=step, args=("value",))
        thread.start()
        thread.join()
    if mode == "atexit":
        atexit.register(step, "value")
    if mode == "segv":
        ctypes.string_at(0)
    if mode in ("faulthandler", "faulthandler-late"):
        import faulthandler
        faulthandler.enable()
        ctypes.string_at(8)
    if mode == "fork":
        child = os.fork()
        if child == 0:
            step("value")
        print("child", os.waitpid(child, 0)[1], flush=True)
        return
    if mode == "hook":
        sys.excepthook = lambda *ignored: print("my own hook", flush=True)
        step("value")
    if mode == "multiprocessing":
        import multiprocessing
        worker = multiprocessing.get_context("fork").Process(target=step, args=("value",))
        worker.start()
        worker.join()
        print("worker", worker.exitcode, flush=True)
        return
    step(mode)
    print("end of main", flush=True)


if __name__ == "__main__":
    if sys.argv[1] == "faulthandler":
        import faulthandler
        faulthandler.enable()
    main()
