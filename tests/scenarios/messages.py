"""Messages that go wrong once, after many steps in which they did not: who it was is told by what each rank did before."""

import time

import faults
from job import Failure, Job, launched

TIMEOUT_S = 3.0


def ring(build, rank, *options, ranks=4):
    return launched(build.program("message_ring"), ranks, "--rank", rank, "--step", 10, "--steps", 1_000_000, *options)


def check(build, command, culprit, words, mode="preload"):
    """The verdict, live and from the boxes alone: the one rank, likely, and these words in its summary."""
    with Job(build, command, mode=mode, environment={"NCCLWATCH_TIMEOUT": f"{TIMEOUT_S:g}"}) as job:
        def final():
            document = job.look()
            return document and document["findings"] and document["findings"][0]["certainty"] == "likely" and document
        live = job.wait_until(final, 60, "a likely verdict was to be on disk")
        time.sleep(faults.SETTLE_S)
        live = job.look()
        first = live["findings"][0]
        if (first["kind"], first["culprits"]) != ("point_to_point_mismatch", [culprit]):
            raise Failure(f"{first['certainty']} {first['kind']} of {first['culprits']}: {first['summary']}")
        for word in words:
            if word not in first["summary"]:
                raise Failure(f"'{word}' is not in the summary: {first['summary']}")
        job.end()
        faults.check_offline(job, live)


def wrong_peer(build):
    """Rank 1 sends to 3 instead of 2, with a collective in each step and without; and 3 to 1 around the corner."""
    words = ["Rank 1 sent to rank 3, which expects nothing from rank 1", "rank 2 waits for a message from rank 1",
             "Rank 1 sent to rank 2 in the 10 steps before"]
    check(build, ring(build, 1, "--peer", 3), 1, words)
    check(build, ring(build, 1, "--peer", 3, "--average", 0), 1, words, mode="run")
    check(build, ring(build, 3, "--peer", 1), 3, ["Rank 3 sent to rank 1, which expects nothing from rank 3"])


def wrong_size(build):
    """Rank 2 sends 65 elements where every step had 64; then rank 0 sends 63."""
    check(build, ring(build, 2, "--more", 1), 2,
          ["Rank 2 sent 65 float32 (260 bytes) to rank 3", "in the 10 steps before it was 64 float32"])
    check(build, ring(build, 0, "--more", -1, "--average", 0), 0, ["Rank 0 sent 63 float32 (252 bytes) to rank 1"])


RUNS = {"wrong_peer": wrong_peer, "wrong_size": wrong_size}
