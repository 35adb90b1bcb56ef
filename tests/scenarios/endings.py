"""Every way in which a rank comes to grief: what is said of it, and that the job ends as it does without ncclwatch."""

import dataclasses
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time

import faults
import healthy
import sanitizer
from job import Failure, Job, processes_marked
from situations import Skip, remove

PROGRAMS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "programs")
RANKS, CULPRIT, STEP = 4, 2, 20
TIMEOUT_S = 2.0  # NCCLWATCH_TIMEOUT
PATIENCE_S = 30.0
BY_SIGTERM = signal.SIGTERM  # a wait status


@dataclasses.dataclass
class Ending:
    """kind and certainty of the verdict, what its sentence must say, what stands among its evidence, how the culprit
    ends (a signal, a status, or neither: it lives on until it is ended with the others), and what the verdict's last
    words hold."""
    kind: str
    says: list
    evidence: list = dataclasses.field(default_factory=list)
    signal: int = None
    status: int = None
    words: dict = dataclasses.field(default_factory=dict)
    out_of_memory: bool = False
    python: bool = False
    certainty: str = "certain"
    leads: bool = None  # whether the culprit is the rank that leads the others' watchdogs; None: never mind


def python_line(mark):
    with open(os.path.join(PROGRAMS, "last_words.py")) as file:
        return next(number for number, text in enumerate(file, 1) if mark in text)


# The functions of a sanitizer's own come in between.
PLACE = r"" if sanitizer.RUNTIME else r" in last_words\+0x"
DEVICE = r"96\.0 MiB of memory on device \d \({}; \d+\.\d MiB of 64\.0 MiB were free\)"
ABRT = r"died of SIGABRT" + PLACE
REFUSED = DEVICE.format("cuMemAlloc") + " and exited with status 1"
NO_BATCH = "the batch of this rank is empty"
DAMAGED = "this rank's batch is damaged"
IN_PAUSE = [r"^rank 2 stands in .*pause.* from main \(last_words\)"]
ENDINGS = {
    "null": Ending(
        "dead_rank", [r"died of SIGSEGV" + PLACE], [r"^SIGSEGV \(through a null pointer, at 0x0\) in thread"],
        signal=signal.SIGSEGV),
    "overflow": Ending(
        "dead_rank", [r"died of SIGSEGV"], [r"stack overflowed|stack overflow at"], signal=signal.SIGSEGV),
    "abort": Ending("dead_rank", [ABRT], [r"^SIGABRT \(sent by pid \d+\) in thread"], signal=signal.SIGABRT),
    "terminate": Ending(
        "dead_rank", [ABRT + rf".*: uncaught std::runtime_error: {NO_BATCH}"],
        [rf"^its last words: uncaught std::runtime_error: {NO_BATCH}"], signal=signal.SIGABRT,
        words={"exception": {"language": "c++", "type": "std::runtime_error", "message": NO_BATCH}}),
    "cuda_memory": Ending(
        "out_of_memory", [r"could not get " + REFUSED], status=1,
        words={"allocation": {"function": "cuMemAlloc", "bytes": 96 << 20, "total_bytes": 64 << 20}}),
    "cuda_memory_and_stay": Ending(
        "out_of_memory", [r"could not get " + DEVICE.format("cuMemAlloc") + " and has made no progress since"], IN_PAUSE,
        certainty="likely"),
    "nccl_memory": Ending(
        "out_of_memory", [r"could not get " + DEVICE.format("ncclMemAlloc") + " and exited with status 1"], status=1),
    "host_memory": Ending(
        "out_of_memory", [r"was killed by the kernel because memory ran out"],
        [r"^the kernel has counted an out-of-memory kill", r"^it had \d+\.\d MiB resident, .*; its host had .* free$"],
        signal=signal.SIGKILL, out_of_memory=True),
    "refused": Ending(
        "library_error", [r"got invalid_argument from NCCL's Broadcast .* and exited with status 1"], status=1,
        words={"error": {"op": "Broadcast", "result": "invalid_argument", "asynchronous": False}}),
    "refused_and_stay": Ending(
        "library_error", [r"got invalid_argument from NCCL's Broadcast .* and has made no progress since"], IN_PAUSE,
        certainty="likely"),
    "stop": Ending(
        "frozen_process", [r"is stopped by a signal"],
        [r"^rank 2 stands in .*raise.* from main \(last_words\)", r"SIGSTOP or the like"], certainty="likely"),
    "read": Ending(
        "missing_participant", [r"is alive and has not called AllReduce"],
        [r"^rank 2: thread \d+ .* is stuck in the kernel \(uninterruptible\) in read\(\d+: /.*/data\)",
         r"^rank 2 stands in read .* from main \(last_words\)"], certainty="likely"),
    "python_exit": Ending("dead_rank", [r"exited with status 1( while|;)"], status=1, python=True),
    "python_os_exit": Ending("dead_rank", [r"exited with status 3( while|;)"], status=3, python=True),
    "python_raise": Ending(
        "dead_rank",
        [rf"status 1: uncaught ValueError: {DAMAGED} \(last_words\.py:{python_line('# THE LINE')} in load_batch\)"],
        status=1, python=True,
        words={"exception": {"language": "python", "type": "ValueError", "message": DAMAGED}}),
    "python_memory": Ending(
        "out_of_memory", [r"could not get " + REFUSED],
        [r"uncaught .*OutOfMemoryError: CUDA out of memory. Tried to allocate 96 MiB\."], status=1, python=True,
        words={"exception": {"language": "python", "message": "CUDA out of memory. Tried to allocate 96 MiB."}}),
}


