"""Evidence around verdicts: stacks that are quoted, dumps on request, and what happens to both when things go wrong."""

import json
import os
import signal
import stat
import subprocess
import tempfile
import time

import endings
import faults
import healthy
import sanitizer
from job import Failure, Job, launched

WHERE_S = 8.0   # from the verdict to its stacks, on a machine that does other things too


def training(build, steps=1_000_000, *options, ranks=4):
    return launched(build.example("healthy_training"), ranks, "--steps", steps, *options)


def stuck(build, rank=2, step=20):
    return launched(build.example("stuck_data_loader"), 4, "--rank", rank, "--step", step, "--steps", 1_000_000)


def quoted(job, culprit, seconds=WHERE_S):
    """Waits for the verdict about the culprit and for its stacks; the finding."""
    def there():
        document = job.look()
        if not document or not document["findings"]:
            return None
        first = document["findings"][0]
        details = [one for one in first["culprit_details"] if one["rank"] == culprit]
        return first if details and details[0]["where"] else None
    job.wait_until(lambda: job.look() and job.look()["findings"], 30, "a diagnosis was to be on disk")
    return job.wait_until(there, seconds, "the verdict was to quote the culprit's stack")


def check_same_offline(job):
    """The verdict with its stacks is what the directory tells once everybody is gone."""
    time.sleep(0.3)
    job.end()
    job.look()
    faults.check_offline(job, job.seen[-1][1])


def stuck_line_is_quoted(build):
    """A C++ rank in its data loader: the finding says where, said once more in short, and all ranks are in the files."""
    with Job(build, stuck(build), environment={"NCCLWATCH_TIMEOUT": "3"}) as job:
        first = quoted(job, 2)
        where = first["culprit_details"][0]["where"]
        if not any("wait" in line for line in where) or not any(line.startswith("main (stuck_data_loader") for line in where):
            raise Failure(f"where: {where}")
        if not first["evidence"][0].startswith("rank 2 stands in "):
            raise Failure(f"evidence: {first['evidence']}")
        pid = first["culprit_details"][0]["pid"]
        if "stacks/merged.txt" not in first["next_steps"][0] or f"stacks/{pid}.txt" not in first["next_steps"][0]:
            raise Failure(f"not said where all stacks are: {first['next_steps']}")
        if job.printed(first["summary"]) != 1 or job.printed(first["evidence"][0]) != 1:
            raise Failure(f"said more than once, or not at all:\n{job.output()}")
        stacks = os.path.join(job.run_directory, "stacks")
        for rank, pid in job.ranks().items():
            with open(os.path.join(stacks, f"{pid}.txt")) as file:
                text = file.read()
            if f" rank {rank} " not in text or "\nwhere " not in text or "ncclwatch-stack" in text:
                raise Failure(f"{pid}.txt of rank {rank}: {text}")
        with open(os.path.join(stacks, "merged.txt")) as file:
            merged = file.read()
        if "ranks 0,1,3 (3)" not in merged or "rank 2 (1)" not in merged:
            raise Failure(f"merged stacks:\n{merged}")
        check_same_offline(job)


def with_command(build, job_root, script):
    """A stand-in for the command, beside the job."""
    path = os.path.join(job_root, "command")
    with open(path, "w") as file:
        file.write("#!/bin/sh\n" + script + "\n")
    os.chmod(path, stat.S_IRWXU)
    return path


def stand_in(build, script, said, folder):
    command = with_command(build, folder, script) if script else os.path.join(folder, "missing")
    with Job(build, stuck(build), environment={"NCCLWATCH_TIMEOUT": "2", "NCCLWATCH_COMMAND": command}) as job:
        job.wait_until(lambda: job.look() and job.look()["findings"], 30, "a diagnosis was to be on disk")
        job.wait_until(lambda: "stacks are missing: " in job.output() and said in job.output(), 10, f"'{said}' was to be said")
        first = job.look()["findings"][0]
        if (first["kind"], first["culprits"]) != ("missing_participant", [2]):
            raise Failure(f"{first['kind']} of {first['culprits']}")
        if job.output().count("stacks are missing") != 1:
            raise Failure(f"said more than once:\n{job.output()}")
        if len(job.ranks()) != 4:
            raise Failure(f"ranks {job.ranks()} live, wanted four\n{job.output()}")
        check_same_offline(job)


