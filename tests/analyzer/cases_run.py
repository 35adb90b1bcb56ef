"""run: the job must not notice it but for being watched."""

import glob
import json
import os
import pty
import resource
import select
import shutil
import signal
import subprocess
import sys
import time

from common import Skipped, bench_case, check, check_equal, until


def run(bench, *words, **extra):
    bench.build.need(bench.build.library)
    return bench.command("run", *words, **extra)


def started(bench, *words, stdin=subprocess.PIPE, **options):
    """`ncclwatch run` with signal_counter as its job, once that is ready; in a process group of its own."""
    bench.build.need(bench.build.library)
    process = subprocess.Popen([bench.build.command, "run", "--log", "off", *words, "--", bench.counter],
                               env=bench.environment(), stdin=stdin, stdout=subprocess.PIPE, text=True,
                               start_new_session=True, **options)
    check_equal(process.stdout.readline(), "ready\n", "the job's first line")
    return process


def line(process, what):
    ready, _, _ = select.select([process.stdout], [], [], 10)
    check(ready, f"nothing arrived: {what}")
    return process.stdout.readline()


def finish(process):
    """What the job still said after its input ended."""
    out, _ = process.communicate("\n", timeout=20)
    return out


@bench_case
def status_is_the_jobs(bench):
    for script, status in (("exit 0", 0), ("exit 3", 3), ("exit 255", 255), ("kill -9 $$", 137), ("kill -TERM $$", 143),
                           ("kill -INT $$", 130)):
        check_equal(run(bench, "--", "sh", "-c", script).status, status, script)


@bench_case
def not_startable_is_127_or_126(bench):
    check_equal(run(bench, "--", "/nonexistent/program").status, 127, "missing")
    check_equal(run(bench, "--", "no-such-program-anywhere").status, 127, "missing in PATH")
    done = run(bench, "--", "/etc/passwd")
    check_equal(done.status, 126, "not executable")
    check("/etc/passwd" in done.err, f"said: {done}")
    check_equal(glob.glob(f"/dev/shm/ncclwatch-{os.geteuid()}/passwd-*"), [], "left")


@bench_case
def command_without_dashes(bench):
    check_equal(run(bench, "sh", "-c", "exit 4").status, 4, "status")
    check_equal(run(bench, "--log", "off", "printf", "%s\\n", "--help", "--json").out, "--help\n--json\n", "options after the command are its own")
    check_equal(run(bench, "--", "printf", "%s|", "--", "a b", "").out, "--|a b||", "words arrive unchanged")


@bench_case
def streams_pass_through(bench):
    bench.build.need(bench.build.library)
    done = subprocess.run([bench.build.command, "run", "--log", "off", "--", "sh", "-c", "cat; echo err >&2"],
                          input=b"\0binary\xff" * 1000, capture_output=True, env=bench.environment(), timeout=30)
    check_equal((done.returncode, done.stdout, done.stderr), (0, b"\0binary\xff" * 1000, b"err\n"), "streams")


@bench_case
def environment_of_the_job(bench):
    show = 'echo "$LD_PRELOAD|$NCCLWATCH_DIR|$NCCLWATCH_TIMEOUT|$NCCLWATCH_JOB"'
    out = run(bench, "--timeout", "7", "--job", "mine", "--", "sh", "-c", show, LD_PRELOAD="libm.so.6").out.strip()
    preload, directory, timeout, job = out.split("|")
    check_equal(preload, f"{bench.build.library}:libm.so.6", "LD_PRELOAD")
    check_equal((timeout, job), ("7", "mine"), "options")
    check(os.path.isabs(directory) and not os.path.exists(directory), f"run directory {directory} is left behind")
    own = bench.sandbox.fresh("own")
    out = run(bench, "--", "sh", "-c", show, NCCLWATCH_DIR=own, NCCLWATCH_TIMEOUT="9").out.strip()
    check_equal(out.split("|")[1:3], [own, "9"], "the user's own variables")
    check(os.path.isdir(own), "the user's directory stays")
    again = f"/elsewhere/libncclwatch.so"
    out = run(bench, "--", bench.writer, bench.place("x"), LD_PRELOAD=again)
    check_equal(out.status, 0, "a library that the user has chosen is kept")


