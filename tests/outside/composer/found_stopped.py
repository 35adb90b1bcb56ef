"""Set c: jobs that somebody or something stopped."""

from composer.found import found
from composer.job import Truth
from composer.kernel_log import kern
from composer.kinds import lost_node, nodes, torch


def own_batch(job):
    """Without Slurm and Kubernetes another batch system may be above."""
    return job.launched in ("mpirun", "none") and not job.in_slurm


@found("terminated", own_batch, 3)
def limit_of_batch_system(job, at):
    text = job.rng.choice(
        (
            "=>> PBS: job killed: walltime 86424 exceeded limit 86400",
            "TERM_RUNLIMIT: job killed after reaching LSF run time limit.\nExited with exit code 140.",
            "0.482s: job.exception type=timeout severity=0 resource allocation expired",
        )
    )
    job.launcher(at, text, mark=0)
    job.hush(at + 0.5)
    return Truth("terminated", "the batch system ended the job at its time limit"), None


@found("out_of_memory", own_batch, 2)
def memory_of_batch_system(job, at):
    text = job.rng.choice(
        (
            "=>> PBS: job killed: mem 403177472kb exceeded limit 402653184kb",
            "TERM_MEMLIMIT: job killed after reaching LSF memory usage limit.\nExited with exit code 137.",
        )
    )
    job.launcher(at, text, mark=0)
    job.hush(at + 0.5)
    return Truth("out_of_memory", "the batch system ended the job for its use of memory", (), ["terminated"]), None


@found("terminated", lambda job: job.in_slurm, 2)
def requeued(job, at):
    t = f"{job.when(at):%Y-%m-%dT%H:%M:%S}"
    for node in range(job.nodes):
        job.launcher(
            at + node * 0.01,
            f"slurmstepd: error: *** JOB {job.number} ON {job.place.hosts[node]} CANCELLED AT {t} DUE TO JOB"
            " REQUEUE ***",
            mark=0,
            also=node > 0,
        )
    job.hush(at + 0.5)
    return Truth("terminated", "the job was sent back to the queue"), None


@found("terminated", lambda job: torch(job) and job.launched in ("srun", "none"), 2)
def told_to_leave(job, at):
    """Ranks write of the signal that ends them."""
    style = job.rng.randrange(3)
    for rank in range(job.size):
        moment = at + job.rng.uniform(0.001, 0.4) * (rank > 0)
        t = job.when(moment)
        text = (
            f"[rank: {rank}] Received SIGTERM: 15\nTraceback (most recent call last):\n"
            f'  File "{job.place.python}/lightning/pytorch/trainer/call.py", line 47, in _call_and_handle_interrupt\n'
            "lightning.pytorch.utilities.exceptions.SIGTERMException",
            (
                f"submitit WARNING ({t:%Y-%m-%d %H:%M:%S},{t.microsecond // 1000:03d}) - Caught signal SIGUSR2 on"
                f" {job.host(rank)}: this job is preempted."
            ),
            (
                f'Traceback (most recent call last):\n  File "{job.place.work}/train.py", line 212, in <module>\n   '
                " main()\nKeyboardInterrupt"
            ),
        )[style]
        job.error(moment, rank, text, mark=(0, 0, -1)[style], also=rank > 0, more=(3,) if style == 0 else ())
    job.hush(at + 1)
    return Truth("terminated", "the ranks were told to leave"), None


EVENTS = (
    "Warning  DeadlineExceeded  job/{job}  Job was active longer than specified deadline",
    "Normal   Shutdown          pod/{pod}  Pod was terminated in response to imminent node shutdown.",
    (
        "Warning  SpotInterruption  node/{host}  Spot Interruption event received. Instance will be interrupted at 2"
        " minutes"
    ),
    "Normal   DeletingNode      node/{host}  Deleting node {host} because it does not exist in the cloud provider",
)


@found("terminated", lambda job: job.in_k8s and nodes(job), 5)
def ended_by_cluster(job, at):
    text, node = job.rng.choice(EVENTS), job.rng.randrange(job.nodes)
    names = {"job": job.pod(0).split("-worker")[0], "pod": job.pod(node), "host": job.place.hosts[node]}
    job.scheduler(at, job.stamp(at, "iso") + text.format(**names), mark=0)
    if "DeadlineExceeded" in text:
        job.hush(at + 0.5)
        return Truth("terminated", "the job was active for longer than its deadline", (), ["timeout"]), None
    truth = Truth("terminated", f"the cluster took {names['host']} away", job.ranks_of(node), ["hardware"])
    return truth, lost_node(job, at + 0.5, node)


@found("terminated", lambda job: job.has_kernel and nodes(job) and job.launched in ("torchrun", "none"), 2)
def rebooted(job, at):
    node = job.rng.randrange(job.nodes)
    kern(job, at, node, "reboot: Restarting system", mark=0)
    kern(job, at - 3, node, "systemd-shutdown[1]: Syncing filesystems and block devices.", mark=0, also=True)
    truth = Truth("terminated", f"somebody restarted {job.place.hosts[node]}", job.ranks_of(node), ["hardware"])
    return truth, lost_node(job, at + 0.5, node)
