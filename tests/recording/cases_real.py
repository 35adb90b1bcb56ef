"""Recorded jobs on NCCL and on MPI: the same calls again, the right data, and the same verdict where they hang."""

import json
import os
import sys

from cases_replay import recorded_in, told_and_replayed, verdict
from common import ROOT, Recorded
from harness import Skipped, case, check, check_equal, soak_case

LAUNCH = [sys.executable, os.path.join(ROOT, "examples", "launch.py"), "-n", "4", "--timeout", "15", "--"]
LAUNCHERS = {"openmpi": "mpirun.openmpi --allow-run-as-root --oversubscribe -n {n}", "mpich": "mpirun.mpich -n {n}"}


def shapes(job, directory=None):
    """{rank: [what each call that communicates was asked for]}"""
    shapes = {}
    for call in sorted(job.calls(directory=directory), key=lambda call: call["seq"]):
        if call["communicator"] and call["count"] is not None:
            shapes.setdefault(call["rank"], []).append(
                tuple(call[key] for key in ("op", "count", "dtype", "reduction", "root", "peer", "position")))
    return shapes


@case
def nccl_plays_the_same_calls(sandbox):
    job = Recorded(sandbox, ranks=3, steps=60)
    out = os.path.join(job.scratch, "played")
    told = job.json("replay", "--on", "nccl", "-n", "3", "--out", out)
    check_equal((told["completed"], told["wrong"], told["not_played"], told["findings"]), (True, 0, {}, []), f"{told}")
    check_equal(shapes(job, out), shapes(job), "calls, rank by rank")
    check_equal(sum(row["calls"] for row in told["rows"]), told["calls"], "calls of all rows")
    for row in told["rows"]:
        check(row["checked"] == row["calls"] and row["time_us"] > 0 and row["algbw_GBps"] > 0, f"{row}")
    thrice = job.json("replay", "--on", "nccl", "--no-gaps", "--loop", "3")
    check_equal((thrice["calls"], thrice["wrong"]), (3 * told["calls"], 0), "three times")
    check(thrice["replayed_s"] < 3 * told["replayed_s"], "nothing lies between the calls")


@case
def table_of_a_replay(sandbox):
    job = Recorded(sandbox, ranks=2, steps=20)
    done = job.command("replay", "--on", "nccl")
    check_equal(done.status, 0, f"{done}")
    lines = done.out.splitlines()
    check_equal(lines[0].split()[:6], ["SIZE", "COUNT", "TYPE", "REDOP", "ROOT", "OP"], "the head")
    check(lines[-1].startswith("completed: ") and " of 2 ranks in " in lines[-1], lines[-1])


@case
def wrong_numbers_of_ranks(sandbox):
    job = Recorded(sandbox, ranks=2, steps=20)
    done = job.command("replay", "--on", "nccl", "-n", "3")
    check_equal(done.status, 3, f"{done}")
    check("the recording has 2 ranks, not 3" in done.err, done.err)


@case
def ranks_of_a_launcher(sandbox):
    """Each process that a launcher starts plays one rank; that of rank 0 prints the table."""
    job = Recorded(sandbox, ranks=2, steps=20)
    env = sandbox.environment(preload=False, extra={"TMPDIR": job.scratch})
    launch = [sys.executable, os.path.join(ROOT, "examples", "launch.py"), "-n", "2", "--timeout", "30", "--"]
    done = sandbox.run([*launch, sandbox.build.command, "replay", "--on", "nccl", job.directory], env, cwd=job.scratch)
    check_equal(done.status, 0, f"{done}")
    check_equal(done.out.count("SIZE"), 1, f"one table: {done.out}")


@case
def what_if_on_nccl(sandbox):
    job = Recorded(sandbox, ranks=2, steps=20)
    plain = job.json("replay", "--on", "nccl")["replayed_s"]
    late = job.json("replay", "--on", "nccl", "--delay", "rank=1:2s")["replayed_s"]
    check(late - plain > 1.5, f"a rank that comes 2 s later: {plain} {late}")
    for words in (("--on", "nccl", "--link", "a-b:50%"), ("--on", "mpi", "--fit", "self"), ("--loop", "2"), ("-n", "2")):
        done = job.command("replay", *words)
        check_equal(done.status, 2, f"{words}: {done}")
        check("means nothing with --on" in done.err, done.err)


@case
def parts_of_splits(sandbox):
    """A communicator without its parent, and ranks of it, on the model and on NCCL."""
    build = sandbox.build
    program = build.program("recording", "halves")
    build.need(program)
    scratch = sandbox.fresh("job")
    directory = os.path.join(scratch, "recording")
    env = sandbox.environment(preload=False, extra={"HOST_ID_DIR": scratch, "TMPDIR": scratch})
    done = sandbox.run([build.command, "run", "--record", directory, "--", *LAUNCH, program], env)
    check_equal(done.status, 0, f"{done}")

    def replay(*words):
        done = sandbox.run([build.command, "replay", "--json", *words, directory], env)
        check_equal(done.status, 0, f"{words}: {done}")
        return json.loads(done.out)

    whole = replay("--on", "nccl")
    halves = [row for row in whole["rows"] if row["count"] == 1024]
    check_equal([row["calls"] for row in halves], [100, 100], "calls of both halves")
    for words in (("--ranks", "0,2"), ("--comm", halves[0]["communicator"])):
        check(replay(*words)["completed"], f"{words} on the model")
        part = replay("--on", "nccl", *words)
        check_equal([(row["count"], row["calls"], row["checked"], row["wrong"]) for row in part["rows"]],
                    [(1024, 100, 100, 0)], f"{words}: {part['rows']}")


