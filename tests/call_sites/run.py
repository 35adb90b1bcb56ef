#!/usr/bin/env python3
"""The lines of Python from which calls are recorded (NCCLWATCH_SITES), against the programs' own sources: under the
system's python3, any python3.N on PATH and those of NCCLWATCH_TEST_PYTHONS (paths, separated by colons)."""
import os
import re
import shutil
import signal
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [os.path.join(HERE, "..", "support"), os.path.join(HERE, "..", "python_stacks")]

from harness import Skipped, case, check, check_equal, clean_environment, run_main, soak_case, trace  # noqa: E402
from pythons import each_python, pythons  # noqa: E402

PROGRAMS = os.path.join(HERE, "programs")
GENERATED = 2000  # the first count of generated code
CALLS = 10_000_000


class Here:
    """A line that has to be recorded."""

    def __init__(self, file, line, words):
        self.file, self.line = file, line
        self.function = words[words.index("in") + 1] if "in" in words else None
        self.on_main = words[-2:] == ["of", "main"]


def marked(*folders):
    """{count: Here} of all sources below these folders."""
    found = {}
    for folder in folders:
        for place, _, names in os.walk(folder):
            for name in names:
                path = os.path.join(place, name)
                if not name.endswith(".py"):
                    continue
                with open(path) as file:
                    for number, line in enumerate(file, 1):
                        words = line.partition("# here ")[2].split()
                        for count in (int(word) for word in words if word.isdigit()):
                            found[count] = Here(path, number, words)
    return found


class Program:
    """The program, its folder `common` and the packages in a sandbox."""

    def __init__(self, sandbox, name="sites.py"):
        sandbox.build.need(sandbox.build.library, sandbox.build.command, sandbox.build.nccl, native(sandbox))
        self.sandbox = sandbox
        self.folder = os.path.join(sandbox.path, "program")
        self.packages = os.path.join(sandbox.path, "lib", "python3", "site-packages")
        if not os.path.exists(self.folder):
            shutil.copytree(PROGRAMS, self.folder)
            os.makedirs(os.path.dirname(self.packages))
            os.rename(os.path.join(self.folder, "packages"), self.packages)
        self.script = os.path.join(self.folder, name)

    def argv(self, python, *more):
        return [*python, self.script, self.sandbox.build.nccl, native(self.sandbox), *map(str, more)]

    def job(self, python, *more, **extra):
        return self.sandbox.job(self.argv(python, *more), extra={"PYTHONPATH": self.packages, **extra})


def native(sandbox):
    return sandbox.build.program("call_sites", "libcall_sites_native.so")


def expect(call, here, minor):
    """What is wrong with the call's site, None if nothing is."""
    site = call["site"]
    if not site or (site["file"], site["line"]) != (here.file, here.line):
        return f"{call['count']}: {call['site_text']}, not {os.path.basename(here.file)}:{here.line}"
    name = here.function if minor >= 11 or not here.function else here.function.rpartition(".")[2]
    if name and site["function"] != name:
        return f"{call['count']}: {site['function']}, not {name}"
    if site["on_main_thread"] != here.on_main:
        return f"{call['count']}: on_main_thread {site['on_main_thread']}"
    if not site["module"] or not site["offset"]:
        return f"{call['count']}: no native call site"
    text = f"{os.path.basename(site['file'])}:{site['line']} in {site['function']}"
    return None if call["site_text"] == text + (" (main thread)" if here.on_main else "") else call["site_text"]


def minor_of(python):
    done = subprocess.run([*python, "-c", "import sys; print(sys.version_info[1])"], capture_output=True, text=True,
                          env=clean_environment())
    return int(done.stdout)


@case
def lines_of_every_kind(sandbox):
    def test(python):
        program = Program(sandbox)
        job = program.job(python)
        check_equal(job.outputs(), ["done\n"], f"output ({job.done})")
        wanted = {count: here for count, here in marked(program.folder).items() if count > 1000}
        wanted[1041] = Here("<string>", 1, ["in", "<module>"])
        for i in range(50):
            wanted[GENERATED + i] = Here(f"generated_{i}.py", i + 1, ["in", "<module>"])
        calls = {call["count"]: call for call in job.calls() if call["op"] == "AllReduce"}
        check_equal(sorted(calls), sorted(wanted), "counts of the recorded calls")
        wrong = [expect(calls[count], here, minor_of(python)) for count, here in sorted(wanted.items())]
        check(not any(wrong), "\n  ".join(filter(None, wrong)))
    each_python(test)


@case
def lines_survive_a_kill(sandbox):
    program = Program(sandbox)
    directory = os.path.join(sandbox.path, "killed")
    environment = sandbox.environment(True, directory, {"PYTHONPATH": program.packages, "SITES_STAY": "1", "RANK": "0",
                                                        "WORLD_SIZE": "1", "LOCAL_RANK": "0"})
    process = subprocess.Popen(program.argv([sys.executable]), env=environment, stdout=subprocess.PIPE, text=True)
    try:
        check_equal(process.stdout.readline(), "done\n", "the program's output")
        process.send_signal(signal.SIGKILL)
    finally:
        process.kill()
        process.wait()
    calls = [call for call in trace(sandbox, directory) if call["count"] == 1003]
    check_equal([call["site_text"] for call in calls], [f"sites.py:{marked(program.folder)[1003].line} in function"],
                "call site after kill -9")


