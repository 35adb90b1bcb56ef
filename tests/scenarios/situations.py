"""Surroundings that are not the job's fault: a debugger, a freezer, a second job, a machine that has run out of things.
None may become a finding beyond `suspected`, and none may cost the job its life."""

import os
import select
import shutil
import signal
import subprocess
import tempfile
import time

import faults
import healthy
from job import Failure, Job, launched


class Skip(Exception):
    """Cannot be made on this machine; the text says why."""


def remove(folders):
    """Control groups, once the kernel lets go of their last process."""
    for folder in folders:
        for _ in range(100):
            try:
                os.rmdir(folder)
                break
            except OSError:
                time.sleep(0.05)


def training(build, steps, *options, ranks=4):
    return launched(build.example("healthy_training"), ranks, "--steps", steps, *options)


def complaints(job):
    """The lines of ncclwatch itself, without the one that says how many ranks are watched."""
    return [line for line in job.output().splitlines()
            if line.startswith("[ncclwatch") and "watching " not in line]


def gdb_attached(build):
    """A debugger holds one rank for longer than the time-out."""
    if not shutil.which("gdb"):
        raise Skip("no gdb here")
    with Job(build, training(build, 100), environment={"NCCLWATCH_TIMEOUT": "2"}) as job:
        job.wait_until(lambda: "step 20" in job.output(), 30, "step 20")
        subprocess.run(["gdb", "-q", "-batch", "-p", str(job.ranks()[1]), "-ex", "shell sleep 5", "-ex", "detach"],
                       stdin=subprocess.DEVNULL, capture_output=True, timeout=60, env={**os.environ, "DEBUGINFOD_URLS": ""})
        healthy.check_healthy(job, job.wait(60), 4)


def freezer():
    """(make, freeze, thaw) of a cgroup of our own, version 2 or 1."""
    name = f"ncclwatch-scenario-{os.getpid()}"
    for base, file, frozen, thawed in (("/sys/fs/cgroup", "cgroup.freeze", "1", "0"),
                                       ("/sys/fs/cgroup/freezer", "freezer.state", "FROZEN", "THAWED")):
        folder = os.path.join(base, name)
        try:
            os.mkdir(folder)
        except OSError:
            continue
        if os.path.exists(os.path.join(folder, file)):
            return folder, os.path.join(folder, file), frozen, thawed
        os.rmdir(folder)
    raise Skip("no cgroup with a freezer can be made here")


def frozen_cgroup(build):
    """One rank is frozen as a whole by its cgroup, longer than the time-out, and thawed."""
    folder, switch, frozen, thawed = freezer()

    def write(path, text):
        with open(path, "w") as file:
            file.write(text)
    try:
        with Job(build, training(build, 100), environment={"NCCLWATCH_TIMEOUT": "2"}) as job:
            try:
                job.wait_until(lambda: "step 20" in job.output(), 30, "step 20")
                write(os.path.join(folder, "cgroup.procs"), str(job.ranks()[1]))
                write(switch, frozen)
                time.sleep(5)
            finally:
                write(switch, thawed)
            healthy.check_healthy(job, job.wait(60), 4)
    finally:
        remove([folder])


def unwritable_directory(build):
    """An unwritable NCCLWATCH_DIR: one line, and the job runs on, watched elsewhere or not at all."""
    with Job(build, training(build, 20), environment={"NCCLWATCH_DIR": "/proc/ncclwatch"}) as job:
        status = job.wait(60)
        if status != 0:
            raise Failure(f"the job's status is {status}\n{job.output()}")
        said = [line for line in complaints(job) if "/proc/ncclwatch" in line]
        if not said or len(said) > 4:
            raise Failure(f"{len(said)} lines about the run directory, wanted one a process:\n{job.output()}")


def full_directory(build):
    """A run directory on a full file system."""
    with tempfile.TemporaryDirectory() as folder:
        script = 'mount -t tmpfs -o size=64k none "$1" && shift && exec "$@"'
        wrapper = ["unshare", "-m", "sh", "-c", script, "sh", folder]
        if subprocess.run([*wrapper, "true"], capture_output=True).returncode != 0:
            raise Skip("no mount namespace can be made here")
        with Job(build, training(build, 20), environment={"NCCLWATCH_DIR": folder}, wrapper=wrapper) as job:
            status = job.wait(60)
            if status != 0:
                raise Failure(f"the job's status is {status}\n{job.output()}")
            if not 1 <= len(complaints(job)) <= 8:
                raise Failure(f"{len(complaints(job))} lines, wanted one a process:\n{job.output()}")


def read_only_shm(build):
    """A read-only /dev/shm: the run directory lies elsewhere."""
    wrapper = ["unshare", "-m", "sh", "-c", 'mount -o remount,ro,bind /dev/shm 2>/dev/null || '
               'mount -t tmpfs -o ro none /dev/shm; exec "$@"', "sh"]
    if subprocess.run([*wrapper, "true"], capture_output=True).returncode != 0:
        raise Skip("no mount namespace can be made here")
    with Job(build, training(build, 20), directory=False, wrapper=wrapper, shm="/tmp",
             environment={"TMPDIR": "{root}"}) as job:
        status = job.wait(60)
        if status != 0:
            raise Failure(f"the job's status is {status}\n{job.output()}")
        line = healthy.watch_line(job.output())
        if not line or line.groups() != ("4", "4"):
            raise Failure(f"not watched elsewhere:\n{job.output()}")


