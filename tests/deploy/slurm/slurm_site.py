"""A Slurm site on one machine: munge, slurmctld, and a slurmd on each node of a cluster of namespaces (tests/nodes).

All that it writes lies in the cluster's folder, and all that it starts ends with the cluster."""

import os
import shutil
import socket
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
SOURCE = os.path.dirname(os.path.dirname(os.path.dirname(HERE)))
sys.path.insert(0, os.path.join(SOURCE, "tests", "nodes"))

from cluster import SWITCH, Cluster, Failure, Skip  # noqa: E402
import sanitizer  # noqa: E402  of ../../support

UNPACKED = os.path.join(SOURCE, "build", "slurm-root", "files")  # ./dev unpacks Debian's packages there
DEPLOY = os.path.join(SOURCE, "docs", "deploy", "slurm")
STARTS_S = 30.0
CPUS = 16  # a node's, as Slurm is told: its ranks mostly wait

CONF = """\
ClusterName=site
SlurmctldHost={host}({address})
SlurmUser=root
AuthType=auth/munge
AuthInfo=socket={root}/munge.socket,cred_expire=5
CredType=cred/munge
{plugins}
StateSaveLocation={root}/state
SlurmdSpoolDir={root}/spool.%n
SlurmctldPidFile={root}/slurmctld.pid
SlurmdPidFile={root}/slurmd.%n.pid
SlurmctldLogFile={root}/slurmctld.log
SlurmdLogFile={root}/slurmd.%n.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SwitchType=switch/none
MpiDefault=none
JobAcctGatherType=jobacct_gather/none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
SlurmdParameters=config_overrides
SchedulerParameters=sched_interval=1,sched_min_interval=0,batch_sched_delay=0
ReturnToService=2
KillWait=3
CompleteWait=0
TaskProlog={root}/taskprolog.sh
Epilog={root}/epilog.sh
{nodes}
PartitionName=all Nodes=ALL Default=YES MaxTime=INFINITE State=UP
"""


class Programs:
    """Slurm's and munge's, installed or unpacked. Debian calls the daemons slurmd-wlm, and so on."""

    def __init__(self):
        root = UNPACKED if os.path.isdir(UNPACKED) else ""
        folders = [root + folder for folder in ("/usr/sbin", "/usr/bin")]
        self.path = ":".join(folders)
        self.libraries, self.plugins = "", ""
        if root:
            multiarch = next((entry for entry in os.listdir(root + "/usr/lib")
                              if os.path.isdir(f"{root}/usr/lib/{entry}/slurm-wlm")), None)
            if not multiarch:
                raise Skip(f"no Slurm in {root}")
            self.plugins = f"{root}/usr/lib/{multiarch}/slurm-wlm"
            self.libraries = f"{self.plugins}:{root}/usr/lib/{multiarch}"

    def find(self, name):
        for candidate in (name, name + "-wlm"):
            found = shutil.which(candidate, path=self.path)
            if found:
                return found

        raise Skip(f"no {name} here: ./dev test unpacks Debian's packages of Slurm into build/slurm-root")


