"""Folders as NCCL Inspector leaves them: one file a process, a line an operation, in the shapes of its versions.

A small model of a job makes the times: an operation begins on a rank when its turn has come there, and ends on all ranks
once its data are through; so whoever comes early is in its kernel for longer.
"""

import gzip
import json
import os
import random
import zlib

START_US = 1_780_000_000_000_000


class Model:
    """`communicators`: name to the ranks of it. `step(number)` yields (communicator, operation, bytes, seconds)."""

    def __init__(self, hosts, gpus, communicators, seed=1):
        self.hosts, self.gpus, self.ranks = hosts, gpus, hosts * gpus
        self.communicators = communicators
        self.random = random.Random(seed)
        self.now = [0.0] * self.ranks
        self.numbers, self.lines = {}, [[] for _ in range(self.ranks)]  # (end, member, operation...)

    def host_of(self, rank):
        return rank // self.gpus

    def compute(self, rank, seconds):
        self.now[rank] += seconds * self.random.uniform(0.99, 1.01)

    def collective(self, communicator, operation, size, seconds):
        ranks = self.communicators[communicator]
        number = self.numbers[(communicator, operation)] = self.numbers.get((communicator, operation), -1) + 1
        end = max(self.now[rank] for rank in ranks) + seconds * self.random.uniform(0.97, 1.03)
        for rank in ranks:
            self.lines[rank].append((end, self.now[rank], communicator, ranks.index(rank), operation, number, size, None))
            self.now[rank] = end

    def message(self, communicator, sender, receiver, size, seconds):
        end = max(self.now[sender], self.now[receiver]) + seconds * self.random.uniform(0.97, 1.03)
        ranks = self.communicators[communicator]
        for rank, operation, peer in ((sender, "Send", receiver), (receiver, "Recv", sender)):
            self.numbers[(communicator, rank)] = number = self.numbers.get((communicator, rank), 0) + 1
            self.lines[rank].append((end, self.now[rank], communicator, ranks.index(rank), operation, number, size,
                                     ranks.index(peer)))
            self.now[rank] = end

    def exchange(self, communicator, size, seconds):
        """All send to all at once, as experts do."""
        ranks = self.communicators[communicator]
        end = max(self.now[rank] for rank in ranks) + seconds * self.random.uniform(0.97, 1.03)
        for rank in ranks:
            for peer in ranks:
                for operation in ("Send", "Recv") if peer != rank else ():
                    self.numbers[(communicator, rank)] = number = self.numbers.get((communicator, rank), 0) + 1
                    self.lines[rank].append((end, self.now[rank], communicator, ranks.index(rank), operation, number, size,
                                             ranks.index(peer)))
        for rank in ranks:
            self.now[rank] = end

    def write(self, folder, every_s=1.0, version="2.29", verbose=False, compress=False, host_name="node{:02}", missing=(),
              ahead_s=None):
        """`every_s`: the interval of the dump thread; None: all is written at the end. `missing`: ranks without a file;
        `ahead_s`: clocks, by host."""
        os.makedirs(folder, exist_ok=True)
        last = max(self.now)
        for rank, lines in enumerate(self.lines):
            if rank in missing:
                continue
            ahead = (ahead_s or {}).get(self.host_of(rank), 0)
            host = host_name.format(self.host_of(rank))
            text = []
            written = None
            for place, line in enumerate(sorted(lines, key=lambda one: (flush(one[0], every_s, last), one[2]))):
                at = flush(line[0], every_s, last)
                text.append(self.line(line, host, 1000 + rank, at + ahead, place, version, verbose))
                written = at
            name = os.path.join(folder, f"{host}-pid{1000 + rank}.log")
            with (gzip.open(name + ".gz", "wt") if compress else open(name, "w")) as file:
                file.write("".join(text))
        return folder

    def line(self, line, host, pid, at_s, place, version, verbose):
        end, began, communicator, rank, operation, number, size, peer = line
        kind = "coll" if peer is None else "p2p"
        took = round((end - began) * 1e6)
        told = {kind: operation, f"{kind}_sn": number, **({} if peer is None else {"p2p_peer": peer}),
                f"{kind}_msg_size_bytes": size, f"{kind}_exec_time_us": took}
        if version != "readme":  # the oldest lines, as the first release's page shows them
            told[f"{kind}_timing_source"] = "kernel_gpu"
        told.update({f"{kind}_algobw_gbs": size / max(1, took) / 1e3, f"{kind}_busbw_gbs": size / max(1, took) / 1e3})
        if verbose:
            told["event_trace_sn"] = {f"{kind}_start_sn": 1, f"{kind}_stop_sn": 2, "kernel_events": []}
            told["event_trace_ts"] = {f"{kind}_start_ts": START_US + round(began * 1e6),
                                      f"{kind}_stop_ts": START_US + round(began * 1e6) + 9,
                                      "kernel_events": [{"channel_id": 0, "kernel_start_ts": 1}]}
        header = {"id": f"0x7f8c49{zlib.crc32(communicator.encode()):08x}"}
        if version == "2.30":
            header["comm_name"] = communicator
        header.update({"rank": rank, "n_ranks": len(self.communicators[communicator]), "nnodes": self.hosts})
        metadata = {"inspector_output_format_version": "v4.0", "git_rev": "", "rec_mechanism": "nccl_profiler_interface",
                    "dump_timestamp_us": START_US + round(at_s * 1e6) + place % 100, "hostname": host, "pid": pid}
        return json.dumps({"header": header, "metadata": metadata, f"{kind}_perf": told}, separators=(",", ":")) + "\n"


