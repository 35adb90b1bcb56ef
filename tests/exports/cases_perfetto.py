"""export --to perfetto: the trace as Perfetto's own messages tell it, call by call against `trace --json`."""

import collections
import os

from common import Exported, calls_of, case, check, check_equal, counted, need, stats_of, written

ARGS = ("seq", "position", "count", "bytes", "dtype", "reduction", "root", "peer", "thread", "group", "state")


def rank_of(process):
    return int(process.split()[1])  # "rank 3 (node0, pid 4711)"


def micros(ns):
    return ns // 1000


def compare(slices, calls):
    by_seq = {(rank_of(one.process), one.args["seq"]): one for one in slices}
    check_equal(len(by_seq), len(slices), "slices of one rank and seq")
    check_equal(sorted(by_seq), sorted((call["rank"], call["seq"]) for call in calls), "rank and seq of all calls")
    for call in calls:
        one = by_seq[call["rank"], call["seq"]]
        what = f"rank {call['rank']}, seq {call['seq']}"
        check_equal(one.name, call["op"], what)
        check_equal(one.begin_ns, call["time_ns"], what)
        if call["returned"] is None:
            check_equal(one.end_ns, None, what)
        elif not call["pending"]:
            check_equal(one.end_ns - one.begin_ns, round(call["duration_s"] * 1e9), what)
        check_equal({name: one.args.get(name) for name in ARGS}, {name: call[name] for name in ARGS}, what)
        check_equal(one.args.get("stream", 0), int(call["stream"], 16), what)
        check_equal(one.args.get("result", "success"), call["result"] or "success", what)
        check(call["communicator"] is None or call["communicator"][:8] in one.track, f"{what}: track {one.track}")


@case
def perfetto_is_what_trace_lists(sandbox):
    need("perfetto")
    from common_jobs import recorded  # needs softgpu
    from perfetto_reader import read
    job = recorded(sandbox)
    out = Exported(sandbox, job.directory, "perfetto", "job.pftrace")
    trace, = read(out.path)
    calls = calls_of(sandbox, job.directory)
    check_equal(out.said["calls"], len(calls), "calls that export counts")
    compare(trace.slices, calls)
    stats = stats_of(sandbox, job.directory)
    check_equal(sum(counted({"op": one.name}) for one in trace.slices), stats["calls"], "calls by stats")
    took = sum(one.end_ns - one.begin_ns for one in trace.slices if counted({"op": one.name}))
    check(abs(took / 1000 - sum(row["total_us"] for row in stats["rows"])) < 1, f"{took} ns against {stats['rows']}")
    # Flows: the two ranks' sides of each collective.
    flows = collections.Counter(flow for one in trace.slices for flow in one.flows)
    check_equal(set(flows.values()), {2}, "slices of one flow")
    sides = collections.defaultdict(set)
    for one in trace.slices:
        for flow in one.flows:
            sides[flow].add((one.name, one.track, one.args["position"]))
    check_equal({len(names) for names in sides.values()}, {1}, "calls that one flow joins")
    # Counters: the positions in their order.
    for (process, name), values in trace.counters.items():
        if name.startswith("position"):
            check_equal([value for _, value in values], list(range(len(values))), f"{name} of {process}")


@case
def perfetto_splits(sandbox):
    need("perfetto")
    from perfetto_reader import read
    directory = written(sandbox)
    out = Exported(sandbox, directory, "perfetto", "job.pftrace", "--max-size", "100K")
    check(len(out.said["files"]) > 3, f"{out.said}")
    check_equal(out.said["files"][1], out.path.replace("job.pftrace", "job-2.pftrace"), "name of the second file")
    check(f"{len(out.said['files'])} files" in out.done.err, out.done.err)
    traces = read(*out.said["files"])
    compare([one for trace in traces for one in trace.slices], calls_of(sandbox, directory))
    ends = [(min(one.begin_ns for one in trace.slices), max(one.begin_ns for one in trace.slices)) for trace in traces]
    check(all(before[1] <= after[0] for before, after in zip(ends, ends[1:])), f"files overlap: {ends}")
    for name in out.said["files"][:-1]:
        check(os.path.getsize(name) < 110_000, f"{name} has {os.path.getsize(name)} bytes")


@case
def perfetto_shows_findings(sandbox):
    need("perfetto")
    from common_jobs import stalled
    from perfetto_reader import read
    with stalled(sandbox) as (directory, diagnosis):
        calls = calls_of(sandbox, directory)
        trace, = read(Exported(sandbox, directory, "perfetto", "job.pftrace").path)
    finding, = diagnosis["findings"]
    check_equal([(one.process.split(" (")[0], one.track, one.name) for one in trace.instants],
                [("", "ncclwatch: findings", finding["kind"]), ("rank 1", "", finding["kind"])], "instants")
    for one in trace.instants:
        check_equal((one.args["certainty"], one.args["culprits"]), (finding["certainty"], "1"), "arguments")
        check("Rank 1 " in one.args["summary"], one.args["summary"])
    waiting = [one for one in trace.slices if one.end_ns is None]
    check_equal(sorted(rank_of(one.process) for one in waiting), [0, 2], "ranks that wait")
    check(all(one.args["pending"] for one in waiting), "what waits is pending")
    compare(trace.slices, calls)


@case
def perfetto_filters(sandbox):
    need("perfetto")
    from perfetto_reader import read
    directory = written(sandbox)
    words = ("--rank", "1,3", "--op", "Broadcast")
    trace, = read(Exported(sandbox, directory, "perfetto", "job.pftrace", *words).path)
    compare(trace.slices, calls_of(sandbox, directory, *words))
    check_equal({rank_of(process) for process in trace.processes}, {1, 3}, "ranks")
