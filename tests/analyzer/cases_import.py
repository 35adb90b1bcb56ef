"""`ncclwatch import`, and commands on what other tools wrote."""

import gzip
import json
import os

from common import bench_case, check, check_equal

RANKS = 3


def lines_of(bench, path, *more):
    done = bench.command("trace", "--json", path, *more)
    check_equal(done.status, 0, f"trace {path}: {done}")
    return [json.loads(line) for line in done.out.splitlines()]


def written(bench, name="job-a"):
    directory = bench.place(name)
    for rank in range(RANKS):
        bench.write(directory, rank, RANKS, "calls=40")
    return directory


def comparable(line):
    """Without what a trace cannot know of the process: names that are made anew."""
    return {key: value for key, value in line.items() if key not in ("pid", "slot", "label")}


@bench_case
def import_of_lines_gives_the_same_calls(bench):
    directory = written(bench)
    before = lines_of(bench, directory)
    check(len(before) >= RANKS * 10, f"calls to compare: {len(before)}")
    plain = os.path.join(bench.sandbox.path, "calls.jsonl")
    with open(plain, "w", encoding="utf-8") as file:
        file.writelines(json.dumps(line) + "\n" for line in before)
    packed = plain + ".gz"
    with gzip.open(packed, "wt") as file:
        file.writelines(json.dumps(line) + "\n" for line in before)
    for source in (plain, packed):
        into = bench.sandbox.fresh("recording")
        done = bench.command("import", source, "-o", into, "--json")
        check_equal(done.status, 0, f"{done}")
        said = json.loads(done.out)
        check_equal((said["schema"], said["format"], said["calls"], said["processes"]),
                    ("ncclwatch.import/1", "jsonl", len(before), RANKS), "what was read")
        for after in (lines_of(bench, into), lines_of(bench, source)):
            check_equal(len(after), len(before), f"{source}: calls")
            for own, other in zip(after, before):
                check_equal(comparable(own), comparable(other), source)


@bench_case
def import_says_what_it_cannot_read(bench):
    path = os.path.join(bench.sandbox.path, "calls.jsonl")
    good = lines_of(bench, written(bench))
    with open(path, "w", encoding="utf-8") as file:
        file.write(json.dumps(good[0]) + "\n{\"op\": \"AllReduce\", \n" + json.dumps(good[1]) + "\n" + json.dumps(good[2])[:40])
    into = bench.sandbox.fresh("recording")
    done = bench.command("import", "--from", "jsonl", path, "-o", into)
    check_equal(done.status, 3, f"{done}")
    check(f"{path}:2: not JSON" in done.err and f"{path}:4: not JSON" in done.err, f"file and line: {done.err}")
    check_equal(len(lines_of(bench, into)), 2, "what could be read is there")


@bench_case
def import_refuses(bench):
    path = written(bench)
    into = bench.sandbox.fresh("recording")
    check_equal(bench.command("import", os.path.join(path, "none"), "-o", into).status, 3, "no such file")
    check_equal(bench.command("import", __file__, "-o", into).status, 3, "no trace")
    check_equal(bench.command("import", __file__, "-o", into, "--from", "vampir").status, 2, "no such format")
    lines = os.path.join(bench.sandbox.path, "calls.jsonl")
    with open(lines, "w", encoding="utf-8") as file:
        file.writelines(json.dumps(line) + "\n" for line in lines_of(bench, path))
    check_equal(bench.command("import", lines, "-o", into).status, 0, "into an empty directory")
    check_equal(bench.command("import", lines, "-o", into).status, 2, "it holds a recording already")
    left = [name for name in os.listdir(bench.temporary) if name.startswith("ncclwatch-import-")]
    check_equal(left, [], "nothing is left behind")
