"""The ways in: dlopen(RTLD_LOCAL), dlsym on a handle, ctypes, drop-in, two copies, chains of preloads."""

import os
import shutil
import sys

from common import both, check_recorded, counts, program
from harness import case, check, check_equal

HERE = os.path.dirname(os.path.abspath(__file__))
CTYPES = os.path.join(HERE, "python", "ctypes_rank.py")


def share_cuda(sandbox, place):
    """softgpu's libnccl opens the libcuda beside itself: the same one, by links."""
    for name in os.listdir(sandbox.build.softgpu):
        if name.startswith("libcuda"):
            os.symlink(os.path.join(sandbox.build.softgpu, name), os.path.join(place, name))


@case
def dlopen_local(sandbox):
    check_recorded(both(sandbox, [program(sandbox, "loading"), "local", "libnccl.so.2"], 0), [31, 32])


@case
def dlclose_and_again(sandbox):
    check_recorded(both(sandbox, [program(sandbox, "loading"), "reload", "libnccl.so.2"], 0), [31, 32, 33])


@case
def unloaded_and_replaced(sandbox):
    """A libnccl that really goes away, another build in its place, functions that neither has."""
    libraries = [sandbox.build.program("hosts", f"{version}/libnccl.so.2") for version in (21003, 21807)]
    sandbox.build.need(*libraries)
    plain = sandbox.job([program(sandbox, "unload")] + libraries, preload=False)
    check_equal(plain.errors(), ["unloaded\n" * 6], "what becomes of the libraries without ours")
    job = both(sandbox, [program(sandbox, "unload")] + libraries, 0)
    check_recorded(job, [1] * 6)


@case
def global_scope(sandbox):
    """dlsym(RTLD_DEFAULT) shows NCCL only where it would without the library."""
    job = both(sandbox, [program(sandbox, "loading"), "scope", "libnccl.so.2"], 0)
    check("local: missing" in job.outputs()[0] and "global: there" in job.outputs()[0], f"what was seen: {job.done}")
    check_recorded(job, [71])


@case
def two_copies(sandbox):
    """Two libnccl in one process: every call goes to the copy that made the communicator."""
    place = sandbox.fresh("copy")
    copy = os.path.join(place, "libnccl.so.2")
    shutil.copy(sandbox.build.nccl, copy)
    share_cuda(sandbox, place)
    job = both(sandbox, [program(sandbox, "loading"), "two", sandbox.build.nccl, copy], 0)
    check_recorded(job, [41, 51, 42, 52, 43, 53, 44, 54, 61])


def plugins(sandbox, *numbers):
    paths = [sandbox.build.program("hosts", f"libplugin{n}.so") for n in numbers]
    sandbox.build.need(*paths)
    return [program(sandbox, "plugins")] + paths


@case
def modules_with_their_own_copies(sandbox):
    """Modules opened with RTLD_LOCAL, each linked to a libnccl of its own: each keeps reaching that one."""
    job = both(sandbox, plugins(sandbox, 1, 2), 0)
    check("plugin 1 reaches 22001" in job.outputs()[0], f"what was reached: {job.done}")
    check("plugin 2 reaches 22002" in job.outputs()[0], f"what was reached: {job.done}")
    check_recorded(job, [1, 2, 11, 12])


@case
def more_copies_than_watched(sandbox):
    """What finds no room is passed on to the library that it is for, and one line says so."""
    job = both(sandbox, plugins(sandbox, 1, 2, 3, 4, 5), 0, quiet=False)
    words = [line for line in job.errors()[0].splitlines() if "ncclwatch" in line and "watching 1/1" not in line]
    check_equal(len(words), 1, f"lines on stderr: {words}")
    check("more than" in words[0] and "nccl-own" in words[0], words[0])
    found = sorted(counts(job).popitem()[1])
    check_equal(found, [1, 2, 3, 11, 12, 13], "counts recorded")


@case
def ctypes_dlsym(sandbox):
    sandbox.build.need(sandbox.build.library)
    job = both(sandbox, [sys.executable, CTYPES, "libnccl.so.2"], 0, ranks=2)
    check_recorded(job, [201, 202, 203])


@case
def drop_in(sandbox):
    """The library as the libnccl of a ctypes program, nothing preloaded but what a sanitizer needs."""
    sandbox.build.need(sandbox.build.library)
    extra = {"NCCLWATCH_NCCL": sandbox.build.nccl}
    job = sandbox.job([sys.executable, CTYPES, sandbox.build.library], ranks=2, preload=False, extra=extra)
    check_equal(job.statuses(), [0, 0], f"exit status ({job.done})")
    check_recorded(job, [201, 202, 203])


@case
def drop_in_usual_search(sandbox):
    """Without NCCLWATCH_NCCL the real library is found by the loader's own search."""
    sandbox.build.need(sandbox.build.library)
    job = sandbox.job([sys.executable, CTYPES, sandbox.build.library], ranks=2, preload=False)
    check_equal(job.statuses(), [0, 0], f"exit status ({job.done})")
    check_recorded(job, [201, 202, 203])


