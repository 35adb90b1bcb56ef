#!/usr/bin/env python3
"""No include points against the direction of docs/DESIGN.md, neither between the houses nor between the rooms of one, and
nothing of the product includes the tests. No folder holds more than 30 files."""

import os
import re
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "support"))

from harness import case, check, check_equal, run_main  # noqa: E402

ROOT = os.path.realpath(os.path.join(HERE, "..", ".."))
# Text that may be printed: a header alone, for all.
CONTRACT = {"include", "watchdog/text"}
# The libraries of the watchdog that stand lowest: they know the contract and one another, and nothing above.
GROUND = CONTRACT | {"watchdog/descriptors", "watchdog/log", "watchdog/reader", "watchdog/diagnosis", "watchdog/settings", "watchdog/rundir"}
MIDDLE = GROUND | {"watchdog/nodes", "watchdog/watch", "watchdog/exchange", "watchdog/evidence", "watchdog/act"}
MAY_INCLUDE = {
    "include": {"include"},
    "watchdog/text": {"watchdog/text"},
    "watchdog/glibc_floor": {"watchdog/glibc_floor"},
    # Pure: boxes' images and the contract, no settings, no file, no process.
    "watchdog/diagnosis": CONTRACT | {"watchdog/reader", "watchdog/diagnosis"},
    "watchdog/descriptors": {"watchdog/descriptors"},
    "watchdog/reader": CONTRACT | {"watchdog/reader", "watchdog/descriptors"},
    # What leaders tell one another, whatever carries it: as pure as the diagnosis.
    "watchdog/nodes": CONTRACT | {"watchdog/reader", "watchdog/diagnosis", "watchdog/nodes"},
    "watchdog/settings": CONTRACT | {"watchdog/settings"},
    "watchdog/log": CONTRACT | {"watchdog/log", "watchdog/settings", "watchdog/descriptors"},
    "watchdog/rundir": CONTRACT | {"watchdog/rundir", "watchdog/settings", "watchdog/reader", "watchdog/descriptors",
                                  "watchdog/log"},
    "watchdog/watch": MIDDLE,
    "watchdog/exchange": MIDDLE,
    "watchdog/evidence": MIDDLE,
    "watchdog/act": MIDDLE,
    "shim": MIDDLE | {"shim"},
    # On the contract's terms alone: the product and its tests simulate with it.
    "simulation": CONTRACT | {"simulation"},
    "analyzer": MIDDLE | {"analyzer", "simulation"},
}
# Inside a house: which of its rooms each room may know. "." is the house's own folder. A room that no line names knows
# none of the others, and none knows it.
ROOMS = {
    "watchdog/diagnosis": {
        "model": "",
        "calls": "",
        "view": "model calls",
        "compare": "model view",
        "mpi": "calls view",
        "waits": "model calls view mpi",
        "deaths": "model view waits",
        "rules": "model calls view compare waits deaths",
        "rules/mpi": "model calls view mpi waits rules",
        "report": "model view",
        "live": "calls",
        "statistics": "",
        "numbers": "model view rules report statistics",
        "steps": "calls view compare",
        "environment": "model view rules report",
        "slow": "model view compare environment rules report numbers statistics steps",
        "follow": "calls model view compare steps",
        ".": "model view compare environment waits rules rules/mpi report",
    },
    "watchdog/exchange": {
        "net": "",
        "protocol": "net",
        "rendezvous": "protocol",
        "tcp": "net protocol rendezvous",
        "redis": "net protocol",
        ".": "net protocol rendezvous tcp redis",
    },
    "watchdog/watch": {
        "base": "",
        "process": "base",
        "node": "base",
        "cluster": "base node",
        "leader": "base process node cluster",
        ".": "base process leader",
    },
    "shim": {
        "preload": "",
        "base": "",
        "resolve": "base preload",
        "black_box": "base resolve",
        "exit_report": "base resolve black_box",
        "recorder": "base resolve black_box exit_report",
        "profiler": "base resolve black_box recorder",
        "crash_handlers": "base resolve black_box exit_report",
        "process": "base resolve black_box exit_report crash_handlers",
        "hooks": "base preload resolve black_box exit_report recorder profiler process",
        "mpi/core": "base resolve black_box exit_report process",
        "mpi/objects": "mpi/core",
        "mpi/record": "base black_box recorder mpi/core mpi/objects",
        "mpi/communicators": "base black_box process mpi/core mpi/objects mpi/record",
        "mpi/requests": "base recorder mpi/core mpi/objects mpi/record mpi/communicators",
        "mpi/wrappers": "base resolve crash_handlers process mpi/core mpi/objects mpi/record mpi/communicators mpi/requests "
                        "mpi/wrappers/shapes",
        "mpi/wrappers/shapes": "mpi/core mpi/objects mpi/record mpi/communicators mpi/requests",
    },
    "analyzer": {
        "files": "",
        "console": "",
        "import": "",
        "import/inspector": "",
        "export": "import",
        "export/calls": "files recording trace",
        "stacks/base": "",
        "stacks/unwind": "stacks/base",
        "stacks/names": "stacks/base stacks/unwind",
        "stacks/lines": "files stacks/names",
        "stacks/threads": "files stacks/base stacks/unwind stacks/names",
        "stacks/python": "files stacks/base",
        "stacks/process": "files stacks/base stacks/threads",
        "stacks/show": "stacks/base stacks/process",
        "stacks": "stacks/base stacks/unwind stacks/names stacks/threads stacks/python stacks/process stacks/show",
        "segments": "files",
        "jobs": "files console import import/inspector segments stacks stacks/lines",
        "recording": "console jobs segments",
        "metrics": "files jobs",
        "meanwhile": "files jobs stacks stacks/base stacks/names stacks/process stacks/python stacks/show stacks/threads",
        "trace": "console jobs recording segments",
        "stats": "console recording",
        "replay": "recording segments",
        "run/mpi": "files stacks/base",
        "run": "files console jobs run/mpi",
        "player/base": "",
        "player/mpi": "player/base",
        "player/nccl": "files player/base",
        "player": "files console player/base player/nccl recording replay run run/mpi stats",
        "triage": "console files",
        "doctor/checks": "files console run/mpi run",
        "doctor/ranks": "console doctor/checks",
        "doctor": "files console doctor/checks doctor/ranks",
        "compare": "files console jobs recording report steps trace",
        "bisect": "files console jobs triage",
        "bundle": "console files jobs",
        "correlate": "files",
        "investigate": "files console jobs recording segments steps triage",
        "edit": "recording",
        "shrink": "files edit jobs player player/nccl recording replay",
        "steps": "console recording",
        "top": "console jobs metrics trace",
        "report": "console jobs recording steps trace",
        "commands/options": "console recording steps trace",
        "commands": "bisect bundle commands/options compare console correlate doctor doctor/checks doctor/ranks edit export export/calls files investigate jobs meanwhile metrics player recording replay report run segments shrink stacks stacks/show stats steps top trace triage",
        ".": "console commands commands/options",
    },
}
MOST_FILES = 30
# What tests read, and no source: a folder of it is as long as there are cases.
DATA = ("tests/golden", "tests/fuzz/corpus")
# The diagnosis looks at nothing but its arguments.
FORBIDDEN_IN_DIAGNOSIS = {"chrono", "thread", "mutex", "filesystem", "fstream", "iostream", "cstdlib", "ctime", "unistd.h",
                          "fcntl.h", "time.h", "sys/stat.h", "pthread.h", "future", "condition_variable", "random"}
