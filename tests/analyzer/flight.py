"""Dumps of torch's flight recorder in its own format, made by Python's pickle: a job of a few ranks, written call by call."""

import json
import os
import pickle

SECOND = 10 ** 9
BEGAN = 1_760_000_000 * SECOND


class Rank:
    """What the recorder of one rank holds. Times are seconds since the job began."""

    def __init__(self, job, rank):
        self.job, self.rank = job, rank
        self.entries, self.collectives, self.messages = [], {}, {}

    def record(self, name, group, sizes, at, state, p2p=False, outputs=None, dtype="Float", retired=None, seq=None):
        collectives = self.collectives.get(group, 0) + (0 if p2p or seq else 1)
        messages = self.messages.get(group, 0) + (1 if p2p and not seq else 0)
        self.collectives[group], self.messages[group] = collectives, messages
        created = BEGAN + int(at * SECOND)
        done = state == "completed"
        sizes = sizes if sizes is None or isinstance(sizes[0], list) else [sizes]
        outputs = sizes if outputs is None else outputs if isinstance(outputs[0], list) else [outputs]
        self.entries.append({
            "frames": [{"name": name, "filename": "/x/lib/python3/site-packages/torch/distributed/distributed_c10d.py",
                        "line": 2810}, {"name": "step", "filename": "/home/u/train.py", "line": 40 + len(name)}],
            "record_id": len(self.entries), "pg_id": list(self.job.groups).index(group),
            "process_group": (group, self.job.groups[group][0]), "thread_name": "python", "thread_id": "1",
            "collective_seq_id": collectives, "p2p_seq_id": messages, "op_id": len(self.entries) + 1,
            "profiling_name": f"{self.job.backend}:{name}", "time_created_ns": created,
            "input_sizes": sizes or [], "input_dtypes": [dtype] * len(sizes or []),
            "output_sizes": outputs or [], "output_dtypes": [dtype] * len(outputs or []), "state": state,
            "time_discovered_started_ns": created + SECOND // 1000 if state != "scheduled" else None,
            "time_discovered_completed_ns": created + SECOND // 500 if done else None,
            "retired": done if retired is None else retired, "timeout_ms": 600_000, "is_p2p": p2p})

    def send(self, peer, at, state="completed", sizes=(4, 4), group="0", seq=False):
        self.record(f"send {self.job.place(group, self.rank)}->{self.job.place(group, peer)}", group, list(sizes), at,
                    state, p2p=True, seq=seq)

    def recv(self, peer, at, state="completed", sizes=(4, 4), group="0", seq=False):
        self.record(f"recv {self.job.place(group, self.rank)}<-{self.job.place(group, peer)}", group, list(sizes), at,
                    state, p2p=True, seq=seq)


class Job:
    def __init__(self, ranks, backend="nccl", version="2.10"):
        self.backend, self.version = backend, version
        self.groups = {"0": ("default_pg", list(range(ranks)))}
        self.ranks = [Rank(self, rank) for rank in range(ranks)]

    def group(self, name, ranks, description="undefined"):
        self.groups[name] = (description, list(ranks))
        return name

    def place(self, group, rank):
        return self.groups[group][1].index(rank)

    def all(self, ranks, name, sizes=(16,), at=0.0, state="completed", group="0", **more):
        for rank in ranks:
            self.ranks[rank].record(name, group, list(sizes), at, state, **more)

    def dump(self, rank, keep=None, config=True):
        """As dictionaries. `keep`: the size of the ring."""
        entries = self.ranks[rank].entries
        groups = {name: {"name": name, "desc": described, "ranks": str(ranks)}
                  for name, (described, ranks) in self.groups.items() if rank in ranks} if config else {}
        return {"version": self.version, "pg_config": groups, "comm_lib_version": "2.28.9",
                "pg_status": {}, "entries": entries[-keep:] if keep else entries, "nccl_comm_state": {}}

    def active_dump(self, rank, status=True):
        """What a dump of the calls under way alone holds, and how far the rank has come in each group. Backends have
        numbers of their own in each process: every third is one of gloo's, which has no status."""
        dump = self.dump(rank)
        groups = list(dump["pg_config"])
        number = {name: index + index // 2 for index, name in enumerate(groups)}
        entries = [dict(entry, pg_id=number[entry["process_group"][0]]) for entry in dump["entries"]]
        if status:
            for name in groups:
                own = [entry for entry in entries if entry["process_group"][0] == name]
                counts = [entry["p2p_seq_id" if entry["is_p2p"] else "collective_seq_id"] for entry in own]
                done = [count for entry, count in zip(own, counts) if entry["state"] == "completed"]
                dump["pg_status"][str(number[name])] = {"last_enqueued_collective": counts[-1] if counts else -1,
                                                        "last_started_collective": -1,
                                                        "last_completed_collective": done[-1] if done else -1}
        dump["entries"] = [entry for entry in entries if entry["state"] != "completed"]
        return dump

    def write_active(self, directory, at=700.0, status=True):
        for rank in range(len(self.ranks)):
            path = os.path.join(directory, f"_dump_{rank}")
            with open(path, "wb") as file:
                pickle.dump(self.active_dump(rank, status), file, 2)
            stamp(path, at)
        return directory

    def write(self, directory, at=700.0, ranks=None, protocol=2, keep=None, config=True, name="nccl_trace_rank_{}"):
        """Files as torch writes them, `at` seconds after the job began."""
        os.makedirs(directory, exist_ok=True)
        for rank in range(len(self.ranks)) if ranks is None else ranks:
            path = os.path.join(directory, name.format(rank))
            dump = self.dump(rank, keep, config)
            with open(path, "wb") as file:
                if path.endswith(".json"):
                    file.write(json.dumps(in_json(dump)).encode())
                else:
                    pickle.dump(dump, file, protocol)
            stamp(path, at)
        return directory


def stamp(path, at):
    os.utime(path, ns=(BEGAN + int(at * SECOND),) * 2)


def in_json(dump):
    """What dump_json() does otherwise: text for the numbers of pg_status, 0 for no time, no empty list of entries."""
    dump = dict(dump)
    entries = [dict(entry) for entry in dump.pop("entries")]
    for entry in entries:
        del entry["frames"]
        for key in ("time_discovered_started_ns", "time_discovered_completed_ns"):
            entry[key] = entry[key] or 0
    return {**dump, "entries": entries} if entries else dump
