"""Sets d and e: failures, unexplained and odd ends and noise from public reports that no other set has.

reported.toml holds the texts. `raised` are rows of raised.py; the other entries have these keys:

fits      conditions on the job, all of which must hold: see FITS
by        who writes the text, and so who is to blame: see WRITERS
then      what the rank raises after the kernel's words
code      how ranks end (below 0: by a signal)
where     the moment of a traceback
peers     other ranks notice by NCCL
early, weight, also_ok, category, what: as in kinds.py and job.py
"""

import pathlib
import tomllib

from composer import aftermath, peers
from composer.found import never_started
from composer.job import Truth
from composer.kernel_log import kern
from composer.kinds import Kind, all_out, lost_node
from composer.raise_it import EARLY, fill, raise_it, values
from composer.raised import Raised

HALVES = ("d", "e")
FITS = {
    "torch": lambda job: job.program.uses_torch and job.launched != "vllm",
    "several": lambda job: job.size > 1,
    "nodes": lambda job: job.nodes > 1,
    "kernel": lambda job: job.has_kernel,
    "k8s": lambda job: job.in_k8s,
    "slurm": lambda job: job.in_slurm,
    "batch": lambda job: job.launched in ("mpirun", "none") and not job.in_slurm,
    "serving": lambda job: job.launched == "vllm",
    "hydra": lambda job: job.layout == "mpi_hydra",
    "openmpi": lambda job: job.launched == "mpirun" and job.layout != "mpi_hydra",
    **{name: lambda job, name=name: job.program.name == name for name in ("solver", "horovod", "jax", "sglang", "vllm")},
    **{
        name: lambda job, name=name: job.launched == name
        for name in ("srun", "mpirun", "torchrun", "ray", "none")
    },
}


class Scene:
    """An entry that happens to a job: which rank it hits, and the text with its names."""

    def __init__(self, job, at, entry):
        self.job, self.at, self.entry = job, at, entry
        self.rank = job.rng.randrange(job.size)
        self.text = job.rng.choice(entry["texts"])

    def rows(self, rank=None):
        """The lines, the number of the one that explains, and the numbers of those that explain as well."""
        job, rank, t = self.job, self.rank if rank is None else rank, self.job.when(self.at)
        names = values(job, rank, job.program.first) | {
            "bus": job.bus(rank),
            "ip": job.address(rank),
            "number": job.number,
            "peer": (rank + 1) % job.size,
            "pod": job.pod(job.node_of(rank)) if job.in_k8s else "pod",
            "glog": f"{t:%m%d %H:%M:%S.%f}",
            "t": f"{t:%Y-%m-%dT%H:%M:%S}",
            "day": f"{t:%Y-%m-%d}",
            "clock": f"{t:%H:%M:%S}",
        }
        rows = fill(self.text, names).split("\n")
        mark = next((number for number, row in enumerate(rows) if row.startswith("@")), 0)
        more = [number for number, row in enumerate(rows) if row.startswith("&")]
        return [row.lstrip("@&") for row in rows], mark, more

    def code(self):
        return self.entry.get("code", 1)


def ranks_write(scene, ranks):
    for rank in ranks:
        rows, mark, more = scene.rows(rank)
        first = rank == ranks[0]
        scene.job.error(scene.at + rank * 0.002, rank, rows, mark=mark, also=not first, more=more)
    return {rank: (scene.at + 0.5 + rank * 0.002, scene.code()) for rank in ranks}


def one(scene):
    return [scene.rank], ranks_write(scene, [scene.rank])


def everyone(scene):
    return (), ranks_write(scene, range(scene.job.size))


def host(scene):
    ranks = scene.job.ranks_of(scene.job.node_of(scene.rank))
    return ranks, ranks_write(scene, ranks)


def raises(scene):
    raise_it(scene.job, scene.at, scene.rank, scene.entry["where"], scene.text)
    return [scene.rank], {scene.rank: (scene.at + 1, 1)}


