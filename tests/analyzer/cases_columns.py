"""trace --arrow: the columns that the Python package hands on, decoded here by hand, against trace --json."""

import json
import struct
import subprocess

from common import bench_case, check, check_equal

NUMBERS = {"i": "i", "l": "q", "I": "I", "L": "Q", "g": "d", "tsn:UTC": "q"}
# Columns that have another name or form in the JSON.
OTHERS = {"time": lambda call: call["time_ns"], "stream": lambda call: int(call["stream"], 16),
          "label": lambda call: call["label"] or None,
          "kernel_s": lambda call: (call["kernel"] or {}).get("duration_s"),
          "algorithm": lambda call: (call["kernel"] or {}).get("algorithm"),
          "protocol": lambda call: (call["kernel"] or {}).get("protocol"),
          "site_file": lambda call: (call["site"] or {}).get("file"), "site_line": lambda call: (call["site"] or {}).get("line"),
          "site_function": lambda call: (call["site"] or {}).get("function"),
          "site_module": lambda call: (call["site"] or {}).get("module"),
          "site_offset": lambda call: (call["site"] or {}).get("offset"),
          "site_on_main_thread": lambda call: (call["site"] or {}).get("on_main_thread")}


def bit(buffer, at):
    return buffer[at // 8] >> (at % 8) & 1 == 1


def cells_of(body, line):
    """The cells of one column; of lists the ends."""
    name, form, rows, nulls, used, *places = line
    pairs = [tuple(map(int, places[i:i + 2])) for i in range(0, 2 * int(used), 2)]
    check(all(offset % 64 == 0 for offset, _ in pairs), f"{name}: buffers at {pairs}")
    buffers = [body[offset:offset + size] for offset, size in pairs]
    validity, values = buffers[0], buffers[-1]
    cells = []
    for i in range(int(rows)):
        if validity and not bit(validity, i):
            cells.append(None)
        elif form == "U":
            begin, end = struct.unpack_from("<2q", buffers[1], 8 * i)
            cells.append(values[begin:end].decode())
        elif form == "+L":
            cells.append(struct.unpack_from("<2q", values, 8 * i))
        elif form == "b":
            cells.append(bit(values, i))
        else:
            cells.append(struct.unpack_from("<" + NUMBERS[form], values, i * struct.calcsize(NUMBERS[form]))[0])
    check_equal(cells.count(None), int(nulls), f"nulls of {name}")
    return cells


def decoded(data):
    """name -> values."""
    lines = data[:data.index(b"\n\n") + 2]
    body = data[-(-len(lines) // 64) * 64:]
    (rows, count), *heads = [line.split() for line in lines.decode().splitlines() if line]
    columns = {}
    rest = iter(heads)
    for line in rest:
        check_equal(line[2], rows, f"rows of {line[0]}")
        columns[line[0]] = cells = cells_of(body, line)
        if line[1] == "+L":
            items = cells_of(body, next(rest))
            columns[line[0]] = [items[begin:end] for begin, end in cells]
    check_equal(len(columns), int(count), "columns")
    return columns


@bench_case
def columns_are_the_rows(bench):
    directory = bench.place()
    for rank in range(3):
        bench.write(directory, rank, 3, "calls=50", "flags=1")
    calls = bench.calls(directory)
    data = subprocess.run([bench.build.command, "trace", "--arrow", directory], env=bench.environment(), check=True,
                          stdout=subprocess.PIPE).stdout
    columns = decoded(data)
    check(len(calls) >= 100, f"{len(calls)} calls")
    check_equal({len(call["flags"]) for call in calls}, {0, 1, 2}, "numbers of flags")
    for name, values in columns.items():
        check_equal(values, [OTHERS.get(name, lambda call: call[name])(call) for call in calls], f"column {name}")


@bench_case
def columns_of_no_call(bench):
    directory = bench.place()
    bench.write(directory, 0, 1, "calls=5")
    data = subprocess.run([bench.build.command, "trace", "--arrow", "--op", "Gather", directory], env=bench.environment(),
                          check=True, stdout=subprocess.PIPE).stdout
    columns = decoded(data)
    check("op" in columns and not any(columns.values()), f"{columns}")
