"""diagnose on dumps of torch's flight recorder, made in its format: pickles of every protocol, and JSON."""

import json
import os
import pickle

from common import bench_case, check, check_equal
from flight import Job, stamp


def training(ranks=4, steps=5, **more):
    job = Job(ranks, **more)
    for step in range(steps):
        job.all(range(ranks), "all_reduce", at=step)
    return job


def expect(bench, directory, kind, culprits, certainty=None, position=None):
    diagnosis, done = bench.diagnose(directory, statuses=(1,))
    finding = diagnosis["findings"][0]
    check_equal(finding["kind"], kind, f"kind of {done.out}")
    check_equal(finding["culprits"], culprits, f"culprits of {done.out}")
    if certainty:
        check_equal(finding["certainty"], certainty, "certainty")
    if position is not None:
        check_equal(finding["position"], position, "position")
    return diagnosis


def healthy(bench, directory):
    diagnosis, done = bench.diagnose(directory, statuses=(0,))
    check_equal(diagnosis["findings"], [], f"findings of {done.out}")
    return diagnosis


def note(diagnosis, words):
    return any(words in line for line in diagnosis["notes"])


@bench_case
def flight_every_format_gives_one_verdict(bench):
    job = training()
    job.all([0, 1, 3], "all_reduce", at=5, state="started")
    seen = []
    for index, (protocol, name) in enumerate([(2, "nccl_trace_rank_{}"), (3, "comm_lib_trace_rank_{}"), (4, "a{}.pkl"),
                                              (5, "{}.pickle"), (2, "rank_{}.json")]):
        directory = job.write(bench.sandbox.fresh(f"format{index}"), protocol=protocol, name=name)
        diagnosis = expect(bench, directory, "missing_participant", [2], "likely", 5)
        finding = diagnosis["findings"][0]
        check_equal(finding["victims"], [0, 1, 3], "victims")
        check_equal(finding["culprit_details"][0]["pid"], None, "a dump tells no pid")
        check("alive" not in finding["summary"], f"a dump does not tell who lives: {finding['summary']}")
        check(note(diagnosis, "not whether a process lives"), "what dumps do not tell is not said")
        seen.append((finding["kind"], finding["calls"][0]["count"], finding["calls"][0]["dtype"],
                     finding["communicator"]["id"], finding["began_at"]))
    check_equal(len(set(seen)), 1, "different verdicts")
    # Single files are as good as their folder, and the rank in the dump itself goes before that in the name.
    files = [os.path.join(directory, name) for name in os.listdir(directory)]
    expect(bench, directory, "missing_participant", [2])
    diagnosis, _ = bench.diagnose(*files, statuses=(1,))
    check_equal(diagnosis["findings"][0]["culprits"], [2], "culprits, by files")
    renamed = bench.sandbox.fresh("renamed")
    for rank in range(4):
        with open(os.path.join(renamed, f"dump_{9 - rank}"), "wb") as file:
            pickle.dump({**job.dump(rank), "rank": rank}, file, 4)
        stamp(file.name, 700)
    expect(bench, renamed, "missing_participant", [2])


@bench_case
def flight_every_version_is_read(bench):
    lacking = {"2.0": ["input_dtypes", "output_dtypes", "timeout_ms", "is_p2p", "thread_id", "thread_name", "retired"],
               "2.3": ["timeout_ms", "thread_id", "thread_name"], "2.5": ["thread_id", "thread_name"], "2.10": []}
    for version, keys in lacking.items():
        job = training(version=version)
        job.all([0, 1, 3], "all_reduce", at=5, state="started")
        for rank in job.ranks:
            for entry in rank.entries:
                for key in keys:
                    del entry[key]
        directory = job.write(bench.sandbox.fresh("version" + version))
        expect(bench, directory, "missing_participant", [2], "likely", 5)
    older = training(version="1.5").write(bench.sandbox.fresh("older"))
    done = bench.command("diagnose", older)
    check_equal(done.status, 3, f"status of {done}")
    check("version 1.5 of the flight recorder is not known here" in done.err, done.err)


