"""Set c: jobs that never came to start, and failures of MPI."""

from composer import aftermath, peers
from composer.found import CAUSED, found, never_started, rule
from composer.job import Truth
from composer.kernel_log import kern
from composer.kinds import all_out, mpi, nodes, open_mpi, torch


def hydra(job):
    return job.layout == "mpi_hydra"


# Environment


@found("environment", lambda job: job.launched == "srun", 3, early=True)
def no_container(job, at):
    never_started(job)
    why = job.rng.choice(
        (
            (
                "    [ERROR] URL https://registry-1.docker.io/v2/team/train/manifests/24.07 returned error code: 401"
                " Unauthorized"
            ),
            "    mkdir: cannot create directory '/run/enroot': Permission denied",
            "    enroot-switchroot: failed to execute: /bin/bash: No such file or directory",
        )
    )
    for node in range(job.nodes):
        rows = [
            (
                "pyxis: failed to import docker image"
                if "switchroot" not in why
                else "pyxis: container start failed with error code: 1"
            ),
            "pyxis: printing log file ...",
            f"pyxis: {why}",
            "pyxis: couldn't start container",
            "spank: required plugin spank_pyxis.so: task_init() failed with rc=-1",
            "Failed to invoke spank plugin stack",
        ]
        rows = [f"slurmstepd: error: {row}" for row in rows]
        job.launcher(at + node * 0.3, rows, mark=0 if node == 0 else 2, also=node > 0, more=(2, 3))
    aftermath.exited(job, at + job.nodes, range(job.size), 1)
    return Truth("environment", "the container could not be started", (), ["filesystem", "network"]), None


@found("environment", lambda job: job.launched in ("srun", "none"), 2, early=True)
def no_program(job, at):
    never_started(job)
    text = job.rng.choice(
        (
            "python: can't open file '{work}/train.py': [Errno 2] No such file or directory",
            "/bin/bash: line 1: python: command not found",
            "{work}/run.sh: line 14: /opt/conda/etc/profile.d/conda.sh: No such file or directory",
            "bash: {work}/run.sh: Permission denied",
            "slurmstepd: error: execve(): {work}/run.sh: No such file or directory",
        )
    ).format(work=job.place.work)
    job.ended_at = {}
    for rank in range(job.size):
        job.error(at + rank * 0.001, rank, text, mark=0, also=rank > 0)
    if job.launched == "srun":
        aftermath.exited(job, at + 1, range(job.size), 127)
    return Truth("environment", "the program cannot be started", (), ["filesystem", "python"]), None


@found("environment", lambda job: job.has_kernel and job.launched in ("srun", "torchrun", "mpirun"), 2, early=True)
def too_new_code(job, at):
    """A library was built for a newer CPU."""
    rank = job.rng.randrange(job.size)
    text = f"traps: python3[{job.pids[rank]}] trap invalid opcode ip:7f3c1c2f8a1e sp:7ffd2ad1c0f0 error:0 in"
    kern(job, at, job.node_of(rank), f"{text} libfused_ops.so[7f3c1c000000+5c000]", mark=0)
    job.joined = False
    return Truth(
        "environment", f"a library is too new for the CPU of {job.host(rank)}", [rank], ["hardware", "python"]
    ), {rank: (at + 0.1, -4)}


@found("environment", lambda job: job.in_k8s and nodes(job), 4, early=True)
def pod_cannot_start(job, at):
    node = job.rng.randrange(1, job.nodes)
    pod, also = job.pod(node), ["rendezvous", "filesystem", "network"]
    rows = job.rng.choice(
        (
            (
                (
                    f'Warning  Failed       pod/{pod}  Failed to pull image "registry.local/team/train:24.07": rpc'
                    " error: code = NotFound desc = failed to pull and unpack image"
                ),
                f"Warning  Failed       pod/{pod}  Error: ImagePullBackOff",
            ),
            (
                (
                    f'Warning  FailedMount  pod/{pod}  MountVolume.SetUp failed for volume "pvc-3f1c" : rpc error: code'
                    " = DeadlineExceeded desc = context deadline exceeded"
                ),
                f"Warning  FailedMount  pod/{pod}  Unable to attach or mount volumes: unmounted volumes=[data]",
            ),
            (
                (
                    f"Warning  Failed       pod/{pod}  Error: failed to create containerd task: failed to create shim"
                    " task: OCI runtime create failed: nvidia-container-cli: initialization error: nvml error: driver"
                    " not loaded"
                ),
                f"Warning  BackOff      pod/{pod}  Back-off restarting failed container pytorch in pod {pod}",
            ),
        )
    )
    for number, row in enumerate(rows):
        when = at * 0.3 + number * 15
        job.scheduler(when, job.stamp(when, "iso") + row, mark=0, also=number > 0)
    for rank in job.ranks_of(node):
        job.end(rank, 0.0)
    others = [rank for rank in range(job.size) if job.node_of(rank) != node]
    job.joined, job.absent = False, job.size - len(others)
    dead = job.ranks_of(node)[0]
    ended = {rank: peers.notice(job, at, rank, dead, "join") for rank in others}
    for rank, (when, _) in ended.items():
        job.end(rank, when)
    return Truth("environment", f"the pod of {job.place.hosts[node]} never started", job.ranks_of(node), also), None


