#!/usr/bin/env python3
"""The wheel of `./dev package` in a fresh virtual environment: installed, the demo's verdict, the Python package, uninstalled,
nothing left.

    tests/packages/wheel.py --packages build/packages
"""

import argparse
import glob
import json
import os
import subprocess
import sys
import tempfile
import venv

MOST_BYTES = 15e6
PROGRAM = """
import json, ncclwatch, os
job = ncclwatch.load(os.environ["DIR"])
assert ncclwatch.load(os.environ["DIR"], attempt=0).findings == job.findings
print(json.dumps({"library": ncclwatch.library(), "openmpi": ncclwatch.library("openmpi"), "healthy": job.healthy,
                  "found": [(finding["kind"], finding["culprits"]) for finding in job.findings]}))
"""


# The calls as pyarrow sees them, against what the command prints.
COLUMNS = """
import json, ncclwatch, os, pyarrow, subprocess
calls = ncclwatch.load(os.environ["DIR"]).calls
table = pyarrow.table(calls).drop_columns(["time"]).to_pylist()
printed = subprocess.run([ncclwatch.command(), "trace", "--json", os.environ["DIR"]], check=True, stdout=subprocess.PIPE).stdout
rows = [json.loads(line) for line in printed.splitlines()]
assert len(rows) == len(table) == len(calls) > 50, (len(rows), len(table), len(calls))
same = [name for name in rows[0] if name in table[0] and name not in ("time", "stream", "label")]
for row, seen in zip(rows, table):
    assert [row[name] for name in same] == [seen[name] for name in same], (row, seen)
def memory():
    return int(open("/proc/self/statm").read().split()[1])
for _ in range(200):
    pyarrow.table(calls)
before = memory()
for _ in range(2000):
    pyarrow.table(calls)
assert memory() < before + 200, (before, memory())
try:
    wrong = pyarrow.table(calls)
    raise KeyError("an exception on its way while arrays are released")
except KeyError:
    del wrong
print(len(rows), "calls")
"""


# A box cut short, as a full disk leaves it: the others are still told of.
DAMAGED = """
import ncclwatch, os, pyarrow, warnings
job = ncclwatch.load(os.environ["DIR"])
with warnings.catch_warnings(record=True) as said:
    warnings.simplefilter("always")
    ranks = set(pyarrow.table(job.calls).column("rank").to_pylist())
    findings = job.findings
assert len(ranks) == 3, ranks
assert len(said) == 2 and all(os.environ["CUT"] in str(one.message) for one in said), [str(one.message) for one in said]
try:
    ncclwatch.load(os.environ["CUT"]).calls
except ncclwatch.job.NcclwatchError as error:
    assert os.environ["CUT"] in str(error), error
else:
    raise SystemExit("a box that cannot be read has calls")
"""


def must(*argv, **environment):
    clean = {name: value for name, value in os.environ.items() if not name.startswith(("NCCLWATCH", "PYTHON", "LD_"))}
    done = subprocess.run(argv, env={**clean, **environment}, capture_output=True, text=True, timeout=120)
    if done.returncode != 0:
        raise SystemExit(f"{' '.join(argv)}: status {done.returncode}\n{done.stdout}{done.stderr}")
    return done.stdout + done.stderr


def files(root):
    return {os.path.join(folder, name) for folder, _, names in os.walk(root) for name in names
            if not name.endswith(".pyc")}


def with_a_box_cut_short(runs):
    box = sorted(glob.glob(os.path.join(runs, "*.box")))[0]
    os.truncate(box, 1000)
    return box


def check(condition, what):
    if not condition:
        raise SystemExit(what)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--packages", required=True)
    wheel, = glob.glob(os.path.join(parser.parse_args().packages, "ncclwatch-*.whl"))
    size = os.path.getsize(wheel)
    check(size <= MOST_BYTES, f"the wheel has {size / 1e6:.1f} MB")
    with tempfile.TemporaryDirectory(prefix="ncclwatch-wheel-") as root:
        place = os.path.join(root, "two words")
        venv.create(place, with_pip=True)
        python = os.path.join(place, "bin", "python")
        before = files(place)
        must(python, "-m", "pip", "install", "-q", "--no-index", "--disable-pip-version-check", wheel)
        command = os.path.join(place, "bin", "ncclwatch")
        runs = os.path.join(root, "runs")
        os.mkdir(runs, 0o700)
        said = must(command, "demo", NCCLWATCH_DIR=runs)
        check("missing_participant (likely): rank 2" in said, f"the demo:\n{said}")
        told = json.loads(must(python, "-c", PROGRAM, DIR=runs))
        check(os.path.exists(told["library"]) and os.path.exists(told["openmpi"]), f"libraries: {told}")
        check(told["found"] == [["missing_participant", [2]]] and not told["healthy"], f"the job: {told}")
        must(python, "-m", "pip", "install", "-q", "--disable-pip-version-check", "pyarrow")
        print(f"pyarrow sees what the command prints: {must(python, '-c', COLUMNS, DIR=runs).strip()}")
        must(python, "-c", DAMAGED, DIR=runs, CUT=with_a_box_cut_short(runs))
        must(python, "-m", "pip", "uninstall", "-q", "-y", "pyarrow")
        check(must(python, "-m", "ncclwatch", "--version") == must(command, "--version"), "python -m ncclwatch")
        must(python, "-m", "pip", "uninstall", "-q", "-y", "ncclwatch")
        check(files(place) == before, f"left after removal: {sorted(files(place) - before)}")
        print(f"wheel ({size / 1e6:.1f} MB, {os.path.basename(wheel)}): the demo's verdict is right, nothing left after removal")


if __name__ == "__main__":
    sys.exit(main())
