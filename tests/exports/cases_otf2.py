"""export --to otf2: what otf2-print reads against `trace --json`."""

import collections
import re
import shutil
import subprocess

from common import Exported, calls_of, case, check, check_equal
from harness import Skipped

ATTRIBUTE = re.compile(r'\("(\w+)" <\d+>; \w+; (?:"([^"]*)"|(-?\d+))')


def events(path):
    """(kind, location, nanoseconds, region, attributes) of each event, by location and time."""
    done = subprocess.run(["otf2-print", path], capture_output=True, text=True, check=True)
    found = []
    for line in done.stdout.splitlines():
        event = re.match(r'(ENTER|LEAVE)\s+(\d+)\s+(\d+)\s+Region: "([^"]+)"', line)
        if event:
            found.append((event[1], int(event[2]), int(event[3]), event[4], {}))
        elif "ADDITIONAL ATTRIBUTES" in line:
            found[-1][4].update({name: text if number == "" else int(number) for name, text, number in ATTRIBUTE.findall(line)})
    return found


def need_otf2(sandbox):
    if not shutil.which("otf2-print"):
        raise Skipped("no otf2-print here (package otf2-tools)")
    help_text = sandbox.run([sandbox.build.command, "export", "--help"], sandbox.environment(preload=False)).out
    if "otf2: OUT" not in help_text:
        raise Skipped("built without OTF2 (package libopen-trace-format2-dev)")


@case
def otf2_is_what_trace_lists(sandbox):
    need_otf2(sandbox)
    from common_jobs import recorded
    job = recorded(sandbox)
    out = Exported(sandbox, job.directory, "otf2", "otf2")
    calls = calls_of(sandbox, job.directory)
    seen = events(out.said["files"][0])
    entered = [event for event in seen if event[0] == "ENTER"]
    check_equal(len(seen), 2 * len(calls), "an ENTER and a LEAVE for each call")
    check_equal(collections.Counter(event[3] for event in entered), collections.Counter(call["op"] for call in calls), "calls by operation")
    for key in ("seq", "position", "count", "bytes"):
        check_equal(sum(event[4].get(key, 0) for event in entered), sum(call.get(key) or 0 for call in calls), f"sum of {key}")
    first = min(call["time_ns"] for call in calls)
    check_equal(sorted(event[2] for event in entered), sorted(call["time_ns"] - first for call in calls), "instants")
    for location in {event[1] for event in seen}:
        own = [event for event in seen if event[1] == location]
        check_equal([event[0] for event in own], ["ENTER", "LEAVE"] * (len(own) // 2), f"calls of location {location} follow one another")
        check(all(a[2] <= b[2] for a, b in zip(own, own[1:])), "no time goes backwards")


def printed(*words):
    return subprocess.run(["otf2-print", *words], capture_output=True, text=True, check=True).stdout.splitlines()


@case
def otf2_has_messages_and_collectives(sandbox):
    """A halo exchange of nine ranks, which have four neighbours each, in three steps."""
    need_otf2(sandbox)
    from common_jobs import halo
    job = halo(sandbox)
    job.message(0, "Send", 1, 10**7, 10**7 + 300, 100)
    job.message(1, "Recv", 0, 10**7, 10**7 + 900, 100)
    out = Exported(sandbox, job.write(), "otf2", "otf2")
    lines = printed(out.said["files"][0])
    kinds = collections.Counter(line.split()[0] for line in lines if line[:1].isupper())
    for kind in ("MPI_ISEND", "MPI_ISEND_COMPLETE", "MPI_IRECV_REQUEST", "MPI_IRECV"):
        check_equal(kinds[kind], 9 * 4 * 3, kind)
    for kind in ("MPI_COLLECTIVE_BEGIN", "MPI_COLLECTIVE_END"):
        check_equal(kinds[kind], 9 * 3, kind)
    check_equal((kinds["MPI_SEND"], kinds["MPI_RECV"]), (1, 1), "blocking ones")
    [send] = [line for line in lines if line.startswith("MPI_SEND ")]
    check('Receiver: 1 (' in send and "Length: 100" in send, send)
    # A request ends in the wait that ends it.
    own = [line.split()[0] for line in lines if re.match(r"\w+\s+4\s", line)]
    check_equal(own[own.index("MPI_IRECV") - 1 - own[:own.index("MPI_IRECV")][::-1].index("ENTER"):own.index("MPI_IRECV")].count("LEAVE"), 0,
                "inside a call")


@case
def otf2_definitions_are_in_order(sandbox):
    need_otf2(sandbox)
    from common_jobs import halo
    out = Exported(sandbox, halo(sandbox).write(), "otf2", "otf2")
    numbers = collections.defaultdict(list)
    for line in printed("--show-global-defs", out.said["files"][0]):
        found = re.match(r"([A-Z_]+)\s+(\d+)\s", line)
        if found:
            numbers[found[1]].append(int(found[2]))
    for kind in ("STRING", "REGION", "LOCATION", "LOCATION_GROUP", "SYSTEM_TREE_NODE", "GROUP", "COMM"):
        check(len(numbers[kind]) > 0 and numbers[kind] == sorted(numbers[kind]), f"{kind}: {numbers[kind]}")
