"""Hostile surroundings: no room, no rights, no descriptors, strangers' directories, a job of the same name."""

import os
import shutil
import subprocess
import sys
import threading

from common import both, check_recorded, counts, program
from harness import Process, Skipped, case, check, check_equal, until

KINDS = ("dead_rank", "early_exit", "missing_participant", "order_mismatch", "argument_mismatch", "initialization_hang",
         "frozen_process")


def unwatched_or_elsewhere(sandbox, directory, extra=None, argv=None, ranks=2, prefix=(), **options):
    """The job runs as without the library and says in at most one line a process what became of its watching."""
    command = list(prefix) + (argv or [program(sandbox, "many"), "splits", "5"])
    plain = sandbox.job(command, ranks, preload=False, extra=extra, **options)
    check_equal(plain.statuses(), [0] * ranks, f"exit status without the library ({plain.done})")
    job = sandbox.job(command, ranks, extra=extra, run_directory=directory, **options)
    check_equal(job.statuses(), [0] * ranks, f"exit status ({job.done})")
    check_equal(job.outputs(), plain.outputs(), "standard output")
    words = [line for error in job.errors() for line in error.splitlines() if "ncclwatch" in line]
    check(words, "the failure was to be said")
    for error in job.errors():
        lines = [line for line in error.splitlines() if "watching" not in line]
        check(len(lines) <= 1, f"more than one line: {lines}")
    return job


@case
def directory_is_a_file(sandbox):
    path = os.path.join(sandbox.fresh("place"), "file")
    with open(path, "w") as file:
        file.write("mine")
    unwatched_or_elsewhere(sandbox, path)
    with open(path) as file:
        check_equal(file.read(), "mine", "content of the file in the way")


@case
def directory_cannot_be_made(sandbox):
    unwatched_or_elsewhere(sandbox, "/proc/no/such/place")


@case
def directory_is_a_link(sandbox):
    place = sandbox.fresh("place")
    os.mkdir(os.path.join(place, "elsewhere"))
    os.symlink("elsewhere", os.path.join(place, "run"))
    unwatched_or_elsewhere(sandbox, os.path.join(place, "run"))
    check_equal(os.listdir(os.path.join(place, "elsewhere")), [], "files behind the link")


@case
def directory_of_somebody_else(sandbox):
    if os.getuid() != 0:
        raise Skipped("needs root, to make a directory of another user")
    place = os.path.join(sandbox.fresh("place"), "run")
    os.mkdir(place, 0o777)
    os.chown(place, 65534, 65534)
    unwatched_or_elsewhere(sandbox, place)
    check_equal(os.listdir(place), [], "files in somebody else's directory")


@case
def directory_that_others_could_replace(sandbox):
    project = sandbox.fresh("project")
    os.chmod(project, 0o770)  # a colleague may rename what lies in it
    place = os.path.join(project, "run")
    os.mkdir(place, 0o700)
    job = unwatched_or_elsewhere(sandbox, place)
    said = "".join(job.errors())
    check(f"{project}: others may write to it" in said, f"the reason: {said}")
    check_equal(os.listdir(place), [], "files in it")


def namespace(commands):
    """A mount namespace of its own in which `commands` (shell) were run, as a prefix for a command."""
    prefix = ["unshare", "-m"] if os.getuid() == 0 else ["unshare", "-rm"]
    prefix += ["sh", "-c", commands + ' && exec "$@"', "sh"]
    if not shutil.which("unshare") or subprocess.run(prefix + ["true"], capture_output=True).returncode != 0:
        raise Skipped("no mount namespaces here")
    return prefix


@case
def directory_full(sandbox):
    place = sandbox.fresh("place")
    prefix = namespace(f"mount -t tmpfs -o size=256k none {place}")
    unwatched_or_elsewhere(sandbox, os.path.join(place, "run"), prefix=prefix)


@case
def directory_read_only(sandbox):
    place = sandbox.fresh("place")
    prefix = namespace(f"mount -t tmpfs -o ro none {place}")
    unwatched_or_elsewhere(sandbox, os.path.join(place, "run"), prefix=prefix)


@case
def shared_memory_read_only(sandbox):
    """A read-only /dev/shm: the next place ($TMPDIR) takes the run directory."""
    prefix = namespace("mount -o remount,bind,ro /dev/shm 2>/dev/null || mount -t tmpfs -o ro none /dev/shm")
    scratch = os.path.join("/tmp", f"ncclwatch-test-{os.getpid()}")
    os.makedirs(scratch, exist_ok=True)
    try:
        extra = {"NCCLWATCH_DIR": None, "TMPDIR": scratch, "SOFTGPU_NCCL_DIR": scratch, "NCCLWATCH_JOB": "ro",
                 "HOST_ID_DIR": scratch, "NCCLWATCH_KEEP": "all"}
        job = sandbox.job(prefix + [program(sandbox, "limits"), "calls", "0"], 1, extra=extra)
        check_equal(job.statuses(), [0], f"exit status ({job.done})")
        job.directory = scratch
        check_equal(len(job.boxes()), 1, f"black boxes in the next place ({job.done})")
        job.directory = os.path.dirname(job.boxes()[0])
        check_equal(list(counts(job).values()), [[113] * 5], "recorded there")
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


