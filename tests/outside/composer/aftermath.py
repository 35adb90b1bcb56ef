"""What launchers, agents and schedulers write after ranks have ended."""

from composer import peers

SIGNALS = {4: "SIGILL", 6: "SIGABRT", 7: "SIGBUS", 8: "SIGFPE", 9: "SIGKILL", 11: "SIGSEGV", 15: "SIGTERM"}
SPOKEN = {
    4: "Illegal instruction",
    6: "Aborted",
    7: "Bus error",
    8: "Floating point exception",
    9: "Killed",
    11: "Segmentation fault",
    15: "Terminated",
}


def follow(job, ended):
    """Everything after the ranks of `ended` ({rank: (at, exit)}, exit < 0: a signal) are gone."""
    for rank, (at, _) in ended.items():
        job.end(rank, at)
    first = min(ended, key=lambda rank: (ended[rank], rank))
    at = ended[first][0]
    others = [rank for rank in range(job.size) if rank not in ended]
    {"torchrun": torchrun, "srun": srun, "mpirun": mpirun, "ray": ray, "vllm": serving, "none": unwatched}[
        job.launched
    ](job, at, first, dict(ended), others)


def let_notice(job, at, dead, ranks, kind, ended):
    for rank in ranks:
        ended[rank] = peers.notice(job, at, rank, dead, kind)
        job.end(rank, ended[rank][0])


# torchrun


def elastic(job, at, node, level, where, text):
    pid = job.pids[job.ranks_of(node)[0]] - 60
    if job.torch >= (2, 2):
        job.agent(at, node, f"{job.elastic(at, level)} {pid} torch/distributed/elastic/{where}] {text}")
        return
    t = job.when(at)
    name = {"W": "WARNING", "E": "ERROR", "I": "INFO"}[level]
    job.agent(
        at,
        node,
        f"[{t:%Y-%m-%d %H:%M:%S},{t.microsecond // 1000:03d}] torch.distributed.elastic.multiprocessing.api: [{name}]"
        f" {text}",
    )


def torchrun(job, at, first, ended, others):
    home = job.node_of(first)
    kind = peers.flavour(job, first)
    lingers = job.rng.random() < 0.12 and job.program.uses_torch and ended[first][1] == 1
    if lingers and job.joined:  # the interpreter waits for its threads: the agent sees a death only when peers abort
        kind = "watchdog"
    far = [rank for rank in others if lingers or job.node_of(rank) not in {job.node_of(dead) for dead in ended}]
    let_notice(job, at, first, far, kind, ended)
    near = [rank for rank in others if rank not in far]
    if kind in ("remote", "gloo") and job.rng.random() < 0.3:
        for rank in near[:3]:
            peers.notice(job, at, rank, first, kind)
    for node in range(job.nodes):
        own = {rank: ended[rank] for rank in job.ranks_of(node) if rank in ended}
        if lingers and node == home:
            own = {rank: how for rank, how in own.items() if rank != first}
        if own:
            agent_ends(job, node, own, [rank for rank in job.ranks_of(node) if rank not in own])
    if job.in_slurm:
        for node in range(job.nodes):
            job.launcher(
                max(when for when, _ in ended.values()) + 40 + node * 0.2,
                f"srun: error: {job.place.hosts[node]}: task {node}: Exited with exit code 1",
            )


def agent_ends(job, node, own, alive):
    """An agent looks at its processes from time to time: it finds some of `own` dead, and ends the others."""
    root = min(own, key=lambda rank: (own[rank], rank))
    at = own[root][0] + job.rng.uniform(0.1, 3.0)
    found = {rank: how for rank, how in own.items() if how[0] <= at}
    for rank in sorted(set(own) - set(found)) + list(alive):
        elastic(
            job, at, node, "W", "multiprocessing/api.py:898", f"Sending process {job.pids[rank]} closing signal SIGTERM"
        )
        job.end(rank, at + 0.5)
    elastic(
        job,
        at + 1.0,
        node,
        "E",
        "multiprocessing/api.py:870",
        f"failed (exitcode: {own[root][1]}) local_rank: {job.local(root)} (pid: "
        f"{job.pids[root]}) of binary: {job.place.python.split('/lib/')[0]}/bin/python3",
    )
    if job.torch < (2, 4) or job.rng.random() < 0.9:
        job.agent(at + 1.5, node, table(job, found, root))


