"""Allocations that fail and errors that NCCL returns: the box tells them, the program sees what it sees without us."""

import shutil
import subprocess
import sys

from cases_words import box_of
from common import both, program
from harness import Skipped, case, check, check_equal
from words import Box

MIB = 1 << 20
TOO_MUCH = 100 * MIB
# Rows of functions/cuda.def, and ncclMemAlloc.
ALLOC, PITCH, MANAGED, ASYNC, ASYNC_PTSZ, NCCL = 1, 2, 3, 4, 5, 100


def run(sandbox, mode, **options):
    extra = {"SOFTGPU_MEMORY": "64M", **options.pop("extra", {})}
    return box_of(both(sandbox, [program(sandbox, "memory"), mode], 0, extra=extra, **options))


def told(box):
    return [(entry["function"], entry["bytes"]) for entry in box.allocations()]


@case
def failed_allocations_of_the_runtime(sandbox):
    box = run(sandbox, "runtime")
    check_equal(told(box), [(ALLOC, TOO_MUCH), (MANAGED, TOO_MUCH + 1), (ASYNC, TOO_MUCH + 2), (PITCH, 200 * MIB)],
                "allocations told")
    for entry in box.allocations():
        check_equal((entry["result"], entry["device"], entry["recovered"]), (2, 0, 0), "result, device, recovery")
        check_equal(entry["total"], 64 * MIB, "memory of the device")
        check(0 < entry["free"] <= 64 * MIB, f"free memory {entry['free']}")


@case
def failed_allocations_by_name(sandbox):
    """dlsym on the driver's handle and cuGetProcAddress, as runtimes that are linked in find it."""
    check_equal(told(run(sandbox, "names")), [(ALLOC, TOO_MUCH + 3), (ALLOC, TOO_MUCH + 4), (ASYNC_PTSZ, TOO_MUCH + 5),
                                              (MANAGED, TOO_MUCH + 6)], "allocations told")


@case
def failed_allocation_that_is_got_over(sandbox):
    entry, = run(sandbox, "recovers").allocations()
    check_equal(entry["bytes"], 41 * MIB, "bytes")
    check(entry["recovered"] > entry["at"], f"recovered at {entry['recovered']}, failed at {entry['at']}")
    entry, = run(sandbox, "smaller").allocations()
    check_equal(entry["recovered"], 0, "a smaller one is no recovery")


@case
def failed_allocation_before_nccl(sandbox):
    check_equal(told(run(sandbox, "before")), [], "nothing is told before there is a box")


@case
def failed_allocation_during_capture(sandbox):
    run(sandbox, "capture")


@case
def failed_allocation_in_a_fork_child(sandbox):
    check_equal(told(run(sandbox, "child")), [], "the parent's box")


@case
def failed_allocation_of_nccl(sandbox):
    box = run(sandbox, "nccl")
    check_equal(told(box)[-1], (NCCL, TOO_MUCH), "the allocation, as it was asked for")
    check_equal(box.allocations()[-1]["total"], 64 * MIB, "the figures of the one inside")
    check_equal(box.errors(), [], "it is no error besides")


@case
def errors_that_nccl_returns(sandbox):
    errors = run(sandbox, "refused").errors()
    check_equal([e["function"] for e in errors], [1, 2, 51], "AllReduce, Broadcast, GroupEnd")
    check_equal(errors[0]["result"], 4, "invalid argument")
    check(all(error["text"] for error in errors), f"NCCL's words: {errors}")
    check_equal([e["flags"] for e in errors], [0, 0, 0], "returned")


@case
def errors_that_nccl_tells_when_asked(sandbox):
    job = both(sandbox, [program(sandbox, "memory"), "asynchronous"], 0, ranks=2,
               extra={"SOFTGPU_NCCL_ASYNC_ERROR": "0:1:3"})
    told_by = {box: [(e["function"], e["result"], e["flags"]) for e in Box(box).errors()] for box in job.boxes()}
    check_equal(sorted(told_by.values()), [[], [(133, 3, 1)]], "told once, by the rank that it is of")


WEAK = """
#include <dlfcn.h>
#include <stdio.h>
int main(void) {
  void* self = dlopen(0, RTLD_NOW);
  printf("%d %d %d\\n", dlsym(RTLD_DEFAULT, "cuMemAlloc_v2") != 0, dlsym(self, "cuMemCreate") != 0,
         dlsym(RTLD_DEFAULT, "cuGetProcAddress_v2") != 0);
  return 0;
}
"""


@case
def programs_without_cuda_find_none(sandbox):
    """Who asks the global scope for the driver's functions must not find ours where there is no driver."""
    if not shutil.which("gcc"):
        raise Skipped("no gcc here")
    place = sandbox.fresh("weak")
    with open(place + "/weak.c", "w") as file:
        file.write(WEAK)
    done = subprocess.run(["gcc", "-o", place + "/weak", place + "/weak.c", "-ldl"], capture_output=True, text=True)
    check_equal(done.returncode, 0, done.stderr)
    sandbox.build.need(sandbox.build.library)
    for preload in (False, True):
        check_equal(sandbox.run([place + "/weak"], sandbox.environment(preload)).out, "0 0 0\n", f"preloaded: {preload}")
    code = ("import ctypes; print([hasattr(ctypes.CDLL(None), n) for n in ('cuMemAlloc_v2', 'cuMemHostAlloc', "
            "'cuGetProcAddress', 'cuMemcpyDtoH_v2')])")
    for preload in (False, True):
        done = sandbox.run([sys.executable, "-c", code], sandbox.environment(preload))
        check_equal(done.out, "[False, False, False, False]\n", f"preloaded: {preload}")
