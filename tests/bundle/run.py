#!/usr/bin/env python3
"""`ncclwatch bundle`: a job packed, unpacked by tar, and looked at again; redacted ones are searched for what must not be in them."""

import gzip
import json
import os
import random
import re
import shutil
import string
import subprocess
import sys
import threading

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "support"))

from harness import Skipped, case, check, check_equal, clean_environment, run_main  # noqa: E402

HOST = "node017.cluster-7.example.com"
CRASHED = "/home/somebody/models/secret_model/train.py"


def bundle(sandbox, *words, status=0):
    """(where it is unpacked, what the command printed as JSON)"""
    for program in ("tar", "zstd"):
        if not shutil.which(program):
            raise Skipped(f"no {program} here")
    file = os.path.join(sandbox.fresh("bundle"), "file.tar.zst")
    done = sandbox.run([sandbox.build.command, "bundle", *words, "-o", file, "--json"], clean_environment(), timeout=60)
    check_equal(done.status, status, f"{done}: status")
    if status != 0:
        return None, done
    into = sandbox.fresh("unpacked")
    subprocess.run(["tar", "--zstd", "-xf", file, "-C", into], check=True, timeout=60)
    return os.path.join(into, "ncclwatch-bundle"), json.loads(done.out)


def files_below(folder):
    found = {}
    for where, _, names in os.walk(folder):
        for name in names:
            path = os.path.join(where, name)
            if os.path.islink(path) or not os.path.isfile(path):
                continue
            with open(path, "rb") as file:
                found[os.path.relpath(path, folder)] = file.read()
    return found


def dead_job(sandbox, **options):
    """Three ranks; rank 1 has left its last call out, the others wait. Beside the boxes what a watchdog leaves."""
    writer = sandbox.build.program("analyzer", "box_writer")
    sandbox.build.need(sandbox.build.command, writer)
    directory = os.path.join(sandbox.fresh("job"), "run")
    for rank in range(3):
        words = [f"{name}={value}" for name, value in options.items()] + (["skip=1"] if rank == 1 else ["pending=1"])
        subprocess.run([writer, directory, f"rank={rank}", "world=3", "calls=3", *words], check=True, capture_output=True,
                       env=clean_environment(), timeout=30)
    os.makedirs(directory + "/stacks")
    with open(directory + "/stacks/merged.txt", "w") as file:
        file.write(f"read (train.py:57)\nmain ({CRASHED}:91)\non {HOST}, 10.31.4.17\n")
    with open(directory + "/events.jsonl", "w") as file:
        file.write(json.dumps({"type": "checkpoint", "host": HOST, "details": {"path": CRASHED, "bytes": 17}}) + "\n")
    os.symlink("/etc/passwd", directory + "/link")
    os.mkfifo(directory + "/pipe")
    return directory


def check_hidden(unpacked, *words):
    """A short word may be part of another one, and come up in a box by chance."""
    for word in words:
        for name, content in unpacked.items():
            alone = rb"(?<![A-Za-z0-9])" + re.escape(word.encode()) + rb"(?![A-Za-z0-9])"
            chance = len(word) < 5 and name.endswith(".box")
            check(chance or not re.search(alone, content), f"'{word}' is in {name}")
            check(not re.search(alone, name.encode()), f"'{word}' is in the name {name}")


def diagnose(sandbox, directory):
    done = sandbox.run([sandbox.build.command, "diagnose", directory, "--json"], clean_environment(), timeout=30)
    check(done.status in (0, 1), f"{done}")
    return json.loads(done.out)


