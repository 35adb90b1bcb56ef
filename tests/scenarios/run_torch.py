#!/usr/bin/env python3
"""The part of the quick suite that needs torch."""

import sys

import run

if __name__ == "__main__":
    sys.exit(run.main(run.torch_table()))
