"""Set c: failures of NCCL, of collectives and of links."""

from composer import peers
from composer.found import found
from composer.found_devices import nccl_warns, with_kernel
from composer.job import Truth
from composer.kernel_log import kern
from composer.kinds import nodes, several, torch
from composer.raise_it import raise_it

# Collectives


@found("nccl", lambda job: torch(job) and several(job), 2, early=True)
def other_parameters(job, at):
    rank = job.rng.randrange(1, job.size)
    text = job.rng.choice(
        (
            (
                f"RuntimeError: [{rank}]: params[0] in this process with sizes [32000, 4096] appears not to match sizes"
                " of the same param in process 0."
            ),
            (
                f"RuntimeError: DDP expects same model across all ranks, but Rank {rank} has 291 params, while rank 0"
                " has inconsistent 290 params."
            ),
        )
    )
    raise_it(job, at, rank, "setup", text)
    return Truth("nccl", f"rank {rank} has other parameters than rank 0", [rank], ["python", "checkpoint"]), {
        rank: (at + 1, 1)
    }


@found("nccl", lambda job: torch(job) and several(job))
def other_modules(job, at):
    rank = job.rng.randrange(1, job.size)
    raise_it(
        job,
        at,
        rank,
        "forward",
        f"RuntimeError: disagreement between rank0 and rank{rank}: rank0: [291, 290, 34], rank{rank}: [291, 290, 35]",
    )
    return Truth("nccl", f"rank {rank} gathers other parameters than rank 0", [rank], ["python"]), {rank: (at + 1, 1)}


@found("nccl", lambda job: torch(job) and several(job), 2)
def truncated_message(job, at):
    rank = job.rng.randrange(job.size)
    place, warning = job.rng.choice(
        (
            ("bootstrap.cc:77", "Message truncated : received 256 bytes instead of 4"),
            (
                "transport/net_socket.cc:493",
                (
                    f"NET/Socket : peer {job.address(rank)}<41877> message truncated : receiving 1048576 bytes instead"
                    " of 524288. If you believe your socket network is in healthy state, there may be a mismatch in"
                    " collective sizes or environment settings (e.g. NCCL_PROTO, NCCL_ALGO) between ranks"
                ),
            ),
        )
    )
    result = (
        "internal error - please report this issue to the NCCL developers, NCCL version 2.21.5\nncclInternalError:"
        " Internal check failed."
    )
    nccl_warns(job, at, rank, place, warning, result)
    return Truth("nccl", f"rank {rank} got a message of another size than it expected", [rank], ["network"]), {
        rank: (at + 1, 1)
    }


@found("nccl", lambda job: torch(job) and job.per_node > 1, 2, early=True)
def no_peer_access(job, at):
    warning = job.rng.choice(
        (
            "Cuda failure 217 'peer access is not supported between these two devices'",
            (
                "Failed to bind NVLink SHARP (NVLS) Multicast memory of size 2097152 : CUDA error 1 'invalid argument'."
                " This is usually caused by a system or configuration error in the Fabric Manager or NVSwitches."
            ),
        )
    )
    result = (
        "unhandled cuda error (run with NCCL_DEBUG=INFO for details), NCCL version 2.26.2\nncclUnhandledCudaError: Call"
        " to CUDA function failed."
    )
    node = job.rng.randrange(job.nodes)
    for number, rank in enumerate(job.ranks_of(node)):
        nccl_warns(job, at + number * 0.01, rank, "transport/p2p.cc:275", warning, result, number > 0)
    return Truth(
        "nccl",
        f"the GPUs of {job.place.hosts[node]} cannot reach each other",
        job.ranks_of(node) if job.nodes > 1 else (),
        ["cuda", "environment", "hardware"],
    ), {rank: (at + 1.5, 1) for rank in job.ranks_of(node)}


# Links


@found("network", lambda job: torch(job) and nodes(job), 2)
def silent_efa(job, at):
    rank = job.rng.randrange(job.size)
    far = job.rng.choice([r for r in range(job.size) if job.node_of(r) != job.node_of(rank)])
    warning = (
        "NET/OFI Request 0x7f456c224810 completed with error. RC: 103. Error: 4126 (Unresponsive receiver (reachable"
        " by EFA device but handshake failed) My EFA addr: fi_addr_efa://[fe80::c55:2eff:fe44:db5]:0:142160333 My host"
        f" id: i-0779{rank:04x} Peer EFA addr: fi_addr_efa://[fe80::8ff:f7ff:fefc:bc43]:0:1879318055 Peer host id:"
        f" i-0c1b{far:04x}). Completed length: 0, Request: {{ dev: 0, size: 131072, state: PENDING, direction: SEND }}"
    )
    result = (
        "remote process exited or there was a network error, NCCL version 2.21.5\nncclRemoteError: A call failed"
        " possibly due to a network error or a remote process exiting prematurely."
    )
    nccl_warns(job, at, rank, "ofi_process_cq:207", warning, result)
    return Truth("network", f"EFA between {job.host(rank)} and {job.host(far)} does not work", (), ["nccl"]), {
        rank: (at + 1, 1)
    }


@found("network", lambda job: with_kernel(job) and nodes(job), 2)
def hung_queue(job, at):
    rank = job.rng.randrange(job.size)
    kern(
        job,
        at - 4,
        job.node_of(rank),
        "NETDEV WATCHDOG: ens32 (ena): transmit queue 3 timed out\nena 0000:00:05.0 ens32: Keep alive watchdog"
        " timeout.\nena 0000:00:05.0 ens32: Device reset failed",
        mark=0,
        more=(1, 2),
    )
    far = job.rng.choice([r for r in range(job.size) if job.node_of(r) != job.node_of(rank)])
    peers.remote(job, at, rank, far)
    return Truth("network", f"the network card of {job.host(rank)} hung", [rank], ["hardware"]), {rank: (at + 2, -6)}


@found("network", lambda job: job.launched == "ray" and nodes(job), 4)
def node_marked_dead(job, at):
    node = job.rng.randrange(1, job.nodes)
    t, dead = job.when(at), job.ranks_of(node)
    job.launcher(
        at,
        f"{t:%Y-%m-%d %H:%M:%S},{t.microsecond // 1000:03d}\tWARNING worker.py:2052 -- The node with node id:"
        f" {job.rng.randrange(16**12):012x} and address: {job.place.ips[node]} and node name: {job.place.ips[node]} has"
        " been marked dead because the detector has missed too many heartbeats from it. This can happen when a \t(1)"
        " raylet crashes unexpectedly (OOM, etc.) \n\t(2) raylet has lagging heartbeats due to slow network or busy"
        " workload.",
        mark=0,
    )
    truth = Truth(
        "network", f"{job.place.hosts[node]} no longer answers Ray", dead, ["terminated", "hardware", "timeout"]
    )
    return truth, {rank: (at - 20, -9) for rank in dead}
