"""Names a communicator of the libnccl whose path is given, from Python."""

import ctypes
import sys

import ncclwatch

nccl = ctypes.CDLL(sys.argv[1])


class UniqueId(ctypes.Structure):
    _fields_ = [("internal", ctypes.c_char * 128)]


unique, communicator = UniqueId(), ctypes.c_void_p()
assert nccl.ncclGetUniqueId(ctypes.byref(unique)) == 0
assert nccl.ncclCommInitRank(ctypes.byref(communicator), 1, unique, 0) == 0
ncclwatch.label(communicator.value, "expert parallel")
assert nccl.ncclCommDestroy(communicator) == 0
