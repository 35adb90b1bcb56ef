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


@case
def otf2_is_what_trace_lists(sandbox):
    if not shutil.which("otf2-print"):
        raise Skipped("no otf2-print here (package otf2-tools)")
    help_text = sandbox.run([sandbox.build.command, "export", "--help"], sandbox.environment(preload=False)).out
    if "otf2: OUT" not in help_text:
        raise Skipped("built without OTF2 (package libopen-trace-format2-dev)")
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
