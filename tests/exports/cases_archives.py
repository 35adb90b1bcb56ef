"""Chakra's execution traces and OTF2 archives that other tools write: the calls in them, and what is said of damage."""

import gzip
import json
import os
import shutil

from cases_roundtrip import imported, sorted_calls
from common import calls_of, case, check, check_equal, stats_of
from harness import Skipped

# ---- Chakra's binary form -------------------------------------------------------------------------------------------


def varint(value):
    value &= (1 << 64) - 1
    out = bytearray()
    while True:
        out.append((value & 0x7f) | (0x80 if value > 0x7f else 0))
        value >>= 7
        if not value:
            return bytes(out)


def number(field, value):
    return varint(field << 3) + varint(value)


def piece(field, data):
    data = data.encode() if isinstance(data, str) else data
    return varint(field << 3 | 2) + varint(len(data)) + data


def attribute(name, value):
    if isinstance(value, str):
        return piece(1, name) + piece(29, value)
    if isinstance(value, bool):
        return piece(1, name) + number(27, value)
    if isinstance(value, list):
        return piece(1, name) + piece(28, b"".join(number(1, one) for one in value))
    return piece(1, name) + number(9, value)


COMPUTE, SEND, RECEIVE, COLLECTIVE = 4, 5, 6, 7
NAMES = {COMPUTE: "COMP_NODE", SEND: "COMM_SEND_NODE", RECEIVE: "COMM_RECV_NODE", COLLECTIVE: "COMM_COLL_NODE"}


class Node:
    def __init__(self, ident, kind, name, after=(), start_us=0, us=0, **attributes):
        self.ident, self.kind, self.name, self.after, self.start_us, self.us = ident, kind, name, list(after), start_us, us
        self.attributes = attributes

    def message(self):
        return (number(1, self.ident) + piece(2, self.name) + number(3, self.kind) +
                piece(5, b"".join(varint(one) for one in self.after)) + number(6, self.start_us) + number(7, self.us) +
                b"".join(piece(10, attribute(*one)) for one in self.attributes.items()))

    def rendered(self):
        """As protobuf's own JSON: numbers of 64 bits are texts."""
        kinds = {str: "stringVal", bool: "boolVal", int: "int64Val"}
        return {"id": str(self.ident), "name": self.name, "type": NAMES[self.kind], "dataDeps": [str(one) for one in self.after],
                "startTimeMicros": str(self.start_us), "durationMicros": str(self.us),
                "attr": [{"name": name, kinds[type(value)]: str(value) if type(value) is int else value}
                         for name, value in self.attributes.items()]}


def binary(nodes, metadata=piece(1, "0.0.4")):
    return b"".join(varint(len(one)) + one for one in (metadata, *(node.message() for node in nodes)))


def write(folder, name, data):
    path = os.path.join(folder, name)
    with open(path, "wb") as file:
        file.write(data if isinstance(data, bytes) else data.encode())
    return path


def job(rank):
    """Two ranks that compute, reduce, and send a message of each of two tags, which the other receives in the other order."""
    messages = [Node(3, SEND, "a", [2], 400, 10, comm_size=64, comm_src=0, comm_dst=1, comm_tag=1),
                Node(4, SEND, "b", [3], 420, 10, comm_size=128, comm_src=0, comm_dst=1, comm_tag=2)]
    if rank == 1:
        messages = [Node(3, RECEIVE, "b", [2], 400, 30, comm_size=128, comm_src=0, comm_dst=1, comm_tag=2),
                    Node(4, RECEIVE, "a", [3], 440, 10, comm_size=64, comm_src=0, comm_dst=1, comm_tag=1)]
    return [Node(1, COMPUTE, "forward", [], 100, 50, is_cpu_op=False),
            Node(2, COLLECTIVE, "ncclAllReduce", [1], 200 + 5 * rank, 100, is_cpu_op=False, comm_type=0, comm_size=4096, pg_name="dp"),
            *messages,
            Node(5, COLLECTIVE, "all_to_all", [4], 500, 100, is_cpu_op=False, comm_type=6, comm_size=256)]