@bench_case
def ends_with_its_job(bench):
    """Whatever boxes a job leaves, the last look at them takes bounded time and memory."""
    bench.build.need(bench.build.library)

    def limits():
        resource.setrlimit(resource.RLIMIT_CPU, (10, 10))
        if not bench.build.sanitizer:  # which reserves terabytes
            resource.setrlimit(resource.RLIMIT_DATA, (1 << 30, 1 << 30))

    for box in ("rank=0 world=1", "rank=0 world=1 end=kill", "rank=0 world=1 end=none calls=0", "rank=0 world=1 pending=1",
                "rank=1 world=100000 pending=1", "rank=-1 world=0", "rank=2147483647 world=2147483647"):
        done = subprocess.run([bench.build.command, "run", "--", "sh", "-c", f'{bench.writer} "$NCCLWATCH_DIR" {box} >&2; true'],
                              env=bench.environment(), capture_output=True, text=True, timeout=30, preexec_fn=limits)
        check_equal(done.returncode, 0, f"{box}: {done}")


@bench_case
def run_directory_is_private_while_it_runs(bench):
    done = run(bench, "--", "sh", "-c", 'stat -c %a "$NCCLWATCH_DIR"')
    check_equal(done.out.strip(), "700", "mode")


@bench_case
def signal_to_run_reaches_the_job_once(bench):
    process = started(bench)
    for name in ("TERM", "HUP", "INT", "QUIT", "USR1", "USR2", "WINCH", "CONT"):
        process.send_signal(getattr(signal, f"SIG{name}"))
        check_equal(line(process, name), f"{name} 1\n", name)
    check_equal(finish(process), "end\n", "nothing came twice")
    check_equal(process.returncode, 0, "status")


@bench_case
def signal_to_the_group_reaches_the_job_once(bench):
    process = started(bench)
    for count in (1, 3, 5):
        os.killpg(process.pid, signal.SIGTERM)
        check_equal(line(process, "TERM"), f"TERM {count}\n", "to the group")
        time.sleep(0.2)  # a second copy would come within the witness's 50 ms
        process.send_signal(signal.SIGTERM)
        check_equal(line(process, "TERM"), f"TERM {count + 1}\n", "to run alone, after the group's")
    check_equal(finish(process), "end\n", "nothing came twice")
    check_equal(process.returncode, 0, "status")


@bench_case
def ignored_signals_stay_ignored(bench):
    bench.build.need(bench.build.library)
    script = f"trap '' HUP INT; exec {bench.build.command} run --log off -- grep SigIgn /proc/self/status"
    with_run = bench.sandbox.run(["sh", "-c", script], bench.environment()).out
    without = bench.sandbox.run(["sh", "-c", "trap '' HUP INT; exec grep SigIgn /proc/self/status"], bench.environment()).out
    check_equal(with_run, without, "ignored signals")
    show = ["grep", "-E", "^Sig(Ign|Blk)", "/proc/self/status"]
    check_equal(run(bench, "--log", "off", "--", *show).out, bench.sandbox.run(show, bench.environment()).out,
                "mask and ignored signals")


@bench_case
def descriptors_of_the_job_are_its_own(bench):
    show = ["ls", "-1", "/proc/self/fd"]
    check_equal(run(bench, "--log", "off", "--", *show).out, bench.sandbox.run(show, bench.environment()).out, "open files")


