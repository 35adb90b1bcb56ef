"""Exported and imported again: the calls of `trace --json`, record for record, in all that the format can hold."""

import json
import os
import shutil
import sys

from common import ROOT, Exported, calls_of, case, check, check_equal
from harness import Skipped

# Found by its file and place in a module, if that file is still there.
LOOKED_UP = {"site"}
# Chakra has nodes for calls that communicate: the others are not counted.
NUMBERS = {"seq", "slot", "group", "waiter"}
OF_TORCH = ("rank", "op", "count", "bytes", "dtype", "peer", "position", "time_ns", "thread")
MOVES_DATA = ("AllReduce", "AllGather", "Broadcast", "Reduce", "ReduceScatter", "AlltoAll", "Send", "Recv")


def has_otf2(sandbox):
    return "otf2: OUT" in sandbox.run([sandbox.build.command, "export", "--help"], sandbox.environment(preload=False)).out


def imported(sandbox, *paths):
    """A recording of them, and what the command says of it."""
    into = os.path.join(sandbox.fresh("imported"), "recording")
    done = sandbox.run([sandbox.build.command, "import", *paths, "-o", into, "--json"], sandbox.environment(preload=False),
                       timeout=60)
    check_equal(done.status, 0, f"import {paths}: {done}")
    return into, json.loads(done.out)


def lines_of(sandbox, directory):
    """What `trace --json` prints, as a file."""
    path = os.path.join(sandbox.fresh("lines"), "calls.jsonl")
    done = sandbox.run([sandbox.build.command, "trace", "--json", directory], sandbox.environment(preload=False), timeout=60)
    with open(path, "w") as file:
        file.write(done.out)
    return path


def sorted_calls(calls):
    return sorted(calls, key=lambda call: (call["rank"], call["seq"]))


def without(calls, keys):
    return [{key: value for key, value in call.items() if key not in keys} for call in calls]


def check_same(seen, expected, what, but=frozenset()):
    for call, wanted in zip(without(sorted_calls(seen), but | LOOKED_UP), without(sorted_calls(expected), but | LOOKED_UP)):
        different = {key: (call.get(key), wanted[key]) for key in wanted if call.get(key) != wanted[key]}
        check_equal(different, {}, f"{what}: rank {wanted['rank']}, {wanted['op']} at {wanted['time_ns']}")
    check_equal(len(seen), len(expected), f"{what}: calls")


def check_numbers(seen, expected):
    """The calls of a group, and the call that a request waits for, are the same ones."""
    for rank in {call["rank"] for call in expected}:
        pairs = [(call, wanted) for call, wanted in zip(sorted_calls(seen), sorted_calls(expected)) if wanted["rank"] == rank]
        renamed = {wanted["seq"]: call["seq"] for call, wanted in pairs}
        groups = {}
        for call, wanted in pairs:
            check_equal(call["group"] is None, wanted["group"] is None, f"rank {rank}: in a group")
            check_equal(groups.setdefault(wanted["group"], call["group"]), call["group"], f"rank {rank}: of one group")
            if wanted["waiter"] in renamed:
                check_equal(call["waiter"], renamed[wanted["waiter"]], f"rank {rank}: waits for it")


def through_lines(sandbox, directory, calls):
    again, said = imported(sandbox, lines_of(sandbox, directory))
    check_equal((said["format"], said["calls"]), ("jsonl", len(calls)), "what import says")
    check_same(calls_of(sandbox, again), calls, "jsonl")
    return again


def through_chakra(sandbox, directory, calls):
    again, said = imported(sandbox, Exported(sandbox, directory, "chakra", "et").path)
    seen = calls_of(sandbox, again)
    held = {(call["rank"], call["time_ns"], call["op"]) for call in seen}
    expected = [call for call in calls if (call["rank"], call["time_ns"], call["op"]) in held]
    check_equal((said["format"], len(seen)), ("chakra", len(expected)), "what import says")
    check_same(seen, expected, "chakra", NUMBERS)
    check_numbers(seen, expected)
    return expected


def through_otf2(sandbox, directory, calls):
    if not has_otf2(sandbox):
        return None
    again, said = imported(sandbox, Exported(sandbox, directory, "otf2", "otf2").path)
    check_equal((said["format"], said["calls"]), ("otf2", len(calls)), "what import says")
    check_same(calls_of(sandbox, again), calls, "otf2")
    return again


@case
def calls_of_nccl_come_back(sandbox):
    from common_jobs import recorded
    directory = recorded(sandbox, steps=60).directory
    calls = calls_of(sandbox, directory)
    through_lines(sandbox, directory, calls)
    through_otf2(sandbox, directory, calls)
    held = through_chakra(sandbox, directory, calls)
    moving = [call for call in calls if call["op"] in MOVES_DATA and call["count"]]
    check_equal(len(held), len(moving), "calls that Chakra has nodes for")


@case
def calls_come_back_from_torchs_dumps(sandbox):
    from common_jobs import recorded
    directory = recorded(sandbox, steps=60).directory
    calls = [call for call in calls_of(sandbox, directory) if call["op"] in MOVES_DATA]
    again, said = imported(sandbox, Exported(sandbox, directory, "torch-fr", "fr").path)
    seen = [call for call in calls_of(sandbox, again)]
    check_equal(said["format"], "torch-fr", "what import says")
    wanted = [tuple(call[key] for key in OF_TORCH) for call in sorted_calls(calls)]
    check_equal([tuple(call[key] for key in OF_TORCH) for call in sorted_calls(seen)], wanted, "calls")


