#!/usr/bin/env python3
"""The built libraries, the preloaded files and their cores: what they need and export, and that a process without NCCL
neither sees nor pays for them."""

import glob
import os
import re
import shutil
import statistics
import subprocess
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "support"))

from harness import Skipped, case, check, check_equal, run_main  # noqa: E402

ROOT = os.path.join(HERE, "..", "..")
# libgcc_s stays dynamic (libgcc_eh alone would force glibc 2.35); the rest is glibc itself.
ALLOWED_NEEDED = {"libc.so.6", "libgcc_s.so.1", "libm.so.6", "libdl.so.2", "libpthread.so.0", "librt.so.1",
                  "ld-linux-x86-64.so.2", "ld-linux-aarch64.so.1"}
DEMO_NEEDED = {"libnccl.so.2", "libcudart.so.12", "libcudart.so.13", "libcuda.so.1"}
# Beside the functions of nccl.def: the interposed functions of libc, the profiler plugin, the annotation API.
OTHER_EXPORTS = re.compile(r"dlsym|_exit|_Exit|quick_exit|ncclProfiler_v\d+|ncclwatch_\w+")
HIGHEST_GLIBC = (2, 28)


def tool(*argv):
    if not shutil.which(argv[0]):
        raise Skipped(f"no {argv[0]} here")
    done = subprocess.run(argv, capture_output=True, text=True)
    check(done.returncode == 0, f"{' '.join(argv)}: {done.stderr}")
    return done.stdout


def library(sandbox):
    sandbox.build.need(sandbox.build.library)
    return sandbox.build.library


def files(sandbox):
    """The preloaded file of NCCL and of each MPI that was built."""
    first = library(sandbox)
    others = [first.replace("libncclwatch.so", f"libncclwatch-{mpi}.so") for mpi in ("openmpi", "mpich")]
    return [first] + [path for path in others if os.path.exists(path)]


def core_of(path):
    return path[:-len(".so")] + "-core.so"


def shipped(sandbox):
    """Whatever a package brings along that asks for a glibc: cores, the command, and what `ncclwatch demo` runs."""
    build = os.path.dirname(os.path.dirname(library(sandbox)))
    demo = [os.path.join(build, "examples", "demo_job"), *glob.glob(os.path.join(build, "softgpu", "*.so.*"))]
    return [*map(core_of, files(sandbox)), os.path.join(build, "bin", "ncclwatch"), *filter(os.path.exists, demo)]


def plain_build(sandbox):
    if sandbox.build.sanitizer:
        raise Skipped("a sanitizer adds libraries and symbols of its own")
    return library(sandbox)


def table():
    with open(os.path.join(ROOT, "include", "ncclwatch", "functions", "nccl.def")) as file:
        rows = re.findall(r"^HOOK(?:_AS\([^,]+,|\() *\d+, *(\w+),", file.read(), re.M)
    check(len(rows) > 50, "nccl.def was not understood")
    with open(os.path.join(ROOT, "include", "ncclwatch", "functions", "cuda.def")) as file:
        allocations = re.findall(r"^ALLOCATION\(\d+, *(\w+),", file.read(), re.M)
    check(len(allocations) >= 10, "cuda.def was not understood")
    return set(rows) | set(allocations)


def exports(path):
    names = {}
    for line in tool("nm", "-D", "--defined-only", path).splitlines():
        fields = line.split()
        names[fields[-1]] = fields[-2]
    return names


def needed(path):
    return re.findall(r"\(NEEDED\).*\[(.+)\]", tool("readelf", "-dW", path))


@case
def needed_libraries(sandbox):
    plain_build(sandbox)
    for path in files(sandbox):
        check_equal(needed(path), [], f"libraries that {path} needs")
        print(f"{os.path.basename(core_of(path))} needs", " ".join(needed(core_of(path))))
        check_equal(sorted(set(needed(core_of(path))) - ALLOWED_NEEDED), [], "needed libraries beyond glibc and libgcc_s")


