"""Failures of links, of NCCL, and of collectives that do not fit each other."""

from composer import peers
from composer.job import Truth
from composer.kernel_log import kern
from composer.kinds import SYSTEM_ERROR, all_out, kind, nodes, several, stuck_until_limit, torch
from composer.raise_it import raise_it

# Links


@kind("network", lambda job: torch(job) and nodes(job), 2)
def port_down(job, at):
    rank = job.rng.randrange(job.size)
    hca = f"mlx5_{job.local(rank)}"
    if job.has_kernel:
        kern(
            job,
            at - 2,
            job.node_of(rank),
            f"mlx5_core 0000:{job.bus(rank)}:00.0 ibp{job.local(rank)}s0: Link down",
            mark=0,
        )
    job.error(
        at,
        rank,
        f"\n{peers.nccl(job, rank)} transport/net_ib.cc:101 NCCL WARN NET/IB : {hca}:1 Got async event : port error",
        mark=1,
        also=job.has_kernel,
    )
    far = job.rng.choice([r for r in range(job.size) if job.node_of(r) != job.node_of(rank)])
    ended = {}
    for end, other in ((rank, far), (far, rank)):
        job.error(
            at + 8,
            end,
            f"\n{peers.nccl(job, end)} transport/net_ib.cc:1686 NCCL WARN NET/IB : Got completion from peer"
            f" {job.address(other)}<{job.rng.randrange(32768, 60999)}> with status=12 opcode=0 len=0 vendor err 129"
            f" (Send) localGid ::ffff:{job.address(end)}",
        )
        peers.remote(job, at + 8.2, end, other)
        ended[end] = (at + 9.5, -6)
    return Truth("network", f"the port {hca} on {job.host(rank)} went down", [rank], ["hardware", "nccl"]), ended


@kind("network", lambda job: torch(job) and nodes(job))
def retries_exceeded(job, at):
    one = job.rng.randrange(job.size)
    two = job.rng.choice([r for r in range(job.size) if job.node_of(r) != job.node_of(one)])
    for end, other in ((one, two), (two, one)):
        job.error(
            at,
            end,
            f"\n{peers.nccl(job, end)} transport/net_ib.cc:1295 NCCL WARN NET/IB : Got completion from peer"
            f" {job.address(other)}<{job.rng.randrange(32768, 60999)}> with status=12 opcode=0 len=0 vendor err 129"
            " (Recv)",
            mark=1,
            also=end != one,
        )
        peers.remote(job, at + 0.3, end, other)
    return (
        Truth("network", f"transport retries between {job.host(one)} and {job.host(two)} were used up", (), ["nccl"]),
        {one: (at + 2, -6), two: (at + 2, -6)},
    )


@kind("network", lambda job: torch(job) and nodes(job), early=True)
def no_route(job, at):
    rank = job.rng.randrange(job.per_node, job.size)
    start = peers.nccl(job, rank)
    what = job.rng.choice(
        (
            f"Net : Connect to {job.place.ips[0]}<54263> failed : No route to host",
            f"socketStartConnect: Connect to {job.place.ips[0]}<41211> failed : Software caused connection abort",
            f"socketPollConnect: Connect to {job.place.ips[0]}<41211> returned 110(Connection timed out)",
        )
    )
    job.error(
        at,
        rank,
        f"{start} NCCL INFO Call to connect returned No route to host, retrying\n\n{start} misc/socket.cc:441 NCCL WARN"
        f" {what}\n{start} NCCL INFO bootstrap.cc:360 -> 2\n{start} NCCL INFO init.cc:777 -> 2",
        mark=2,
    )
    raise_it(job, at + 0.2, rank, "init", SYSTEM_ERROR.format(what), True)
    return Truth("network", f"{job.host(rank)} cannot reach {job.place.hosts[0]}", [rank], ["nccl", "rendezvous"]), {
        rank: (at + 1, 1)
    }


# Collectives


@kind("timeout", lambda job: torch(job) and 2 < job.size, 3)
def stuck_rank(job, at):
    rank = job.rng.randrange(job.size)
    place = job.rng.choice(
        (
            "waiting for the lock file of the kernel cache",
            "downloading tokenizer files",
            "reading shard 00412 from object storage",
            "compiling fused kernels",
            None,
        )
    )
    if place:
        job.rank(at, rank, f"{job.stamp(at)}rank {rank}: {place} ...")
    job.end(rank, at + 0.5)
    stuck_until_limit(job, at, rank, True)
    return (
        Truth("timeout", f"rank {rank} is stuck, the others waited until the watchdog's limit", [rank], ["nccl"]),
        None,
    )


@kind("nccl", lambda job: torch(job) and 2 < job.size, 3)
def mismatch(job, at):
    """One rank calls another collective, or the same with another size."""
    rank, name = job.rng.randrange(job.size), job.rng.choice(("ALLREDUCE", "_ALLGATHER_BASE", "BROADCAST"))
    count = job.rng.randrange(1, 99) * 1024
    odd = (
        (name, count + job.rng.choice((-8, 128, 4096)), None)
        if job.rng.random() < 0.5
        else ("BROADCAST" if name != "BROADCAST" else "ALLREDUCE", count, None)
    )
    moment, ended = at + job.timeout_s, {}
    for other in sorted(range(job.size), key=lambda r: r == rank):
        peers.watchdog(
            job,
            moment + job.rng.uniform(0, 0.8),
            other,
            op=(
                f"OpType={(odd if other == rank else (name,))[0]}, NumelIn="
                f"{odd[1] if other == rank else count}, NumelOut={odd[1] if other == rank else count}"
            ),
            mark=0,
            also=other != rank,
        )
        ended[other] = (moment + 2.5, -6)
    return Truth("nccl", f"rank {rank} called another collective than the others", [rank], ["timeout", "python"]), ended