def mpi_job(sandbox, program, argument, status=0, timeout="3"):
    """A recorded job of 4 ranks on Open MPI."""
    path = os.path.join(sandbox.build.root, "mpi", f"mpi_{program}.openmpi")
    if not os.path.exists(path) or not shutil.which("mpirun.openmpi"):
        raise Skipped("no programs for Open MPI")
    scratch = sandbox.fresh("job")
    directory = os.path.join(scratch, "recording")
    env = sandbox.environment(preload=False, extra={"TMPDIR": scratch, "LD_LIBRARY_PATH": "", "NCCLWATCH_TIMEOUT": timeout})
    launcher = "mpirun.openmpi --allow-run-as-root --oversubscribe -n 4".split()
    done = sandbox.run([sandbox.build.command, "run", "--on-fault", "abort", "--record", directory, "--", *launcher, path, argument],
                       env, timeout=60)
    check_equal(done.status == 0, status == 0, f"{program} {argument}: {done}")
    return directory


def mpi_calls_come_back(sandbox, program, argument):
    directory = mpi_job(sandbox, program, argument)
    calls = calls_of(sandbox, directory)
    through_lines(sandbox, directory, calls)
    through_otf2(sandbox, directory, calls)
    through_chakra(sandbox, directory, calls)


for program, argument in (("clean_messages", "modes"), ("clean_collectives", "rooted"), ("clean_collectives", "nonblocking")):
    def run(sandbox, program=program, argument=argument):
        mpi_calls_come_back(sandbox, program, argument)

    run.__name__ = f"calls_of_mpi_come_back_{argument}"
    case(run)


def verdict(sandbox, *paths):
    """(kind, operation, culprits) of the first finding; None: there is none."""
    done = sandbox.run([sandbox.build.command, "diagnose", "--json", *paths], sandbox.environment(preload=False), timeout=60)
    check(done.status in (0, 1), f"diagnose {paths}: {done}")
    findings = json.loads(done.out)["findings"]
    return (findings[0]["kind"], sorted(findings[0]["culprits"])) if findings else None


def hung_example(sandbox, example):
    build = sandbox.build
    path = os.path.join(build.root, "examples", example)
    build.need(path)
    scratch = sandbox.fresh("job")
    directory = os.path.join(scratch, "recording")
    env = sandbox.environment(preload=False, extra={"TMPDIR": scratch})
    launch = [sys.executable, os.path.join(ROOT, "examples", "launch.py"), "-n", "4", "--timeout", "15", "--"]
    sandbox.run([build.command, "run", "--timeout", "3", "--on-fault", "abort", "--record", directory, "--", *launch, path],
                env, timeout=60)
    return directory


def check_verdicts(sandbox, directory):
    told = verdict(sandbox, directory)
    check(told, "a fault was found")
    paths = {"jsonl": lines_of(sandbox, directory), "torch-fr": Exported(sandbox, directory, "torch-fr", "fr").path}
    if has_otf2(sandbox):
        paths["otf2"] = Exported(sandbox, directory, "otf2", "otf2").path
    for form, path in paths.items():
        again = verdict(sandbox, path)
        check_equal(again, told, f"verdict on {form}")
    again = verdict(sandbox, Exported(sandbox, directory, "chakra", "et").path)
    check(again is None or again[1] == told[1], f"verdict on chakra accuses others: {again}, not {told}")


for example in ("skipped_collective", "wrong_dtype", "rank0_logging"):
    def run(sandbox, example=example):
        check_verdicts(sandbox, hung_example(sandbox, example))

    run.__name__ = f"verdict_comes_back_{example}"
    case(run)


for program, argument in (("messages", "tag"), ("collectives", "missing")):
    def run(sandbox, program=program, argument=argument):
        """A recording of calls does not hold the job's timeout: the default one, 10 s, must have passed."""
        directory = mpi_job(sandbox, program, argument, status=1, timeout="12")
        told = verdict(sandbox, directory)
        check(told, "a fault was found")
        check_equal(verdict(sandbox, lines_of(sandbox, directory)), told, "verdict on jsonl")
        if has_otf2(sandbox):
            check_equal(verdict(sandbox, Exported(sandbox, directory, "otf2", "otf2").path), told, "verdict on otf2")

    run.__name__ = f"verdict_of_mpi_comes_back_{argument}"
    case(run)


@case
def a_short_wait_is_not_called_healthy(sandbox):
    directory = mpi_job(sandbox, "collectives", "missing", status=1)
    done = sandbox.run([sandbox.build.command, "diagnose", "--json", lines_of(sandbox, directory)],
                       sandbox.environment(preload=False), timeout=60)
    told = json.loads(done.out)
    check_equal((told["healthy"], told["findings"]), (False, []), "a wait of 3 s, of which nobody knows what it may take")
    check(any("calls were under way" in part for part in told["missing"]), f"{told['missing']}")
