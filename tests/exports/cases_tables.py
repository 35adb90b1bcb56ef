"""export --to csv and parquet: by Python's csv, pyarrow and DuckDB, call by call against `trace --json`."""

import csv
import datetime
import os
import re
import statistics

from common import ROOT, VENV, Exported, calls_of, case, check, check_equal, need, stats_of, written


@case
def csv_is_what_trace_prints(sandbox):
    directory = written(sandbox)
    out = Exported(sandbox, directory, "csv", "calls.csv")
    printed = sandbox.run([sandbox.build.command, "trace", "--csv", directory], sandbox.environment(preload=False))
    with open(out.path) as file:
        check_equal(file.read(), printed.out, "the file against trace --csv")
    calls = calls_of(sandbox, directory)
    with open(out.path, newline="") as file:
        rows = list(csv.DictReader(file))
    check_equal(list(rows[0])[:-1], list(calls[0]), "columns")
    as_text = {None: "", True: "true", False: "false"}
    for row, call in zip(rows, calls):
        for name in set(call) - {"time", "site", "flags", "communicator_flags", "duration_s"}:
            wanted = call[name]
            check_equal(row[name], as_text[wanted] if wanted is None or isinstance(wanted, bool) else str(wanted), name)
        check_equal((float(row["duration_s"]), int(row["duration_ns"])),
                    (call["duration_s"], round(call["duration_s"] * 1e9)), "duration")
    check_equal(len(rows), len(calls), "rows")


def rows_of(path):
    return need("pyarrow.parquet")[0].parquet.ParquetFile(path).read().to_pylist()


def moment(text):
    return text and datetime.datetime.fromisoformat(text.replace("Z", "+00:00"))


def expected(call):
    """A line of `trace --json` as pyarrow gives the row."""
    row = {**call, "label": call["label"] or None}
    for name in ("entered", "returned", "started", "finished"):
        row[name] = moment(call[name])
    row["time"] = row["entered"]
    return row


@case
def parquet_is_what_trace_lists(sandbox):
    need("pyarrow")
    from common_jobs import recorded
    job = recorded(sandbox, steps=100, pause_us=10000)  # long enough for the watchdog to name call sites
    out = Exported(sandbox, job.directory, "parquet", "calls")
    rows = [row for path in out.said["files"] for row in rows_of(path)]
    calls = calls_of(sandbox, job.directory)
    check_equal(len(rows), len(calls), "rows")
    for row, call in zip(sorted(rows, key=lambda one: (one["time_ns"], one["rank"], one["seq"])),
                         sorted(calls, key=lambda one: (one["time_ns"], one["rank"], one["seq"]))):
        check_equal(row, expected(call), "a row")
    check(any(row["site"] for row in rows), "no call has a place in a file")


def queries():
    """The SQL of docs/queries.md, by the heading above it."""
    with open(os.path.join(ROOT, "docs", "queries.md")) as file:
        return dict(re.findall(r"^## (.+?)\n.*?```sql\n(.*?)```", file.read(), re.M | re.S))