SOURCES = (".h", ".cc", ".def", ".c", ".S", ".inc")


def unit(path):
    parts = path.split(os.sep)
    return "/".join(parts[:2]) if parts[0] == "watchdog" else parts[0]


def includes():
    for top in ("include", "watchdog", "shim", "simulation", "analyzer"):
        for folder, _, names in os.walk(os.path.join(ROOT, top)):
            for name in names:
                if name.endswith(SOURCES):
                    path = os.path.join(folder, name)
                    with open(path, errors="replace") as file:
                        for number, line in enumerate(file, 1):
                            found = re.match(r"\s*#\s*include\s*([<\"])([^>\"]+)[>\"]", line)
                            if found:
                                yield os.path.relpath(path, ROOT), number, found.group(1), found.group(2)


def file_of(source, name):
    """The file that an include names, or None for a header from outside the project."""
    for base in (os.path.join(ROOT, "include"), ROOT, os.path.join(ROOT, os.path.dirname(source))):
        path = os.path.realpath(os.path.join(base, name))
        if os.path.isfile(path) and path.startswith(ROOT + os.sep) and not path.startswith(os.path.join(ROOT, "build")):
            return os.path.relpath(path, ROOT)
    return None


def target(source, name):
    path = file_of(source, name)
    return unit(path) if path else None


def room(path):
    """(house, room) of a file, or None where its house has no rooms."""
    folder = os.path.dirname(path)
    for house in ROOMS:
        if folder == house or folder.startswith(house + "/"):
            return house, os.path.relpath(folder, house)
    return None


