"""Jobs that somebody stopped, jobs of MPI, and jobs whose logs do not explain their end."""

from composer import aftermath
from composer.job import Truth
from composer.kinds import endings, kind, lost_node, mpi, open_mpi, reported, several
from composer.noise import slurmctld

UNKNOWN = []
unknown = endings(UNKNOWN)


# Stopped from outside


def cancelled(job, at, reason, mark=True):
    t = job.when(at)
    step = job.rng.random() < 0.5
    for node in range(job.nodes):
        what = f"STEP {job.number}.0" if step and node else f"JOB {job.number}"
        job.launcher(
            at + node * 0.01,
            f"slurmstepd: error: *** {what} ON {job.place.hosts[node]} CANCELLED AT {t:%Y-%m-%dT%H:%M:%S}{reason} ***",
            mark=0 if mark else None,
            also=node > 0,
        )
    job.launcher(at + 0.1, "srun: Job step aborted: Waiting up to 32 seconds for job step to finish.")
    job.hush(at + 0.5)
    (
        aftermath.exited(job, at + 2, range(job.size), -15 if job.rng.random() < 0.7 else -9)
        if job.launched == "srun"
        else None
    )


@kind("terminated", lambda job: job.in_slurm, 3)
def time_limit(job, at):
    cancelled(job, at, " DUE TO TIME LIMIT")
    if job.has_scheduler:
        slurmctld(job, at - 0.5, f"Time limit exhausted for JobId={job.number}", mark=0, also=True)
    return Truth("terminated", "the job reached its time limit"), None


@kind("terminated", lambda job: job.in_slurm, 3)
def preempted(job, at):
    cancelled(job, at, " DUE TO PREEMPTION")
    return Truth("terminated", "the job was preempted"), None


@kind("terminated", lambda job: job.in_slurm, 2)
def cancelled_by_hand(job, at):
    cancelled(job, at, "")
    if job.has_scheduler:
        slurmctld(
            job, at - 0.5, f"_slurm_rpc_kill_job: REQUEST_KILL_JOB JobId={job.number} uid 1001", mark=0, also=True
        )
    return Truth("terminated", "somebody cancelled the job"), None


@kind("terminated", lambda job: job.in_slurm and job.nodes > 1, 2)
def node_failure(job, at):
    node = job.rng.randrange(job.nodes)
    for rank in job.ranks_of(node):
        job.end(rank, at)
    job.launcher(at + 20, f"srun: error: Node failure on {job.place.hosts[node]}", mark=0)
    t = job.when(at + 21)
    other = job.place.hosts[1 if node == 0 else 0]
    job.launcher(
        at + 21,
        f"slurmstepd: error: *** JOB {job.number} ON {other} CANCELLED AT {t:%Y-%m-%dT%H:%M:%S} DUE TO NODE FAILURE,"
        " SEE SLURMCTLD LOG FOR DETAILS ***",
        mark=0,
        also=True,
    )
    job.hush(at + 22)
    return Truth("terminated", f"{job.place.hosts[node]} failed", job.ranks_of(node), ["hardware"]), None


# Events that end a pod, and which other categories explain them as well.
EVICTIONS = (
    (
        (
            "Warning  Evicted   pod/{pod}  The node was low on resource: ephemeral-storage. Threshold quantity: 10Gi,"
            " available: 3217Mi."
        ),
        ["filesystem"],
    ),
    (
        (
            "Warning  Evicted   pod/{pod}  The node was low on resource: memory. Container pytorch was using 503216Ki,"
            " which exceeds its request of 0."
        ),
        ["out_of_memory"],
    ),
    ("Normal   Preempted  pod/{pod}  Preempted by pod high-prio/serving-{number} on node {host}", []),
    ("Warning  NodeNotReady  node/{host}  Node is not ready; deleting pod {pod} (TaintManagerEviction)", ["hardware"]),
)


@kind("terminated", lambda job: job.in_k8s, 4)
def evicted(job, at):
    node = job.rng.randrange(job.nodes)
    text, also = job.rng.choice(EVICTIONS)
    text = text.format(pod=job.pod(node), host=job.place.hosts[node], number=job.number)
    job.scheduler(at, job.stamp(at, "iso") + text, mark=0)
    for rank in job.ranks_of(node):
        job.end(rank, at + 0.5)
    return Truth("terminated", f"the pod on {job.place.hosts[node]} was evicted", job.ranks_of(node), also), (
        lost_node(job, at + 0.5, node) if job.nodes > 1 else None
    )


