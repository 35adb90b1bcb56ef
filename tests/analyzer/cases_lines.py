"""Source lines of call sites, in programs built in the ways in which people build them: against gdb and addr2line."""

import json
import os
import re
import shutil
import subprocess

from common import HERE, Skipped, bench_case, check, check_equal, until

SOURCE = os.path.join(HERE, "programs", "call_sites.cc")
# operation -> the function that calls it, and a word of the line.
CALLS = {"CommInitRank": ("main", "ncclCommInitRank("), "AllReduce": ("Average", "ncclAllReduce("),
         "Broadcast": ("ShareInline", "ncclBroadcast("), "Reduce": ("layers::Layer<float>::Collect", "ncclReduce("),
         "CommDestroy": ("main", "ncclCommDestroy(")}


def tool(*argv, cwd=None):
    if not shutil.which(argv[0]):
        raise Skipped(f"no {argv[0]} here")
    done = subprocess.run(argv, capture_output=True, text=True, cwd=cwd)
    check(done.returncode == 0, f"{' '.join(argv)}: {done.stdout}{done.stderr}")
    return done.stdout


def built(bench, folder, *flags, compiler="g++"):
    """Linked with softgpu's libnccl, which it finds by itself."""
    program = os.path.join(folder, "call_sites")
    softgpu = bench.build.softgpu
    tool(compiler, "-std=c++17", "-O2", "-Wno-return-type-c-linkage", *flags, SOURCE, "-o", program, f"-L{softgpu}",
         "-l:libnccl.so.2", f"-Wl,-rpath,{softgpu}", "-Wl,--build-id", cwd=folder)
    return program


def recorded(bench, program):
    directory = bench.sandbox.fresh("runs")
    os.chmod(directory, 0o700)
    environment = bench.environment(LD_PRELOAD=bench.build.library, NCCLWATCH_DIR=directory, RANK="0", WORLD_SIZE="1",
                                    NCCLWATCH_LOG="off")
    with subprocess.Popen([program], env=environment, stdin=subprocess.PIPE) as rank:
        until(lambda: (found := sites(bench, directory)).keys() == CALLS.keys() and all(found.values()), "named call sites")
        rank.communicate(b"\n", timeout=20)
    check_equal(rank.returncode, 0, "status of the program")
    return directory


def sites(bench, directory, **environment):
    done = bench.command("trace", "--json", directory, **environment)
    # Before the first call there is nothing to read.
    return {call["op"]: call["site"] for call in map(json.loads, done.out.splitlines()) if call["op"] in CALLS}


def line_of(word):
    with open(SOURCE) as file:
        return [number for number, line in enumerate(file, 1) if f"Must({word}" in line][0]


def check_lines(bench, directory, reference, **environment):
    """Each site is the line of the source that makes the call, and what gdb and addr2line make of its offset."""
    if bench.build.sanitizer:
        raise Skipped("a sanitizer stands in front")
    found = sites(bench, directory, **environment)
    check_equal(set(found), set(CALLS), "operations")
    for op, (function, word) in CALLS.items():
        site = found[op]
        check_equal((os.path.basename(site["file"] or ""), site["line"], site["function"]),
                    ("call_sites.cc", line_of(word), function), f"{op}: {site}")
        said = tool("gdb", "-batch", "-nx", "-ex", f"info line *{site['offset']}", reference)
        check(f"Line {site['line']} of " in said, f"{op}: gdb says {said}")
        names = tool("addr2line", "-f", "-i", "-C", "-e", reference, hex(site["offset"])).splitlines()
        if names[1].startswith("??"):
            continue  # addr2line does not follow split units
        check_equal(re.sub(r"\(.*", "", names[0]).split(" ")[-1], function, f"{op}: addr2line says {names}")


@bench_case
def lines_of_ordinary_builds(bench):
    for name, flags in {"dwarf5": ["-g", "-gdwarf-5"], "dwarf4": ["-g", "-gdwarf-4"], "g1": ["-g1"],
                        "compressed": ["-g", "-gz=zlib"], "fixed": ["-g", "-no-pie"]}.items():
        program = built(bench, bench.sandbox.fresh(name), *flags)
        check_lines(bench, recorded(bench, program), program)


@bench_case
def lines_of_split_debug_information(bench):
    program = built(bench, bench.sandbox.fresh("split"), "-g", "-gsplit-dwarf")
    check_lines(bench, recorded(bench, program), program)


@bench_case
def lines_without_an_index_of_addresses(bench):
    """clang writes no .debug_aranges."""
    if not shutil.which("clang++"):
        raise Skipped("no clang++ here")
    program = built(bench, bench.sandbox.fresh("clang"), "-g", compiler="clang++")
    check_lines(bench, recorded(bench, program), program)


def apart(bench, name):
    """A stripped program and its debug information: before it runs, so that the file is as old as it was then."""
    program = built(bench, bench.sandbox.fresh(name), "-g")
    whole = program + ".whole"
    shutil.copy(program, whole)
    tool("objcopy", "--only-keep-debug", program, program + ".debug")
    tool("objcopy", "--strip-all", program)
    return program, whole, program + ".debug"


@bench_case
def lines_of_a_debug_link(bench):
    program, whole, debug = apart(bench, "link")
    tool("objcopy", f"--add-gnu-debuglink={debug}", program)
    os.mkdir(os.path.join(os.path.dirname(program), ".debug"))
    shutil.move(debug, os.path.join(os.path.dirname(program), ".debug"))
    check_lines(bench, recorded(bench, program), whole)


@bench_case
def lines_that_debuginfod_has_fetched(bench):
    program, whole, debug = apart(bench, "fetched")
    build_id = re.search(r"Build ID: (\w+)", tool("readelf", "-n", program))[1]
    cache = bench.sandbox.fresh("cache")
    os.mkdir(os.path.join(cache, build_id))
    shutil.move(debug, os.path.join(cache, build_id, "debuginfo"))
    check_lines(bench, recorded(bench, program), whole, DEBUGINFOD_CACHE_PATH=cache)


@bench_case
def no_line_of_another_program(bench):
    """A program that was built anew since, and debug information of another build: no line rather than a wrong one."""
    program, _, debug = apart(bench, "changed")
    tool("objcopy", f"--add-gnu-debuglink={debug}", program)
    directory = recorded(bench, program)

    def files():
        return {site["file"] and os.path.basename(site["file"]) for site in sites(bench, directory).values()}

    check_equal(files(), {"call_sites.cc"}, "lines of this build")
    other = built(bench, bench.sandbox.fresh("other"), "-g", "-O0")
    tool("objcopy", "--only-keep-debug", other, debug)
    check_equal(files(), {None}, "lines of another build")
    shutil.copy(other, program)
    check_equal(files(), {None}, "lines of a later program")
