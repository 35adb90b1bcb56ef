#!/usr/bin/env python3
"""`cmake --install`: what lies where below a prefix, and that it runs from there."""

import concurrent.futures
import glob
import json
import os
import re
import shutil
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "support"))

from harness import Skipped, case, check, check_equal, clean_environment, run_main, soak_case  # noqa: E402


def installed(sandbox):
    """A prefix with a space in its path."""
    if sandbox.build.sanitizer:
        raise Skipped("a sanitizer's libraries are not installed")
    sandbox.build.need(sandbox.build.command, sandbox.build.library)
    prefix = os.path.join(sandbox.fresh("prefix"), "two words")
    done = subprocess.run(["cmake", "--install", sandbox.build.root, "--prefix", prefix], capture_output=True, text=True)
    check(done.returncode == 0, done.stdout + done.stderr)
    return prefix


def environment(sandbox):
    return {**clean_environment(), "TMPDIR": sandbox.fresh("tmp")}


@case
def demo_from_a_prefix(sandbox):
    prefix = installed(sandbox)
    done = sandbox.run([os.path.join(prefix, "bin", "ncclwatch"), "demo"], environment(sandbox), timeout=60)
    check_equal(done.status, 0, f"status of the demo ({done})")
    check("missing_participant (likely): rank 2" in done.err, f"the verdict: {done}")
    check(re.search(r"watching 4/4 ranks.*\(ncclwatch \d+\.\d+\.\d+", done.err), f"version in the first line: {done}")


KINDS = {"stuck_data_loader": "missing_participant", "skipped_collective": "order_mismatch", "bucket_sizes": "argument_mismatch",
         "wrong_dtype": "argument_mismatch", "rank0_logging": "argument_mismatch", "uneven_last_batch": "early_exit",
         "exception": "dead_rank", "killed": "dead_rank", "frozen": "frozen_process", "stuck_stream": "device_stall",
         "missing_at_start": "initialization_hang", "wrong_world_size": "initialization_hang", "straggler": "straggler",
         "healthy_training": None}


def check_demo(sandbox, names):
    command, env = os.path.join(installed(sandbox), "bin", "ncclwatch"), environment(sandbox)
    listed = sandbox.run([command, "demo", "--list"], env)
    check_equal([line.split()[0] for line in listed.out.splitlines()[1:]], list(KINDS), "the list")
    check_equal(sandbox.run([command, "demo", "nothing"], env).status, 2, "status of an example that does not exist")

    def kind_of(name):
        done = sandbox.run([command, "demo", "--ranks", "3", name], env, timeout=100)
        check_equal(done.status, 0, f"status of {name} ({done})")
        verdict = re.search(r"(?:^|\] )(\w+) \((certain|likely|suspected)\): ", done.err, re.MULTILINE)
        return verdict and verdict[1]

    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        check_equal(dict(zip(names, pool.map(kind_of, names))), {name: KINDS[name] for name in names}, "kinds")


@case
def examples_of_the_demo(sandbox):
    """One of each way in which a job ends; scenarios.fault has the verdict on every example."""
    check_demo(sandbox, ["skipped_collective", "killed", "missing_at_start", "healthy_training"])


@soak_case
def every_example_of_the_demo(sandbox):
    check_demo(sandbox, list(KINDS))


@case
def stripped_with_debug_information_apart(sandbox):
    prefix = installed(sandbox)
    files = [os.path.join(prefix, "bin", "ncclwatch"), *glob.glob(os.path.join(prefix, "lib", "ncclwatch", "*.so"))]
    check(len(files) >= 3, f"installed: {files}")
    for path in files:
        sections = subprocess.run(["readelf", "-SW", path], capture_output=True, text=True).stdout
        check(".debug_info" not in sections and ".symtab" not in sections, f"{path} is not stripped")
        notes = subprocess.run(["readelf", "-n", path], capture_output=True, text=True).stdout
        build_id = re.search(r"Build ID: (..)(\w+)", notes)
        debug = os.path.join(prefix, "lib", "debug", ".build-id", build_id[1], build_id[2] + ".debug")
        kept = subprocess.run(["readelf", "-SW", debug], capture_output=True, text=True).stdout
        check(".symtab" in kept, f"{debug}: no symbols")


