"""Nodes on one machine: each a set of namespaces of its own (network, mounts, process ids, host name, time), cabled to a
switch in another one. Needs root."""

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "scenarios"))

from job import PREFIX, SOURCE, Build, Failure, fault_ns, sanitizer  # noqa: E402,F401  pylint: disable=unused-import

MARK = "TEST_NODES"
RUN = "/dev/shm/run"  # the run directory, on every node
SWITCH = 254


class Skip(Exception):
    """Cannot be made on this machine; the text says why."""


def check_possible():
    if os.geteuid() != 0:
        raise Skip("namespaces of networks and mounts need root")
    for program in ("ip", "unshare", "nsenter"):
        if not shutil.which(program):
            raise Skip(f"no {program} here (packages iproute2, util-linux)")
    probe = ["unshare", "--net", "--mount", "--pid", "--uts", "--time", "--monotonic=1000", "--boottime=1000", "--fork",
             "sh", "-c", "ip link add name probe0 type veth peer name probe1 && ip link add name probe2 type bridge && "
             "mount --make-rprivate / && mount -t proc proc /proc && mount -t tmpfs none /dev/shm && "
             "mount --bind /proc/version /proc/sys/kernel/random/boot_id && hostname probe"]
    done = subprocess.run(probe, capture_output=True, text=True)
    if done.returncode != 0:
        raise Skip(f"no namespaces can be made here: {done.stderr.strip()}")


class Node:
    """One node: its agent, process 1 of its namespaces, does what it is told."""

    def __init__(self, cluster, number):
        self.cluster, self.number = cluster, number
        self.host = f"node{number}"
        self.address = f"10.77.0.{number + 1}"
        self.cable = f"cable{number}"  # the switch's end
        boot_id = os.path.join(cluster.root, f"boot_id{number}")
        with open(boot_id, "w") as file:
            file.write(f"{number:08x}-1111-4222-8333-444444444444\n")
        # A clock of its own: nothing may take two nodes' monotonic clocks for one.
        ahead = ["--time", f"--monotonic={1000 * (number + 1)}", f"--boottime={1000 * (number + 1)}"]
        self.holder = subprocess.Popen(
            ["unshare", "--net", "--mount", "--pid", "--uts", *ahead, "--fork", "--kill-child",
             sys.executable, os.path.join(HERE, "agent.py")],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, start_new_session=True,
            env={**os.environ, MARK: cluster.root})
        self.agent = cluster.wait_until(self._find_agent, 10, f"the agent of {self.host}")
        cluster.at_switch("ip", "link", "add", "name", self.cable, "type", "veth", "peer", "name", "eth0", "netns",
                          str(self.agent))
        cluster.at_switch("ip", "link", "set", self.cable, "master", "switch")
        cluster.at_switch("ip", "link", "set", self.cable, "up")
        self.ask(do="set_up", host=self.host, address=self.address, boot_id=boot_id, softgpu=cluster.softgpu,
                 softgpu_at=cluster.softgpu_at)

    def _find_agent(self):
        path = f"/proc/{self.holder.pid}/task/{self.holder.pid}/children"
        try:
            with open(path) as file:
                children = file.read().split()
            return int(children[0]) if children else None
        except FileNotFoundError:
            raise Failure(f"{self.host} could not be made") from None

    def ask(self, **order):
        try:
            self.holder.stdin.write(json.dumps(order) + "\n")
            self.holder.stdin.flush()
            answer = json.loads(self.holder.stdout.readline())
        except (BrokenPipeError, json.JSONDecodeError):
            raise Failure(f"the agent of {self.host} is gone") from None
        if "error" in answer:
            raise Failure(f"{self.host}: {order.get('do')}: {answer['error']}")
        return answer["is"]

    def path(self, inside):
        """A file of the node, from outside."""
        return f"/proc/{self.agent}/root{inside}"

    def listening(self):
        """Ports at which somebody listens for other machines."""
        with open(f"/proc/{self.agent}/net/tcp") as file:
            rows = [line.split() for line in file.readlines()[1:]]
        ports = {int(row[1].split(":")[1], 16) for row in rows if row[3] == "0A" and row[1].split(":")[0] != "0100007F"}
        with open(f"/proc/{self.agent}/net/tcp6") as file:
            rows = [line.split() for line in file.readlines()[1:]]
        return sorted(ports | {int(row[1].split(":")[1], 16) for row in rows if row[3] == "0A"})

    def resident_kib(self):
        """Of all its ranks."""
        total = 0
        with open(f"/proc/{self.agent}/task/{self.agent}/children") as file:
            for pid in file.read().split():
                with open(f"/proc/{pid}/statm") as statm:
                    total += int(statm.read().split()[1]) * os.sysconf("SC_PAGESIZE") >> 10
        return total

    def cut(self):
        self.cluster.at_switch("ip", "link", "set", self.cable, "down")

    def mend(self):
        self.cluster.at_switch("ip", "link", "set", self.cable, "up")

    def end(self):
        """The node is switched off."""
        try:
            os.kill(self.agent, signal.SIGKILL)
        except (ProcessLookupError, TypeError):
            pass
        self.holder.kill()
        self.holder.wait()


