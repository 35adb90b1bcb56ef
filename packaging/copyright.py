#!/usr/bin/env python3
"""The copyright file of a package, on standard output: whose code is linked into the files, and under which terms. Debian's own
files about the libraries are quoted."""

import os

from sbom import LIBRARIES

HEAD = """ncclwatch
=========
Copyright: the ncclwatch authors.

The programs and libraries of this package contain code of the following libraries, linked statically, or D3 (node-d3) as a
text. The C++ standard library of GCC is linked statically too, under the GCC Runtime Library Exception (GPL-3).
"""


def main():
    print(HEAD)
    for package in LIBRARIES:
        path = f"/usr/share/doc/{package}/copyright"
        if not os.path.exists(path):
            raise SystemExit(f"copyright.py: {path} is missing: the terms of {package} are not known")
        with open(path, errors="replace") as file:
            text = file.read().strip()
        print(f"\n{package}\n{'=' * len(package)}\n{text}\n")


if __name__ == "__main__":
    main()
