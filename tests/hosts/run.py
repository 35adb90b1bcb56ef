#!/usr/bin/env python3
"""Small real programs under the library: each must do what it does without it, and be recorded truthfully."""

import os
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "support"))
sys.path.insert(0, HERE)

import cases_administrator  # noqa: E402,F401  (registers its cases)
import cases_children  # noqa: E402,F401
import cases_communicators  # noqa: E402,F401
import cases_constructors  # noqa: E402,F401
import cases_containers  # noqa: E402,F401
import cases_courtesy  # noqa: E402,F401
import cases_cut  # noqa: E402,F401
import cases_endings  # noqa: E402,F401
import cases_events  # noqa: E402,F401
import cases_fatal  # noqa: E402,F401
import cases_inventory  # noqa: E402,F401
import cases_leaving  # noqa: E402,F401
import cases_limits  # noqa: E402,F401
import cases_loading  # noqa: E402,F401
import cases_memory  # noqa: E402,F401
import cases_surroundings  # noqa: E402,F401
import cases_words  # noqa: E402,F401
from harness import run_main  # noqa: E402

if __name__ == "__main__":
    run_main("hosts")