def folders_of_includes():
    """From each folder to those that its files include, with one place for each."""
    edges = {}
    for source, number, _, name in includes():
        to = file_of(source, name)
        if to and os.path.dirname(to) != os.path.dirname(source):
            edges.setdefault(os.path.dirname(source), {}).setdefault(os.path.dirname(to), f"{source}:{number}")
    return edges


def find_cycle(edges):
    """One cycle of folders, or None."""
    done, path = set(), []

    def visit(folder):
        if folder in path:
            return path[path.index(folder):] + [folder]
        if folder in done:
            return None
        path.append(folder)
        for to in sorted(edges.get(folder, {})):
            found = visit(to)
            if found:
                return found
        path.pop()
        done.add(folder)
        return None

    for folder in sorted(edges):
        found = visit(folder)
        if found:
            return found
    return None


@case
def includes_point_one_way(sandbox):
    wrong, seen = [], 0
    for source, number, _, name in includes():
        to = target(source, name)
        seen += to is not None
        if to is not None and to not in MAY_INCLUDE.get(unit(source), set()):
            wrong.append(f"{source}:{number} includes {name}: {unit(source)} may not know {to}")
    print(f"{seen} includes inside the project")
    check(seen > 50, "the sources were not found")
    check_equal(wrong, [], "includes against the direction")


@case
def rooms_of_a_house_know_those_below(sandbox):
    wrong, seen = [], set()
    for source, number, _, name in includes():
        to = file_of(source, name)
        at, there = room(source), room(to) if to else None
        if at:
            seen.add(at)
        if not at or not there or at[0] != there[0] or at == there:
            continue
        if there[1] not in ROOMS[at[0]].get(at[1], "").split():
            wrong.append(f"{source}:{number} includes {name}: {at[1]} may not know {there[1]}")
    check(len(seen) > 40, "the rooms were not found")
    check_equal(wrong, [], "includes against the direction inside a house")


@case
def every_room_is_named(sandbox):
    there = {room(os.path.relpath(os.path.join(folder, name), ROOT))
             for house in ROOMS for folder, _, names in os.walk(os.path.join(ROOT, house)) for name in names
             if name.endswith((".h", ".cc"))}
    named = {(house, name) for house, rooms in ROOMS.items() for name in rooms}
    check_equal(sorted(there - named), [], "rooms that the table does not name")
    check_equal(sorted(named - there), [], "rooms of the table that are not there")


@case
def no_cycle_of_folders(sandbox):
    check_equal(find_cycle({"a": {"b": ""}, "b": {"c": ""}, "c": {"a": ""}}), ["a", "b", "c", "a"], "the search itself")
    check_equal(find_cycle({"a": {"b": "", "c": ""}, "b": {"c": ""}}), None, "the search itself")
    edges = folders_of_includes()
    check(len(edges) > 40, "the folders were not found")
    check_equal(find_cycle(edges), None, "a cycle of folders")


@case
def no_folder_is_too_full(sandbox):
    counts = {}
    for top in ("include", "watchdog", "shim", "simulation", "analyzer", "tests", "examples", "docs", "cmake"):
        for folder, below, names in os.walk(os.path.join(ROOT, top)):
            below[:] = [name for name in below if name not in ("__pycache__", "build")]
            path = os.path.relpath(folder, ROOT)
            if not any(path == data or path.startswith(data + "/") for data in DATA):
                counts[path] = len(names)
    check(len(counts) > 60, "the folders were not found")
    check_equal({path: number for path, number in counts.items() if number > MOST_FILES}, {}, "folders with too many files")


@case
def every_folder_has_its_place(sandbox):
    units = {unit(os.path.relpath(os.path.join(folder, name), ROOT))
             for top in ("include", "watchdog", "shim", "simulation", "analyzer")
             for folder, _, names in os.walk(os.path.join(ROOT, top)) for name in names if name.endswith((".h", ".cc"))}
    check_equal(sorted(units - set(MAY_INCLUDE)), [], "folders that the direction does not name")


@case
def diagnosis_is_pure(sandbox):
    wrong = [f"{source}:{number} includes <{name}>" for source, number, kind, name in includes()
             if unit(source) in ("watchdog/diagnosis", "watchdog/nodes") and kind == "<" and
             name in FORBIDDEN_IN_DIAGNOSIS]
    check_equal(wrong, [], "a diagnosis without clock, thread, file and environment")


@case
def injected_code_knows_no_abseil(sandbox):
    """Debian's archives of Abseil are not built for shared objects, and the library brings none along."""
    seen = [(source, number) for source, number, _, name in includes() if name.startswith("absl/")]
    wrong = [f"{source}:{number}" for source, number in seen if not source.startswith("analyzer" + os.sep)]
    check(len(seen) > len(wrong), "no include of Abseil was found in the command")
    check_equal(wrong, [], "includes of Abseil outside of the programs")


