"""SECURITY.md lists every file, socket, child process and variable. A whole job is traced and compared with the lists."""

import fnmatch
import os
import re
import shutil
import sys
import time

from harness import Process, Skipped, case, check, check_equal

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")
TRACED = "open,openat,creat,mkdir,mkdirat,rename,renameat,renameat2,symlink,symlinkat,link,linkat,bind,connect,execve"
NOT_OURS = ("/dev/null", "/dev/tty", "/proc/", "/dev/shm/softgpu")


def section(title):
    with open(os.path.join(ROOT, "SECURITY.md")) as file:
        text = file.read().split("## Inventory")[1].split("\n## ")[0]
    return text.split(f"**{title}.**")[1].split("\n**")[0]


def first_column(title):
    rows = [line.split("|")[1] for line in section(title).splitlines() if line.startswith("| `")]
    return [pattern for row in rows for pattern in re.findall(r"`([^`]+)`", row)]


def traced_job(sandbox):
    """Four ranks, one of which skips a collective, with everything switched on; the lines of strace."""
    if not shutil.which("strace"):
        raise Skipped("no strace here")
    build, scratch = sandbox.build, sandbox.fresh("job")
    program = os.path.join(build.root, "examples", "skipped_collective")
    build.need(program, build.library, build.command)
    env = sandbox.environment(preload=False, extra={
        "NCCLWATCH_DIR": f"{scratch}/run", "NCCLWATCH_OUT": f"{scratch}/out", "NCCLWATCH_TRACE": "full", "NCCLWATCH_TIMEOUT": "10",
        "NCCLWATCH_TRACE_DIR": f"{scratch}/rec", "NCCLWATCH_METRICS": f":{20000 + os.getpid() % 9999}", "NCCLWATCH_ON_FAULT": "abort",
        "NCCLWATCH_HOOK": f"cat > {scratch}/hooked", "TMPDIR": scratch, "HOST_ID_DIR": scratch, "NCCLWATCH_JOB": "inventory"})
    trace = f"{scratch}/trace"
    argv = ["strace", "-f", "-qq", "-yy", "-s", "4096", "-e", f"trace={TRACED}", "-o", trace, "-E",
            f"LD_PRELOAD={build.library}", sys.executable, os.path.join(ROOT, "examples", "launch.py"), "-n", "4", "--", program]
    done = Process(argv, env, cwd=scratch).wait(time.monotonic() + 90)
    if "ptrace" in done.err and not os.path.exists(f"{scratch}/run"):
        raise Skipped(f"strace may not trace here: {done.err}")
    check(os.path.exists(f"{scratch}/hooked"), f"a verdict, and its hook: {done}")
    with open(trace, errors="replace") as file:
        return scratch, [re.sub(r"^\d+ +", "", line) for line in file if not re.search(r" = -1 E", line)]


def absolute(folder, name):
    return name if name.startswith("/") else f"{folder}/{name}"


def changed_paths(lines):
    """Of everything that was created, or opened so that it can be written."""
    for line in lines:
        opened = re.match(r'openat\((?:AT_FDCWD|\d+)<([^>]*)>, "([^"]*)", (\S*)', line)
        if opened and re.search(r"O_WRONLY|O_RDWR|O_CREAT", opened[3]):
            yield absolute(opened[1], opened[2])
        made = re.match(r'mkdirat\(\d+<([^>]*)>, "([^"]*)"', line)
        if made:
            yield absolute(made[1], made[2])
        renamed = re.match(r'(?:renameat2?|linkat)\(\d+<([^>]*)>, "([^"]*)", \d+<([^>]*)>, "([^"]*)"', line)
        if renamed:
            yield absolute(renamed[3], renamed[4])
        plain = re.match(r'(?:rename|symlink)\("[^"]*", "(/[^"]*)"', line)
        if plain:
            yield plain[1]


def matches(path, patterns):
    """Without the folders of a pattern's `*`: it stands for one name."""
    return any(fnmatch.fnmatch(path, pattern) and path.count("/") == pattern.count("/") for pattern in patterns)


@case
def everything_a_job_does_is_listed(sandbox):
    scratch, lines = traced_job(sandbox)
    patterns = first_column("Files")
    check(len(patterns) > 20, f"the list of files: {patterns}")
    out = next(name for name in os.listdir(f"{scratch}/out") if name.startswith("inventory"))
    folders = {f"{scratch}/run": "RUN", f"{scratch}/out/{out}": "OUT", f"{scratch}/rec": "REC"}
    seen, unlisted = set(), set()
    for path in changed_paths(lines):
        if path.startswith(NOT_OURS) or path == f"{scratch}/hooked":
            continue
        for folder, name in folders.items():
            path = path.replace(folder, name, 1) if path.startswith(folder + "/") else path
        (seen if matches(path, patterns) else unlisted).add(path)
    unlisted = {path for path in unlisted if path not in ("RUN/evidence", "RUN/stacks", "OUT/evidence", "OUT/stacks")}
    check_equal(sorted(unlisted), [], "files that SECURITY.md does not list")
    for expected in ("RUN/*.box", "RUN/diagnosis.json", "RUN/stacks/*", "OUT/diagnosis.json", "REC/*.segments", "RUN/metrics"):
        check(any(fnmatch.fnmatch(path, expected) for path in seen), f"the job has written {expected}: {sorted(seen)}")

    commands = first_column("Child processes")
    started = [re.findall(r'"((?:[^"\\]|\\.)*)"', line.split("[", 1)[1].split("]")[0]) for line in lines if line.startswith("execve(")]
    ours = [[os.path.basename(words[0]), *words[1:]] for words in started
            if words and not words[0].endswith(("skipped_collective", "cat")) and "python" not in words[0]]
    texts = [" ".join(words) for words in ours if words[:2] != ["sh", "-c"]]
    check_equal([text for text in texts if not any(fnmatch.fnmatch(text, command) for command in commands)], [],
                "child processes that SECURITY.md does not list")
    for name in ("stacks", "collect", "metrics", "doctor"):
        check(any(text.startswith(f"ncclwatch {name}") for text in texts), f"ncclwatch {name} was started: {texts}")

    ports = [int(port) for line in lines if line.startswith("bind(") for port in re.findall(r"htons\((\d+)\)", line)]
    metrics, of_the_job = 20000 + os.getpid() % 9999, ports[0]  # launch.py looks for a free one first
    check_equal(set(ports), {metrics, of_the_job}, "ports of a job on one node")


@case
def every_variable_is_listed(sandbox):
    listed = re.findall(r"`([A-Z_*]+)`", section("Variables"))
    check(len(listed) > 20, f"the list of variables: {listed}")
    read = set()
    for top in ("shim", "core", "watchdog", "analyzer", "include", "python"):
        for folder, _, names in os.walk(os.path.join(ROOT, top)):
            for name in names:
                if name.endswith((".cc", ".h", ".py", ".S")):
                    with open(os.path.join(folder, name), errors="replace") as file:
                        read.update(re.findall(r'(?:getenv|[Ee]nvironment|Variable|ValueOf|\benv)\(\s*"([A-Z_0-9]+)"', file.read()))
    check(len(read) > 30, f"the variables that are read: {read}")
    check_equal(sorted(name for name in read if not name.startswith("NCCLWATCH_")
                       and not any(fnmatch.fnmatch(name, pattern) for pattern in listed)), [], "variables that are not listed")