def without_the_program(build):
    """The stacks program is not there, or fails: a line says so, the verdict stands, the job lives. Other ways in which it
    fails: tests/unit/watch/stacks_of_verdict_test.cc."""
    with tempfile.TemporaryDirectory() as folder:
        stand_in(build, None, "No such file", folder)
        stand_in(build, "echo 'cannot read any of them' >&2; exit 1", "status 1: cannot read any of them", folder)


def stacks_from_inside(build):
    """Where nobody may look from outside each rank samples itself, and the command unwinds the samples."""
    with tempfile.TemporaryDirectory() as folder:
        command = with_command(build, folder, f"""case " $* " in *" --sample "*) exec {build.command} "$@" ;; esac
echo 'not allowed to look at any of them' >&2; exit 3""")
        with Job(build, stuck(build), environment={"NCCLWATCH_TIMEOUT": "2", "NCCLWATCH_COMMAND": command}) as job:
            first = quoted(job, 2)
            where = first["culprit_details"][0]["where"]
            if not any(line.startswith("main (stuck_data_loader") for line in where):
                raise Failure(f"where: {where}")
            for rank, pid in job.ranks().items():
                with open(os.path.join(job.run_directory, "stacks", f"{pid}.txt")) as file:
                    text = file.read()
                if f" rank {rank} " not in text or "\nwhere " not in text or "\nstate read from inside" not in text:
                    raise Failure(f"{pid}.txt of rank {rank}: {text}")
                if os.path.exists(os.path.join(job.run_directory, "stacks", f"{pid}.sample")):
                    raise Failure(f"the sample of rank {rank} is still there")
            check_same_offline(job)


def crash_without_the_program(build):
    """The verdict names the place and says what is missing; `ncclwatch diagnose` has it, and changes nothing."""
    environment = endings.environment("abort", NCCLWATCH_COMMAND="/nowhere/ncclwatch")
    with Job(build, endings.command(build, "abort", ()), environment=environment) as job:
        job.wait_until(lambda: healthy.watch_line(job.output()), 30, "all ranks were to be watched")
        endings.plant(job, endings.CULPRIT)
        endings.verdict(job, endings.ENDINGS["abort"])
        evidence = job.look()["findings"][0]["evidence"]
        if not any(line.startswith("SIGABRT") and "not unwound yet" in line and "<" not in line for line in evidence):
            raise Failure(f"evidence: {evidence}")
        job.wait_until(lambda: "frames of a crash are missing: " in job.output(), 10, "that it is missing was to be said")
        endings.finish(job)
        boxes = [os.path.join(job.run_directory, name) for name in os.listdir(job.run_directory) if name.endswith(".box")]
        before = [(box, os.path.getsize(box), os.path.getmtime(box)) for box in boxes]
        done = subprocess.run([build.command, "diagnose", "--json", job.run_directory], capture_output=True, text=True)
        first = json.loads(done.stdout)["findings"][0]
        if not sanitizer.RUNTIME and "died of SIGABRT in last_words+0x" not in first["summary"]:
            raise Failure(f"offline: {first}")
        if not any(line.startswith("SIGABRT") and line.count("last_words+0x") >= 2 for line in first["evidence"]):
            raise Failure(f"offline: {first}")
        if [(box, os.path.getsize(box), os.path.getmtime(box)) for box in boxes] != before:
            raise Failure("diagnose has changed a box")


def dump(build, job, *options):
    done = subprocess.run([build.command, "dump", *options, job.run_directory], capture_output=True, text=True, timeout=60)
    return done.returncode, done.stdout, done.stderr


def signal_asks_for_evidence(job):
    """SIGUSR2 to any rank: the whole node's evidence, said in one line."""
    stacks = [os.path.join(job.run_directory, "stacks", f"{pid}.txt") for pid in job.ranks().values()]
    said, old = "evidence as asked for", {path: os.stat(path).st_mtime_ns for path in stacks}
    before = job.output().count(said)
    os.kill(job.ranks()[3], signal.SIGUSR2)
    job.wait_until(lambda: job.output().count(said) > before, 15, "the evidence was to be there")
    for path in stacks:
        if os.stat(path).st_mtime_ns <= old[path]:
            raise Failure(f"{path} is the old one")