@case
def preloaded_file_loads_anywhere(sandbox):
    """No symbol version, and no symbol that has to be found: both end every program of a machine whose C library lacks
    one, since a preloaded object must load."""
    plain_build(sandbox)
    for path in files(sandbox):
        check(".gnu.version" not in tool("readelf", "-VW", path), f"{path} asks for symbol versions")
        strong = [line for line in tool("nm", "-D", "--undefined-only", path).splitlines() if line.split()[0] not in "wv"]
        check_equal(strong, [], f"undefined symbols of {path} that are not weak")


@case
def preloaded_under_musl(sandbox):
    plain_build(sandbox)
    if not shutil.which("musl-gcc"):
        raise Skipped("no musl-gcc here")
    place = sandbox.fresh("musl")
    source, program = os.path.join(place, "a.c"), os.path.join(place, "a")
    with open(source, "w") as file:
        file.write("#include <dlfcn.h>\n#include <stdio.h>\n#include <unistd.h>\n"
                   "int main(){ printf(\"%d\\n\", dlsym(RTLD_DEFAULT, \"printf\") != 0); fflush(stdout); _exit(5); }\n")
    tool("musl-gcc", "-o", program, source)
    for path in files(sandbox):
        done = sandbox.run([program], {**sandbox.environment(), "LD_PRELOAD": path})
        check_equal((done.status, done.out, done.err), (5, "1\n", ""), f"a program of musl with {path}")


@case
def exported_names(sandbox):
    names = set(exports(plain_build(sandbox)))
    expected = table()
    print(f"{len(names)} names exported, {len(expected)} rows in nccl.def and cuda.def")
    check_equal(sorted(expected - names), [], "functions of the tables that are not exported")
    check("dlsym" in names, "dlsym is not exported")
    strangers = [n for n in names - expected if not OTHER_EXPORTS.fullmatch(n)]
    check_equal(sorted(strangers), [], "exported names that nobody asked for")


@case
def no_version_nodes(sandbox):
    """A named version node silently stops dlsym from being interposed."""
    for path in files(sandbox):
        check(".gnu.version_d" not in tool("readelf", "-VW", path), "the library defines symbol versions")
        check_equal([n for n in exports(path) if "@" in n], [], "exported names with a version")
        check_equal(list(exports(core_of(path))), ["ncclwatch_core_open"], "names that the core exports")


@case
def highest_glibc(sandbox):
    plain_build(sandbox)
    for path in shipped(sandbox):
        text = tool("readelf", "-VW", path)
        versions = sorted({tuple(map(int, v.split("."))) for v in re.findall(r"GLIBC_(\d+(?:\.\d+)+)", text)})
        print(f"{os.path.basename(path)} needs glibc", ".".join(map(str, versions[-1])))
        users = [line for line in tool("nm", "-D", "--undefined-only", path).splitlines()
                 if any(f"GLIBC_{'.'.join(map(str, v))}" in line for v in versions if v > HIGHEST_GLIBC)]
        check(versions[-1] <= HIGHEST_GLIBC, f"{path} needs a glibc newer than {HIGHEST_GLIBC}: {users}")
        check("GLIBCXX" not in text and "CXXABI" not in text, f"{path} needs the shared libstdc++")
        check_equal(sorted(set(needed(path)) - ALLOWED_NEEDED - DEMO_NEEDED), [], f"libraries that {path} needs")


@case
def control_flow_enforcement(sandbox):
    """Under a shadow stack the loader refuses a library without this note. A core has code of static libraries without
    endbr64, and says so."""
    plain_build(sandbox)
    if os.uname().machine != "x86_64":
        raise Skipped("of x86-64 alone")
    for path in files(sandbox):
        check("IBT, SHSTK" in tool("readelf", "-nW", path), f"no note of IBT and SHSTK in {path}")
        check("SHSTK" in tool("readelf", "-nW", core_of(path)), f"no note of SHSTK in {core_of(path)}")