@case
def all_descriptors_closed(sandbox):
    job = both(sandbox, [program(sandbox, "limits"), "close_all", "0"], 0, ranks=2)
    check_recorded(job, [111] + [112] * 20)
    check(job.diagnosis()["healthy"], f"a finding on a healthy job: {job.diagnosis()}")


@case
def few_descriptors_left(sandbox):
    """With just enough descriptors for the program itself it must still run, watched or not."""
    argv = [program(sandbox, "limits"), "few_files"]
    enough = None
    for left in range(0, 40):
        if sandbox.job(argv + [str(left)], preload=False).statuses() == [0]:
            enough = left
            break
    check(enough is not None, "the program never runs")
    for left in range(enough, enough + 8):
        job = sandbox.job(argv + [str(left)])
        check_equal(job.statuses(), [0], f"exit status with {left} descriptors, where {enough} are enough ({job.done})")


@case
def no_descriptors_later(sandbox):
    check_recorded(both(sandbox, [program(sandbox, "limits"), "no_files_later", "0"], 0, quiet=False), [114] + [115] * 20)


@case
def little_address_space(sandbox):
    if sandbox.build.sanitizer:
        raise Skipped("sanitizers need terabytes of address space")
    argv = [program(sandbox, "limits"), "little_space"]
    ran = 0
    for mib in (1, 2, 4, 8, 12, 16, 24, 32, 48, 64, 96, 128, 256, 512, 1024):
        plain = sandbox.job(argv + [str(mib * 1024)], preload=False)
        if plain.statuses() != [0]:
            continue
        ran += 1
        job = sandbox.job(argv + [str(mib * 1024)])
        check_equal(job.statuses(), [0], f"exit status with {mib} MiB more, enough without the library ({job.done})")
    check(ran >= 3, "the program itself needs more than this test gives")


