"""One rank through ctypes that says secrets wherever a program can: arguments, variables, an event, an exception.
Usage: planted.py LIBNCCL SECRET HOST ..."""

import ctypes
import json
import sys


class UniqueId(ctypes.Structure):
    _fields_ = [("internal", ctypes.c_byte * 128)]


def main():
    nccl, secret, host = ctypes.CDLL(sys.argv[1]), sys.argv[2], sys.argv[3]
    unique, communicator = UniqueId(), ctypes.c_void_p()
    assert nccl.ncclGetUniqueId(ctypes.byref(unique)) == 0
    nccl.ncclCommInitRank.argtypes = [ctypes.c_void_p, ctypes.c_int, UniqueId, ctypes.c_int]
    assert nccl.ncclCommInitRank(ctypes.byref(communicator), 1, unique, 0) == 0
    details = {"password": "hunter2x", "url": f"https://me:hunter2x@{host}/a?sig=hunter2x", "text": f"token {secret}", "bytes": 17}
    ctypes.CDLL(None).ncclwatch_add_event(b"checkpoint", json.dumps(details).encode())
    raise RuntimeError(f"cannot reach https://me:hunter2x@{host}:29500 with {secret} (password='hunter2x')")


if __name__ == "__main__":
    main()
