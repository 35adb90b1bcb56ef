#!/usr/bin/env python3
"""Judges `ncclwatch triage` by logs that compose_logs.py wrote.

    judge_triage.py OUT --ncclwatch PATH [--json] [--verbose]

Runs `ncclwatch triage OUT/job-NNN --json` on each job of OUT/truth.json and counts. A category is right if it is the
truth's or one that the truth allows as well (`strict`: only the truth's). A line is right if it is at most two lines
from the explaining line, or from one that explains as well.
"""

import argparse
import collections
import concurrent.futures
import json
import os
import pathlib
import subprocess

SLACK = 2  # lines
LIMIT_S = 300


def triage(path, folder):
    done = subprocess.run(
        [path, "triage", str(folder), "--json"], capture_output=True, text=True, timeout=LIMIT_S, check=False
    )
    try:
        return done.returncode, json.loads(done.stdout)
    except ValueError:
        return done.returncode, {"causes": [], "unknown": None, "error": done.stderr[-300:]}


def same_file(found, wanted, folder):
    return found is not None and (
        pathlib.Path(found) == pathlib.Path(folder) / wanted or pathlib.PurePath(found) == pathlib.PurePath(wanted)
    )


def right_line(cause, truth, folder):
    places = [[truth["file"], truth["line"]], *truth["also"]]
    return any(
        same_file(cause.get("file"), file, folder) and abs((cause.get("line") or 0) - line) <= SLACK
        for file, line in places
    )


def judge_failed(causes, truth, folder):
    allowed = {truth["category"], *truth["also_ok"]}
    first = causes[0] if causes else {}
    return {
        "category": first.get("category") in allowed,
        "strict": first.get("category") == truth["category"],
        "among three": any(cause["category"] in allowed for cause in causes[:3]),
        "rank": sorted(first.get("ranks", [])) == truth["ranks"] if truth["ranks"] else None,
        "line": bool(first) and right_line(first, truth, folder),
        "certain and wrong": first.get("confidence") == "certain" and first.get("category") not in allowed,
    }


def judge(path, out, name, truth):
    folder = out / name
    status, result = triage(path, folder)
    causes = result.get("causes", [])
    row = {
        "job": name,
        "truth": truth,
        "status": status,
        "error": result.get("error"),
        "unknown": result.get("unknown"),
        "causes": [
            {key: cause.get(key) for key in ("category", "rule", "confidence", "ranks", "file", "line", "text")}
            for cause in causes[:3]
        ],
    }
    certain = bool(causes) and causes[0].get("confidence") == "certain"
    if truth["category"] == "healthy":
        row["right"] = {"left alone": not causes and status == 0, "status 0": status == 0, "certain and wrong": certain}
    elif truth["category"] == "unknown":
        row["right"] = {
            "called unknown": not causes and result.get("unknown") is True and status == 1,
            "at most suspected": status == 1 and all(cause.get("confidence") == "suspected" for cause in causes),
            "certain and wrong": certain,
        }
    else:
        row["right"] = judge_failed(causes, truth, folder)
    return row


def tally(rows):
    """{name: [right, judged]}"""
    counts = collections.defaultdict(lambda: [0, 0])
    for row in rows:
        for name, value in row["right"].items():
            if value is not None:
                counts[name][0] += value
                counts[name][1] += 1
    return dict(counts)


def kinds(rows):
    groups = {"failed": [], "healthy": [], "unknown": []}
    for row in rows:
        groups.get(row["truth"]["category"], groups["failed"]).append(row)
    return groups


def by(rows, key):
    groups = collections.defaultdict(list)
    for row in rows:
        groups[row["truth"][key]].append(row)
    return {name: tally(group) for name, group in sorted(groups.items())}


def report(rows):
    groups = kinds(rows)
    return {
        "all": {name: tally(group) for name, group in groups.items()},
        "layout": by(groups["failed"], "layout"),
        "category": by(groups["failed"], "category"),
        "errors": [row["job"] for row in rows if row["status"] not in (0, 1)],
    }


def show(title, counts):
    print(f"{title:28}" + "  ".join(f"{name} {right}/{judged}" for name, (right, judged) in counts.items()))


def wrong(row):
    return not all(
        value
        for name, value in row["right"].items()
        if value is not None and name not in ("certain and wrong", "strict")
    ) or (row["right"]["certain and wrong"])


def explain(row):
    truth = row["truth"]
    misses = [
        name
        for name, value in row["right"].items()
        if value is not None and (not value) != (name == "certain and wrong")
    ]
    print(f"\n{row['job']} ({truth['layout']}, {truth['program']}, {truth['size']} ranks): {', '.join(misses)}")
    print(f"  truth {truth['category']} ranks {truth['ranks']} {truth['file']}:{truth['line']}  {truth['what']}")
    for cause in row["causes"] or [{}]:
        print(
            f"  found {cause.get('category')} {cause.get('confidence')} ranks {cause.get('ranks')}"
            f" {cause.get('file')}:{cause.get('line')}  {(cause.get('text') or '')[:150]}"
        )


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=pathlib.Path)
    parser.add_argument("--ncclwatch", required=True)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--verbose", action="store_true")
    args = parser.parse_args()
    truths = json.loads((args.out / "truth.json").read_text())
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        rows = list(pool.map(lambda item: judge(args.ncclwatch, args.out, *item), truths.items()))
    result = report(rows)
    if args.json:
        print(json.dumps({**result, "jobs": rows}, indent=1))
        return
    for part in ("all", "layout", "category"):
        print(f"\nby {part}" if part != "all" else "")
        for name, counts in result[part].items():
            show(name, counts)
    if result["errors"]:
        print("status neither 0 nor 1:", " ".join(result["errors"]))
    if args.verbose:
        for row in filter(wrong, rows):
            explain(row)


if __name__ == "__main__":
    main()
