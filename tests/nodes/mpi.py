"""MPI jobs over several nodes of cluster.py, started by a real mpirun on the first one: MPICH's and Open MPI's. What their
remote shell would do on another node is done from here: the shell that they are given leaves its command line in a
folder, and whoever serves the folder starts it there."""

import json
import os
import stat

from cluster import MARK, RUN, sanitizer

SHELL = """#!/bin/sh
# usage: [options] HOST COMMAND...
order=$(mktemp "{folder}/order.XXXXXX")
printf '%s\\0' "$@" > "$order.part"
mv "$order.part" "$order.ready"
while [ ! -e "$order.ended" ]; do sleep 0.05; done
"""


class MpiSpread:
    """`ranks` ranks of a program, as many on each node."""

    def __init__(self, cluster, mpi, program, arguments, ranks, library, environment=None):
        self.cluster, self.mpi = cluster, mpi
        self.folder = os.path.join(cluster.root, "orders")
        os.makedirs(self.folder)
        shell = os.path.join(cluster.root, "remote_shell")
        with open(shell, "w") as file:
            file.write(SHELL.format(folder=self.folder))
        os.chmod(shell, stat.S_IRWXU)
        self.fault_file = os.path.join(cluster.root, "fault")
        self.base = {name: value for name, value in os.environ.items() if not name.startswith("NCCLWATCH")}
        self.base.update({**sanitizer.OPTIONS, MARK: cluster.root, "NCCLWATCH_DIR": RUN,
                          "EXAMPLES_FAULT_FILE": self.fault_file, **(environment or {})})
        self.started = {}
        per_node = ranks // len(cluster.nodes)
        addresses = [node.address for node in cluster.nodes]
        if mpi == "mpich":
            command = ["mpirun.mpich", "-launcher", "ssh", "-launcher-exec", shell, "-localhost", addresses[0], "-hosts",
                       ",".join(f"{address}:{per_node}" for address in addresses), "-n", str(ranks), "-genv",
                       "LD_PRELOAD", library, "-genv", "UCX_TLS", "tcp,self", "-genv", "UCX_NET_DEVICES", "eth0"]
        else:
            command = ["mpirun.openmpi", "--allow-run-as-root", "--oversubscribe", "--mca", "plm_rsh_agent", shell, "--host",
                       ",".join(f"{address}:{per_node}" for address in addresses), "--mca", "btl", "tcp,self", "--mca",
                       "btl_tcp_if_include", "eth0", "--mca", "oob_tcp_if_include", "eth0", "--mca", "pml", "ob1", "-n",
                       str(ranks), "-x", f"LD_PRELOAD={library}"]
            for name in self.base:
                if name.startswith(("NCCLWATCH", "EXAMPLES")):
                    command += ["-x", name]
        self._start(0, 0, [*command, program, *arguments])

    def _start(self, number, node, command):
        self.cluster.nodes[node].ask(do="start", rank=number, command=command, output=self.output_path(node),
                                     environment=self.base)

    def serve(self):
        """Starts what mpirun wants on other nodes. To be called until the job has ended."""
        for name in sorted(os.listdir(self.folder)):
            if not name.endswith(".ready") or name in self.started:
                continue
            with open(os.path.join(self.folder, name)) as file:
                words = file.read().split("\0")[:-1]
            host = next(i for i, word in enumerate(words) if word.startswith("10.77."))
            node = next(node.number for node in self.cluster.nodes if node.address == words[host])
            self.started[name] = (1000 + len(self.started), node)
            # As a remote shell has it: one line, for a shell there.
            self._start(*self.started[name], ["/bin/sh", "-c", " ".join(words[host + 1:])])
        for name, (number, node) in self.started.items():
            if str(number) in self.cluster.nodes[node].ask(do="ended"):
                open(os.path.join(self.folder, name.replace(".ready", ".ended")), "w").close()

    def wait_until(self, condition, seconds, what):
        def served():
            self.serve()
            return condition()
        return self.cluster.wait_until(served, seconds, what)

    def output_path(self, node):
        return os.path.join(self.cluster.root, f"output{node}")

    def output(self):
        text = ""
        for node in self.cluster.nodes:
            if os.path.exists(self.output_path(node.number)):
                with open(self.output_path(node.number), errors="replace") as file:
                    text += file.read()
        return text

    def status(self):
        """Of mpirun, as waitpid gives it; None: it runs."""
        return self.cluster.nodes[0].ask(do="ended").get("0")

    def diagnosis(self, node):
        try:
            with open(self.cluster.nodes[node].path(RUN + "/diagnosis.json")) as file:
                return json.load(file)
        except (FileNotFoundError, json.JSONDecodeError):
            return None
