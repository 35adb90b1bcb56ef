#!/usr/bin/env python3
"""Makes watchdog/cpython/layouts.inc from the headers of CPython, or checks it.

    layouts.py --write FOLDER...    FOLDER holds Python.h (a python3.N-dev package, any installation)
    layouts.py --check FOLDER...    exit status 1 if a version's headers say anything else than the table

Several folders of one minor version have to agree. CC is the compiler, OBJCOPY its objcopy (gcc, objcopy)."""
import argparse
import os
import re
import struct
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
SOURCE = os.path.join(HERE, "layout.c")
READER = os.path.join(HERE, "..", "..", "watchdog", "cpython")
ENUM = os.path.join(READER, "layout.h")
TABLE = os.path.join(READER, "layouts.inc")
NAME_BYTES, NONE = 28, 0xFFFFFFFF


def section(folder, name):
    path = os.path.join(folder, name)
    subprocess.run([os.environ.get("OBJCOPY", "objcopy"), "-O", "binary", "-j", "python." + name,
                    os.path.join(folder, "layout.o"), path], check=True)
    with open(path, "rb") as file:
        return file.read()


def includes(folder):
    """Debian's Python.h includes pyconfig.h of the processor by a path that begins beside the folder."""
    beside = os.path.dirname(os.path.abspath(folder))
    yield from (folder, os.path.join(folder, "internal"), beside)
    for entry in os.listdir(beside):
        if entry.endswith("-linux-gnu"):
            yield os.path.join(beside, entry)


def compile_row(folder, free_threaded):
    """(hexadecimal version, {name: number})"""
    with tempfile.TemporaryDirectory() as place:
        command = [os.environ.get("CC", "gcc"), "-c", "-w", SOURCE, "-o", os.path.join(place, "layout.o")]
        command += ["-DPy_GIL_DISABLED=1"] if free_threaded else []
        for include in includes(folder):
            command += ["-I", include]
        subprocess.run(command, check=True)
        table = section(place, "layout")
        version, = struct.unpack("I", section(place, "version"))
        at, = struct.unpack("I", section(place, "state_at"))
        row = {}
        for name, number in struct.iter_unpack(f"{NAME_BYTES}sI", table):
            row[name.rstrip(b"\0").decode()] = -1 if number == NONE else number
        for what, name in (("kind", "kStrKindBit"), ("compact", "kStrCompactBit"), ("ascii", "kStrAsciiBit")):
            bits, = struct.unpack_from("I", section(place, "str_" + what), at)
            row[name] = (bits & -bits).bit_length() - 1
        return version, row


def names():
    with open(ENUM, encoding="utf-8") as file:
        body = re.search(r"enum Field [^{]*{(.*?)kFields", file.read(), re.S).group(1)
    return re.findall(r"^\s+(k\w+)", body, re.M)


def rows(folders):
    """{column: ({micro versions}, row)}, a column being (minor, free-threaded)."""
    found = {}
    for folder in folders:
        for free_threaded in (False, True):
            version, row = compile_row(folder, False)
            if free_threaded:
                if version < 0x030D0000:
                    continue
                version, row = compile_row(folder, True)
            if list(row) != names():
                sys.exit(f"layout.c and layout.h differ in their names: {set(row) ^ set(names()) or 'the order'}")
            column = (version >> 16 & 0xFF, free_threaded)
            micros, known = found.setdefault(column, (set(), row))
            if known != row:
                differ = [name for name in row if row[name] != known[name]]
                sys.exit(f"{folder}: 3.{column[0]}.{version >> 8 & 0xFF} differs from 3.{column[0]} of "
                         f"micro versions {sorted(micros)} in {differ}")
            micros.add(version >> 8 & 0xFF)
    return dict(sorted(found.items(), key=lambda item: (item[0][1], item[0][0])))


def text(found):
    lines = ["// Made by tests/python_stacks/layouts.py from CPython's headers: do not edit. The micro versions they were of:"]
    for (minor, free_threaded), (micros, _) in found.items():
        if not free_threaded:
            lines.append(f"//   3.{minor}: {', '.join(str(micro) for micro in sorted(micros))}")
    titles = [f"3.{minor}{'t' if free_threaded else ''}" for minor, free_threaded in found]
    lines.append("//" + ",".join(f"{title:>6}" for title in titles)[1:])
    for name in names():
        numbers = ",".join(f"{row[name]:6d}" for _, row in found.values())
        lines.append(f" {{{numbers}}},  // {name}")
    return "\n".join(lines) + "\n"


def columns_of(table):
    title = re.search(r"^// +(3\.[0-9t., ]+)$", table, re.M).group(1)
    columns = [word.strip() for word in title.split(",")]
    found = {column: {} for column in columns}
    for numbers, name in re.findall(r"^ {([^}]*)},  // (k\w+)$", table, re.M):
        for column, number in zip(columns, numbers.split(",")):
            found[column][name] = int(number)
    return found


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--write", action="store_true")
    parser.add_argument("--check", action="store_true")
    parser.add_argument("folders", nargs="+", metavar="FOLDER")
    options = parser.parse_args()
    found = rows(options.folders)
    if options.write:
        with open(TABLE, "w", encoding="utf-8") as file:
            file.write(text(found))
    else:
        print(text(found), end="")
    if options.check:
        with open(TABLE, encoding="utf-8") as file:
            table = columns_of(file.read())
        for (minor, free_threaded), (_, row) in found.items():
            column = f"3.{minor}{'t' if free_threaded else ''}"
            if table.get(column) != row:
                sys.exit(f"{column}: the headers say something else than {TABLE}")


if __name__ == "__main__":
    main()
