#!/usr/bin/env python3
"""Slow parts of a machine in lines of NCCL Inspector: 256 ranks on 32 hosts, each fault so many times.

    slow_parts.py NCCLWATCH [--seeds 50] [--only nic,pair]
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile

import inspector
from cases_inspector import part_is_right

options = argparse.ArgumentParser()
options.add_argument("command")
options.add_argument("--seeds", type=int, default=50)
options.add_argument("--only", default=",".join(inspector.PARTS))
options = options.parse_args()
status = 0
for fault in options.only.split(","):
    right = 0
    for seed in range(options.seeds):
        with tempfile.TemporaryDirectory() as folder:
            job, ranks, hosts = inspector.train_on_parts(fault, seed)
            files = job.write(os.path.join(folder, "job"))
            known = {"NCCLWATCH_TOPOLOGY": inspector.topology(os.path.join(folder, "topology.conf"))} if seed % 2 else {}
            done = subprocess.run([options.command, "diagnose", "--json", files], capture_output=True, text=True, check=False,
                                  env={**os.environ, **known})
        said = json.loads(done.stdout)
        if part_is_right(said, fault, ranks, hosts):
            right += 1
        else:
            print(f"{fault}, seed {seed}: wanted {ranks} {hosts}, got {[one['summary'] for one in said['findings']]}")
    print(f"{fault}: {right} of {options.seeds}", flush=True)
    status |= right < 0.96 * options.seeds
sys.exit(status)
