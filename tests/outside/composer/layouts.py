"""Which file a line goes to, and what is put before it. A layout is a function (job, line) -> (file, text)."""

import collections

from composer.kernel_log import STYLES

Layout = collections.namedtuple("Layout", "place launched sizes weight")
LAYOUTS = {}


def layout(name, launched, sizes=(1, 512), weight=1):
    def register(function):
        LAYOUTS[name] = Layout(function, launched, sizes, weight)
        return function

    return register


def elsewhere(job, line):
    """Lines of a source that has its own file in every layout."""
    kind, number = line.source
    if kind == "kernel":
        return job.kernel_file.format(host=job.place.hosts[number]), line.text
    return ("events.txt" if job.in_k8s else "scheduler.log"), line.text


def is_rank(line):
    return line.source[0] == "rank"


@layout("one file", ("torchrun",), (1, 64), 2)
def one_file(job, line):
    """torch before 2.4: nothing says which rank wrote a line."""
    return job.main_file, line.text


@layout("one file, [rankN]", ("torchrun",), (2, 128), 3)
def ranked_file(job, line):
    return job.main_file, line.text


@layout("[defaultN] by node", ("torchrun",), (2, 512), 2)
def by_node(job, line):
    kind, number = line.source
    if kind == "rank":
        return f"{job.host(number)}.log", f"[default{job.local(number)}]:{line.text}"
    return (f"{job.place.hosts[number]}.log" if kind == "agent" else job.main_file), line.text


@layout("torchrun folders", ("torchrun",), (2, 512), 3)
def torchrun_folders(job, line):
    kind, number = line.source
    if kind == "rank":
        return f"{job.host(number)}/{job.run_id}/attempt_0/{job.local(number)}/std{line.stream}.log", line.text
    return (f"{job.place.hosts[number]}/agent.log" if kind == "agent" else job.main_file), line.text


@layout("slurm %t", ("srun",), (2, 512), 3)
def slurm_tasks(job, line):
    if is_rank(line):
        return job.task_file.format(rank=line.source[1], stream=line.stream), line.text
    return f"slurm-{job.number}.out", line.text


@layout("srun -l", ("srun",), (2, 512), 3)
def srun_labels(job, line):
    if is_rank(line):
        return f"slurm-{job.number}.out", f"{line.source[1]:{len(str(job.size - 1))}d}: {line.text}"
    return f"slurm-{job.number}.out", line.text


@layout("mpirun --tag-output", ("mpirun",), (2, 256), 3)
def mpirun_tags(job, line):
    if is_rank(line):
        when = f"{job.when(line.at):%a %b %d %H:%M:%S %Y}" if job.tags_have_times else ""
        return "mpirun.log", f"{when}[1,{line.source[1]}]<std{line.stream}>:{line.text}"
    return "mpirun.log", line.text


@layout("mpi_hydra", ("mpirun",), (2, 64), 1)
def hydra(job, line):
    return "job.out", f"[{line.source[1]}] {line.text}" if is_rank(line) else line.text


@layout("kubernetes pods", ("torchrun",), (2, 256), 3)
def pods(job, line):
    kind, number = line.source
    if kind == "launcher":
        return "events.txt", line.text
    node = job.node_of(number) if kind == "rank" else number
    tag = f"[default{job.local(number)}]:" if kind == "rank" and job.tee else ""
    return (
        f"{job.pod(node)}.log",
        (job.stamp(line.at, "iso").replace("Z", "412331Z") if job.tags_have_times else "") + tag + line.text,
    )


@layout("ray", ("ray",), (2, 64), 2)
def ray(job, line):
    if is_rank(line):
        rank = line.source[1]
        return "driver.log", f"(RayTrainWorker pid={job.pids[rank]}, ip={job.address(rank)}) {line.text}"
    return "driver.log", line.text


@layout("vllm or sglang", ("vllm",), (2, 8), 2)
def serving(job, line):
    if is_rank(line) and job.program.name == "vllm":
        return "serve.log", f"(VllmWorker rank={line.source[1]} pid={job.pids[line.source[1]]}) {line.text}"
    return "serve.log", line.text


@layout("file by rank", ("none",), (1, 512), 4)
def by_rank(job, line):
    if is_rank(line):
        rank = line.source[1]
        return job.rank_file.format(rank=rank, host=job.host(rank)), line.text
    return "launch.log", line.text


def furnish(job, name):
    """Chooses what a layout leaves open: names of files, launcher, versions."""
    rng = job.rng
    job.launched = rng.choice(LAYOUTS[name].launched)
    if name == "one file":
        job.torch = rng.choice(((1, 13), (2, 0), (2, 1), (2, 3)))
    job.in_k8s = name == "kubernetes pods"
    job.in_slurm = job.launched == "srun" or (job.launched == "torchrun" and not job.in_k8s and rng.random() < 0.4)
    job.main_file = (
        f"slurm-{job.number}.out"
        if job.in_slurm
        else rng.choice(("train.log", "nohup.out", "console.txt", "output.log"))
    )
    job.has_kernel = rng.random() < 0.4
    job.has_scheduler = job.in_slurm and rng.random() < 0.3
    job.kernel_style = rng.choice(STYLES)
    job.kernel_file = rng.choice(("dmesg-{host}.txt", "kernel/{host}.log", "{host}-journal.log", "{host}.kern.log"))
    job.nccl_logs = rng.random() < 0.3
    job.tee, job.tags_have_times = rng.random() < 0.4, rng.random() < 0.3
    job.run_id = rng.choice((f"none_{rng.randrange(36**6):x}", f"{job.number}_{rng.randrange(36**5):x}"))
    job.task_file = rng.choice(
        (
            f"{job.number}_{{rank}}.std{{stream}}".replace("std{stream}", "{stream}"),
            f"logs/job.{job.number}.{{rank}}.out",
            f"{job.number}_{{rank}}_log.{{stream}}",
        )
    )
    job.rank_file = rng.choice(
        ("rank_{rank}.log", "rank{rank}.log", "log.{rank}", "logs/rank-{rank:03d}.txt", "{host}/rank_{rank}.log")
    )
    stem = rng.choice(("llm-pretrain", "job", "sft-7b"))
    job.pod = lambda node: f"{stem}-worker-{node}"


def files_of(job, name):
    """{file: [Line with its text as the file shows it]}, each in the order of time."""
    files = collections.defaultdict(list)
    place = LAYOUTS[name].place
    for line in sorted(job.lines, key=lambda line: (line.at, line.order)):
        path, text = (elsewhere if line.source[0] in ("kernel", "scheduler") else place)(job, line)
        files[path].append(line._replace(text=text))
    return files
