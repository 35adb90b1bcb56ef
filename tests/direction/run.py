#!/usr/bin/env python3
"""No include points against the direction of docs/DESIGN.md, and nothing of the product includes the tests."""

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
    "analyzer": MIDDLE | {"analyzer"},
}
# The diagnosis looks at nothing but its arguments.
FORBIDDEN_IN_DIAGNOSIS = {"chrono", "thread", "mutex", "filesystem", "fstream", "iostream", "cstdlib", "ctime", "unistd.h",
                          "fcntl.h", "time.h", "sys/stat.h", "pthread.h", "future", "condition_variable", "random"}
SOURCES = (".h", ".cc", ".def", ".c", ".S", ".inc")


def unit(path):
    parts = path.split(os.sep)
    return "/".join(parts[:2]) if parts[0] == "watchdog" else parts[0]


def includes():
    for top in ("include", "watchdog", "shim", "analyzer"):
        for folder, _, names in os.walk(os.path.join(ROOT, top)):
            for name in names:
                if name.endswith(SOURCES):
                    path = os.path.join(folder, name)
                    with open(path, errors="replace") as file:
                        for number, line in enumerate(file, 1):
                            found = re.match(r"\s*#\s*include\s*([<\"])([^>\"]+)[>\"]", line)
                            if found:
                                yield os.path.relpath(path, ROOT), number, found.group(1), found.group(2)


def target(source, name):
    """The unit that an include names, or None for a header from outside the project."""
    for base in (os.path.join(ROOT, "include"), ROOT, os.path.join(ROOT, os.path.dirname(source))):
        path = os.path.realpath(os.path.join(base, name))
        if os.path.isfile(path) and path.startswith(ROOT + os.sep) and not path.startswith(os.path.join(ROOT, "build")):
            return unit(os.path.relpath(path, ROOT))
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
def every_folder_has_its_place(sandbox):
    units = {unit(os.path.relpath(os.path.join(folder, name), ROOT))
             for top in ("include", "watchdog", "shim", "analyzer")
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
def the_simulation_knows_the_contract_alone(sandbox):
    """So that the product can take it over: nothing of the tests is in it."""
    folder = os.path.join(ROOT, "tests", "jobs", "simulation")
    wrong, seen = [], 0
    for name in sorted(os.listdir(folder)):
        if not name.endswith((".h", ".cc")):
            continue
        with open(os.path.join(folder, name)) as file:
            for header in re.findall(r'#include "([^"]+)"', file.read()):
                seen += 1
                if not header.startswith(("ncclwatch/", "tests/jobs/simulation/")):
                    wrong.append(f"{name} includes {header}")
    check(seen > 5, "the simulation was not found")
    check_equal(wrong, [], "includes of the simulation")


@case
def commands_read_copies_of_boxes(sandbox):
    """A mapping shows what its owner writes after the checks; root reads boxes of users."""
    wrong = []
    for folder, _, names in os.walk(os.path.join(ROOT, "analyzer")):
        for name in names:
            with open(os.path.join(folder, name), errors="replace") as file:
                if "MappedBox::Open" in file.read():
                    wrong.append(os.path.relpath(os.path.join(folder, name), ROOT))
    check_equal(wrong, [], "sources of commands that map boxes")


if __name__ == "__main__":
    run_main("direction")
