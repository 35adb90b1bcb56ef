"""Failures that are more than an exception: of hardware, links, schedulers, collectives. A function a kind.

A function writes its lines around `at`, and returns the truth and how ranks ended ({rank: (at, exit)}; None if the
function has written the end itself). The decorator names the kind's category and the jobs in which it can occur.
"""

import collections

from composer import aftermath, peers
from composer.job import Truth
from composer.kernel_log import kern, oom_kill, xid
from composer.raise_it import raise_it

Kind = collections.namedtuple("Kind", "category function fits weight early")
KINDS = []


def kind(category, fits=lambda job: True, weight=1, early=False):
    def register(function):
        KINDS.append(Kind(category, function, fits, weight, early))
        return function
    return register


def torch(job):
    return job.program.uses_torch and job.launched != "vllm"


def several(job):
    return job.size > 1


def nodes(job):
    return job.nodes > 1


def all_out(job, at, code, spread=1.0):
    return {rank: (at + job.rng.uniform(0, spread), code) for rank in range(job.size)}


# Memory

@kind("out_of_memory", lambda job: job.has_kernel, 2)
def killed_by_kernel(job, at):
    rank = job.rng.randrange(job.size)
    oom_kill(job, at, job.node_of(rank), job.pids[rank], mark=0)
    return Truth("out_of_memory", f"the kernel of {job.host(rank)} killed rank {rank} for want of memory", [rank]), {rank: (at + 0.1, -9)}


@kind("out_of_memory", lambda job: job.launched == "srun")
def killed_in_step(job, at):
    rank = job.rng.randrange(job.size)
    text = job.rng.choice((f"slurmstepd: error: Detected 1 oom_kill event in StepId={job.number}.0. Some of the step tasks have been OOM Killed.",
                           f"slurmstepd: error: Detected 1 oom-kill event(s) in StepId={job.number}.0. Some of your processes may have been "
                           "killed by the cgroup out-of-memory handler."))
    job.launcher(at, text, mark=0)
    job.launcher(at + 0.4, f"srun: error: {job.host(rank)}: task {rank}: Out Of Memory", mark=0, also=True)
    return Truth("out_of_memory", f"Slurm's cgroup killed rank {rank} for want of memory", [rank]), {rank: (at, -9)}


@kind("out_of_memory", lambda job: job.in_k8s)
def killed_in_pod(job, at):
    node = job.rng.randrange(job.nodes)
    job.scheduler(at, f"{job.stamp(at, 'iso')}Warning  OOMKilling      node/{job.place.hosts[node]}  Memory cgroup out of memory: Killed process "
                  f"{job.pids[job.ranks_of(node)[0]]} (python3)", mark=0, also=True)
    job.scheduler(at + 1, f"{job.stamp(at + 1, 'iso')}Warning  Failed  pod/{job.pod(node)}  Container pytorch terminated: reason: OOMKilled, "
                  "exit code: 137", mark=0)
    return (Truth("out_of_memory", f"the pod on {job.place.hosts[node]} exceeded its memory limit", job.ranks_of(node)),
            {rank: (at, -9) for rank in job.ranks_of(node)})


@kind("out_of_memory", lambda job: job.launched == "ray")
def killed_by_ray(job, at):
    rank = job.rng.randrange(job.size)
    t = job.when(at)
    job.launcher(at, f"(raylet, ip={job.address(rank)}) [{t:%Y-%m-%d %H:%M:%S},{t.microsecond // 1000:03d} E 612 612] (raylet) node_manager.cc:3069: "
                 f"1 Workers (tasks / actors) killed due to memory pressure (OOM), 0 Workers crashed due to other reasons at node (ID: "
                 f"{job.rng.randrange(16**10):010x}, IP: {job.address(rank)}) over the last time period.", mark=0, also=True)
    job.launcher(at + 1, "ray.exceptions.OutOfMemoryError: Task was killed due to the node running low on memory.\nMemory on the node (IP: "
                 f"{job.address(rank)}) where the task (actor ID: {job.rng.randrange(16**8):08x}, name=RayTrainWorker.__init__, "
                 f"pid={job.pids[rank]}, memory used=91.20GB) was running was 478.10GB / 503.50GB (0.949553), which exceeds the memory usage "
                 "threshold of 0.95.", mark=0)
    return Truth("out_of_memory", f"Ray killed rank {rank} for want of memory", [rank]), {rank: (at, -9)}