@bench_case
def flight_guilty_first_rank(bench):
    job = training()
    job.all([0], "broadcast", at=5, state="started")
    job.all([1, 2, 3], "all_reduce", at=5, state="started")
    diagnosis = expect(bench, job.write(bench.sandbox.fresh("guilty")), "order_mismatch", [0], "certain", 5)
    check("train.py:49 in step" in json.dumps(diagnosis), "the line of the call is not named")


@bench_case
def flight_sizes_that_nccl_would_not_take(bench):
    job = training()
    job.all([0, 1, 3], "all_reduce", (4, 4), at=5, state="started")
    job.all([2], "all_reduce", (16, 2), at=5, state="started")
    expect(bench, job.write(bench.sandbox.fresh("size")), "argument_mismatch", [2], "certain", 5)
    job = training()
    job.all([0, 1, 3], "all_reduce", (16,), at=5, state="started")
    job.all([2], "all_reduce", (16,), at=5, state="started", dtype="BFloat16")
    expect(bench, job.write(bench.sandbox.fresh("type")), "argument_mismatch", [2], "certain", 5)
    # The same elements in other shapes, uneven all-to-alls, bytes by another name: NCCL sees no difference.
    job = training()
    job.all([0, 1], "all_reduce", (4, 4), at=5)
    job.all([2, 3], "all_reduce", (2, 8), at=5)
    for rank in range(4):
        job.all([rank], "all_to_all", (rank + 1,), at=6, outputs=[4 - rank])
    job.all([0, 1], "_all_gather_base", (8,), at=7, outputs=[32])
    job.all([2, 3], "_all_gather_base", (4,), at=7, outputs=[16], dtype="ComplexFloat")
    healthy(bench, job.write(bench.sandbox.fresh("same")))


@bench_case
def flight_missing_dump(bench):
    job = training()
    group = job.group("7", [1, 3], "TENSOR")
    job.all(range(3), "all_reduce", at=5, state="started")
    diagnosis = expect(bench, job.write(bench.sandbox.fresh("nodump"), ranks=[0, 1, 2]), "missing_participant", [3],
                       "suspected", 5)
    check_equal(diagnosis["coverage"]["unseen_ranks"], [3], "unseen ranks")
    job = training()
    group = job.group("7", [1, 3], "TENSOR")
    job.all([1, 3], "all_reduce", at=5, group=group)
    job.all([1], "all_reduce", at=6, state="started", group=group)
    expect(bench, job.write(bench.sandbox.fresh("subgroup"), ranks=[0, 1, 2]), "missing_participant", [3], "suspected", 1)


@bench_case
def flight_pipelines_in_both_directions(bench):
    job = training()
    for micro in range(3):
        for rank in range(4):
            if rank < 3:
                job.ranks[rank].send(rank + 1, 6 + micro)
            if rank > 0:
                job.ranks[rank].recv(rank - 1, 6 + micro)
        for rank in range(4):
            if rank > 0:
                job.ranks[rank].send(rank - 1, 6.5 + micro)
            if rank < 3:
                job.ranks[rank].recv(rank + 1, 6.5 + micro)
    healthy(bench, job.write(bench.sandbox.fresh("bidirectional")))
    job.ranks[1].recv(2, 10, "started")
    job.ranks[0].recv(1, 10, "started")
    diagnosis, _ = bench.diagnose(job.write(bench.sandbox.fresh("unsent")), statuses=(1,))
    check_equal([(finding["kind"], finding["culprits"]) for finding in diagnosis["findings"]],
                [("point_to_point_mismatch", [2])], "rank 0 waits for 1, which waits for 2")
    check_equal(diagnosis["findings"][0]["victims"], [0, 1], "victims")