@case
def whole_job_comes_back(sandbox):
    """Every file byte for byte; the verdict is the one on the directory; no link and no pipe is followed."""
    directory = dead_job(sandbox)
    logs = sandbox.fresh("logs")
    with open(logs + "/rank_0.log", "w") as file:
        file.write("step 1\n")
    folder, told = bundle(sandbox, directory, "--logs", logs)
    unpacked, original = files_below(folder), files_below(directory)
    names = {name for _, folders, names in os.walk(folder) for name in folders + names}
    check(not names & {"link", "pipe"}, f"{names}")
    for name, content in original.items():
        check(unpacked["run/run/" + name] == content, f"{name} is as it was")
    check_equal(unpacked[f"logs/{os.path.basename(logs)}/rank_0.log"], b"step 1\n", "the log")
    check_equal(json.loads(unpacked["verdict.json"])["findings"], diagnose(sandbox, directory)["findings"], "verdict")
    check_equal(diagnose(sandbox, folder + "/run/run")["findings"], diagnose(sandbox, directory)["findings"], "verdict on what is unpacked")
    manifest = json.loads(unpacked["manifest.json"])
    check_equal({one["name"]: one["bytes"] for one in manifest["files"]},
                {name: len(content) for name, content in unpacked.items() if name != "manifest.json"}, "manifest")
    check_equal((len(told["files"]), told["left_out"], manifest["redacted"]), (len(unpacked), [], False), "what is printed")
    machine = json.loads(unpacked["machine.json"])
    check(len(machine["checks"]) >= 40 and {one["status"] for one in machine["checks"]} <= {"PASS", "WARN", "FAIL", "SKIP"} and
          machine["versions"]["ncclwatch"], f"machine: {machine}")


@case
def nothing_of_whose_it_is(sandbox):
    """Redacted: no byte of the host, the user's folders, the arguments. The verdict stays the same, with other names."""
    directory = dead_job(sandbox, host=HOST)
    before = diagnose(sandbox, directory)
    folder, told = bundle(sandbox, directory, "--redact")
    unpacked = files_below(folder)
    own = [os.uname().nodename, sandbox.path, "pending=1", "skip=1", "world=3"]
    check_hidden(unpacked, HOST, "node017", "cluster-7", "somebody", "secret_model", "train.py", "10.31.4.17", *own)
    after = diagnose(sandbox, folder + "/run/run")
    hosts = after["job"]["hosts"]
    check(len(hosts) == 1 and len(hosts[0]) == len(HOST) and hosts != before["job"]["hosts"], f"host: {hosts}")
    for one, other in zip(before["findings"], after["findings"]):
        check_equal((one["kind"], one["culprits"], one["calls"][0]["op"], one["position"]),
                    (other["kind"], other["culprits"], other["calls"][0]["op"], other["position"]), "finding")
    check_equal(len(after["findings"]), len(before["findings"]), "findings")
    event = json.loads(unpacked["run/run/events.jsonl"])
    check_equal((event["type"], event["host"], event["details"]["bytes"]), ("checkpoint", hosts[0], 17), "event")
    check(re.fullmatch(r"/home/\w{8}/\w{6}/\w{12}/\w{5}\.py", event["details"]["path"]), f"path: {event}")
    stacks = unpacked["run/run/stacks/merged.txt"].decode()
    check(os.path.basename(event["details"]["path"]) + ":57" in stacks, f"one name everywhere: {stacks}")
    check_equal(told["left_out"], [], "left out")


@case
def a_real_job(sandbox):
    """A hang of softgpu that ncclwatch has ended, redacted: the culprit and its stack are told, this machine is not."""
    directory = os.path.join(sandbox.fresh("job"), "run")
    environment = {**clean_environment(), "NCCLWATCH_DIR": directory, "NCCLWATCH_ON_FAULT": "abort", "NCCLWATCH_TIMEOUT": "3"}
    command = sandbox.build.command
    done = sandbox.run([command, "run", "--", command, "demo", "--unwatched"], environment, timeout=90)
    check_equal(done.status, 86, f"{done}: status")
    folder, told = bundle(sandbox, directory, "--redact")
    unpacked = files_below(folder)
    check_hidden(unpacked, os.uname().nodename, sandbox.path, os.path.dirname(sandbox.build.root))
    check(b"rank 2" in unpacked["verdict.txt"], f"verdict: {unpacked['verdict.txt']}")
    check("run/run/stacks/merged.txt" in unpacked and "run/run/diagnosis.json" in unpacked, f"names: {sorted(unpacked)}")
    check_equal(diagnose(sandbox, folder + "/run/run")["findings"][0]["culprits"], [2], "culprit")
    check(all(one["reason"] for one in told["left_out"]), f"left out: {told['left_out']}")


