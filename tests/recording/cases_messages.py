"""Made-up jobs of MPI, line by line: what `replay` and `stats` make of them is plain arithmetic."""

from harness import case, check, check_equal
from made_mpi import US, Made, halo


def messages(sandbox, took_us):
    """Two ranks; each message is awaited before it is sent, and arrives so many us later, by its size."""
    job, at = Made(sandbox, 2), 0
    for _ in range(100):
        for size, us in took_us.items():
            at += 1000 * US
            # A large one ends with its receive.
            job.message(0, "Send", 1, at, at + (int(us * US) if size > 4096 else 300), size)
            job.message(1, "Recv", 0, at - 500 * US, at + int(us * US), size)
    return job


@case
def costs_of_exact_times(sandbox):
    """5 us, and 0.5 ns for each byte."""
    told = messages(sandbox, {8: 5.004, 65536: 37.768}).json("replay", "--fit", "self")
    costs, fit = told["costs"], told["fit"]
    check(abs(costs["latency_ns"] + 2 * costs["overhead_ns"] - 5000) < 50, f"latency: {costs}")
    check(abs(costs["byte_ns"] - 0.5) < 0.01, f"bandwidth: {costs}")
    check_equal((fit["why_bad"], fit["late_share"], fit["waits"]), (None, 0, 400), f"{fit}")
    check(abs(fit["error"]) < 0.02, f"on calls that it has not seen: {fit}")


@case
def costs_that_cannot_be(sandbox):
    told = messages(sandbox, {8: 300, 65536: 5}).json("replay", "--fit", "self", status=3)
    check("larger messages took less time" in told, told)


@case
def late_processes_are_no_latency(sandbox):
    """To and fro; each third receive ends 4 ms late. That is no latency, and the model has it all the same."""
    job, at, sent = Made(sandbox, 2), 1000 * US, [0, 0]
    for number in range(1500):
        rank = number % 2
        ends = at + 5 * US + (4000 * US if number % 3 == 0 else 0)
        job.message(rank, "Send", 1 - rank, at, at + 300, 8)
        job.message(1 - rank, "Recv", rank, sent[1 - rank] + 1 * US, ends, 8)
        sent[rank], at = at, ends + 200 * US
    told = job.json("replay", "--fit", "self")
    costs, fit = told["costs"], told["fit"]
    check(costs["latency_ns"] + 2 * costs["overhead_ns"] < 5100, f"latency: {costs}")
    # Sends are among those that could be late.
    check(abs(fit["late_share"] - 1 / 6) < 0.01 and abs(fit["late_us"] - 4000 / 6) < 40, f"{fit}")
    check(abs(fit["error"]) < 0.25 and "bandwidth" in fit["guessed"], f"when they are late is left to chance: {fit}")


@case
def who_waits_for_whom(sandbox):
    job = Made(sandbox, 3)
    job.message(0, "Send", 1, 990 * US, 991 * US, 8)
    job.message(1, "Recv", 0, 0, 1000 * US, 8)
    # Two messages for one wait: it counts once, for the later one.
    seq = len(job.lines[1])
    job.request(1, "Irecv", 0, 1100 * US, seq + 2, 2000 * US, 4000)
    job.request(1, "Irecv", 2, 1101 * US, seq + 2, 2000 * US, 4000)
    job.wait(1, 1200 * US, 2000 * US, 2)
    job.message(0, "Send", 1, 1500 * US, 1501 * US, 4000)
    job.message(2, "Send", 1, 1900 * US, 1901 * US, 4000)
    # A send that needs its receiver.
    job.message(2, "Ssend", 0, 2000 * US, 2600 * US, 8, flags=["synchronous"])
    job.message(0, "Recv", 2, 2500 * US, 2601 * US, 8)
    path = job.write()
    told = job.json("stats", "--by", "peer", path=path)
    pairs = {(one["from"], one["to"]): one for one in told["peers"]}
    check_equal({pair: (one["messages"], one["bytes"], one["receiver_waited_us"], one["sender_waited_us"]) for pair, one in pairs.items()},
                {(0, 1): (2, 4008, 990, 0), (2, 1): (1, 4000, 700, 0), (2, 0): (1, 8, 0, 500)}, "pairs")
    check_equal({one["rank"]: (one["sent_bytes"], one["waited_us"], one["awaited_us"]) for one in told["ranks"]},
                {0: (4008, 0, 1490), 1: (0, 1690, 0), 2: (4008, 500, 700)}, "ranks")
    job.lines[2].pop()
    check_equal(job.json("stats", "--by", "peer")["one_ended"], 1, "its receiver alone is there")


@case
def larger_grids(sandbox):
    for sides, ring, ranks in (((3, 3), True, 36), ((3, 4), False, 24), ((5, 1), True, 15)):
        job = halo(sandbox, sides, ring)
        path = job.write()
        whole, scaled = job.json("replay", path=path), job.json("replay", "--scale", f"{ranks}", path=path)
        check_equal((scaled["ranks"], scaled["completed"], scaled["findings"]), (ranks, True, []), f"{sides} {ring}: {scaled}")
        check(ring is False or scaled["calls"] == whole["calls"] * ranks // job.ranks, f"{sides}: calls of ranks that are all alike")


@case
def grids_that_cannot_grow(sandbox):
    told = halo(sandbox, (2, 2), False).json("replay", "--scale", "8", status=3)
    check("no side of at least 3" in told, told)
    job = Made(sandbox, 5)
    for rank in range(5):  # everybody to everybody
        for peer in set(range(5)) - {rank}:
            job.message(rank, "Send", peer, 1000 * US, 1001 * US, 8)
        for peer in set(range(5)) - {rank}:
            job.message(rank, "Recv", peer, 2000 * US, 2001 * US, 8)
    told = job.json("replay", "--scale", "10", status=3)
    check("neighbours in a grid" in told, told)
