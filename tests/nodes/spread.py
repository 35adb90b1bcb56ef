"""A fault on a job over several nodes: how its program is started, and what is kept of a run that failed."""

import json
import os
import shutil

from cluster import RUN

CERTAIN_S = 3.0  # from the fault to the verdict on every node, where no time-out is needed
KEPT = "node-failures"  # below the build folder: what failed jobs left


def options_for(name, culprit, ranks, seed, planned=True):
    """planned: the culprit is known from the beginning; else it is named while the job runs."""
    options = ["--rank", culprit if planned else -1, "--step", 30, "--steps", 1_000_000, "--step-ms", 5, "--seed", seed,
               "--count", 4096]
    if name == "wrong_world_size":
        options += ["--world-size", ranks + 1]
    if name == "exception":
        options += ["--terminate", seed % 2]
    return options


def keep(build, job, name, failure):
    kept = os.path.join(build.folder, KEPT, name)
    shutil.rmtree(kept, ignore_errors=True)
    os.makedirs(kept, exist_ok=True)
    for node in job.cluster.nodes:
        shutil.copytree(node.path(RUN), os.path.join(kept, node.host), symlinks=True, ignore_dangling_symlinks=True,
                        dirs_exist_ok=True)
    with open(os.path.join(kept, "output"), "w") as file:
        for node in job.cluster.nodes:
            file.write(f"==== {node.host}\n{job.output(node.number)}\n")
        file.write(f"==== failure\n{failure}\n")
    print(f"what the job left is kept in {kept}", flush=True)


def report(result):
    print(json.dumps(result), flush=True)
