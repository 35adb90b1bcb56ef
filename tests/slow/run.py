#!/usr/bin/env python3
"""Jobs that go on, with a rank that slows them and without."""

import fcntl
import json
import os
import struct
import sys
import termios
import threading
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "support"))
sys.path.insert(0, HERE)

import cases_machine  # noqa: E402,F401  (registers its cases)
from harness import Skipped, case, check, check_equal, run_main, soak_case  # noqa: E402
from job import LAUNCH, Job, example, mpi, mpi_steps  # noqa: E402
from slow_file import slow_file  # noqa: E402

ROOT = os.path.join(HERE, "..", "..")
@case
def straggler_of_a_halo_exchange(sandbox):
    """Its ranks wait for their neighbours' messages alone. What a step is may be one exchange, or those up to the next
    reduction."""
    job = mpi(sandbox, "halo", 1300, 8000, 2, 400, 6000, "sleep")
    status, findings = job.diagnose()
    check_equal((status, [(one["kind"], one["culprits"]) for one in findings]), (1, [("straggler", [2])]), f"{findings}")
    check(0.2 < findings[0]["share_lost"] < 0.6, f"{findings[0]['share_lost']}")
    check(len(job.lines) == 1 and "Rank 2 comes" in job.lines[0], f"said once while the job runs: {job.lines}")


@soak_case
def halo_exchange_with_a_file(sandbox):
    status, findings = mpi(sandbox, "halo", 1300, 8000, 1, 0, 0, "fsync").diagnose()
    check_equal((status, [one["culprits"] for one in findings]), (1, [[1]]), f"{findings}")
    check(findings[0]["kind"] in ("straggler", "blocking_checkpoint"), f"{findings}")


@soak_case
def healthy_halo_exchange(sandbox):
    mpi(sandbox, "halo", 1300, 8000, -1, 0, 0, "sleep").check_quiet()


@case
def straggler_of_nccl(sandbox):
    example(sandbox, "straggler", "--step", "200", "--steps", "900").check_straggler(2, 200, (0.1, 0.4))


@soak_case
def healthy_of_nccl(sandbox):
    example(sandbox, "straggler", "--step", "100000", "--steps", "700").check_quiet()


def slow_link(sandbox, *, from_call, often):
    """Of the example's one reduction of a step: kernels take 10 ms longer from a call on. NCCL itself times them."""
    path = os.path.join(sandbox.build.root, "examples", "straggler")
    sandbox.build.need(path, sandbox.build.command)
    return Job(sandbox, [*LAUNCH, path, "--step", "100000", "--steps", "700"],
               {"NCCL_PROFILER_PLUGIN": "STATIC_PLUGIN", "NCCLWATCH_PROFILER": often,
                "SOFTGPU_NCCL_SLOW": f"{from_call}:10000"})


@soak_case
def slow_communication_of_nccl(sandbox):
    job = slow_link(sandbox, from_call=300, often="1/4")
    status, findings = job.diagnose()
    check_equal((status, [f["kind"] for f in findings]), (1, ["slow_communication"]), "afterwards")
    finding = findings[0]
    check(abs(finding["onset"]["step"] - 300) <= 10, f"{finding['onset']}")
    check(0.15 < finding["share_lost"] < 0.5 and finding["certainty"] != "certain", f"{finding}")
    check_equal((finding["effect"]["metric"], finding["effect"]["unit"]), ("busbw", "GB/s"), "effect")
    check(finding["effect"]["after"] < 0.7 * finding["effect"]["before"], f"{finding['effect']}")
    check_equal((finding["culprits"], finding["shared_by"]), ([], {"hosts": [], "gpus": [], "rail": None, "switch": None, "pair": None}),
                "all ranks are behind the one communicator")
    check(any("slow_communication" in line for line in job.lines), f"said while it runs: {job.done.err}")


@soak_case
def healthy_kernels_of_nccl(sandbox):
    slow_link(sandbox, from_call=100000, often="1/4").check_quiet()


@soak_case
def straggler_of_mpi(sandbox):
    mpi_steps(sandbox, 800, 20000, 1, 150, 4000, "sleep").check_straggler(1, 150, (0.08, 0.25))


@soak_case
def busy_straggler_of_mpi(sandbox):
    mpi_steps(sandbox, 800, 20000, 3, 150, 4000, "busy").check_straggler(3, 150, (0.08, 0.3))


def feed(path, after_s):
    """One byte after the other into a named pipe, each so long after the one before was read."""
    def run():
        try:
            with open(path, "wb", buffering=0) as pipe:
                while True:
                    while struct.unpack("i", fcntl.ioctl(pipe, termios.FIONREAD, b"\0" * 4))[0] > 0:
                        time.sleep(after_s / 10)
                    time.sleep(after_s)
                    pipe.write(b"x")
        except BrokenPipeError:
            pass

    threading.Thread(target=run, daemon=True).start()


