#!/usr/bin/env python3
"""`ncclwatch stacks` as a user and the watchdog run it."""

import cases_reading  # noqa: F401  registers its cases
import cases_states  # noqa: F401
import cases_writing  # noqa: F401
from common import run_main

if __name__ == "__main__":
    run_main("stacks")
