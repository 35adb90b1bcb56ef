"""Asleep below 3,000 calls; see nesting.py for the file."""
import json
import os
import sys
import time


def down(depth):
    if depth == 0:
        with open(sys.argv[1] + ".new", "w") as file:
            line = sys._getframe().f_lineno
            json.dump({"pid": os.getpid(), "frames": [["down", __file__, line + 2], ["down", __file__, line + 3]]}, file)
        os.rename(sys.argv[1] + ".new", sys.argv[1]); time.sleep(float(sys.argv[2]))
    down(depth - 1)


sys.setrecursionlimit(10000)
down(3000)
