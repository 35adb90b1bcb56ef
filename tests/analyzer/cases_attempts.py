"""Several attempts of one job: which one a command shows, and how another one is chosen."""

import json
import os
import shutil
import subprocess

from common import Skipped, bench_case, check, check_equal, until

FAILED = ("calls=3", "pending=1", "status=1")  # inside its last call


def attempt(bench, place, number, *words, ranks=2):
    """An attempt whose ranks have ended, in its folder."""
    folder = os.path.join(place, f"attempt-{number}") if number else place
    return bench.dead_job(folder, ranks, f"attempt={number}", *words)


def restarted(bench, failed=(0,), attempts=2, name="job-a"):
    place = bench.place(name)
    for number in range(attempts):
        attempt(bench, place, number, *(FAILED if number in failed else (f"calls={5 + number}",)))
    return place


def shown(rows):
    return [row["attempt"] for row in rows if row["shown"]]


@bench_case
def the_attempt_that_failed_comes_first(bench):
    place = restarted(bench)
    which = "attempt 0 of 2: dead_rank (certain); attempt 1: healthy; --attempt 1 shows it"
    diagnosis, done = bench.diagnose(place)
    check_equal((done.status, diagnosis["findings"][0]["kind"], diagnosis["job"]["attempt"]), (1, "dead_rank", 0), "diagnose")
    check_equal([(row["attempt"], row["shown"], row["alive"], row["kind"], row["certainty"]) for row in diagnosis["attempts"]],
                [(0, True, False, "dead_rank", "certain"), (1, False, False, None, None)], "attempts")
    check_equal([row["directory"] for row in diagnosis["attempts"]], [place, os.path.join(place, "attempt-1")], "directories")
    text = bench.command("diagnose", place)
    check_equal((text.status, text.out.splitlines()[0], text.err), (1, which, ""), "text of diagnose")
    for command in ("stats", "trace", "top --once", "report -o " + os.path.join(bench.temporary, "page.html"),
                    "export --to csv -o " + os.path.join(bench.temporary, "calls.csv"),
                    "bundle -o " + os.path.join(bench.temporary, "bundle.tar.zst")):
        done = bench.command(*command.split(), place)
        check_equal((done.status, done.err.splitlines()[:1]), (0, [f"ncclwatch: {which}"]), command)
    check_equal(len(bench.calls(place)), 6, "calls of attempt 0")
    for command in (["stats", "--json"], ["top", "--json"], ["investigate", "--json"]):
        check_equal(shown(json.loads(bench.command(*command, place).out)["attempts"]), [0], f"{command}")
    with open(os.path.join(bench.temporary, "page.html")) as file:
        check(which in file.read(), "the page says which attempt it shows")
    incident = bench.command("investigate", place)
    check_equal(incident.status, 1, "investigate")
    check("# Incident: dead_rank" in incident.out and which in incident.out, f"investigate: {incident.out[:600]}")


@bench_case
def a_redacted_bundle_keeps_the_attempts(bench):
    if not (shutil.which("tar") and shutil.which("zstd")):
        raise Skipped("no tar or zstd here")
    place = restarted(bench)
    bundle, folder = os.path.join(bench.temporary, "bundle.tar.zst"), bench.sandbox.fresh("unpacked")
    check_equal(bench.command("bundle", "--redact", "-o", bundle, place).status, 0, "bundle")
    subprocess.run(["tar", "--zstd", "-xf", bundle, "-C", folder, "--strip-components=1"], check=True, timeout=60)
    (job,) = os.listdir(os.path.join(folder, "run"))
    diagnosis, done = bench.diagnose(os.path.join(folder, "run", job))
    check_equal((done.status, [row["kind"] for row in diagnosis["attempts"]]), (1, ["dead_rank", None]), "attempts of the bundle")


@bench_case
def a_number_chooses_the_attempt(bench):
    place = restarted(bench)
    diagnosis, done = bench.diagnose(place, "--attempt", "1")
    check_equal((done.status, diagnosis["healthy"], diagnosis["job"]["attempt"], shown(diagnosis["attempts"])), (0, True, 1, [1]),
                "the attempt that was asked for")
    check("attempt 0 of 2" not in bench.command("diagnose", place, "--attempt", "1").out, "no line says what was asked for")
    for number, calls in (("0", 6), ("1", 12)):
        check_equal(len(bench.calls(place, "--attempt", number)), calls, f"calls of attempt {number}")
    check_equal(json.loads(bench.command("stats", "--json", "--attempt", "1", place).out)["calls"], 12, "stats")
    check_equal(json.loads(bench.command("top", "--json", "--attempt", "1", place).out)["attempt"], 1, "top")
    check_equal(bench.command("investigate", "--attempt", "1", place).status, 0, "investigate")


@bench_case
def what_is_no_attempt_is_said(bench):
    place = restarted(bench)
    for command in ("diagnose", "stats", "trace", "top", "replay", "report", "investigate"):
        done = bench.command(command, place, "--attempt", "7")
        check_equal((done.status, done.out), (3, ""), command)
        check_equal(done.err, f"ncclwatch {command}: {place}: there is no attempt 7, only attempts 0-1\n", command)
    for number in ("-1", "x", "1.5"):
        check_equal(bench.command("diagnose", place, f"--attempt={number}").status, 2, number)
    done = bench.command("diagnose", *bench.boxes(place), "--attempt", "0")
    check_equal(done.status, 3, "black boxes have no attempts")
    check("--attempt needs a run directory" in done.err, f"{done}")


