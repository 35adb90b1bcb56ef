"""Set c: time limits that some ranks reached because another one did not come, and values that grow out of bounds."""

from composer import peers
from composer.found import CAUSED, found
from composer.job import Truth
from composer.kernel_log import kern
from composer.kinds import all_out, several, stop_waiting, stuck_until_limit, torch
from composer.raise_it import raise_it

BUFFER = (
    "[../third_party/gloo/gloo/transport/tcp/unbound_buffer.cc:{}] Timed out waiting {}ms for recv operation to"
    " complete"
)
TRACEBACK = (
    "Traceback (most recent call last):\n"
    '  File "{site}/torch/distributed/distributed_c10d.py", line 3783, in monitored_barrier\n'
    "    return group_to_use.monitored_barrier(timeout, wait_all_ranks=wait_all_ranks)"
)
STUCK = (
    "ProcessGroupNCCL's watchdog got stuck for 480 seconds without making progress in monitoring enqueued collectives."
    " This typically indicates a NCCL/CUDA API (e.g., CudaEventDestroy) hang blocking the watchdog, and could be"
    " triggered by another thread holding the GIL inside a CUDA api (for example, CudaEventDestroy), or other"
    " deadlock-prone behaviors.If you suspect the watchdog is not actually stuck and a longer timeout would help, you"
    " can either increase the timeout (TORCH_NCCL_HEARTBEAT_TIMEOUT_SEC) to a larger value or disable the heartbeat"
    " monitor (TORCH_NCCL_ENABLE_MONITORING=0)."
)


def crowd(job):
    return torch(job) and job.size > 2


def waited(job, at, rank, write, code):
    """Those who wait for `rank`, which is silent since `at`, reach their limit. `write` is called for each of them."""
    job.end(rank, at)
    ended = {}
    for number, other in enumerate([r for r in range(job.size) if r != rank]):
        moment = at + job.timeout_s + job.rng.uniform(0, 0.8)
        write(moment, other, number > 0)
        ended[other] = (moment + 1.5, code)
    stop_waiting(job, at, rank, ended)


# Serving


@found("timeout", lambda job: job.program.name == "sglang" and several(job), 6)
def hung_scheduler(job, at):
    t = job.when(at + 300)
    for rank in range(job.size):
        text = f"[{t:%Y-%m-%d %H:%M:%S} TP{rank}] Watchdog timeout (self.watchdog_timeout=300)"
        job.rank(at + 300 + rank * 0.01, rank, text, mark=0, also=rank > 0)
    job.program.log(at + 301, 0, "Pyspy failed to dump PID 171. Error: /bin/sh: 1: py-spy: not found")
    return Truth("timeout", "SGLang's scheduler made no progress for 300 s"), all_out(job, at + 305, -9, 0.1)


@found("timeout", lambda job: job.program.name == "vllm" and several(job), 6)
def silent_worker(job, at):
    start = (
        "[shm_broadcast.py:466] No available shared memory broadcast block found in 60 seconds. This typically happens"
    )
    for number in range(1, 5):
        job.program.main(
            at + 60 * number,
            f"{start} when some processes are hanging or doing some time-consuming work (e.g. compilation, weight/kv"
            " cache quantization).",
        )
    job.hush(at)
    end = at + 300
    job.launcher(
        end,
        f"ERROR {job.when(end):%m-%d %H:%M:%S} [dump_input.py:69] Dumping input data for V1 LLM engine (v0.9.1) with"
        f" config: model='/models/base-7b', tensor_parallel_size={job.size}",
    )
    rows = [
        "[core.py:710] EngineCore encountered a fatal error.",
        "[core.py:710] Traceback (most recent call last):",
        (
            f'[core.py:710]   File "{job.place.python}/vllm/v1/executor/multiproc_executor.py", line 264, in'
            " collective_rpc"
        ),
        "[core.py:710] TimeoutError",
        f"[core.py:710] {CAUSED}",
        "[core.py:710] TimeoutError: RPC call to execute_model timed out.",
    ]
    stamp = f"ERROR {job.when(end):%m-%d %H:%M:%S} "
    job.launcher(end + 0.1, [stamp + row for row in rows], mark=5, more=(3,))
    job.launcher(end + 1, "vllm.v1.engine.exceptions.EngineDeadError: EngineCore encountered an issue.")
    return Truth("timeout", "a worker of vLLM no longer answers"), None


