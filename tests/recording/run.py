#!/usr/bin/env python3
"""Recordings: all calls of real jobs, against what the jobs themselves say that they called."""

import os
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "support"))
sys.path.insert(0, HERE)

import cases_damage  # noqa: E402,F401  (registers its cases)
import cases_losses  # noqa: E402,F401
import cases_messages  # noqa: E402,F401
import cases_real  # noqa: E402,F401
import cases_replay  # noqa: E402,F401
import cases_shrink  # noqa: E402,F401
import cases_whole  # noqa: E402,F401
from harness import run_main  # noqa: E402

if __name__ == "__main__":
    run_main("recording")