@found("python", lambda job: torch(job) and job.launched in ("srun", "none"), 2, early=True)
def wrong_arguments(job, at):
    name = job.rng.choice(("--use-flash-attn", "--micro-batch-sise 4", "--fp8-hybrid"))
    text = (
        "usage: pretrain_gpt.py [-h] [--num-layers NUM_LAYERS] [--hidden-size HIDDEN_SIZE]\n                       "
        f"[--seq-length SEQ_LENGTH] [--lr LR]\npretrain_gpt.py: error: unrecognized arguments: {name}"
    )
    for rank in range(job.size):
        job.error(at + rank * 0.002, rank, text, mark=2, also=rank > 0)
    return Truth("python", "the program does not know an option", (), ["environment"]), all_out(job, at + 0.5, 2)


# Meeting


@found("rendezvous", lambda job: job.launched == "torchrun" and nodes(job), 4, early=True)
def agents_do_not_meet(job, at):
    never_started(job)
    site, error = job.place.python, "torch.distributed.elastic.rendezvous.api."
    if job.rng.random() < 0.7:
        last = (
            f"{error}RendezvousConnectionError: The connection to the C10d store has failed. See inner exception for"
            " details."
        )
        first = "RuntimeError: connect() timed out. Original timeout was 60000 ms."
    else:
        last, first = f"{error}RendezvousTimeoutError", ""
    for node in range(1, job.nodes):
        rows = ["Traceback (most recent call last):"]
        if first:
            path = f"{site}/torch/distributed/elastic/rendezvous/c10d_rendezvous_backend.py"
            rows += [f'  File "{path}", line 155, in _create_tcp_store', "    store = TCPStore("]
            rows += [first, "", CAUSED, "", "Traceback (most recent call last):"]
        rows += [
            f'  File "{site}/torch/distributed/launcher/api.py", line 237, in launch_agent',
            "    result = agent.run()",
            last,
        ]
        more = (3,) if first else ()
        job.agent(at + node * 0.4, node, rows, mark=-1, also=node > 1, more=more)
    return Truth("rendezvous", "the agents did not meet", (), ["network", "timeout"]), None


@found("rendezvous", lambda job: job.launched == "vllm", 3, early=True)
def port_of_the_server(job, at):
    job.launcher(
        at,
        "ERROR:    [Errno 98] error while attempting to bind on address ('0.0.0.0', 8000): address already in"
        " use\nINFO:     Waiting for application shutdown.\nINFO:     Application shutdown complete.",
        mark=0,
    )
    job.hush(at + 1)
    return Truth("rendezvous", "the port of the server was in use", (), ["network", "environment", "python"]), None


# MPI


@found("mpi", hydra, 4, early=True)
def no_init_of_mpich(job, at):
    text = job.rng.choice(
        (
            (
                "MPIR_Init_thread(703)........: \nMPID_Init(958)...............: \nMPIDI_OFI_mpi_init_hook(1382): OFI"
                " get address vector map failed"
            ),
            (
                "MPIR_Init_thread(189)........:\nMPID_Init(1561)..............:\nMPIDI_OFI_mpi_init_hook(1624):\n"
                "create_vni_context(2221).....: OFI endpoint open failed"
                " (ofi_init.c:2221:create_vni_context:Invalid argument)"
            ),
        )
    )
    for rank in range(job.size):
        job.error(
            at + rank * 0.001,
            rank,
            f"Abort({1091471}) on node {rank} (rank {rank} in comm 0): Fatal error in PMPI_Init: Other MPI error, error"
            f" stack:\n{text}",
            mark=0,
            also=rank > 0,
            more=(text.count("\n") + 1,),
        )
    return Truth("mpi", "MPI_Init failed in libfabric", (), ["network", "environment"]), all_out(job, at + 0.5, 15)


