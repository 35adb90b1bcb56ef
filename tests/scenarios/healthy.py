"""Healthy jobs in which a careless watchdog would see a fault: nothing may be found beyond `suspected`, and nothing
may stand once the job has moved on."""

import os
import random
import re

from job import Failure, Job, launched

# name: (is it an example, options drawn from the seed, NCCLWATCH_TIMEOUT)
SAVE = lambda draw: ["--steps", 20, "--save-ms", draw.choice([100, 2000, 6000])]
PROGRAMS = {
    "healthy_training": (True, lambda draw: ["--steps", draw.choice([30, 100])], "10"),
    "ragged_exits": (False, lambda draw: ["--steps", 10, "--destroy", draw.choice([0, 1])], "2"),
    "final_save": (False, SAVE, "10"),
    "pipeline": (False, lambda draw: ["--steps", 40, "--microbatches", draw.choice([1, 2, 8])], "10"),
    "byte_equal_types": (False, lambda draw: ["--steps", 50], "10"),
    "user_reductions": (False, lambda draw: ["--steps", 50], "10"),
    "communicator_churn": (False, lambda draw: [], "10"),
}
# Half a minute each and more: the long suite's alone. auto must learn the job's own rhythm.
LONG = {
    "pauses_of_all": ("pauses", lambda draw: ["--steps", 50, "--pause-ms", 30_000]),
    "pauses_of_one": ("pauses", lambda draw: ["--steps", 50, "--pause-ms", 30_000, "--alone", 1]),
}


def watch_line(output):
    return re.search(r"watching (\d+)/(\d+) ranks", output)


def check_healthy(job, status, ranks, expect_watch=True):
    """After the job's own end."""
    if status != 0:
        raise Failure(f"the job's status is {status}\n{job.output()[-3000:]}")
    for written, document in job.seen:
        for finding in document["findings"]:
            if finding["certainty"] != "suspected":
                raise Failure(f"{finding['certainty']} {finding['kind']} of {finding['culprits']} in a healthy job: "
                              f"{finding['summary']}")
    code, document = job.offline()
    # A rank that other tests slow is a straggler indeed, and a pipeline of few micro-batches idles.
    others = [one for one in document["findings"] if (one["kind"], one["certainty"]) != ("straggler", "suspected")
              and (one["kind"], one["culprits"]) != ("pipeline_bubble", [])]
    if others or document["missing"] or (code != 0 and not document["findings"]):
        raise Failure(f"diagnose afterwards: status {code}, missing {document['missing']}, findings {document['findings']}")
    if expect_watch:
        line = watch_line(job.output())
        if not line or line.groups() != (str(ranks), str(ranks)):
            raise Failure(f"not said that {ranks}/{ranks} ranks are watched:\n{job.output()[-2000:]}")


def run(build, name, seed, mode=None, keep=None):
    draw = random.Random(f"{name}/{seed}")
    ranks = draw.choice([2, 3, 4, 4, 8])
    mode = mode or draw.choice(["preload", "run"])
    gpu = "both" if seed % 2 else "end"
    if name in LONG:
        program, options = LONG[name]
        command, timeout, patience = launched(build.program(program), ranks, *options(draw)), "auto", 400
    else:
        example, options, timeout = PROGRAMS[name]
        command = launched(build.example(name) if example else build.program(name), ranks, *options(draw),
                           "--seed", seed, "--children", draw.choice([0, 0, 2]) if name != "ragged_exits" else 0)
        patience = 120
    with Job(build, command, mode=mode, environment={"NCCLWATCH_TIMEOUT": timeout, "NCCLWATCH_GPU": gpu}) as job:
        try:
            status = job.wait(patience)
            job.look()
            check_healthy(job, status, ranks)
            job.check_nothing_left(seconds=10)
            return {"seconds": round(os.times().elapsed, 0), "suspected": len(job.seen)}
        except Failure as failure:
            if keep:
                keep(job, failure)
            raise
