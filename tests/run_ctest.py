#!/usr/bin/env python3
"""Runs ctest over all processors. Most tests wait for processes that sleep, so there are three at once for each processor; those
that need processors say so (PROCESSORS). A test that fails fails the run. With NCCLWATCH_TEST_ATTEMPTS=2, as .ci/run has it until
twenty runs in a row pass, what failed is run once more, alone, and what passes then is named as a defect, with its first output.
Usage: run_ctest.py BUILD_FOLDER [options of ctest]."""

import os
import re
import subprocess
import sys
import xml.etree.ElementTree

AT_ONCE = 3


def run(build, report, options):
    """{name of the test: (status, output)}"""
    if os.path.exists(report):
        os.remove(report)
    command = ["ctest", "--test-dir", build, "--output-on-failure", "--no-tests=error", "--output-junit", report, *options]
    status = subprocess.run(command).returncode
    if not os.path.exists(report):
        sys.exit(status or 1)
    return {case.get("name"): (case.get("status"), case.findtext("system-out") or "")
            for case in xml.etree.ElementTree.parse(report).getroot().iter("testcase")}


def failed(results):
    return [name for name, (status, _) in results.items() if status == "fail"]


def main():
    build, options = sys.argv[1], sys.argv[2:]
    report = os.path.join(os.path.abspath(build), "Testing", "results.xml")
    os.makedirs(os.path.dirname(report), exist_ok=True)
    first = run(build, report, ["-j", str(AT_ONCE * os.cpu_count()), *options])
    wrong, defects = failed(first), []
    if wrong and os.environ.get("NCCLWATCH_TEST_ATTEMPTS") == "2":
        print(f"\n{len(wrong)} failed: once more, alone", flush=True)
        again = run(build, report, ["--timeout", "300", "-R", "^(" + "|".join(map(re.escape, wrong)) + ")$", "-j", "1"])
        defects = [name for name in wrong if name not in failed(again)]
        wrong = failed(again)
    for name in defects:
        print(f"\n--- {name}\n{first[name][1].rstrip()}")
        print(f"defect: {name} failed beside other tests and passed alone")
    for name in wrong:
        print(f"failed: {name}")
    skipped = sum(status in ("notrun", "disabled") for status, _ in first.values())
    print(f"{len(first) - skipped - len(wrong)} passed, {len(wrong)} failed, {skipped} skipped", flush=True)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
