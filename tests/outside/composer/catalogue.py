"""What can happen to jobs: all of it, or one of two halves that share no failure and no line of noise.

Rules that were written with sight of one half are judged by the other. An entry's own text or name decides its half,
so an entry stays where it is when others come. Wordings that differ only in names and numbers stay together.
"""

import re
import zlib
from typing import NamedTuple

from composer import links, machines, noise, stopped
from composer.kinds import KINDS
from composer.raised import ROWS

assert links and machines  # importing them fills KINDS
SETS = ("a", "b")
BIT = 20  # of the checksum: each category has entries in both halves by it
LEADING = 6  # words of a text that tell it from others


class Catalogue(NamedTuple):
    rows: list  # of raised.Raised
    kinds: list  # of kinds.Kind
    unknown: list  # of (function, fits)
    noise: list
    kernel: list
    scheduler: list


ALL = Catalogue(ROWS, KINDS, stopped.UNKNOWN, noise.TEXTS, noise.KERNEL, noise.SCHEDULER)


def shape(text):
    """The first words of the line that explains, without what is filled in or quoted."""
    rows = text.split("\n")
    row = next((row for row in rows if row.startswith("@")), rows[0])
    return " ".join(re.findall("[A-Za-z_]{3,}", re.sub(r"'[^']*'|\{[^}]*\}", " ", row))[:LEADING])


def half_of(name):
    return SETS[zlib.crc32(name.encode()) >> BIT & 1]


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
    return half(name) if name else ALL
