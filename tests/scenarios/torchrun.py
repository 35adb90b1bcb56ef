"""Real torchrun and DistributedDataParallel, on CPU tensors over softgpu, under watch."""

import json
import os
import random
import shutil
import socket
import subprocess
import tempfile
import time

import evidence
import faults
import healthy
from job import SOURCE, Failure, Job, processes_marked

EXAMPLES = os.path.join(SOURCE, "examples", "torch")
PROGRAMS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "programs")
TRAINING = os.path.join(EXAMPLES, "common", "training.py")
FAILS_ONCE = os.path.join(PROGRAMS, "fails_once.py")
RANKS = 3  # as few as have a majority: each takes seconds to import torch


def example(name):
    return os.path.join(EXAMPLES, name, "train.py")


def command(build, script, ranks, *options, launcher=()):
    if not os.access(build.python, os.X_OK):
        raise Failure(f"no {build.python}: ./dev test installs torch there")
    return [build.python, "-m", "torch.distributed.run", "--nproc-per-node", str(ranks), "--master-addr", "127.0.0.1",
            "--master-port", str(free_port()), *launcher, script, *map(str, options)]


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def environment(build, **more):
    return {"NCCL_SO_PATH": os.path.join(build.softgpu, "libnccl.so.2"), "LD_LIBRARY_PATH": "",
            "OMP_NUM_THREADS": "1", "NCCLWATCH_TIMEOUT": "10", **more}


def run_healthy(build, seed=0, mode="preload"):
    ranks, workers = (4, 1) if seed % 2 else (2, 0)
    with Job(build, command(build, example("healthy"), ranks, "--workers", workers), mode=mode,
             environment=environment(build)) as job:
        healthy.check_healthy(job, job.wait(180), ranks)
        job.check_nothing_left(seconds=10)
        return {}


def line_of(script, mark):
    with open(script) as file:
        return next(number for number, text in enumerate(file, 1) if mark in text)


def run_exception(build, seed=0, mode="preload"):
    script = example("exception")
    line = line_of(script, "raise ValueError")
    return run_dead_rank(build, script, seed, mode,
                         says=f"exited with status 1: uncaught ValueError: this rank's batch is damaged (train.py:{line} in ")


def run_words(build, seed, mode, how, says, kind="dead_rank", **more):
    return run_dead_rank(build, os.path.join(PROGRAMS, "torch_words.py"), seed, mode, says, kind, **more,
                         SCENARIO_END=how)


def run_sys_exit(build, seed=0, mode="preload"):
    return run_words(build, seed, mode, "exit", "exited with status 1")


def run_os_exit(build, seed=0, mode="preload"):
    return run_words(build, seed, mode, "os_exit", "exited with status 3")


def run_out_of_memory(build, seed=0, mode="preload"):
    line = line_of(os.path.join(PROGRAMS, "torch_words.py"), "# THE LINE")
    return run_words(build, seed, mode, "memory", "OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. "
                     f"(torch_words.py:{line} in end)", "out_of_memory")


def run_killed_worker(build, seed=0, mode="preload"):
    """The line in which torch tells of the worker's end is not the cause."""
    place = os.path.join(PROGRAMS, "torch_words.py")
    line = line_of(place, "time.sleep(0.01)")

    def check(first):
        if f"torch_words.py:{line}" in first["summary"] or "DataLoader worker (pid" not in first["summary"]:
            raise Failure(f"summary: {first['summary']}")
        if not any("that line is not the cause" in text for text in first["evidence"]) or \
                not first["next_steps"][0].startswith("find what ended the worker: `dmesg"):
            raise Failure(f"{first['evidence']} {first['next_steps']}")
    return run_words(build, seed, mode, "worker", "is killed by signal: Killed", check=check, workers=1)


def run_killed(build, seed=0, mode="preload"):
    return run_dead_rank(build, os.path.join(PROGRAMS, "kills_itself.py"), seed, mode)