@soak_case
def starved_input_of_mpi(sandbox):
    pipe = os.path.join(sandbox.fresh("input"), "batches")
    os.mkfifo(pipe)
    feed(pipe, 0.01)
    job = mpi_steps(sandbox, 400, 20000, 2, 0, 0, "read", pipe)
    job.check_meanwhile("starved_input", 2, f"reads input, in read of the named pipe {pipe}")


@soak_case
def blocking_checkpoint_of_mpi(sandbox):
    with slow_file(sandbox, 12000) as mount:
        job = mpi_steps(sandbox, 300, 20000, 1, 0, 8000, "write", mount + "/data")
        job.check_meanwhile("blocking_checkpoint", 1, "writes a checkpoint or another file, in ")
        job.check_meanwhile("blocking_checkpoint", 1, f" of {mount}/data (fuse.slow_file, mounted on {mount})")


@soak_case
def healthy_of_mpi(sandbox):
    mpi_steps(sandbox, 700, 20000, 0, 100000, 0, "sleep").check_quiet()


@soak_case
def longer_than_an_earlier_run(sandbox):
    """All ranks compute longer: nobody is to blame. The same again is no finding."""
    before, again = (mpi_steps(sandbox, 100, 20000, 0, 100000, 0, "sleep") for _ in range(2))
    longer = mpi_steps(sandbox, 100, 26000, 0, 100000, 0, "sleep")
    check_equal(again.diagnose("--baseline", before.recording), (0, []), "the same again")
    status, findings = longer.diagnose("--baseline", before.recording)
    check_equal((status, [(f["kind"], f["culprits"]) for f in findings]), (1, [("slow_compute", [])]), f"{findings}")
    effect = findings[0]["effect"]
    check(0.2 < effect["change"] < 0.4 and effect["metric"] == "step_time", f"{effect}")
    check_equal(longer.diagnose("--baseline", "/nowhere")[0], 3, "no such run")


@soak_case
def all_ranks_slower_from_a_step_on(sandbox):
    """Nobody is late, and there is no earlier run to compare with."""
    status, findings = mpi_steps(sandbox, 240, 15000, -1, 120, 4000, "sleep").diagnose()
    check_equal((status, [(f["kind"], f["culprits"]) for f in findings]), (1, [("slow_compute", [])]), f"{findings}")
    check(abs(findings[0]["onset"]["step"] - 120) <= 10 and not findings[0]["onset"]["since_before"], f"{findings[0]}")
    check(0.1 < findings[0]["share_lost"] < 0.35 and findings[0]["certainty"] != "certain", f"{findings[0]}")


@soak_case
def pipeline_with_few_batches(sandbox):
    """Four stages and four micro-batches: three sevenths of each step are idle."""
    job = mpi(sandbox, "pipeline", 30, 4, 12000, -1, 0)
    status, findings = job.diagnose()
    check_equal((status, [(f["kind"], f["culprits"]) for f in findings]), (1, [("pipeline_bubble", [])]), f"{findings}")
    check(0.35 < findings[0]["share_lost"] < 0.5, f"{findings[0]}")


@soak_case
def pipeline_with_an_uneven_stage(sandbox):
    job = mpi(sandbox, "pipeline", 25, 16, 4000, 2, 6000)
    status, findings = job.diagnose()
    check_equal((status, [(f["kind"], f["culprits"]) for f in findings]), (1, [("pipeline_bubble", [2])]), f"{findings}")


