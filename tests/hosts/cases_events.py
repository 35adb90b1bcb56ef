"""Events that the program tells: lines of events.jsonl, in the run directory and in NCCLWATCH_OUT."""

import json
import os
import sys

from common import both, program
from harness import case, check, check_equal

HERE = os.path.dirname(os.path.abspath(__file__))
KEYS = {"timestamp", "event_type", "step", "rank", "host", "job", "details"}


def lines_of(path):
    with open(path, encoding="utf-8") as file:
        return [json.loads(line) for line in file]


def events(sandbox, argv, **options):
    """As they stand in both places."""
    out = sandbox.fresh("out")
    extra = {"NCCLWATCH_OUT": out, **options.pop("extra", {})}
    job = both(sandbox, argv, 0, extra=extra, **options)
    here = lines_of(os.path.join(job.directory, "events.jsonl"))
    there = [os.path.join(folder, name) for folder, _, names in os.walk(out) for name in names if name == "events.jsonl"]
    check_equal(len(there), 1, f"files in NCCLWATCH_OUT: {there}")
    check_equal(lines_of(there[0]), here, "in NCCLWATCH_OUT and in the run directory")
    for event in here:
        check_equal(set(event), KEYS, "keys")
    return here, "".join(done.err for done in job.done)


@case
def events_told(sandbox):
    found, said = events(sandbox, [program(sandbox, "events")], quiet=False)
    told = [(e["event_type"], e["step"], e["details"]) for e in found]
    check_equal(told, [
        ("before", None, {}),
        ("checkpoint", 7, {"path": '/a "b"', "sizes": [1, 2500.0, 0, None, True]}),
        ("broken", 7, '{"a": '),
        ("\x1b[2J", 7, '"\x1b[2J"'),
        ("deep", 7, told[4][2]),
        ("bytes", 7, '"\ufffd\ufffd"'),
        ("t" * 43, 7, '"' + "x" * 950),
        ("last", None, {}),
    ], "events")
    check_equal(told[4][2], ("[" * 500 + "]" * 500)[:951], "too deep: as text")
    check_equal([e["rank"] for e in found], [0] * len(found), "rank")
    check_equal(said.count("kept as text"), 1, f"said once: {said}")


@case
def more_events_than_there_is_room_for(sandbox):
    """The process does not wait: what is lost is said once, and what came last is there."""
    found, said = events(sandbox, [program(sandbox, "events"), "flood", "200000"], quiet=False)
    check_equal([e["event_type"] for e in found[-3:]], ["before", "checkpoint", "last"], "the newest")
    check(125 < len(found) < 200000, f"{len(found)} events")
    numbers = [e["details"]["number"] for e in found[:-3]]
    check_equal(numbers, sorted(set(numbers)), "in order, none twice")
    check_equal(said.count("events of the program are lost"), 1, f"said once: {said}")


@case
def events_told_by_python(sandbox):
    argv = [sys.executable, os.path.join(HERE, "annotations", "events.py")]
    found, _ = events(sandbox, argv, extra={"PYTHONPATH": os.path.join(HERE, "..", "..", "python")}, quiet=False)
    check_equal([(e["event_type"], e["step"]) for e in found], [("checkpoint", 3), ("odd", None)], "events")
    check_equal(found[0]["details"], {"path": "/a", "loss": "NaN", "shards": [1, 2], "type": "full"}, "details")
    check(isinstance(found[1]["details"], str), f"{found[1]}")