@found("mpi", hydra, 4)
def failed_assertion(job, at):
    rank = job.rng.randrange(job.size)
    job.error(
        at,
        rank,
        "Assertion failed in file src/mpid/ch4/src/init_comm.c at line 72: in_use =="
        f" 0\n/opt/mpich/lib/libmpi.so.12(+0x1d86514) [0x14763ac07514]\ninternal ABORT - process {rank}",
        mark=0,
        more=(2,),
    )
    return Truth("mpi", f"an assertion of MPICH failed on rank {rank}", [rank]), {rank: (at + 0.2, 1)}


@found("mpi", lambda job: mpi(job), 4, early=True)
def launch_failed(job, at):
    never_started(job)
    far, also = job.place.hosts[-1], ["network", "environment"]
    if hydra(job):
        job.launcher(
            at,
            f"[mpiexec@{job.place.hosts[0]}] check_exit_codes"
            " (../../../../../src/pm/i_hydra/libhydra/demux/hydra_demux_poll.c:117): unable to run bstrap_proxy on"
            f" {far} (pid 24211, exit code 65280)\n[mpiexec@{job.place.hosts[0]}] poll_for_event"
            " (../../../../../src/pm/i_hydra/libhydra/demux/hydra_demux_poll.c:159): check exit codes error",
            mark=0,
            more=(1,),
        )
        return Truth("mpi", f"mpiexec could not start its proxy on {far}", (), also), None
    text = job.rng.choice(
        (
            (
                f"There are not enough slots available in the system to satisfy the {job.size}\nslots that were"
                " requested by the application:\n\n  python3\n\nEither request fewer procs for your application, or"
                " make more slots\navailable for use."
            ),
            (
                "ORTE was unable to reliably start one or more daemons.\nThis usually is caused by:\n\n* not finding"
                " the required libraries and/or binaries on\n  one or more nodes. Please check your PATH and"
                " LD_LIBRARY_PATH\n  settings, or configure OMPI with --enable-orterun-prefix-by-default\n\n* lack of"
                " authority to execute on one or more specified nodes.\n  Please verify your allocation and"
                " authorities."
            ),
        )
    )
    job.launcher(at, rule(text), mark=1)
    return Truth("mpi", "mpirun could not start the ranks", (), also), None


@found("network", lambda job: open_mpi(job) and nodes(job), 3, early=True)
def unreachable_endpoint(job, at):
    rank, far = job.rng.sample(range(job.size), 2)
    start, pid = f"[{job.host(rank)}:{job.pids[rank]:05d}]", job.pids[rank]
    choice = job.rng.randrange(2)
    if choice:
        job.error(
            at,
            rank,
            f"[{job.stamp(at, 'epoch').strip()}] [{job.host(rank)}:{pid}:0]           sock.c:116  UCX  ERROR"
            f" connect(fd=34, dest_addr={job.address(far)}:35892) failed: Connection timed out\n{start} pml_ucx.c:383 "
            f" Error: ucp_ep_create(proc={far}) failed: Destination is unreachable\n{start} pml_ucx.c:453  Error:"
            f" Failed to resolve UCX endpoint for rank {far}\n{start} *** An error occurred in MPI_Allgather\n{start}"
            f" *** MPI_ERR_OTHER: known error not in list\n{start} *** MPI_ERRORS_ARE_FATAL (processes in this"
            f" communicator will now abort,\n{start} ***    and potentially your MPI job)",
            mark=0,
            more=(1, 2),
        )
    else:
        job.error(
            at,
            rank,
            f"[{job.host(rank)}:{pid} :0:{pid}]    ud_iface.c:737  UCX Fatal: transport error: Endpoint timeout\n===="
            " backtrace ====\n    0  /usr/lib64/libucs.so.0(ucs_fatal_error+0xf7) [0x2b6916329d87]\n    1 "
            " /usr/lib64/libuct.so.0(+0x3e6f8) [0x2b691657f6f8]\n===================",
            mark=0,
        )
    return Truth("network", f"rank {rank} cannot reach another rank by UCX", [rank], ["mpi", "timeout"]), {
        rank: (at + 0.4, 15 if choice else -6)
    }


@found("network", lambda job: open_mpi(job) and nodes(job), 3, early=True)
def blocked_connection(job, at):
    never_started(job)
    text = (
        "A process or daemon was unable to complete a TCP connection\nto another process:\n  Local host:   "
        f" {job.place.hosts[-1]}\n  Remote host:   {job.place.hosts[0]}\nThis is usually caused by a firewall on the"
        " remote host. Please\ncheck that any firewall (e.g., iptables) has been disabled and\ntry again."
    )
    job.launcher(at, rule(text), mark=1)
    return Truth("network", "a daemon of Open MPI could not connect", (), ["mpi", "environment"]), None
