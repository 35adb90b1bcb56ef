"""One MPI job over several nodes (tests/nodes/cluster.py), started by its own mpirun on the first one. What mpirun's
remote shell would do on another node is done from here: the shell that it is given leaves its command line in a folder,
and whoever serves the folder starts it there."""

import json
import os
import shutil
import stat
import subprocess
import sys
import time

from mpi_job import ENDED_S, HERE, TIMEOUT_S, VERDICT_S, Failure, library, program, written_by_ranks

sys.path.insert(1, os.path.join(HERE, "..", "nodes"))

from cluster import MARK, RUN, Cluster, Skip, check_possible, fault_ns, sanitizer  # noqa: E402

__all__ = ["Skip", "SpreadMpiJob", "check_possible"]

SHELL = """#!/bin/sh
# usage: [options] HOST COMMAND...
order=$(mktemp "{folder}/order.XXXXXX")
printf '%s\\0' "$@" > "$order.part"
mv "$order.part" "$order.ready"
while [ ! -e "$order.ended" ]; do sleep 0.05; done
"""
LAUNCHER = 0       # the number of mpirun among what a node has started
REMOTE_FROM = 1000  # ... of what its remote shell is to start


def launcher(mpi, ranks, addresses, shell, preload, exported):
    hosts = ",".join(f"{address}:{ranks // len(addresses)}" for address in addresses)
    if mpi == "mpich":
        return ["mpirun.mpich", "-launcher", "ssh", "-launcher-exec", shell, "-localhost", addresses[0], "-hosts", hosts,
                "-n", str(ranks), "-genv", "LD_PRELOAD", preload, "-genv", "UCX_TLS", "tcp,self"]
    words = ["mpirun.openmpi", "--allow-run-as-root", "--oversubscribe", "--host", hosts, "-n", str(ranks), "-x",
             f"LD_PRELOAD={preload}"]
    for name, value in {"plm_rsh_agent": shell, "pml": "ob1", "btl": "tcp,self", "btl_tcp_if_include": "eth0",
                        "oob_tcp_if_include": "eth0"}.items():
        words += ["--mca", name, value]
    for name in exported:
        words += ["-x", name]
    return words


class SpreadMpiJob:
    """As MpiJob, with as many ranks on each of so many nodes; always watched."""

    def __init__(self, build, mpi, case, ranks, nodes, environment=None):
        self.build, self.mpi, self.case, self.size = build, mpi, case, ranks
        self.seen, self.started = [], {}
        self.cluster = Cluster(build, nodes)
        self.root = self.cluster.root
        self.folder = os.path.join(self.root, "orders")
        os.makedirs(self.folder)
        shell = os.path.join(self.root, "remote_shell")
        with open(shell, "w") as file:
            file.write(SHELL.format(folder=self.folder))
        os.chmod(shell, stat.S_IRWXU)
        self.fault_file = os.path.join(self.root, "fault")
        ours = {"NCCLWATCH_DIR": RUN, "NCCLWATCH_TIMEOUT": str(TIMEOUT_S), "EXAMPLES_FAULT_FILE": self.fault_file,
                **dict(case.environment), **(environment or {})}
        self.environment = {name: value for name, value in os.environ.items() if not name.startswith("NCCLWATCH")}
        self.environment.update({**sanitizer.OPTIONS, MARK: self.root, **ours})
        addresses = [node.address for node in self.cluster.nodes]
        self._start(LAUNCHER, 0, [*launcher(mpi, ranks, addresses, shell, library(build, mpi), ours), *self.command()])

    def command(self):
        return [program(self.build, self.mpi, self.case.program), self.case.argument]

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.cluster.end()

    def _start(self, number, node, command):
        self.cluster.nodes[node].ask(do="start", rank=number, command=command, environment=self.environment,
                                     output=os.path.join(self.root, f"output{node}"))

    def _ended(self, number, node):
        return self.cluster.nodes[node].ask(do="ended").get(str(number))

    def serve(self):
        """What mpirun wants on other nodes is started, and its shell ends with it."""
        for name in sorted(os.listdir(self.folder)):
            if not name.endswith(".ready") or name in self.started:
                continue
            with open(os.path.join(self.folder, name)) as file:
                words = file.read().split("\0")[:-1]
            addresses = {node.address: node.number for node in self.cluster.nodes}
            host = next(i for i, word in enumerate(words) if word in addresses)
            self.started[name] = (REMOTE_FROM + len(self.started), addresses[words[host]])
            # One line, as a remote shell passes it to a shell there.
            self._start(*self.started[name], ["/bin/sh", "-c", " ".join(words[host + 1:])])
        for name, place in self.started.items():
            if self._ended(*place) is not None:
                open(os.path.join(self.folder, name.replace(".ready", ".ended")), "w").close()

    def ended(self):
        self.serve()
        return self._ended(LAUNCHER, 0) is not None

    def wait(self, seconds):
        self.cluster.wait_until(self.ended, seconds, "the job was to end")
        return os.waitstatus_to_exitcode(self._ended(LAUNCHER, 0))

    def look(self):
        """Keeps every verdict that a node has written."""
        for node in self.cluster.nodes:
            path = node.path(RUN + "/diagnosis.json")
            try:
                with open(path) as file:
                    found = (os.stat(path).st_mtime_ns, json.load(file))
            except (FileNotFoundError, json.JSONDecodeError):
                continue
            if found[1] not in [document for _, document in self.seen]:
                self.seen.append(found)
        return bool(self.seen)

    def until_verdict_or_end(self, right):
        def settled():
            return self.ended() or self.look() and right([document for _, document in self.seen])

        deadline = time.monotonic() + (VERDICT_S if self.case.may_hang_watched(self.mpi) else ENDED_S)
        while not settled() and time.monotonic() < deadline:
            time.sleep(0.01)
        if not self.ended() and not self.look():
            raise Failure(f"no verdict within {VERDICT_S} s")

    def fault_ns(self):
        return fault_ns(self.fault_file)

    def output(self):
        text = ""
        for node in self.cluster.nodes:
            path = os.path.join(self.root, f"output{node.number}")
            if os.path.exists(path):
                with open(path, errors="replace") as file:
                    text += file.read()
        return text

    def printed_by_program(self):
        return written_by_ranks(self.output())

    def offline(self):
        """Of copies of the nodes' run directories, as somebody collects them."""
        folders = []
        for node in self.cluster.nodes:
            folders.append(os.path.join(self.root, "collected", node.host))
            shutil.rmtree(folders[-1], ignore_errors=True)
            shutil.copytree(node.path(RUN), folders[-1], symlinks=True)
        done = subprocess.run([self.build.command, "diagnose", "--json", *folders], capture_output=True, text=True,
                              timeout=60)
        return done.returncode, json.loads(done.stdout)