def flush(end, every_s, last):
    return last if every_s is None else (end // every_s + 1) * every_s


def leaves(hosts=32, gpus=8, leaf=8):
    """Ranks reduce within a host, then among the hosts behind a leaf switch, then among the leaves."""
    world = {"world": list(range(hosts * gpus))}
    world.update({f"host{h}": [h * gpus + g for g in range(gpus)] for h in range(hosts)})
    for g in range(gpus):
        for one in range(hosts // leaf):
            world[f"inner{one}.{g}"] = [h * gpus + g for h in range(one * leaf, one * leaf + leaf)]
        for place in range(leaf):
            world[f"outer{place}.{g}"] = [(one * leaf + place) * gpus + g for one in range(hosts // leaf)]
    return world


def train_on_leaves(steps, slow_leaf=None, slow_from=30, late_rank=None, hosts=32, gpus=8, leaf=8, scale=0.1, seed=1):
    """The worked case at a tenth of its time: 2.8 s behind a leaf become 6.9 s where the switch is slow."""
    job = Model(hosts, gpus, leaves(hosts, gpus, leaf), seed)
    job.collective("world", "Broadcast", 1 << 20, 0.001)
    for step in range(steps):
        for rank in range(job.ranks):
            job.compute(rank, 3.0 * scale * (1.3 if rank == late_rank and step >= slow_from else 1))
        for host in range(hosts):
            job.collective(f"host{host}", "AllReduce", 1 << 28, 0.8 * scale)
        for g in range(gpus):
            for one in range(hosts // leaf):
                slow = one == slow_leaf and step >= slow_from
                job.collective(f"inner{one}.{g}", "AllReduce", 1 << 28, 2.8 * scale * (42 / 17 if slow else 1))
            for place in range(leaf):
                job.collective(f"outer{place}.{g}", "AllReduce", 1 << 25, 0.4 * scale)
    return job


PARTS = ("healthy", "straggler", "nic", "pair", "switch", "within", "all")


def train_on_parts(fault, seed, hosts=32, gpus=8, leaf=8, steps=60, slow_from=25):
    """Tensor-parallel hosts, messages between neighbouring hosts, reductions behind each leaf switch and among the
    leaves, one ring for each GPU number. `fault`, of PARTS, hits a random part. Gives the job, and the ranks and hosts
    that are to be named."""
    draw = random.Random(f"{fault}/{seed}")
    host, gpu = draw.randrange(hosts), draw.randrange(gpus)
    beside = host + 1 if host % leaf < leaf - 1 else host - 1
    behind = range(host // leaf * leaf, host // leaf * leaf + leaf)
    world = leaves(hosts, gpus, leaf)
    for one in range(hosts):
        world[f"pair{one}"] = [h * gpus + g for h in (one, (one + 1) % hosts) for g in range(gpus)]
    job = Model(hosts, gpus, world, seed)

    def factor(ring, number, step):
        inside = sum(1 for one in ring if one in behind)
        links = [{one, ring[(place + 1) % len(ring)]} for place, one in enumerate(ring)]
        hit = {"nic": host in ring and number == gpu, "pair": {host, beside} in links, "switch": inside > 0,
               "within": inside > 1, "all": True}
        return 2.5 if step >= slow_from and hit.get(fault) else 1

    for step in range(steps):
        for rank in range(job.ranks):
            late = fault == "straggler" and rank == host * gpus + gpu and step >= slow_from
            job.compute(rank, 0.3 * (1.3 if late else 1))
        for one in range(hosts):
            job.collective(f"host{one}", "AllReduce", 1 << 27, 0.05)
        for g in range(gpus):
            for one in [*range(0, hosts, 2), *range(1, hosts, 2)]:
                ring = [one, (one + 1) % hosts]
                job.message(f"pair{one}", ring[0] * gpus + g, ring[1] * gpus + g, 1 << 26, 0.03 * factor(ring, g, step))
            for one in range(hosts // leaf):
                ring = list(range(one * leaf, one * leaf + leaf))
                job.collective(f"inner{one}.{g}", "AllReduce", 1 << 28, 0.2 * factor(ring, g, step))
            for place in range(leaf):
                ring = [one * leaf + place for one in range(hosts // leaf)]
                job.collective(f"outer{place}.{g}", "AllReduce", 1 << 25, 0.05 * factor(ring, g, step))
    named = {"nic": [host], "pair": sorted((host, beside)), "switch": list(behind), "within": list(behind)}.get(fault, [])
    ranks = [h * gpus + g for h in named for g in range(gpus)]
    return job, [host * gpus + gpu] if fault in ("nic", "straggler") else ranks, [f"node{one:02}" for one in named]


def topology(path, hosts=32, leaf=8):
    with open(path, "w") as file:
        for one in range(hosts // leaf):
            file.write(f"SwitchName=leaf{one} Nodes=node[{one * leaf:02}-{one * leaf + leaf - 1:02}]\n")
        file.write(f"SwitchName=spine Switches=leaf[0-{hosts // leaf - 1}]\n")
    return path