# Training


@found("timeout", crowd, 2)
def stuck_watchdog(job, at):
    """The thread that watches is itself stuck on one rank."""
    rank = job.rng.randrange(job.size)
    job.end(rank, at + 481)
    rows = [
        (
            f"{peers.group(job, rank)} Heartbeat monitor timed out! Process will be terminated after dumping debug"
            " info. workMetaList_.size()=103"
        ),
        f"{peers.group(job, rank)} ProcessGroupNCCL preparing to dump debug info.",
        f"{peers.group(job, rank)} {STUCK}",
    ]
    rows = [peers.c10d(job, at + 480, rank, 1316, row, "F" if row is rows[2] else "E") for row in rows]
    job.error(at + 480, rank, rows, mark=0, more=(2,))
    return Truth("timeout", f"the watchdog of rank {rank} is stuck in a call of CUDA", [rank], ["nccl", "cuda"]), {
        rank: (at + 480.9, -6)
    }


@found("timeout", crowd, 2)
def monitored_barrier(job, at):
    rank, limit = job.rng.randrange(1, job.size), job.timeout_s * 1000

    def write(moment, other, later):
        text = (
            f"[Rank 0]: Rank {rank} failed to pass monitoredBarrier in {limit} ms"
            if other == 0
            else (
                f"Rank {other} successfully reached monitoredBarrier, but received errors while waiting for send/recv"
                " from rank 0. Please check rank 0 logs for faulty rank."
            )
        )
        names = {"mark": 0, "also": False} if other == 0 else {}
        moment += 0 if other == 0 else 1
        job.error(moment, other, f"[E ProcessGroupGloo.cpp:138] {text}", **names)
        lines = [*TRACEBACK.format(site=job.place.python).split("\n"), f"RuntimeError: {text}"]
        job.error(
            moment + 0.1, other, [*lines, " Original exception: ", BUFFER.format(81, limit)], more=(3,) if names else ()
        )

    waited(job, at, rank, write, 1)
    return Truth("timeout", f"rank {rank} did not come to a monitored barrier", [rank], ["network"]), None


@found("timeout", crowd, 2)
def gloo_waits(job, at):
    rank = job.rng.randrange(job.size)
    text = "RuntimeError: " + BUFFER.format(81, job.timeout_s * 1000)
    waited(job, at, rank, lambda moment, other, later: raise_it(job, moment, other, "eval", text, later), 1)
    return Truth("timeout", f"the others waited for rank {rank} in Gloo", [rank], ["network"]), None


@found("timeout", crowd, 3)
def behind(job, at):
    """One rank waits in an operation that the others have completed long ago."""
    rank, moment, ended = job.rng.randrange(job.size), at + job.timeout_s, {}
    for other in sorted(range(job.size), key=lambda r: r == rank):
        late = other == rank
        seq, op = (
            (job.seq - 3, "OpType=COALESCED, NumelIn=18446744073709551615, NumelOut=0") if late else (job.seq, None)
        )
        peers.watchdog(job, moment + job.rng.uniform(0, 0.8), other, max(seq, 1), op, mark=0, also=not late)
        ended[other] = (moment + 2.5, -6)
    return Truth("timeout", f"rank {rank} is stuck at an earlier operation than the others", [rank], ["nccl"]), ended


@found("timeout", lambda job: crowd(job) and job.per_node > 1 and job.nodes > 1, 2)
def group_waits(job, at):
    """Only the ranks of one tensor-parallel group wait for the silent rank; the rest sees them leave."""
    rank = job.rng.randrange(job.size)
    mates = [r for r in job.ranks_of(job.node_of(rank)) if r != rank]
    job.end(rank, at)
    ended, limit = {rank: (at + job.timeout_s + 4, -15)}, job.timeout_s * 1000
    for number, other in enumerate(mates):
        moment = at + job.timeout_s + job.rng.uniform(0, 0.5)
        text = (
            f"[PG ID 3 PG GUID 7(TENSOR_MODEL_PARALLEL_GROUP) Rank {job.local(other)}] Watchdog caught collective"
            f" operation timeout: WorkNCCL(SeqNum={job.seq * 9}, OpType=_ALLGATHER_BASE, NumelIn=4194304,"
            f" NumelOut=33554432, Timeout(ms)={limit}) ran for {limit + 61} milliseconds before timing out."
        )
        job.error(moment, other, peers.c10d(job, moment, other, 685, text), mark=0, also=number > 0)
        ended[other] = (moment + 1, -6)
    return Truth("timeout", f"the tensor-parallel group of rank {rank} waited for it", [rank], ["nccl"]), ended


