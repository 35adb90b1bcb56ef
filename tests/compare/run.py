#!/usr/bin/env python3
"""`ncclwatch compare`: pairs of runs with known truth. `--pairs N` prints how often it errs, and what it finds; `--same N`
compares so many pairs of real MPI runs of one program with itself."""

import json
import math
import os
import random
import shutil
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "support"))

from harness import Build, Sandbox, Skipped, case, check, check_equal, run_main, soak_case  # noqa: E402


def compare(sandbox, *words):
    done = sandbox.run([sandbox.build.command, "compare", "--json", *words], sandbox.environment(preload=False), timeout=120)
    return done.status, json.loads(done.out) if done.out else None, done


class Series:
    """Times of steps: a level, noise of which `memory` stays from step to step, and now and then a long one."""

    def __init__(self, seed, memory, spread=0.05, outliers=0.02):
        self.random, self.memory, self.spread, self.outliers = random.Random(seed), memory, spread, outliers

    def values(self, count, level):
        noise = self.random.gauss(0, 1)
        for _ in range(count):
            noise = self.memory * noise + math.sqrt(1 - self.memory ** 2) * self.random.gauss(0, 1)
            long = 1 + 2 * self.random.random() if self.random.random() < self.outliers else 1
            yield level * math.exp(self.spread * noise) * long


def write_csv(path, columns):
    with open(path, "w") as file:
        file.write(",".join(columns) + "\n")
        for row in zip(*columns.values()):
            file.write(",".join(f"{value:.6g}" for value in row) + "\n")


def pair(sandbox, seed, change, memory, steps=400, metrics=4):
    """The first metric changes; the others do not."""
    paths = []
    for side in range(2):
        columns = {}
        for metric in range(metrics):
            level = (1 + metric) * (1 + change if side == 1 and metric == 0 else 1)
            columns[f"m{metric}_time"] = list(Series(f"{seed} {side} {metric}", memory).values(steps, level))
        paths.append(os.path.join(sandbox.path, f"side{side}.csv"))
        write_csv(paths[-1], columns)
    return compare(sandbox, *paths)[1]


CHANGES = (0, 0, 0.03, -0.03, 0.1, -0.1, 0.3, -0.3)
MEMORIES = (0, 0.3, 0.6, 0.9)


