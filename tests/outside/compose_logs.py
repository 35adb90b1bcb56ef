#!/usr/bin/env python3
"""Logs of jobs that never ran, failed and healthy ones, by which `ncclwatch triage` can be judged.

    compose_logs.py OUT [--jobs 200] [--seed 1] [--set a|b|c|d|e] [--noise FOLDER...] [--calm]

Writes OUT/job-NNN/ (the logs of a job) and OUT/truth.json (what is known to be true of each). FOLDER holds logs of
healthy jobs: half of the jobs take passages from them. The same seed and folders give the same bytes.
Jobs of set a share no failure, no unexplained end and no line of noise with jobs of set b; without --set jobs draw from
both. Set c has failures, ends and noise from public reports that are in neither; sets d and e share such texts of a
later collection: rules are written with sight of d, and e judges them.
With --calm the same jobs have no line that means nothing: the difference is what noise does to the judged.
The cases follow what frameworks, launchers and kernels write. They know nothing of triage's rules, and must not.
"""

import argparse
import json
import pathlib
import random
import re
import shutil
import sys

sys.path.insert(0, str(pathlib.Path(__file__).parent))

from composer import aftermath, kernel_log, noise, programs  # noqa: E402
from composer.catalogue import SETS, catalogue_of  # noqa: E402
from composer.job import Job, Truth  # noqa: E402
from composer.layouts import LAYOUTS, files_of, furnish  # noqa: E402
from composer.raise_it import EARLY, perform, texts_for  # noqa: E402

SIZES = (1, 2, 4, 4, 8, 8, 8, 8, 16, 16, 16, 24, 32, 32, 48, 64, 64, 128, 256, 512)
HEALTHY, UNEXPLAINED = 0.15, 0.10
CATEGORIES = (
    "out_of_memory",
    "cuda",
    "nccl",
    "network",
    "timeout",
    "hardware",
    "numerics",
    "data",
    "filesystem",
    "environment",
    "rendezvous",
    "terminated",
    "python",
    "checkpoint",
    "mpi",
)


def new_job(rng, catalogue):
    names = [name for name, layout in LAYOUTS.items() for _ in range(layout.weight)]
    name = rng.choice(names)
    low, high = LAYOUTS[name].sizes
    job = Job(rng, rng.choice([size for size in SIZES if low <= size <= high]), name)
    job.catalogue = catalogue
    furnish(job, name)
    job.program = rng.choice(programs.BY_LAUNCHER[job.launched])(job)
    job.tear = name in ("one file", "one file, [rankN]") and rng.random() < 0.3
    return job


def choices(job, category):
    """What can happen to this job: (weight, early, function of (job, at, step))."""
    found = []
    for row in job.catalogue.rows:
        if row.category == category and texts_for(job, row):
            found.append((row.weight, row.where in EARLY, lambda at, step, row=row: perform(job, row, at, step)))
    for kind in job.catalogue.kinds:
        if kind.category == category and kind.fits(job):
            found.append((kind.weight, kind.early, lambda at, step, kind=kind: kind.function(job, at)))
    return found


def fail(rng, catalogue):
    """A job, and what ends it. The category is drawn first: one with many wordings is not more frequent for it."""
    category = rng.choice(CATEGORIES)
    while True:
        job = new_job(rng, catalogue)
        found = choices(job, category)
        if found:
            return job, rng.choices(found, [weight for weight, _, _ in found])[0]


def fitting(job, endings):
    return [function for function, fits in endings if fits(job)]


def draw(rng, outcome, catalogue):
    """A job in which the outcome can be, and for a failure what ends it: see `choices`."""
    if outcome == "failed":
        return fail(rng, catalogue)
    job = new_job(rng, catalogue)
    while outcome == "unknown" and not fitting(job, catalogue.unknown):
        job = new_job(rng, catalogue)
    return job, (1, False, None)