def command(build, name, surroundings):
    launcher = [sys.executable, os.path.join(PROGRAMS, "wait_statuses.py"), str(RANKS)]
    if ENDINGS[name].python:
        return launcher + [sys.executable, os.path.join(PROGRAMS, "last_words.py")]
    options = {"--rank": -1, "--step": STEP, "--steps": 1_000_000, "--step-ms": 5}
    words = [str(word) for item in options.items() for word in item]
    return [*launcher, *surroundings, build.program("last_words"), *words]


def environment(name, mode="preload", **more):
    if sanitizer.RUNTIME and mode == "bare" and ENDINGS[name].python:
        more["LD_PRELOAD"] = sanitizer.RUNTIME
    return {"SCENARIO_END": name.removeprefix("python_"), "SOFTGPU_MEMORY": "64M",
            "NCCLWATCH_TIMEOUT": f"{TIMEOUT_S:g}", **more}


def statuses(job):
    try:
        with open(os.path.join(job.root, "statuses")) as file:
            return {int(rank): int(status) for rank, status in map(str.split, file)}
    except FileNotFoundError:
        return {}


def choose(job, want):
    """The rank that is to come to grief, and where it matters one that leads the others' watchdogs or does not."""
    if want.leads is None:
        return CULPRIT
    def settled():
        pid, ranks = job.leader_pid(), job.ranks()
        return pid in ranks.values() and [rank for rank in sorted(ranks) if (ranks[rank] == pid) == want.leads]
    return job.wait_until(settled, PATIENCE_S, "a rank was to lead")[-1]


def plant(job, culprit):
    with open(job.culprit_file + ".new", "w") as file:
        file.write(str(culprit))
    os.rename(job.culprit_file + ".new", job.culprit_file)
    job.wait_until(job.fault_ns, PATIENCE_S, "the fault was to happen")


def finish(job):
    """Ends the ranks that are left; the wait status of every rank."""
    with open(os.path.join(job.root, "end"), "w"):
        pass
    job.wait(PATIENCE_S)
    return statuses(job)


def verdict(job, want):
    def final():
        document = job.look()
        first = document["findings"][0] if document and document["findings"] else None
        if not first or (first["certainty"], first["kind"]) != (want.certainty, want.kind):
            return False
        # Where the living stand is told a moment later.
        return not alive(want) or any(re.search(want.evidence[0], line) for line in first["evidence"])
    try:
        job.wait_until(final, PATIENCE_S, "the verdict was to be on disk")
    except Failure as failure:
        raise Failure(f"{failure}\n{json.dumps(job.look(), indent=1)}") from None


def alive(want):
    return want.signal is None and want.status is None


def check_verdict(document, want, culprit):
    first = faults.check_finding(document, {"kind": want.kind, "certainty": want.certainty}, culprit,
                                 "diagnosis.json")
    text = json.dumps(first, indent=1)
    for pattern in want.says:
        if not re.search(pattern, first["summary"]):
            raise Failure(f"the sentence does not say `{pattern}`:\n{text}")
    for pattern in want.evidence:
        if not any(re.search(pattern, line) for line in first["evidence"]):
            raise Failure(f"no evidence says `{pattern}`:\n{text}")
    # A death is told at once, whoever has got as far as waiting for it.
    others = {rank for rank in range(RANKS) if rank != culprit}
    victims = set(first["victims"])
    if not first["next_steps"] or not victims <= others or alive(want) and victims != others:
        raise Failure(f"next steps or victims:\n{text}")
    details, = first["culprit_details"]
    if not alive(want):
        exit = details["exit"]
        if (exit["signal"], exit["status"], exit["out_of_memory"]) != (want.signal, want.status, want.out_of_memory):
            raise Failure(f"exit: {text}")
    for part, fields in want.words.items():
        said = (details["last_words"] or {}).get(part) or {}
        if {key: said.get(key) for key in fields} != fields:
            raise Failure(f"last words of {part}: {text}")
    return first