@case
def hardening(sandbox):
    for path in [file for first in files(sandbox) for file in (first, core_of(first))]:
        dynamic = tool("readelf", "-dW", path)
        check("TEXTREL" not in dynamic, f"{path} has text relocations")
        check("RPATH" not in dynamic and "RUNPATH" not in dynamic or sandbox.build.sanitizer,
              f"{path} has a search path of its own")
        segments = tool("readelf", "-lW", path).splitlines()
        stacks = [line for line in segments if "GNU_STACK" in line]
        check_equal(len(stacks), 1, f"GNU_STACK program headers of {path}")
        check("E" not in stacks[0].split()[-2], f"executable stack: {stacks[0]}")
        for line in segments:
            check(not re.match(r"\s+LOAD\s.*\sRWE\s", line), f"a segment that is writable and executable: {line}")


@case
def thread_local_storage(sandbox):
    """The core's thread-local data is static and small: dlopen has to find room for it in the surplus that glibc keeps
    (1,664 bytes for all libraries together). The preloaded file has none."""
    plain_build(sandbox)
    for path in files(sandbox):
        check("TLS" not in tool("readelf", "-lW", path), f"{path} has thread-local storage")
        for line in tool("readelf", "-lW", core_of(path)).splitlines():
            if line.split()[:1] == ["TLS"]:
                size = int(line.split()[5], 16)
                print(f"{os.path.basename(core_of(path))}: {size} bytes of thread-local storage")
                check(size <= 288, f"{size} bytes of thread-local storage in {core_of(path)}")


@case
def loads_with_lazy_and_eager_binding(sandbox):
    for extra in ({}, {"LD_BIND_NOW": "1"}):
        done = sandbox.run(["true"], {**sandbox.environment(), **extra})
        check_equal((done.status, done.out, done.err), (0, "", ""), f"true with {extra}")


GIT = ["git", "-c", "init.defaultBranch=main", "-c", "user.name=n", "-c", "user.email=e@x"]
PROGRAMS = {
    "true": ["true"],
    "bash": ["bash", "-c", "x=$(echo inner; exit 3); echo \"$x $?\"; sleep 0.01 & wait; ls /dev/null | cat; exit 7"],
    "python": [sys.executable, "-c",
               "import ctypes, subprocess, threading, os, sys\n"
               "t = threading.Thread(target=print, args=('thread',)); t.start(); t.join()\n"
               "print(subprocess.run(['sh', '-c', 'exit 5']).returncode, len(os.listdir('/proc/self/task')))\n"
               "print(ctypes.CDLL(None).strlen(b'four'), hasattr(ctypes.CDLL(None), 'ncclNoSuchFunction'))\n"
               "sys.exit(9)"],
    "python_error": [sys.executable, "-c", "raise SystemExit('said on stderr')"],
    "node": ["node", "-e", "setTimeout(() => {console.log('node', 6 * 7); process.exit(4)}, 10)"],
    "git": ["bash", "-c", "d=$(mktemp -d) && cd $d && " + " ".join(GIT) + " init -q . && echo a > f && git add f && "
            + " ".join(GIT) + " commit -q -m one && git log --format=%s && git status --short; s=$?; rm -rf $d; exit $s"],
    "gcc": ["bash", "-c", "d=$(mktemp -d); echo 'int main(){return 6;}' > $d/a.c && gcc -o $d/a $d/a.c && $d/a; s=$?; "
            "rm -rf $d; exit $s"],
    "gdb": ["gdb", "-nx", "-batch", "-ex", "set debuginfod enabled off", "-ex", "print 6 * 7", "-ex", "info inferiors"],
    "java": ["java", "-XshowSettings:none", "-Xshare:auto", "-version"],
    "perl": ["perl", "-e", "my $p = fork(); if (!$p) { exit 3 } waitpid($p, 0); print $? >> 8, \"\\n\"; exit 2"],
    "env": ["env", "-i", "true"],
    "missing": ["bash", "-c", "/no/such/program; echo $?"],
}


