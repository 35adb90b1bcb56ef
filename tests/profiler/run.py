#!/usr/bin/env python3
"""Kernel times from NCCL's profiler interface: in every version of it, alone, and before a plugin of the user's."""

import glob
import json
import os
import shutil
import statistics
import sys
from collections import Counter, defaultdict

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "support"))

from harness import case, check, check_equal, run_main  # noqa: E402

ROOT = os.path.join(HERE, "..", "..")
RANKS, STEPS, LATE, LATE_S = 3, 20, 1, 0.03
COLLECTIVE, CHANNEL = "2", "64"  # types of events


class Job:
    def __init__(self, sandbox, environment, *words, watched=True):
        self.sandbox, self.scratch = sandbox, sandbox.fresh("job")
        self.recording = os.path.join(self.scratch, "recording")
        self.log = os.path.join(self.scratch, "plugin")
        env = sandbox.environment(preload=False, extra={"TMPDIR": self.scratch, "PLUGIN_LOG": self.log, **environment})
        program = sandbox.build.program("profiler", "kernels")
        sandbox.build.need(program, sandbox.build.command)
        command = [sys.executable, os.path.join(ROOT, "examples", "launch.py"), "-n", str(RANKS), "--", program,
                   "--steps", str(STEPS), "--late", str(LATE), "--late-ms", str(int(LATE_S * 1000)), *words]
        watch = [sandbox.build.command, "run", "--record", self.recording, "--"] if watched else []
        self.done = sandbox.run([*watch, *command], env, timeout=50)
        check_equal(self.done.status, 0, f"{self.done}")

    def ask(self, *words):
        done = self.sandbox.run([self.sandbox.build.command, words[0], self.recording, *words[1:]],
                                self.sandbox.environment(preload=False), timeout=30)
        check_equal(done.status, 0, f"{done}")
        return done.out

    def calls(self):
        """Of NCCL's that move data, in the order of their ranks."""
        rows = [json.loads(line) for line in self.ask("trace", "--json").splitlines()]
        return [row for row in rows if row["bytes"]]

    def told(self):
        """What the user's plugin was told, of all ranks together."""
        total, files = defaultdict(int), glob.glob(self.log + ".*")
        check_equal(len(files), RANKS, "each rank's plugin was finalized")
        for path in files:
            with open(path) as file:
                said = json.load(file)
            check_equal(said["wrong"], [], "what the plugin would not survive")
            for kind, count in said["starts"].items():
                total[kind] += count
            total["states"] += said["states"]
        return dict(total)


def check_times(calls, clock, algorithm="RING"):
    """Every call has the time of its own kernel: that of the late rank waits for nobody."""
    check(len(calls) >= RANKS * STEPS * 6, f"{len(calls)} calls")
    waited = defaultdict(list)
    for call in calls:
        kernel = call["kernel"]
        check(kernel, f"not timed: {call}")
        check_equal((kernel["clock"], kernel["channels"]), (clock, 2), f"{call}")
        if call["op"] not in ("Send", "Recv", "AlltoAll"):
            check_equal((kernel["algorithm"], kernel["protocol"]), (algorithm, "LL" if call["bytes"] <= 8192 else "SIMPLE"),
                        f"{call}")
        if call["op"] == "AllReduce" and call["group"] is None:
            waited[call["rank"] == LATE].append(kernel["duration_s"])
    check_equal((len(waited[True]), len(waited[False])), (STEPS, (RANKS - 1) * STEPS), "first calls of the steps")
    # The first one connects.
    check(sum(t > LATE_S * 0.7 for t in waited[False]) >= len(waited[False]) * 0.9, f"others wait: {waited[False]}")
    check(sum(t < LATE_S * 0.5 for t in waited[True]) >= len(waited[True]) * 0.9, f"the late one does not: {waited[True]}")


def timed(sandbox, version, clock):
    job = Job(sandbox, {"SOFTGPU_NCCL_PROFILER": str(version), "NCCLWATCH_PROFILER": "1/1"})
    check_times(job.calls(), clock)


@case
def version_3(sandbox):
    timed(sandbox, 3, "proxy")


@case
def version_4(sandbox):
    timed(sandbox, 4, "gpu")


@case
def version_5(sandbox):
    timed(sandbox, 5, "gpu")


@case
def version_6(sandbox):
    timed(sandbox, 6, "gpu")