@bench_case
def flight_coalesced_calls(bench):
    def batch(last):
        job = training()
        for rank in range(4):
            one = job.ranks[rank]
            one.send((rank + 1) % 4, 6, "scheduled")
            one.recv((rank - 1) % 4, 6, "scheduled", seq=True)
            one.record("coalesced", "0", None, 6, last, p2p=True, seq=True)
        for rank in range(4):
            for part in range(3):
                job.ranks[rank].record("_reduce_scatter_base", "0", [[32]], 7, "scheduled", outputs=[8], seq=part > 0)
            job.ranks[rank].record("REDUCE_SCATTER_coalesced", "0", None, 7, "completed", seq=True)
        return job

    job = batch("completed")
    healthy(bench, job.write(bench.sandbox.fresh("coalesced")))
    job.all([0, 1, 2], "all_reduce", at=8, state="started")
    expect(bench, job.write(bench.sandbox.fresh("after")), "missing_participant", [3], "likely", 6)
    job = batch("completed")
    for rank in range(4):
        for part in range(3 if rank != 1 else 2):
            job.ranks[rank].record("_all_gather_base", "0", [[8]], 9, "scheduled", outputs=[32], seq=part > 0)
        job.ranks[rank].record("ALLGATHER_coalesced", "0", None, 9, "started", seq=True)
    expect(bench, job.write(bench.sandbox.fresh("fewer")), "argument_mismatch", [1], "certain", 6)


@bench_case
def flight_rings_that_have_wrapped(bench):
    job = training(steps=300)
    job.all([0, 1, 2], "all_reduce", at=300, state="started")
    for rank in (0, 1):
        job.ranks[rank].recv(1 - rank, 301, "started")
    directory = job.write(bench.sandbox.fresh("wrapped"), at=900, keep=50)
    diagnosis = expect(bench, directory, "missing_participant", [3], "likely", 300)
    check(note(diagnosis, "ring has wrapped"), "that earlier calls are lost is not said")
    job = training(steps=300)
    job.all([0, 2, 3], "all_reduce", at=300, state="started")
    job.all([1], "all_gather", at=300, state="started")
    for rank, more in enumerate((0, 3, 5, 1)):  # none begins where another does
        for _ in range(more):
            job.ranks[rank].send((rank + 1) % 4, 301)
    expect(bench, job.write(bench.sandbox.fresh("shifted"), at=900, keep=50), "order_mismatch", [1], "certain", 300)


@bench_case
def flight_messages_that_cannot_be_matched(bench):
    """Numbers of messages are counted from the first: none may be accused where that is not there."""
    job = training()
    for rank, peer in ((0, 1), (1, 0)):
        for _ in range(3):
            job.ranks[rank].send(peer, 6)
            job.ranks[rank].recv(peer, 6)
    job.ranks[0].recv(1, 7, "started")
    job.ranks[1].send(0, 7, "started")
    emptied = job.ranks[1]
    emptied.entries = [entry for entry in emptied.entries if entry["p2p_seq_id"] > 4]  # reset: records begin anew
    for record, entry in enumerate(emptied.entries):
        entry["record_id"] = record
    check(note(healthy(bench, job.write(bench.sandbox.fresh("emptied"))), "not matched"), "that nothing is matched is not said")
    job = training()
    job.ranks[0].send(1, 7, "started")
    job.ranks[1].record("recv 1<-?", "0", [[4, 4]], 7, "started", p2p=True)
    check(note(healthy(bench, job.write(bench.sandbox.fresh("anyone"))), "not matched"), "that nothing is matched is not said")


@bench_case
def flight_group_that_one_rank_has_not_used(bench):
    job = training()
    group = job.group("9", [0, 2], "dp")
    job.all([0], "all_reduce", at=5, state="started", group=group)
    directory = job.write(bench.sandbox.fresh("unused"))
    for rank in (2,):
        dump = job.dump(rank)
        del dump["pg_config"]["9"]
        path = os.path.join(directory, f"nccl_trace_rank_{rank}")
        with open(path, "wb") as file:
            pickle.dump(dump, file, 2)
        stamp(path, 700)
    expect(bench, directory, "missing_participant", [2], "likely", 0)


