"""Failures of memory and of hardware."""

from composer import peers
from composer.job import Truth
from composer.kernel_log import kern, oom_kill, xid
from composer.kinds import SYSTEM_ERROR, kind, lost_node, nodes, several, stuck_until_limit, torch
from composer.raise_it import raise_it

# Memory


@kind("out_of_memory", lambda job: job.has_kernel, 2)
def killed_by_kernel(job, at):
    rank = job.rng.randrange(job.size)
    oom_kill(job, at, job.node_of(rank), job.pids[rank], mark=0)
    return Truth("out_of_memory", f"the kernel of {job.host(rank)} killed rank {rank} for want of memory", [rank]), {
        rank: (at + 0.1, -9)
    }


@kind("out_of_memory", lambda job: job.launched == "srun")
def killed_in_step(job, at):
    rank = job.rng.randrange(job.size)
    text = job.rng.choice(
        (
            (
                f"slurmstepd: error: Detected 1 oom_kill event in StepId={job.number}.0. Some of the step tasks have"
                " been OOM Killed."
            ),
            (
                f"slurmstepd: error: Detected 1 oom-kill event(s) in StepId={job.number}.0. Some of your processes may"
                " have been killed by the cgroup out-of-memory handler."
            ),
        )
    )
    job.launcher(at, text, mark=0)
    job.launcher(at + 0.4, f"srun: error: {job.host(rank)}: task {rank}: Out Of Memory", mark=0, also=True)
    return Truth("out_of_memory", f"Slurm's cgroup killed rank {rank} for want of memory", [rank]), {rank: (at, -9)}


@kind("out_of_memory", lambda job: job.in_k8s)
def killed_in_pod(job, at):
    node = job.rng.randrange(job.nodes)
    job.scheduler(
        at,
        f"{job.stamp(at, 'iso')}Warning  OOMKilling      node/{job.place.hosts[node]}  Memory cgroup out of memory:"
        f" Killed process {job.pids[job.ranks_of(node)[0]]} (python3)",
        mark=0,
        also=True,
    )
    job.scheduler(
        at + 1,
        f"{job.stamp(at + 1, 'iso')}Warning  Failed  pod/{job.pod(node)}  Container pytorch terminated: reason:"
        " OOMKilled, exit code: 137",
        mark=0,
    )
    return (
        Truth("out_of_memory", f"the pod on {job.place.hosts[node]} exceeded its memory limit", job.ranks_of(node)),
        {rank: (at, -9) for rank in job.ranks_of(node)},
    )


@kind("out_of_memory", lambda job: job.launched == "ray")
def killed_by_ray(job, at):
    rank = job.rng.randrange(job.size)
    t = job.when(at)
    job.launcher(
        at,
        f"(raylet, ip={job.address(rank)}) [{t:%Y-%m-%d %H:%M:%S},{t.microsecond // 1000:03d} E 612 612] (raylet)"
        " node_manager.cc:3069: 1 Workers (tasks / actors) killed due to memory pressure (OOM), 0 Workers crashed due"
        f" to other reasons at node (ID: {job.rng.randrange(16**10):010x}, IP: {job.address(rank)}) over the last time"
        " period.",
        mark=0,
        also=True,
    )
    job.launcher(
        at + 1,
        "ray.exceptions.OutOfMemoryError: Task was killed due to the node running low on memory.\nMemory on the node"
        f" (IP: {job.address(rank)}) where the task (actor ID: {job.rng.randrange(16**8):08x},"
        f" name=RayTrainWorker.__init__, pid={job.pids[rank]}, memory used=91.20GB) was running was 478.10GB / 503.50GB"
        " (0.949553), which exceeds the memory usage threshold of 0.95.",
        mark=0,
    )
    return Truth("out_of_memory", f"Ray killed rank {rank} for want of memory", [rank]), {rank: (at, -9)}


