"""Jobs of a Slurm site: what its users and its administrator do, and what ncclwatch must say and leave."""

import json
import os
import subprocess

from slurm_site import Failure, Site

import faults  # of ../../scenarios

TIMEOUT_S = "3"
PATIENCE_S = 30.0
ENDLESS = "--step 30 --steps 1000000 --step-ms 5"


def script(site, example, options=ENDLESS, srun="", wrapper="", out=True):
    """A batch script as people write them: two nodes, and srun."""
    lines = [f"export LD_LIBRARY_PATH={site.build.softgpu}:$LD_LIBRARY_PATH",
             f"export SOFTGPU_NCCL_DIR={site.cluster.softgpu_at} NCCLWATCH_TIMEOUT={TIMEOUT_S}",
             f"export EXAMPLES_FAULT_FILE={site.root}/fault.$SLURM_JOB_ID",
             f"export NCCLWATCH_OUT={site.out}" if out else "",
             f"srun {srun} {wrapper} {site.build.example(example)} {options}"]
    return "\n".join(line for line in lines if line) + "\n"


def finding(site, job, want, culprit, nodes=(0, 1)):
    """The verdict, once it is the same on all nodes: its document."""
    def on_all():
        found = {}
        for name, folder in site.run_directories(job):
            for place in (folder, os.path.join(folder, "attempt-1")):
                try:
                    with open(os.path.join(place, "diagnosis.json")) as file:
                        document = json.load(file)
                except (FileNotFoundError, json.JSONDecodeError):
                    continue
                if document["findings"] and document["findings"][0]["kind"] == want["kind"]:
                    found[name] = document
        return list(found.values()) if len(found) == len(nodes) else None

    documents = site.wait_until(on_all, PATIENCE_S, f"{want['kind']} was to be found on every node")
    for document in documents:
        faults.check_finding(document, want, culprit, f"job {job}")
    return documents[0]


def check_place(site, document, node):
    """The verdict names the culprit's node as Slurm calls it."""
    where = document["findings"][0]["culprit_details"][0]
    if where["node"] != site.names[node] or where["host"] != site.nodes[node].host:
        raise Failure(f"the culprit runs on {site.names[node]} ({site.nodes[node].host}): {where}")
    if document["coverage"]["watched"] != 4:
        raise Failure(f"not all ranks are watched: {document['coverage']}")


def collected(site, job):
    """node's name -> folders of that job that the epilog has brought to shared storage."""
    base = os.path.join(site.collect, str(os.getuid()))
    found = {}
    for run in sorted(os.listdir(base)) if os.path.isdir(base) else []:
        if run.startswith(f"slurm-{job}."):
            for node in os.listdir(os.path.join(base, run)):
                found.setdefault(node, []).append(os.path.join(base, run, node))
    return found


def diagnosed(site, folders):
    done = subprocess.run([site.build.command, "diagnose", "--json", *folders], capture_output=True, text=True, timeout=60)
    return json.loads(done.stdout)


def cancel(site, job):
    site.call("scancel", job)
    site.wait_until(lambda: site.state(job) == "CANCELLED", PATIENCE_S, f"job {job} was to be cancelled")
    site.wait_until(site.all_idle, PATIENCE_S, "the nodes were to be idle again")


# ---- the cases -----------------------------------------------------------------------------------------------------

def preloaded_for_all(build):
    """TaskProlog preloads for the tasks of srun, not for the batch script, and not where the user says no."""
    with Site(build, 2) as site:
        job = site.submit("echo script ${LD_PRELOAD:-nothing}\n" + script(site, "healthy_training", "--steps 300 --step-ms 5"),
                          "-N2", "-n4")
        site.wait_until(lambda: site.state(job) == "COMPLETED", PATIENCE_S, "the job was to end well")
        said = [line for line in site.output(job).splitlines() if line.startswith("[ncclwatch")]
        if len(said) != 1 or "watching 4/4 ranks" not in said[0] or "script nothing" not in site.output(job):
            raise Failure(f"said of a healthy job:\n{site.output(job)}")
        if site.run_directories(job) or collected(site, job):
            left = {folder: open(folder + "/ncclwatch.log").read() for folders in collected(site, job).values() for folder in folders}
            raise Failure(f"left by a healthy job: {site.run_directories(job)} {left}\n{site.output(job)}")
        env = "sh -c 'echo $LD_PRELOAD'"
        library = os.path.join(site.root, "prefix/lib/ncclwatch/libncclwatch.so")
        for variables, printed in (({}, library), ({"NCCLWATCH": "off"}, ""), ({"LD_PRELOAD": "/lib/x.so"}, library + ":/lib/x.so"),
                                   ({"LD_PRELOAD": "/opt/libncclwatch-mpich.so"}, "/opt/libncclwatch-mpich.so")):
            told = ",".join(["ALL", *(f"{name}={value}" for name, value in variables.items())])
            done = site.call("srun", "-N1", "-n1", f"--export={told}", "sh", "-c", "echo $LD_PRELOAD")
            if done.stdout.strip() != printed:
                raise Failure(f"{env} with {variables}: {done.stdout} instead of {printed}")