def dump_of_a_healthy_job(build):
    """`ncclwatch dump`: stacks of all ranks, no verdict, and the job goes on and ends as it would."""
    with Job(build, training(build, 400), environment={"NCCLWATCH_OUT": "{root}/out"}) as job:
        job.wait_until(lambda: "step 20" in job.output() and healthy.watch_line(job.output()), 30, "step 20 under watch")
        status, text, error = dump(build, job)
        if status != 0 or "stacks of 4 of 4 processes" not in text or "main (healthy_training" not in text:
            raise Failure(f"status {status}\n{text}{error}\n{job.output()}")
        status, text, error = dump(build, job, "--json")
        document = json.loads(text)
        if status != 0 or document["by"] != "leader" or not document["whole"] or document["diagnosis"] is not None:
            raise Failure(f"status {status}\n{text}{error}")
        pids = job.ranks()
        if {one["rank"]: one["pid"] for one in document["processes"]} != pids or not all(
                one["where"] and os.path.exists(one["stacks"]) for one in document["processes"]):
            raise Failure(f"ranks {pids}: {text}")
        out, = [folder for folder, _, files in os.walk(os.path.join(job.root, "out")) if "merged.txt" in files]
        for rank, pid in pids.items():
            for path in (os.path.join(out, f"{pid}.txt"), os.path.join(out, "..", "evidence", f"rank-{rank}.pid-{pid}.txt")):
                if not os.path.exists(path):
                    raise Failure(f"{path} is not in NCCLWATCH_OUT")
        signal_asks_for_evidence(job)
        if job.wait(60) != 0 or job.look():
            raise Failure(f"the job ended with {job.process.returncode}, diagnosis {job.look()}\n{job.output()}")
        status, text, error = dump(build, job)
        if status != 1 or "no process of this job lives" not in error:
            raise Failure(f"of a job that has ended: status {status}\n{text}{error}")


def dump_of_a_hung_job(build):
    """The verdict stands, and its stacks are taken anew."""
    with Job(build, stuck(build), environment={"NCCLWATCH_TIMEOUT": "2"}) as job:
        quoted(job, 2)
        before = os.stat(os.path.join(job.run_directory, "stacks", "merged.txt")).st_mtime_ns
        status, text, error = dump(build, job, "--json")
        document = json.loads(text)
        if status != 0 or not document["diagnosis"] or not document["whole"]:
            raise Failure(f"status {status}\n{text}{error}")
        if os.stat(os.path.join(job.run_directory, "stacks", "merged.txt")).st_mtime_ns <= before:
            raise Failure("the stacks are the old ones")
        check_same_offline(job)


def dump_without_a_leader(build):
    """All ranks are stopped: nobody answers, and the command looks itself."""
    with Job(build, training(build)) as job:
        job.wait_until(lambda: "step 20" in job.output() and healthy.watch_line(job.output()), 30, "step 20 under watch")
        pids = job.ranks()
        for pid in pids.values():
            os.kill(pid, signal.SIGSTOP)
        status, text, error = dump(build, job, "--json")
        document = json.loads(text)
        if status != 0 or document["by"] != "command" or not all(one["where"] for one in document["processes"]):
            raise Failure(f"status {status}\n{text}{error}")
        if not all("stopped" in one["state"][0] for one in document["processes"]):
            raise Failure(f"not said to be stopped: {text}")


ABORT = {"NCCLWATCH_TIMEOUT": "2", "NCCLWATCH_ON_FAULT": "abort"}


def check_ended(job, status, seconds=30):
    """The job was ended by ncclwatch, evidence first, and nobody is left."""
    got = job.wait(seconds)
    if got != status:
        raise Failure(f"the job's status is {got}, wanted {status}\n{job.output()}")
    if "ending the job" not in job.output():
        raise Failure(f"not said that the job is ended:\n{job.output()}")
    if not os.path.exists(os.path.join(job.run_directory, "stacks", "merged.txt")):
        raise Failure("no stacks were taken before the end")
    job.look()
    job.check_nothing_left(seconds=10)
    faults.check_offline(job, job.seen[-1][1])


