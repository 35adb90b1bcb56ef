"""Containers with a common /dev/shm (--ipc=host): process 1 in each, the same variables, the same port; not one job."""

import os
import shutil
import subprocess
import tempfile

from harness import Failed, Process, Skipped, case, check, check_equal, until

# Rank 0 becomes process 1 itself; nobody outside started either of them.
RANKS = 'LOCAL_RANK=1 RANK=1 "$@" & export LOCAL_RANK=0 RANK=0; exec "$@"'
CONTAINER = ["unshare", "--pid", "--net", "--mount", "--mount-proc", "--fork", "--kill-child"]


def container(sandbox, shm, scratch, argv, **more):
    inside = f'mount --bind {shm} /dev/shm; ip link set lo up; ' + RANKS
    env = sandbox.environment(True, None, {
        "WORLD_SIZE": "2", "LOCAL_WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "29500",
        "SOFTGPU_NCCL_DIR": scratch,
        "SLURM_JOB_ID": "7",  # by which the examples find one another: not by their parent, who is none to process 1
        **more})
    return Process([*CONTAINER, "sh", "-c", inside, "sh", *argv], env, cwd="/")


def _unused(): pass


def run_directories(shm):
    """Those with a black box of every rank."""
    found = []
    for folder, _, names in os.walk(shm):
        if len([name for name in names if name.endswith(".box")]) >= 2:
            found.append(folder)
    return found


@case
def containers_with_a_common_shared_memory(sandbox):
    """Two jobs: a fault in one is not told in the other, and an abort ends one alone."""
    probe = [*CONTAINER, "sh", "-c", "ip link set lo up"]
    if os.geteuid() != 0 or not shutil.which("unshare") or not shutil.which("ip") or \
            subprocess.run(probe, capture_output=True).returncode != 0:
        raise Skipped("no namespaces can be made here")
    shm = sandbox.fresh("shm")
    build = sandbox.build
    programs = [os.path.join(build.root, "examples", name) for name in ("healthy_training", "wrong_dtype")]
    build.need(*programs, build.library, build.nccl)
    places = [tempfile.mkdtemp(prefix="ncclwatch-container-", dir="/tmp") for _ in programs]
    release = os.path.join(places[1], "release")
    healthy = container(sandbox, shm, places[0], [programs[0], "--steps", "1000000", "--step-ms", "5"], NCCLWATCH_ON_FAULT="abort")
    faulty = container(sandbox, shm, places[1], [programs[1], "--rank", "-1", "--step", "5", "--steps", "1000000", "--step-ms", "5"],
                       NCCLWATCH_ON_FAULT="abort", EXAMPLES_CULPRIT_FILE=release)
    try:
        def said():
            return "".join(one.read(one.err) for one in (healthy, faulty))

        try:
            until(lambda: len(run_directories(shm)) == 2, "two jobs were to be watched", 10)
        except Failed as failure:
            raise Failed(f"{failure}: {[names for names in os.walk(shm)]} {said()}") from None
        with open(release, "w") as file:
            file.write("1")
        until(lambda: faulty.popen.poll() is not None, "the fault was to end its job", 40)
        check(faulty.popen.returncode != 0, f"status of the faulty job: {faulty.read(faulty.err)}")
        check("argument_mismatch" in faulty.read(faulty.err), f"not told: {faulty.read(faulty.err)}")
        check(healthy.popen.poll() is None, f"the other job has ended too: {healthy.read(healthy.err)}")
        words = [line for line in healthy.read(healthy.err).splitlines() if "ncclwatch" in line and "watching" not in line]
        check_equal(words, [], "words of the healthy job")
    finally:
        for process in (healthy, faulty):
            process.kill()
        for place in places:
            shutil.rmtree(place, ignore_errors=True)