@kind("terminated", lambda job: job.launched == "torchrun" and job.torch >= (2, 4), 2)
def agents_terminated(job, at):
    for node in range(job.nodes):
        pid = job.pids[job.ranks_of(node)[0]] - 60
        job.agent(
            at + node * 0.1,
            node,
            f"{job.elastic(at, 'W')} {pid} torch/distributed/elastic/agent/server/api.py:719] Received Signals.SIGTERM"
            " death signal, shutting down workers",
            mark=0,
            also=node > 0,
        )
        for rank in job.ranks_of(node):
            aftermath.elastic(
                job,
                at + 0.2,
                node,
                "W",
                "multiprocessing/api.py:898",
                f"Sending process {job.pids[rank]} closing signal SIGTERM",
            )
        job.agent(
            at + 30,
            node,
            "Traceback (most recent call last):\n"
            f'  File "{job.place.python}/torch/distributed/elastic/multiprocessing/api.py", line 84, in'
            " _terminate_process_handler\n"
            '    raise SignalException(f"Process {os.getpid()} got signal: {sigval}", sigval=sigval)\n'
            f"torch.distributed.elastic.multiprocessing.api.SignalException: Process {pid} got signal: 15",
        )
    job.hush(at + 1)
    return Truth("terminated", "the agents received SIGTERM from outside the job"), None


# MPI


@kind("mpi", open_mpi, 6)
def error_in_mpi(job, at):
    rank = job.rng.randrange(job.size)
    call, code = job.rng.choice(
        (
            ("MPI_Recv", "MPI_ERR_TRUNCATE: message truncated"),
            ("MPI_Bcast", "MPI_ERR_TRUNCATE: message truncated"),
            ("MPI_Send", "MPI_ERR_RANK: invalid rank"),
            ("MPI_Comm_rank", "MPI_ERR_COMM: invalid communicator"),
            ("MPI_Reduce", "MPI_ERR_BUFFER: invalid buffer pointer"),
            ("MPI_Win_fence", "MPI_ERR_RMA_SYNC: error executing rma sync"),
        )
    )
    start = f"[{job.host(rank)}:{job.pids[rank]:05d}]"
    job.error(
        at,
        rank,
        f"{start} *** An error occurred in {call}\n{start} *** reported by process"
        f" [{job.rng.randrange(10**9)},{rank}]\n{start} *** on communicator MPI_COMM_WORLD\n{start} *** {code}\n{start}"
        f" *** MPI_ERRORS_ARE_FATAL (processes in this communicator will now abort,\n{start} ***    and potentially"
        " your MPI job)",
        mark=0,
    )
    return Truth("mpi", f"{call} of rank {rank} failed: {code}", [rank]), {rank: (at + 0.3, 15)}


@kind("mpi", lambda job: job.layout == "mpi_hydra", 8)
def error_in_mpich(job, at):
    rank = job.rng.randrange(job.size)
    call, lines = job.rng.choice(
        (
            (
                "PMPI_Recv: Message truncated",
                (
                    "PMPI_Recv(177)...................: MPI_Recv(buf=0x7ffc8a20, count=10, MPI_INT, src=0, tag=7,"
                    " MPI_COMM_WORLD, status=0x1) failed\nMPIDI_CH3U_Receive_data_found(131): Message from rank 0 and"
                    " tag 7 truncated; 80 bytes received but buffer size is 40"
                ),
            ),
            (
                "PMPI_Send: Invalid rank",
                (
                    "PMPI_Send(157): MPI_Send(buf=0x7ffc6a10, count=1, MPI_DOUBLE, dest=99, tag=0, MPI_COMM_WORLD)"
                    " failed\nPMPI_Send(94).: Invalid rank has value 99 but must be nonnegative and less than 8"
                ),
            ),
        )
    )
    job.error(
        at,
        rank,
        f"Abort({job.rng.randrange(10**8)}) on node {rank} (rank {rank} in comm 0): Fatal error in {call}, error"
        f" stack:\n{lines}",
        mark=0,
    )
    return Truth("mpi", f"{call.split(':')[0]} of rank {rank} failed", [rank]), {rank: (at + 0.3, 15)}


