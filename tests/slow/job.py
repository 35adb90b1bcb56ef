"""A job that is recorded while it runs, and what is said of it then and afterwards."""

import json
import os
import shutil
import sys

from harness import Skipped, check, check_equal

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.join(HERE, "..", "..")
LAUNCH = [sys.executable, os.path.join(ROOT, "examples", "launch.py"), "-n", "4", "--"]


class Job:
    """Recorded, so that its boxes stay though it ends well."""

    def __init__(self, sandbox, argv, extra=None):
        build = sandbox.build
        self.sandbox, self.scratch = sandbox, sandbox.fresh("job")
        self.recording, self.out = os.path.join(self.scratch, "recording"), os.path.join(self.scratch, "out")
        env = sandbox.environment(preload=False, extra={"TMPDIR": self.scratch, "NCCLWATCH_OUT": self.out, **(extra or {})})
        said = os.path.join(self.scratch, "said.json")
        self.done = sandbox.run([build.command, "run", "--json", said, "--record", self.recording, "--", *argv], env, timeout=100)
        check_equal(self.done.status, 0, f"{self.done}")
        with open(said) as file:
            self.last_word = json.load(file)
        self.lines = [line for line in self.done.err.splitlines() if line.startswith("[ncclwatch") and " step" in line]

    def command(self, *words):
        argv = [self.sandbox.build.command, words[0], self.recording, *words[1:]]
        return self.sandbox.run(argv, self.sandbox.environment(preload=False), timeout=60)

    def diagnose(self, *words):
        done = self.command("diagnose", "--json", *words)
        return done.status, json.loads(done.out)["findings"] if done.out else None

    def events(self):
        found = []
        for folder, _, names in os.walk(self.out):
            for name in names:
                if name == "events.jsonl":
                    with open(os.path.join(folder, name)) as file:
                        found += [json.loads(line) for line in file]
        return found

    def check_straggler(self, rank, began, share):
        """share: of the step that is lost, at least and at most."""
        status, findings = self.diagnose()
        check_equal((status, [(f["kind"], f["culprits"]) for f in findings]), (1, [("straggler", [rank])]), "afterwards")
        finding = findings[0]
        check(finding["certainty"] != "certain", "a straggler is never certain")
        check_equal((self.last_word["healthy"], [f["kind"] for f in self.last_word["findings"]]), (False, ["straggler"]), "run's last word")
        check("[ncclwatch] diagnosis: " in self.done.err, f"it says where the diagnosis lies: {self.done.err}")
        check(share[0] < finding["share_lost"] < share[1], f"share lost: {finding['share_lost']}")
        onset = finding["onset"]
        check(abs(onset["step"] - began) <= 10 and not onset["since_before"], f"since step {began}: {onset}")
        check_equal(len(self.lines), 1, f"it is said once while the job runs: {self.done.err}")
        check(f"Rank {rank} comes" in self.lines[0], self.lines[0])
        events = self.events()
        check_equal([(e["event_type"], e["rank"], e["details"]["culprits"]) for e in events], [("straggler", rank, [rank])],
                    "events")
        check(abs(events[0]["step"] - began) <= 10 and not events[0]["details"]["onset"]["since_before"], f"{events[0]}")
        check({"timestamp", "step", "host", "job"} <= set(events[0]), f"{events[0]}")

    def check_meanwhile(self, kind, rank, words):
        """A straggler and what it does while the others wait for it: the same in the run as afterwards."""
        status, findings = self.diagnose()
        check_equal((status, [(f["kind"], f["culprits"]) for f in findings[:1]]), (1, [(kind, [rank])]), f"{findings}")
        finding = findings[0]
        meanwhile = "Meanwhile it " + finding["summary"].partition("Meanwhile it ")[2]
        check(words in meanwhile, f"{finding['summary']} {finding['evidence']}")
        check(finding["certainty"] != "certain" and finding["culprit_details"][0]["where"], f"{finding}")
        said = [line for line in self.lines if f"{kind} (" in line]
        check(len(said) == 1 and meanwhile in said[0], f"it is said once while the job runs, in the same words: {self.done.err}")

    def check_quiet(self):
        check_equal(self.lines, [], "nothing is said while the job runs")
        check_equal(self.diagnose(), (0, []), "afterwards")
        check_equal(self.events(), [], "events")


def example(sandbox, name, *words):
    path = os.path.join(sandbox.build.root, "examples", name)
    sandbox.build.need(path, sandbox.build.command)
    return Job(sandbox, [*LAUNCH, path, *words])


LAUNCHERS = {"openmpi": ["--allow-run-as-root", "--oversubscribe", "--mca", "mpi_yield_when_idle", "1"], "mpich": []}


def mpi_program(sandbox, name, flavour="openmpi"):
    compiler = "mpicc." + flavour
    if not shutil.which(compiler):
        raise Skipped(f"no {compiler} here")
    program = os.path.join(sandbox.fresh("program"), name)
    source = os.path.join(HERE, "programs", name + ".c")
    built = sandbox.run([compiler, "-Wall", "-Wextra", "-O1", "-I", os.path.join(ROOT, "include"), source, "-o", program,
                         "-ldl", "-lm"], sandbox.environment(preload=False))
    check_equal((built.status, built.err), (0, ""), f"{built}")
    return program


def mpi(sandbox, name, *words, flavour="openmpi", ranks=4):
    program = mpi_program(sandbox, name, flavour)
    argv = ["mpirun." + flavour, *LAUNCHERS[flavour], "-n", str(ranks), program]
    return Job(sandbox, [*argv, *map(str, words)], {"LD_LIBRARY_PATH": ""})


def mpi_steps(sandbox, *words, **how):
    return mpi(sandbox, "steps", *words, **how)