def row(job, at, rank, code, number):
    t = job.when(at)
    lines = [
        f"[{number}]:",
        f"  time      : {t:%Y-%m-%d_%H:%M:%S}",
        f"  host      : {job.host(rank)}",
        f"  rank      : {rank} (local_rank: {job.local(rank)})",
        f"  exitcode  : {code} (pid: {job.pids[rank]})",
        "  error_file: <N/A>",
    ]
    return lines + [
        "  traceback : "
        + (
            f"Signal {-code} ({SIGNALS[-code]}) received by PID {job.pids[rank]}"
            if code < 0
            else "To enable traceback see: https://pytorch.org/docs/stable/elastic/errors.html"
        )
    ]


def table(job, own, root):
    rest = [rank for rank in sorted(own) if rank != root]
    site = job.place.python
    lines = [
        "Traceback (most recent call last):",
        f'  File "{site.split("/lib/")[0]}/bin/torchrun", line 8, in <module>',
        "    sys.exit(main())",
        f'  File "{site}/torch/distributed/elastic/multiprocessing/errors/__init__.py", line 355, in wrapper',
        "    return f(*args, **kwargs)",
        f'  File "{site}/torch/distributed/launcher/api.py", line 269, in launch_agent',
        "    raise ChildFailedError(",
        "torch.distributed.elastic.multiprocessing.errors.ChildFailedError: ",
        "=" * 60,
        "train.py FAILED",
        "-" * 60,
        "Failures:",
    ]
    if not rest:
        lines.append("  <NO_OTHER_FAILURES>")
    for number, rank in enumerate(rest):
        lines += row(job, own[rank][0], rank, own[rank][1], number + 1)
    return (
        lines
        + ["-" * 60, "Root Cause (first observed failure):"]
        + row(job, own[root][0] + 1, root, own[root][1], 0)
        + ["=" * 60]
    )


# Slurm


def exited(job, at, ranks, code):
    for node in range(job.nodes):
        tasks = [rank for rank in ranks if job.node_of(rank) == node]
        if tasks:
            how = f"Exited with exit code {code}" if code > 0 else SPOKEN[-code]
            name = f"tasks {tasks[0]}-{tasks[-1]}" if len(tasks) > 1 else f"task {tasks[0]}"
            job.launcher(at, f"srun: error: {job.place.hosts[node]}: {name}: {how}")


def srun(job, at, first, ended, others):
    for rank, (when, code) in sorted(ended.items(), key=lambda item: item[1])[:32]:
        exited(job, when + 0.5, [rank], code)
    if job.rng.random() < 0.6:  # --kill-on-bad-exit
        t = job.when(at + 1)
        job.launcher(at + 1, f"srun: Terminating StepId={job.number}.0")
        for node in range(job.nodes):
            job.launcher(
                at + 1.1,
                f"slurmstepd: error: *** STEP {job.number}.0 ON {job.place.hosts[node]} CANCELLED AT"
                f" {t:%Y-%m-%dT%H:%M:%S} ***",
            )
        for rank in others:
            job.end(rank, at + 1.5)
        exited(job, at + 2.5, others, -15)
        return
    let_notice(job, at, first, others, peers.flavour(job, first), ended)
    for code in sorted({ended[rank][1] for rank in others}):
        exited(
            job, max(when for when, _ in ended.values()) + 1, [rank for rank in others if ended[rank][1] == code], code
        )


# MPI


def mpirun(job, at, first, ended, others):
    code = ended[first][1]
    let_notice(
        job, at, first, others[:6] if job.program.name == "horovod" else others, peers.flavour(job, first), ended
    )
    at = at + 9
    for rank in others:
        job.end(rank, at)
    line, pid, host = "-" * 74, job.pids[first], job.host(first)
    if job.layout == "mpi_hydra":
        number = code if code > 0 else -code
        job.launcher(
            at,
            "=" * 83
            + f"\n=   BAD TERMINATION OF ONE OF YOUR APPLICATION PROCESSES\n=   PID {pid} RUNNING AT {host}\n=   EXIT"
            f" CODE: {number}\n=   CLEANING UP REMAINING PROCESSES\n=   YOU CAN IGNORE THE BELOW CLEANUP MESSAGES\n"
            + "=" * 83,
        )
        if code < 0:
            job.launcher(at, f"YOUR APPLICATION TERMINATED WITH THE EXIT STRING: {SPOKEN[-code]} (signal {-code})")
    elif code > 0:
        job.launcher(
            at,
            f"{line}\nPrimary job  terminated normally, but 1 process returned\na non-zero exit code. Per"
            f" user-direction, the job has been aborted.\n{line}\n{line}\nmpirun detected that one or more processes"
            " exited with non-zero status, thus causing\nthe job to be terminated. The first process to do so was:\n\n"
            f"  Process name: [[{pid % 60000},1],{first}]\n  Exit code:    {code}\n{line}",
        )
    else:
        job.launcher(
            at,
            f"{line}\nmpirun noticed that process rank {first} with PID {pid} on node {host} exited on signal {-code} "
            f"({SPOKEN[-code]}).\n{line}",
        )


