#!/usr/bin/env python3
"""What docs/deploy gives people to copy: manifests against Kubernetes' schemas, and hooks with stand-ins for the programs that
they call."""

import glob
import json
import os
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "support"))

from harness import Skipped, case, check, check_equal, clean_environment, run_main  # noqa: E402

DEPLOY = os.path.join(HERE, "..", "..", "docs", "deploy")
PYTHON = os.path.join(HERE, "..", "..", "build", "venv", "bin", "python")
# Every pod of a manifest, as a Pod of its own: the schemas know pods, not the custom resources around them.
VALIDATE = """
import sys, yaml, kubernetes_validate

def templates(value):
    if isinstance(value, dict):
        if "containers" in value.get("spec", {}) if isinstance(value.get("spec"), dict) else False:
            yield value["spec"]
        for inner in value.values():
            yield from templates(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from templates(inner)

for path in sys.argv[1:]:
    with open(path) as file:
        specs = [spec for document in yaml.safe_load_all(file) for spec in templates(document)]
    for spec in specs:
        kubernetes_validate.validate({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "pod"}, "spec": spec}, "1.28",
                                     strict=True)
    print(path, len(specs))
"""


@case
def manifests(sandbox):
    python = PYTHON if os.path.exists(PYTHON) else sys.executable
    if subprocess.run([python, "-c", "import kubernetes_validate, yaml"], stderr=subprocess.DEVNULL).returncode != 0:
        raise Skipped("no kubernetes-validate here: ./dev test installs it")
    files = sorted(glob.glob(os.path.join(DEPLOY, "kubernetes", "*.yaml")))
    check(len(files) >= 4, f"manifests: {files}")
    done = subprocess.run([python, "-c", VALIDATE, *files], capture_output=True, text=True)
    check_equal(done.returncode, 0, f"the schemas' opinion: {done.stderr[-2000:]}")
    pods = {os.path.basename(line.split()[0]): int(line.split()[1]) for line in done.stdout.splitlines()}
    check_equal(pods, {"pytorchjob.yaml": 1, "mpijob.yaml": 2, "raycluster.yaml": 2, "leaderworkerset.yaml": 2}, "pods")
    broken = os.path.join(sandbox.fresh("broken"), "broken.yaml")
    with open(files[0]) as source, open(broken, "w") as file:
        file.write(source.read().replace("mountPath", "mountpath", 1))
    done = subprocess.run([python, "-c", VALIDATE, broken], capture_output=True, text=True)
    check("mountPath" in done.stderr, f"a misspelt key is found: {done.stderr[-500:]}")


class Stands:
    """Stand-ins for programs: they write their arguments and their standard input, and succeed."""

    def __init__(self, sandbox, *names):
        self.folder = sandbox.fresh("stands")
        self.log = os.path.join(self.folder, "log")
        for name in names:
            path = os.path.join(self.folder, name)
            with open(path, "w") as file:
                file.write(f'#!/bin/sh\nprintf "%s" {name} >>{self.log}\nfor word; do printf "|%s" "$word" >>{self.log}; done\n'
                           f'printf "\\n" >>{self.log}\n[ {name} != curl ] || cat >>{self.log}\n')
            os.chmod(path, 0o755)

    def run(self, hook, document, **environment):
        with open(self.log, "w"):
            pass
        path = f"{self.folder}:{os.environ['PATH']}"
        done = subprocess.run([os.path.join(DEPLOY, "hooks", hook)], input=json.dumps(document), text=True,
                              env={**clean_environment(), **environment, "PATH": path}, capture_output=True)
        check_equal(done.returncode, 0, f"{hook}: {done.stderr}")
        with open(self.log) as file:
            return file.read().splitlines()


def verdict(kind="device_stall", certainty="likely", exit=None, node="node17", gpu="GPU-5c1f"):
    return {"schema": "ncclwatch.diagnosis/1", "job": {"name": "train", "attempt": 1},
            "findings": [{"kind": kind, "certainty": certainty, "summary": 'Rank 2 said "no"; $(reboot)',
                          "culprit_details": [{"rank": 2, "host": "pod-3", "node": node, "gpu_uuid": gpu, "exit": exit}]}]}


@case
def slurm_drains(sandbox):
    stands = Stands(sandbox, "scontrol")
    drained = ["scontrol|update|nodename=node17|state=drain|reason=ncclwatch:device_stall GPU-5c1f"]
    check_equal(stands.run("slurm-drain.sh", verdict()), drained, "calls")
    check_equal(stands.run("slurm-drain.sh", verdict(kind="dead_rank", certainty="certain", gpu=None)),
                ["scontrol|update|nodename=node17|state=drain|reason=ncclwatch:dead_rank"], "a node that is gone")


@case
def kubernetes_cordons(sandbox):
    stands = Stands(sandbox, "kubectl")
    check_equal(stands.run("kubernetes-cordon.sh", verdict(kind="frozen_process", gpu=None, node=None)),
                ["kubectl|cordon|pod-3", "kubectl|annotate|--overwrite|node|pod-3|ncclwatch/reason=ncclwatch:frozen_process"],
                "calls")


@case
def nothing_is_drained_for_a_program(sandbox):
    """What the program did, what is no more than suspected, and a healthy job."""
    stands = Stands(sandbox, "scontrol", "kubectl")
    killed = {"signal": 9, "status": None, "core": False, "out_of_memory": False}
    for document in (verdict(certainty="suspected"), verdict(kind="missing_participant"),
                     verdict(kind="argument_mismatch", certainty="certain"), verdict(kind="dead_rank", exit=killed),
                     {"findings": [], "job": {"name": "", "attempt": 0}}):
        for hook in ("slurm-drain.sh", "kubernetes-cordon.sh"):
            check_equal(stands.run(hook, document), [], f"{hook} on {document['findings'][:1]}")


@case
def slack_is_told(sandbox):
    stands = Stands(sandbox, "curl")
    call, body = stands.run("slack.sh", verdict(), SLACK_WEBHOOK="http://chat.example/hook")
    check(call.startswith("curl|") and call.endswith("|http://chat.example/hook"), f"curl: {call}")
    text = json.loads(body)["text"]
    check_equal(text, '*device_stall* (likely), job train, attempt 1\nRank 2 said "no"; $(reboot)\nnodes: node17', "message")
    check_equal(stands.run("slack.sh", verdict()), [], "without an address")


@case
def real_verdict_reaches_a_hook(sandbox):
    """NCCLWATCH_HOOK with a stand-in for curl, on a real job."""
    stands = Stands(sandbox, "curl")
    environment = {**sandbox.environment(preload=False), "PATH": f"{stands.folder}:{os.environ['PATH']}",
                   "SLACK_WEBHOOK": "http://chat.example/hook", "NCCLWATCH_HOOK": os.path.join(DEPLOY, "hooks", "slack.sh")}
    done = sandbox.run([sandbox.build.command, "demo", "--ranks", "3"], environment, timeout=60)
    check_equal(done.status, 0, f"the demo: {done}")
    with open(stands.log) as file:
        text = json.loads(file.read().splitlines()[1])["text"]
    check(text.startswith("*missing_participant* (likely), job ") and "Rank 2 (" in text, f"message: {text}")


if __name__ == "__main__":
    run_main("deploy")
