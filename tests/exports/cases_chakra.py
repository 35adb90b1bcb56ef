"""export --to chakra: the nodes of each rank against `trace --json`."""

import os

from common import Exported, calls_of, case, check, check_equal, need

COMMUNICATION = {"AllReduce": 0, "AllGather": 2, "Broadcast": 5}


def by_rank(out):
    from chakra_reader import read
    ranks = {}
    for path in out.said["files"]:
        version, nodes = read(path)
        check_equal(version, "0.0.4", "version")
        ranks[int(os.path.basename(path).split(".")[1])] = nodes
    return ranks


def check_order(nodes):
    """What a simulator needs: numbers from 0, and nothing waits for what comes later."""
    check_equal([node.id for node, _ in nodes], list(range(len(nodes))), "numbers of nodes")
    for node, _ in nodes:
        check(all(other < node.id for other in node.data_deps), f"node {node.id} waits for {list(node.data_deps)}")


@case
def chakra_is_what_trace_lists(sandbox):
    need("google.protobuf")
    from chakra_reader import COLLECTIVE, COMPUTE
    from common_jobs import recorded
    job = recorded(sandbox)
    ranks = by_rank(Exported(sandbox, job.directory, "chakra", "et"))
    calls = calls_of(sandbox, job.directory)
    check_equal(sorted(ranks), [0, 1], "files")
    for rank, nodes in ranks.items():
        check_order(nodes)
        made = [call for call in calls if call["rank"] == rank and call["op"] in COMMUNICATION and call["count"]]
        seen = [(node.name, values["comm_type"], values["comm_size"], values["seq"], node.start_time_micros,
                 node.duration_micros) for node, values in nodes if node.type == COLLECTIVE]
        check_equal(seen, [(call["op"], COMMUNICATION[call["op"]], call["bytes"], call["seq"], call["time_ns"] // 1000,
                            int(round(call["duration_s"] * 1e9)) // 1000) for call in made], f"collectives of rank {rank}")
        check(any(node.type == COMPUTE for node, _ in nodes), "nothing lies between the calls")
        chained = [node for node, _ in nodes[1:] if not node.data_deps]
        check_equal(chained, [], "nodes that wait for nothing")


@case
def chakra_has_messages(sandbox):
    need("google.protobuf")
    from chakra_reader import RECEIVE, SEND
    from common_jobs import messages
    directory = messages(sandbox)
    ranks = by_rank(Exported(sandbox, directory, "chakra", "et"))
    ends = {rank: [(node.type, values["comm_src"], values["comm_dst"], values["comm_size"]) for node, values in nodes
                   if node.type in (SEND, RECEIVE)] for rank, nodes in ranks.items()}
    check_equal(ends, {0: [(SEND, 0, 1, 64)], 1: [(RECEIVE, 0, 1, 64)]}, "ends of the message")