class Cluster:
    def __init__(self, build, nodes, lossy=None, redis=False):
        check_possible()
        self.build = build
        self.root = tempfile.mkdtemp(prefix="ncclwatch-nodes-", dir="/tmp")
        self.softgpu = tempfile.mkdtemp(prefix="ncclwatch-nodes-", dir="/dev/shm")
        self.softgpu_at = os.path.join(self.root, "softgpu")
        os.mkdir(self.softgpu_at)
        self.nodes, self.helpers, self.redis = [], [], None
        self.switch = subprocess.Popen(["unshare", "--net", "sleep", "1000000"], start_new_session=True)
        try:
            self.wait_until(lambda: os.readlink(f"/proc/{self.switch.pid}/ns/net") != os.readlink("/proc/self/ns/net"),
                            10, "the switch's namespace")
            self.at_switch("ip", "link", "set", "lo", "up")
            self.at_switch("ip", "link", "add", "name", "switch", "type", "bridge")
            self.at_switch("ip", "link", "set", "switch", "up")
            self.at_switch("ip", "addr", "add", f"10.77.0.{SWITCH}/24", "dev", "switch")
            for number in range(nodes):
                self.nodes.append(Node(self, number))
            if redis:
                self.start_redis()
            if lossy:
                self.lose(*lossy)
        except BaseException:
            self.end()
            raise

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.end()

    def at_switch(self, *command):
        subprocess.run(["nsenter", "-t", str(self.switch.pid), "--net", *command], check=True)

    def helper(self, *command, **options):
        process = subprocess.Popen(["nsenter", "-t", str(self.switch.pid), "--net", *command],
                                   stdin=subprocess.DEVNULL, start_new_session=True, **options)
        self.helpers.append(process)
        return process

    def lose(self, delay, loss):
        """From now on frames between the nodes go through user space, late, and some not at all."""
        for node in self.nodes:
            self.at_switch("ip", "link", "set", node.cable, "nomaster")
            self.at_switch("ip", "link", "set", node.cable, "promisc", "on")
        relay = self.helper(sys.executable, os.path.join(HERE, "relay.py"), str(delay), str(loss), "1",
                            *(node.cable for node in self.nodes), stdout=subprocess.PIPE, text=True)
        if relay.stdout.readline() != "relay\n":
            raise Failure("the relay did not start")

    def start_redis(self):
        if not shutil.which("redis-server"):
            raise Skip("no redis-server here")
        folder = os.path.join(self.root, "redis")
        os.makedirs(folder, exist_ok=True)
        with open(os.path.join(folder, "log"), "ab") as log:
            self.redis = self.helper("redis-server", "--bind", f"10.77.0.{SWITCH}", "--port", "6379", "--save", "",
                                     "--appendonly", "no", "--protected-mode", "no", "--dir", folder, stdout=log)
        self.wait_until(lambda: self.redis_answers(), 10, "the Redis server")

    def redis_answers(self):
        probe = ("import socket; s = socket.create_connection(('10.77.0.%d', 6379), 1); s.send(b'PING\\r\\n'); "
                 "assert s.recv(16).startswith(b'+PONG')" % SWITCH)
        return subprocess.run(["nsenter", "-t", str(self.switch.pid), "--net", sys.executable, "-c", probe],
                              capture_output=True).returncode == 0

    def kill_redis(self):
        # nsenter --net does not fork: its pid is the server's.
        self.redis.kill()
        self.redis.wait()

    def wait_until(self, condition, seconds, what):
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            value = condition()
            if value:
                return value
            time.sleep(0.01)
        raise Failure(f"{what}: not within {seconds:.1f} s")

    def end(self):
        for node in self.nodes:
            node.end()
        for process in [*self.helpers, self.switch]:
            process.kill()
            process.wait()
        for folder in (self.root, self.softgpu):
            shutil.rmtree(folder, ignore_errors=True)


