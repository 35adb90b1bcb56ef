"""Ranks of `ncclwatch doctor` that meet at 127.0.0.1, one process each, and peers that join them."""

import json
import os
import socket
import subprocess
import time

import peer
from harness import check

SECRET = b"0123456789abcdef0123456789abcdef"
GUESS = b"plain/127.0.0.1/29511///"  # the identity of these jobs: everybody can see it


def free_port():
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        return sock.getsockname()[1]


class Job:
    """Ranks of one doctor job that meet at 127.0.0.1, started one by one."""

    def __init__(self, sandbox, size, secret=SECRET, local=1, wait="10s", meet=True):
        self.sandbox, self.wait = sandbox, wait
        self.port = free_port()
        self.env = {"WORLD_SIZE": str(size), "LOCAL_RANK": "0", "LOCAL_WORLD_SIZE": str(local), "MASTER_ADDR": "127.0.0.1",
                    "MASTER_PORT": "29511", "HOME": sandbox.fresh("home"), "NCCLWATCH_BIND": "127.0.0.1"}
        if secret:
            path = os.path.join(sandbox.fresh("secret"), "token")
            with open(os.open(path, os.O_CREAT | os.O_WRONLY, 0o600), "wb") as file:
                file.write(secret)
            self.env["NCCLWATCH_TOKEN_FILE"] = path
        self.running = []
        self.meet = ["--meet", f"127.0.0.1:{self.port}"] if meet else []

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for one in self.running:
            one.kill()
            one.communicate()

    def start(self, rank, *words, **env):
        environment = self.sandbox.environment(preload=False, extra={**self.env, "RANK": str(rank), **env})
        environment.pop("XDG_STATE_HOME", None)
        one = subprocess.Popen([self.sandbox.build.command, "doctor", "--json", *self.meet, "--wait", self.wait, "--only",
                                "ranks-came,ranks-proven,host-map,open-files,variable-skew,reachability", *words],
                               env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.running.append(one)
        return one

    def start_rank0(self, *words, **env):
        """Listening."""
        one = self.start(0, *words, **env)
        deadline = time.monotonic() + 20
        while not listening(one.pid):
            check(one.poll() is None and time.monotonic() < deadline, "rank 0 listens")
            time.sleep(0.01)
        return one

    def join(self, rank, payload=None, token=None, **more):
        """A rank of ours that has the secret."""
        one = peer.dial(self.port, token or peer.token_of_secret(SECRET))
        one.send(peer.HELLO, peer.hello(rank, **more) if payload is None else payload)
        return one


def result(process):
    out, err = process.communicate(timeout=60)
    check("{" in out, f"status {process.returncode}: {out} {err}")
    report = json.loads(out)
    return process.returncode, {one["id"]: one for one in report["checks"]}, report


def listening(pid):
    """(address, port) of the TCP sockets at which this process listens; IPv4 and IPv6 as /proc has them."""
    try:
        inodes = {os.readlink(f"/proc/{pid}/fd/{fd}") for fd in os.listdir(f"/proc/{pid}/fd")}
    except OSError:
        return []
    found = []
    for table in ("tcp", "tcp6"):
        with open(f"/proc/net/{table}") as file:
            for line in file.readlines()[1:]:
                words = line.split()
                if words[3] == "0A" and f"socket:[{words[9]}]" in inodes:
                    address, port = words[1].rsplit(":", 1)
                    found.append((address, int(port, 16)))
    return found