@bench_case
def flight_gloo_tells_no_group_and_no_completion(bench):
    job = training(backend="gloo")
    for rank in job.ranks:
        for entry in rank.entries:
            entry.update(state="scheduled", retired=True, time_discovered_started_ns=None,
                         time_discovered_completed_ns=None)
    diagnosis = healthy(bench, job.write(bench.sandbox.fresh("gloo"), config=False))
    check(note(diagnosis, "no dump tells its ranks"), "that the group is guessed is not said")
    job.all([0, 1, 2], "all_reduce", at=5, state="scheduled", retired=False)
    expect(bench, job.write(bench.sandbox.fresh("hung"), config=False), "missing_participant", [3], "likely", 5)
    job = training(backend="gloo")
    job.all([0, 1, 2], "all_reduce", at=5, state="scheduled", retired=True)  # failed: rank 3 never came
    expect(bench, job.write(bench.sandbox.fresh("failed"), config=False), "missing_participant", [3], "likely", 5)


@bench_case
def flight_times_of_the_files(bench):
    job = training()
    job.all([0, 1, 3], "all_reduce", at=5, state="started")
    # Dumped at once: a job that goes on. Copied a day later: when the dump was written is not known any more.
    healthy(bench, job.write(bench.sandbox.fresh("atonce"), at=5.1))
    for name, at in (("copied", 86400 * 2), ("unpacked", -1000)):
        diagnosis = expect(bench, job.write(bench.sandbox.fresh(name), at=at), "missing_participant", [2], "suspected", 5)
        check(note(diagnosis, "when the dumps were written is not known"), f"{name}: not said")


@bench_case
def flight_calls_are_listed(bench):
    job = training(2, 3)
    rows = bench.calls(job.write(bench.sandbox.fresh("listed")))
    check_equal(len(rows), 6, "calls")


@bench_case
def flight_opposite_orders_are_no_proof(bench):
    """Which streams the calls are on no dump tells: never certain, and nothing where they may be over in a moment."""
    job = training(2)
    other = job.group("9", [0, 1], "tp")
    for rank, groups in ((0, ("0", other)), (1, (other, "0"))):
        for group in groups:
            job.all([rank], "all_reduce", at=5, state="scheduled", group=group)
    diagnosis = expect(bench, job.write(bench.sandbox.fresh("opposite")), "deadlock", [0, 1], "suspected")
    check("stream 0x" not in json.dumps(diagnosis), "a stream is named")
    healthy(bench, job.write(bench.sandbox.fresh("atonce"), at=6))


def pipelines():
    """Two pipelines of two stages, each stage two ranks wide: groups of numbers as Megatron gives them."""
    job = training(8)
    groups = {name: job.group(name, ranks, described) for name, ranks, described in (
        ("5", [0, 1], "TENSOR"), ("6", [2, 3], "TENSOR"), ("7", [4, 5], "TENSOR"), ("8", [6, 7], "TENSOR"),
        ("9", [0, 4], "PIPELINE"), ("10", [1, 5], "PIPELINE"), ("11", [2, 6], "PIPELINE"), ("12", [3, 7], "PIPELINE"),
        ("21", [4, 5, 6, 7], "EXPERT"))}
    for step in range(5, 9):
        for name, ranks in (("5", [0, 1]), ("6", [2, 3]), ("7", [4, 5]), ("8", [6, 7])):
            job.all(ranks, "_all_gather_base", (8,), at=step, outputs=[16], group=groups[name])
        for name, (first, second) in (("9", (0, 4)), ("10", (1, 5)), ("11", (2, 6)), ("12", (3, 7))):
            job.ranks[first].send(second, step + 0.2, group=groups[name])
            job.ranks[second].recv(first, step + 0.2, group=groups[name])
        for rank in (4, 5, 6, 7):
            job.all([rank], "all_to_all", (rank + 1, 16), at=step + 0.4, group=groups["21"])
    return job


def only(bench, directory, kind, culprits, certainty):
    diagnosis = expect(bench, directory, kind, culprits, certainty)
    check_equal(len(diagnosis["findings"]), 1, f"nobody else is accused: {[f['summary'] for f in diagnosis['findings']]}")
    check(note(diagnosis, "only calls that were under way"), diagnosis["notes"])
    check(not note(diagnosis, "ring has wrapped"), diagnosis["notes"])
    return diagnosis


