#!/usr/bin/env python3
"""`ncclwatch export`: every format as its own reader sees it, against `trace --json` and `stats` of the same job."""

import os
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "support"))
sys.path.insert(0, HERE)

import cases_archives  # noqa: E402,F401
import cases_chakra  # noqa: E402,F401
import cases_otf2  # noqa: E402,F401
import cases_perfetto  # noqa: E402,F401  (registers its cases)
import cases_roundtrip  # noqa: E402,F401
import cases_tables  # noqa: E402,F401
from harness import run_main  # noqa: E402

if __name__ == "__main__":
    run_main("exports")