def made_secrets():
    """Tokens as their services issue them, put together here: a scanner of repositories would report whole ones."""
    draw = random.Random(1)
    forms = {"hf_": (string.ascii_letters, 34), "sk-" + "proj-": (string.ascii_letters + string.digits, 60),
             "gh" + "p_": (string.ascii_letters + string.digits, 36), "AK" + "IA": (string.ascii_uppercase + "234567", 16),
             "glp" + "at-": (string.ascii_letters + string.digits, 20), "xox" + "b-1234567890-": (string.digits, 24)}
    return [beginning + "".join(draw.choices(letters, k=length)) for beginning, (letters, length) in forms.items()]


# What no file of a redacted bundle may hold. `hunter2x` is the secret that only its place tells.
SECRET_WORD = "hunter2x"
NAMED_IN_LOGS = ["gandalf", "node23", "node24", "ip-10-3-1-23", "gpu-b07.corp.example.com", "gpu-b07", "l40s-031", "ai3.mbk.ifra",
                 "10.77.4.19", "fe80::e42:a1ff:fe00:1", "0c:42:a1:00:00:0b", "ann.b@mail.example.com", "annika", "secret_model"]


def log_with(secrets):
    lines = [
        "gandalf:795:801 [0] NCCL INFO Bootstrap : Using eth0:10.77.4.19<0> [fe80::e42:a1ff:fe00:1]:4321",
        "gandalf:795:801 [0] NCCL INFO comm 0x8f3c09d2a1b45e77 rank 0 nranks 8 commId 0xadbc1fdba18d7da4 - Init COMPLETE, NCCL version 2.28.9",
        "May 18 09:12:40 node23 kernel: mlx5_core 0000:9b:00.0: link down, 0c:42:a1:00:00:0b",
        "srun: error: l40s-031: task 3: Killed",
        "connect to [ai3.mbk.ifra]:29500 (errno: 110), seen by ip-10-3-1-23 and gpu-b07.corp.example.com; node24 is silent, gpu-b07 too",
        "12:34:56.789 step 4312 loss 3.1e-04 c10::Error torch.nn.functional.linear(x) at::Tensor",
        f"mail ann.b@mail.example.com; wrote /home/annika/secret_model/step_12.pt, password={SECRET_WORD}",
        f"curl -u ann:{SECRET_WORD} 'https://b.s3.amazonaws.com/k?X-Amz-Signature={SECRET_WORD}&x=1' -H 'Authorization: Bearer {SECRET_WORD}'",
        f"bash -c \"python x.py --password {SECRET_WORD} --lr 1\" # {{\"api_key\": \"{SECRET_WORD}\"}}, redis://me:{SECRET_WORD}@gandalf:6379/0",
    ]
    return "\n".join(lines + [f"got {secret}, retrying" for secret in secrets]) + "\n"


def planted_job(sandbox, secrets):
    """A rank that ends by an exception, with a secret in each place that is recorded."""
    sandbox.build.need(sandbox.build.command, sandbox.build.library, sandbox.build.nccl)
    extra = {"UCX_PASS": SECRET_WORD, "NCCL_DEBUG_SUBSYS": "token=" + SECRET_WORD, "FI_PROVIDER_PATH": f"https://me:{SECRET_WORD}@h/x",
             "UCX_TLS": secrets[0], "NCCL_ALGO": "Ring", "MASTER_ADDR": "127.0.0.1"}
    done = sandbox.job([sys.executable, os.path.join(HERE, "planted.py"), sandbox.build.nccl, secrets[1], "node23", "--api-key",
                        SECRET_WORD, f'{{"token": "{SECRET_WORD}"}}', "sh -c 'A_TOKEN=" + SECRET_WORD + " x'"], extra=extra)
    check("cannot reach" in done.errors()[0], f"{done.done}")
    return done.directory


@case
def secrets_are_not_recorded(sandbox):
    """Before any redaction: neither the black box nor events.jsonl has one, and what is no secret is there."""
    secrets = made_secrets()
    directory = planted_job(sandbox, secrets)
    recorded = files_below(directory)
    check(any(name.endswith(".box") for name in recorded), f"{sorted(recorded)}")
    check_hidden(recorded, SECRET_WORD, *secrets)
    box = next(content for name, content in recorded.items() if name.endswith(".box"))
    for kept in (b"NCCL_ALGO=Ring", b"UCX_TLS=***", b"cannot reach https://", b"checkpoint", b'"bytes": 17'):
        check(kept in box, f"'{kept.decode()}' is not in the box")
    check(b"UCX_PASS" not in box, "a variable that is a secret by its name")