def run_dead_rank(build, script, seed, mode, says="", kind="dead_rank", check=None, workers=None, **variables):
    """torchrun ends the survivors at once: the verdict must be on disk before the last of them is gone."""
    draw = random.Random(f"dead rank/{seed}")
    rank = draw.randrange(RANKS)
    line = command(build, script, RANKS, "--rank", rank, "--step", draw.randrange(1, 20), "--step-ms",
                   draw.choice([1, 5, 20]), "--workers", draw.choice([0, 0, 1]) if workers is None else workers)
    with Job(build, line, mode=mode, environment=environment(build, **variables)) as job:
        job.wait_until(job.fault_ns, 120, "the fault was to happen")
        survivors = {pid for own, pid in job.ranks().items() if own != rank}
        while survivors & set(processes_marked(job.root)):
            time.sleep(0.002)
        # With the survivors all are gone who could still write it.
        if not job.look() and mode == "preload":
            raise Failure(f"no diagnosis.json when the last survivor was gone\n{job.output()[-3000:]}")
        status = job.wait(60)
        if status != 1:
            raise Failure(f"torchrun's status is {status}\n{job.output()[-3000:]}")
        if not job.seen:
            raise Failure(f"no diagnosis.json when torchrun had ended\n{job.output()[-3000:]}")
        first = faults.check_finding(job.seen[-1][1], {"kind": kind, "certainty": "certain"}, rank, "torchrun")
        if says not in first["summary"]:
            raise Failure(f"the verdict does not say `{says}`: {first['summary']}")
        if check:
            check(first)
        if job.printed(first["summary"]) != 1:
            raise Failure(f"the diagnosis was printed {job.printed(first['summary'])} times:\n{job.output()[-4000:]}")
        faults.check_offline(job, job.seen[-1][1])
        return {"latency_s": (job.seen[-1][0] - job.fault_ns()) / 1e9}


def run_uneven_data(build, seed=0, mode="preload"):
    draw = random.Random(f"uneven/{seed}")
    rank = draw.randrange(RANKS)
    line = command(build, example("uneven_data"), RANKS, "--rank", rank, "--step", draw.randrange(2, 20))
    with Job(build, line, mode=mode, environment=environment(build)) as job:
        job.wait_until(job.fault_ns, 120, "the fault was to happen")
        job.wait_until(lambda: job.look() and job.look()["findings"], 20, "a diagnosis was to be on disk")
        faults.check_finding(job.look(), {"kind": "argument_mismatch", "certainty": "certain"}, rank, "torchrun")
        lines = {call["site"]["line"] for call in job.look()["findings"][0]["calls"]}
        if lines != {line_of(TRAINING, "loss.backward()"), line_of(TRAINING, "dist.all_reduce(self.loss_sum)")}:
            raise Failure(f"the calls come from lines {lines} of the program")
        latency = (job.seen[0][0] - job.fault_ns()) / 1e9
        return {"latency_s": latency, "allowed_s": faults.PROMPT_S}


def run_stuck_loader(build, seed=0, mode="preload"):
    """The verdict quotes the Python line in which the culprit sits, and what it has called from there."""
    draw = random.Random(f"stuck/{seed}")
    rank = draw.randrange(RANKS)
    script = os.path.join(PROGRAMS, "stuck_loader.py")
    with open(script) as file:
        line = next(number for number, text in enumerate(file, 1) if "THE STUCK LINE" in text)
    with Job(build, command(build, script, RANKS, "--rank", rank, "--step", draw.randrange(2, 20)), mode=mode,
             environment=environment(build, NCCLWATCH_TIMEOUT="4")) as job:
        job.wait_until(job.fault_ns, 120, "the fault was to happen")
        first = evidence.quoted(job, rank, seconds=15)
        where = first["culprit_details"][0]["where"]
        if not where[0].startswith(f"next_batch (stuck_loader.py:{line}) in ") or "read" not in where[0] \
                or not any(text.startswith("main (stuck_loader.py:") for text in where):
            raise Failure(f"where: {where}, wanted line {line}")
        if first["kind"] != "missing_participant" or first["culprits"] != [rank]:
            raise Failure(f"{first['kind']} of {first['culprits']}")
        evidence.check_same_offline(job)
        return {}


def run_abort(build, seed=0, mode="preload"):
    """The exception that ends the other ranks says why the job was ended."""
    rank = random.Random(f"abort/{seed}").randrange(RANKS)
    script = os.path.join(PROGRAMS, "stuck_loader.py")
    with Job(build, command(build, script, RANKS, "--rank", rank, "--step", 3), mode=mode,
             environment=environment(build, NCCLWATCH_TIMEOUT="4", NCCLWATCH_ON_FAULT="abort")) as job:
        status = job.wait(120)
        if status != 1:
            raise Failure(f"torchrun's status is {status}\n{job.output()[-3000:]}")
        wanted = f"Last error: ncclwatch ended this job: missing_participant (likely): rank {rank} "
        if "RuntimeError: ncclAllReduce returned 6" not in job.output() or wanted not in job.output():
            raise Failure(f"no exception with `{wanted}`:\n{job.output()[-4000:]}")
        return {}