def abort_with_the_frameworks_errors(build):
    """Ranks that wait on their streams come back, fail at their next call as after the loss of a peer, and end by that;
    the one that is stuck elsewhere ends with 86, and so does `ncclwatch run`."""
    command = launched(build.example("stuck_data_loader"), 4, "--rank", 2, "--step", 20, "--steps", 1_000_000)
    with Job(build, command, mode="run", environment=ABORT) as job:
        pids = job.wait_until(lambda: len(job.ranks()) == 4 and "step 10" in job.output() and job.ranks(), 30, "four ranks")
        check_ended(job, 86)
        errors = [line for line in job.output().splitlines() if "remote process exited or there was a network error" in line]
        if len(errors) != 3:
            raise Failure(f"{len(errors)} of the three that waited failed with NCCL's error:\n{job.output()}")
        del pids


def abort_of_a_stopped_rank(build):
    """It cannot end itself: the leader kills it, whoever leads."""
    for rank in (0, 2):
        command = launched(build.example("frozen"), 4, "--rank", rank, "--step", 20, "--steps", 1_000_000)
        with Job(build, command, mode="run", environment=ABORT) as job:
            check_ended(job, 86)


def abort_whose_leader_dies(build):
    """The leader is killed in the moment in which it has ordered the end: all others end all the same."""
    command = launched(build.example("frozen"), 4, "--rank", 2, "--step", 20, "--steps", 1_000_000)
    with Job(build, command, environment=ABORT) as job:
        job.wait_until(lambda: "ending the job" in job.output(), 30, "the end was to be ordered")
        leader = job.leader_pid()
        try:
            os.kill(leader, signal.SIGKILL)
        except ProcessLookupError:
            pass
        job.wait(30)
        job.check_nothing_left(seconds=10)


def has_frames(path):
    """What can be told without the process's locks is written first, without frames."""
    try:
        with open(path) as file:
            return any(line.startswith("where ") for line in file)
    except FileNotFoundError:
        return False


def completed_by_run(build):
    """The launcher kills every rank but the culprit, which nothing but SIGKILL ends, right after the verdict: the program
    reads on alone, and `ncclwatch run` tells the verdict again with the culprit's stack once all are gone."""
    command = launched(build.example("frozen"), 4, "--rank", 2, "--step", 20, "--steps", 1_000_000)
    with tempfile.TemporaryDirectory() as folder:
        slow = with_command(build, folder, f"touch {folder}/begun; sleep 0.5; exec {build.command} \"$@\"")
        with Job(build, command, mode="run", environment={"NCCLWATCH_TIMEOUT": "2", "NCCLWATCH_COMMAND": slow}) as job:
            job.wait_until(lambda: job.look() and job.look()["findings"], 30, "a diagnosis was to be on disk")
            job.wait_until(lambda: os.path.exists(os.path.join(folder, "begun")), 10, "the program was to be started")
            pids = job.ranks()
            for rank in (0, 1, 3):
                os.kill(pids[rank], signal.SIGKILL)
            stacks = os.path.join(job.run_directory, "stacks", f"{pids[2]}.txt")
            job.wait_until(lambda: has_frames(stacks), 10, "the program was to write the culprit's stacks")
            first = job.look()["findings"][0]
            if first["culprit_details"][0]["where"] or "completed" in job.output():
                raise Failure(f"somebody else has told it: {first}\n{job.output()}")
            os.kill(pids[2], signal.SIGKILL)
            status = job.wait(30)
            if status != 128 + signal.SIGKILL:
                raise Failure(f"the job's status is {status}\n{job.output()}")
            first = job.look()["findings"][0]
            if first["kind"] != "frozen_process" or not any("main (frozen" in line for line in
                                                            first["culprit_details"][0]["where"]):
                raise Failure(f"{first['kind']} of {first['culprit_details']}\n{job.output()}")
            if "completed after the job:" not in job.output() or job.printed(first["evidence"][0]) != 1:
                raise Failure(f"not said, or not once, what was added:\n{job.output()}")
            faults.check_offline(job, job.seen[-1][1])


SITUATIONS = {function.__name__: function for function in (
    stuck_line_is_quoted, without_the_program, stacks_from_inside, crash_without_the_program, dump_of_a_healthy_job, dump_of_a_hung_job, dump_without_a_leader,
    abort_with_the_frameworks_errors, abort_of_a_stopped_rank, abort_whose_leader_dies,
    completed_by_run)}