@bench_case
def the_last_failure_is_the_one(bench):
    place = restarted(bench, failed=(0, 1), attempts=4)
    diagnosis, done = bench.diagnose(place)
    check_equal((done.status, shown(diagnosis["attempts"])), (1, [1]), "of two failures")
    check_equal(bench.command("diagnose", place).out.splitlines()[0], "attempt 1 of 4: dead_rank (certain); attempt 0: dead_rank "
                "(certain); attempts 2-3: healthy; --attempt N shows another one", "first line")
    place = restarted(bench, failed=(), name="job-b")
    diagnosis, done = bench.diagnose(place)
    check_equal((done.status, shown(diagnosis["attempts"])), (0, [1]), "without a failure: the last attempt")
    check_equal(len(bench.calls(place)), 12, "its calls")


@bench_case
def an_attempt_may_be_missing(bench):
    """A node that joined later, or what somebody has copied."""
    place = bench.place()
    os.makedirs(place, mode=0o700)
    attempt(bench, place, 3, *FAILED)
    diagnosis, done = bench.diagnose(place)
    check_equal((done.status, diagnosis["job"]["attempt"], diagnosis["attempts"]), (1, 3, []), "the only one")
    check("attempt 3 of" not in bench.command("diagnose", place).out, "one attempt needs no line")
    check_equal(bench.command("diagnose", place, "--attempt", "3").status, 1, "its number")
    done = bench.command("diagnose", place, "--attempt", "0")
    check_equal((done.status, done.err), (3, f"ncclwatch diagnose: {place}: there is no attempt 0, only attempt 3\n"), "another one")


@bench_case
def a_folder_of_an_attempt_is_that_attempt(bench):
    place = restarted(bench)
    folder = os.path.join(place, "attempt-1")
    for word in (folder, folder + "/"):
        diagnosis, done = bench.diagnose(word)
        check_equal((done.status, diagnosis["job"]["attempt"], diagnosis["attempts"]), (0, 1, []), word)
    check_equal(bench.diagnose(place + "/")[0]["job"]["attempt"], 0, "a slash at the end")
    done = subprocess.run([bench.build.command, "diagnose", "--json", "."], cwd=folder, env=bench.environment(),
                          capture_output=True, text=True, timeout=60)
    check_equal(json.loads(done.stdout)["job"]["attempt"], 1, "the present directory")


@bench_case
def the_newest_job_of_a_place_counts(bench):
    """Another job in the same directory is no attempt of the first one."""
    place = restarted(bench)
    later = restarted(bench, failed=(1,), attempts=3, name="job-a/run-1")
    diagnosis, done = bench.diagnose(place)
    check_equal((done.status, [row["attempt"] for row in diagnosis["attempts"]], shown(diagnosis["attempts"])),
                (1, [0, 1, 2], [1]), "attempts of run-1")
    check(diagnosis["attempts"][0]["directory"] == later, f"{diagnosis['attempts']}")


@bench_case
def directories_of_several_nodes(bench):
    """Their attempts of the same number are one."""
    one, two = bench.place("node-a"), bench.place("node-b")
    for place, rank in ((one, 0), (two, 1)):
        bench.write(place, rank, 2, *FAILED)
        bench.write(os.path.join(place, "attempt-1"), rank, 2, "attempt=1")
    diagnosis, done = bench.diagnose(one, two)
    check_equal((done.status, diagnosis["job"]["processes"], shown(diagnosis["attempts"])), (1, 2, [0]), "the failed attempt")
    diagnosis, done = bench.diagnose(one, two, "--attempt", "1")
    check_equal((done.status, diagnosis["job"]["processes"]), (0, 2), "attempt 1")


@bench_case
def a_running_attempt(bench):
    """diagnose still shows the failure; a live view shows what lives."""
    place = bench.place()
    attempt(bench, place, 0, *FAILED)
    held = [bench.hold(os.path.join(place, "attempt-1"), rank, 2, "attempt=1", "calls=4") for rank in range(2)]
    diagnosis, done = bench.diagnose(place)
    check_equal((done.status, shown(diagnosis["attempts"]), [row["alive"] for row in diagnosis["attempts"]]),
                (1, [0], [False, True]), "diagnose")
    check_equal(bench.command("diagnose", place).out.splitlines()[0],
                "attempt 0 of 2: dead_rank (certain); attempt 1: healthy, running; --attempt 1 shows it", "first line")
    with subprocess.Popen([bench.build.command, "trace", "--json", "--follow", place], env=bench.environment(),
                          stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as follower:
        lines = [json.loads(follower.stdout.readline()) for _ in range(8)]
        follower.kill()
    check_equal([line["rank"] for line in lines].count(0), 4, "calls of rank 0 that --follow shows")
    top = json.loads(bench.command("top", "--json", place).out)
    check_equal((top["attempt"], top["alive"], shown(top["attempts"])), (1, 2, [1]), "top")
    check_equal(json.loads(bench.command("stacks", "--json", place).out or "{}").get("schema"), "ncclwatch.stacks/1", "stacks")
    for process in held:
        bench.release(process)
    check_equal(json.loads(bench.command("top", "--json", place).out)["attempt"], 0, "top of the ended job")


@bench_case
def latest_means_all_attempts(bench):
    place = restarted(bench)

    def newest_is_ours():
        return json.loads(bench.command("ls", "--json").out)["runs"][0]["path"].startswith(place)

    for words in ([], ["latest"]):
        # Other jobs of this user come and go meanwhile, and may be newer.
        until(lambda: len(bench.diagnose(*words)[0]["attempts"]) == 2 or not newest_is_ours(), f"diagnose {words}")