@kind("out_of_memory", lambda job: torch(job) and nodes(job), early=True)
def locked_memory(job, at):
    node = job.rng.randrange(job.nodes)
    for rank in job.ranks_of(node):
        first = rank == job.ranks_of(node)[0]
        job.error(at, rank, f"\n{peers.nccl(job, rank)} misc/ibvwrap.cc:262 NCCL WARN Call to ibv_reg_mr failed with error Cannot allocate memory\n"
                  f"{peers.nccl(job, rank)} NCCL INFO transport/net_ib.cc:1402 -> 2\n{peers.nccl(job, rank)} NCCL INFO transport/net.cc:776 -> 2",
                  mark=1, also=not first)
        raise_it(job, at + 0.3, rank, "forward", SYSTEM_ERROR.format("Call to ibv_reg_mr failed with error Cannot allocate memory"), True)
    return (Truth("out_of_memory", f"the limit of locked memory on {job.place.hosts[node]} is too low for RDMA", job.ranks_of(node),
                  ["environment", "network", "nccl"]), {rank: (at + 1, 1) for rank in job.ranks_of(node)})


SYSTEM_ERROR = ("torch.distributed.DistBackendError: NCCL error in: ../torch/csrc/distributed/c10d/ProcessGroupNCCL.cpp:1970, unhandled system "
                "error (run with NCCL_DEBUG=INFO for details), NCCL version 2.21.5\nncclSystemError: System call (e.g. socket, malloc) or external "
                "library call failed or device error. \nLast error:\n{}")


@kind("filesystem", lambda job: torch(job) and several(job), early=True)
def small_dev_shm(job, at):
    rank = job.rng.randrange(job.size)
    name, size = f"/dev/shm/nccl-{job.rng.randrange(36**5):x}", job.rng.randrange(4, 33) * 1_000_448
    job.error(at, rank, f"{peers.nccl(job, rank)} misc/shmutils.cc:87 NCCL WARN Error: failed to extend {name} to {size} bytes, error: No space left "
              f"on device (28)\n\n{peers.nccl(job, rank)} misc/shmutils.cc:129 NCCL WARN Error while creating shared memory segment {name} "
              f"(size {size}), error: No space left on device (28)", mark=0)
    raise_it(job, at + 0.2, rank, "forward", SYSTEM_ERROR.format(f"Error while creating shared memory segment {name} (size {size}), error: No "
                                                                 "space left on device (28)"), True)
    return (Truth("filesystem", f"/dev/shm on {job.host(rank)} is too small for NCCL", [rank], ["out_of_memory", "environment", "nccl"]),
            {rank: (at + 1, 1)})


# Hardware

ECC = ("RuntimeError: CUDA error: uncorrectable ECC error encountered\nCUDA kernel errors might be asynchronously reported at some other API call, "
       "so the stacktrace below might be incorrect.", "torch.AcceleratorError: CUDA error: uncorrectable ECC error encountered")


@kind("hardware", lambda job: job.program.uses_torch, 2)
def bad_memory_of_gpu(job, at):
    rank = job.rng.randrange(job.size)
    if job.has_kernel:
        first, text = job.rng.choice(((48, "DBE (double bit error) 0x1, 0xc0ffee"), (94, "Contained: SM (0x1). RST: No, D-RST: No"),
                                      (95, "Uncontained: LTC TAG (0x2,0x0). RST: Yes, D-RST: No")))
        xid(job, at - 0.5, rank, first, text, mark=0)
        xid(job, at - 0.4, rank, job.rng.choice((63, 64)), "Row Remapper: New row marked for remapping, reset gpu to activate.", mark=0, also=True)
    raise_it(job, at, rank, "forward", job.rng.choice(ECC), job.has_kernel)
    return Truth("hardware", f"memory of the GPU of rank {rank} on {job.host(rank)} is bad", [rank], ["cuda"]), {rank: (at + 1, 1)}