def check_text(job, first):
    """What a person reads: the same sentence once on the screen and in diagnosis.txt."""
    if job.printed(first["summary"]) != 1:
        raise Failure(f"the diagnosis was printed {job.printed(first['summary'])} times:\n{job.output()}")
    with open(os.path.join(job.run_directory, "diagnosis.txt")) as file:
        text = file.read()
    if first["summary"] not in " ".join(text.split()):
        raise Failure(f"diagnosis.txt says something else:\n{text}")
    print(text)


def bare(build, name, want, culprit, surroundings, extra, **options):
    """The wait statuses without ncclwatch."""
    env = environment(name, "bare", **extra)
    with Job(build, command(build, name, surroundings), mode="bare", environment=env, **options) as job:
        plant(job, culprit)
        if not alive(want):
            job.wait_until(lambda: culprit in statuses(job), PATIENCE_S, "the culprit was to end")
        return finish(job)


def run(build, name, surroundings=(), extra=None, leads=None, **options):
    want, extra, surroundings = dataclasses.replace(ENDINGS[name], leads=leads), extra or {}, list(surroundings)
    with Job(build, command(build, name, surroundings), environment=environment(name, **extra), **options) as job:
        # Who dies before the leader has seen it leaves no exit status behind.
        job.wait_until(lambda: healthy.watch_line(job.output()), PATIENCE_S, "all ranks were to be watched")
        culprit = choose(job, want)
        plant(job, culprit)
        verdict(job, want)
        watched = finish(job)
        document = job.look()
        first = check_verdict(document, want, culprit)
        check_text(job, first)
        faults.check_offline(job, document)
        job.wait_until(lambda: not processes_marked(job.root), 10, "all processes were to be gone")
    check_statuses(want, culprit, bare(build, name, want, culprit, surroundings, extra, **options), watched)


def check_statuses(want, culprit, plain, watched):
    if plain != watched:
        raise Failure(f"wait statuses by rank {watched}, without ncclwatch {plain}")
    if set(plain) != set(range(RANKS)):
        raise Failure(f"wait statuses of ranks {sorted(plain)} only")
    status = plain[culprit]
    got = (os.WTERMSIG(status), None) if os.WIFSIGNALED(status) else (None, os.WEXITSTATUS(status))
    wanted = (BY_SIGTERM, None) if alive(want) else (want.signal, want.status)
    if got != wanted or any(plain[rank] != BY_SIGTERM for rank in range(RANKS) if rank != culprit):
        raise Failure(f"wait statuses {plain}: the culprit's was to be {wanted}")
    print(f"wait statuses {watched}, core: {os.WCOREDUMP(status)}")


def memory_groups():
    """(folder, limit file) of a memory cgroup of our own for each rank, version 2 or 1."""
    for base, limit in (("/sys/fs/cgroup", "memory.max"), ("/sys/fs/cgroup/memory", "memory.limit_in_bytes")):
        folders = [os.path.join(base, f"ncclwatch-scenario-{os.getpid()}-{rank}") for rank in range(RANKS)]
        try:
            for folder in folders:
                os.mkdir(folder)
        except OSError:
            continue
        if os.path.exists(os.path.join(folders[0], limit)):
            return [(folder, os.path.join(folder, limit)) for folder in folders]
        remove(folders)
    raise Skip("no cgroup that limits memory can be made here")


def host_memory(build):
    """The kernel kills one rank, in a control group of 128 MiB: one that leads, and one that does not."""
    if sanitizer.RUNTIME:
        raise Skip("a sanitizer's own memory is more than the group's")
    groups = memory_groups()
    try:
        for _, limit in groups:
            with open(limit, "w") as file:
                file.write(str(128 << 20))
        common = groups[0][0].removesuffix("0")
        join = ["sh", "-c", f'echo $$ > {common}"$RANK"/cgroup.procs; exec "$@"', "sh"]
        for leads in (True, False):
            run(build, "host_memory", join, leads=leads)
    finally:
        remove([folder for folder, _ in groups])


def read(build):
    """A read in the kernel that nobody answers."""
    with tempfile.TemporaryDirectory() as folder:
        wrapper = [sys.executable, os.path.join(PROGRAMS, "silent_fuse.py"), folder]
        tried = subprocess.run([*wrapper, "true"], capture_output=True, text=True)
        if tried.returncode == 77:
            raise Skip(f"a silent file system cannot be made here: {tried.stdout.strip()}")
        run(build, "read", wrapper=wrapper, extra={"SCENARIO_FILE": os.path.join(folder, "data")})


MADE_APART = {"host_memory": host_memory, "read": read}
RUNS = {name: MADE_APART.get(name) or (lambda build, name=name: run(build, name)) for name in ENDINGS}
