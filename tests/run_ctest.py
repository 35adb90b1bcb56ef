#!/usr/bin/env python3
"""Runs ctest over all processors. Most tests wait for processes that sleep, so there are three at once for each processor;
those that need processors say so (PROCESSORS). A test that fails once fails the run.
Usage: run_ctest.py BUILD_FOLDER [options of ctest]."""

import os
import subprocess
import sys

AT_ONCE = 3


def main():
    build, options = sys.argv[1], sys.argv[2:]
    jobs = str(AT_ONCE * os.cpu_count())
    return subprocess.run(["ctest", "--test-dir", build, "--output-on-failure", "--no-tests=error", "-j", jobs, *options]).returncode


if __name__ == "__main__":
    sys.exit(main())
