"""Set c: jobs that went well though their ends look otherwise, and jobs whose logs do not explain their end."""

from composer import aftermath, peers
from composer.found import found_healthy, found_unknown
from composer.kinds import reported, several, torch

# Healthy


@found_healthy()
def nothing_odd(job, at):
    return "the job ran to its end"


@found_healthy(torch)
def group_left_alone(job, at):
    for rank in range(job.size):
        job.error(
            at + 1,
            rank,
            f"[rank{rank}]:[{job.glog(at + 1, 'W')} ProcessGroupNCCL.cpp:1496] Warning: WARNING:"
            " destroy_process_group() was not called before program exit, which can leak resources. For more info,"
            " please see https://pytorch.org/docs/stable/distributed.html#shutdown (function operator())",
        )
    return "the job ran to its end and left its process group alone"


@found_healthy(torch)
def planned_exit(job, at):
    job.rank(at + 1, 0, f"[exiting program after 230.02 minutes] datetime: {job.when(at + 1):%Y-%m-%d %H:%M:%S} ")
    return "the job left at the time that was planned"


@found_healthy(torch)
def early_stop(job, at):
    job.rank(
        at + 1,
        0,
        "Monitored metric val_loss did not improve in the last 3 records. Best score: 2.114. Signaling Trainer to"
        " stop.",
    )
    return "the job stopped because it no longer learned"


@found_healthy()
def noise_at_shutdown(job, at):
    rank = job.rng.randrange(job.size)
    text = job.rng.choice(
        (
            (
                "Exception ignored in atexit callback: <function _exit_function at 0x7f0e6d1268c0>\nTraceback (most"
                ' recent call last):\n  File "/usr/lib/python3.10/multiprocessing/util.py", line 357, in'
                " _exit_function\n    p.join()\nKeyboardInterrupt: "
            ),
            (
                "Exception ignored in: <function _MultiProcessingDataLoaderIter.__del__ at 0x7f6caf503050>\nTraceback"
                " (most recent call last):\nAssertionError: can only test a child process"
            ),
            "sys:1: ResourceWarning: unclosed socket <socket.socket fd=78, family=2, type=1, proto=6>",
            (
                "Error in atexit._run_exitfuncs:\nTraceback (most recent call last):\nImportError: sys.meta_path is"
                " None, Python is likely shutting down"
            ),
        )
    )
    job.error(at + 1.5, rank, text)
    return "the job ran to its end, and the interpreter complained on its way out"


@found_healthy(lambda job: job.program.saves)
def late_upload(job, at):
    job.error(
        at + 1,
        0,
        "wandb: Network error (ReadTimeout), entering retry loop.\nwandb: ERROR Error while calling W&B API: context"
        " deadline exceeded (<Response [504]>)\nwandb: You can sync this run to the cloud by running:\nwandb: wandb"
        f" sync {job.place.saves}/wandb/offline-run",
    )
    return "the job ran to its end, but its records stayed at home"


@found_healthy(lambda job: job.program.name == "jax")
def late_disconnect(job, at):
    t = job.when(at + 2)
    job.error(
        at + 2,
        job.size - 1,
        f"{t:%Y-%m-%d %H:%M:%S.%f}: E"
        " external/tsl/tsl/distributed_runtime/coordination/coordination_service_agent.cc:481] Failed to disconnect"
        " from coordination service with status: DEADLINE_EXCEEDED: Deadline Exceeded. Proceeding with agent shutdown"
        " anyway.",
    )
    return "the job ran to its end, and one task left late"


@found_healthy(lambda job: job.launched == "torchrun")
def agent_leaves_late(job, at):
    aftermath.elastic(
        job,
        at + 3,
        job.nodes - 1,
        "W",
        "rendezvous/dynamic_rendezvous.py:1341",
        f"The node '{job.place.hosts[-1]}_{job.pids[0]}_0' has failed to shutdown the rendezvous 'none' due to an error"
        " of type RendezvousConnectionError.",
    )
    return "the job ran to its end, and the store left before an agent"


