#!/usr/bin/env python3
"""One slow link between two of four nodes, while a real job of Open MPI runs: is this pair named, and nobody else? As root.

    narrow_link.py --build build/release [--runs 20] [--wide] [--rate 20mbit] [--json FILE]

Each node has its own network, clock, host name and /dev/shm (cluster.py). The job reduces 128 KiB in each pair of
ranks. After some seconds what two nodes send to each other passes a class of htb with that rate; the pair is drawn from
the number of the run. --wide: no link becomes narrow, and nothing may be reported for a minute.
"""

import argparse
import itertools
import json
import os
import shutil
import subprocess
import sys
import time
import types

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.join(HERE, "..", "scenarios"), os.path.join(HERE, "..", "mpi")]

from cluster import RUN, Failure  # noqa: E402
from job import Build  # noqa: E402
from spread_job import SpreadMpiJob  # noqa: E402

NODES = 4
STEP_US = 20000
COUNT = 1 << 15
WITHIN_S = 60
PAIRS = list(itertools.combinations(range(NODES), 2))


class PairsJob(SpreadMpiJob):
    def __init__(self, build, program):
        self.program = program
        super().__init__(build, "openmpi", types.SimpleNamespace(environment={"OMPI_MCA_mpi_yield_when_idle": "1"}), NODES, NODES)

    def command(self):
        return [self.program, "1000000", str(STEP_US), str(COUNT)]

    def narrow(self, node, peer, rate):
        """From now on what `node` sends to `peer` has this rate."""
        inside = ["nsenter", "-t", str(node.agent), "--net", "tc"]
        for words in (["qdisc", "add", "dev", "eth0", "root", "handle", "1:", "htb", "default", "10"],
                      ["class", "add", "dev", "eth0", "parent", "1:", "classid", "1:10", "htb", "rate", "40gbit"],
                      ["class", "add", "dev", "eth0", "parent", "1:", "classid", "1:20", "htb", "rate", rate],
                      ["filter", "add", "dev", "eth0", "parent", "1:", "protocol", "ip", "u32", "match", "ip", "dst",
                       peer.address, "flowid", "1:20"]):
            subprocess.run([*inside, *words], check=True, stderr=subprocess.DEVNULL)  # it warns of the quantum

    def events(self):
        """The findings that the hub's leader has reported."""
        path = self.cluster.nodes[0].path(RUN + "/events.jsonl")
        if not os.path.exists(path):
            return []
        with open(path) as file:
            return [json.loads(line)["details"] for line in file]


def short(finding):
    return (finding["kind"], finding["culprits"], (finding.get("shared_by") or {}).get("hosts"))


def once(build, program, number, options):
    pair = PAIRS[number % len(PAIRS)]
    with PairsJob(build, program) as job:
        nodes = [job.cluster.nodes[i] for i in pair]
        job.cluster.wait_until(lambda: job.serve() or "watching 4/4" in job.output(), 60, "all ranks were to be watched")
        time.sleep(options.before)
        if not options.wide:
            job.narrow(*nodes, options.rate)
            job.narrow(*reversed(nodes), options.rate)
        began = time.monotonic()
        while time.monotonic() < began + WITHIN_S and not job.events() and not job.ended():
            time.sleep(0.1)
        took = time.monotonic() - began
        if job.events():
            time.sleep(options.after)  # whoever else is accused
        found = [short(finding) for finding in job.events()]
        wanted = [] if options.wide else [("slow_communication", list(pair), [node.host for node in nodes])]
        afterwards = [short(finding) for finding in job.offline()[1]["findings"][:1]]
        if options.keep:
            shutil.copytree(os.path.join(job.root, "collected"), os.path.join(options.keep, str(number)), symlinks=True)
        return {"pair": pair, "live": found, "afterwards": afterwards, "right": found == wanted and not job.ended(),
                "afterwards_right": afterwards == wanted, "seconds": round(took, 1)}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", required=True)
    parser.add_argument("--runs", type=int, default=20)
    parser.add_argument("--rate", default="20mbit")
    parser.add_argument("--wide", action="store_true", help="no link becomes narrow")
    parser.add_argument("--before", type=float, default=12, help="seconds of the healthy job")
    parser.add_argument("--after", type=float, default=8, help="seconds in which nothing else may be reported")
    parser.add_argument("--keep", help="a folder for the nodes' run directories")
    parser.add_argument("--json")
    options = parser.parse_args()
    build, rows = Build(options.build), []
    program = os.path.join(build.folder, "mpi", "pairs")
    source = os.path.join(HERE, "..", "slow", "programs", "pairs.c")
    subprocess.run(["mpicc.openmpi", "-O1", source, "-o", program], check=True)
    for number in range(options.runs):
        try:
            rows.append(once(build, program, number, options))
        except Failure as failure:
            rows.append({"right": False, "afterwards_right": False, "error": str(failure)})
        print(json.dumps(rows[-1]), flush=True)
    print(f"live {sum(row['right'] for row in rows)}, afterwards {sum(row['afterwards_right'] for row in rows)} of {len(rows)} right")
    if options.json:
        with open(options.json, "w") as file:
            json.dump(rows, file, indent=1)
    return int(sum(row["right"] for row in rows) < 0.95 * len(rows))


if __name__ == "__main__":
    sys.exit(main())