class Terminal:
    """`ncclwatch run` as the foreground job of a terminal of its own."""

    def __init__(self, bench, *job):
        bench.build.need(bench.build.library)
        argv = [bench.build.command, "run", "--log", "off", "--", *job]
        self.pid, self.master = pty.fork()
        if self.pid == 0:
            os.execve(argv[0], argv, bench.environment())
        self.said = ""

    def type(self, text):
        os.write(self.master, text)

    def expect(self, text):
        deadline = time.monotonic() + 15
        while text not in self.said:
            ready, _, _ = select.select([self.master], [], [], max(0, deadline - time.monotonic()))
            check(ready, f"{text!r} was not said, but {self.said!r}")
            try:
                self.said += os.read(self.master, 4096).decode(errors="replace")
            except OSError:
                check(text in self.said, f"the terminal closed before {text!r}: {self.said!r}")
        return self.said

    def status(self):
        return os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])

    def close(self):
        os.close(self.master)


@bench_case
def terminal_is_the_jobs(bench):
    script = ("import os, sys\nprint('tty', os.isatty(0), os.isatty(1), os.isatty(2), os.getpgrp() == os.tcgetpgrp(0))\n"
              "print('got', sys.stdin.readline().strip())\n")
    terminal = Terminal(bench, sys.executable, "-c", script)
    terminal.expect("tty True True True True")
    terminal.type(b"hello\n")
    terminal.expect("got hello")
    check_equal(terminal.status(), 0, "status")
    terminal.close()


@bench_case
def control_c_reaches_the_job_once(bench):
    terminal = Terminal(bench, bench.counter)
    terminal.expect("ready")
    for count in (1, 2):
        terminal.type(b"\x03")
        terminal.expect(f"INT {count}")
        time.sleep(0.2)  # a second copy would come within the witness's 50 ms
    terminal.type(b"\x1c")
    terminal.expect("QUIT 1")
    terminal.type(b"\n")
    said = terminal.expect("end")
    check("INT 3" not in said and "QUIT 2" not in said, f"something came twice: {said}")
    check_equal(terminal.status(), 0, "status")
    terminal.close()


@bench_case
def control_z_stops_both_and_fg_resumes(bench):
    terminal = Terminal(bench, "sh", "-c", "echo ready; read line; echo got $line; exit 6")
    terminal.expect("ready")
    # A terminal's stop is ignored in an orphaned process group: a real one has a shell. Its way in is the same signal.
    os.kill(terminal.pid, signal.SIGTSTP)
    check_equal(os.WIFSTOPPED(os.waitpid(terminal.pid, os.WUNTRACED)[1]), True, "run has stopped")
    os.kill(terminal.pid, signal.SIGCONT)
    terminal.type(b"on\n")
    terminal.expect("got on")
    check_equal(terminal.status(), 6, "status")
    terminal.close()


@bench_case
def healthy_job_leaves_nothing(bench):
    script = f'"{bench.writer}" "$NCCLWATCH_DIR" rank=0 world=1 >&2; echo "$NCCLWATCH_DIR"'
    done = run(bench, "--", "sh", "-c", script)
    check_equal(done.status, 0, f"status of {done}")
    check(not os.path.exists(done.out.strip()), f"{done.out} is left behind")
    place, name = os.path.split(done.out.strip())
    latest = os.path.join(place, "latest")  # which a test beside this one may have turned to its own job
    check(not os.path.islink(latest) or os.path.basename(os.readlink(latest)) != name, "latest points to nothing")
    kept = run(bench, "--keep", "--", "sh", "-c", script).out.strip()
    check_equal(len(bench.boxes(kept)), 1, "with --keep")
    shutil.rmtree(kept)


@bench_case
def failed_job_keeps_its_boxes(bench):
    script = f'"{bench.writer}" "$NCCLWATCH_DIR" rank=0 world=1 >&2; echo "$NCCLWATCH_DIR"; exit 5'
    done = run(bench, "--", "sh", "-c", script)
    check_equal(done.status, 5, "status")
    check_equal(len(bench.boxes(done.out.strip())), 1, "boxes")
    shutil.rmtree(done.out.strip())