@kind("hardware", lambda job: job.has_kernel and job.program.uses_torch, 2)
def lost_gpu(job, at):
    rank = job.rng.randrange(job.size)
    xid(job, at - 1.0, rank, 79, "GPU has fallen off the bus.", mark=0)
    kern(job, at - 0.9, job.node_of(rank), f"NVRM: GPU 0000:{job.bus(rank)}:00.0: GPU has fallen off the bus.\nNVRM: GPU Board Serial Number: "
         f"{job.rng.randrange(10**12, 10**13)}", mark=0, also=True)
    raise_it(job, at, rank, "forward", job.rng.choice(("RuntimeError: CUDA error: unknown error", "RuntimeError: CUDA error: unspecified launch failure")),
             True)
    return Truth("hardware", f"the GPU of rank {rank} on {job.host(rank)} fell off the bus", [rank], ["cuda"]), {rank: (at + 1, 1)}


@kind("hardware", lambda job: job.has_kernel and torch(job) and several(job))
def silent_gsp(job, at):
    """The firmware of a GPU stops to answer: its rank hangs, the others run into their time limit."""
    rank = job.rng.randrange(job.size)
    for number in range(3):
        xid(job, at + number * 6, rank, 119, f"Timeout after 6s of waiting for RPC response from GPU{job.local(rank)} GSP! Expected function 76 "
            "(GSP_RM_CONTROL) (0x20802a02 0x8).", mark=0, also=number > 0)
    job.end(rank, at)
    stuck_until_limit(job, at, rank, False)
    return Truth("hardware", f"the GSP of the GPU of rank {rank} on {job.host(rank)} no longer answers", [rank], ["cuda"]), None


@kind("hardware", lambda job: job.has_kernel and job.program.uses_torch and several(job))
def broken_nvlink(job, at):
    rank = job.rng.randrange(job.size)
    if job.rng.random() < 0.5:
        xid(job, at - 0.3, rank, 149, "NETIR_LINK_EVT Fatal XC0 i0 Link 00 (0x025001c6 0x00000000 0x00000000 0x00000000 0x00000000 0x00000000)", mark=0)
    else:
        xid(job, at - 0.3, rank, 74, "NVLink: fatal error detected on link 4(0x10000, 0x0, 0x0, 0x0, 0x0, 0x0, 0x0)", mark=0)
    for number, peer in enumerate([r for r in job.ranks_of(job.node_of(rank)) if r != rank][:3]):
        xid(job, at - 0.2, peer, 45, f"Ch 0000000{number}, caused by previous Xid")
    raise_it(job, at, rank, "forward", "torch.AcceleratorError: CUDA error: uncorrectable NVLink error detected during the execution", True)
    return Truth("hardware", f"an NVLink of the GPU of rank {rank} on {job.host(rank)} failed", [rank], ["cuda"]), {rank: (at + 1, 1)}


@kind("hardware", lambda job: job.has_kernel and nodes(job) and job.launched in ("torchrun", "srun", "none"))
def machine_check(job, at):
    node = job.rng.randrange(job.nodes)
    kern(job, at - 0.1, node, "mce: [Hardware Error]: CPU 52: Machine Check Exception: 5 Bank 7: be00000000800400\nmce: [Hardware Error]: RIP !INEXACT! "
         "10:<ffffffff9b2f3c60> {intel_idle+0x60/0xb0}\nmce: [Hardware Error]: TSC 2d8a4c MISC 8c ADDR 3fc8d4f40\nKernel panic - not syncing: Fatal "
         "machine check", mark=0)
    if job.launched == "srun":
        job.launcher(at + 60, f"srun: error: Node failure on {job.place.hosts[node]}")
    return (Truth("hardware", f"a machine check stopped {job.place.hosts[node]}", job.ranks_of(node), ["terminated"]),
            {rank: (at, -9) for rank in job.ranks_of(node)} if job.launched == "none" else lost_node(job, at, node))