@kind("nccl", lambda job: torch(job) and several(job))
def mismatch_fingerprint(job, at):
    rank = job.rng.randrange(1, job.size)
    seq = job.seq
    text = (
        "RuntimeError: Detected mismatch between collectives on ranks. Rank {} is running collective:"
        " CollectiveFingerPrint(SequenceNumber="
        + str(seq)
        + ", OpType=ALLREDUCE, TensorShape=[{}], TensorDtypes=BFloat16, TensorDeviceTypes=TensorOptions(dtype=float"
        " (default), device=cuda, layout=Strided (default), requires_grad=false (default), pinned_memory=false"
        " (default), memory_format=(nullopt))), but Rank {} is running collective:"
        " CollectiveFingerPrint(SequenceNumber="
        + str(seq)
        + ", OpType=ALLREDUCE, TensorShape=[{}]).Collectives differ in the following "
        "aspects: \t Tensor Tensor shapes: {}vs {}"
    )
    for other in range(job.size):
        mine, theirs = (51123456, 195812480) if other != rank else (195812480, 51123456)
        raise_it(
            job,
            at + other * 0.001,
            other,
            "backward",
            text.format(other, mine, rank if other != rank else 0, theirs, mine, theirs),
            other != rank,
        )
    return Truth(
        "nccl",
        f"rank {rank} called an all-reduce of another size than the others",
        [rank] if job.size > 2 else (),
        ["python"],
    ), all_out(job, at + 1.5, 1)


@kind("nccl", lambda job: torch(job) and several(job) and job.per_node > 1, early=True)
def same_gpu_twice(job, at):
    one = job.rng.choice(list(job.ranks_of(0))[1:])
    note = f"Duplicate GPU detected : rank {one} and rank 0 both on CUDA device {job.bus(0)}000"
    for number, rank in enumerate(range(job.size)):
        job.error(
            at + number * 0.001, rank, f"{peers.nccl(job, rank)} init.cc:943 NCCL WARN {note}", mark=0, also=number > 0
        )
        raise_it(
            job,
            at + 0.2,
            rank,
            "forward",
            "torch.distributed.DistBackendError: NCCL error in:"
            " ../torch/csrc/distributed/c10d/ProcessGroupNCCL.cpp:1970, invalid usage (run with NCCL_DEBUG=WARN for"
            " details), NCCL version 2.21.5\nncclInvalidUsage: This usually reflects invalid usage of NCCL"
            f" library.\nLast error:\n{note}",
            True,
        )
    return Truth("nccl", f"ranks 0 and {one} use the same GPU", (), ["environment", "python", "cuda"]), all_out(
        job, at + 1, 1
    )


@kind("environment", lambda job: torch(job) and nodes(job), early=True)
def other_nccl(job, at):
    node = job.rng.randrange(1, job.nodes)
    first = job.ranks_of(node)[0]
    note = f"Mismatched NCCL version detected : rank {first} version 22203 rank 0 version 21805"
    for number, rank in enumerate(range(job.size)):
        job.error(
            at + number * 0.001, rank, f"{peers.nccl(job, rank)} init.cc:862 NCCL WARN {note}", mark=0, also=number > 0
        )
        raise_it(
            job,
            at + 0.2,
            rank,
            "init",
            "torch.distributed.DistBackendError: NCCL error in:"
            " ../torch/csrc/distributed/c10d/ProcessGroupNCCL.cpp:1970, internal error - please report this issue to"
            " the NCCL developers, NCCL version 2.18.5\nncclInternalError: Internal check failed.\nLast"
            f" error:\n{note}",
            True,
        )
    return Truth(
        "environment", f"{job.place.hosts[node]} has another NCCL than the others", job.ranks_of(node), ["nccl"]
    ), all_out(job, at + 1, 1)


@kind("timeout", lambda job: job.program.name == "horovod" and several(job), 2)
def horovod_stall(job, at):
    rank = job.rng.randrange(1, job.size)
    for number in range(3):
        t = job.when(at + 60 * (number + 1))
        job.error(
            at + 60 * (number + 1),
            0,
            f"[{t:%Y-%m-%d %H:%M:%S.%f}: W /tmp/pip-req-build-12flcl_u/horovod/common/stall_inspector.cc:107] One or"
            " more tensors were submitted to be reduced, gathered or broadcasted by subset of ranks and are waiting"
            " for remainder of ranks for more than 60 seconds. This may indicate that different ranks are trying to"
            " submit different tensors or that only subset of ranks is submitting tensors, which will cause deadlock."
            f" \nMissing ranks:\n{rank}: [allreduce.layer4.1.conv2.weight, allreduce.fc.bias]",
            mark=0,
            also=number > 0,
        )
    job.end(rank, at)
    return Truth("timeout", f"rank {rank} no longer submits tensors to Horovod", [rank], ["mpi", "nccl"]), {
        other: (at + 190, 1) for other in range(job.size) if other != rank
    }
