"""Made-up jobs of MPI."""

import itertools
import json
import os

from harness import check_equal

US = 1000
BEGIN = 1_800_000_000 * 10**9
WORLD = "00000000000000aa"


class Made:
    """Calls of some ranks, in the lines of `trace --json`."""

    def __init__(self, sandbox, ranks):
        self.sandbox, self.ranks = sandbox, ranks
        self.lines = [[] for _ in range(ranks)]
        self.sent, self.received = {}, {}

    def call(self, rank, op, begins, ends, **more):
        lines = self.lines[rank]
        line = {"rank": rank, "seq": len(lines), "host": "node0", "pid": 100 + rank, "thread": 100 + rank, "op": op, "library": "mpi",
                "time_ns": BEGIN + begins, "returned": "yes", "duration_s": (ends - begins) / 1e9, "state": "returned",
                "result": "success", "communicator": WORLD, "communicator_rank": rank, "communicator_size": self.ranks,
                **more}
        lines.append(line)
        return line["seq"]

    def message(self, rank, op, peer, begins, ends, size, **more):
        counts = self.sent if "end" in op and "recv" not in op.lower() else self.received
        position = counts[rank, peer] = counts.get((rank, peer), -1) + 1
        return self.call(rank, op, begins, ends, peer=peer, tag=0, count=size, bytes=size, dtype="MPI_BYTE", position=position, **more)

    def request(self, rank, op, peer, begins, waiter, completed, size):
        return self.message(rank, op, peer, begins, begins + 300, size, flags=["request"], waiter=waiter, completed_ns=BEGIN + completed)

    def wait(self, rank, begins, ends, count):
        return self.call(rank, "Waitall", begins, ends, communicator=None, count=count)

    def write(self):
        path = os.path.join(self.sandbox.fresh("lines"), "calls.jsonl")
        with open(path, "w") as file:
            for line in sorted(itertools.chain(*self.lines), key=lambda line: line["time_ns"]):
                file.write(json.dumps(line) + "\n")
        return path

    def json(self, *words, path=None, status=0):
        done = self.sandbox.run([self.sandbox.build.command, *words, "--json", path or self.write()],
                                self.sandbox.environment(preload=False), timeout=60)
        check_equal(done.status, status, f"{words}: {done}")
        return json.loads(done.out) if done.out else done.err


def halo(sandbox, sides, ring):
    """Each rank exchanges a message with each of its neighbours, three times."""
    job = Made(sandbox, sides[0] * sides[1])
    for rank in range(job.ranks):
        x, y = rank % sides[0], rank // sides[0]
        steps = [(dx, dy) for dx, dy in ((1, 0), (-1, 0), (0, 1), (0, -1))
                 if ring or (0 <= x + dx < sides[0] and 0 <= y + dy < sides[1])]
        peers = [(x + dx) % sides[0] + (y + dy) % sides[1] * sides[0] for dx, dy in steps]
        for step in range(3):
            at, waiter = 1000 * US * (step + 1), len(job.lines[rank]) + 2 * len(peers)
            for peer in peers:
                job.request(rank, "Irecv", peer, at, waiter, at + 100 * US, 64)
            for peer in peers:
                job.request(rank, "Isend", peer, at + 10 * US, waiter, at + 100 * US, 64)
            job.wait(rank, at + 20 * US, at + 100 * US, 2 * len(peers))
            job.call(rank, "Allreduce", at + 110 * US, at + 150 * US, count=1, bytes=8, dtype="MPI_DOUBLE", reduction="MPI_SUM", position=step)
    return job
