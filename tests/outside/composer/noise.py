"""Lines that mean nothing, from the table below, from kernels, and from folders of logs of healthy jobs."""

import gzip
import pathlib
import re

from composer.kernel_log import kern, oom_kill
from composer.peers import nccl

# (when, who, text): `when` is start, run or end; `who` is one (a rank), some (several ranks) or all.
TEXTS = [
    (
        "start",
        "some",
        (
            "libibverbs: Warning: couldn't load driver 'libvmw_pvrdma-rdmav34.so': libvmw_pvrdma-rdmav34.so: cannot"
            " open shared object file: No such file or directory"
        ),
    ),
    (
        "start",
        "some",
        (
            "{nccl} NCCL INFO NET/Plugin: Could not find: libnccl-net.so. Using internal network plugin.\n{nccl} NCCL"
            " INFO NET/IB : No device found.\n{nccl} NCCL INFO Failed to open libibverbs.so[.1]"
        ),
    ),
    (
        "start",
        "some",
        (
            "{nccl} NCCL INFO NCCL_IB_TIMEOUT set by environment to 22.\n{nccl} NCCL INFO Setting affinity for GPU"
            " {local} to ffffff"
        ),
    ),
    (
        "start",
        "one",
        (
            "{xla}: E external/local_xla/xla/stream_executor/cuda/cuda_dnn.cc:9261] Unable to register cuDNN factory: "
            "Attempting to register factory for plugin cuDNN when one has already been registered"
        ),
    ),
    ("start", "one", "TF-TRT Warning: Could not find TensorRT"),
    ("start", "one", "WARNING: APEX is not installed, multi_tensor_applier will not be available. Falling back."),
    (
        "start",
        "one",
        (
            "Could not import optional module xformers: No module named 'xformers'. Continuing without memory efficient"
            " attention."
        ),
    ),
    (
        "start",
        "one",
        (
            "ImportError: cannot import name 'fused_rms_norm' from 'apex.normalization' -- using the slower RMSNorm"
            " instead"
        ),
    ),
    (
        "start",
        "one",
        (
            "wandb: WARNING Path /wandb/ wasn't writable, using system temp directory.\nwandb: Network error"
            " (ConnectionError), entering retry loop."
        ),
    ),
    (
        "start",
        "some",
        (
            "[W socket.cpp:663] [c10d] The client socket has failed to connect to [{head}]:29500 (errno: 111 -"
            " Connection refused)."
        ),
    ),
    (
        "start",
        "some",
        (
            "[W socket.cpp:436] [c10d] The server socket cannot be initialized on [::]:29500 (errno: 97 - Address"
            " family not supported by protocol)."
        ),
    ),
    (
        "start",
        "one",
        (
            "/opt/env/site-packages/torch/distributed/launch.py:183: FutureWarning: The module torch.distributed.launch"
            " is deprecated\nand will be removed in future. Use torchrun.\n  warnings.warn("
        ),
    ),
    (
        "start",
        "one",
        (
            'Traceback (most recent call last):\n  File "/app/tools/telemetry.py", line 18, in <module>\n    import'
            " nvtx_extras\nModuleNotFoundError: No module named 'nvtx_extras'\nTelemetry is off: optional package"
            " missing, training continues."
        ),
    ),
    ("start", "one", "INFO: fault tolerance: max_failures=3 failed_nodes=0 error_policy=restart"),
    (
        "start",
        "one",
        (
            "  error_file ....................................... None\n  abort_on_nan"
            " ..................................... True"
        ),
    ),
    ("start", "one", "[{host}:{pid}] PMIX ERROR: ERROR in file gds_ds12_lock_pthread.c at line 168"),
    (
        "start",
        "one",
        "slurmstepd: error: couldn't chdir to `/home/user/project': No such file or directory: going to /tmp instead",
    ),
    (
        "start",
        "one",
        "pyxis: importing docker image ...\nW: locale: Cannot set LC_ALL to default locale: No such file or directory",
    ),
    (
        "start",
        "some",
        (
            "{nccl} NCCL INFO comm 0x55d0c8e2080 rank {rank} nranks {size} cudaDev {local} busId {bus}000 commId"
            " 0x9f3a6d1c8e55b0a2 - Init COMPLETE"
        ),
    ),
    (
        "run",
        "one",
        (
            'Traceback (most recent call last):\n  File "/app/metrics/push.py", line 44, in push\n   '
            " requests.post(url, json=data, timeout=5)\nrequests.exceptions.ConnectionError:"
            " HTTPConnectionPool(host='metrics', port=9091): Max retries exceeded with url: /api (Caused by"
            " NewConnectionError(': Failed to establish a new connection: [Errno 111] Connection refused'))\nWARNING:"
            " pushing metrics failed, will try again in 60 s"
        ),
    ),
    (
        "run",
        "one",
        (
            "WARNING: read of shard-00213.tar failed (attempt 1/5): [Errno 104] Connection reset by peer; retrying in"
            " 2.0 s\nread of shard-00213.tar succeeded after 2 attempts"
        ),
    ),
    (
        "run",
        "one",
        "WARNING: skipping corrupt sample 88123: cannot identify image file <_io.BytesIO object at 0x7f1f2c0c3d60>",
    ),
    ("run", "one", "[deepspeed] OVERFLOW! Rank {rank} Skipping step. Attempted loss scale: 65536, reducing to 32768"),
    ("run", "some", "Gradient overflow.  Skipping step, loss scaler 0 reducing loss scale to 16384.0"),
    ("run", "one", "eval/perplexity_rare_tokens: nan (no samples in this bucket, ignored)"),
    ("run", "one", "INFO: 0 failed requests, 12 retried, error rate 0.0%"),
    ("run", "one", "INFO: health check: no errors found on 8 GPUs, 0 failed links, ECC errors: 0"),
    ("run", "one", "WARNING: straggler check: slowest step 1.31x median on rank {rank}"),
    ("run", "one", "torch.cuda.OutOfMemoryError caught while probing batch size 64, trying 32\nbatch size 32 fits"),
    (
        "run",
        "one",
        "WARNING: checkpoint upload to object storage timed out, attempt 1 of 3\nupload finished after attempt 2",
    ),
    (
        "run",
        "one",
        (
            "/opt/env/site-packages/torch/utils/checkpoint.py:31: UserWarning: None of the inputs have"
            ' requires_grad=True. Gradients will be None\n  warnings.warn("None of the inputs have requires_grad=True.'
            ' Gradients will be None")'
        ),
    ),
    ("run", "one", "[W CUDAGuardImpl.h:115] Warning: CUDA warning: driver is busy, retried (function record)"),
    (
        "run",
        "one",
        (
            "2 pytorch allocator cache flushes since last step. this happens when there is high memory pressure and is"
            " detrimental to performance."
        ),
    ),
    (
        "run",
        "one",
        "{nccl} transport/net_ib.cc:101 NCCL WARN NET/IB : mlx5_bond_0:1 Got async event : GID table change",
    ),
    (
        "run",
        "one",
        (
            "Exception ignored in: <function _ConnectionBase.__del__ at 0x7f0fcaf3d3a0>\nOSError: [Errno 9] Bad file"
            " descriptor"
        ),
    ),
    (
        "run",
        "one",
        (
            "urllib3.connectionpool WARNING: Retrying (Retry(total=4)) after connection broken by 'ReadTimeoutError':"
            " Read timed out. (read timeout=10)"
        ),
    ),
    (
        "end",
        "some",
        (
            "[rank{rank}]:[W ProcessGroupNCCL.cpp:1250] Warning: WARNING: process group has NOT been destroyed before"
            " we destruct ProcessGroupNCCL. On normal program exit, the application should call destroy_process_group"
            " to ensure that any pending NCCL operations have finished in this process."
        ),
    ),
    (
        "end",
        "one",
        (
            "/usr/lib/python3.10/multiprocessing/resource_tracker.py:224: UserWarning: resource_tracker: There appear"
            " to be 6 leaked semaphore objects to clean up at shutdown\n  warnings.warn('resource_tracker: There appear"
            " to be %d '"
        ),
    ),
    (
        "end",
        "one",
        (
            "wandb: Run summary:\nwandb:   train/errors 0\nwandb: Synced 5 W&B file(s), 0 media file(s), 0 artifact"
            " file(s)"
        ),
    ),
    ("end", "one", "Exception in thread Thread-4 (_monitor) (most likely raised during interpreter shutdown)"),
]
KERNEL = [
    "nvme nvme4: I/O 812 QID 7 timeout, aborting\nnvme nvme4: Abort status: 0x0",
    "nvme1n1: I/O Cmd(0x2) @ LBA 1953525160, 8 blocks, I/O Error (sct 0x0 / sc 0x4) DNR",
    (
        "EDAC MC0: 1 CE memory read error on CPU_SrcID#0_MC#0_Chan#1_DIMM#0 (channel:1 slot:0 page:0x8b2 offset:0x0"
        " grain:32 syndrome:0x0)"
    ),
    "mlx5_core 0000:b0:00.1 enp176s0f1np1: Link down",
    "pcieport 0000:00:1c.0: AER: Corrected error received: 0000:00:1c.0",
    "NFS: __nfs4_reclaim_open_state: Lock reclaim failed!",
    "LustreError: 11-0: fsx-OST0004-osc: operation ldlm_enqueue to node 10.3.1.9@tcp failed: rc = -107",
    "Lustre: fsx-OST0004-osc: Connection restored to 10.3.1.9@tcp",
    "usb 1-3: device descriptor read/64, error -71",
    "perf: interrupt took too long (3141 > 3128), lowering kernel.perf_event_max_sample_rate to 63500",
    "NVRM: Xid (PCI:0000:e1:00): 43, pid=4711, name=jupyter, Ch 00000010",
    "systemd-journald[811]: Failed to read oom_kill field: No such file or directory",
    "docker0: port 3(veth8a2f) entered disabled state",
]
TRAINING = re.compile("deepspeed|[Gg]radient|wandb|checkpoint|step|loss|sample|shard|batch|nan")
SCHEDULER = [
    "sched: Allocate JobId={other} NodeList={host} #CPUs=192 Partition=gpu",
    "_job_complete: JobId={other} WEXITSTATUS 1",
    "_job_complete: JobId={other} done",
    "error: Nodes cpu-[041-043] not responding",
    "backfill: Started JobId={other} in gpu on {host}",
    "_slurm_rpc_kill_job: REQUEST_KILL_JOB JobId={other} uid 20331",
    "Time limit exhausted for JobId={other}",
    "update_node: node cpu-017 reason set to: NHC: check_fs_mount: /scratch not mounted",
]
# Words that tie a line to another job: its time, its ranks, its end.
FOREIGN = re.compile(
    r"\d{4}-\d\d-\d\d|time_ms|\d\d:\d\d:\d\d|\[?rank ?\d|GLOBAL_RANK|CANCELLED|\[W\d|terminate called|frame #", re.I
)
PREFIX = re.compile(r"^\s*\d+: ")
CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f]")


