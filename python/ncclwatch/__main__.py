"""The program `ncclwatch`, with the arguments as they are."""

import os
import sys

from . import command


def main() -> None:
    if sys.argv[1:2] == ["export"]:
        os.environ.setdefault("NCCLWATCH_PYTHON", sys.executable)  # this environment's pyarrow writes Parquet
    os.execv(command(), ["ncclwatch", *sys.argv[1:]])


if __name__ == "__main__":
    main()