def hang_over_two_nodes(build):
    """Three tasks on one node and one on the other, as Slurm spreads them if nobody tells it."""
    with Site(build, 2) as site:
        job = site.submit(script(site, "stuck_data_loader", "--rank 3 " + ENDLESS), "-N2", "-n4")
        document = finding(site, job, faults.expected("stuck_data_loader"), 3)
        check_place(site, document, 1)


def hang_behind_a_script(build):
    """The script between srun and the program says RANK and WORLD_SIZE, as training programs want them."""
    with Site(build, 2) as site:
        wrapper = os.path.join(site.root, "rank.sh")
        with open(wrapper, "w") as file:
            file.write('#!/bin/sh\nexport RANK=$SLURM_PROCID WORLD_SIZE=$SLURM_NTASKS LOCAL_RANK=$SLURM_LOCALID\n'
                       'export MASTER_ADDR=gpu0 MASTER_PORT=29500\nexec "$@"\n')
        os.chmod(wrapper, 0o755)
        job = site.submit(script(site, "stuck_data_loader", "--rank 2 " + ENDLESS, wrapper=wrapper), "-N2",
                          "--ntasks-per-node=2")
        document = finding(site, job, faults.expected("stuck_data_loader"), 2)
        check_place(site, document, 1)


def cancelled(build):
    """scancel accuses nobody of a job that ran well, and keeps what was found of one that did not."""
    with Site(build, 2) as site:
        job = site.submit(script(site, "healthy_training", "--steps 1000000 --step-ms 5"), "-N2", "-n4")
        site.wait_until(lambda: "watching 4/4 ranks" in site.output(job), PATIENCE_S, "all ranks were to be watched")
        cancel(site, job)
        for folders in collected(site, job).values():
            found = diagnosed(site, folders)["findings"]
            if found:
                raise Failure(f"found in a job that was cancelled: {json.dumps(found, indent=1)}\n{site.output(job)}")
        if "certain)" in site.output(job) or "likely)" in site.output(job):
            raise Failure(f"said of a job that was cancelled:\n{site.output(job)}")

        job = site.submit(script(site, "stuck_data_loader", "--rank 1 " + ENDLESS), "-N2", "-n4")
        want = faults.expected("stuck_data_loader")
        finding(site, job, want, 1)
        cancel(site, job)
        folders = sorted(folder for some in collected(site, job).values() for folder in some)
        if len(folders) != 2 or site.run_directories(job):
            raise Failure(f"collected {folders}, left {site.run_directories(job)}\n{site.logs()}")
        for folder in folders:
            with open(os.path.join(folder, "diagnosis.json")) as file:
                faults.check_finding(json.load(file), want, 1, folder)


def requeued(build):
    """A job that Slurm starts again is another attempt, and the first one's verdict is kept."""
    with Site(build, 2) as site:
        job = site.submit(script(site, "stuck_data_loader", "--rank 2 " + ENDLESS), "-N2", "-n4", "--requeue")
        want = faults.expected("stuck_data_loader")
        first = finding(site, job, want, 2)
        site.call("scontrol", "requeue", job)
        site.wait_until(lambda: len(collected(site, job)) == 2, PATIENCE_S, "the epilog was to collect the first attempt")
        site.wait_until(lambda: len(site.run_directories(job)) == 2, PATIENCE_S, "the job was to run again")
        second = finding(site, job, want, 2)
        if (first["job"]["attempt"], second["job"]["attempt"]) != (0, 1) or first["job"]["name"] == second["job"]["name"]:
            raise Failure(f"attempts are not told apart: {first['job']} {second['job']}")
        cancel(site, job)
        for node, folders in collected(site, job).items():
            attempts = sorted(os.path.exists(os.path.join(folder, "attempt-1", "diagnosis.json")) for folder in folders)
            if attempts != [False, True]:
                raise Failure(f"collected of two attempts on {node}: {folders}")


def elements_of_an_array(build):
    """Two elements run side by side on the same nodes: one hangs, the other is healthy and ends."""
    with Site(build, 2) as site:
        text = script(site, "stuck_data_loader", "--rank $((SLURM_ARRAY_TASK_ID == 1 ? 2 : 99)) --step 30 --steps 600 --step-ms 5")
        job = site.submit(text, "-N2", "-n4", "--array=1-2")
        numbers = site.wait_until(lambda: site.array(job, 2), PATIENCE_S, "both elements were to start")
        finding(site, numbers[1], faults.expected("stuck_data_loader"), 2)
        site.wait_until(lambda: site.state(numbers[2]) == "COMPLETED", PATIENCE_S, "the healthy element was to end well")
        healthy = site.output(f"{job}.2")
        if "watching 4/4 ranks" not in healthy or "missing_participant" in healthy:
            raise Failure(f"said of the healthy element:\n{healthy}")
        if site.run_directories(numbers[2]):
            raise Failure(f"left by the healthy element: {site.run_directories(numbers[2])}")


