#!/usr/bin/env python3
"""`ncclwatch correlate`: weeks of events. `--sets N` prints how many of N histories without any precursor are told to have
one, and of how many with a planted one it is found."""

import json
import math
import os
import random
import resource
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "support"))

from harness import Build, Sandbox, case, check, check_equal, run_main, soak_case  # noqa: E402

DAY = 86400
START = 1_780_000_000
KINDS = ("checkpoint", "evaluation", "job_start", "link_flap", "throttle", "ecc_corrected")
CATEGORIES = ("nccl", "out_of_memory", "hardware")


def correlate(sandbox, *words):
    done = sandbox.run([sandbox.build.command, "correlate", "--json", *words], sandbox.environment(preload=False), timeout=120)
    return done.status, json.loads(done.out) if done.out else None, done


def times(dice, days, a_day, bursts, rhythm):
    """As many a day on average; some come in bursts, and more of them at noon than at midnight."""
    found = []
    for _ in range(int(days * a_day)):
        while True:
            at = dice.random() * days * DAY
            if not rhythm or dice.random() < (1 - math.cos(2 * math.pi * at / DAY)) / 2:
                break
        found += [at + dice.random() * 900 for _ in range(dice.choice((1, 1, 4)) if bursts else 1)]
    return found


def history(seed, planted=0.0, days=21):
    """Lines of events.jsonl. `planted`: so many of the nccl failures come within five minutes after a link_flap."""
    dice = random.Random(seed)
    bursts, rhythm = dice.random() < 0.5, dice.random() < 0.5
    lines = [(at, kind, {}) for kind in KINDS for at in times(dice, days, dice.choice((1, 4, 12)), bursts, rhythm)]
    for category in CATEGORIES:
        lines += [(at, "failure", {"category": category}) for at in times(dice, days, dice.choice((0.5, 1.5)), bursts, rhythm)]
    if planted:
        flaps = [at for at, kind, _ in lines if kind == "link_flap"]
        own = [i for i, line in enumerate(lines) if line[2].get("category") == "nccl"]
        for i in own:
            if dice.random() < planted:
                lines[i] = (dice.choice(flaps) + 10 + dice.random() * 290, "failure", {"category": "nccl"})
    return [{"timestamp": START + at, "event_type": kind, "details": details, "step": None} for at, kind, details in sorted(lines, key=lambda line: line[0])]


def write(path, lines):
    with open(path, "w") as file:
        file.writelines(json.dumps(line) + "\n" for line in lines)
    return path


def significant(result):
    return [(one["event"], one["failure"]) for one in result["precursors"] if one["significant"]]


def judge(sandbox, seeds, planted):
    """(histories in which something false is told, histories in which the planted one is found)"""
    false, found = 0, 0
    for seed in seeds:
        result = correlate(sandbox, write(os.path.join(sandbox.path, "events.jsonl"), history(seed, planted)))[1]
        said = significant(result)
        # What follows the planted one in bursts is told with it: failures of any category hold those of one.
        false += any(pair not in (("link_flap", "nccl"), ("link_flap", "any")) for pair in said) if planted else bool(said)
        found += ("link_flap", "nccl") in said
    return false, found


@case
def nothing_planted(sandbox):
    false, _ = judge(sandbox, range(30), 0)
    check(false <= 3, f"{false} of 30 histories without a precursor")


@case
def planted_precursor(sandbox):
    false, found = judge(sandbox, range(12), 0.5)
    check(found >= 11 and false <= 2, f"found in {found} of 12, something false in {false}")
    lines = history(3, 0.6)
    result = correlate(sandbox, write(os.path.join(sandbox.path, "events.jsonl"), lines))[1]
    one = next(one for one in result["precursors"] if (one["event"], one["failure"]) == ("link_flap", "nccl"))
    failures = sorted(line["timestamp"] for line in lines if line["details"].get("category") == "nccl")
    single = [at for i, at in enumerate(failures) if i == 0 or at - failures[i - 1] >= 60]
    flaps = [line["timestamp"] for line in lines if line["event_type"] == "link_flap"]
    cases = sum(any(0 < at - flap <= 600 for flap in flaps) for at in single)
    check_equal((one["cases"], round(one["share"], 6)), (cases, round(cases / len(single), 6)), "counted by plain arithmetic")
    check(one["interval"][0] > 1 and one["interval"][0] < one["risk_ratio"] < one["interval"][1], f"{one}")


@case
def too_few_to_tell(sandbox):
    lines = [{"timestamp": START + 100 * i, "event_type": kind, "details": {"category": "x"}} for i, kind in enumerate(("a", "failure", "a", "failure"))]
    _, result, _ = correlate(sandbox, write(os.path.join(sandbox.path, "events.jsonl"), lines))
    check(all(one["too_few"] and not one["significant"] for one in result["precursors"]), f"{result}")
    check_equal(result["periodicity"], {"pattern": "too_few", "interval_s": None}, "rhythm")


@case
def rhythm_of_failures(sandbox):
    dice = random.Random(5)
    patterns = {
        "periodic": [i * 6 * 3600 + dice.gauss(0, 300) for i in range(40)],
        "clustered": [cluster * DAY + dice.random() * 1800 for cluster in (0, 3, 4, 9, 15) for _ in range(8)],
        "irregular": [dice.random() * 20 * DAY for _ in range(40)],
    }
    for pattern, at in patterns.items():
        lines = [{"timestamp": START + one, "event_type": "failure", "details": {"category": "hardware"}} for one in sorted(at)]
        _, result, _ = correlate(sandbox, write(os.path.join(sandbox.path, "events.jsonl"), lines))
        check_equal(result["periodicity"]["pattern"], pattern, f"{result['periodicity']}")
        if pattern == "periodic":
            check(abs(result["periodicity"]["interval_s"] - 6 * 3600) < 120, f"{result['periodicity']}")