# Others


def ray(job, at, first, ended, others):
    code = ended[first][1]
    let_notice(job, at, first, others, peers.flavour(job, first), ended)
    at = max(when for when, _ in ended.values()) + 1
    t = job.when(at)
    if code < 0:
        job.launcher(
            ended[first][0] + 1,
            f"(raylet, ip={job.address(first)}) A worker died or was killed while executing a task by an unexpected"
            " system error. To troubleshoot the problem, check the logs for the dead worker. Worker ID:"
            f" {job.rng.randrange(16**12):012x} Worker IP address: {job.address(first)} Worker PID: {job.pids[first]}"
            " Worker exit type: SYSTEM_ERROR Worker exit detail: Worker unexpectedly exits with a connection error"
            " code 2. End of file. There are some potential root causes. (1) The process is killed by SIGKILL by OOM"
            " killer due to high memory usage. (2) ray stop --force is called. (3) The worker is crashed unexpectedly"
            " due to SIGSEGV or other unexpected errors.",
        )
    job.launcher(
        at,
        f"{t:%Y-%m-%d %H:%M:%S},{t.microsecond // 1000:03d}\tERROR tune_controller.py:1331 -- Trial task failed for"
        " trial "
        f"TorchTrainer_{job.number % 4096:03x}_00000\nTraceback (most recent call last):\n"
        f'  File "{job.place.python}/ray/_private/worker.py", line 2623, in get\n    raise'
        " value.as_instanceof_cause()\n"
        + (
            f"ray.exceptions.RayTaskError: ray::_RayTrainWorker__execute.get_next() (pid={job.pids[first]},"
            f" ip={job.address(first)})"
            if code > 0
            else "ray.exceptions.ActorDiedError: The actor died unexpectedly before finishing this task."
        ),
    )


def serving(job, at, first, ended, others):
    if job.program.name == "sglang":
        t = job.when(at + 0.5)
        job.launcher(
            at + 0.5,
            f"[{t:%Y-%m-%d %H:%M:%S}] Received sigquit from a child process. It usually means the child"
            " failed.\nKilled",
        )
        job.hush(at + 0.6)
        return
    if ended[first][1] < 0:
        job.program.main(
            at + 0.5,
            f"[multiproc_executor.py:140] Worker proc VllmWorker-{first} died unexpectedly, shutting down executor.",
            "ERROR",
        )
    for rank in others[:2]:
        job.program.log(at + 0.8, rank, "[multiproc_executor.py:520] Parent process exited, terminating worker")
    job.hush(at + 1.0)
    for text in (
        "[core.py:502] EngineCore encountered a fatal error.",
        "[core.py:502] Traceback (most recent call last):",
        f'[core.py:502]   File "{job.place.python}/vllm/v1/engine/core.py", line 493, in run_engine_core',
        "[core.py:502]     engine_core.run_busy_loop()",
        "[core.py:502] RuntimeError: Worker failed with error, please check the stack trace above for the root cause",
        "[async_llm.py:420] AsyncLLM output_handler failed.",
        (
            "[async_llm.py:420] vllm.v1.engine.exceptions.EngineDeadError: EngineCore encountered an issue. See stack"
            " trace (above) for the root cause."
        ),
    ):
        job.program.main(at + 1.2, text, "ERROR")
    job.launcher(
        at + 2, f'INFO:     {job.place.net}.3:51844 - "POST /v1/chat/completions HTTP/1.1" 500 Internal Server Error'
    )


def unwatched(job, at, first, ended, others):
    """Each rank by itself: nothing ends the others but they themselves."""
    let_notice(job, at, first, others, peers.flavour(job, first), ended)
    if job.program.name == "composer":
        job.launcher(
            at + 0.5,
            f"ERROR:composer.cli.launcher:Rank {first} crashed with exit code {ended[first][1]}.\nWaiting up to 30"
            " seconds for all training processes to terminate. Press Ctrl-C to exit immediately.",
        )
        for rank in others:
            job.end(rank, at + 30)
