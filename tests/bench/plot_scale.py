#!/usr/bin/env python3
"""The table of `job_matrix scale` as a picture.

    build/release/bin/job_matrix scale --ranks 1024,2048,4096,8192,16384 | tests/bench/plot_scale.py > docs/scale.svg
"""

import math
import sys

WIDTH, HEIGHT = 660, 360
LEFT, RIGHT, TOP, BOTTOM = 100, 150, 24, 48
SERIES = (("3 x reading the files", "#bbbbbb", "6 4", lambda row: 3 * row["files"]),
          ("verdict from the files", "#c0392b", "", lambda row: row["boxes"] + row["verdict"]),
          ("reading the files once", "#2c6fbb", "", lambda row: row["files"]))


def rows(lines):
    for line in lines:
        words = line.split()
        if len(words) >= 7 and words[0].isdigit():
            yield {"ranks": int(words[0]), "files": float(words[2]), "boxes": float(words[3]), "verdict": float(words[4]),
                   "peak": float(words[6])}


class Axis:
    """Logarithmic, from a power of ten to a power of ten."""

    def __init__(self, values, begin, end):
        self.low, self.high = math.floor(math.log10(min(values))), math.ceil(math.log10(max(values)))
        self.begin, self.end = begin, end

    def at(self, value):
        return self.begin + (math.log10(value) - self.low) / (self.high - self.low) * (self.end - self.begin)

    def ticks(self):
        return [10.0 ** power for power in range(self.low, self.high + 1)]


def text(x, y, words, anchor="middle", colour="#333333"):
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" fill="{colour}">{words}</text>'


def line(x1, y1, x2, y2, colour="#e5e5e5"):
    return f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" stroke="{colour}"/>'


def draw(table):
    seconds = [series[3](row) for series in SERIES for row in table]
    y = Axis(seconds, HEIGHT - BOTTOM, TOP)
    first, last = math.log2(table[0]["ranks"]), math.log2(table[-1]["ranks"])
    plot = WIDTH - LEFT - RIGHT

    def x(ranks):
        return LEFT + (math.log2(ranks) - first) / max(last - first, 1) * plot

    out = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" font-family="sans-serif" '
           f'font-size="12"><rect width="{WIDTH}" height="{HEIGHT}" fill="white"/>']
    for tick in y.ticks():
        out += [line(LEFT, y.at(tick), LEFT + plot, y.at(tick)), text(LEFT - 8, y.at(tick) + 4, f"{tick:g} s", "end")]
    for row in table:
        out += [line(x(row["ranks"]), TOP, x(row["ranks"]), HEIGHT - BOTTOM),
                text(x(row["ranks"]), HEIGHT - BOTTOM + 18, f'{row["ranks"]:,}'),
                text(x(row["ranks"]), HEIGHT - BOTTOM + 34, f'{row["peak"]:.2f} GiB', colour="#888888")]
    out.append(text(8, HEIGHT - BOTTOM + 18, "ranks", "start"))
    out.append(text(8, HEIGHT - BOTTOM + 34, "memory", "start", "#888888"))
    labels = []
    for name, colour, dashes, value in SERIES:
        points = " ".join(f'{x(row["ranks"]):.1f},{y.at(value(row)):.1f}' for row in table)
        out.append(f'<polyline points="{points}" fill="none" stroke="{colour}" stroke-width="2" '
                   f'stroke-dasharray="{dashes}"/>')
        labels.append((y.at(value(table[-1])), name, colour))
    below = 0.0
    for height, name, colour in sorted(labels):
        below = max(height, below + 14)
        out.append(text(LEFT + plot + 8, below + 4, name, "start", colour if colour != "#bbbbbb" else "#888888"))
    return "\n".join(out + ["</svg>"])


if __name__ == "__main__":
    measured = list(rows(sys.stdin))
    if len(measured) < 2:
        sys.exit("no table of `job_matrix scale` on standard input")
    print(draw(measured))