@bench_case
def last_resort_tells_a_dead_rank(bench):
    """No watchdog runs in box_writer: what is said, `run` has seen from outside."""
    bench.build.need(bench.build.library)
    report = os.path.join(bench.temporary, "report.json")
    fifo = os.path.join(bench.temporary, "fifo")
    os.mkfifo(fifo)
    script = (f'sleep 60 > "{fifo}" & keeper=$!; "{bench.writer}" "$NCCLWATCH_DIR" rank=0 world=2 calls=3 pending=1 '
              f'end=hold < "{fifo}" > "{bench.temporary}/ready" & waiting=$!; '
              f'"{bench.writer}" "$NCCLWATCH_DIR" rank=1 world=2 calls=2 end=hold < "{fifo}" > "{bench.temporary}/pid" & victim=$!; '
              f'until [ -s "{bench.temporary}/ready" ] && [ -s "{bench.temporary}/pid" ]; do sleep 0.05; done; '
              f'sleep 1; kill -9 $victim; sleep 0.5; kill -9 $waiting; kill $keeper; wait; echo "$NCCLWATCH_DIR"; exit 1')
    hooked = os.path.join(bench.temporary, "hooked")
    hook = f'cat > "{hooked}.json"; env > "{hooked}.part"; mv "{hooked}.part" "{hooked}"'
    done = run(bench, "--json", report, "--hook", hook, "--", "bash", "-c", script, NCCLWATCH_TOKEN="hunter2")
    check_equal(done.status, 1, f"status of {done}")
    with open(report) as file:
        diagnosis = json.load(file)
    verdict = {key: value for key, value in diagnosis.items() if key not in ("checked", "ignored")}
    until(lambda: os.path.exists(hooked), "the hook was not started")
    with open(hooked) as file:
        environment = file.read()
    for secret in ("LD_PRELOAD", "NCCLWATCH_TOKEN"):
        check(secret not in environment, f"the hook has {secret}: {environment}")
    with open(hooked + ".json") as file:
        check_equal(json.load(file), verdict, "what the hook got")
    first = diagnosis["findings"][0]
    check_equal((first["kind"], first["culprits"]), ("dead_rank", [1]), "finding")
    check_equal(first["culprit_details"][0]["exit"]["signal"], 9, "how it went")
    check("dead_rank" in done.err, f"said on stderr: {done}")
    directory = done.out.strip()
    with open(os.path.join(directory, "diagnosis.json")) as file:
        check_equal(json.load(file), verdict, "diagnosis.json in the run directory")
    check(os.path.getsize(os.path.join(directory, "diagnosis.txt")) > 0, "diagnosis.txt")
    shutil.rmtree(directory)


@bench_case
def leaders_verdict_is_said_once(bench):
    verdict = {"schema": "ncclwatch.diagnosis/1", "healthy": False,
               "findings": [{"kind": "dead_rank", "certainty": "certain", "summary": "rank 1 was killed"}]}
    source = os.path.join(bench.temporary, "verdict.json")
    with open(source, "w") as file:
        json.dump(verdict, file)
    report = os.path.join(bench.temporary, "report.json")
    script = (f'"{bench.writer}" "$NCCLWATCH_DIR" rank=0 world=1 >&2; cp "{source}" "$NCCLWATCH_DIR/diagnosis.json"; '
              'echo "$NCCLWATCH_DIR"')
    done = run(bench, "--json", report, "--", "sh", "-c", script)
    directory = done.out.strip()
    said = [text for text in done.err.splitlines() if "diagnosis" in text]
    check_equal((done.status, len(said)), (0, 1), f"status and lines of {done}")
    check(f"{directory}/diagnosis.json" in said[0] and "dead_rank" in said[0], f"the pointer: {said}")
    with open(report) as file:
        check_equal(json.load(file), verdict, "--json")
    shutil.rmtree(directory)