@kind("out_of_memory", lambda job: torch(job) and nodes(job), early=True)
def locked_memory(job, at):
    node = job.rng.randrange(job.nodes)
    for rank in job.ranks_of(node):
        first = rank == job.ranks_of(node)[0]
        job.error(
            at,
            rank,
            f"\n{peers.nccl(job, rank)} misc/ibvwrap.cc:262 NCCL WARN Call to ibv_reg_mr failed with error Cannot"
            f" allocate memory\n{peers.nccl(job, rank)} NCCL INFO transport/net_ib.cc:1402 ->"
            f" 2\n{peers.nccl(job, rank)} NCCL INFO transport/net.cc:776 -> 2",
            mark=1,
            also=not first,
        )
        raise_it(
            job,
            at + 0.3,
            rank,
            "forward",
            SYSTEM_ERROR.format("Call to ibv_reg_mr failed with error Cannot allocate memory"),
            True,
        )
    return (
        Truth(
            "out_of_memory",
            f"the limit of locked memory on {job.place.hosts[node]} is too low for RDMA",
            job.ranks_of(node),
            ["environment", "network", "nccl"],
        ),
        {rank: (at + 1, 1) for rank in job.ranks_of(node)},
    )


@kind("filesystem", lambda job: torch(job) and several(job), early=True)
def small_dev_shm(job, at):
    rank = job.rng.randrange(job.size)
    name, size = f"/dev/shm/nccl-{job.rng.randrange(36**5):x}", job.rng.randrange(4, 33) * 1_000_448
    job.error(
        at,
        rank,
        f"{peers.nccl(job, rank)} misc/shmutils.cc:87 NCCL WARN Error: failed to extend {name} to {size} bytes, error:"
        f" No space left on device (28)\n\n{peers.nccl(job, rank)} misc/shmutils.cc:129 NCCL WARN Error while creating"
        f" shared memory segment {name} (size {size}), error: No space left on device (28)",
        mark=0,
    )
    raise_it(
        job,
        at + 0.2,
        rank,
        "forward",
        SYSTEM_ERROR.format(
            f"Error while creating shared memory segment {name} (size {size}), error: No space left on device (28)"
        ),
        True,
    )
    return (
        Truth(
            "filesystem",
            f"/dev/shm on {job.host(rank)} is too small for NCCL",
            [rank],
            ["out_of_memory", "environment", "nccl"],
        ),
        {rank: (at + 1, 1)},
    )


# Hardware

ECC = (
    (
        "RuntimeError: CUDA error: uncorrectable ECC error encountered\nCUDA kernel errors might be asynchronously"
        " reported at some other API call, so the stacktrace below might be incorrect."
    ),
    "torch.AcceleratorError: CUDA error: uncorrectable ECC error encountered",
)


@kind("hardware", lambda job: job.program.uses_torch, 2)
def bad_memory_of_gpu(job, at):
    rank = job.rng.randrange(job.size)
    if job.has_kernel:
        first, text = job.rng.choice(
            (
                (48, "DBE (double bit error) 0x1, 0xc0ffee"),
                (94, "Contained: SM (0x1). RST: No, D-RST: No"),
                (95, "Uncontained: LTC TAG (0x2,0x0). RST: Yes, D-RST: No"),
            )
        )
        xid(job, at - 0.5, rank, first, text, mark=0)
        xid(
            job,
            at - 0.4,
            rank,
            job.rng.choice((63, 64)),
            "Row Remapper: New row marked for remapping, reset gpu to activate.",
            mark=0,
            also=True,
        )
    raise_it(job, at, rank, "forward", job.rng.choice(ECC), job.has_kernel)
    return Truth("hardware", f"memory of the GPU of rank {rank} on {job.host(rank)} is bad", [rank], ["cuda"]), {
        rank: (at + 1, 1)
    }


@kind("hardware", lambda job: job.has_kernel and job.program.uses_torch, 2)
def lost_gpu(job, at):
    rank = job.rng.randrange(job.size)
    xid(job, at - 1.0, rank, 79, "GPU has fallen off the bus.", mark=0)
    kern(
        job,
        at - 0.9,
        job.node_of(rank),
        f"NVRM: GPU 0000:{job.bus(rank)}:00.0: GPU has fallen off the bus.\nNVRM: GPU Board Serial Number: "
        f"{job.rng.randrange(10**12, 10**13)}",
        mark=0,
        also=True,
    )
    raise_it(
        job,
        at,
        rank,
        "forward",
        job.rng.choice(
            ("RuntimeError: CUDA error: unknown error", "RuntimeError: CUDA error: unspecified launch failure")
        ),
        True,
    )
    return Truth("hardware", f"the GPU of rank {rank} on {job.host(rank)} fell off the bus", [rank], ["cuda"]), {
        rank: (at + 1, 1)
    }