@case
def second_job_of_the_same_name(sandbox):
    """Two jobs at once, both named alike: both run, neither has a finding, their boxes do not mix."""
    scratch = sandbox.fresh("shared")
    extra = {"NCCLWATCH_DIR": None, "NCCLWATCH_JOB": "twins", "TMPDIR": scratch}
    results = {}

    def start(name):
        results[name] = sandbox.job([program(sandbox, "many"), "splits", "150"], 2, extra=extra, port=30000 + name)

    threads = [threading.Thread(target=start, args=(name,)) for name in (1, 2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for name, job in results.items():
        check_equal(job.statuses(), [0, 0], f"exit status of job {name} ({job.done})")
        for error in job.errors():
            check(not any(kind in error for kind in KINDS), f"a finding on a healthy job: {error}")


@case
def survivor_of_the_last_run(sandbox):
    """A rank that outlived its run, and the next run at the same port: that one is whole, and has no finding."""
    place, port = os.path.join(sandbox.fresh("place"), "run"), 15000 + os.getpid() % 5000
    training = os.path.join(sandbox.build.root, "examples", "healthy_training")
    sandbox.build.need(training)
    scratch = sandbox.fresh("first")
    first = [Process([training, "--steps", "1000000", "--step-ms", "5"],
                     sandbox.environment(True, place, {
                         "RANK": str(rank), "WORLD_SIZE": "2", "LOCAL_RANK": str(rank), "LOCAL_WORLD_SIZE": "2",
                         "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "SOFTGPU_NCCL_DIR": scratch}), cwd=scratch)
             for rank in range(2)]
    try:
        until(lambda: any("watching 2/2" in one.read(one.err) for one in first), "the first run was to be watched")
        first[0].kill()
        check(first[1].popen.poll() is None, "the survivor was to live on")
        job = sandbox.job([program(sandbox, "many"), "splits", "5"], 2, run_directory=place, port=port)
        check_equal(job.statuses(), [0, 0], f"exit status ({job.done})")
        job.directory = os.path.join(place, "run-1")
        check_equal(len(job.boxes()), 2, f"black boxes of the next run in its own directory ({job.done})")
        for error in job.errors():
            check(not any(kind in error for kind in KINDS), f"a finding on a healthy job: {error}")
    finally:
        for one in first:
            one.kill()


@case
def wrong_settings(sandbox):
    """A typing error is named once with what would be accepted, and the default is used."""
    job = both(sandbox, [program(sandbox, "many"), "splits", "3"], 0, ranks=1, quiet=False,
               extra={"NCCLWATCH_RING": "many", "NCCLWATCH_ON_FAULT": "explode", "NCCLWATCH": "perhaps"})
    for variable in ("NCCLWATCH_RING", "NCCLWATCH_ON_FAULT", "NCCLWATCH"):
        lines = [line for line in job.errors()[0].splitlines() if variable in line.replace("=", " ").replace(":", " ").split()
                 or variable + "=" in line]
        check_equal(len(lines), 1, f"lines about {variable} in {job.errors()[0]!r}")
    check_recorded(job, [9] * 3 + [10])


@case
def wrong_settings_are_said_once_a_machine(sandbox):
    wrong = {"NCCLWATCH_RING": "many"}
    job = both(sandbox, [program(sandbox, "many"), "splits", "3"], 0, ranks=3, quiet=False, extra=wrong)
    check_equal(["NCCLWATCH_RING" in error for error in job.errors()], [True, False, False], "ranks that say it")
    job = both(sandbox, [program(sandbox, "many"), "splits", "3"], 0, quiet=False,
               extra={**wrong, "RANK": None, "WORLD_SIZE": None, "LOCAL_RANK": None, "LOCAL_WORLD_SIZE": None})
    check("NCCLWATCH_RING" in job.errors()[0], f"not said where no launcher named a rank: {job.done}")


# Kinds of standard error that can hurt whoever writes to it, as Python code.
BROKEN_STDERR = {
    "no_reader": "r, w = os.pipe(); os.close(r); os.dup2(w, 2)",
    "full_pipe": "r, w = os.pipe(); os.set_blocking(w, False)\ntry:\n  while True: os.write(w, b'x' * 4096)\nexcept BlockingIOError: pass\n"
                 "os.set_blocking(w, True); os.dup2(w, 2)",
    "full_file": "import resource; f = os.open('log', os.O_CREAT | os.O_WRONLY); os.write(f, b'x' * 4096); os.dup2(f, 2)\n"
                 "resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))",
}


def register_broken_stderr(name, setup):
    def run(sandbox):
        build = sandbox.build
        alone = os.path.join(sandbox.fresh("alone"), "libncclwatch.so")
        shutil.copy(build.library, alone)  # without its core it can only complain
        scratch = sandbox.fresh("job")
        code = f"import os, sys\n{setup}\nos.execvp(sys.argv[1], sys.argv[1:])"
        for library, extra in ((alone, {}), (build.library, {"NCCLWATCH_TIMEOUT": "bogus"})):
            env = sandbox.environment(preload=False, run_directory=os.path.join(scratch, "run"), extra={"HOST_ID_DIR": scratch, **extra})
            job = ["env", f"LD_PRELOAD={library}", program(sandbox, "limits"), "calls", "0"]
            done = sandbox.run([sys.executable, "-c", code, *job], env, cwd=scratch, timeout=20)
            check_equal(done.status, 0, f"status with {library} {extra}: {done}")

    run.__name__ = f"standard_error_{name}"
    case(run)


for broken, how in BROKEN_STDERR.items():
    register_broken_stderr(broken, how)


@case
def standard_error_is_a_terminal_of_another_job(sandbox):
    """`stty tostop`: a write from the background would stop the whole process group."""
    scratch = sandbox.fresh("job")
    env = sandbox.environment(preload=False, run_directory=os.path.join(scratch, "run"),
                              extra={"HOST_ID_DIR": scratch, "NCCLWATCH_TIMEOUT": "bogus"})
    # The session's leader owns the terminal; its child, in a group of its own, is in the background.
    code = """
import os, pty, signal, sys, termios, time
pid, master = pty.fork()
if pid == 0:
    modes = termios.tcgetattr(0)
    modes[3] |= termios.TOSTOP
    termios.tcsetattr(0, termios.TCSANOW, modes)
    child = os.fork()
    if child == 0:
        os.setpgid(0, 0)
        os.dup2(os.open("/dev/null", os.O_WRONLY), 1)  # the program itself is quiet
        os.execvp(sys.argv[1], sys.argv[1:])
    _, status = os.waitpid(child, os.WUNTRACED)
    if os.WIFSTOPPED(status):
        os.kill(child, signal.SIGKILL)
    os._exit(99 if os.WIFSTOPPED(status) else os.waitstatus_to_exitcode(status))
while True:
    try:
        if not os.read(master, 4096): break
    except OSError:
        break
sys.exit(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
"""
    job = ["env", f"LD_PRELOAD={sandbox.build.library}", program(sandbox, "limits"), "calls", "0"]
    done = sandbox.run([sys.executable, "-c", code, *job], env, cwd=scratch, timeout=20)
    check_equal(done.status, 0, f"status: {done}")


@case
def run_starts_the_job_where_no_run_directory_can_be_made(sandbox):
    """Another user has taken every place: the job comes first."""
    if os.getuid() != 0:
        raise Skipped("needs root, to be two users")
    scratch = sandbox.fresh("job")
    os.chmod(sandbox.path, 0o777), os.chmod(scratch, 0o777)
    taken = ["/dev/shm/ncclwatch-54322", f"{scratch}/ncclwatch-54322", "/tmp/ncclwatch-54322"]
    try:
        for path in taken:
            os.mkdir(path, 0o777)
            os.chown(path, 54321, 54321)
        done = sandbox.run([sandbox.build.command, "run", "--", "sh", "-c", "echo job ran; exit 7"],
                           sandbox.environment(preload=False, extra={"TMPDIR": scratch}), cwd=scratch,
                           preexec=lambda: os.setuid(54322))
    finally:
        for path in taken:
            os.rmdir(path)
    check_equal((done.status, done.out), (7, "job ran\n"), f"the job: {done}")
    check_equal(len([line for line in done.err.splitlines() if "not watching" in line]), 1, f"one line: {done}")
