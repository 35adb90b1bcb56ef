#!/usr/bin/env python3
"""No include points against the tables of docs/rooms.md, neither between the houses nor between the rooms of one, and
nothing of the product includes the tests. No code reads a sentence."""

import os
import re
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "support"))

from harness import case, check, check_equal, run_main  # noqa: E402

ROOT = os.path.realpath(os.path.join(HERE, "..", ".."))
ROOMS_FILE = os.path.join(ROOT, "docs", "rooms.md")
HOUSES = ("include", "core", "watchdog", "shim", "simulation", "analyzer")


def read_rooms():
    """The tables of docs/rooms.md: {section: {folder: [what it may include]}}."""
    tables, section = {}, None
    with open(ROOMS_FILE) as file:
        for line in file:
            if line.startswith("## "):
                section = tables.setdefault(line[3:].strip(), {})
            row = re.match(r"\| `([^`]+)` \| .* \| (.*) \|$", line)
            if row:
                section[row.group(1)] = re.findall(r"`([^`]+)`", row.group(2))
    return tables


ROOMS = read_rooms()
MAY_INCLUDE = ROOMS.pop("Houses")
# The diagnosis looks at nothing but its arguments.
FORBIDDEN_IN_DIAGNOSIS = {"chrono", "thread", "mutex", "filesystem", "fstream", "iostream", "cstdlib", "ctime", "unistd.h",
                          "fcntl.h", "time.h", "sys/stat.h", "pthread.h", "future", "condition_variable", "random"}
SOURCES = (".h", ".cc", ".def", ".c", ".S", ".inc")


def is_below(path, folder):
    return path == folder or path.startswith(folder + "/")


def house(path):
    """The row of the first table that a file belongs to: the longest that fits."""
    return max((folder for folder in MAY_INCLUDE if is_below(path, folder)), key=len, default=None)


def includes():
    for top in HOUSES:
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


def room(path):
    """(house, room) of a file, or None where its house has no rooms."""
    folder = os.path.dirname(path)
    for top in ROOMS:
        if is_below(folder, top):
            return top, os.path.relpath(folder, top)
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
        to, at = file_of(source, name), house(source)
        seen += to is not None
        if to and not any(is_below(to, folder) for folder in [at, *MAY_INCLUDE.get(at, [])]):
            wrong.append(f"{source}:{number} includes {name}: {at} may not know {to}")
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
        if there[1] not in ROOMS[at[0]].get(at[1], []):
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
def every_folder_has_its_place(sandbox):
    files = [os.path.relpath(os.path.join(folder, name), ROOT) for top in HOUSES
             for folder, _, names in os.walk(os.path.join(ROOT, top)) for name in names if name.endswith((".h", ".cc"))]
    check_equal([path for path in files if not house(path)], [], "files in folders that the first table does not name")
    check_equal([folder for folder in MAY_INCLUDE if not os.path.isdir(os.path.join(ROOT, folder))], [], "rows without a folder")


@case
def diagnosis_is_pure(sandbox):
    wrong = [f"{source}:{number} includes <{name}>" for source, number, kind, name in includes()
             if house(source) == "core" and kind == "<" and name in FORBIDDEN_IN_DIAGNOSIS]
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
             if file_of(source, name) and (kind == "<" or name.startswith(".."))]
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
    for top in ("analyzer", "core", "watchdog", "shim"):
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
READ_ON_PURPOSE = {"analyzer/triage/finding.cc"}


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
    for top in ("analyzer", "core", "watchdog", "shim", "simulation"):
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
