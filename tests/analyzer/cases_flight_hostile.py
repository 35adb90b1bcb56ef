"""diagnose on damaged and hostile dumps of torch's flight recorder: named, never executed, memory in proportion."""

import json
import os
import pickle
import shutil
import subprocess
import time

from cases_flight import training
from common import bench_case, check, check_equal
from flight import in_json


@bench_case
def flight_damage_is_named(bench):
    job = training()
    job.all([0, 1, 3], "all_reduce", at=5, state="started")
    directory = job.write(bench.sandbox.fresh("damaged"))

    class Evil:
        def __reduce__(self):
            return os.mkdir, (os.path.join(directory, "executed"),)

    path = os.path.join(directory, "nccl_trace_rank_1")
    for protocol, opcode in ((2, "GLOBAL"), (4, "STACK_GLOBAL")):
        with open(path, "wb") as file:
            pickle.dump({"version": "2.10", "entries": [Evil()]}, file, protocol)
        done = bench.command("diagnose", directory)
        check_equal(done.status, 3, f"status of {done}")
        check(f"nccl_trace_rank_1: pickle's {opcode} is refused" in done.err, done.err)
        check(not os.path.exists(os.path.join(directory, "executed")), "a dump was executed")
    whole = pickle.dumps(job.dump(1), 2)
    for cut in (1, 10, len(whole) // 2, len(whole) - 1):
        with open(path, "wb") as file:
            file.write(whole[:cut])
        done = bench.command("diagnose", path)
        check_equal(done.status, 3, f"cut at {cut}: status of {done}")
    with open(path, "wb") as file:
        file.write(json.dumps(in_json(job.dump(1))).encode()[:-2])
    done = bench.command("diagnose", directory)
    check_equal(done.status, 3, f"status of {done}")
    check("nccl_trace_rank_1: no JSON, or cut short" in done.err, done.err)
    check("missing_participant" in done.out, f"what the others tell is not printed: {done}")
    shutil.copy(os.path.join(directory, "nccl_trace_rank_0"), os.path.join(directory, "again_0"))
    check("a second dump of rank 0" in bench.command("diagnose", directory).err, "two dumps of one rank")
    boxes = bench.dead_job()
    done = bench.command("diagnose", boxes, os.path.join(directory, "nccl_trace_rank_0"))
    check_equal(done.status, 3, f"status of {done}")
    check("beside black boxes" in done.err, done.err)


def hostile(count):
    """Pickles of some `count` bytes each that show what they hold more often than that."""
    def dump(entries):
        return b"\x80\x02}(X\x07\0\0\0versionX\x04\0\0\x002.10X\x07\0\0\0entries" + entries + b"u."

    def entry(sizes):
        return (b"}(X\x0e\0\0\0profiling_nameX\x0e\0\0\0nccl:send 0->1X\x0d\0\0\0process_group"
                b"X\x01\0\0\x000X\x01\0\0\0x\x86X\x0b\0\0\0input_sizes" + sizes + b"u")

    deep = b"](" * (count // 4) + b"e" * (count // 4)
    yield "the same entry", dump(b"](" + entry(b"](](K\x01ee") + b"q\0" + b"h\0" * (count // 2) + b"e")
    yield "long sizes", dump(b"](" + entry(b"](](" + b"K\x02" * (count // 4) + b"ee") + b"q\0" + b"h\0" * (count // 4) + b"e")
    yield "lists in lists", dump(deep)
    yield "empty lists", dump(b"](" + b"]" * count + b"e")
    yield "marks", dump(b"(" * count)
    yield "numbers of the memo", dump(b"](" + b"Nr" + count.to_bytes(4, "little") + b"N" * count + b"e")
    yield "JSON", b'{"version":"2.10","entries":[' + b"[]," * (count // 3) + b"{}]}"
    yield "JSON in JSON", b'{"version":"2.10","entries":' + b"[" * count


@bench_case
def flight_hostile_dumps_take_memory_in_proportion(bench):
    size = 1 << 20
    folder = bench.sandbox.fresh("hostile")
    for what, content in hostile(size):
        path = os.path.join(folder, "rank_0")
        with open(path, "wb") as file:
            file.write(content)
        begun = time.monotonic()
        process = subprocess.Popen([bench.build.command, "diagnose", path], stdout=subprocess.DEVNULL,
                                   stderr=subprocess.DEVNULL, env=bench.environment())
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        check(process.returncode in (0, 1, 3), f"{what}: status {process.returncode}")
        check(time.monotonic() - begun < 20, f"{what}: {time.monotonic() - begun:.1f} s")
        if not bench.build.sanitizer:
            check(usage.ru_maxrss * 1024 < 64_000_000 + 300 * len(content), f"{what}: {usage.ru_maxrss} KB")