@found("timeout", lambda job: job.program.name == "jax" and several(job), 6)
def jax_barrier(job, at):
    rank = job.rng.randrange(job.size)
    text = (
        "jaxlib.xla_extension.XlaRuntimeError: DEADLINE_EXCEEDED: Barrier timed out. Id: orbax_sync_save_1200::0. This"
        " usually happens because a task triggered the barrier too early or too slowly. Please look at the task logs"
        " (both timed out and first task) to debug further.\n# of tasks that reached the barrier:"
        f" {job.size - 1}/{job.size}.\nThe first task at the barrier: /job:jax_worker/replica:0/task:0. Some timed out"
        f" task names:\n/job:jax_worker/replica:0/task:{rank}"
    )
    waited(job, at, rank, lambda moment, other, later: raise_it(job, moment, other, "save", text, later), 1)
    return Truth("timeout", f"task {rank} did not come to a barrier of JAX", [rank], ["checkpoint"]), None


# File systems that make ranks wait


@found("filesystem", lambda job: job.has_kernel and crowd(job), 2)
def silent_server(job, at):
    rank = job.rng.randrange(job.size)
    node, pid = job.node_of(rank), job.pids[rank]
    text = job.rng.choice(
        (
            f"nfs: server {job.place.net}.250 not responding, still trying",
            (
                f"Lustre: scratch-OST0003-osc-ffff8f1: Connection to scratch-OST0003 (at {job.place.net}.250@o2ib) was"
                " lost; in progress operations using this service will wait for recovery to complete"
            ),
        )
    )
    kern(job, at + 2, node, text, mark=0)
    kern(
        job,
        at + 242,
        node,
        f"INFO: task python3:{pid} blocked for more than 120 seconds.\n      Tainted: P           OE    "
        ' 5.15.0-105-generic #115-Ubuntu\n"echo 0 > /proc/sys/kernel/hung_task_timeout_secs" disables this'
        f" message.\ntask:python3         state:D stack:    0 pid:{pid}",
        mark=0,
        also=True,
    )
    job.end(rank, at)
    stuck_until_limit(job, at, rank, False)
    return Truth("filesystem", f"rank {rank} waits for a file server", [rank], ["timeout", "network"]), None


@found("filesystem", lambda job: job.has_kernel and job.launched != "vllm", 2)
def evicted_client(job, at):
    rank = job.rng.randrange(job.size)
    lustre = job.rng.random() < 0.5
    kern(
        job,
        at - 1,
        job.node_of(rank),
        (
            "LustreError: 167-0: fsx-OST0003-osc-ffff8f1c: This client was evicted by fsx-OST0003; in progress"
            " operations using this service will fail."
            if lustre
            else (
                "XFS (nvme0n1): log I/O error -5\nXFS (nvme0n1): Filesystem has been shut down due to log error"
                " (0x2).\nXFS (nvme0n1): Please unmount the filesystem and rectify the problem(s)."
            )
        ),
        mark=0,
        more=() if lustre else (1,),
    )
    what = "an eviction by a server of Lustre" if lustre else "a shutdown of XFS"
    return Truth("filesystem", f"{what} took rank {rank} its mapped files", [rank], ["hardware"]), {rank: (at, -7)}


# Numbers