@case
def damaged(sandbox):
    """What cannot be read is not left out."""
    job = Recorded(sandbox, ranks=2, steps=400)
    job.without_boxes()
    with open(job.segments()[0], "r+b") as file:
        file.seek(-10, os.SEEK_END)
        byte = file.read(1)
        file.seek(-10, os.SEEK_END)
        file.write(bytes([byte[0] ^ 1]))
    done = job.command("replay", "--on", "nccl")
    check_equal(done.status, 3, f"{done}")
    check(job.segments()[0] in done.err and "at byte " in done.err, done.err)


EXAMPLES = ("bucket_sizes", "exception", "frozen", "killed", "missing_at_start", "rank0_logging", "skipped_collective",
            "stuck_data_loader", "stuck_stream", "uneven_last_batch", "wrong_dtype", "wrong_world_size")
for each in EXAMPLES:
    def run(sandbox, example=each):
        """The same verdict on the model and on NCCL."""
        path = os.path.join(sandbox.build.root, "examples", example)
        sandbox.build.need(path)
        extra = {"NCCLWATCH_GPU": "both"} if example == "stuck_stream" else {}
        scratch, directory = recorded_in(sandbox, [*LAUNCH, path], extra)
        told, model = told_and_replayed(sandbox, directory)
        expected = verdict(told)
        check(expected is not None, f"a fault was found: {told}")
        check_equal((model["completed"], verdict(model)), (False, expected), "verdict on the model")
        # Beside other tests a rank may start seconds after the first; a stuck stream needs a stall while its host is in the call.
        env = sandbox.environment(preload=False, extra={"TMPDIR": scratch, "NCCLWATCH_TIMEOUT": "3" if extra else "6", **extra})
        done = sandbox.run([sandbox.build.command, "replay", "--on", "nccl", "--json", directory], env, timeout=60)
        check_equal(done.status, 1, f"{done}")
        played = json.loads(done.out)
        got = verdict(played)
        if example == "missing_at_start":  # a process that plays no call of NCCL is not seen
            expected, got = expected[0], got[0]
        check_equal((played["completed"], got), (False, expected), f"verdict on NCCL: {played['findings'][:1]}")
    run.__name__ = f"example_{each}"
    case(run)


def on_mpi(sandbox, mpi, program, argument, options=()):
    build = sandbox.build
    path = os.path.join(build.root, "mpi", f"mpi_{program}.{mpi}")
    if not os.path.exists(path):
        raise Skipped(f"no programs for {mpi}")
    scratch = sandbox.fresh("job")
    directory, out = os.path.join(scratch, "recording"), os.path.join(scratch, "played")
    env = sandbox.environment(preload=False, extra={"TMPDIR": scratch, "LD_LIBRARY_PATH": "", "NCCLWATCH_TIMEOUT": "3"})
    launcher = LAUNCHERS[mpi].format(n=4).split()
    sandbox.run([build.command, "run", "--on-fault", "abort", "--record", directory, "--", *launcher, path, argument], env,
                timeout=60)
    told, model = told_and_replayed(sandbox, directory)
    done = sandbox.run([build.command, "replay", "--on", "mpi", "--launcher", LAUNCHERS[mpi], "--out", out, "--json",
                        *options, directory], env, timeout=60)
    check(done.out.startswith("{"), f"{done}")

    def calls(of):
        lines = sandbox.run([build.command, "trace", "--json", of], env).out.splitlines()
        rows = sorted((json.loads(line) for line in lines), key=lambda call: (call["rank"], call["seq"]))
        keys = ("rank", "op", "count", "bytes", "dtype", "reduction", "root", "peer", "position")
        return [tuple(call[key] for key in keys) for call in rows if call["communicator"]]

    return told, model, json.loads(done.out), calls(directory), calls(out)


ENDS = (("clean_collectives", "rooted"), ("clean_collectives", "nonblocking"), ("clean_collectives", "operators"),
        ("clean_messages", "modes"))
HANGS = (("messages", "tag"), ("messages", "receive_receive"), ("collectives", "reduction"), ("collectives", "missing"))
for library in LAUNCHERS:
    def ends(sandbox, mpi=library):
        for program, argument in ENDS:
            told, model, played, recorded, again = on_mpi(sandbox, mpi, program, argument)
            check_equal(told["findings"], [], f"{argument}: it is healthy")
            check_equal((model["completed"], model["findings"]), (True, []), f"{argument}: on the model: {model}")
            check_equal((played["completed"], played["wrong"], played["not_played"], played["findings"]),
                        (True, 0, {}, []), f"{argument}: {played}")
            check_equal(again, recorded, f"{argument}: calls")

    def hangs(sandbox, mpi=library, programs=HANGS):
        for program, argument in programs:
            told, model, played, _, _ = on_mpi(sandbox, mpi, program, argument)
            check(verdict(told) is not None, f"{argument}: a fault was found: {told}")
            check_equal(verdict(model), verdict(told), f"{argument}: verdict on the model")
            check_equal(verdict(played), verdict(told), f"{argument}: verdict on {mpi}")

    def hangs_once(sandbox, hangs=hangs):
        hangs(sandbox, programs=HANGS[:1])

    ends.__name__, hangs.__name__ = f"{library}_plays_the_same_calls", f"{library}_hangs_again"
    hangs_once.__name__ = f"{library}_hangs_again_over_a_tag"
    case(ends)
    soak_case(hangs)
    case(hangs_once)


@case
def what_leaked_is_no_finding_of_the_replay(sandbox):
    told, _, played, _, _ = on_mpi(sandbox, "openmpi", "lives", "left_communicator")
    check_equal([finding["kind"] for finding in told["findings"]], ["resource_leak"], f"the recording: {told}")
    check_equal((played["completed"], played["findings"]), (True, []), f"the replay: {played}")
