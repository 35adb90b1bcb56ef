"""The program `ncclwatch`, with the arguments as they are."""

import os
import sys

from . import command


def main() -> None:
    os.execv(command(), ["ncclwatch", *sys.argv[1:]])


if __name__ == "__main__":
    main()