@case
def modes(sandbox):
    program = Program(sandbox)
    for mode, wanted in (("native", "libffi"), ("off", ""), ("nonsense", "sites.py"), ("python", "sites.py")):
        job = program.job([sys.executable], NCCLWATCH_SITES=mode)
        check_equal(job.outputs(), ["done\n"], f"output ({job.done})")
        texts = {(call["site_text"] or "").partition(":")[0] for call in job.calls() if call["count"] in (1003, 1007)}
        check(all(text.startswith(wanted) if wanted else not text for text in texts), f"{mode}: {texts}")
        check(("NCCLWATCH_SITES" in job.errors()[0]) == (mode == "nonsense"), f"{mode}: {job.errors()}")


@case
def a_program_without_python_says_so(sandbox):
    host = sandbox.build.program("hosts", "many")
    sandbox.build.need(host)
    job = sandbox.job([host, "init_all", "1"], extra={"NCCLWATCH_SITES": "python"})
    check("there is no Python" in job.errors()[0], f"errors: {job.errors()}")


@case
def a_redacted_bundle_hides_the_folder(sandbox):
    program = Program(sandbox)
    job = program.job([sys.executable])
    bundle, folder = os.path.join(sandbox.path, "bundle.tar.zst"), sandbox.fresh("unpacked")
    for argv in ([sandbox.build.command, "bundle", job.directory, "--redact", "-o", bundle],
                 ["tar", "--zstd", "-xf", bundle, "-C", folder]):
        subprocess.run(argv, check=True, capture_output=True, env=clean_environment())
    (box,) = (os.path.join(place, name) for place, _, names in os.walk(folder) for name in names if name.endswith(".box"))
    with open(box, "rb") as file:
        check(os.path.basename(sandbox.path).encode() not in file.read(), "the program's folder is in the bundle")
    line = marked(program.folder)[1003].line
    sites = [call["site"] for call in trace(sandbox, os.path.dirname(box)) if call["count"] == 1003]
    check([site["line"] for site in sites] == [line], f"sites after the bundle: {sites}")


@case
def mpi4py(sandbox):
    python = "/usr/bin/python3"
    library = os.path.join(sandbox.build.root, "lib", "libncclwatch-openmpi.so")
    sandbox.build.need(library)
    if subprocess.run([python, "-c", "import mpi4py.MPI"], capture_output=True, env=clean_environment()).returncode != 0:
        raise Skipped("no python3-mpi4py")
    program = Program(sandbox, "mpi4py_sites.py")
    job = sandbox.job([python, program.script], preload=False,
                      extra={"LD_PRELOAD": library, "LD_LIBRARY_PATH": None, "NCCLWATCH_KEEP": "all"})
    check_equal((job.statuses(), job.outputs()), ([0], ["done\n"]), f"status and output ({job.done})")
    lines = {count: here for count, here in marked(program.folder).items() if here.file == program.script}
    calls = {}
    for call in job.calls():
        calls.setdefault(call["count"], call)
    for count in (501, 502, 503, 505, 506):
        wrong = expect(calls[count], lines[count], minor_of([python]))
        check(wrong is None, wrong)
    check(f"MPI_Send, called from mpi4py_sites.py:{lines[507].line} in wrong: there is no rank 99" in job.errors()[0],
          f"the wrong argument: {job.errors()}")
    (leak,) = (finding for finding in job.diagnosis()["findings"] if finding["kind"] == "resource_leak")
    check(f"mpi4py_sites.py:{lines[508].line} in <module>" in leak["summary"], f"where it was made: {leak['summary']}")


@case
def threads_that_the_interpreter_leaves_behind(sandbox):
    """Daemon threads call on while the interpreter ends."""
    def test(python):
        program = Program(sandbox, "daemons.py")
        for _ in range(10):
            job = program.job(python)
            check_equal((job.statuses(), job.outputs()), ([0], ["done\n"]), f"status and output ({job.done})")
    each_python(test)


@soak_case
def ten_million_calls(sandbox):
    """From random lines, depths, threads, generators and code that is made and dropped."""
    def test(python):
        job = sandbox.job(Program(sandbox, "torture.py").argv(python, CALLS // len(pythons())), timeout=900,
                          extra={"PYTHONPATH": Program(sandbox).packages})
        check_equal((job.statuses(), job.outputs()), ([0], ["done\n"]), f"status and output ({job.done})")
    each_python(test)


@soak_case
def cost(sandbox):
    """At most 60 ns more than with native call sites; prints the figures."""
    nccl = os.path.join(sandbox.build.root, "tests", "bench", "call_cost", "libnccl.so.2")
    sandbox.build.need(nccl)
    program = Program(sandbox, "cost.py")
    best = {}
    for _ in range(5):
        for mode in ("native", "python"):
            done = sandbox.run([sys.executable, program.script, nccl, native(sandbox)],
                               sandbox.environment(True, os.path.join(sandbox.fresh("run"), "run"),
                                                   {"PYTHONPATH": program.packages, "NCCLWATCH_SITES": mode}), timeout=120)
            figures = [float(word) for word in done.out.split()]
            best[mode] = [min(pair) for pair in zip(figures, best.get(mode, figures))]
    added = [python - own for python, own in zip(best["python"], best["native"])]
    names = ("a line of the program", "below eight frames of a package", "a thread without Python")
    for name, own, more in zip(names, best["native"], added):
        print(f"{name}: {own:.1f} ns with native call sites, {more:.1f} ns more with Python's")
    check(max(added) <= 60, f"nanoseconds added: {added}")


if __name__ == "__main__":
    run_main("call_sites")