def lost_node(job, at, node):
    """A node is gone, and its agent with it: only others write."""
    for rank in job.ranks_of(node):
        job.end(rank, at)
    others = [rank for rank in range(job.size) if job.node_of(rank) != node]
    dead = job.ranks_of(node)[0]
    ended = {rank: peers.notice(job, at, rank, dead, peers.flavour(job, dead)) for rank in others[:1]}
    style = job.rng.choice(("remote", "watchdog")) if torch(job) else peers.flavour(job, dead)
    for rank in others[1:]:
        ended[rank] = peers.notice(job, at, rank, dead, style)
    for rank, (when, _) in ended.items():
        job.end(rank, when)
    if job.launched == "torchrun":
        for other in {job.node_of(rank) for rank in others}:
            aftermath.agent_ends(job, other, {rank: ended[rank] for rank in job.ranks_of(other)}, [])
    elif job.launched == "srun":
        aftermath.exited(job, max(when for when, _ in ended.values()) + 1, others, 1)
    return None


# Links

@kind("network", lambda job: torch(job) and nodes(job), 2)
def port_down(job, at):
    rank = job.rng.randrange(job.size)
    hca = f"mlx5_{job.local(rank)}"
    if job.has_kernel:
        kern(job, at - 2, job.node_of(rank), f"mlx5_core 0000:{job.bus(rank)}:00.0 ibp{job.local(rank)}s0: Link down", mark=0)
    job.error(at, rank, f"\n{peers.nccl(job, rank)} transport/net_ib.cc:101 NCCL WARN NET/IB : {hca}:1 Got async event : port error", mark=1, also=job.has_kernel)
    far = job.rng.choice([r for r in range(job.size) if job.node_of(r) != job.node_of(rank)])
    ended = {}
    for end, other in ((rank, far), (far, rank)):
        job.error(at + 8, end, f"\n{peers.nccl(job, end)} transport/net_ib.cc:1686 NCCL WARN NET/IB : Got completion from peer {job.address(other)}<"
                  f"{job.rng.randrange(32768, 60999)}> with status=12 opcode=0 len=0 vendor err 129 (Send) localGid ::ffff:{job.address(end)}")
        peers.remote(job, at + 8.2, end, other)
        ended[end] = (at + 9.5, -6)
    return Truth("network", f"the port {hca} on {job.host(rank)} went down", [rank], ["hardware", "nccl"]), ended


@kind("network", lambda job: torch(job) and nodes(job))
def retries_exceeded(job, at):
    one = job.rng.randrange(job.size)
    two = job.rng.choice([r for r in range(job.size) if job.node_of(r) != job.node_of(one)])
    for end, other in ((one, two), (two, one)):
        job.error(at, end, f"\n{peers.nccl(job, end)} transport/net_ib.cc:1295 NCCL WARN NET/IB : Got completion from peer {job.address(other)}<"
                  f"{job.rng.randrange(32768, 60999)}> with status=12 opcode=0 len=0 vendor err 129 (Recv)", mark=1, also=end != one)
        peers.remote(job, at + 0.3, end, other)
    return (Truth("network", f"transport retries between {job.host(one)} and {job.host(two)} were used up", (), ["nccl"]),
            {one: (at + 2, -6), two: (at + 2, -6)})


@kind("network", lambda job: torch(job) and nodes(job), early=True)
def no_route(job, at):
    rank = job.rng.randrange(job.per_node, job.size)
    start = peers.nccl(job, rank)
    what = job.rng.choice((f"Net : Connect to {job.place.ips[0]}<54263> failed : No route to host", f"socketStartConnect: Connect to {job.place.ips[0]}"
                           "<41211> failed : Software caused connection abort", f"socketPollConnect: Connect to {job.place.ips[0]}<41211> returned 110(Connection timed out)"))
    job.error(at, rank, f"{start} NCCL INFO Call to connect returned No route to host, retrying\n\n{start} misc/socket.cc:441 NCCL WARN {what}\n"
              f"{start} NCCL INFO bootstrap.cc:360 -> 2\n{start} NCCL INFO init.cc:777 -> 2", mark=2)
    raise_it(job, at + 0.2, rank, "init", SYSTEM_ERROR.format(what), True)
    return Truth("network", f"{job.host(rank)} cannot reach {job.place.hosts[0]}", [rank], ["nccl", "rendezvous"]), {rank: (at + 1, 1)}


# Collectives