class Site:
    """`with Site(build, 2) as site:` nodes gpu0 and gpu1, whose host names are node0 and node1."""

    def __init__(self, build, nodes):
        self.build, self.programs = build, Programs()
        self.daemons = {name: self.programs.find(name) for name in
                        ("munged", "mungekey", "slurmctld", "slurmd", "slurmstepd", "srun", "sbatch", "scancel", "scontrol",
                         "squeue", "sinfo")}
        self.cluster = Cluster(build, nodes)
        self.root = self.cluster.root
        self.nodes = self.cluster.nodes
        self.names = [f"gpu{node.number}" for node in self.nodes]
        os.chmod(self.root, 0o711)
        self.out, self.collect = os.path.join(self.root, "out"), os.path.join(self.root, "collect")  # on shared storage
        self.local_out = "/dev/shm/out"  # stands for a node's own disk
        try:
            self._prepare()
            self._start()
        except BaseException:
            self.cluster.end()
            raise

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.cluster.end()

    # ---- the site --------------------------------------------------------------------------------------------------

    def _prepare(self):
        for folder in ("state", "home", "jobs"):
            os.mkdir(os.path.join(self.root, folder), 0o700)
        for folder in (self.out, self.collect):
            os.mkdir(folder)
            os.chmod(folder, 0o1777)
        prefix = os.path.join(self.root, "prefix")  # as `cmake --install` lays it out
        os.makedirs(os.path.join(prefix, "lib"))
        os.symlink(os.path.join(self.build.folder, "bin"), os.path.join(prefix, "bin"))
        os.symlink(os.path.join(self.build.folder, "lib"), os.path.join(prefix, "lib", "ncclwatch"))
        for script, settings in (("taskprolog.sh", {"NCCLWATCH_PREFIX": prefix}),
                                 ("epilog.sh", {"NCCLWATCH_COLLECT": self.collect, "NCCLWATCH_OUT": self.local_out})):
            self._install(script, settings)
        with open(os.path.join(self.root, "hosts"), "w") as file:
            file.write("127.0.0.1 localhost\n")
            for node, name in zip(self.nodes, self.names):
                file.write(f"{node.address} {name} {node.host}\n")
        nodes = "\n".join(f"NodeName={name} NodeHostname={node.host} NodeAddr={node.address} CPUs={CPUS} State=UNKNOWN"
                          for node, name in zip(self.nodes, self.names))
        plugins = f"PluginDir={self.programs.plugins}" if self.programs.plugins else ""
        with open(self._conf(), "w") as file:
            file.write(CONF.format(host=socket.gethostname().split(".")[0], address=f"10.77.0.{SWITCH}", root=self.root,
                                   plugins=plugins, nodes=nodes))

    def _install(self, script, settings):
        """A file of docs/deploy/slurm as it is, but for what its first lines leave to the administrator."""
        with open(os.path.join(DEPLOY, script)) as file:
            text = file.read()
        for name, value in settings.items():
            line = next((line for line in text.splitlines() if line.startswith(f': "${{{name}:=')), None)
            if not line:
                raise Failure(f"{script} has no default for {name}")
            text = text.replace(line, f"{name}='{value}'")
        target = os.path.join(self.root, script)
        with open(target, "w") as file:
            file.write(text)
        os.chmod(target, 0o755)

    def _conf(self):
        return os.path.join(self.root, "slurm.conf")

    def environment(self):
        base = {name: value for name, value in os.environ.items()
                if not name.startswith(("NCCLWATCH", "SLURM", "LD_"))}
        return {**base, **sanitizer.OPTIONS, "SLURM_CONF": self._conf(), "HOME": os.path.join(self.root, "home"),
                "PATH": f"{self.programs.path}:{os.environ['PATH']}", "LD_LIBRARY_PATH": self.programs.libraries,
                "XDG_STATE_HOME": "", "TEST_NODES": self.root}

    def _start(self):
        root = self.root
        key = os.path.join(root, "munge.key")
        environment = self.environment()
        subprocess.run([self.daemons["mungekey"], "--create", "--keyfile", key], check=True, env=environment)
        self._daemon("munged", "--foreground", "--force", "--socket", root + "/munge.socket", "--key-file", key,
                     "--pid-file", root + "/munged.pid", "--log-file", root + "/munged.log", "--seed-file",
                     root + "/munged.seed")
        self.wait_until(lambda: os.path.exists(root + "/munge.socket"), STARTS_S, "munge")
        self._daemon("slurmctld", "-D", "-f", self._conf())
        for node, name in zip(self.nodes, self.names):
            node.ask(do="start", rank=-1, output=os.path.join(root, f"slurmd.{name}.out"), environment=environment,
                     command=["sh", "-c", 'mount --bind "$1" /etc/hosts && shift && exec "$@"', "sh", root + "/hosts",
                              self.daemons["slurmd"], "-D", "-N", name, "-f", self._conf(), "-d",
                              self.daemons["slurmstepd"]])
        self.wait_until(self.all_idle, STARTS_S, "the nodes of the site were to be idle")

    def _daemon(self, name, *options):
        with open(os.path.join(self.root, name + ".out"), "ab") as output:
            self.cluster.helper(self.daemons[name], *options, env=self.environment(), stdout=output, stderr=output)

    def all_idle(self):
        # A controller that does not answer yet makes its clients wait for long.
        done = self.call("sinfo", "-h", "-N", "-o", "%N %t", check=False, timeout=20)
        states = dict(line.split() for line in done.stdout.splitlines() if len(line.split()) == 2)
        return all(states.get(name) == "idle" for name in self.names)

    # ---- what a user does ------------------------------------------------------------------------------------------

    def call(self, program, *options, check=True, timeout=60, **variables):
        """One of Slurm's commands on the login node."""
        done = subprocess.run(["nsenter", "-t", str(self.cluster.switch.pid), "--net", self.daemons[program],
                               *map(str, options)], env={**self.environment(), **variables}, capture_output=True,
                              text=True, timeout=timeout, cwd=self.root)
        if check and done.returncode != 0:
            raise Failure(f"{program} {options}: status {done.returncode}\n{done.stdout}{done.stderr}\n{self.logs()}")
        return done

    def submit(self, script, *options, **variables):
        """sbatch. Returns the job's number."""
        path = os.path.join(self.root, "jobs", f"script{len(os.listdir(os.path.join(self.root, 'jobs')))}")
        with open(path, "w") as file:
            file.write("#!/bin/sh\n" + script)
        output = os.path.join(self.root, "jobs", "output.%A.%a" if "--array" in str(options) else "output.%j")
        done = self.call("sbatch", "--parsable", "--open-mode=append", "-o", output, *options, path, **variables)
        return int(done.stdout.split(";")[0])

    def output(self, job):
        try:
            with open(os.path.join(self.root, "jobs", f"output.{job}"), errors="replace") as file:
                return file.read()
        except FileNotFoundError:
            return ""

    def state(self, job):
        """RUNNING, COMPLETED, CANCELLED ..."""
        done = self.call("scontrol", "-o", "show", "job", job)  # of an array's first element also the others
        own = next((line for line in done.stdout.splitlines() if line.startswith(f"JobId={job} ")), "")
        return dict(word.split("=", 1) for word in own.split() if "=" in word).get("JobState", "")

    def array(self, job, elements):
        """element -> its own number, once all have one."""
        done = self.call("squeue", "-h", "-r", "-a", "-t", "all", "-j", job, "-O", "ArrayTaskID,JobID")
        rows = [line.split() for line in done.stdout.splitlines()]
        numbers = {int(element): int(number) for element, number in rows if element.isdigit()}
        return numbers if len(set(numbers.values())) == elements else None

    def on_node(self, node, line):
        """A line of shell on a node, as root."""
        subprocess.run(["nsenter", "-t", str(node.agent), "--net", "--mount", "--pid", "--uts", "sh", "-c", line],
                       check=True, timeout=60)

    def wait_until(self, condition, seconds, what):
        try:
            return self.cluster.wait_until(condition, seconds, what)
        except Failure as failure:
            raise Failure(f"{failure}\n{self.logs()}")

    def logs(self):
        text = ""
        for name in sorted(os.listdir(self.root)):
            if name.endswith((".log", ".out")):
                with open(os.path.join(self.root, name), errors="replace") as file:
                    text += f"--- {name}\n" + "".join(file.readlines()[-40:])
        for name in sorted(os.listdir(os.path.join(self.root, "jobs"))):
            if name.startswith("output"):
                with open(os.path.join(self.root, "jobs", name), errors="replace") as file:
                    text += f"--- {name}\n" + "".join(file.readlines()[-60:])
        return text

    # ---- what is left of jobs --------------------------------------------------------------------------------------

    def run_directories(self, job):
        """(node's name, folder) of a job's run directories in the nodes' memory."""
        found = []
        for node, name in zip(self.nodes, self.names):
            base = node.path(f"/dev/shm/ncclwatch-{os.getuid()}")
            entries = sorted(os.listdir(base)) if os.path.isdir(base) else []
            found += [(name, os.path.join(base, entry)) for entry in entries if entry.startswith(f"slurm-{job}.")]
        return found

    def local_runs(self, node):
        """Folders of jobs in a node's own NCCLWATCH_OUT."""
        folder = node.path(self.local_out)
        return [entry for entry in os.listdir(folder) if entry.startswith("slurm-")] if os.path.isdir(folder) else []
