"""What the other ranks write when one of them is gone or stuck: errors that follow, and never the cause."""

ABORT = -6
OPS = (
    ("ALLREDUCE", 1, 1),
    ("ALLREDUCE", 51_123_456, 51_123_456),
    ("_ALLGATHER_BASE", 50_692_096, None),
    ("BROADCAST", 112, 112),
    ("_REDUCE_SCATTER_BASE", None, 25_346_048),
    ("ALLREDUCE", 201_326_592, 201_326_592),
)


def c10d(job, at, rank, number, text, level="E"):
    if job.torch >= (2, 4):
        return f"[rank{rank}]:[{job.glog(at, level)} ProcessGroupNCCL.cpp:{number}] {text}"
    return f"[{level} ProcessGroupNCCL.cpp:{number}] {text}"


def nccl(job, rank, thread=211):
    """How NCCL begins each line."""
    return f"{job.host(rank)}:{job.pids[rank]}:{job.pids[rank] + thread} [{job.local(rank)}]"


def group(job, rank):
    if job.torch >= (2, 5):
        return f"[PG ID 0 PG GUID 0(default_pg) Rank {rank}]"
    return f"[PG 0 (default_pg) Rank {rank}]" if job.torch >= (2, 4) else f"[Rank {rank}]"


def ended_by(job):
    return ("Process group" if job.torch >= (2, 4) else "NCCL") + " watchdog thread terminated with exception"


def frames(job):
    addresses = [f"0x7f{job.rng.randrange(16**10):010x}" for _ in range(3)]
    lib = f"{job.place.python}/torch/lib"
    return (
        f"frame #0: c10::Error::Error(c10::SourceLocation, std::string) + 0x96 ({addresses[0]} in {lib}/libc10.so)\n"
        f"frame #1: c10d::ProcessGroupNCCL::watchdogHandler() + 0x233 ({addresses[1]} in {lib}/libtorch_cuda.so)\n"
        f"frame #2: <unknown function> + 0xdbbf4 ({addresses[2]} in /lib/x86_64-linux-gnu/libstdc++.so.6)\n"
        "frame #3: clone + 0x43 (0x7f0e6d1268c3 in /lib/x86_64-linux-gnu/libc.so.6)\n"
    )


def operation(job, choice=None):
    name, taken, given = choice or OPS[job.seq % len(OPS)]
    world = max(job.size, 2)
    taken = given * world if taken is None else taken
    given = taken * world if given is None else given
    return f"OpType={name}, NumelIn={taken}, NumelOut={given}"


def progress(job, rank, seq):
    """What newer versions tell of the work that was under way."""
    if job.torch >= (2, 6):
        return [
            (
                2268,
                (
                    f"{group(job, rank)}  failure detected by watchdog at work sequence id: {seq} PG status: "
                    f"last enqueued work: {seq + 2}, last completed work: {seq - 1}"
                ),
            )
        ]
    if job.torch >= (2, 4):
        text = f"Timeout at NCCL work: {seq}, last enqueued NCCL work: {seq + 2}, last completed NCCL work: {seq - 1}."
        return [(1834, f"{group(job, rank)} {text}")]
    return []


DISTRUST = (
    "Some NCCL operations have failed or timed out. Due to the asynchronous nature of CUDA kernels, subsequent GPU "
    "operations might run on corrupted/incomplete data."
)


def watchdog(job, at, rank, seq=None, op=None, mark=None, also=False):
    """A time-out of c10d's watchdog, with what it writes before it aborts the process."""
    limit, seq = job.timeout_s * 1000, seq or job.seq
    caught = (
        f"[Rank {rank}] Watchdog caught collective operation timeout: WorkNCCL(SeqNum={seq}, {op or operation(job)}, "
        f"Timeout(ms)={limit}) ran for {limit + job.rng.randrange(3, 900)} milliseconds before timing out."
    )
    rows = [(632, caught), *progress(job, rank, seq), (630, f"[Rank {rank}] {DISTRUST}")]
    rows.append((636, f"[Rank {rank}] To avoid data inconsistency, we are taking the entire process down."))
    job.error(at, rank, [c10d(job, at, rank, *row) for row in rows], mark=mark, also=also)
    end = f"{group(job, rank)} {ended_by(job)}: {caught}"
    job.error(at + 0.01, rank, c10d(job, at, rank, 1595, end) + raised_from("checkTimeout", 632) + frames(job))
    thrown = "c10::DistBackendError" if job.torch >= (2, 2) else "std::runtime_error"
    job.error(at + 0.02, rank, f"terminate called after throwing an instance of '{thrown}'\n  what():  {end}")


