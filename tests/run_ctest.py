#!/usr/bin/env python3
"""Runs ctest over all processors, and what failed once more, alone. Most tests wait for processes that sleep, so there are
three at once for each processor; those that need processors say so (PROCESSORS). A test that passes then is printed under
"flaky" with its first output; one that fails twice fails the run. Usage: run_ctest.py BUILD_FOLDER [options of ctest]."""

import os
import subprocess
import sys
import xml.etree.ElementTree

ATTEMPTS = 2
AT_ONCE = 3


def run(build, report, options, names=None):
    """The results of one run, test by test: {name: (status, output)}."""
    if os.path.exists(report):
        os.remove(report)
    command = ["ctest", "--test-dir", build, "--output-on-failure", "--no-tests=error", "--output-junit", report, *options]
    if names is not None:
        command += ["-R", "^(" + "|".join(escape(name) for name in names) + ")$", "-j", "1"]
    status = subprocess.run(command).returncode
    if not os.path.exists(report):
        sys.exit(status or 1)
    results = {}
    for case in xml.etree.ElementTree.parse(report).getroot().iter("testcase"):
        results[case.get("name")] = (case.get("status"), case.findtext("system-out") or "")
    return results


def escape(name):
    return "".join("\\" + c if c in "^$.*+?()[]{}|\\" else c for c in name)


def failed(results):
    return [name for name, (status, _) in results.items() if status not in ("run", "notrun", "disabled")]


def main():
    build, options = sys.argv[1], sys.argv[2:]
    report = os.path.join(os.path.abspath(build), "Testing", "results.xml")
    os.makedirs(os.path.dirname(report), exist_ok=True)
    first = run(build, report, ["-j", str(AT_ONCE * os.cpu_count()), *options])
    wrong = failed(first)
    flaky = []
    for attempt in range(2, ATTEMPTS + 1):
        if not wrong:
            break
        print(f"\n{len(wrong)} failed: again, alone (attempt {attempt} of {ATTEMPTS})", flush=True)
        again = run(build, report, ["--timeout", "300"], wrong)
        still = failed(again)
        flaky += [name for name in wrong if name in again and name not in still]
        wrong = [name for name in wrong if name not in again or name in still]
    if flaky:
        print(f"\nflaky: {len(flaky)} failed at first and passed alone; their first output:")
        for name in flaky:
            print(f"\n--- {name}\n{first[name][1].rstrip()}")
        print("\nflaky: " + ", ".join(flaky))
    for name in wrong:
        print(f"failed {ATTEMPTS} times: {name}")
    skipped = sum(status == "notrun" for status, _ in first.values())
    print(f"\n{len(first) - skipped - len(wrong)} passed, {len(wrong)} failed, {skipped} skipped", flush=True)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
