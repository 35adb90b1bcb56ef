"""Hosts on one machine: network namespaces with names, on a switch. Needs root."""

import os
import subprocess

from harness import Skipped


class NamedHosts:
    """Three hosts by name and network, on a switch. Their processes share this machine's memory and files."""

    def __init__(self, sandbox):
        self.sandbox, self.switch, self.holders = sandbox, None, []

    def __enter__(self):
        folder = self.sandbox.fresh("hosts")
        try:
            self.switch = self.hold("switch")
            self.at(self.switch, "ip", "link", "add", "switch", "type", "bridge")
            self.at(self.switch, "ip", "link", "set", "switch", "up")
            for number in range(3):
                self.add_host(number)
        except (OSError, subprocess.CalledProcessError) as error:
            self.__exit__()
            raise Skipped(f"no network namespaces can be made: {error}") from None
        self.agent = os.path.join(folder, "agent")  # in place of ssh: agent HOST COMMAND...
        with open(self.agent, "w") as file:
            pids = " ".join(f"host{number}) pid={holder.pid};;" for number, holder in enumerate(self.holders[1:]))
            file.write(f'#!/bin/sh\ncase "$1" in {pids} esac\nshift\nexec nsenter -t $pid -n -u sh -c "$*"\n')
        os.chmod(self.agent, 0o700)
        return self

    def namespaces(self):
        return ["--net", "--uts"]

    def hold(self, host):
        holder = subprocess.Popen(["unshare", *self.namespaces(), "sh", "-c", f"hostname {host} && echo && exec sleep 1000000"],
                                  stdout=subprocess.PIPE)
        self.holders.append(holder)
        if holder.stdout.readline() != b"\n":
            raise OSError("unshare")
        return holder.pid

    def at(self, pid, *argv):
        subprocess.run(["nsenter", "-t", str(pid), "-n", *argv], check=True, capture_output=True)

    def add_host(self, number):
        pid, cable = self.hold(f"host{number}"), f"cable{number}"
        self.at(self.switch, "ip", "link", "add", cable, "type", "veth", "peer", "name", "eth0", "netns", str(pid))
        self.at(self.switch, "ip", "link", "set", cable, "master", "switch", "up")
        for command in (["addr", "add", f"10.78.0.{number + 1}/24", "dev", "eth0"], ["link", "set", "eth0", "up"],
                        ["link", "set", "lo", "up"]):
            self.at(pid, "ip", *command)

    def narrow(self, number, rate):
        """What the host sends, and what is sent to it."""
        words = ["root", "tbf", "rate", rate, "burst", "64kb", "latency", "200ms"]
        self.at(self.holders[number + 1].pid, "tc", "qdisc", "add", "dev", "eth0", *words)
        self.at(self.switch, "tc", "qdisc", "add", "dev", f"cable{number}", *words)

    def __exit__(self, *_):
        for holder in self.holders:
            holder.kill()
            holder.wait()