@bench_case
def json_of_a_healthy_job(bench):
    report = os.path.join(bench.temporary, "report file.json")
    # Of a job that was not watched nothing is known.
    for job, healthy in ((["true"], False), (["sh", "-c", f'"{bench.writer}" "$NCCLWATCH_DIR"'], True)):
        check_equal(run(bench, "--json", report, "--", *job).status, 0, "status")
        with open(report) as file:
            told = json.load(file)
        check_equal((told["findings"], told["healthy"]), ([], healthy), "findings, healthy")
        os.unlink(report)


@bench_case
def last_line_of_a_run(bench):
    job = ["sh", "-c", f'"{bench.writer}" "$NCCLWATCH_DIR"']
    check(run(bench, "--", *job).err.splitlines()[-1].startswith("[ncclwatch] healthy: 1 of "), "of a healthy job")
    record = os.path.join(bench.temporary, "recorded run")
    recorded = run(bench, "--record", record, "--", *job)
    check_equal(recorded.err.splitlines()[-1], f"[ncclwatch] recorded in {record}: ncclwatch stats {record}", "of a recorded job")
    check_equal(run(bench, "--log", "error", "--", *job).err, "", "asked to be quiet")


@bench_case
def unwatched_job_is_said_to_be(bench):
    check("no process of this job called NCCL" in run(bench, "--", "true").err, "said")
    check_equal(run(bench, "--log", "error", "--", "true").err, "", "asked to be quiet")


def installed(bench, name, library=True):
    """A copy of the command elsewhere, with or without the library."""
    root = os.path.join(bench.temporary, name)
    os.makedirs(os.path.join(root, "bin"))
    os.makedirs(os.path.join(root, "lib"))
    shutil.copy(bench.build.command, os.path.join(root, "bin"))
    if library:
        bench.build.need(bench.build.library)
        shutil.copy(bench.build.library, os.path.join(root, "lib"))
        shutil.copy(bench.build.library.replace(".so", "-core.so"), os.path.join(root, "lib"))
    return root


@bench_case
def without_the_library_it_says_so(bench):
    root = installed(bench, "bare", library=False)
    done = bench.sandbox.run([os.path.join(root, "bin", "ncclwatch"), "run", "--", "echo", "started"], bench.environment())
    check_equal((done.status, done.out), (3, ""), f"{done}")
    check(f"{root}/lib/ncclwatch/libncclwatch.so" in done.err, f"which file is missing: {done}")


@bench_case
def installed_in_a_path_with_spaces(bench):
    root = installed(bench, "with spaces: and colons")
    script = f'grep -c "with spaces.*libncclwatch" /proc/self/maps; "{bench.writer}" "$NCCLWATCH_DIR" >&2; echo "$NCCLWATCH_DIR"'
    done = bench.sandbox.run([os.path.join(root, "bin", "ncclwatch"), "run", "--", "bash", "-c", script], bench.environment())
    mapped, directory = done.out.split()
    check(done.status == 0 and int(mapped) > 0 and "ERROR" not in done.err, f"the library is not loaded: {done}")
    check(not os.path.exists(directory), "the run directory with the link in it is left behind")


@bench_case
def watches_from_a_path_with_spaces(bench):
    """The library is preloaded by a link in the run directory, and its core lies beside the file, not beside the link."""
    root = installed(bench, "more spaces")
    program = os.path.join(bench.build.root, "examples", "healthy_training")
    bench.build.need(program)
    done = bench.sandbox.run([os.path.join(root, "bin", "ncclwatch"), "run", "--", program, "--steps", "300"],
                             {**bench.environment(), "LD_LIBRARY_PATH": bench.build.softgpu, "RANK": "0", "WORLD_SIZE": "1"})
    check(done.status == 0 and "watching 1/1 ranks" in done.err, f"the job is not watched: {done}")