WANTED = {0: [("AllReduce", 4096, 0, None, 200, 100), ("Send", 64, 0, 1, 400, 10), ("Send", 128, 1, 1, 420, 10),
              ("AlltoAll", 128, 0, None, 500, 100)],
          1: [("AllReduce", 4096, 0, None, 205, 100), ("Recv", 128, 1, 0, 400, 30), ("Recv", 64, 0, 0, 440, 10),
              ("AlltoAll", 128, 0, None, 500, 100)]}


def check_job(sandbox, folder):
    recording, said = imported(sandbox, folder)
    check_equal((said["format"], said["processes"], said["calls"], said["operations"]), ("chakra", 2, 8, 10), f"{said}")
    seen = {0: [], 1: []}
    for call in sorted_calls(calls_of(sandbox, recording)):
        check_equal((call["dtype"], call["communicator_size"], call["state"]), ("int8", 2, "finished"), call["op"])
        seen[call["rank"]].append((call["op"], call["bytes"], call["position"], call["peer"], call["time_ns"] // 1000,
                                   round(call["duration_s"] * 1e6)))
    check_equal(seen, WANTED, "calls")
    check_healthy(sandbox, recording)


def check_healthy(sandbox, recording):
    done = sandbox.run([sandbox.build.command, "diagnose", "--json", recording], sandbox.environment(preload=False), timeout=60)
    told = json.loads(done.out)
    check_equal(told["findings"], [], "a healthy job")
    check(any("not tell whether a process lives" in note for note in told["notes"]), f"what was not checked: {told['notes']}")


@case
def chakra_messages(sandbox):
    folder = sandbox.fresh("et")
    for rank in (0, 1):
        write(folder, f"job.{rank}.et", binary(job(rank)))
    check_job(sandbox, folder)


@case
def chakra_json(sandbox):
    folder = sandbox.fresh("json")
    for rank in (0, 1):
        lines = [json.dumps({"version": "0.0.4"})] + [json.dumps(node.rendered(), indent=2) for node in job(rank)]
        write(folder, f"rank_{rank}.json.gz", gzip.compress("\n".join(lines).encode()))
    check_job(sandbox, folder)


@case
def chakra_of_simulators(sandbox):
    """Without times, and what the host called beside what the GPU did: the order of dependencies, and the GPU's alone."""
    folder = sandbox.fresh("graph")
    graph = [{"Id": 30, "Name": "ncclKernel_Broadcast_RING_LL", "NodeType": 7, "data_deps": [20], "runtime": 28, "is_cpu_op": False},
             {"Id": 20, "Name": "c10d::broadcast_", "NodeType": 7, "data_deps": [10], "runtime": 80, "is_cpu_op": True},
             {"Id": 10, "Name": "aten::\"mm\" }]", "NodeType": 4, "data_deps": [], "runtime": 318, "is_cpu_op": True},
             {"Id": 40, "Name": "ncclKernel_AllReduce_Sum", "NodeType": 7, "data_deps": [30], "is_cpu_op": False, "comm_size": 64}]
    write(folder, "chakra.0.json", json.dumps({"workload_graph": graph, "workload_name": "w", "ngpus": 8}, indent=1))
    recording, said = imported(sandbox, folder)
    check(any("no times" in note for note in said["notes"]), f"{said['notes']}")
    calls = sorted_calls(calls_of(sandbox, recording))
    check_equal([(call["op"], call["bytes"], call["communicator_size"]) for call in calls], [("Broadcast", 0, 8), ("AllReduce", 64, 8)],
                "calls")
    check_healthy(sandbox, recording)


def torch_node(ident, name, values=(), types=(), attributes=(), old=False):
    outputs = [[7, 7, 0, 64, 4, "cuda:0"]] if name == "record_param_comms" else []
    if old:
        return {"name": name, "id": ident, "rf_id": ident, "parent": 1, "inputs": list(values), "input_types": list(types),
                "outputs": outputs}
    return {"id": ident, "name": name, "ctrl_deps": 1, "inputs": {"values": list(values), "shapes": [], "types": list(types)},
            "outputs": {"values": outputs, "shapes": [], "types": []},
            "attrs": [{"name": key, "type": "", "value": value} for key, value in attributes]}