def run_elastic_restart(build, seed=0, mode="preload"):
    """The first attempt dies of an exception, torchrun starts a second that lives: two directories, the second clean."""
    line = command(build, FAILS_ONCE, 2, "--rank", 1, "--step", 5, "--steps", 10, launcher=("--max-restarts", "1"))
    with Job(build, line, mode=mode, environment=environment(build, TMPDIR="{root}"), directory=False) as job:
        status = job.wait(240)
        if status != 0:
            raise Failure(f"status {status}\n{job.output()[-3000:]}")
        folders = []
        for text in job.output().split("run directory ")[1:]:
            folder = text.split()[0].rstrip(",.")
            if folder not in folders:
                folders.append(folder)
        if len(folders) != 2:
            raise Failure(f"run directories {folders}, wanted two\n{job.output()[-3000:]}")
        first, bad = job.offline(folders[0])
        second, good = job.offline(folders[1])
        if first != 1 or bad["findings"][0]["kind"] != "dead_rank" or bad["job"]["attempt"] != 0:
            raise Failure(f"attempt 0: {bad}")
        if second != 0 or good["job"]["attempt"] != 1:
            raise Failure(f"attempt 1: {good}")
        shutil.rmtree(folders[0], ignore_errors=True)
        return {}


def check_restarted(job, place, rank):
    """Every command shows the attempt that failed, and the other one on request."""
    status, bad = job.offline(place)
    rows = [(row["attempt"], row["shown"], row["kind"], row["certainty"]) for row in bad["attempts"]]
    if status != 1 or rows != [(0, True, "dead_rank", "certain"), (1, False, None, None)]:
        raise Failure(f"diagnose {place}: status {status}, attempts {rows}")
    faults.check_finding(bad, {"kind": "dead_rank", "certainty": "certain"}, rank, "diagnose")
    status, good = job.offline(place, "--attempt", "1")
    if status != 0 or not good["healthy"] or good["job"]["attempt"] != 1:
        raise Failure(f"attempt 1 of {place}: {good}")
    which = "attempt 0 of 2: dead_rank (certain); attempt 1: healthy; --attempt 1 shows it"
    for words, wanted in ((["diagnose"], 1), (["stats"], 0), (["trace"], 0), (["top", "--once"], 0), (["investigate"], 1),
                          (["report", "-o", os.path.join(job.root, "page.html")], 0)):
        done = subprocess.run([job.build.command, *words, place], capture_output=True, text=True, timeout=60)
        if done.returncode != wanted or which not in done.stdout + done.stderr:
            raise Failure(f"{words} {place}: status {done.returncode}\n{done.stderr}{done.stdout[:2000]}")


def run_restart_after_kill(build, seed=0, mode="run"):
    """A rank is killed, torchrun starts all again, and the job ends well: the failure is still what everybody is shown."""
    rank = random.Random(f"restart/{seed}").randrange(2)
    line = command(build, FAILS_ONCE, 2, "--rank", rank, "--step", 5, "--steps", 10, launcher=("--max-restarts", "1"))
    variables = environment(build, SCENARIO_END="kill", TMPDIR="{root}")
    with tempfile.TemporaryDirectory(prefix="ncclwatch-recording-") as scratch:
        recording = os.path.join(scratch, "recording")
        with Job(build, [build.command, "run", "--record", recording, "--", *line], mode="bare", environment=variables) as job:
            status = job.wait(240)
            if status != 0:
                raise Failure(f"status {status}\n{job.output()[-3000:]}")
            if "dead_rank (certain)" not in job.output():
                raise Failure(f"the first attempt's verdict was not printed:\n{job.output()[-3000:]}")
            for place in (job.run_directory, recording):
                check_restarted(job, place, rank)
            return {}


def named_groups(prefix):
    """{(elements, members): name} as the program gave them."""
    groups = {}
    for rank in range(4):
        with open(f"{prefix}.{rank}") as file:
            groups.update({(elements, tuple(members)): name for elements, name, members in json.load(file)})
    return groups


