#!/usr/bin/env python3
"""Runs ctest over all processors. Most tests wait for processes that sleep, so there are three at once for each processor; those
that need processors say so (PROCESSORS). A test that fails fails the run. Usage: run_ctest.py BUILD_FOLDER [options of ctest]."""

import os
import subprocess
import sys
import xml.etree.ElementTree

AT_ONCE = 3


def main():
    build, options = sys.argv[1], sys.argv[2:]
    report = os.path.join(os.path.abspath(build), "Testing", "results.xml")
    os.makedirs(os.path.dirname(report), exist_ok=True)
    if os.path.exists(report):
        os.remove(report)
    status = subprocess.run(["ctest", "--test-dir", build, "--output-on-failure", "--no-tests=error", "--output-junit", report,
                             "-j", str(AT_ONCE * os.cpu_count()), *options]).returncode
    if not os.path.exists(report):
        return status or 1
    of_status = {}
    for case in xml.etree.ElementTree.parse(report).getroot().iter("testcase"):
        of_status.setdefault(case.get("status"), []).append(case.get("name"))
    for name in of_status.get("fail", []):
        print(f"failed: {name}")
    print(", ".join(f"{len(names)} {status}" for status, names in sorted(of_status.items())), flush=True)
    return status


if __name__ == "__main__":
    sys.exit(main())
