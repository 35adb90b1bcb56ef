"""Calls every function that a libnccl exports, by dlsym on its handle. Usage: every_call.py LIBNCCL NAME..."""

import ctypes
import os
import signal
import sys

POINTER_RESULT = ("GetErrorString", "GetLastError")


def call(library, name):
    """Prints what the function returns for zeroes; the caller is a process of its own."""
    signal.alarm(30)
    try:
        function = getattr(library, name)
    except AttributeError:
        print(name, "missing")
        return
    if name.endswith(POINTER_RESULT):
        function.restype = ctypes.c_char_p
    arguments = [ctypes.c_void_p(0)] * 12
    if name.endswith(("CommInitRank", "CommInitRankConfig")):  # the id is passed by value
        class UniqueId(ctypes.Structure):
            _fields_ = [("internal", ctypes.c_byte * 128)]
        arguments = [ctypes.c_void_p(0), 0, UniqueId(), 0, ctypes.c_void_p(0)]
    result = function(*arguments)
    print(name, "void" if name.endswith("ResetDebugInit") else result)


def main():
    library = ctypes.CDLL(sys.argv[1])
    for name in sys.argv[2:]:
        sys.stdout.flush()
        child = os.fork()
        if child == 0:
            call(library, name)
            sys.stdout.flush()
            os._exit(0)
        _, status = os.waitpid(child, 0)
        if os.WIFSIGNALED(status):
            print(name, "ended by signal", os.WTERMSIG(status))
    version = ctypes.c_int()
    print("version", library.ncclGetVersion(ctypes.byref(version)), version.value)
    print("no such function", hasattr(library, "ncclNoSuchFunction"))


main()
