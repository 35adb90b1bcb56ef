"""What can happen to jobs: all of it, one of two halves that share no failure and no line of noise, set c, or
one of the halves d and e of another collection.

Rules that were written with sight of one half are judged by the other. An entry's own text or name decides its half,
so an entry stays where it is when others come. Wordings that differ only in names and numbers stay together.
"""

import re
import zlib
from typing import NamedTuple

from composer import (
    found,
    found_devices,
    found_ends,
    found_launch,
    found_links,
    found_noise,
    found_rows,
    found_rows_of_files,
    found_stalls,
    found_stopped,
    links,
    machines,
    noise,
    reported,
    stopped,
)
from composer.kinds import KINDS
from composer.raised import ROWS

# Importing these fills the lists of kinds and of ends. Seeds depend on their order: links, machines, stopped.
assert found_devices and found_ends and found_launch and found_links and found_stalls and found_stopped
assert links and machines
HALVES = ("a", "b")
SETS = (*HALVES, "c", *reported.HALVES)
BIT = 20  # of the checksum: each category has entries in both halves by it
LEADING = 6  # words of a text that tell it from others


class Catalogue(NamedTuple):
    rows: list  # of raised.Raised
    kinds: list  # of kinds.Kind
    unknown: list  # of (function, fits)
    noise: list
    kernel: list
    scheduler: list
    healthy: list = []  # of (function, fits): what a job that went well writes after its end


ALL = Catalogue(ROWS, KINDS, stopped.UNKNOWN, noise.TEXTS, noise.KERNEL, noise.SCHEDULER)
FOUND = Catalogue(
    found_rows.ROWS + found_rows_of_files.ROWS,
    found.KINDS,
    found.UNKNOWN,
    found_noise.TEXTS,
    found_noise.KERNEL,
    found_noise.SCHEDULER,
    found.HEALTHY,
)


def shape(text):
    """The first words of the line that explains, without what is filled in or quoted."""
    rows = text.split("\n")
    row = next((row for row in rows if row.startswith("@")), rows[0])
    return " ".join(re.findall("[A-Za-z_]{3,}", re.sub(r"'[^']*'|\{[^}]*\}", " ", row))[:LEADING])


def half_of(name, halves=HALVES):
    return halves[zlib.crc32(name.encode()) >> BIT & 1]


def of_texts(texts, half):
    return [text for text in texts if half_of(shape(text)) == half]


def half(name):
    rows = [row._replace(texts=of_texts(row.texts, name)) for row in ALL.rows]
    return Catalogue(
        [row for row in rows if row.texts],
        [kind for kind in ALL.kinds if half_of(kind.function.__name__) == name],
        [ending for ending in ALL.unknown if half_of(ending[0].__name__) == name],
        [entry for entry in ALL.noise if half_of(shape(entry[2])) == name],
        of_texts(ALL.kernel, name),
        of_texts(ALL.scheduler, name),
    )


def catalogue_of(name):
    if name == "c":
        return FOUND
    if name in reported.HALVES:
        return Catalogue(*reported.parts(lambda text: half_of(shape(text), reported.HALVES) == name))
    return half(name) if name else ALL