def collective(ident, name, elements, group, rank, old=False, **attributes):
    tensor = [5, 6, 0, elements, 4, "cuda:0"]
    return torch_node(ident, "record_param_comms", [tensor, 3, group, rank, name, [], []],
                      ["Tensor(float)", "Int", "Int" if old else "Tuple[String,String]", "Int", "String", "GenericList[]", "GenericList[]"],
                      attributes.items(), old)


@case
def torchs_execution_traces(sandbox):
    for schema, old in (("1.0.1", True), ("1.1.1-chakra.0.0.4", False)):
        folder = sandbox.fresh("eg")
        for rank in (0, 1):
            group = 94594108284448 + rank if old else ["0", "default_pg"]
            groups = json.dumps([{"pg_name": "0", "pg_desc": "default_pg", "ranks": [0, 1], "group_size": 2}])
            nodes = [torch_node(1, "## process_group:init ##", [groups], ["String"], old=old), torch_node(2, "aten::mm", old=old),
                     collective(3, "allreduce", 256, group, rank, old),
                     torch_node(4, "record_param_comms", [3, group, rank, "wait", [], []],
                                ["Int", "Int", "Int", "String", "GenericList[]", "GenericList[]"], old=old),
                     collective(5, "reduce_scatter", 128, group, rank, old), collective(6, "all_to_allv", 96 + rank, group, rank, old)]
            write(folder, f"dlrm_eg_{rank}.json", json.dumps({"schema": schema, "pid": 1, "nodes": nodes}))
        recording, said = imported(sandbox, folder)
        check_equal((said["format"], said["calls"]), ("chakra", 6), f"{schema}: {said}")
        calls = [(call["op"], call["count"], call["dtype"], call["communicator_size"]) for call in sorted_calls(calls_of(sandbox, recording))]
        wanted = [("AllReduce", 256, "float32", 2), ("ReduceScatter", 64, "float32", 2), ("AlltoAll", 48, "float32", 2)]
        check_equal(calls, wanted * 2, schema)
        check_healthy(sandbox, recording)


@case
def damaged_chakra(sandbox):
    """What stands before the damage is read, and the message names file and byte."""
    folder, whole = sandbox.fresh("damaged"), binary(job(0))
    for name, data, words in (("cut.0.et", whole[:-7], "cut off"), ("length.0.et", whole + b"\xff" * 10, "a length that cannot be"),
                              ("field.0.et", binary(job(0)) + b"\x03\x08\xff\xff", "no node of Chakra"),
                              ("cut.0.json", json.dumps({"schema": "1.0.2-chakra", "nodes": [torch_node(1, "x"), collective(2, "allreduce", 4, ["0", ""], 0)]})[:-30],
                               "cut off")):
        path = write(folder, name, data)
        done = sandbox.run([sandbox.build.command, "import", path, "-o", os.path.join(sandbox.fresh("out"), "rec")],
                           sandbox.environment(preload=False))
        check_equal(done.status, 3, f"{name}: {done}")
        check(path in done.err and "at byte " in done.err and words in done.err, f"{name}: {done.err}")


# ---- OTF2 -----------------------------------------------------------------------------------------------------------


def archive(sandbox):
    writer = sandbox.build.program("exports", "write_otf2")
    if not os.path.exists(writer):
        raise Skipped("built without OTF2 (package libopen-trace-format2-dev)")
    folder = os.path.join(sandbox.fresh("otf2"), "archive")
    check_equal(sandbox.run([writer, folder]).status, 0, "write_otf2")
    return folder


