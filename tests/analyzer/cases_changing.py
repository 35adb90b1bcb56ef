"""clean, off and on: what they change, and above all what they leave alone."""

import json
import os
import time

from common import bench_case, check, check_equal


def clean(bench, *words):
    """On the sandbox's own directories: whoever runs the tests keeps theirs."""
    done = bench.command("clean", "--json", *words, bench.base())
    listed = json.loads(done.out)
    check_equal(listed["schema"], "ncclwatch.clean/1", "schema")
    return {os.path.basename(d["path"]): d["action"] for d in listed["directories"]
            if d["path"].startswith(bench.temporary)}, done


@bench_case
def clean_dry_run_removes_nothing(bench):
    directory = bench.dead_job()
    done = bench.command("clean", "--dry-run")  # of all places: finds it without being told where
    check(f"would_remove {directory}" in done.out, f"{done}")
    actions, done = clean(bench, "--dry-run")
    check_equal((actions, done.status), ({"job-a": "would_remove"}, 0), "actions")
    check_equal(len(bench.boxes(directory)), 2, "boxes left")


@bench_case
def clean_spares_the_living(bench):
    living = bench.place("living")
    holder = bench.hold(living, 0, 2)
    bench.write(living, 1, 2)
    actions, _ = clean(bench, "--older-than", "0")
    check_equal(actions, {"living": "alive"}, "actions")
    check_equal(len(bench.boxes(living)), 2, "boxes left")
    bench.release(holder)
    check_equal(clean(bench, "--dry-run")[0], {"living": "would_remove"}, "after its end")


@bench_case
def clean_spares_a_place_with_a_living_attempt(bench):
    place = bench.dead_job()
    bench.hold(os.path.join(place, "attempt-1"), 0, 1)
    check_equal(clean(bench)[0], {"job-a": "alive"}, "actions")
    check_equal(len(bench.boxes(place)), 2, "boxes of the first attempt")


@bench_case
def clean_removes_the_finished(bench):
    place = bench.dead_job()
    bench.dead_job(os.path.join(place, "attempt-1"), 1)
    os.mkdir(os.path.join(place, "stacks"))
    for name in ["diagnosis.json", "diagnosis.txt", "lease", "stacks/rank-0.txt"]:
        with open(os.path.join(place, name), "w") as file:
            file.write("{}")
    os.symlink("job-a", os.path.join(bench.base(), "latest"))
    actions, done = clean(bench)
    check_equal((actions, done.status), ({"job-a": "removed"}, 0), "actions")
    check_equal(os.listdir(bench.base()), [], "left")


@bench_case
def clean_minds_the_age(bench):
    place = bench.dead_job()
    check_equal(clean(bench, "--older-than", "7d")[0], {"job-a": "too_young"}, "actions")
    time.sleep(0.2)
    check_equal(clean(bench, "--older-than", "100ms")[0], {"job-a": "removed"}, "actions")
    check(not os.path.exists(place), "still there")


@bench_case
def clean_leaves_foreign_things(bench):
    precious = os.path.join(bench.sandbox.fresh("precious"), "data")
    os.makedirs(precious)
    with open(os.path.join(precious, "weights"), "w") as file:
        file.write("irreplaceable")
    # A directory of the user's, a link to one, a job with a link and with the user's own file in it.
    os.mkdir(os.path.join(bench.base(), "mine"))
    with open(os.path.join(bench.base(), "mine", "notes"), "w") as file:
        file.write("x")
    os.symlink(precious, os.path.join(bench.base(), "linked"))
    place = bench.dead_job()
    os.symlink(precious, os.path.join(place, "attempt-7"))
    os.symlink(precious, os.path.join(place, "stacks"))
    with open(os.path.join(place, "my results.txt"), "w") as file:
        file.write("x")
    actions, done = clean(bench, "--all")
    check_equal(actions.get("job-a"), "partly", "actions")
    check_equal(done.status, 1, "status")
    check_equal(sorted(os.listdir(bench.base())), ["job-a", "linked", "mine"], "left at the top")
    check("my results.txt" in os.listdir(place), "the user's file")
    check_equal(os.listdir(precious), ["weights"], "behind the links")
    os.unlink(os.path.join(place, "my results.txt"))
    for link in ["attempt-7", "stacks"]:
        check(os.path.islink(os.path.join(place, link)), f"{link}: the user's link")
        os.unlink(os.path.join(place, link))
    check_equal(clean(bench, "--all")[0], {"job-a": "removed"}, "once the user's things are gone")
    check_equal(os.listdir(precious), ["weights"], "behind the links, afterwards")


@bench_case
def clean_of_one_directory_leaves_the_others(bench):
    place, other = bench.dead_job(), bench.dead_job(bench.place("job-b"))
    done = bench.command("clean", place + "/")
    check_equal((done.status, os.path.exists(place), len(bench.boxes(other))), (0, False, 2), f"{done}")
    check_equal(bench.command("clean", place).status, 3, "a directory that is not there")


@bench_case
def clean_waits_for_ncclwatch_run(bench):
    import fcntl
    place = bench.dead_job()
    descriptor = os.open(place, os.O_RDONLY)
    fcntl.flock(descriptor, fcntl.LOCK_SH)
    check_equal(clean(bench)[0], {"job-a": "alive"}, "actions while it is held")
    os.close(descriptor)
    check_equal(clean(bench)[0], {"job-a": "removed"}, "actions afterwards")


@bench_case
def off_and_on_are_obeyed(bench):
    directory = bench.place()
    for rank in range(2):
        bench.hold(directory, rank, 2)
    for word, watching in (("off", False), ("on", True)):
        done = bench.command(word, "--json", directory)
        said = json.loads(done.out)
        check_equal((done.status, said["processes"], said["done"], said["watching"], said["not_done_ranks"]),
                    (0, 2, 2, watching, []), word)
    check("2 of 2" in bench.command("off", directory).out, "text")


@bench_case
def off_says_who_does_not_obey(bench):
    directory = bench.place()
    bench.hold(directory, 0, 2)
    stopped = bench.hold(directory, 1, 2)
    os.kill(stopped.pid, 19)
    done = bench.command("off", "--json", directory)
    check_equal((done.status, json.loads(done.out)["not_done_ranks"]), (1, [1]), f"off: {done}")


@bench_case
def off_of_a_dead_job_is_no_success(bench):
    done = bench.command("off", bench.dead_job())
    check_equal(done.status, 1, f"status of {done}")
    check("no process" in done.err, f"reason: {done}")