@case
def versions_without_kernels(sandbox):
    """The interface of NCCL 2.23 and 2.24 has no kernels: nothing is timed, and nothing goes wrong."""
    for version in (1, 2):
        job = Job(sandbox, {"SOFTGPU_NCCL_PROFILER": str(version), "NCCLWATCH_PROFILER": "1/1"})
        check(all(call["kernel"] is None for call in job.calls()), f"version {version}")


@case
def one_call_in_sixteen(sandbox):
    """The same ones on all ranks; of each kind that comes back in every step some."""
    environment = {"NCCLWATCH_PROFILER": "1/16"}
    calls, timed = Job(sandbox, environment, "--steps", "100", "--late-ms", "0").calls(), defaultdict(set)
    kinds = {(call["op"], call["bytes"], call["group"] is None) for call in calls if call["kernel"]}
    check_equal(kinds, {(call["op"], call["bytes"], call["group"] is None) for call in calls}, "kinds that are timed")
    collectives = [call for call in calls if call["op"] not in ("Send", "Recv")]
    for call in collectives:
        timed[call["position"]].add(call["kernel"] is not None)
    check(all(len(said) == 1 for said in timed.values()), "all ranks time the same")
    share = sum(True in said for said in timed.values()) / len(timed)
    check(0.03 < share < 0.1, f"one in sixteen: {share}")


@case
def plugin_of_the_process(sandbox):
    """NCCL_PROFILER_PLUGIN=STATIC_PLUGIN: NCCL asks the process itself."""
    check_times(Job(sandbox, {"NCCL_PROFILER_PLUGIN": "STATIC_PLUGIN", "NCCLWATCH_PROFILER": "1/1"}).calls(), "gpu")


@case
def refused(sandbox):
    for environment in ({"NCCLWATCH_PROFILER": "off"}, {"NCCLWATCH_PROFILER": "1/1", "NCCL_PROFILER_PLUGIN": "none"}):
        check(all(call["kernel"] is None for call in Job(sandbox, environment).calls()), f"{environment}")


@case
def drop_in(sandbox):
    """In the place of libnccl, where NCCL asks the C library's own dlsym."""
    sandbox.build.need(sandbox.build.library)
    program = os.path.join(ROOT, "tests", "hosts", "python", "ctypes_rank.py")
    job = sandbox.job([sys.executable, program, sandbox.build.library], ranks=2, preload=False,
                      extra={"NCCLWATCH_NCCL": sandbox.build.nccl})
    check_equal(job.statuses(), [0, 0], f"{job.done}")
    check_equal([call["kernel"] is not None for call in job.calls() if call["op"] == "AllReduce"], [True] * 6, "timed")


@case
def launches_of_a_graph(sandbox):
    calls = Job(sandbox, {"NCCLWATCH_PROFILER": "1/1"}, "--graph", "1").calls()
    captured = [call for call in calls if "captured" in call["flags"]]
    check_equal([(call["op"], call["kernel"]) for call in captured], [("ReduceScatter", None)] * RANKS, "captured calls")
    check_times([call for call in calls if "captured" not in call["flags"]], "gpu")


@case
def events_that_come_late(sandbox):
    """The end of a channel is told long after its call: with its own time, or, where its place has been taken, not at all."""
    for late, timed in ((40, True), (6000, False)):
        environment = {"NCCLWATCH_PROFILER": "1/1", "SOFTGPU_NCCL_PROFILER_LATE": str(late)}
        calls = Job(sandbox, environment, "--steps", "700", "--late-ms", "0").calls()
        times = [call["kernel"]["duration_s"] for call in calls if call["kernel"]]
        check((len(times) > 0.9 * len(calls)) == timed and (timed or not times), f"{late}: {len(times)} of {len(calls)}")
        check(all(time < 1 for time in times), f"{late}: of other calls: {max(times, default=0)}")


def with_cost(sandbox, us):
    """Which AllReduces were timed, in their order, and what was said."""
    job = Job(sandbox, {"SOFTGPU_NCCL_PROFILER_COST": str(us)}, "--steps", "1900", "--late-ms", "0")
    timed = [call["kernel"] is not None for call in job.calls() if call["op"] == "AllReduce"]
    return timed, [line for line in job.done.err.splitlines() if "kernels are timed no more" in line]


