#!/usr/bin/env python3
"""The `ncclwatch` command as a user runs it."""

import cases_attempts  # noqa: F401  registers its cases
import cases_changing  # noqa: F401
import cases_columns  # noqa: F401
import cases_export  # noqa: F401
import cases_files  # noqa: F401
import cases_flight  # noqa: F401
import cases_flight_hostile  # noqa: F401
import cases_help  # noqa: F401
import cases_ideal  # noqa: F401
import cases_import  # noqa: F401
import cases_inspector  # noqa: F401
import cases_kineto  # noqa: F401
import cases_lines  # noqa: F401
import cases_reading  # noqa: F401
import cases_run  # noqa: F401
import cases_strangers  # noqa: F401
import cases_top  # noqa: F401
from common import run_main

if __name__ == "__main__":
    run_main("analyzer")
