#!/usr/bin/env python3
"""A random program of MPI from a seed: correct, or with one fault and the truth about it. Prints it."""

import argparse
import random

import faults
import lone_faults  # noqa: F401
import phases
import race_faults  # noqa: F401
import window_faults  # noqa: F401
from program import Program

MOST_RANKS = 8
# Ranks of the world, small ones more often: all of them share few processors.
SIZES = (2, 3, 3, 4, 4, 4, 5, 6, 7, 8)


def correct(seed):
    program = Program(random.Random(f"size {seed}").choice(SIZES), random.Random(f"correct {seed}"))
    phases.some(program, program.random.randint(4, 14))
    phases.close(program)
    phases.attach(program)
    return program


def faulty(seed, sort=None):
    """The program and its truth (faults.Truth)."""
    draw = random.Random(f"faulty {seed}")
    sort = sort or draw.choice(faults.names())
    ranks = draw.choice(SIZES)
    program = Program(max(ranks, faults.FAULTS[sort].ranks), draw)
    phases.some(program, draw.randint(1, 6))
    phases.finish_pending(program)
    truth = faults.plant(program, sort)
    phases.some(program, draw.randint(0, 4))
    phases.close(program)
    phases.attach(program)
    for rank, verb, fields in truth.last:
        program.call(rank, verb, **fields)
    return program, truth


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, required=True)
    parser.add_argument("--faulty", action="store_true")
    parser.add_argument("--sort", help="of fault; default: drawn")
    arguments = parser.parse_args()
    if arguments.faulty or arguments.sort:
        program, truth = faulty(arguments.seed, arguments.sort)
        print(f"# {truth}")
        print(program.text(checks=False), end="")
    else:
        print(correct(arguments.seed).text(checks=True), end="")


if __name__ == "__main__":
    main()