def judge_pairs(sandbox, count):
    """change -> [pairs, told as worse, told as better]; and how many metrics without a change were told as one."""
    told, wrong = {change: [0, 0, 0] for change in CHANGES}, []
    for seed in range(count):
        change, memory = CHANGES[seed % len(CHANGES)], MEMORIES[seed // len(CHANGES) % len(MEMORIES)]
        result = pair(sandbox, seed, change, memory)
        verdicts = {one["name"]: one["verdict"] for one in result["metrics"]}
        row = told[change]
        row[0] += 1
        row[1] += verdicts["m0_time"] == "worse"
        row[2] += verdicts["m0_time"] == "better"
        others = [name for name, verdict in verdicts.items() if name != "m0_time" and verdict in ("worse", "better")]
        against = {"worse": change <= 0, "better": change >= 0}.get(verdicts["m0_time"], False)
        if others or against:
            wrong.append((seed, change, memory, verdicts))
    return told, wrong


@case
def pairs_with_known_truth(sandbox):
    told, wrong = judge_pairs(sandbox, 64)
    check(len(wrong) <= 1, f"false alarms: {wrong}")  # one in a hundred is allowed, and this is one of 640
    check(told[0.3][1] == told[0.3][0] and told[-0.3][2] == told[-0.3][0] and told[0.03][1] == 0, f"{told}")


@case
def files_of_other_tools(sandbox):
    folder = sandbox.fresh("files")
    for side, level in (("a", 100), ("b", 150)):
        with open(os.path.join(folder, side + ".json"), "w") as file:
            runs = [{"name": "BM_Copy/8", "run_name": "BM_Copy/8", "run_type": "iteration", "iterations": 1000, "repetition_index": i,
                     "real_time": level + i % 3, "cpu_time": level + i % 3, "time_unit": "ns", "bytes_per_second": 1e9 / (level + i % 3)} for i in range(12)]
            json.dump({"context": {"host_name": "x"}, "benchmarks": runs + [{"name": "BM_Copy/8_mean", "run_name": "BM_Copy/8", "run_type": "aggregate",
                                                                               "aggregate_name": "mean", "real_time": 1, "cpu_time": 1, "time_unit": "ns"}]}, file)
        with open(os.path.join(folder, side + ".jsonl"), "w") as file:
            for step in range(50):
                file.write(json.dumps({"step": step, "loss": 2 - step / 100, "tokens_per_s": 1e5 / level + step % 5, "memory": {"peak_bytes": 7e9 + step % 3}}) + "\n")
    status, result, _ = compare(sandbox, folder + "/a.json", folder + "/b.json")
    verdicts = {one["name"]: (one["verdict"], one["better"], one["unit"]) for one in result["metrics"]}
    check_equal((status, result["verdict"]), (1, "regression"), f"{verdicts}")
    check_equal(verdicts["BM_Copy/8 real_time"], ("worse", "lower", "ns"), "Google Benchmark")
    check_equal(verdicts["BM_Copy/8 bytes_per_second"], ("worse", "higher", ""), "Google Benchmark")
    _, result, _ = compare(sandbox, folder + "/a.jsonl", folder + "/b.jsonl")
    verdicts = {one["name"]: one["verdict"] for one in result["metrics"]}
    check_equal(verdicts, {"loss": "inconclusive", "tokens_per_s": "worse", "memory.peak_bytes": "same"}, "lines of JSON")
    status, result, _ = compare(sandbox, folder + "/b.jsonl", folder + "/a.jsonl", "--metric", "tokens_per_s:higher")
    check_equal((status, result["verdict"]), (0, "improvement"), "the other way round")
    check_equal(compare(sandbox, folder + "/a.jsonl", folder + "/nothing")[0], 3, "no such file")
    check_equal(compare(sandbox, folder + "/a.jsonl", folder + "/b.jsonl", "--metric", "speed")[0], 2, "no such metric")


@case
def several_trials_of_a_side(sandbox):
    """Runs differ by 10 %, steps within a run hardly: one run a side would accuse, three do not."""
    folder = sandbox.fresh("trials")
    levels = {"a1": 1.00, "a2": 1.10, "a3": 0.95, "b1": 1.12, "b2": 0.97, "b3": 1.06}
    for name, level in levels.items():
        write_csv(f"{folder}/{name}.csv", {"step_time": list(Series(name, 0.2, 0.01, 0).values(200, level))})
    side = {letter: ",".join(f"{folder}/{letter}{i}.csv" for i in (1, 2, 3)) for letter in "ab"}
    _, one, _ = compare(sandbox, f"{folder}/a1.csv", f"{folder}/b1.csv")
    check("one run a side" in " ".join(one["notes"]) and one["metrics"][0]["verdict"] == "worse", f"{one}")
    status, three, _ = compare(sandbox, side["a"], side["b"])
    check_equal((status, three["verdict"], three["metrics"][0]["between_trials"]), (0, "inconclusive", True), f"{three}")


@case
def problem_of_the_user(sandbox):
    folder = sandbox.fresh("problem")
    for name, text in (("bad", "step_time\n" + "1\n" * 20), ("good", "step_time\n" + "1\n" * 20)):
        with open(f"{folder}/{name}.csv", "w") as file:
            file.write(text)
    problem = 'case {} in *bad*) exit 1;; esac; test "$NCCLWATCH_SIDE" = after'
    status, result, _ = compare(sandbox, f"{folder}/bad.csv", f"{folder}/good.csv", "--problem", problem)
    check_equal((status, result["verdict"], result["problem"]["before"], result["problem"]["after"]), (0, "fixed", True, False), "fixed")
    status, result, _ = compare(sandbox, f"{folder}/bad.csv", f"{folder}/bad.csv", "--problem", "false")
    check_equal((status, result["verdict"]), (1, "not_fixed"), "not fixed")
    status, result, _ = compare(sandbox, f"{folder}/good.csv", f"{folder}/bad.csv", "--problem", "grep -q step_time")
    check_equal((status, result["verdict"]), (0, "unchanged"), "appended where there is no {}")


@case
def trials_that_are_run(sandbox):
    words = ["--trials", "4", "--metric", "speed:higher", "5", "9"]
    status, result, done = compare(sandbox, *words, "--", "sh", "-c", 'echo "{\\"speed\\": {}, \\"side\\": \\"$NCCLWATCH_SIDE\\"}"')
    check(done.out, f"{done}")
    speed = next(one for one in result["metrics"] if one["name"] == "speed")
    check_equal((status, result["verdict"], speed["before"]["n"], speed["after"]["median"]), (0, "improvement", 4, 9), f"{result}")
    check_equal(compare(sandbox, *words, "--", "false")[0], 3, "a run that fails")


def recorded(sandbox, step_us, extra_us, steps=120):
    """A training loop of real MPI, of which rank 0 sleeps longer by extra_us in each step."""
    if not shutil.which("mpicc.openmpi"):
        raise Skipped("no Open MPI here")
    program, recording = os.path.join(sandbox.path, "steps"), sandbox.fresh("recording")
    if not os.path.exists(program):
        subprocess.run(["mpicc.openmpi", "-O1", os.path.join(HERE, "..", "slow", "programs", "steps.c"), "-o", program], check=True)
    argv = ["mpirun.openmpi", "--allow-run-as-root", "--oversubscribe", "--mca", "mpi_yield_when_idle", "1", "-n", "2", program]
    words = [steps, step_us, 0, 0 if extra_us else steps, extra_us, "sleep"]
    done = sandbox.run([sandbox.build.command, "run", "--record", recording, "--", *argv, *map(str, words)],
                       sandbox.environment(preload=False, extra={"LD_LIBRARY_PATH": ""}), timeout=60)
    check_equal(done.status, 0, f"{done}")
    return recording


@case
def recorded_runs(sandbox):
    first, again = recorded(sandbox, 6000, 0), recorded(sandbox, 6000, 0)
    _, result, _ = compare(sandbox, first, again)  # of the verdict --same tells: other tests may run beside one of them
    check(result["first_difference"] is None and {"step_time", "step_compute"} <= {one["name"] for one in result["metrics"]}, f"the same program: {result}")
    longer = recorded(sandbox, 6000, 0, steps=130)
    _, result, _ = compare(sandbox, first, longer)
    check(result["first_difference"]["before"] != result["first_difference"]["after"], f"{result['first_difference']}")


@soak_case
def recorded_run_of_a_slower_program(sandbox):
    status, result, _ = compare(sandbox, recorded(sandbox, 6000, 0), recorded(sandbox, 6000, 3000))
    step = next(one for one in result["metrics"] if one["name"] == "step_time")
    check(status == 1 and result["verdict"] == "regression" and step["change"] > 0.2, f"{step}")


def print_pairs(count, build):
    with Sandbox(build) as sandbox:
        told, wrong = judge_pairs(sandbox, count)
    for change, (pairs, worse, better) in told.items():
        print(f"change {change:+.2f}: {pairs} pairs, worse {worse}, better {better}")
    for one in wrong:
        print(f"wrong: {one}")
    print(f"{count} pairs of four metrics, autocorrelation 0 to 0.9: {len(wrong)} with a false alarm")
    return len(wrong) > 0.01 * count


def print_same(count, build):
    false = 0
    with Sandbox(build) as sandbox:
        for _ in range(count):
            _, result, _ = compare(sandbox, recorded(sandbox, 6000, 0), recorded(sandbox, 6000, 0))
            false += result["verdict"] in ("regression", "fixed", "not_fixed")
            print(result["verdict"], [f"{one['name']} {one['change']:+.3f} {one['verdict']}" for one in result["metrics"] if one["verdict"] != "same"], flush=True)
    print(f"{count} pairs of real MPI runs of one program: {false} told as a regression")
    return false > 0


if __name__ == "__main__":
    if "--pairs" in sys.argv or "--same" in sys.argv:
        runs = Build(sys.argv[sys.argv.index("--build") + 1])
        option, act = ("--pairs", print_pairs) if "--pairs" in sys.argv else ("--same", print_same)
        sys.exit(act(int(sys.argv[sys.argv.index(option) + 1]), runs))
    run_main("compare")