@case
def planted_everywhere(sandbox):
    """A secret and a name in every place of a job and its logs: none is in what goes out. What a reader needs is."""
    secrets = made_secrets()
    directory, logs = planted_job(sandbox, secrets), sandbox.fresh("logs")
    for name in ("rank_0.log", "dmesg.txt", "node24.log"):
        with open(os.path.join(logs, name), "w") as file:
            file.write(log_with(secrets))
    with open(logs + "/metrics.jsonl", "w") as file:
        file.write(json.dumps({"password": SECRET_WORD, "argv": ["x", "--token", SECRET_WORD], "host": "gandalf", "step": 3,
                               "text": log_with(secrets)}) + "\n")
    with open(logs + "/state.json", "w") as file:
        json.dump({"env": [{"name": "HF_TOKEN", "value": SECRET_WORD}], "node23": {"log": secrets[2]}}, file)
    with gzip.open(logs + "/packed.log.gz", "w") as file:
        file.write(log_with(secrets).encode())
    with open(logs + "/torn.json", "w") as file:
        file.write('{"password": "' + SECRET_WORD)
    os.makedirs(directory + "/evidence", exist_ok=True)
    with open(directory + "/evidence/1.txt", "w") as file:
        file.write(f"command: python3 train.py {SECRET_WORD}\n\nName:\tpython3\n" + log_with(secrets))
    with open(directory + "/events.jsonl", "a") as file:
        file.write(json.dumps({"type": "note", "host": "node23", "details": {"secret": SECRET_WORD, "why": log_with(secrets)}}) + "\n")

    file = os.path.join(sandbox.fresh("bundle"), "file.tar.zst")
    done = sandbox.run([sandbox.build.command, "bundle", directory, "--redact", "--logs", logs, "-o", file], clean_environment(), timeout=60)
    check_equal(done.status, 0, f"{done}: status")
    into = sandbox.fresh("unpacked")
    subprocess.run(["tar", "--zstd", "-xf", file, "-C", into], check=True, timeout=60)
    unpacked = files_below(os.path.join(into, "ncclwatch-bundle"))
    check_hidden(unpacked, SECRET_WORD, *secrets, *NAMED_IN_LOGS, os.uname().nodename)

    left_out = {os.path.basename(one["name"]) for one in json.loads(unpacked["manifest.json"])["left_out"]}
    check(left_out >= {"packed.log.gz", "torn.json"}, f"left out: {left_out}")
    check("packed.log.gz" in done.err and "torn.json" in done.err, f"said on stderr: {done}")
    log = next(content for name, content in unpacked.items() if name.endswith("/rank_0.log")).decode()
    for kept in ("0x8f3c09d2a1b45e77 rank 0 nranks 8 commId 0xadbc1fdba18d7da4", "NCCL version 2.28.9", "mlx5_core 0000:9b:00.0: link down",
                 "12:34:56.789 step 4312 loss 3.1e-04 c10::Error torch.nn.functional.linear(x) at::Tensor", "May 18 09:12:40",
                 "task 3: Killed", "errno: 110", "--lr 1"):
        check(kept in log, f"'{kept}' is not in the log any more: {log}")
    names = {re.match(r"(\S+):795", line).group(1) for line in log.splitlines() if ":795:" in line}
    check(len(names) == 1 and f"@{names.pop()}:6379" in log, f"one name everywhere: {log}")
    check("'" not in unpacked["manifest.json"].decode() and len(unpacked) >= 8, f"{sorted(unpacked)}")


@case
def what_is_left_out_is_said(sandbox):
    directory = dead_job(sandbox)
    with open(directory + "/large.log", "wb") as file:
        file.truncate(9 << 20)
    with open(directory + "/exchange", "wb") as file:
        file.write(b"secret")
    os.link(directory + "/large.log", directory + "/host.1.1.segments")
    folder, told = bundle(sandbox, directory, "--max", "8M")
    left_out = {os.path.basename(one["name"]): one["reason"] for one in told["left_out"]}
    check_equal(set(left_out), {"large.log", "exchange", "host.1.1.segments"}, "left out")
    check("--max" in left_out["large.log"] and "nodes reach" in left_out["exchange"], f"{left_out}")
    check_equal(json.loads(files_below(folder)["manifest.json"])["left_out"], told["left_out"], "manifest")
    _, told = bundle(sandbox, directory, "--redact")
    left_out = {os.path.basename(one["name"]): one["reason"] for one in told["left_out"]}
    check("not redacted" in left_out["host.1.1.segments"] and "not redacted" in left_out["large.log"], f"{left_out}")