def no_descriptors(build):
    """RLIMIT_NOFILE reached: the job needs what little there is."""
    for limit in (8, 12, 16, 24):
        wrapper = ["sh", "-c", f'ulimit -n {limit}; exec "$@"', "sh"]
        # The launcher itself must have enough: the limit falls on the program alone.
        command = training(build, 20)
        at = command.index("--") + 1
        command[at:at] = wrapper
        with Job(build, command, mode="bare") as bare:
            plain = bare.wait(60)
        with Job(build, command) as job:
            status = job.wait(60)
            if status != plain:
                raise Failure(f"with {limit} descriptors the job's status is {status}, without ncclwatch {plain}\n"
                              f"{job.output()}")


def two_jobs_named_none(build):
    """Two jobs at once that torchrun would both call `none`, on one machine, each with directories of its own."""
    named = {"TORCHELASTIC_RUN_ID": "none", "TORCHELASTIC_RESTART_COUNT": "0"}
    with tempfile.TemporaryDirectory(dir="/dev/shm") as shared:
        env = {**named, "TMPDIR": shared}
        with Job(build, training(build, 60), directory=False, environment=env) as first, \
                Job(build, training(build, 60, ranks=3), directory=False, environment=env) as second:
            for job, ranks in ((first, 4), (second, 3)):
                status = job.wait(60)
                line = healthy.watch_line(job.output())
                if status != 0 or not line or line.groups() != (str(ranks), str(ranks)):
                    raise Failure(f"status {status}, wanted {ranks}/{ranks} ranks watched:\n{job.output()}")
                if complaints(job):
                    raise Failure(f"said of a healthy job:\n{job.output()}")
            folders = [next((word for word in job.output().replace(",", " ").split() if "ncclwatch-" in word), None)
                       for job in (first, second)]
            if None in folders or folders[0] == folders[1]:
                raise Failure(f"run directories {folders}: wanted two")
            for folder in folders:
                shutil.rmtree(folder, ignore_errors=True)


def switched_off(build):
    """NCCLWATCH=off: nothing is said and nothing made."""
    with Job(build, training(build, 10), environment={"NCCLWATCH": "off"}) as job:
        status = job.wait(60)
        if status != 0 or complaints(job) or os.path.exists(job.run_directory) or healthy.watch_line(job.output()):
            raise Failure(f"status {status}, directory made: {os.path.exists(job.run_directory)}\n{job.output()}")


def running(job, ranks=4):
    """pid of each rank, once the job trains under watch."""
    job.wait_until(lambda: "step 20" in job.output() and healthy.watch_line(job.output()), 30, "step 20 under watch")
    return job.ranks()


def survivors_ended_at_once(build):
    """SIGKILL for one rank, and SIGTERM for all others in the instant in which it is dead, as the quickest of launchers:
    the verdict is there all the same, said and written, by whichever rank leads, and the others end by that signal."""
    for culprit in range(4):
        with Job(build, training(build, 1_000_000)) as job:
            pids = running(job)
            ended = os.pidfd_open(pids[culprit])
            os.kill(pids.pop(culprit), signal.SIGKILL)
            select.select([ended], [], [])
            os.close(ended)
            for pid in pids.values():
                os.kill(pid, signal.SIGTERM)
            job.wait(30)
            document = job.look()
            if not document:
                raise Failure(f"no diagnosis of rank {culprit}, killed with its survivors\n{job.output()}")
            first = faults.check_finding(document, {"kind": "dead_rank", "certainty": "certain"}, culprit, "at once")
            if job.printed(first["summary"]) != 1:
                raise Failure(f"the diagnosis was printed {job.printed(first['summary'])} times:\n{job.output()}")
            faults.check_offline(job, document)
            job.check_nothing_left(seconds=10)


def ended_from_outside(build):
    """SIGTERM for all, as a scheduler ends a job: nobody is to blame, and it ends as soon as ever."""
    with Job(build, training(build, 1_000_000)) as job:
        for pid in running(job).values():
            os.kill(pid, signal.SIGTERM)
        status = job.wait(30)
        if status != 128 + signal.SIGTERM:
            raise Failure(f"status {status}, wanted that of SIGTERM\n{job.output()}")
        if job.look() or complaints(job):
            raise Failure(f"a finding in a job that was ended: {job.look()}\n{job.output()}")
        code, document = job.offline()
        if code != 0 or not document["healthy"]:
            raise Failure(f"diagnose afterwards: status {code}, findings {document['findings']}")


def abort_ends_the_job(build):
    """NCCLWATCH_ON_FAULT=abort: evidence, then 86, and nobody left."""
    command = launched(build.example("wrong_dtype"), 4, launcher=("--kill-others-on-exit",))
    with Job(build, command, mode="run", environment={"NCCLWATCH_ON_FAULT": "abort"}) as job:
        status = job.wait(30)
        if status != 86 or not job.look() or job.look()["findings"][0]["kind"] != "argument_mismatch":
            raise Failure(f"status {status}, diagnosis {job.look()}\n{job.output()}")
        job.check_nothing_left(seconds=10)


SITUATIONS = {function.__name__: function for function in (
    gdb_attached, frozen_cgroup, unwritable_directory, full_directory, read_only_shm, no_descriptors,
    two_jobs_named_none, switched_off, survivors_ended_at_once, ended_from_outside, abort_ends_the_job)}