@case
def clusters(sandbox):
    dice = random.Random(6)
    hosts = [f"gpu{i:02}" for i in range(40)]
    lines = [{"timestamp": START + dice.random() * 20 * DAY, "event_type": "job_start", "details": {}, "host": host} for host in hosts]
    for i in range(60):
        lines.append({"timestamp": START + dice.random() * 20 * DAY, "event_type": "failure", "details": {"category": "hardware"}, "host": "gpu17" if i < 15 else dice.choice(hosts)})
    _, result, _ = correlate(sandbox, write(os.path.join(sandbox.path, "events.jsonl"), lines))
    check_equal([(one["by"], one["value"]) for one in result["clusters"]], [("host", "gpu17")], f"{result['clusters']}")


@case
def other_files(sandbox):
    """Slurm's accounting and CSV beside events.jsonl, in a folder; times in words."""
    folder = sandbox.fresh("history")
    with open(folder + "/jobs.sacct", "w") as file:
        file.write("JobID|JobName|State|Start|End|NodeList|ExitCode\n")
        for i in range(12):
            state = ("COMPLETED", "NODE_FAIL", "CANCELLED by 0", "OUT_OF_MEMORY")[i % 4]
            file.write(f"{i}|train|{state}|2026-01-{i + 1:02}T00:00:00|2026-01-{i + 1:02}T12:00:00|gpu[01-04]|0:0\n{i}.batch|batch|FAILED|Unknown|Unknown|gpu01|1:0\n")
    with open(folder + "/more.csv", "w") as file:
        file.write("timestamp,event_type,category,host\n2026-01-03T11:55:00Z,throttle,,gpu01\n2026-01-04T01:00:00+02:00,failure,nccl,gpu02\n")
    write(folder + "/events.jsonl", [{"timestamp": "2026-01-05T00:00:00.000000Z", "event_type": "checkpoint", "details": {}, "step": 4}])
    status, result, done = correlate(sandbox, folder)
    check_equal((status, result["failures"], result["events"]), (0, 7, 14), f"{done}")
    check_equal({one["failure"] for one in result["precursors"]}, {"any", "nccl", "node_fail", "out_of_memory"}, "categories")
    check_equal(correlate(sandbox, folder + "/nothing")[0], 3, "no such file")
    with open(folder + "/letter.txt", "w") as file:
        file.write("Dear all\n")
    check_equal(correlate(sandbox, folder + "/letter.txt")[0], 3, "no history")


@soak_case
def many_kinds_of_events(sandbox):
    """If events, kinds, failures and days grow from one to four and eight times, the second step adds 1.3 times as much time as the first. It
    added 3.2 times as much when each kind went through all failures."""
    def seconds(times):
        dice = random.Random(8)
        span = 12 * times * DAY
        lines = [{"timestamp": START + dice.random() * span, "event_type": f"kind{dice.randrange(1250 * times)}", "details": {}} for _ in range(10_000 * times)]
        lines += [{"timestamp": START + dice.random() * span, "event_type": "failure", "details": {"category": dice.choice("abcde")}} for _ in range(1000 * times)]
        path = write(os.path.join(sandbox.path, "events.jsonl"), lines)

        def run():
            before = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime
            check_equal(correlate(sandbox, path)[0], 0, "status")
            return resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime - before
        return min(run() for _ in range(2))
    one, four, eight = (seconds(times) for times in (1, 4, 8))
    check(eight - four < 2.5 * (four - one), f"{one:.2f} s, {four:.2f} s, {eight:.2f} s")


@case
def nested_names(sandbox):
    """A name is no list, however deep."""
    path = os.path.join(sandbox.path, "events.jsonl")
    with open(path, "w") as file:
        file.write('{"timestamp": 1, "event_type": "a", "host": ' + "[" * 300_000 + "]" * 300_000 + "}\n")
    status, result, done = correlate(sandbox, path)
    check_equal((status, result and result["events"]), (0, 1), f"{done}")


@case
def times_of_no_clock(sandbox):
    """Times that no clock shows are no events: they would make centuries of days without failures."""
    lines = [{"timestamp": at, "event_type": "failure", "details": {"category": "x"}} for at in (START, START * 1000, -1, "nan", "inf", "1e300")]
    lines += [{"timestamp": START + i * DAY / 2, "event_type": "failure", "details": {"category": "x"}} for i in range(1, 20)]
    status, result, _ = correlate(sandbox, write(os.path.join(sandbox.path, "events.jsonl"), lines))
    check_equal((status, result["failures"]), (0, 20), f"{result}")
    check(any("5 lines are no events" in note for note in result["notes"]), f"{result['notes']}")


def print_sets(count, build):
    with Sandbox(build) as sandbox:
        false, _ = judge(sandbox, range(count), 0)
        print(f"{count} histories of three weeks without a precursor: {false} are told to have one", flush=True)
        for planted in (0.2, 0.4, 0.6):
            wrong, found = judge(sandbox, range(count, count + count // 10), planted)
            print(f"{count // 10} histories in which {planted:.0%} of the failures follow an event: found in {found}, something else told in {wrong}", flush=True)
    return false > 0.05 * count


if __name__ == "__main__":
    if "--sets" in sys.argv:
        sys.exit(print_sets(int(sys.argv[sys.argv.index("--sets") + 1]), Build(sys.argv[sys.argv.index("--build") + 1])))
    run_main("correlate")