@kind("mpi", open_mpi, 4)
def aborted(job, at):
    rank, line = job.rng.randrange(job.size), "-" * 74
    why = job.rng.choice(
        (
            "ERROR: particle 10442 left the domain",
            "FATAL: negative density in cell (12, 80, 3)",
            "ERROR: cannot parse section &GRID",
        )
    )
    job.rank(at - 0.2, rank, why, mark=0, also=True)
    job.error(
        at,
        rank,
        f"{line}\nMPI_ABORT was invoked on rank {rank} in communicator MPI_COMM_WORLD\nwith errorcode"
        f" {job.rng.choice((1, 77, -1))}.\n\nNOTE: invoking MPI_ABORT causes Open MPI to kill all MPI processes.\nYou"
        f" may or may not see output from other processes, depending on\nexactly when Open MPI kills them.\n{line}",
        mark=1,
    )
    return Truth("mpi", f"rank {rank} called MPI_Abort", [rank], ["python"]), {rank: (at + 0.3, 1)}


@kind("mpi", open_mpi, 3, early=True)
def no_init(job, at):
    line = "-" * 74
    job.error(
        at,
        0,
        f"{line}\nIt looks like MPI_INIT failed for some reason; your parallel process is\nlikely to abort.  There are"
        " many reasons that a "
        "parallel process can\nfail during MPI_INIT; some of which are due to configuration or environment\nproblems. "
        " This failure appears to be an "
        "internal failure; here's some\nadditional information (which may only be relevant to an Open"
        " MPI\ndeveloper):\n\n  PML add procs failed\n"
        f'  --> Returned "Unreachable" (-12) instead of "Success" (0)\n{line}',
        mark=1,
    )
    return Truth("mpi", "MPI_Init failed: ranks cannot reach each other", (), ["network"]), {
        rank: (at + 0.5, 1) for rank in range(job.size)
    }


@kind("network", lambda job: open_mpi(job) and job.nodes > 1, 4)
def lost_daemon(job, at):
    node, line = job.rng.randrange(1, job.nodes), "-" * 74
    job.hush(at)
    name = job.rng.choice(("ORTE", "PRTE"))
    job.launcher(
        at + 5,
        f"{line}\n{name} has lost communication with a remote daemon.\n\n  HNP daemon   : [[{job.number % 60000},0],0]"
        f" on node {job.place.hosts[0]}\n  Remote daemon: [[{job.number % 60000},0],{node}] on node"
        f" {job.place.hosts[node]}\n\nThis is usually due to either a failure of the TCP network\nconnection to the"
        " node, or possibly an internal failure of\nthe daemon itself. We cannot recover from this failure,"
        f" and\ntherefore will terminate the job.\n{line}",
        mark=1,
    )
    return (
        Truth("network", f"mpirun lost the daemon on {job.place.hosts[node]}", (), ["mpi", "terminated", "hardware"]),
        None,
    )


@kind("network", lambda job: mpi(job) and job.nodes > 1, 4)
def ucx_retries(job, at):
    rank = job.rng.randrange(job.size)
    start = f"[{job.host(rank)}:{job.pids[rank]}:0:{job.pids[rank]}]"
    job.error(
        at,
        rank,
        f"{start} ib_mlx5_log.c:179  Transport retry count exceeded on mlx5_0:1/IB (synd 0x15 vend 0x81 hw_synd"
        f" 0/0)\n{start} ib_mlx5_log.c:179  RC QP 0x5f{rank:02x} wqe[201]: SEND s-e [inl len 18] [rqpn 0x1a4 dlid=7"
        f" sl=0 port=1 src_path_bits=0]\n==== backtrace (tid: {job.pids[rank]}) ====\n 0 0x0000000000012a10"
        " uct_ib_mlx5_completion_with_err()  ???:0\n 1 0x0000000000057b2a ucp_worker_progress() "
        " ???:0\n=================================",
        mark=0,
    )
    return Truth("network", f"UCX used up its retries on {job.host(rank)}", [rank], ["mpi"]), {rank: (at + 0.3, -6)}


# Not explained


@unknown(lambda job: several(job) and reported(job))
def leaves_without_a_word(job, at):
    rank = job.rng.randrange(job.size)
    aftermath.follow(job, {rank: (at, 1)})
    return f"rank {rank} exited with status 1 and wrote nothing"


@unknown(lambda job: several(job) and reported(job))
def killed_by_somebody(job, at):
    rank = job.rng.randrange(job.size)
    aftermath.follow(job, {rank: (at, -9)})
    return f"rank {rank} was killed, nothing tells by whom"


@unknown()
def all_silent(job, at):
    job.hush(at)
    return "all ranks fall silent at once"


@unknown(lambda job: job.launched in ("none", "srun") and job.size > 1)
def silent_one_by_one(job, at):
    for rank in range(job.size):
        job.end(rank, at + job.rng.uniform(0, 30))
    return "the ranks fall silent within half a minute"