@found("numerics", lambda job: job.program.name == "megatron", 3)
def spiky_loss(job, at):
    rank, step = job.rng.randrange(job.size), job.program.first + 250
    device = job.local(rank)
    start = "WARNING:megatron.core.rerun_state_machine:"
    job.error(
        at,
        rank,
        f"ERROR:megatron.core.rerun_state_machine:Unexpected result tensor(48.7711, device='cuda:{device}') at"
        f" {job.place.work}/pretrain_gpt.py line 158, invokation #1 at iteration #{step} (message='Spiky loss')",
        mark=0,
    )
    job.error(
        at + 9,
        rank,
        f"{start}First rerun: unexpected result is not reproducible within the tolerance (2.31448 !="
        f" 48.77112)\nERROR:megatron.core.rerun_state_machine:Rank {rank}, node {job.host(rank)}, device {device}:"
        " Possible transient error!!",
        mark=1,
        also=True,
    )
    job.error(
        at + 9.5,
        0,
        f"{start}Exiting now. A checkpoint at the last iteration is being saved if further examination is needed",
    )
    return Truth(
        "numerics", f"rank {rank} computed a loss that a second try did not confirm", [rank], ["hardware"]
    ), all_out(job, at + 30, 17)


@found("numerics", lambda job: job.program.name == "solver", 8)
def floating_point_exception(job, at):
    rank = job.rng.randrange(job.size)
    job.error(
        at,
        rank,
        "Program received signal SIGFPE: Floating-point exception - erroneous arithmetic operation.\n\nBacktrace for"
        " this error:\n#0  0x7f1b2c2f8a1e in ???\n#1  0x4123a1 in flux_\n\tat src/flux.f90:212\n#2  0x40fe02 in"
        " MAIN__\n\tat src/main.f90:88",
        mark=0,
    )
    return Truth("numerics", f"rank {rank} divided by zero or overflowed", [rank], ["python", "mpi"]), {
        rank: (at + 0.2, -8)
    }


@found("numerics", lambda job: job.program.name == "solver", 8)
def small_time_step(job, at):
    text = job.rng.choice(
        (
            " ERROR: time step underflow: dt =  1.2207E-13 < dt_min =  1.0000E-12",
            " *** residual is NaN in block 12, stopping the simulation",
            " FATAL: solution diverged: max(|u|) =  0.1797+309",
        )
    )
    job.rank(at, 0, text, mark=0)
    return Truth("numerics", "the solution diverged", (), ["mpi", "python"]), {0: (at + 0.2, 1)}


# Native crashes


@found("python", lambda job: job.launched != "vllm")
def damaged_heap(job, at):
    rank = job.rng.randrange(job.size)
    text = job.rng.choice(
        (
            "double free or corruption (!prev)",
            "free(): invalid pointer",
            "*** stack smashing detected ***: terminated",
            "munmap_chunk(): invalid pointer",
            "corrupted size vs. prev_size",
            "terminate called without an active exception",
            "pure virtual method called\nterminate called without an active exception",
        )
    )
    job.error(at, rank, text, mark=0)
    return Truth("python", f"native code of rank {rank} damaged its memory", [rank], ["cuda", "environment"]), {
        rank: (at + 0.1, -6)
    }


@found("python", lambda job: job.launched == "mpirun", 3)
def caught_segmentation_fault(job, at):
    rank = job.rng.randrange(job.size)
    start = f"[{job.host(rank)}:{job.pids[rank]:05d}]"
    text = job.rng.choice(
        (
            (
                f"{start} *** Process received signal ***\n{start} Signal: Segmentation fault (11)\n{start} Signal"
                f" code: Address not mapped (1)\n{start} Failing at address: 0x18\n{start} [ 0]"
                f" /lib64/libpthread.so.0(+0x12c20)[0x7f1b2c2f8a1e]\n{start} *** End of error message ***"
            ),
            (
                f"[{job.host(rank)}:{job.pids[rank]}:0:{job.pids[rank]}] Caught signal 11 (Segmentation fault: address"
                f" not mapped to object at address 0x18)\n==== backtrace (tid: {job.pids[rank]:7d}) ====\n 0"
                " 0x0000000000012c20 __funlockfile()  :0\n================================="
            ),
        )
    )
    job.error(at, rank, text, mark=1 if text.startswith(f"{start} ***") else 0)
    return Truth("python", f"rank {rank} died of a segmentation fault", [rank], ["mpi", "cuda"]), {
        rank: (at + 0.2, -11)
    }