@soak_case
def steps_of_a_loop(sandbox):
    """Numbers, parts and calls of steps, against what the program does."""
    job = mpi_steps(sandbox, 60, 10000, 1, 0, 10000, "sleep")
    steps = json.loads(job.command("stats", "--steps", "--json").out)["steps"]
    check_equal([step["step"] for step in steps], list(range(len(steps))), "numbers")
    check(58 <= len(steps) <= 60, f"{len(steps)} steps")
    for step in steps:
        check(0.019 < step["duration_s"] < 0.1, f"{step}")
        for rank in step["ranks"]:
            parts = sum(rank[part] for part in ("compute_s", "exposed_s", "wait_s", "idle_s"))
            check(abs(parts - rank["duration_s"]) < 0.01 * rank["duration_s"], f"the parts add up: {rank}")
    waits = {rank: sorted(r["wait_s"] for s in steps for r in s["ranks"] if r["rank"] == rank)[len(steps) // 2] for rank in range(4)}
    check(all(waits[rank] > 0.005 for rank in (0, 2, 3)) and waits[1] < 0.003, f"rank 1 is waited for: {waits}")
    calls = [json.loads(line) for line in job.command("trace", "--json", "--step", "10..19").out.splitlines()]
    reductions = [call for call in calls if call["op"] == "Allreduce"]
    check_equal(len(reductions), 4 * 10 * 3, "three reductions of four ranks in each of ten steps")
    model = json.loads(job.command("replay", "--json", "--steps", "10..19").out)
    check_equal((model["completed"], model["findings"]), (True, []), f"{model}")
    ten = sum(step["duration_s"] for step in steps[10:20])
    check(abs(model["simulated_s"] - ten) < 0.25 * ten, f"ten steps: {model['simulated_s']} s on the model, {ten} s then")
    whole = json.loads(job.command("replay", "--json").out)
    check(len(whole["steps"]) >= 58, f"{len(whole['steps'])} steps on the model")
    for step in whole["steps"]:
        check(abs(step["simulated_s"] - step["recorded_s"]) < 0.2 * step["recorded_s"], f"{step}")


def first(job):
    status, findings = job.diagnose()
    check_equal(status, 1, f"{findings}")
    return findings[0]["kind"], findings[0]["culprits"], findings[0]["onset"]["step"]


@case
def not_a_number(sandbox):
    """The rank that had it first, though all have it one step later; said while the job runs."""
    job = mpi(sandbox, "numbers", 600, 2, "nan")
    check_equal(first(job), ("numeric_fault", [2], 60), "afterwards")
    check(any("Rank 2 had NaN or Inf first: " in line for line in job.lines), f"{job.lines}")
    check_equal([(e["event_type"], e["rank"], e["step"]) for e in job.events()], [("numeric_fault", 2, 60)], "events")
    # Segments alone tell the same: what the program said of itself is in them.
    for folder, _, names in os.walk(job.recording):
        for name in names:
            if name.endswith(".box"):
                os.unlink(os.path.join(folder, name))
    check_equal(first(job)[:2], ("numeric_fault", [2]), "of segments alone")


@case
def replica_that_differs(sandbox):
    check_equal(first(mpi(sandbox, "numbers", 100, 1, "replica")), ("replica_divergence", [1], 60), "afterwards")


@case
def loss_that_jumps(sandbox):
    check_equal(first(mpi(sandbox, "numbers", 100, 3, "spike")), ("loss_spike", [3], 60), "afterwards")


@soak_case
def several_things_at_once(sandbox):
    job = mpi(sandbox, "numbers", 450, 2, "several")
    status, findings = job.diagnose()
    check_equal(status, 1, "status")
    found = {finding["kind"]: finding for finding in findings}
    wanted = {"not_learning": ([], 0), "memory_growth": ([2], 100), "checkpoint_overdue": ([], 220), "regression": ([], 300)}
    check_equal({kind: f["culprits"] for kind, f in found.items()}, {kind: ranks for kind, (ranks, _) in wanted.items()}, "kinds")
    for kind, (_, step) in wanted.items():
        check(abs(found[kind]["onset"]["step"] - step) <= 10 and found[kind]["certainty"] != "certain", f"{found[kind]}")
    check("full in" in " ".join(found["memory_growth"]["evidence"]), f"{found['memory_growth']}")
    said = [event for event in job.events() if event["event_type"] == "checkpoint"]
    check_equal(sorted((event["rank"], event["step"]) for event in said),
                [(rank, step) for rank in range(4) for step in range(0, 201, 20)], "checkpoints")


@case
def numbers_as_they_should_be(sandbox):
    check_equal(mpi(sandbox, "numbers", 100, 3, "none").diagnose(), (0, []), "afterwards")


def train(sandbox, package, program):
    """Real DDP on CPUs, which calls neither NCCL nor MPI: the program's own words make it watched."""
    python = os.environ.get("NCCLWATCH_TEST_PYTHON", os.path.join(ROOT, "build", "venv", "bin", "python"))
    if not os.path.exists(python):
        raise Skipped("no build/venv")
    found = sandbox.run([python, "-c", "import importlib.util, sys; sys.exit(importlib.util.find_spec(sys.argv[1]) is None)", package],
                        {"PATH": os.environ["PATH"]})
    if found.status != 0:
        raise Skipped(f"no {package} for {python}")
    argv = [python, "-m", "torch.distributed.run", "--nproc-per-node", "3", os.path.join(HERE, "programs", program), "2", "80"]
    job = Job(sandbox, argv, {"PYTHONPATH": os.path.join(ROOT, "python"), "OMP_NUM_THREADS": "1", "LD_LIBRARY_PATH": ""})
    check_equal(first(job), ("numeric_fault", [2], 30), "afterwards")
    return job


@case
def not_a_number_in_torch(sandbox):
    train(sandbox, "torch", "train.py")


def check_callback(job):
    saved = [(event["rank"], event["step"]) for event in job.events() if event["event_type"] == "checkpoint"]
    check(len({step for _, step in saved}) == 8 and (0, 80) in saved or (0, 79) in saved, f"a checkpoint every ten steps: {saved}")


@case
def not_a_number_told_by_the_callback_for_lightning(sandbox):
    check_callback(train(sandbox, "lightning", "train_lightning.py"))


@case
def not_a_number_told_by_the_callback_for_transformers(sandbox):
    check_callback(train(sandbox, "transformers", "train_transformers.py"))


if __name__ == "__main__":
    run_main("slow")
