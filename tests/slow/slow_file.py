"""A file in a file system of its own, whose every read, write and sync takes as long as a test wants."""

import contextlib
import os
import subprocess

from harness import Process, Skipped, clean_environment, until

HERE = os.path.dirname(os.path.abspath(__file__))


@contextlib.contextmanager
def slow_file(sandbox, delay_us):
    """Yields the folder where it is mounted; the file is `data` in it."""
    flags = subprocess.run(["pkg-config", "--cflags", "--libs", "fuse3"], capture_output=True, text=True)
    if flags.returncode != 0 or not os.path.exists("/dev/fuse"):
        raise Skipped("no FUSE here (package libfuse3-dev, /dev/fuse)")
    folder = sandbox.fresh("slow_file")
    program, mount = os.path.join(folder, "slow_file"), os.path.join(folder, "mount")
    os.mkdir(mount)
    subprocess.run(["gcc", "-O1", os.path.join(HERE, "programs", "slow_file.c"), "-o", program, *flags.stdout.split()], check=True)
    server = Process([program, "-f", mount], {**clean_environment(), "SLOW_FILE_US": str(delay_us)})
    try:
        until(lambda: os.path.exists(mount + "/data") or server.popen.poll() is not None, "the file system is there")
        if server.popen.poll() is not None:
            raise Skipped("FUSE mounts nothing here")
        yield mount
    finally:
        subprocess.run(["fusermount3", "-u", "-z", mount], check=False)
        server.kill()
