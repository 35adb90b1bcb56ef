#!/usr/bin/env python3
"""A file system with one file, `data`, whose reads are never answered, as of a storage server that has gone silent.

    silent_fuse.py FOLDER command...

Mounts it there in a mount namespace of its own and becomes the command; the server goes when the command does. Status 77:
it cannot be made here. Speaks the kernel's protocol itself, so that nothing has to be installed.
"""

import ctypes
import os
import signal
import stat
import struct
import sys

CLONE_NEWNS, MS_PRIVATE, MS_REC, PR_SET_PDEATHSIG = 0x20000, 1 << 18, 1 << 14, 1
LOOKUP, FORGET, GETATTR, OPEN, READ, RELEASE, FLUSH, INIT, INTERRUPT, BATCH_FORGET = 1, 2, 3, 14, 15, 18, 25, 26, 36, 42
ASYNC_READ = 1  # whole pages are asked for ahead, and who reads sleeps on the page: uninterruptible
ROOT, FILE, BYTES = 1, 2, 1 << 20
libc = ctypes.CDLL(None, use_errno=True)


def check(result, what):
    if result < 0:
        print(f"{what}: {os.strerror(ctypes.get_errno())}")
        sys.exit(77)


def attributes(node):
    mode, links = (stat.S_IFDIR | 0o755, 2) if node == ROOT else (stat.S_IFREG | 0o444, 1)
    return struct.pack("<6Q10I", node, BYTES, BYTES // 512, 0, 0, 0, 0, 0, 0, mode, links, 0, 0, 0, 4096, 0)


def answer(opcode, node, body):
    """(error, payload), or None: no answer."""
    if opcode == INIT:
        major, minor = struct.unpack_from("<II", body)
        return 0, struct.pack("<IIIIHHIIHHI7I", major, min(minor, 31), 1 << 17, ASYNC_READ, 0, 0, 4096, 1, 0, 0, 0, *[0] * 7)
    if opcode == LOOKUP:
        if body.rstrip(b"\0") != b"data":
            return -2, b""  # ENOENT
        return 0, struct.pack("<4QII", FILE, 0, 3600, 3600, 0, 0) + attributes(FILE)
    if opcode == GETATTR:
        return 0, struct.pack("<QII", 3600, 0, 0) + attributes(node)
    if opcode == OPEN:
        return 0, struct.pack("<QII", 0, 0, 0)
    if opcode in (RELEASE, FLUSH):
        return 0, b""
    if opcode in (READ, FORGET, BATCH_FORGET, INTERRUPT):
        return None
    return -38, b""  # ENOSYS


def serve(device):
    while True:
        try:
            request = os.read(device, 1 << 18)
        except OSError:  # unmounted
            return
        _, opcode, unique, node = struct.unpack_from("<IIQQ", request)
        reply = answer(opcode, node, request[40:])
        if reply:
            os.write(device, struct.pack("<IiQ", 16 + len(reply[1]), reply[0], unique) + reply[1])


def main():
    folder = sys.argv[1]
    check(libc.unshare(CLONE_NEWNS), "no mount namespace")
    check(libc.mount(None, b"/", None, MS_REC | MS_PRIVATE, None), "no private mounts")
    try:
        device = os.open("/dev/fuse", os.O_RDWR | os.O_CLOEXEC)
    except OSError as error:
        print(f"no /dev/fuse: {error}")
        sys.exit(77)
    options = f"fd={device},rootmode=40755,user_id=0,group_id=0".encode()
    check(libc.mount(b"silent", folder.encode(), b"fuse", 0, options), "no mount")
    parent = os.getpid()
    if os.fork() == 0:
        libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() == parent:
            serve(device)
        os._exit(0)
    os.close(device)
    os.execvp(sys.argv[2], sys.argv[2:])


if __name__ == "__main__":
    main()