@found_healthy(lambda job: job.in_slurm and job.launched == "srun")
def accounting_in_trouble(job, at):
    job.launcher(
        at + 4,
        "slurmstepd: error: Unable to send job complete message: Unable to contact slurm controller (connect"
        f" failure)\nslurmstepd: error: *** trying again, StepId={job.number}.0 ***",
    )
    return "the job ran to its end, and Slurm had trouble to hear of it"


@found_healthy(lambda job: job.launched == "vllm")
def stopped_server(job, at):
    job.launcher(
        at + 1, "INFO:     Finished server process [1]\nERROR:    Exception in ASGI application (client disconnected)"
    )
    return "the server was shut down in good order"


@found_healthy(torch)
def survived(job, at):
    """Something went wrong and was put right long before the end."""
    rank = job.rng.randrange(job.size)
    job.error(
        at - 60,
        rank,
        "WARNING: OOM in forward, skipping batch: CUDA out of memory. Tried to allocate 2.00 GiB\nINFO: emptied the"
        " cache, batch of 4 is split in 2",
    )
    return "the job skipped a batch and ran to its end"


# Not explained


@found_unknown(lambda job: several(job) and reported(job))
def leaves_with_odd_status(job, at):
    rank, code = job.rng.randrange(job.size), job.rng.choice((3, 120, 255))
    aftermath.follow(job, {rank: (at, code)})
    return f"rank {rank} exited with status {code} and wrote nothing"


@found_unknown(lambda job: several(job) and reported(job))
def aborts_without_a_word(job, at):
    rank = job.rng.randrange(job.size)
    aftermath.follow(job, {rank: (at, -6)})
    return f"rank {rank} aborted, nothing tells why"


@found_unknown(lambda job: several(job) and reported(job) and job.nodes > 1)
def node_leaves(job, at):
    node = job.rng.randrange(job.nodes)
    aftermath.follow(job, {rank: (at + job.rng.random(), -9) for rank in job.ranks_of(node)})
    return f"all ranks of {job.place.hosts[node]} were killed, nothing tells by whom"


@found_unknown(several)
def torn_line(job, at):
    """The log of rank 0 stops within a line, and with it all others."""
    job.rank(at - 0.1, 0, f"{job.stamp(at)}step {job.program.first + 25}")
    job.hush(at)
    return "all ranks fall silent, one of them within a line"


@found_unknown(lambda job: several(job) and torch(job))
def only_advice(job, at):
    """What is written before the silence happens in good jobs too."""
    job.error(
        at - 1,
        job.rng.randrange(job.size),
        "UserWarning: grad.sizes() = [32000, 4096], strides() differ from bucket view. This may impair performance.",
    )
    job.hush(at)
    return "all ranks fall silent after a warning that means nothing"


@found_unknown(lambda job: torch(job) and job.nodes > 1 and job.launched in ("srun", "none"))
def only_echoes(job, at):
    """All that is there are errors of those who lost their peer; the peer's own log ends in the middle."""
    dead = job.rng.randrange(job.size)
    job.end(dead, at)
    for rank in [r for r in range(job.size) if r != dead]:
        peers.remote(job, at + job.rng.uniform(0.3, 4.0), rank, dead)
        job.end(rank, at + 6)
    return f"rank {dead} fell silent and its peers noticed, nothing tells why"


@found_unknown(lambda job: job.launched == "torchrun" and job.nodes > 1)
def agents_fall_silent(job, at):
    for rank in range(job.size):
        job.end(rank, at + job.rng.uniform(0, 3))
    pid = job.pids[0] - 60
    job.agent(
        at + 60,
        0,
        f"{job.elastic(at + 60, 'I')} {pid} torch/distributed/elastic/agent/server/api.py:885] [default] worker"
        " group is HEALTHY, monitoring",
    )
    return "the ranks fall silent while an agent goes on"


@found_unknown(lambda job: job.launched == "ray" and several(job))
def actor_dies(job, at):
    rank = job.rng.randrange(job.size)
    aftermath.follow(job, {rank: (at, -9)})
    return f"the actor of rank {rank} died, Ray guesses why"