def wrong_names(job, place, groups):
    """What is wrong with the names of calls: each has that of its group, by the number of elements and the rank."""
    done = subprocess.run([job.build.command, "trace", "--json", place], capture_output=True, text=True, timeout=60)
    calls = [json.loads(line) for line in done.stdout.splitlines()]
    calls = [call for call in calls if call["op"] == "AllReduce" and call["count"] != 1]
    wrong = set()
    for call in calls:
        (wanted,) = {name for (elements, members), name in groups.items()
                     if elements == call["count"] and call["rank"] in members}
        if call["label"] != wanted:
            wrong.add((call["rank"], wanted, call["label"]))
    if done.returncode == 0 and calls and not wrong:
        return None
    return f"{place}: status {done.returncode}, {len(calls)} calls, (rank, name, label): {sorted(wrong)}"


def check_named_apart(job, place, scratch):
    """Two groups with one name are two rows of stats; Perfetto's tracks and the page have the names."""
    def run(*words):
        done = subprocess.run([job.build.command, *words], capture_output=True, text=True, timeout=120)
        if done.returncode != 0:
            raise Failure(f"{words}: status {done.returncode}\n{done.stderr}")
        return done.stdout

    rows = {line.split()[1] + " " + line.split()[2] for line in run("stats", place).splitlines() if " tp " in line}
    if len(rows) != 2:
        raise Failure(f"stats has rows {rows} for the two groups tp")
    trace, page = os.path.join(scratch, "trace.pftrace"), os.path.join(scratch, "page.html")
    run("export", "--to", "perfetto", "-o", trace, place)
    run("report", "-o", page, place)
    for path, wanted in ((trace, b"twin ("), (page, b"twin")):
        with open(path, "rb") as file:
            if wanted not in file.read():
                raise Failure(f"{path} does not have {wanted}")


def run_group_names(build, seed=0, mode="run"):
    """Communicators bear the names of torch's groups, in live boxes, in a recording, and in what is made of them.
    Its communicators are made in the first call; those of group_in_verdict at once."""
    with tempfile.TemporaryDirectory(prefix="ncclwatch-recording-") as scratch:
        prefix, recording = os.path.join(scratch, "groups"), os.path.join(scratch, "recording")
        line = command(build, os.path.join(PROGRAMS, "named_groups.py"), 4)
        variables = environment(build, GROUPS_FILE=prefix, GROUPS_BACKEND="late_nccl")
        with Job(build, [build.command, "run", "--record", recording, "--keep", "--", *line], mode="bare",
                 environment=variables) as job:
            job.wait_until(lambda: all(os.path.exists(f"{prefix}.{rank}") for rank in range(4)), 120, "groups were to be made")
            groups = named_groups(prefix)
            deadline = time.monotonic() + 30
            while wrong_names(job, job.run_directory, groups) and time.monotonic() < deadline:
                time.sleep(0.5)
            open(prefix + ".end", "w").close()
            status, wrong = job.wait(120), wrong_names(job, recording, groups)
            if status != 0 or wrong:
                raise Failure(f"status {status}, {wrong}\n{job.output()[-3000:]}")
            check_named_apart(job, recording, scratch)
    return {}


def run_group_in_verdict(build, seed=0, mode="preload"):
    """The verdict says in which group it is, on a live job and afterwards."""
    with tempfile.TemporaryDirectory(prefix="ncclwatch-groups-") as scratch:
        line, prefix = command(build, os.path.join(PROGRAMS, "named_groups.py"), 4), os.path.join(scratch, "groups")
        variables = environment(build, GROUPS_FILE=prefix, GROUPS_SKIP="3", NCCLWATCH_TIMEOUT="4")
        with Job(build, line, mode=mode, environment=variables) as job:
            job.wait_until(job.fault_ns, 120, "the fault was to happen")
            job.wait_until(lambda: job.look() and job.look()["findings"], 20, "a diagnosis was to be on disk")
            groups = named_groups(prefix)
            for document in (job.look(), job.offline()[1]):
                first = faults.check_finding(document, {"kind": "missing_participant", "certainty": "likely"}, 3, "torchrun")
                elements = {call["count"] for call in first["calls"] if call["op"]}
                (name,) = {name for (count, _), name in groups.items() if count in elements}
                if first["communicator"]["label"] != name or f'communicator "{name}"' not in first["summary"]:
                    raise Failure(f"the verdict does not name {name}: {first['communicator']}: {first['summary']}")
    return {}