@case
def too_dear(sandbox):
    """An interface that costs much is left alone, which is said once; what was timed until then stays."""
    timed, said = with_cost(sandbox, 4000)
    check_equal(len(said), 1, f"{said}")
    check(any(timed) and not any(timed[-len(timed) // 20:]), "the last calls are not timed")


@case
def cheap_enough(sandbox):
    timed, said = with_cost(sandbox, 0)
    check_equal(said, [], "nothing is said")
    check(any(timed[-len(timed) // 10:]), "the last calls are timed too")


def before_another(sandbox, versions):
    """The plugin hears the same as without ncclwatch, though that changes what NCCL is asked for from call to call."""
    for version in versions:
        plugin = sandbox.build.program("profiler", f"plugin{version}.so")
        sandbox.build.need(plugin)
        chosen = {"NCCL_PROFILER_PLUGIN": plugin}
        alone = Job(sandbox, chosen, watched=False).told()
        check(alone[COLLECTIVE] > 0 and (version < 3 or alone[CHANNEL] > 0), f"version {version}: {alone}")
        if version == versions[-1]:
            left_alone = Job(sandbox, chosen)
            check_equal(left_alone.told(), alone, f"version {version}, not asked to be before it")
            check(all(call["kernel"] is None for call in left_alone.calls()), "not timed")
        both = Job(sandbox, {**chosen, "NCCLWATCH_PROFILER": "1/4"})
        check_equal(both.told(), alone, f"version {version}")
        if version >= 3:
            check(any(call["kernel"] for call in both.calls()), f"version {version}: timed")


@case
def plugin_by_its_usual_name(sandbox):
    """libnccl-profiler.so where the loader searches: NCCL opens it without a setting, and it keeps its place."""
    folder, plugin = sandbox.fresh("usual"), sandbox.build.program("profiler", "plugin6.so")
    sandbox.build.need(plugin)
    shutil.copy(plugin, os.path.join(folder, "libnccl-profiler.so"))
    chosen = {"LD_LIBRARY_PATH": f"{folder}:{sandbox.build.softgpu}"}
    alone, beside = Job(sandbox, chosen, watched=False), Job(sandbox, chosen)
    check(alone.told()[COLLECTIVE] > 0, "the plugin is used")
    check_equal(beside.told(), alone.told(), "what it is told")
    check(all(call["kernel"] is None for call in beside.calls()), "not timed")


@case
def before_another_plugin(sandbox):
    before_another(sandbox, (4, 5, 6))


@case
def before_another_plugin_of_older_versions(sandbox):
    before_another(sandbox, (1, 2, 3))


def kernels_by_row(logs, row_of):
    """softgpu's own kernel times of each row: those of one call, on all ranks, are the n-th ones of that row."""
    kernels = defaultdict(lambda: defaultdict(list))
    for path in glob.glob(os.path.join(logs, "*.jsonl")):
        counted = Counter()
        with open(path) as file:
            for line in map(json.loads, file):
                if line["event"] == "kernel":
                    row = row_of(line)
                    kernels[row][counted[row]].append((line["t1"] - line["t0"]) / 1e9)
                    counted[row] += 1
    return kernels


@case
def bandwidths(sandbox):
    """Without a setting every row of a collective has one, as softgpu's own log gives it by nccl-tests' rule."""
    logs = sandbox.fresh("log")
    # Kernels so long that the scheduler's share of them is small.
    job = Job(sandbox, {"SOFTGPU_NCCL_LOG": logs, "SOFTGPU_NCCL_LOG_KERNELS": "1", "SOFTGPU_NCCL_SLOW": "0:2000"}, "--steps", "100", "--late-ms", "0")
    size_of = {7: 4, 9: 2}  # of the program's types
    kernels = kernels_by_row(logs, lambda line: (line["fn"], line["count"] * size_of.get(line["dtype"], 1)))
    rows = [row for row in json.loads(job.ask("stats", "--json"))["rows"] if row["op"] in ("AllReduce", "AllGather")]
    check_equal(len(rows), 3, f"rows of collectives: {rows}")
    for row in rows:
        times = kernels[row["op"], row["bytes"]]
        check_equal(len(times), row["calls"] // RANKS, "kernels in the log")
        seconds = statistics.mean(min(sides) for sides in times.values())
        if row["op"] == "AllReduce":
            busbw = row["bytes"] / seconds / 1e9 * 2 * (RANKS - 1) / RANKS
        else:
            busbw = row["bytes"] / seconds / 1e9 * (RANKS - 1)
        check_equal(row["source"], "kernel", f"{row}")
        check(abs(row["busbw_GBps"] / busbw - 1) < 0.1, f"{row}: {busbw}")
    table = job.ask("stats")
    check("KERNEL" in table and "RING SIMPLE 2" in table and "GB/s" in table, table)


if __name__ == "__main__":
    run_main("profiler")