def collected_by_the_epilog(build):
    """Memory and the node's own NCCLWATCH_OUT go to shared storage, as the user, without following what lies there."""
    with Site(build, 2) as site:
        text = script(site, "killed", "--rank 3 " + ENDLESS, out=False)
        # Two tasks a node: the leader that lives sees how the other died.
        job = site.submit(f"export NCCLWATCH_OUT={site.local_out}\n" + text, "-N2", "--ntasks-per-node=2")
        want = faults.expected("killed")
        finding(site, job, want, 3)
        cancel(site, job)
        folders = [folder for some in collected(site, job).values() for folder in some]
        faults.check_finding(diagnosed(site, folders), want, 3, f"collected: {folders}")
        if len(collected(site, job)) != 2 or site.run_directories(job) or any(map(site.local_runs, site.nodes)):
            raise Failure(f"collected {collected(site, job)}, left {site.run_directories(job)}")

        # Another user's folder, with a link to what only root can read.
        node, user = site.nodes[0], 65534
        secret = os.path.join(site.root, "secret")
        with open(secret, "w") as file:
            file.write("root's own\n")
        os.chmod(secret, 0o600)
        run = f"/dev/shm/ncclwatch-{user}/slurm-999.0-a"
        make = (f"mkdir -p {run} /dev/shm/ncclwatch-{user}/elsewhere && echo box >{run}/a.box && ln -s {secret} {run}/link && "
                f"ln -s {site.root} /dev/shm/ncclwatch-{user}/slurm-999.1-b && chown -hR {user} /dev/shm/ncclwatch-{user}")
        site.on_node(node, make)
        site.on_node(node, f"SLURM_JOB_ID=999 SLURM_JOB_UID={user} SLURMD_NODENAME=gpu0 {site.root}/epilog.sh")
        base = os.path.join(site.collect, str(user))
        runs = sorted(os.listdir(base))
        target = os.path.join(base, "slurm-999.0-a", "gpu0")
        if runs != ["slurm-999.0-a"] or not os.path.islink(os.path.join(target, "link")) or os.stat(target).st_uid != user:
            raise Failure(f"collected of another user: {runs}, {os.listdir(target)}")
        if os.path.exists(node.path(run)) or not os.path.exists(os.path.join(site.root, "slurm.conf")):
            raise Failure("the run directory was to go, and nothing else")


def doctor_of_all_ranks(build):
    """`srun ncclwatch doctor` prints one report, over two nodes."""
    with Site(build, 2) as site:
        job = site.submit(f"srun {site.build.command} doctor --json\n", "-N2", "-n4")
        site.wait_until(lambda: site.state(job) in ("COMPLETED", "FAILED"), PATIENCE_S, "the job was to end")
        output = site.output(job)
        report = json.loads(output[output.index("{"):output.rindex("}") + 1])
        checks = {check["id"]: check for check in report["checks"]}
        bad = {name: check for name, check in checks.items() if check["status"] == "FAIL"}
        if (report["ranks"], report["hosts"], bad) != (4, 2, {}) or checks["reachability"]["status"] != "PASS":
            raise Failure(f"doctor under srun: {output}")


def attached_from_outside(build):
    """A job that runs without ncclwatch: `srun --overlap ncclwatch attach` prints one verdict, over two nodes."""
    with Site(build, 2) as site:
        job = site.submit("export NCCLWATCH=off\n" + script(site, "stuck_data_loader", "--rank 3 " + ENDLESS, out=False), "-N2", "-n4")
        fault = os.path.join(site.root, f"fault.{job}")
        site.wait_until(lambda: os.path.exists(fault), PATIENCE_S, "the fault was to be planted")

        def found():
            done = site.call("srun", "--overlap", "--jobid", job, "-N2", "--ntasks-per-node=1", build.command, "attach", "--json",
                             check=False)
            document = json.loads(done.stdout) if done.stdout.startswith("{") else None
            if not document or document["coverage"]["watched"] != 4 or document["job"]["hosts"] != ["node0", "node1"]:
                raise Failure(f"one verdict on all ranks was to be printed: {done.stdout}{done.stderr}")
            return document["findings"]

        first = site.wait_until(found, PATIENCE_S, "something was to be found")[0]
        if (first["kind"], first["culprits"], first["culprit_details"][0]["host"]) != ("missing_participant", [3], "node1"):
            raise Failure(f"the verdict: {json.dumps(first, indent=1)}")


CASES = [attached_from_outside, doctor_of_all_ranks, preloaded_for_all, hang_over_two_nodes, hang_behind_a_script, cancelled, requeued, elements_of_an_array,
         collected_by_the_epilog]
