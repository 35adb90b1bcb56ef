"""Stands in a function with numbers of all kinds among its variables, and says which (JSON, a line)."""
import json
import sys
import time

global_step = 300_000_000_000
words = "no number"


def inner(step, name="x", *, late=None):
    zero, negative, large, huge = 0, -7, (1 << 59) + 5, 1 << 60
    truth, real = True, 1.5
    captured = step + 1
    later = lambda: captured  # noqa: E731
    assert later() and all(one is not None for one in (name, huge, truth, real)) and late is None
    print(json.dumps([["inner", {"step": step, "zero": zero, "negative": negative, "large": large, "captured": captured}],
                      ["<module>", {"global_step": global_step, "epoch": epoch}]]), flush=True)
    time.sleep(1000)


for epoch in range(3):
    if epoch == 2:
        inner(12345)
sys.exit(words)