def stuck_until_limit(job, at, rank, marked):
    """All but `rank` wait for it until their time limit."""
    ended = {}
    for number, other in enumerate([r for r in range(job.size) if r != rank]):
        moment = at + job.timeout_s + job.rng.uniform(0, 0.8)
        peers.watchdog(job, moment, other, mark=0 if marked else None, also=number > 0)
        ended[other] = (moment + 1.5, -6)
    if job.launched == "torchrun":
        for other, (when, _) in ended.items():
            job.end(other, when)
        job.end(rank, at + job.timeout_s + 4)
        for node in range(job.nodes):
            own = {r: ended[r] for r in job.ranks_of(node) if r in ended}
            if own:
                aftermath.agent_ends(job, node, own, [r for r in job.ranks_of(node) if r not in own])
    else:
        ended[rank] = (at + job.timeout_s + 5, -15)
        aftermath.follow(job, ended)


@kind("timeout", lambda job: torch(job) and 2 < job.size, 3)
def stuck_rank(job, at):
    rank = job.rng.randrange(job.size)
    place = job.rng.choice(("waiting for the lock file of the kernel cache", "downloading tokenizer files", "reading shard 00412 from object storage",
                            "compiling fused kernels", None))
    if place:
        job.rank(at, rank, f"{job.stamp(at)}rank {rank}: {place} ...")
    job.end(rank, at + 0.5)
    stuck_until_limit(job, at, rank, True)
    return Truth("timeout", f"rank {rank} is stuck, the others waited until the watchdog's limit", [rank], ["nccl"]), None


@kind("nccl", lambda job: torch(job) and 2 < job.size, 3)
def mismatch(job, at):
    """One rank calls another collective, or the same with another size."""
    rank, name = job.rng.randrange(job.size), job.rng.choice(("ALLREDUCE", "_ALLGATHER_BASE", "BROADCAST"))
    count = job.rng.randrange(1, 99) * 1024
    odd = (name, count + job.rng.choice((-8, 128, 4096)), None) if job.rng.random() < 0.5 else ("BROADCAST" if name != "BROADCAST" else "ALLREDUCE", count, None)
    moment, ended = at + job.timeout_s, {}
    for other in sorted(range(job.size), key=lambda r: r == rank):
        peers.watchdog(job, moment + job.rng.uniform(0, 0.8), other, op=f"OpType={(odd if other == rank else (name,))[0]}, NumelIn="
                       f"{odd[1] if other == rank else count}, NumelOut={odd[1] if other == rank else count}", mark=0, also=other != rank)
        ended[other] = (moment + 2.5, -6)
    return Truth("nccl", f"rank {rank} called another collective than the others", [rank], ["timeout", "python"]), ended


@kind("nccl", lambda job: torch(job) and several(job))
def mismatch_fingerprint(job, at):
    rank = job.rng.randrange(1, job.size)
    seq = job.seq
    text = ("RuntimeError: Detected mismatch between collectives on ranks. Rank {} is running collective: CollectiveFingerPrint(SequenceNumber=" + str(seq)
            + ", OpType=ALLREDUCE, TensorShape=[{}], TensorDtypes=BFloat16, TensorDeviceTypes=TensorOptions(dtype=float (default), device=cuda, "
            "layout=Strided (default), requires_grad=false (default), pinned_memory=false (default), memory_format=(nullopt))), but Rank {} is running "
            "collective: CollectiveFingerPrint(SequenceNumber=" + str(seq) + ", OpType=ALLREDUCE, TensorShape=[{}]).Collectives differ in the following "
            "aspects: \t Tensor Tensor shapes: {}vs {}")
    for other in range(job.size):
        mine, theirs = (51123456, 195812480) if other != rank else (195812480, 51123456)
        raise_it(job, at + other * 0.001, other, "backward", text.format(other, mine, rank if other != rank else 0, theirs, mine, theirs), other != rank)
    return Truth("nccl", f"rank {rank} called an all-reduce of another size than the others", [rank] if job.size > 2 else (), ["python"]), all_out(job, at + 1.5, 1)