def raised_from(function, line):
    source = f"../torch/csrc/distributed/c10d/ProcessGroupNCCL.cpp:{line}"
    return f"\nException raised from {function} at {source} (most recent call first):\n"


def broken(job, rank, dead):
    """NCCL's words for a connection that broke. Peers on one host do not meet over the network."""
    port = job.rng.randrange(32768, 60999)
    ways = [
        f"socketProgress: Connection closed by remote peer {job.host(dead)}<{port}>",
        f"socketPollConnect: connect to {job.address(dead)}<{port}> returned Connection refused",
    ]
    if job.node_of(rank) != job.node_of(dead):
        ways.append(
            f"NET/IB: Got completion from peer {job.host(dead)}<{port}> with status=12 opcode=0 len=0 vendor err 129"
            f" (Recv) hca mlx5_{job.local(rank)}"
        )
    return job.rng.choice(ways)


def remote(job, at, rank, dead, **marks):
    """NCCL noticed that a connection broke."""
    if job.nccl_logs:
        start = nccl(job, rank)
        note = "[Service thread] Error encountered progressing operation=Connect, res=3, closing connection"
        job.error(at, rank, f"{start} NCCL INFO misc/socket.cc:484 -> 6\n{start} proxy.cc:1458 NCCL WARN {note}")
    error = "NCCL error: remote process exited or there was a network error, NCCL version 2.21.5"
    text = (
        c10d(job, at + 0.1, rank, 1595, f"{group(job, rank)} {ended_by(job)}: {error}")
        + "\nncclRemoteError: A call failed possibly due to a network error or a remote process exiting prematurely."
        + f"\nLast error:\n{broken(job, rank, dead)}"
        + raised_from("checkForNCCLErrorsInternal", 2027)
        + frames(job)
    )
    job.error(at + 0.1, rank, text, **marks)


def gloo(job, at, rank, dead):
    text = job.rng.choice(
        (
            (
                "RuntimeError: [../third_party/gloo/gloo/transport/tcp/pair.cc:534] Connection closed by peer"
                f" [{job.address(dead)}]:{job.rng.randrange(20000, 60000)}"
            ),
            (
                "RuntimeError: [../third_party/gloo/gloo/transport/tcp/pair.cc:598] Connection reset by peer"
                f" [{job.address(dead)}]:{job.rng.randrange(20000, 60000)}"
            ),
        )
    )
    head = f"[rank{rank}]: " if job.torch >= (2, 4) else ""
    job.error(
        at,
        rank,
        [
            head + row
            for row in (
                "Traceback (most recent call last):",
                f'  File "{job.place.work}/train.py", line 212, in <module>',
                "    main()",
                f'  File "{job.place.python}/torch/distributed/distributed_c10d.py", line 4551, in barrier',
                "    work.wait()",
                text,
            )
        ],
    )


def store(job, at, rank):
    """The store was in rank 0's process."""
    job.error(
        at,
        rank,
        f"[rank{rank}]:[{job.glog(at, 'W')} TCPStore.cpp:125] [c10d] recvValue failed on SocketImpl(fd=78, addr="
        f"[{job.host(rank)}]:45322, remote=[{job.place.hosts[0]}]:29500): failed to recv, got 0 bytes",
    )
    job.error(
        at + 0.2,
        rank,
        c10d(
            job,
            at + 0.2,
            rank,
            1659,
            f'{group(job, rank)} Failed to check the "should dump" flag on TCPStore, (maybe '
            "TCPStore server has shut down too early), with error: Broken pipe",
            "W",
        ),
    )


