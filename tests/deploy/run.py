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
    for path in files:
        with open(path) as file:
            text = file.read()
        check("NCCLWATCH_TOKEN_FILE" not in text, f"{path}: a file of a Secret is a link, which is refused")
        check("secretKeyRef: {name: ncclwatch-token, key: token}" in text, f"{path}: the job's secret")
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


LOST = "rank 2 is on node17, which has not been heard from for 6.2 s: lost, or cut off from the others"
STUCK = "rank 2 is stuck in the kernel (state D, uninterruptible sleep)"


def verdict(kind="dead_rank", certainty="likely", evidence=LOST, nodes=("node17",)):
    return {"schema": "ncclwatch.diagnosis/1", "job": {"name": "train", "attempt": 1},
            "findings": [{"kind": kind, "certainty": certainty, "summary": 'Rank 2 said "no"; $(reboot)', "evidence": [evidence],
                          "culprit_details": [{"rank": 2, "host": "pod-3", "node": node, "gpu_uuid": None, "exit": None}
                                              for node in nodes]}]}


@case
def slurm_drains(sandbox):
    stands = Stands(sandbox, "scontrol")
    for document in (verdict(), verdict(nodes=("node17", "node17"))):
        check_equal(stands.run("slurm-drain.sh", document),
                    ["scontrol|update|nodename=node17|state=drain|reason=ncclwatch:dead_rank"], "a node that is gone")
    check_equal(stands.run("slurm-drain.sh", verdict("frozen_process", evidence=STUCK)),
                ["scontrol|update|nodename=node17|state=drain|reason=ncclwatch:frozen_process"], "stuck in the kernel")


@case
def kubernetes_cordons(sandbox):
    stands = Stands(sandbox, "kubectl")
    check_equal(stands.run("kubernetes-cordon.sh", verdict()),
                ["kubectl|cordon|node17", "kubectl|annotate|--overwrite|node|node17|ncclwatch/reason=ncclwatch:dead_rank"], "calls")


@case
def nothing_else_is_drained(sandbox):
    """What a program or its user can have done, what is only suspected, names that mean more than one node."""
    stands = Stands(sandbox, "scontrol", "kubectl")
    documents = [verdict(certainty="suspected"), verdict(kind="missing_participant"), verdict(nodes=("node1", "node2")),
                 verdict(nodes=(None,)), verdict(nodes=()), {"findings": [], "job": {"name": "", "attempt": 0}},
                 *(verdict(nodes=(name,)) for name in ("ALL", "all", "gpu[1-99]", "gpu1,gpu2", "--all", "a b", "a\nb", "", "*"))]
    golden = sorted(glob.glob(os.path.join(HERE, "..", "golden", "*.json")))
    check(any("frozen_process" in path for path in golden) and any("device_stall" in path for path in golden), f"golden: {golden}")
    for path in golden:  # nobody's machine is at fault in any of them: a stopped process, a stream behind a kernel, deaths
        with open(path) as file:
            documents.append(json.load(file))
    for document in documents:
        for hook in ("slurm-drain.sh", "kubernetes-cordon.sh"):
            check_equal(stands.run(hook, document), [], f"{hook} on {json.dumps(document['findings'][:1])[:500]}")


@case
def slack_is_told(sandbox):
    stands = Stands(sandbox, "curl")
    call, body = stands.run("slack.sh", verdict(), SLACK_WEBHOOK="http://chat.example/hook")
    check(call.startswith("curl|") and call.endswith("|http://chat.example/hook"), f"curl: {call}")
    text = json.loads(body)["text"]
    check_equal(text, '*dead_rank* (likely), job train, attempt 1\nRank 2 said "no"; $(reboot)\nnodes: node17', "message")
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