@case
def drop_in_under_preload(sandbox):
    """Preloaded and drop-in at once: one library, each call recorded once."""
    sandbox.build.need(sandbox.build.library)
    job = sandbox.job([sys.executable, CTYPES, sandbox.build.library], ranks=2,
                      extra={"NCCLWATCH_NCCL": sandbox.build.nccl})
    check_equal(job.statuses(), [0, 0], f"exit status ({job.done})")
    check_recorded(job, [201, 202, 203])


@case
def drop_in_copy_under_preload(sandbox):
    """As above, but the drop-in is another copy of the library: one of the two records, the other passes on."""
    sandbox.build.need(sandbox.build.library)
    place = sandbox.fresh("drop-in")
    copy = shutil.copy(sandbox.build.library, place)
    shutil.copy(sandbox.build.library.replace(".so", "-core.so"), place)
    job = sandbox.job([sys.executable, CTYPES, copy], ranks=2, extra={"NCCLWATCH_NCCL": sandbox.build.nccl})
    check_equal(job.statuses(), [0, 0], f"exit status ({job.done})")
    check_equal(len(job.boxes()), 2, f"black boxes ({job.done})")
    check_recorded(job, [201, 202, 203])


@case
def drop_in_without_its_core(sandbox):
    """Only one of the two files was copied: the calls work, unwatched, and one line says so."""
    sandbox.build.need(sandbox.build.library)
    copy = shutil.copy(sandbox.build.library, sandbox.fresh("alone"))
    job = sandbox.job([sys.executable, CTYPES, copy], ranks=2, preload=False,
                      extra={"NCCLWATCH_NCCL": sandbox.build.nccl})
    check_equal(job.statuses(), [0, 0], f"exit status ({job.done})")
    check_equal(job.boxes(), [], f"black boxes ({job.done})")
    check_equal([error.count("[ncclwatch] not watching: ") for error in job.errors()], [1, 1], f"lines ({job.done})")


@case
def preload_by_a_relative_path(sandbox):
    """The loader knows the library by the path that it was given, from another folder than the process is in later."""
    sandbox.build.need(sandbox.build.library)
    code = (f"import os, runpy, sys; os.chdir('/'); sys.argv = ['ctypes_rank.py', {sandbox.build.nccl!r}]; "
            f"runpy.run_path({CTYPES!r}, run_name='__main__')")
    start = 'cd "$1" && exec env LD_PRELOAD=./libncclwatch.so "$2" -c "$3"'
    job = sandbox.job(["bash", "-c", start, "bash", os.path.dirname(sandbox.build.library), sys.executable, code],
                      preload=False)
    check_equal(job.statuses(), [0], f"exit status ({job.done})")
    check_recorded(job, [201, 202, 203])


@case
def drop_in_with_a_wrong_path(sandbox):
    """NCCLWATCH_NCCL names nothing: said once, and the usual search is used."""
    sandbox.build.need(sandbox.build.library)
    extra = {"NCCLWATCH_NCCL": "/no/such/libnccl.so.2"}
    job = sandbox.job([sys.executable, CTYPES, sandbox.build.library], preload=False, extra=extra)
    check_equal(job.statuses(), [0], f"exit status ({job.done})")
    check_equal(job.errors()[0].count("/no/such/libnccl.so.2"), 1, f"times that the reason is said ({job.done})")


@case
def drop_in_without_nccl(sandbox):
    """No libnccl that works behind the drop-in: loading works, calls fail as an error, not as a crash."""
    sandbox.build.need(sandbox.build.library)
    place = sandbox.fresh("only-cuda")
    share_cuda(sandbox, place)
    extra = {"LD_LIBRARY_PATH": place}
    job = sandbox.job([sys.executable, CTYPES, sandbox.build.library], preload=False, extra=extra)
    check(job.statuses()[0] > 0, f"an error was to be seen, not a crash or success: {job.done}")


@case
def preload_chain_before(sandbox):
    chain = sandbox.build.program("hosts", "libchain.so")
    job = both(sandbox, [program(sandbox, "many"), "threads", "2"], 0, before=[chain])
    check("chain saw 40\n" in job.outputs()[0], f"the other preload sees every call once: {job.done}")
    check_equal(sum(len(c) for c in counts(job).values()), 40, "calls recorded")


@case
def preload_chain_after(sandbox):
    chain = sandbox.build.program("hosts", "libchain.so")
    job = both(sandbox, [program(sandbox, "many"), "threads", "2"], 0, after=[chain])
    check("chain saw 40\n" in job.outputs()[0], f"the other preload sees every call once: {job.done}")
    check_equal(sum(len(c) for c in counts(job).values()), 40, "calls recorded")


@case
def switched_off(sandbox):
    job = both(sandbox, [program(sandbox, "many"), "splits", "5"], 0, ranks=2, boxes=0, extra={"NCCLWATCH": "off"})
    check_equal(job.errors(), ["", ""], "words of a library that is off")
    check(not os.path.exists(job.directory), "a library that is off makes no directory")