@bench_case
def library_for_the_jobs_mpi(bench):
    """Which one is taken: here the same file under three names."""
    root = installed(bench, "mpi")
    command, lib = os.path.join(root, "bin", "ncclwatch"), os.path.join(root, "lib")

    def preloaded(*options, **extra):
        done = bench.sandbox.run([command, "run", *options, "--", "sh", "-c", 'echo "$LD_PRELOAD"'],
                                 {**bench.environment(), **extra})
        check_equal(done.status, 0, f"status of {done}")
        return done.out.strip(), done.err

    out, err = preloaded("--mpi", "mpich")
    check_equal(out, f"{lib}/libncclwatch.so", "the library for MPICH is missing")
    check_equal(err.count("libncclwatch-mpich.so is missing"), 1, f"said: {err}")
    for mpi in ("openmpi", "mpich"):
        shutil.copy(bench.build.library, os.path.join(lib, f"libncclwatch-{mpi}.so"))
        out, err = preloaded("--mpi", mpi, "--log", "info")
        check_equal(out, f"{lib}/libncclwatch-{mpi}.so", mpi)
        check(f"preloading libncclwatch-{mpi}.so: asked for by --mpi" in err, f"said: {err}")
    for options in ([], ["--mpi", "none"]):
        check_equal(preloaded(*options)[0], f"{lib}/libncclwatch.so", f"with {options}")
    check("preloading" not in preloaded("--mpi", "mpich")[1], "said without being asked")
    own = os.path.join(lib, "libncclwatch-openmpi.so")
    check_equal(preloaded("--mpi", "mpich", LD_PRELOAD=own)[0], own, "what the user preloads stays")
    check_equal(bench.sandbox.run([command, "run", "--mpi", "lam", "--", "true"], bench.environment()).status, 2, "usage")


@bench_case
def only_ranks_are_preloaded(bench):
    """By the real launchers: what the ranks have in LD_PRELOAD, and what the launcher itself has."""
    script = 'tr "\\0" "\\n" < /proc/$PPID/environ | grep -c ^LD_PRELOAD=; echo "rank has $LD_PRELOAD"'
    launchers = (["mpirun.openmpi", "--allow-run-as-root", "--oversubscribe", "-np", "2"], ["mpirun.mpich", "-n", "2"])
    found = [words for words in launchers if shutil.which(words[0])]
    if not found:
        raise Skipped("no mpirun.openmpi and no mpirun.mpich")
    for words in found:
        for before in ("", bench.build.nccl):
            extra = {"LD_PRELOAD": before} if before else {}
            done = run(bench, "--mpi", "none", "--", *words, "sh", "-c", script, **extra)
            check_equal(done.status, 0, f"{words}: {done}")
            lines = sorted(done.out.split("\n"))
            objects = bench.build.library + (":" + before if before else "")
            check_equal(lines, sorted(["1" if before else "0", f"rank has {objects}"] * 2 + [""]), f"{words}, {before}")


@bench_case
def nothing_stays_running(bench):
    done = run(bench, "--", "sh", "-c", "true")
    for entry in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{entry}/stat") as file:
                session = int(file.read().rsplit(")", 1)[1].split()[3])
        except OSError:
            continue
        check(session != done.pid, f"process {entry} of the run's session lives")


@bench_case
def killed_run_leaves_no_witness(bench):
    process = started(bench)
    children = f"/proc/{process.pid}/task/{process.pid}/children"
    with open(children) as file:
        pids = file.read().split()
    check_equal(len(pids), 2, "children: the job and the witness")
    process.kill()
    process.wait()

    def witness_gone():
        names = []
        for pid in pids:
            try:
                with open(f"/proc/{pid}/comm") as file:
                    names.append(file.read().strip())
            except OSError:
                pass
        return "ncclwatch-sig" not in names

    until(witness_gone, "the witness ends")
    process.stdin.close()  # the job's own end
    process.stdout.read()
    process.stdout.close()