def all_raise(scene):
    job = scene.job
    for rank in range(job.size):
        raise_it(job, scene.at + rank * 0.002, rank, scene.entry["where"], scene.text, rank > 0)
    return (), all_out(job, scene.at + 1, 1)


def kernel(scene):
    job, rank = scene.job, scene.rank
    rows, mark, more = scene.rows()
    kern(job, scene.at - 0.6, job.node_of(rank), "\n".join(rows), mark=mark, more=more)
    if "then" in scene.entry:
        raise_it(job, scene.at, rank, "backward", scene.entry["then"], True)
    if scene.entry.get("peers"):
        far = [other for other in range(job.size) if job.node_of(other) != job.node_of(rank)]
        peers.remote(job, scene.at, rank, job.rng.choice(far))
    return [rank], {rank: (scene.at + 1, scene.code())}


def launcher(scene):
    rows, mark, more = scene.rows()
    scene.job.launcher(scene.at, rows, mark=mark, more=more)
    scene.job.hush(scene.at + 0.5)
    return (), None


def unstarted(scene):
    never_started(scene.job)
    return launcher(scene)


def cluster(scene):
    """An event of Kubernetes, which ends a pod."""
    job, node = scene.job, scene.job.node_of(scene.rank)
    rows, mark, more = scene.rows()
    stamp = job.stamp(scene.at, "iso")
    job.scheduler(scene.at, [stamp + row for row in rows], mark=mark, more=more)
    ranks = job.ranks_of(node)
    if job.nodes > 1:
        return ranks, lost_node(job, scene.at + 0.5, node)
    job.hush(scene.at + 0.5)
    return ranks, None


WRITERS = {
    "rank": one,
    "all": everyone,
    "host": host,
    "raises": raises,
    "all raise": all_raise,
    "kernel": kernel,
    "launcher": launcher,
    "unstarted": unstarted,
    "cluster": cluster,
}


def fitting(entry):
    names = entry["fits"].split()
    return lambda job: all(FITS[name](job) for name in names)


def kind(entry):
    def happen(job, at):
        scene = Scene(job, at, entry)
        ranks, ended = WRITERS[entry["by"]](scene)
        what = fill(entry["what"], values(job, scene.rank, 0))
        return Truth(entry["category"], what, ranks, entry.get("also_ok", ())), ended

    early = entry.get("early") or entry["by"] == "unstarted" or entry.get("where") in EARLY
    return Kind(entry["category"], happen, fitting(entry), entry.get("weight", 2), early)


def unexplained(entry):
    def happen(job, at):
        scene = Scene(job, at, entry)
        _, ended = WRITERS[entry["by"]](scene)
        unmark(job)
        if ended:
            aftermath.follow(job, ended)
        return fill(entry["what"], values(job, scene.rank, 0))

    return happen, fitting(entry)


def odd(entry):
    def happen(job, at):
        WRITERS[entry["by"]](Scene(job, at + 1, entry))
        unmark(job)
        return entry["what"]

    return happen, fitting(entry)


def unmark(job):
    job.lines = [line._replace(mark=0) for line in job.lines]


TABLES = tomllib.loads((pathlib.Path(__file__).parent / "reported.toml").read_text(encoding="utf-8"))


def tables(keep):
    """The entries with those of their texts that `keep` takes."""
    for name in ("raised", "event", "unknown", "healthy"):
        entries = [entry | {"texts": [text for text in entry["texts"] if keep(text)]} for entry in TABLES[name]]
        yield [entry for entry in entries if entry["texts"]]


def parts(keep):
    """What a catalogue holds, in its order."""
    raised, events, unknown, healthy = tables(keep)
    noise = TABLES["noise"]
    return (
        [Raised(**row) for row in raised],
        [kind(entry) for entry in events],
        [unexplained(entry) for entry in unknown],
        [text for text in noise["texts"] if keep(text[2])],
        list(filter(keep, noise["kernel"])),
        list(filter(keep, noise["scheduler"])),
        [odd(entry) for entry in healthy],
    )