@kind("hardware", lambda job: job.has_kernel and torch(job) and several(job))
def silent_gsp(job, at):
    """The firmware of a GPU stops to answer: its rank hangs, the others run into their time limit."""
    rank = job.rng.randrange(job.size)
    for number in range(3):
        xid(
            job,
            at + number * 6,
            rank,
            119,
            f"Timeout after 6s of waiting for RPC response from GPU{job.local(rank)} GSP! Expected function 76 "
            "(GSP_RM_CONTROL) (0x20802a02 0x8).",
            mark=0,
            also=number > 0,
        )
    job.end(rank, at)
    stuck_until_limit(job, at, rank, False)
    return (
        Truth("hardware", f"the GSP of the GPU of rank {rank} on {job.host(rank)} no longer answers", [rank], ["cuda"]),
        None,
    )


@kind("hardware", lambda job: job.has_kernel and job.program.uses_torch and several(job))
def broken_nvlink(job, at):
    rank = job.rng.randrange(job.size)
    if job.rng.random() < 0.5:
        xid(
            job,
            at - 0.3,
            rank,
            149,
            "NETIR_LINK_EVT Fatal XC0 i0 Link 00 (0x025001c6 0x00000000 0x00000000 0x00000000 0x00000000 0x00000000)",
            mark=0,
        )
    else:
        xid(
            job,
            at - 0.3,
            rank,
            74,
            "NVLink: fatal error detected on link 4(0x10000, 0x0, 0x0, 0x0, 0x0, 0x0, 0x0)",
            mark=0,
        )
    for number, peer in enumerate([r for r in job.ranks_of(job.node_of(rank)) if r != rank][:3]):
        xid(job, at - 0.2, peer, 45, f"Ch 0000000{number}, caused by previous Xid")
    raise_it(
        job,
        at,
        rank,
        "forward",
        "torch.AcceleratorError: CUDA error: uncorrectable NVLink error detected during the execution",
        True,
    )
    return Truth("hardware", f"an NVLink of the GPU of rank {rank} on {job.host(rank)} failed", [rank], ["cuda"]), {
        rank: (at + 1, 1)
    }


@kind("hardware", lambda job: job.has_kernel and nodes(job) and job.launched in ("torchrun", "srun", "none"))
def machine_check(job, at):
    node = job.rng.randrange(job.nodes)
    kern(
        job,
        at - 0.1,
        node,
        "mce: [Hardware Error]: CPU 52: Machine Check Exception: 5 Bank 7: be00000000800400\nmce: [Hardware Error]: RIP"
        " !INEXACT! 10:<ffffffff9b2f3c60> {intel_idle+0x60/0xb0}\nmce: [Hardware Error]: TSC 2d8a4c MISC 8c ADDR"
        " 3fc8d4f40\nKernel panic - not syncing: Fatal machine check",
        mark=0,
    )
    if job.launched == "srun":
        job.launcher(at + 60, f"srun: error: Node failure on {job.place.hosts[node]}")
    return (
        Truth("hardware", f"a machine check stopped {job.place.hosts[node]}", job.ranks_of(node), ["terminated"]),
        {rank: (at, -9) for rank in job.ranks_of(node)} if job.launched == "none" else lost_node(job, at, node),
    )


# Segmentation fault


@kind("python", lambda job: job.program.uses_torch)
def segmentation_fault(job, at):
    rank = job.rng.randrange(job.size)
    job.error(
        at,
        rank,
        "Fatal Python error: Segmentation fault\n\nCurrent thread 0x00007f3c5a7fc640 (most recent call first):\n"
        f'  File "{job.place.work}/training/layers.py", line 88 in forward\n  File "{job.place.work}/training/loop.py",'
        " line 141 in train\n"
        f'  File "{job.place.work}/train.py", line 310 in main\n\nExtension modules: numpy.core._multiarray_umath,'
        " torch._C (total: 112)",
        mark=0,
    )
    if job.has_kernel:
        kern(
            job,
            at + 0.01,
            job.node_of(rank),
            f"python3[{job.pids[rank]}]: segfault at 10 ip 00007f3c1c2f8a1e sp 00007ffd2ad1c0f0 error 4 in "
            "libtorch_cuda.so[7f3bd0000000+5c000000]",
            mark=0,
            also=True,
        )
    return Truth("python", f"rank {rank} died of a segmentation fault", [rank], ["cuda", "environment"]), {
        rank: (at + 0.5, -11)
    }