def coordination(job, at, rank, dead):
    t = job.when(at)
    job.error(
        at,
        rank,
        f"E{t:%m%d %H:%M:%S.%f} {job.pids[rank] + 90} coordination_service_agent.cc:332] Polled an error from"
        f" coordination service (this can be an error from this or another task).\nF{t:%m%d %H:%M:%S.%f}"
        f" {job.pids[rank] + 90} client.h:80] Terminating process because the JAX distributed service detected fatal"
        " errors. This most likely indicates that another task died; see the other task logs for more details. Absl"
        f" error: UNAVAILABLE: Task /job:jax_worker/replica:0/task:{dead} heartbeat timeout. This indicates that the"
        " remote task has failed, got preempted, or crashed unexpectedly.",
    )


def horovod(job, at, rank):
    job.error(
        at,
        rank,
        "Traceback (most recent call last):\n"
        + f'  File "{job.place.work}/train_hvd.py", line 131, in <module>\n    main()\n  File'
        f' "{job.place.python}/horovod/torch/mpi_ops.py", line 1274, in synchronize\n    raise'
        " HorovodInternalError(e)\nhorovod.common.exceptions.HorovodInternalError: Horovod has been shut down. This"
        " was caused by an exception on one of the ranks or an attempt to allreduce, allgather or broadcast a tensor"
        " after one of the ranks finished execution.",
    )


def join(job, at, rank, dead):
    """The process group never came to be: those who wait for it reach the limit of the store."""
    text = (
        "torch.distributed.DistNetworkError: The client socket has timed out after 600000ms while trying to connect to"
        f" ({job.place.hosts[0]}, 29500)."
        if dead == 0
        else (
            "torch.distributed.DistStoreError: Timed out after 601 seconds waiting for clients."
            f" {job.size - job.absent}/{job.size} clients joined."
        )
    )
    job.error(
        at,
        rank,
        [
            "Traceback (most recent call last):",
            f'  File "{job.place.work}/train.py", line 88, in <module>',
            "    main()",
            f'  File "{job.place.python}/torch/distributed/rendezvous.py", line 258, in _env_rendezvous_handler',
            "    store = _create_c10d_store(master_addr, master_port, rank, world_size, timeout, use_libuv)",
            text,
        ],
    )


def flavour(job, dead):
    if job.program.name == "jax" or (job.program.name == "horovod" and job.joined):
        return job.program.name
    if job.program.name == "solver" or (job.launched == "mpirun" and not job.joined):
        return "silent"
    if not job.joined:
        return "join"
    choices = (
        ["remote"] * 4 + ["watchdog"] * 4 + ["gloo"] * 2 if job.nodes > 1 else ["watchdog"] * 3 + ["remote", "gloo"]
    )
    return job.rng.choice(choices + (["store"] * 3 if dead == 0 else []))


def notice(job, at, rank, dead, kind):
    """Lets `rank` notice that `dead` is gone since `at`. Returns when it ends and how."""
    if kind == "watchdog":
        moment = at + job.timeout_s + job.rng.uniform(0.0, 1.5)
        watchdog(job, moment, rank)
        return moment + 1.5, ABORT
    moment = at + job.rng.uniform(0.3, 8.0)
    if kind == "jax":
        moment = at + job.rng.uniform(90.0, 101.0)
        coordination(job, moment, rank, dead)
    elif kind == "silent":
        return moment, -15
    elif kind == "join":
        moment = at + job.rng.uniform(560.0, 605.0)
        join(job, moment, rank, dead)
    else:
        {
            "remote": lambda: remote(job, moment, rank, dead),
            "gloo": lambda: gloo(job, moment, rank, dead),
            "store": lambda: store(job, moment, rank),
            "horovod": lambda: horovod(job, moment, rank),
        }[kind]()
    return moment + 1.5, 1 if kind in ("gloo", "horovod", "join") else ABORT