@case
def what_cannot_be_read_is_said(sandbox):
    """A folder that may not be looked into, and a name that the format does not take, and the rest comes."""
    directory = dead_job(sandbox)
    with open(os.path.join(directory, "x" * 200), "w") as file:
        file.write("log")
    _, told = bundle(sandbox, directory)
    check_equal([one["reason"] for one in told["left_out"]], ["its name is too long"], "left out")
    os.remove(os.path.join(directory, "x" * 200))
    os.chmod(directory + "/stacks", 0)
    # Root may look into it all the same.
    nobody = ["setpriv", "--reuid=65534", "--clear-groups", "--bounding-set=-all"] if os.geteuid() == 0 else []
    into = sandbox.fresh("bundle")
    for path in (into, directory, os.path.dirname(directory), sandbox.path):
        os.chmod(path, 0o777)
    done = sandbox.run([*nobody, sandbox.build.command, "bundle", directory, "-o", into + "/file", "--json"], clean_environment())
    check_equal(done.status, 0, f"{done}: status")
    left_out = {os.path.basename(one["name"]): one["reason"] for one in json.loads(done.out)["left_out"]}
    check_equal(left_out.get("stacks"), "Permission denied", f"left out: {left_out}")


@case
def damaged_boxes(sandbox):
    """They are what the report is about: whole without --redact; with it, what cannot be read is not let out."""
    directory = dead_job(sandbox)
    boxes = sorted(name for name in os.listdir(directory) if name.endswith(".box"))
    with open(os.path.join(directory, boxes[0]), "r+b") as file:
        file.truncate(5000)
    folder, _ = bundle(sandbox, directory)
    check_equal(len(files_below(folder)["run/run/" + boxes[0]]), 5000, "bytes of the box that was cut")
    folder, told = bundle(sandbox, directory, "--redact")
    check_equal(len([name for name in files_below(folder) if name.endswith(".box")]), 2, "boxes")
    check("damaged" in told["left_out"][0]["reason"], f"{told}")


@case
def no_job(sandbox):
    sandbox.build.need(sandbox.build.command)
    _, done = bundle(sandbox, sandbox.path + "/nowhere", status=3)
    check("nowhere" in done.err, f"{done}")


@case
def full_disk(sandbox):
    directory = dead_job(sandbox)
    done = sandbox.run([sandbox.build.command, "bundle", directory, "-o", "/dev/full/bundle"], clean_environment())
    check_equal(done.status, 1, f"{done}: status")


@case
def no_link_is_followed_that_comes_while_it_packs(sandbox):
    """The owner of a directory that root bundles puts a link in the place of a folder again and again."""
    directory, job, secret = dead_job(sandbox), sandbox.fresh("logs"), sandbox.fresh("secret")
    with open(os.path.join(secret, "shadow"), "w") as file:
        file.write("root:secret")
    os.mkdir(os.path.join(job, "zz"))
    for name, text in (("job", "x\n"), ("aaa.txt", string.ascii_letters * 400000), ("zz/shadow", "innocent")):
        with open(os.path.join(job, name), "w") as file:
            file.write(text)
    ended = threading.Event()

    def swap():
        while not ended.is_set():
            os.rename(os.path.join(job, "zz"), os.path.join(job, ".zz"))
            os.symlink(secret, os.path.join(job, "zz"))
            os.unlink(os.path.join(job, "zz"))
            os.rename(os.path.join(job, ".zz"), os.path.join(job, "zz"))

    thread = threading.Thread(target=swap)
    thread.start()
    try:
        packed = [files_below(bundle(sandbox, directory, "--logs", job)[0]) for _ in range(5)]
    finally:
        ended.set()
        thread.join()
    check(not any(b"root:secret" in content for files in packed for content in files.values()), "the file behind the link was packed")


if __name__ == "__main__":
    run_main("bundle")
