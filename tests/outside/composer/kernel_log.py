"""Lines of kernels: faults of GPUs, memory and links, in the formats of dmesg and of the journal."""

from composer.job import MONTHS

STYLES = ("dmesg -T", "dmesg", "journal", "iso")


def kern(job, at, node, text, **marks):
    t, host = job.when(at), job.place.hosts[node]
    start = {
        "dmesg -T": f"[{t:%a} {MONTHS[t.month - 1]} {t.day:2d} {t:%H:%M:%S %Y}]",
        "dmesg": f"[{at + 400_000 + node * 777:12.6f}]",
        "journal": f"{MONTHS[t.month - 1]} {t.day:2d} {t:%H:%M:%S} {host} kernel:",
        "iso": f"{t:%Y-%m-%dT%H:%M:%S.%f}+00:00 {host} kernel:",
    }[job.kernel_style]
    rows = text.split("\n")
    job.kernel(at, node, [f"{start} {row}" for row in rows], **marks)


def xid(job, at, rank, number, rest, **marks):
    with_pid = "" if number in (63, 64, 74, 79, 95) else f"pid={job.pids[rank]}, name=python3, "
    kern(job, at, job.node_of(rank), f"NVRM: Xid (PCI:0000:{job.bus(rank)}:00): {number}, {with_pid}{rest}", **marks)


def oom_kill(job, at, node, pid, name="python3", **marks):
    rng = job.rng
    memory = rng.randrange(60, 900) * 1_000_000
    constraint = rng.choice(
        (
            (
                "CONSTRAINT_MEMCG,nodemask=(null),cpuset=step_0,mems_allowed=0-1,"
                f"oom_memcg=/slurm/uid_1001/job_{job.number},"
                f"task_memcg=/slurm/uid_1001/job_{job.number}/step_0/task_0"
            ),
            "CONSTRAINT_NONE,nodemask=(null),cpuset=/,mems_allowed=0-1,global_oom,task_memcg=/user.slice",
        )
    )
    kern(
        job,
        at - 0.02,
        node,
        f"{name} invoked oom-killer: gfp_mask=0x1100cca(GFP_HIGHUSER_MOVABLE), order=0, oom_score_adj=0\nCPU:"
        f" {rng.randrange(96)} PID: {pid} Comm: {name} Tainted: P           OE     5.15.0-105-generic #115-Ubuntu\nCall"
        " Trace:\n <TASK>\n dump_stack_lvl+0x4a/0x63\n oom_kill_process.cold+0xb/0x10\n out_of_memory+0x1b6/0x2e0\n"
        f" </TASK>\noom-kill:constraint={constraint},task={name},pid={pid},uid=1001",
        also=True,
        mark=-1 if marks else None,
    )
    kern(
        job,
        at,
        node,
        f"{'Memory cgroup out of memory' if 'MEMCG' in constraint else 'Out of memory'}: Killed process {pid} ({name})"
        f" total-vm:{memory * 2}kB, anon-rss:{memory}kB, file-rss:{rng.randrange(900)}kB,"
        f" shmem-rss:{rng.randrange(90_000)}kB, UID:1001 pgtables:{memory // 500}kB oom_score_adj:0",
        **marks,
    )


def boot(job):
    """Old lines of a kernel log, which nobody would look at."""
    rng = job.rng
    for node in range(job.nodes):
        for before, text in (
            (90_000, "NVRM: loading NVIDIA UNIX x86_64 Kernel Module  550.54.15  Tue Mar  5 22:23:56 UTC 2024"),
            (89_990, "mlx5_core 0000:41:00.0: firmware version: 28.39.1002"),
            (89_985, "mlx5_core 0000:41:00.0: 252.048 Gb/s available PCIe bandwidth (16.0 GT/s PCIe x16 link)"),
            (88_000, "ACPI Error: AE_NOT_EXIST, Returned by Handler for [IPMI] (20210730/evregion-300)"),
            (80_000, "EXT4-fs (nvme0n1p2): mounted filesystem with ordered data mode. Errors: remount-ro"),
            (7_000, "perf: interrupt took too long (2503 > 2500), lowering kernel.perf_event_max_sample_rate to 79750"),
        ):
            kern(job, -before + rng.uniform(0, 60), node, text)