@case
def otf2_of_score_p(sandbox):
    recording, said = imported(sandbox, archive(sandbox))
    check_equal((said["format"], said["processes"]), ("otf2", 3), f"{said}")
    calls = sorted_calls(calls_of(sandbox, recording))
    start = 1_700_000_000_000_000_000
    seen = {rank: [(call["op"], call["position"], call["peer"], call["tag"], call["time_ns"] - start,
                    call["time_ns"] - start + round(call["duration_s"] * 1e9)) for call in calls if call["rank"] == rank] for rank in range(3)}
    check_equal(seen[0], [("Init", None, None, None, 200, 900), ("Send", 2, 1, 7, 5000, 5200), ("Isend", 0, 2, 3, 6000, 6100),
                          ("Wait", None, None, None, 6200, 6300), ("Send", 0, 1, 1, 6400, 6500), ("Send", 1, 1, 2, 6500, 6600),
                          ("Sendrecv", 3, 1, 9, 8000, 8100), ("Sendrecv", 0, 2, 9, 8000, 8100), ("Bcast", 0, None, None, 9000, 9100),
                          ("Barrier", 0, None, None, 9200, 9300), ("Finalize", None, None, None, 9900, 9950)], "rank 0")
    check_equal(seen[1], [("Init", None, None, None, 200, 900), ("Recv", 2, 0, 7, 2000, 5300), ("Recv", 1, 0, 2, 6450, 6700),
                          ("Recv", 0, 0, 1, 6700, 6800), ("Sendrecv", 0, 2, 9, 8000, 8100), ("Sendrecv", 3, 0, 9, 8000, 8100),
                          ("Bcast", 0, None, None, 9010, 9100), ("Finalize", None, None, None, 9900, 9950)], "rank 1")
    check_equal(seen[2][1:3], [("Irecv", 0, 0, 3, 1000, 1100), ("Wait", None, None, None, 4000, 7000)], "rank 2, without its tests")
    wait = next(call for call in calls if (call["rank"], call["op"]) == (2, "Wait"))
    irecv = next(call for call in calls if call["op"] == "Irecv")
    check_equal((irecv["waiter"], irecv["completed_ns"] - start, irecv["bytes"]), (wait["seq"], 7000, 128), "the request")
    check_equal({call["root"] for call in calls if call["op"] == "Bcast"}, {2}, "root")
    check_equal({(call["label"], call["communicator_size"], call["communicator_rank"]) for call in calls if call["op"] == "Barrier"},
                {("rows", 2, 0), ("rows", 2, 1)}, "a communicator of two")
    check_equal({call["host"] for call in calls}, {"host0", "host1", "host2"}, "hosts")
    check_healthy(sandbox, recording)


@case
def late_senders(sandbox):
    """As Scalasca counts them: from when the receiver waits until the send begins."""
    folder = archive(sandbox)
    rows = {(row["op"], row["rank"]): row["wait_us"] for row in stats_of(sandbox, folder)["rows"]}
    check_equal((rows["Recv", 1], rows["Irecv", 2]), (3.05, 2.0), "two MPI_Recv of rank 1, MPI_Wait of rank 2")


@case
def damaged_otf2(sandbox):
    """A byte after another is changed: no crash of the command, and whatever could not be read is named."""
    folder = archive(sandbox)
    failed = 0
    for name in ("traces.otf2", "traces.def", "traces/0.evt", "traces/0.def"):
        with open(os.path.join(folder, name), "rb") as file:
            whole = file.read()
        used = len(whole.rstrip(b"\0"))
        for at in range(0, used, max(1, used // 10)):
            other = os.path.join(sandbox.fresh("damaged"), "archive")
            shutil.copytree(folder, other)
            write(other, name, whole[:at] + bytes([whole[at] ^ 0xff]) + whole[at + 1:])
            done = sandbox.run([sandbox.build.command, "import", other, "-o", other + "-rec"], sandbox.environment(preload=False))
            check(done.status in (0, 3), f"{name} at {at}: {done}")
            check("[OTF2]" not in done.err + done.out, f"{name} at {at}: {done}")
            if done.status == 3:
                failed += 1
                check(other in done.err, f"{name} at {at}: {done}")
            shutil.rmtree(os.path.dirname(other))
    check(failed > 5, f"{failed} of them were noticed")