@bench_case
def flight_active_only_idle_rank(bench):
    """Rank 6 does nothing, and its dump is empty: the others of its groups wait for it, and the first stage for them."""
    for status in (True, False):
        job = pipelines()
        job.all([7], "_all_gather_base", (8,), at=9, outputs=[16], state="scheduled", group="8")
        for rank in (4, 5, 7):
            job.all([rank], "all_to_all", (rank + 1, 16), at=9.4, state="scheduled", group="21")
        for first, second, name in ((0, 4, "9"), (1, 5, "10"), (2, 6, "11"), (3, 7, "12")):
            job.ranks[first].send(second, 9.5, "scheduled", group=name)
            job.ranks[first].recv(second, 9.6, "scheduled", group=name)
        directory = job.write_active(bench.sandbox.fresh(f"idle{status}"), status=status)
        check_equal(job.active_dump(6)["entries"], [], "the dump of the idle rank")
        diagnosis = only(bench, directory, "missing_participant", [6], "likely")
        check("AlltoAll of 20" in json.dumps(diagnosis["findings"][0]["summary"]) or
              "AllGather of 8" in diagnosis["findings"][0]["summary"], diagnosis["findings"][0]["summary"])
    # Copied, the files have lost their times.
    only(bench, job.write_active(bench.sandbox.fresh("copied"), at=86400 * 2), "missing_participant", [6], "suspected")


@bench_case
def flight_active_only_gpu_that_is_behind(bench):
    """Ranks 4 and 6 have the calls under way that 5 and 7 have finished with them; rank 4 calls less than the others."""
    job = pipelines()
    for position in range(3):
        at = 9 + position / 10
        for rank in (4, 5, 6, 7):
            state = "completed" if rank in (5, 7) else "scheduled"
            job.all([rank], "all_to_all", (rank + 1, 16), at=at, state=state, group="21")
    job.all([5, 6, 7], "all_to_all", (1, 16), at=9.4, state="scheduled", group="21")
    job.all([0, 1], "_all_gather_base", (8,), at=9.4, outputs=[16], state="scheduled", group="5")
    directory = job.write_active(bench.sandbox.fresh("behind"))
    diagnosis = only(bench, directory, "device_stall", [4, 6], "likely")
    states = {call["state"]: call["ranks"] for call in diagnosis["findings"][0]["calls"]}
    check_equal(states.get("finished"), [5, 7], f"states: {states}")


@bench_case
def flight_active_only_opposite_orders(bench):
    """Streams are not in a dump, and what came before is not either: their order accuses nobody."""
    job = pipelines()
    for ranks, names in (((4, 5), ("7", "21")), ((6, 7), ("21", "8"))):
        for name in names:
            for rank in ranks:
                job.all([rank], "all_to_all" if name == "21" else "_all_gather_base", (8,), at=9, outputs=[16],
                        state="scheduled", group=name)
    diagnosis, done = bench.diagnose(job.write_active(bench.sandbox.fresh("orders")), statuses=(0, 1))
    check_equal([f for f in diagnosis["findings"] if f["kind"] == "deadlock"], [], f"no deadlock: {done.out}")
    check_equal(diagnosis["healthy"], False, "calls under way are not healthy")


@bench_case
def flight_active_only_healthy(bench):
    healthy(bench, pipelines().write_active(bench.sandbox.fresh("idle")))
    job = pipelines()
    job.all([4, 5, 6], "all_to_all", (8,), at=9, outputs=[16], state="scheduled", group="21")
    healthy(bench, job.write_active(bench.sandbox.fresh("atonce"), at=9.1))


@bench_case
def flight_names_of_files(bench):
    """The rank stands behind the last "rank", wherever that is; the name of a host may end in a number."""
    for pattern in ("nccl_trace_rank_{}", "rank{}_gpu7", "fr.rank-{}.node17", "trace_node17_rank_{}.pkl", "node3-{}"):
        job = Job(4)
        job.all(range(4), "all_reduce", at=0)
        job.all([0, 1, 3], "all_reduce", at=1, state="started")
        folder = job.write(bench.sandbox.fresh("named"), name=pattern)
        diagnosis, _ = bench.diagnose(folder)
        check_equal([(one["kind"], one["culprits"]) for one in diagnosis["findings"]], [("missing_participant", [2])], pattern)