def run(job, outcome, early, happen):
    """Lets the job happen, and returns the truth."""
    rng = job.rng
    ready = rng.uniform(25.0, 240.0)
    end = (
        rng.uniform(ready * 0.5, ready * 0.95)
        if early
        else ready + rng.uniform(200.0, rng.choice((2_000, 20_000, 80_000)))
    )
    job.program.start(ready)
    if early:
        job.seq = rng.randrange(1, 5)
    else:
        job.program.progress(ready, end, outcome == "healthy")
    add_noise(job, ready, end, outcome == "healthy")
    if outcome == "healthy":
        return finish(job, end + 1)
    forget_future(job, end)
    if outcome == "unknown":
        return Truth("unknown", rng.choice(fitting(job, job.catalogue.unknown))(job, end))
    truth, ended = happen(end, job.program.first + 250)
    if ended:
        aftermath.follow(job, ended)
    return truth


def finish(job, at):
    job.program.finish(at)
    oddities = fitting(job, job.catalogue.healthy)
    return Truth("healthy", job.rng.choice(oddities)(job, at) if oddities else "the job ran to its end")


def add_noise(job, ready, end, healthy):
    """A calm job draws the same noise and drops it, so that all else stays equal."""
    lines = list(job.lines)
    noise.sprinkle(job, ready, end, healthy)
    if job.has_kernel:
        kernel_log.boot(job)
        noise.of_kernels(job, end)
    if job.has_scheduler:
        noise.of_scheduler(job, end)
    if job.library:
        noise.borrow(job, job.library, min(ready, end), end)
    if job.calm:
        job.lines = lines


def forget_future(job, end):
    """Start-up and noise end where the failure begins."""
    job.lines = [line for line in job.lines if line.at < end or line.source[0] not in ("rank", "launcher")]


def hidden(job, truth):
    """In one file without prefixes only the agent's table or a text names the rank: other culprits cannot be known."""
    if not job.layout.startswith("one file") or not truth.ranks:
        return False
    rank = truth.ranks[0]
    return not any(
        line.text.startswith(f"  rank      : {rank} ") or (line.mark and re.search(rf"ank ?{rank}\b", line.text))
        for line in job.lines
    )


def save(job, truth, folder):
    places = {2: [], 1: []}
    for path, lines in sorted(files_of(job, job.layout).items()):
        target = folder / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text("".join(line.text + "\n" for line in lines), encoding="utf-8")
        for number, line in enumerate(lines, 1):
            if line.mark:
                places[line.mark].append([path, number])
    assert len(places[2]) == (truth.category not in ("healthy", "unknown")), (folder, truth.what, places)
    path, number = places[2][0] if places[2] else (None, None)
    return {
        "category": truth.category,
        "also_ok": truth.also_ok,
        "ranks": [] if hidden(job, truth) else truth.ranks,
        "file": path,
        "line": number,
        "also": places[1],
        "layout": job.layout,
        "program": job.program.name,
        "size": job.size,
        "what": truth.what,
    }


def compose(number, args, catalogue, library, folder):
    rng = random.Random(f"{args.seed}/{number}")
    luck = rng.random()
    outcome = "healthy" if luck < HEALTHY else "unknown" if luck < HEALTHY + UNEXPLAINED else "failed"
    job, (_, early, happen) = draw(rng, outcome, catalogue)
    job.calm = args.calm
    job.library = library if library and rng.random() < 0.5 else None
    return save(job, run(job, outcome, early, happen), folder)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=pathlib.Path)
    parser.add_argument("--jobs", type=int, default=200)
    parser.add_argument("--seed", default="1")
    parser.add_argument("--set", choices=SETS)
    parser.add_argument("--noise", nargs="*", default=[])
    parser.add_argument("--calm", action="store_true")
    args = parser.parse_args()
    catalogue, library, truth = catalogue_of(args.set), noise.libraries(args.noise), {}
    for number in range(args.jobs):
        name = f"job-{number:03d}"
        shutil.rmtree(args.out / name, ignore_errors=True)
        truth[name] = compose(number, args, catalogue, library, args.out / name)
    (args.out / "truth.json").write_text(json.dumps(truth, indent=1) + "\n")


if __name__ == "__main__":
    main()