@case
def project_includes_are_quoted_from_the_root(sandbox):
    wrong = [f"{source}:{number} {name}" for source, number, kind, name in includes()
             if target(source, name) is not None and (kind == "<" or name.startswith(".."))]
    check_equal(wrong, [], "includes of the project in <> or through ..")


@case
def commands_read_copies_of_boxes(sandbox):
    """A mapping shows what its owner writes after the checks; root reads boxes of users. The collector, the metrics of a node,
    samples of stragglers and `top` alone follow living boxes, as a leader does."""
    wrong = []
    for folder, _, names in os.walk(os.path.join(ROOT, "analyzer")):
        for name in names:
            with open(os.path.join(folder, name), errors="replace") as file:
                if "MappedBox::Open" in file.read():
                    wrong.append(os.path.relpath(os.path.join(folder, name), ROOT))
    check_equal(sorted(wrong), ["analyzer/meanwhile/sampling.cc", "analyzer/metrics/node_state.cc", "analyzer/recording/collector.cc",
                                "analyzer/top/look.cc"],
                "sources of commands that map boxes")


@case
def files_are_opened_in_one_place(sandbox):
    """Streams of the standard library follow links, wait for FIFOs and give files the umask's mode. In the commands
    analyzer/files opens what somebody can name, in a host watchdog/descriptors does."""
    raw = re.compile(r"\b(?:std::[io]?fstream|std::basic_[io]?fstream|fopen|freopen|copy_file|fs::copy|create_director(?:y|ies))\b")
    wrong = []
    for top in ("analyzer", "watchdog", "shim"):
        for folder, _, names in os.walk(os.path.join(ROOT, top)):
            for name in names:
                if not name.endswith((".cc", ".h")):
                    continue
                path = os.path.join(folder, name)
                with open(path) as file:
                    wrong += [f"{os.path.relpath(path, ROOT)}:{number}" for number, line in enumerate(file, 1)
                              if raw.search(line.split("//")[0])]
    check_equal(wrong, [], "files that are opened past analyzer/files and watchdog/descriptors")


# Names of what people read, and what looks into a text. `std::find` over a list compares whole sentences, which is no reading.
SENTENCES = re.compile(r"\b(?:summary|evidence|next_steps|notes|complaints?|sentences?|machine_lines)\b")
READS = re.compile(r"(?:\.|->)(?:r?find(?:_\w+)?|contains|starts_with|ends_with|substr|compare|remove_prefix)\("
                   r"|\b(?:StrContains\w*|StartsWith\w*|EndsWith\w*|Consume(?:Prefix|Suffix)|StrSplit|PartialMatch|FullMatch|strstr)\(")
# What such a statement may be: a sentence with {fields}, which a user's rule brings, is filled in.
READ_ON_PURPOSE = {"analyzer/triage/verdict.cc"}


def statements(path):
    with open(path) as file:
        code = re.sub(r'"(?:\\.|[^"\\])*"', '""', re.sub(r"//[^\n]*", "", file.read()))
    line = 1
    for statement in re.split(r"(?<=[;{}])\n", code):
        yield line, statement
        line += statement.count("\n") + 1


def read_sentences(path):
    for line, statement in statements(path):
        found = READS.search(statement)
        if found and SENTENCES.search(statement):
            yield line + statement[:found.start()].count("\n")


@case
def no_code_reads_a_sentence(sandbox):
    """What a finding says of itself in words is also there as a field or a fact (finding.h): code looks there."""
    source = os.path.join(sandbox.fresh("sources"), "a.cc")
    with open(source, "w") as file:
        file.write('int F() {\n  return finding.summary.find("late") != npos;\n}\n'
                   "std::erase_if(finding.evidence, [](const auto& line) { return line.starts_with(kQuoted); });\n")
    check_equal(list(read_sentences(source)), [2, 4], "the search itself")
    wrong, seen = [], 0
    for top in ("analyzer", "watchdog", "shim", "simulation"):
        for folder, _, names in os.walk(os.path.join(ROOT, top)):
            for name in names:
                path = os.path.relpath(os.path.join(folder, name), ROOT)
                if name.endswith((".cc", ".h")) and path not in READ_ON_PURPOSE:
                    seen += 1
                    wrong += [f"{path}:{line}" for line in read_sentences(os.path.join(ROOT, path))]
    check(seen > 500, "the sources were not found")
    check_equal(wrong, [], "sentences that code reads")


if __name__ == "__main__":
    run_main("direction")