@kind("nccl", lambda job: torch(job) and several(job) and job.per_node > 1, early=True)
def same_gpu_twice(job, at):
    one = job.rng.choice(list(job.ranks_of(0))[1:])
    note = f"Duplicate GPU detected : rank {one} and rank 0 both on CUDA device {job.bus(0)}000"
    for number, rank in enumerate(range(job.size)):
        job.error(at + number * 0.001, rank, f"{peers.nccl(job, rank)} init.cc:943 NCCL WARN {note}", mark=0, also=number > 0)
        raise_it(job, at + 0.2, rank, "forward", "torch.distributed.DistBackendError: NCCL error in: ../torch/csrc/distributed/c10d/ProcessGroupNCCL.cpp:"
                 "1970, invalid usage (run with NCCL_DEBUG=WARN for details), NCCL version 2.21.5\nncclInvalidUsage: This usually reflects invalid usage "
                 f"of NCCL library.\nLast error:\n{note}", True)
    return Truth("nccl", f"ranks 0 and {one} use the same GPU", (), ["environment", "python", "cuda"]), all_out(job, at + 1, 1)


@kind("environment", lambda job: torch(job) and nodes(job), early=True)
def other_nccl(job, at):
    node = job.rng.randrange(1, job.nodes)
    first = job.ranks_of(node)[0]
    note = f"Mismatched NCCL version detected : rank {first} version 22203 rank 0 version 21805"
    for number, rank in enumerate(range(job.size)):
        job.error(at + number * 0.001, rank, f"{peers.nccl(job, rank)} init.cc:862 NCCL WARN {note}", mark=0, also=number > 0)
        raise_it(job, at + 0.2, rank, "init", "torch.distributed.DistBackendError: NCCL error in: ../torch/csrc/distributed/c10d/ProcessGroupNCCL.cpp:1970, "
                 "internal error - please report this issue to the NCCL developers, NCCL version 2.18.5\nncclInternalError: Internal check failed.\n"
                 f"Last error:\n{note}", True)
    return Truth("environment", f"{job.place.hosts[node]} has another NCCL than the others", job.ranks_of(node), ["nccl"]), all_out(job, at + 1, 1)


@kind("timeout", lambda job: job.program.name == "horovod" and several(job), 2)
def horovod_stall(job, at):
    rank = job.rng.randrange(1, job.size)
    for number in range(3):
        t = job.when(at + 60 * (number + 1))
        job.error(at + 60 * (number + 1), 0, f"[{t:%Y-%m-%d %H:%M:%S.%f}: W /tmp/pip-req-build-12flcl_u/horovod/common/stall_inspector.cc:107] One or more "
                  "tensors were submitted to be reduced, gathered or broadcasted by subset of ranks and are waiting for remainder of ranks for more "
                  "than 60 seconds. This may indicate that different ranks are trying to submit different tensors or that only subset of ranks is "
                  f"submitting tensors, which will cause deadlock. \nMissing ranks:\n{rank}: [allreduce.layer4.1.conv2.weight, allreduce.fc.bias]",
                  mark=0, also=number > 0)
    job.end(rank, at)
    return Truth("timeout", f"rank {rank} no longer submits tensors to Horovod", [rank], ["mpi", "nccl"]), {
        other: (at + 190, 1) for other in range(job.size) if other != rank}


# Segmentation fault

@kind("python", lambda job: job.program.uses_torch)
def segmentation_fault(job, at):
    rank = job.rng.randrange(job.size)
    job.error(at, rank, "Fatal Python error: Segmentation fault\n\nCurrent thread 0x00007f3c5a7fc640 (most recent call first):\n"
              f'  File "{job.place.work}/training/layers.py", line 88 in forward\n  File "{job.place.work}/training/loop.py", line 141 in train\n'
              f'  File "{job.place.work}/train.py", line 310 in main\n\nExtension modules: numpy.core._multiarray_umath, torch._C (total: 112)', mark=0)
    if job.has_kernel:
        kern(job, at + 0.01, job.node_of(rank), f"python3[{job.pids[rank]}]: segfault at 10 ip 00007f3c1c2f8a1e sp 00007ffd2ad1c0f0 error 4 in "
             "libtorch_cuda.so[7f3bd0000000+5c000000]", mark=0, also=True)
    return Truth("python", f"rank {rank} died of a segmentation fault", [rank], ["cuda", "environment"]), {rank: (at + 0.5, -11)}