def told(job, at, rank, text):
    names = {
        "nccl": nccl(job, rank),
        "rank": rank,
        "local": job.local(rank),
        "size": job.size,
        "host": job.host(rank),
        "pid": job.pids[rank],
        "head": job.place.hosts[0],
        "bus": job.bus(rank),
        "xla": f"{job.when(at):%Y-%m-%d %H:%M:%S.%f}",
    }
    for name, value in names.items():
        text = text.replace("{" + name + "}", str(value))
    return text


def moments(job, when, ready, end):
    return {"start": (1.0, ready * 0.9), "run": (ready, end), "end": (end, end + 2.0)}[when]


def sprinkle(job, ready, end, healthy):
    """A handful of the texts. A job that fails has no end of its own."""
    texts = job.catalogue.noise
    for when, who, text in job.rng.sample(texts, job.rng.randrange(3, min(14, len(texts) + 1))):
        if (when == "end" and not healthy) or (job.launched == "vllm" and TRAINING.search(text)):
            continue
        low, high = moments(job, when, ready, end)
        ranks = job.rng.sample(range(job.size), 1 if who == "one" else job.rng.randrange(1, min(job.size, 16) + 1))
        at = job.rng.uniform(low, high)
        for rank in ranks:
            job.error(at + job.rng.random() * 0.3, rank, told(job, at, rank, text))