def register(name, argv):
    def test(sandbox):
        library(sandbox)
        if not shutil.which(argv[0]) or name == "gcc" and not shutil.which("gcc"):
            raise Skipped(f"no {argv[0]} here")
        if sandbox.build.sanitizer and name in ("node", "java", "gdb"):
            raise Skipped("does not run under a sanitizer's allocator")
        plain_environment = sandbox.environment(preload=False)
        place = sandbox.fresh("run")
        plain = sandbox.run(argv, plain_environment, timeout=60)
        watched = sandbox.run(argv, sandbox.environment(run_directory=os.path.join(place, "dir")), timeout=60)
        for what in ("status", "out", "err"):
            check_equal(getattr(watched, what), getattr(plain, what), f"{what} of {argv[0]} with and without the library")
        check_equal(os.listdir(place), [], "files made for a process that uses no NCCL")

    test.__name__ = "program_" + name
    case(test)


for program_name, program_argv in PROGRAMS.items():
    register(program_name, program_argv)


@case
def no_thread_no_descriptor_no_handler(sandbox):
    """A process that only has the library loaded: one thread, no descriptor, signal state untouched.

    SigQ is left out: it counts the queued signals of the whole user, so other tests move it.
    """
    library(sandbox)
    code = ("import os; s = open('/proc/self/status').read()\n"
            "print(len(os.listdir('/proc/self/task')), sorted(os.readlink('/proc/self/fd/' + f) for f in "
            "os.listdir('/proc/self/fd') if os.path.exists('/proc/self/fd/' + f) and int(f) > 2))\n"
            "print([l for l in s.splitlines() if l.startswith('Sig') and not l.startswith('SigQ')])")
    env = sandbox.environment(preload=False)
    plain = sandbox.run([sys.executable, "-c", code], env)
    watched = sandbox.run([sys.executable, "-c", code])
    check_equal(watched.out.replace(str(watched.pid), "PID"), plain.out.replace(str(plain.pid), "PID"), "process state")


@case
def default_run_directory_untouched(sandbox):
    """Nor does anything appear in the default place."""
    library(sandbox)
    place = f"/dev/shm/ncclwatch-{os.getuid()}"
    env = sandbox.environment()
    env["NCCLWATCH_JOB"] = name = f"built-file-{os.getpid()}"
    done = sandbox.run(["bash", "-c", "true; bash -c true"], env)
    check_equal(done.status, 0, "status")
    check(not os.path.isdir(place) or not [n for n in os.listdir(place) if name in n], "a run directory was made")


@case
def start_up_cost(sandbox):
    """Printed, paired run by run; the bound is only there to catch work that does not belong at start-up."""
    plain_build(sandbox)
    argv = ["/bin/true"]
    environments = [sandbox.environment(preload=False), sandbox.environment()]
    times = [[], []]
    for _ in range(60):
        for which, env in enumerate(environments):
            started = time.perf_counter()
            subprocess.run(argv, env=env)
            times[which].append(time.perf_counter() - started)
    pairs = [b - a for a, b in zip(*times)]
    plain, cost = statistics.median(times[0]) * 1e3, statistics.median(pairs) * 1e3
    print(f"start-up cost: {cost:.3f} ms more than {plain:.3f} ms of {argv[0]} alone (median of {len(pairs)} pairs)")
    check(cost < 5, f"{cost:.3f} ms at start-up")


@case
def works_with_a_clean_environment(sandbox):
    """No HOME, no TMPDIR, no PATH."""
    library(sandbox)
    env = {"LD_PRELOAD": sandbox.environment()["LD_PRELOAD"]}
    done = sandbox.run(["/bin/true"], env)
    check_equal((done.status, done.out, done.err), (0, "", ""), "true in an empty environment")


if __name__ == "__main__":
    run_main("built_file")