class SpreadJob:
    """A job of `ranks` ranks over the nodes of a cluster, as many on each."""

    def __init__(self, cluster, program, ranks, options=(), environment=None):
        self.cluster, self.ranks = cluster, ranks
        self.per_node = ranks // len(cluster.nodes)
        assert self.per_node * len(cluster.nodes) == ranks
        self.build = cluster.build
        self.fault_file = os.path.join(cluster.root, "fault")
        self.culprit_file = os.path.join(cluster.root, "culprit")
        port = 10000 + os.getpid() % 10000
        home = os.path.join(cluster.root, "home")  # the same on all nodes
        os.makedirs(home, exist_ok=True)
        base = {name: value for name, value in os.environ.items() if not name.startswith("NCCLWATCH")}
        base.update({
            **sanitizer.OPTIONS, MARK: cluster.root, "LD_LIBRARY_PATH": self.build.softgpu,
            "LD_PRELOAD": " ".join(filter(None, [sanitizer.RUNTIME, self.build.library])),
            "SOFTGPU_NCCL_DIR": cluster.softgpu_at, "EXAMPLES_FAULT_FILE": self.fault_file,
            "EXAMPLES_CULPRIT_FILE": self.culprit_file, "NCCLWATCH_DIR": RUN, "WORLD_SIZE": str(ranks),
            "LOCAL_WORLD_SIZE": str(self.per_node), "MASTER_ADDR": cluster.nodes[0].address, "MASTER_PORT": str(port),
            "HOME": home, "XDG_STATE_HOME": None})
        if cluster.redis:
            base["NCCLWATCH_TOKEN"] = "of the tests"  # nothing but a network's file system would tell that homes are shared
            base["NCCLWATCH_EXCHANGE"] = f"redis://10.77.0.{SWITCH}:6379"
        base.update(environment or {})
        self.start([program, *map(str, options)], {name: value for name, value in base.items() if value is not None})

    def start(self, command, environment):
        for rank in range(self.ranks):
            node = self.node_of(rank)
            node.ask(do="start", rank=rank, command=command, output=self.output_path(node.number),
                     environment={**environment, "RANK": str(rank), "LOCAL_RANK": str(rank % self.per_node),
                                  "GROUP_RANK": str(node.number)})

    def node_of(self, rank):
        return self.cluster.nodes[rank // self.per_node]

    def output_path(self, node):
        return os.path.join(self.cluster.root, f"output{node}")

    def output(self, node=None):
        numbers = range(len(self.cluster.nodes)) if node is None else [node]
        text = ""
        for number in numbers:
            try:
                with open(self.output_path(number), errors="replace") as file:
                    text += file.read()
            except FileNotFoundError:
                pass
        return text

    def said(self):
        """The lines of ncclwatch itself."""
        return [line for line in self.output().splitlines() if line.startswith("[ncclwatch")]

    def printed(self, sentence):
        """How often a sentence stands in the nodes' outputs, however it was wrapped and prefixed."""
        flat = " ".join(PREFIX.sub("", self.output()).split())
        return flat.count(" ".join(sentence.split()))

    def signal(self, rank, number):
        self.node_of(rank).ask(do="signal", rank=rank, signal=int(number))

    def ended(self):
        """rank -> status of those that have ended."""
        return {int(rank): status for node in self.cluster.nodes for rank, status in node.ask(do="ended").items()}

    def fault_ns(self):
        return fault_ns(self.fault_file)

    def name_culprit(self, rank):
        """For programs with --rank -1."""
        with open(self.culprit_file + ".new", "w") as file:
            file.write(str(rank))
        os.rename(self.culprit_file + ".new", self.culprit_file)

    def watched(self):
        """(seen, size) of every line that says how many ranks are watched."""
        import re
        return re.findall(r"watching (\d+)/(\d+) ranks", self.output())

    def diagnosis(self, node):
        """(time it was written, document), or None."""
        path = self.cluster.nodes[node].path(RUN + "/diagnosis.json")
        try:
            with open(path) as file:
                return os.stat(path).st_mtime_ns, json.load(file)
        except (FileNotFoundError, json.JSONDecodeError):
            return None

    def collect(self, nodes=None):
        """Copies of the nodes' run directories, as somebody collects them after a fault."""
        folders = []
        for node in nodes or self.cluster.nodes:
            folder = os.path.join(self.cluster.root, "collected", node.host)
            shutil.rmtree(folder, ignore_errors=True)
            shutil.copytree(node.path(RUN), folder, symlinks=True)
            folders.append(folder)
        return folders

    def offline(self, folders):
        done = subprocess.run([self.build.command, "diagnose", "--json", *folders], capture_output=True, text=True,
                              timeout=60)
        try:
            return done.returncode, json.loads(done.stdout)
        except json.JSONDecodeError:
            raise Failure(f"diagnose --json wrote no JSON, status {done.returncode}: {done.stdout}{done.stderr}") from None


class TorchJob(SpreadJob):
    """The same by torchrun: an agent on each node, which starts the ranks. `program` is a script of Python."""

    def start(self, command, environment):
        python = os.path.join(SOURCE, "build", "venv", "bin", "python")
        if not os.path.exists(os.path.join(SOURCE, "build", "venv", "torch.stamp")):
            raise Skip("no torch in build/venv: ./dev test installs it there")
        own = {name: value for name, value in environment.items() if name not in ("WORLD_SIZE", "LOCAL_WORLD_SIZE")}
        own.update(OMP_NUM_THREADS="1", NCCL_SO_PATH=os.path.join(self.build.softgpu, "libnccl.so.2"), LD_LIBRARY_PATH="")
        for node in self.cluster.nodes:
            launcher = ["--nnodes", str(len(self.cluster.nodes)), "--node-rank", str(node.number), "--nproc-per-node",
                        str(self.per_node), "--master-addr", environment["MASTER_ADDR"], "--master-port",
                        environment["MASTER_PORT"], "--local-addr", node.address]
            node.ask(do="start", rank=node.number, command=[python, "-m", "torch.distributed.run", *launcher, *command],
                     output=self.output_path(node.number), environment=own)