def of_kernels(job, end):
    for node in range(job.nodes):
        for _ in range(job.rng.randrange(0, 5)):
            kern(job, job.rng.uniform(-40_000, end), node, job.rng.choice(job.catalogue.kernel))
        if job.rng.random() < 0.3:
            oom_kill(
                job,
                -job.rng.uniform(7_000, 60_000),
                node,
                job.rng.randrange(1_000, 90_000),
                job.rng.choice(("java", "python3", "cc1plus")),
            )


def of_scheduler(job, end):
    """What Slurm's controller did with other jobs, before and meanwhile."""
    for _ in range(job.rng.randrange(3, 12)):
        at = job.rng.uniform(-9_000, end)
        text = job.rng.choice(job.catalogue.scheduler).format(
            other=job.number - job.rng.randrange(3, 900), host=job.rng.choice(job.place.hosts)
        )
        slurmctld(job, at, text)


def slurmctld(job, at, text, **marks):
    t = job.when(at)
    job.scheduler(at, f"[{t:%Y-%m-%dT%H:%M:%S}.{t.microsecond // 1000:03d}] {text}", **marks)


# Lines of real jobs that went well


def read(path):
    opener = gzip.open if path.suffix == ".gz" else open
    with opener(path, "rt", encoding="utf-8", errors="replace") as file:
        rows = [CONTROL.sub("", PREFIX.sub("", row.rstrip("\n"))) for row in file]
    return [row[:400] for row in rows if row.strip() and not FOREIGN.search(row)]


def libraries(folders):
    paths = sorted(path for folder in folders for path in pathlib.Path(folder).rglob("*") if path.is_file())
    return [rows for rows in map(read, paths) if len(rows) > 30]


def borrow(job, library, ready, end):
    """Passages of logs of healthy jobs, most of them from the start of a job."""
    for _ in range(job.rng.randrange(1, 5)):
        rows = job.rng.choice(library)
        begin = job.rng.randrange(len(rows) - 20)
        low, high = moments(job, job.rng.choice(("start", "start", "run")), ready, end)
        rank, at = job.rng.choice((0, 0, job.rng.randrange(job.size))), job.rng.uniform(low, high)
        job.rank(at, rank, rows[begin : begin + job.rng.randrange(10, 80)])
