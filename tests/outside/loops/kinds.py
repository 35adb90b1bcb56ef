"""The jobs: for each kind its parameters, drawn from a seed, and the truth that follows from them by construction.

The machine has two cores. Computation sleeps, so four or eight ranks do not compete for a core; at most one rank is busy.
Over MPI the ranks that wait poll, and yield the core to whoever wants it.
"""

import dataclasses
import math
import random

RUN_S = 9.0  # at least so long, and at least STEPS steps
STEPS = 150


@dataclasses.dataclass
class Job:
    name: str
    ranks: int
    options: dict
    kinds: tuple  # of the first finding; empty: there must be none
    culprits: tuple = ()  # acceptable sets
    onset: int = 0  # the step from which on it is slow
    slow_us: int = 0  # slow_communication over NCCL: what each call takes longer
    slow_mbit: int = 0  # slow_communication over MPI: the rate of the loopback device


def around(draw, low, high):
    """Evenly on a logarithmic scale."""
    return math.exp(draw.uniform(math.log(low), math.log(high)))


class Drawn:
    """The parameters that all kinds share."""

    def __init__(self, library, name, seed):
        self.draw = random.Random(f"{library}/{name}/{seed}")
        self.library = library
        self.ranks = 8 if library == "nccl" and seed % 3 == 2 else 4
        self.step_ms = around(self.draw, 5, 60)
        self.culprit = self.draw.randrange(self.ranks)
        self.options = {
            "seed": seed, "buckets": self.draw.randint(1, 4), "count": int(around(self.draw, 4096, 262144)),
            "batch": 262144, "state": 1 << 20, "overlap": self.draw.randint(0, 1), "barrier": self.draw.randint(0, 1),
            "host-percent": self.draw.choice((0, 0, 30, 100)), "writer": 0}
        self.kinds, self.culprits, self.onset, self.more = (), (), 0, {}

    def accuse(self, kind, *culprits):
        self.kinds, self.culprits = (kind,), tuple(frozenset(ranks) for ranks in culprits)

    def everybody(self):
        return range(self.ranks)

    def steps(self, longer=1.0):
        return max(STEPS, math.ceil(RUN_S * 1000 / (self.step_ms * longer)))

    def pipeline(self, micro_batches, micro_ms):
        self.step_ms = micro_batches * micro_ms
        self.options["micro-batches"] = micro_batches
        self.options["count"] = int(around(self.draw, 4096, 65536))

    def late(self, share_of_step, forms):
        self.options.update({"culprit": self.culprit, "late-ms": share_of_step * self.step_ms,
                             "late-form": self.draw.choice(forms)})
        self.accuse("straggler", [self.culprit])


def healthy(d):
    pass


def healthy_evaluation(d):
    d.options.update({"evaluate-every": d.draw.randint(40, 80), "checkpoint-every": d.draw.randint(50, 100)})


def healthy_pipeline(d):
    """Stages idle 16 % of the step at most."""
    d.pipeline(d.draw.randint(4 * d.ranks, 8 * d.ranks), d.draw.uniform(0.8, 1.6))


def forms(d):
    return ("busy", "sleep", "device") if d.library == "nccl" else ("busy", "sleep")


def straggler(d):
    d.late(d.draw.uniform(0.3, 1.0), forms(d))
    d.options["late-every"] = 1


def straggler_now_and_then(d):
    d.late(d.draw.uniform(1.0, 2.0), forms(d))
    d.options.update(d.draw.choice(({"late-every": 5}, {"late-share": 0.2})))


def starved_input(d):
    d.options.update({"input": d.draw.choice(("pipe", "fifo")), "input-ms": d.step_ms * d.draw.uniform(1.5, 2.2)})
    d.options["culprit"] = d.draw.choice((-1, d.culprit))
    d.accuse("starved_input", *([d.everybody(), ()] if d.options["culprit"] < 0 else [[d.culprit]]))


def blocking_checkpoint(d):
    d.step_ms = around(d.draw, 8, 25)
    every = d.draw.randint(10, 20)
    d.options.update({"checkpoint-every": every, "checkpoint-ms": every * d.step_ms * d.draw.uniform(0.3, 0.6),
                      "writer": d.culprit})
    d.accuse("blocking_checkpoint", [d.culprit])


def pipeline_few(d):
    """Stages idle at least 40 % of the step: (p - 1) / (m + p - 1)."""
    d.pipeline(d.draw.randint(d.ranks // 2, d.ranks), d.draw.uniform(4, 10))
    d.accuse("pipeline_bubble", ())


def pipeline_uneven(d):
    d.pipeline(d.draw.randint(4 * d.ranks, 8 * d.ranks), d.draw.uniform(0.8, 1.6))
    d.options.update({"culprit": d.culprit, "uneven-percent": d.draw.uniform(80, 150)})
    d.accuse("pipeline_bubble", [d.culprit])


def all_slower(d):
    d.onset = int(d.steps(1.4) * d.draw.uniform(0.4, 0.6))
    d.options.update({"grow-at": d.onset, "grow-percent": d.draw.uniform(50, 120)})
    d.accuse("slow_compute", (), d.everybody())


def slow_communication(d):
    d.options.update({"count": int(around(d.draw, 65536, 262144)), "buckets": d.draw.randint(1, 2)})
    longer = d.draw.uniform(0.6, 1.5)
    d.onset = int(d.steps(1 + longer / 2) * d.draw.uniform(0.4, 0.6))
    d.options["onset-at"] = d.onset
    if d.library == "nccl":
        d.more["slow_us"] = int(longer * d.step_ms * 1000 / d.options["buckets"])
    else:  # a ring moves 2 (n - 1) / n of the gradient from each rank
        megabits = 2 * (d.ranks - 1) * d.options["count"] * 4 * 8 / 1e6
        d.more["slow_mbit"] = int(megabits / (longer * d.step_ms / 1000))
    d.accuse("slow_communication", (), d.everybody())


def stopped(d):
    d.options.update({"culprit": d.culprit, "stop-ms": d.draw.uniform(80, 150), "run-ms": d.draw.uniform(150, 300)})
    d.accuse("straggler", [d.culprit])


def page_faults(d):
    d.late(d.draw.uniform(0.5, 1.0), ("faults",))
    d.options["late-every"] = 1


KINDS = (healthy, healthy_evaluation, healthy_pipeline, straggler, straggler_now_and_then, starved_input,
         blocking_checkpoint, pipeline_few, pipeline_uneven, all_slower, slow_communication, stopped, page_faults)


def job(library, kind, seed):
    d = Drawn(library, kind.__name__, seed)
    kind(d)
    d.options.setdefault("culprit", -2)  # nobody
    d.options.update({"step-ms": d.step_ms, "steps": d.steps()})
    return Job(f"{kind.__name__}/{seed}", d.ranks, d.options, d.kinds, d.culprits, d.onset, **d.more)