def run_skipped_group(build, seed=0, mode="preload"):
    """A new_group that one rank leaves out: it waits for the others in the next call, but it is the one that is missing."""
    script = os.path.join(PROGRAMS, "skipped_group.py")
    with Job(build, command(build, script, 4, "--rank", 2, "--step", 3), mode=mode,
             environment=environment(build, NCCLWATCH_TIMEOUT="4")) as job:
        job.wait_until(job.fault_ns, 120, "the fault was to happen")
        job.wait_until(lambda: job.look() and job.look()["findings"], 20, "a diagnosis was to be on disk")
        for document in (job.look(), job.offline()[1]):
            first = faults.check_finding(document, {"kind": "initialization_hang", "certainty": "likely"}, 2, "torchrun")
            calls = {call["state"]: call["ranks"] for call in first["calls"]}
            if first["victims"] != [0, 1, 3] or calls != {"entered": [0, 1, 3], "not_called": [2]}:
                raise Failure(f"victims {first['victims']}, calls {calls}")
    return {}


def check_payloads(job, carries):
    """Calls of each count have the name or none, and the last of each has it."""
    done = subprocess.run([job.build.command, "trace", "--json", job.run_directory], capture_output=True, text=True, timeout=60)
    calls = {}
    for call in map(json.loads, done.stdout.splitlines()):
        calls.setdefault(f"{call['op']} {call['count']}", []).append(call["payload"])
    for what, name in carries.items():
        found = calls.get(what, [])
        if not found or found[-1] != name or set(found) - {None, name}:
            raise Failure(f"{what} carries {name}; its {len(found)} calls have {set(found)}, the last {found[-1:]}")


def check_unwatched(build):
    """Without the library nothing is hooked."""
    code = ("import torch, ncclwatch.torch; from torch.optim.optimizer import _global_optimizer_post_hooks as hooks;"
            "ncclwatch.torch.watch(torch.nn.Linear(1, 1)); print(len(hooks))")
    done = subprocess.run([build.python, "-c", code], capture_output=True, text=True, timeout=120,
                          env={**os.environ, "PYTHONPATH": os.path.join(SOURCE, "python")})
    if done.stdout.split() != ["0"]:
        raise Failure(f"hooks without the library: {done.stdout}{done.stderr}")


def run_watched_models(build, seed=0, mode="preload"):
    """What collectives of DDP and FSDP carry, and the step of the optimizer, in the verdict on a rank that was killed."""
    check_unwatched(build)
    with tempfile.TemporaryDirectory(prefix="ncclwatch-watched-") as scratch:
        truth = os.path.join(scratch, "truth")
        script = os.path.join(PROGRAMS, "watched_models.py")
        with Job(build, command(build, script, 2), mode=mode, environment=environment(build, WATCHED_FILE=truth)) as job:
            job.wait_until(job.fault_ns, 120, "the fault was to happen")
            job.wait_until(lambda: job.look() and job.look()["findings"], 20, "a diagnosis was to be on disk")
            with open(truth + ".0") as file:
                known = json.load(file)
            for document in (job.look(), job.offline()[1]):
                first = faults.check_finding(document, {"kind": "dead_rank", "certainty": "certain"}, 1, "torchrun")
                waited, = {(f"{call['op']} {call['count']}", call["payload"]) for call in first["calls"] if call["op"]}
                name = known["carries"][waited[0]]
                if waited[1] != name or f" = {name}," not in first["summary"] or first["step"]["number"] != known["step"]:
                    raise Failure(f"{waited}, step {first['step']}: {first['summary']}; wanted {known}")
            check_payloads(job, known["carries"])
    return {}


RUNS = {"healthy": run_healthy, "exception": run_exception, "killed": run_killed, "uneven_data": run_uneven_data,
        "abort": run_abort, "elastic_restart": run_elastic_restart, "restart_after_kill": run_restart_after_kill,
        "stuck_loader": run_stuck_loader, "killed_worker": run_killed_worker, "group_names": run_group_names,
        "group_in_verdict": run_group_in_verdict, "watched_models": run_watched_models, "skipped_group": run_skipped_group}
# The long suite's alone: what the same endings without torch show in a tenth of the time.
LONG = {"sys_exit": run_sys_exit, "os_exit": run_os_exit, "out_of_memory": run_out_of_memory}