@case
def parquet_answers_questions(sandbox):
    duckdb, = need("duckdb")
    directory = written(sandbox, ranks=16, calls=300)
    out = Exported(sandbox, directory, "parquet", "calls")
    check_equal(sorted({path.split("/")[-3] for path in out.said["files"]}), ["node=node0", "node=node1"], "folders")
    base = duckdb.connect()
    base.execute("SET TimeZone = 'UTC'")
    base.execute(f"CREATE VIEW calls AS SELECT * FROM read_parquet('{out.path}/**/*.parquet', hive_partitioning = true)")
    calls, stats = calls_of(sandbox, directory), stats_of(sandbox, directory)
    check_equal(base.execute("SELECT count(*), sum(bytes), count(DISTINCT rank) FROM calls").fetchone(),
                (stats["calls"], sum(call["bytes"] or 0 for call in calls), 16), "count, bytes and ranks")
    asked = queries()
    check(len(asked) >= 4, f"queries: {list(asked)}")
    answers = {title: base.execute(sql).fetchall() for title, sql in asked.items()}
    slowest = sorted(calls, key=lambda call: -call["duration_s"])
    check_equal([row[-1] for row in answers["The slowest calls"]], [call["duration_s"] for call in slowest[:20]], "slowest")
    last = {}
    for call in calls:
        if call["position"] is not None and call["op"] != "CommInitRank":
            key = (call["communicator"], call["position"])
            last[key] = max(last.get(key, (0, 0)), (call["time_ns"], call["rank"]))
    count = {}
    for _, rank in last.values():
        count[rank] = count.get(rank, 0) + 1
    check_equal({row[0]: row[1] for row in answers["Who comes last, how often"]}, count, "who comes last")
    check_equal(answers["Calls that differ between ranks"], [], "calls that differ")
    # One rank alone with another count; and kernels that last as long as the calls.
    base.execute("""CREATE VIEW changed AS SELECT * REPLACE (
        CASE WHEN rank = 3 AND position = 17 THEN count + 1 ELSE count END AS count, {'duration_s': duration_s} AS kernel)
        FROM calls""")
    differ, = base.execute(asked["Calls that differ between ranks"].replace("FROM calls", "FROM changed")).fetchall()
    check_equal(differ[1:4], (17, 1, 2), "position, operations and counts of the call that differs")
    shortest = {}
    for call in calls:
        if call["op"] == "AllReduce":
            key = (call["bytes"], call["position"])
            shortest[key] = min(shortest.get(key, 1), call["duration_s"])
    by_size = {}
    for (size, _), took in shortest.items():
        by_size.setdefault(size, []).append(size / took / 1e9 * 2 * 15 / 16)
    found = base.execute(asked["Bus bandwidth by size"].replace("FROM calls", "FROM changed")).fetchall()
    check_equal([(size, count) for size, count, _ in found], sorted((size, len(all_)) for size, all_ in by_size.items()), "sizes")
    for size, _, busbw in found:
        median = statistics.median(by_size[size])
        check(abs(busbw - median) < 1e-6 * median, f"{size} bytes: {busbw} GB/s, not {median}")


@case
def parquet_without_pyarrow(sandbox):
    directory = written(sandbox, ranks=1, calls=10)
    env = sandbox.environment(preload=False, extra={"NCCLWATCH_PYTHON": "/usr/bin/false"})
    done = sandbox.run([sandbox.build.command, "export", directory, "--to", "parquet", "-o", sandbox.fresh("none")], env)
    check_equal(done.status, 2, f"status: {done}")
    check("pip install 'ncclwatch[arrow]'" in done.err and done.err.count("\n") == 1, done.err)


HOSTILE = "<script>alert(1)</script>\x1b[31m\r\n\",\u009b" + "x" * 10_000_000


@case
def hostile_names_stay_text(sandbox):
    """A label with markup, control characters and 10 MB, which the import cuts, as a dump of torch's recorder may tell it."""
    from common_jobs import dumps
    directory = dumps(sandbox, HOSTILE)
    calls = calls_of(sandbox, directory)
    label, = {call["label"] for call in calls}
    check("<script>" in label and "\x1b" not in label and len(label) > 100, f"the label in trace --json: {label[:200]}")
    with open(Exported(sandbox, directory, "csv", "calls.csv").path, newline="") as file:
        csv.field_size_limit(1 << 30)
        rows = list(csv.DictReader(file))
    check_equal([row["label"] for row in rows], [label] * len(calls), "csv")
    if os.path.exists(VENV):
        need("pyarrow", "perfetto")
        from perfetto_reader import read
        files = Exported(sandbox, directory, "parquet", "calls").said["files"]
        check_equal([row["label"] for path in files for row in rows_of(path)], [label] * len(calls), "parquet")
        trace, = read(Exported(sandbox, directory, "perfetto", "job.pftrace").path)
        check(all(one.track.startswith(label) for one in trace.slices) and len(trace.slices) == len(calls), "perfetto")