@case
def demo_whose_files_are_missing(sandbox):
    alone = os.path.join(sandbox.fresh("alone"), "bin")
    os.makedirs(alone)
    command = shutil.copy(sandbox.build.command, alone)
    done = sandbox.run([command, "demo"], environment(sandbox))
    check_equal(done.status, 3, f"status ({done})")
    check("lib/ncclwatch/demo/demo_job is missing" in done.err, done.err)


@case
def manual_names_every_option(sandbox):
    """Man pages and completions come from `ncclwatch help --json`, and that from what --help prints."""
    manual = os.path.join(sandbox.build.root, "packaging", "manual", "share")
    if not os.path.isdir(manual):
        raise Skipped("the manual is not built")
    said = sandbox.run([sandbox.build.command, "help", "--json"], environment(sandbox)).out
    commands = [json.loads(line) for line in said.splitlines()]
    check(len(commands) > 8, f"commands: {said}")
    with open(os.path.join(manual, "bash-completion", "completions", "ncclwatch")) as file:
        completion = file.read()
    check_equal(subprocess.run(["bash", "-n"], input=completion, text=True).returncode, 0, "bash's opinion of the completion")
    for command in commands:
        name = command["command"]
        text = sandbox.run([sandbox.build.command, name, "--help"], environment(sandbox)).out
        with open(os.path.join(manual, "man", "man1", f"ncclwatch-{name}.1")) as file:
            page = file.read().replace("\\-", "-")
        for option in command["options"]:
            for spelling in option["names"]:
                check(spelling in text and spelling in page, f"{name} {spelling}: in --help and in the man page")
            check(option["names"][-1] in completion, f"{name} {option['names']} in the completion")


@case
def documents_lead_nowhere_else(sandbox):
    root = os.path.join(installed(sandbox), "share", "doc", "ncclwatch")
    links, dead = 0, []
    for path in glob.glob(root + "/**/*.md", recursive=True):
        with open(path) as file:
            text = file.read()
        for link in re.findall(r"\]\(([^)#\s]+)", text):
            if "://" in link:
                continue
            links += 1
            if not os.path.exists(os.path.join(os.path.dirname(path), link)):
                dead.append(f"{path}: {link}")
    check(links > 100 and not dead, f"{len(dead)} of {links} links are dead: {dead}")


@case
def bash_completes(sandbox):
    manual = os.path.join(sandbox.build.root, "packaging", "manual", "share", "bash-completion", "completions", "ncclwatch")
    if not os.path.exists(manual):
        raise Skipped("the manual is not built")
    script = ('. "$0"; COMP_WORDS=(ncclwatch "$@"); COMP_CWORD=$#; _ncclwatch; printf "%s\\n" "${COMPREPLY[@]}"')

    def completed(*words):
        return subprocess.run(["bash", "-c", script, manual, *words], capture_output=True, text=True).stdout.split()

    check_equal(completed("dia"), ["diagnose"], "after `ncclwatch dia`")
    check_equal(completed("run", "--on-f"), ["--on-fault"], "after `ncclwatch run --on-f`")


@case
def environment_module(sandbox):
    start = "/usr/share/modules/init/bash"
    if not os.path.exists(start):
        raise Skipped("no environment-modules here")
    prefix = installed(sandbox)
    script = f'. {start}; module use "$1/share/modulefiles"; module load ncclwatch && ncclwatch --version && echo "$NCCLWATCH_LIBRARY"'
    done = sandbox.run(["bash", "-c", script, "bash", prefix], environment(sandbox))
    check(done.out.startswith("ncclwatch ") and done.out.splitlines()[-1] == f"{prefix}/lib/ncclwatch/libncclwatch.so",
          f"after module load: {done}")


if __name__ == "__main__":
    run_main("install")
