"""export: dumps of torch's flight recorder from black boxes, read by Python's own unpickler and by diagnose again."""

import os
import pickle

from common import bench_case, check, check_equal

# What torch 2.10's recorder writes (tests/analyzer/torch compares with the real one).
DUMP = {"version", "pg_config", "comm_lib_version", "pg_status", "entries"}
ENTRY = {"frames", "record_id", "pg_id", "process_group", "thread_name", "thread_id", "collective_seq_id", "p2p_seq_id",
         "op_id", "profiling_name", "time_created_ns", "input_sizes", "input_dtypes", "output_sizes", "output_dtypes",
         "state", "time_discovered_started_ns", "time_discovered_completed_ns", "retired", "timeout_ms", "is_p2p"}


def exported(bench, directory):
    into = os.path.join(bench.sandbox.fresh("exported"), "dumps")
    done = bench.command("export", directory, "--to", "torch-fr", "-o", into)
    check_equal(done.status, 0, f"export: {done}: status")
    dumps = {}
    for name in os.listdir(into):
        with open(os.path.join(into, name), "rb") as file:
            dumps[name] = pickle.load(file)
    return into, dumps


@bench_case
def export_is_what_torch_writes(bench):
    directory = bench.dead_job(bench.place("exported"), 3, "calls=4")
    _, dumps = exported(bench, directory)
    check_equal(sorted(dumps), [f"nccl_trace_rank_{rank}" for rank in range(3)], "names of the files")
    for dump in dumps.values():
        check_equal(set(dump), DUMP, "keys of a dump")
        (name, group), = dump["pg_config"].items()
        check_equal(group, {"name": name, "desc": group["desc"], "ranks": "[0, 1, 2]"}, "configuration")
        check_equal(len(dump["entries"]), 4, "entries")
        for index, entry in enumerate(dump["entries"]):
            check_equal(set(entry), ENTRY, "keys of an entry")
            check(entry["timeout_ms"] > 0, "with a limit of 0 no wait is ever too long")
            check_equal(entry["process_group"], (name, group["desc"]), "group of an entry")
            check_equal((entry["record_id"], entry["collective_seq_id"]), (index, index + 1), "numbers")
            check_equal(entry["profiling_name"], "nccl:all_reduce", "name")
            check_equal(entry["input_sizes"], entry["output_sizes"], "sizes of an AllReduce")


@bench_case
def export_keeps_the_verdict(bench):
    def verdict(diagnosis):
        return [(f["kind"], f["culprits"], f["victims"], f["position"]) for f in diagnosis["findings"]]

    directory = bench.place("stalled")
    for rank in range(3):
        bench.write(directory, rank, 3, "calls=3", *(["skip=1"] if rank == 1 else ["pending=1"]))
    into, dumps = exported(bench, directory)
    check_equal(len(dumps["nccl_trace_rank_1"]["entries"]), 2, "entries of the rank that is missing")
    check_equal([entry["state"] for entry in dumps["nccl_trace_rank_0"]["entries"]][-1], "scheduled", "state")
    # Who looks at the dumps later sees them as old as the boxes: the wait has not lasted long enough to be told.
    check_equal(verdict(bench.diagnose(into)[0]), [], "findings in a job that has just begun to wait")
    for name in dumps:
        path = os.path.join(into, name)
        seen = os.stat(path).st_mtime
        os.utime(path, (seen + 90, seen + 90))
    check_equal(verdict(bench.diagnose(into, statuses=(1,))[0]), [("missing_participant", [1], [0, 2], 2)], "findings")


@bench_case
def export_says_what_it_cannot(bench):
    directory = bench.dead_job(bench.place("source"), 2, "calls=2")
    done = bench.command("export", directory, "--to", "torch-fr", "-o", "/proc/nowhere")
    check_equal(done.status, 1, f"a folder that cannot be made: {done}")
    check("/proc/nowhere" in done.err, done.err)
    for words in (["export", directory, "-o", "x"], ["export", directory, "--to", "torch-fr"],
                  ["export", directory, "--to", "abacus", "-o", "x"]):
        check_equal(bench.command(*words).status, 2, f"{words}: status")
    empty = bench.sandbox.fresh("empty")
    check_equal(bench.command("export", empty, "--to", "torch-fr", "-o", "x").status, 3, "nothing to read")
